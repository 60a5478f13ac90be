//! Decay functions, as Elasticsearch's function_score documents them: with d the distance from
//! the origin less the offset, gauss is exp(-d²/2σ²) with σ² = -scale²/(2 ln decay), exp is
//! exp(λd) with λ = ln(decay)/scale, linear is max(0, (s - d)/s) with s = scale/(1 - decay).

use tantivy::{DocId, SegmentReader};

use super::BLOCK;
use super::column::{AsF64 as _, Numbers, Points, reduce};
use crate::geo::{GeoPoint, distance_m};
use crate::partition::Target;
use crate::query::ast::{DecayShape, ValueMode};

/// A decay whose origin and distances are numbers.
#[derive(Clone, Debug)]
pub(crate) struct NumericDecay {
    pub target: Target,
    pub origin: Origin,
    pub offset: f64,
    pub shape: Shape,
    pub mode: ValueMode,
}

/// Where a decay starts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// A number, or a date in the column's unit.
    Number(f64),
    Place(GeoPoint),
}

/// A shape with its scale worked in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    kind: Curve,
    factor: f64,
}

#[derive(Clone, Copy, Debug)]
enum Curve {
    Decay(DecayShape),
    /// pivot / (pivot + d)
    Pivot,
}

impl Shape {
    /// `scale` is more than 0, `decay` between 0 and 1.
    pub(crate) fn new(kind: DecayShape, scale: f64, decay: f64) -> Self {
        let factor = match kind {
            DecayShape::Gauss => 0.5 * scale * scale / decay.ln(),
            DecayShape::Exp => decay.ln() / scale,
            DecayShape::Linear => scale / (1.0 - decay),
        };
        Self { kind: Curve::Decay(kind), factor }
    }

    /// The curve of `distance_feature`, whose pivot is half of this linear decay's reach: with a
    /// decay of one half, the reach is twice the scale.
    pub(crate) fn into_pivot(self) -> Self {
        Self { kind: Curve::Pivot, factor: self.factor / 2.0 }
    }

    #[inline]
    pub(crate) fn value(self, distance: f64) -> f64 {
        match self.kind {
            Curve::Decay(DecayShape::Gauss) => (0.5 * distance * distance / self.factor).exp(),
            Curve::Decay(DecayShape::Exp) => (self.factor * distance).exp(),
            Curve::Decay(DecayShape::Linear) => ((self.factor - distance) / self.factor).max(0.0),
            Curve::Pivot => self.factor / (self.factor + distance),
        }
    }
}

/// A decay bound to a segment.
pub(crate) enum SegmentDecay {
    Numbers { column: Numbers, decay: NumericDecay, origin: f64, scratch: Vec<f64> },
    Places { points: Option<Points>, decay: NumericDecay, origin: GeoPoint, scratch: Vec<f64> },
}

impl NumericDecay {
    pub(crate) fn segment(&self, reader: &SegmentReader) -> tantivy::Result<SegmentDecay> {
        let (decay, scratch) = (self.clone(), Vec::new());
        Ok(match self.origin {
            Origin::Number(origin) => {
                let column = Numbers::open(reader, &self.target)?;
                SegmentDecay::Numbers { column, decay, origin, scratch }
            }
            Origin::Place(origin) => {
                let points = Points::open(reader, &self.target)?;
                SegmentDecay::Places { points, decay, origin, scratch }
            }
        })
    }
}

impl SegmentDecay {
    /// The decay of each document of a block; 1 for one that has no value.
    pub(crate) fn evaluate(&mut self, docs: &[DocId], out: &mut [f64]) {
        match self {
            Self::Numbers { column, decay, origin, scratch } => {
                if column.is_single() {
                    column.first(docs, f64::NAN, out);
                    for value in out.iter_mut() {
                        let distance = (*value - *origin).abs() - decay.offset;
                        *value =
                            if value.is_nan() { 1.0 } else { decay.shape.value(distance.max(0.0)) };
                    }
                } else {
                    for (doc, out) in docs.iter().zip(out) {
                        scratch.clear();
                        column.values(*doc, scratch);
                        *out = several(scratch, decay, |value| (value - *origin).abs());
                    }
                }
            }
            Self::Places { points: None, .. } => out.fill(1.0),
            Self::Places { points: Some(points), decay, origin, scratch } => {
                if points.is_single() {
                    places(points, docs, decay, *origin, out);
                } else {
                    for (doc, out) in docs.iter().zip(out) {
                        scratch.clear();
                        scratch.extend(
                            points
                                .of(*doc)
                                .map(|(lat, lon)| distance_m(*origin, GeoPoint { lat, lon })),
                        );
                        *out = several(scratch, decay, |distance| distance);
                    }
                }
            }
        }
    }
}

fn places(
    points: &Points,
    docs: &[DocId],
    decay: &NumericDecay,
    origin: GeoPoint,
    out: &mut [f64],
) {
    let mut lons = [0.0; BLOCK];
    let lons = &mut lons[..docs.len()];
    super::column::first(&points.latitude, docs, f64::NAN, out);
    super::column::first(&points.longitude, docs, f64::NAN, lons);
    for (out, lon) in out.iter_mut().zip(lons) {
        let place = GeoPoint { lat: *out, lon: *lon };
        *out = if place.lat.is_nan() {
            1.0
        } else {
            decay.shape.value((distance_m(origin, place) - decay.offset).max(0.0))
        };
    }
}

fn several(values: &mut [f64], decay: &NumericDecay, distance: impl Fn(f64) -> f64) -> f64 {
    for value in values.iter_mut() {
        *value = (distance(*value) - decay.offset).max(0.0);
    }
    reduce(values, decay.mode).map_or(1.0, |distance| decay.shape.value(distance))
}

/// The pseudo-random number of a document, 0 up to 1, as far apart for neighbours as a hash is.
pub(crate) fn random(seed: u64, salt: u64) -> f64 {
    // SplitMix64's finisher (Steele, Lea, Flood 2014).
    let mut hash = seed ^ salt.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    hash ^= hash >> 31;
    (hash >> 40).as_f64() / (1u64 << 24).as_f64()
}
