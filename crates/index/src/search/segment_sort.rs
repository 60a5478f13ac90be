//! The keys by which documents of one segment are sorted: whole numbers in the order of the
//! values, so that one comparison serves all types. Strings are their places in the segment's
//! dictionary, and become strings again only for the documents that are kept.

use tantivy::fastfield::Column;
use tantivy::{DocId, Searcher};

use super::numbers;
use super::result::SortValue;
use super::sort::Missing;
use crate::error::Error;
use crate::geo::{GeoPoint, distance_m};
use crate::partition::Target;
use crate::query::ast::ValueMode;
use crate::query::exec::BLOCK;
use crate::query::exec::column::{Points, reduce};
use crate::query::script::evaluate::{Bound, SegmentScript};

use super::failure::internal;

/// A clause of `sort` whose field is known.
#[derive(Clone, Debug)]
pub(super) struct BoundClause {
    pub by: BoundBy,
    pub descending: bool,
}

/// What a bound clause sorts by. Values that documents lack are filled in already.
#[derive(Clone, Debug)]
pub(super) enum BoundBy {
    Score,
    Doc,
    Long { target: Option<Target>, missing: i64, mode: ValueMode },
    Unsigned { target: Option<Target>, missing: u64, mode: ValueMode, as_long: bool },
    Double { target: Option<Target>, missing: f64, mode: ValueMode },
    Text { target: Option<Target>, missing: Missing, mode: ValueMode },
    Geo { target: Option<Target>, points: Vec<GeoPoint>, metres: f64, mode: ValueMode },
    Script { bound: Bound },
}

/// A bound clause in one segment.
pub(super) struct SegmentClause {
    source: Source,
    /// Of its column.
    name: Option<String>,
    descending: bool,
}

enum Source {
    Score,
    /// The number of the segment's first document.
    Doc(i64),
    Long {
        column: Option<Column<i64>>,
        missing: i64,
        mode: ValueMode,
    },
    Unsigned {
        column: Option<Column<u64>>,
        missing: u64,
        mode: ValueMode,
        as_long: bool,
    },
    Double {
        column: Option<Column<f64>>,
        missing: f64,
        mode: ValueMode,
    },
    Text(Box<TextSource>),
    Geo {
        points: Option<Points>,
        origins: Vec<GeoPoint>,
        metres: f64,
        mode: ValueMode,
    },
    Script(SegmentScript),
}

struct TextSource {
    column: Option<tantivy::columnar::StrColumn>,
    /// The key of documents without a value, before it is turned for descending order.
    missing: u64,
    missing_value: SortValue,
    mode: ValueMode,
}

const fn key_of_i64(value: i64) -> u64 {
    value.cast_unsigned() ^ (1 << 63)
}

const fn i64_of_key(key: u64) -> i64 {
    (key ^ (1 << 63)).cast_signed()
}

/// IEEE 754 numbers in their order, as whole numbers.
const fn key_of_f64(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 0 { bits ^ (1 << 63) } else { !bits }
}

const fn f64_of_key(key: u64) -> f64 {
    f64::from_bits(if key >> 63 == 1 { key ^ (1 << 63) } else { !key })
}

impl BoundBy {
    /// The name of the column that it goes by.
    fn column(&self) -> Option<String> {
        match self {
            Self::Long { target, .. }
            | Self::Unsigned { target, .. }
            | Self::Double { target, .. }
            | Self::Text { target, .. } => target.as_ref()?.column.clone(),
            Self::Score | Self::Doc | Self::Geo { .. } | Self::Script { .. } => None,
        }
    }
}

impl BoundClause {
    pub(super) fn segment(
        &self,
        searcher: &Searcher,
        segment: u32,
    ) -> Result<SegmentClause, Error> {
        let reader = searcher.segment_reader(segment);
        let fast = reader.fast_fields();
        let name = self.by.column();
        let source = match &self.by {
            BoundBy::Score => Source::Score,
            BoundBy::Doc => Source::Doc(numbers::first_of(searcher, segment)),
            BoundBy::Long { missing, mode, .. } => {
                let column = match &name {
                    Some(name) => fast.column_opt::<i64>(name).map_err(internal)?,
                    None => None,
                };
                Source::Long { column, missing: *missing, mode: *mode }
            }
            BoundBy::Unsigned { missing, mode, as_long, .. } => {
                let column = match &name {
                    Some(name) => fast.column_opt::<u64>(name).map_err(internal)?,
                    None => None,
                };
                Source::Unsigned { column, missing: *missing, mode: *mode, as_long: *as_long }
            }
            BoundBy::Double { missing, mode, .. } => {
                let column = match &name {
                    Some(name) => fast.column_opt::<f64>(name).map_err(internal)?,
                    None => None,
                };
                Source::Double { column, missing: *missing, mode: *mode }
            }
            BoundBy::Text { missing, mode, .. } => {
                let column = match &name {
                    Some(name) => fast.str(name).map_err(internal)?,
                    None => None,
                };
                let (missing, missing_value) = match missing {
                    // The greatest key comes last, or first where the order is turned.
                    Missing::Last => (if self.descending { 0 } else { u64::MAX }, SortValue::Null),
                    Missing::First => (if self.descending { u64::MAX } else { 0 }, SortValue::Null),
                    Missing::As(value) => {
                        let text = crate::query::parse::as_text(value);
                        (place(column.as_ref(), &text)?, SortValue::Text(text))
                    }
                };
                Source::Text(Box::new(TextSource { column, missing, missing_value, mode: *mode }))
            }
            BoundBy::Geo { target, points, metres, mode } => {
                let columns = match target {
                    Some(target) => Points::open(reader, target).map_err(internal)?,
                    None => None,
                };
                let (origins, metres, mode) = (points.clone(), *metres, *mode);
                Source::Geo { points: columns, origins, metres, mode }
            }
            BoundBy::Script { bound } => Source::Script(bound.segment(reader).map_err(internal)?),
        };
        Ok(SegmentClause { source, name, descending: self.descending })
    }

    /// Whether keys of different segments can be compared.
    pub(super) const fn is_global(&self) -> bool {
        !matches!(self.by, BoundBy::Text { .. } | BoundBy::Doc)
    }

    pub(super) const fn uses_score(&self) -> bool {
        match &self.by {
            BoundBy::Score => true,
            BoundBy::Script { bound } => bound.uses_score,
            _ => false,
        }
    }
}

/// The key of a string: an odd number lies between the strings of the dictionary.
fn place(column: Option<&tantivy::columnar::StrColumn>, text: &str) -> Result<u64, Error> {
    let Some(column) = column else { return Ok(1) };
    let dictionary = column.dictionary();
    let io = |error: std::io::Error| Error::internal(error.to_string());
    if let Some(ord) = dictionary.term_ord(text).map_err(io)? {
        return Ok(2 * ord + 2);
    }
    let bounds = dictionary
        .term_bounds_to_ord(std::ops::Bound::Included(text), std::ops::Bound::Unbounded)
        .map_err(io)?;
    let next = match bounds.0 {
        std::ops::Bound::Included(ord) | std::ops::Bound::Excluded(ord) => ord,
        std::ops::Bound::Unbounded => 0,
    };
    Ok(2 * next.min(dictionary.num_terms() as u64) + 1)
}

impl SegmentClause {
    /// The keys of a block's documents; the least key comes first in the answer.
    pub(super) fn keys(&mut self, docs: &[DocId], scores: &[f32], out: &mut [u64]) {
        match &mut self.source {
            Source::Score => {
                for (out, score) in out.iter_mut().zip(scores) {
                    *out = key_of_f64(f64::from(*score));
                }
            }
            Source::Doc(first) => {
                for (out, doc) in out.iter_mut().zip(docs) {
                    *out = key_of_i64(*first + i64::from(*doc));
                }
            }
            Source::Long { column, missing, mode } => {
                column_keys(column.as_ref(), docs, *missing, *mode, key_of_i64, out);
            }
            Source::Unsigned { column, missing, mode, .. } => {
                column_keys(column.as_ref(), docs, *missing, *mode, |value| value, out);
            }
            Source::Double { column, missing, mode } => {
                column_keys(column.as_ref(), docs, *missing, *mode, key_of_f64, out);
            }
            Source::Text(text) => {
                let ords = text.column.as_ref().map(|column| column.ords());
                match ords {
                    None => out.fill(text.missing),
                    Some(ords) => {
                        for (out, doc) in out.iter_mut().zip(docs) {
                            let values = ords.values_for_doc(*doc);
                            let ord = if text.mode == ValueMode::Max {
                                values.max()
                            } else {
                                values.min()
                            };
                            *out = ord.map_or(text.missing, |ord| 2 * ord + 2);
                        }
                    }
                }
            }
            Source::Geo { points, origins, metres, mode } => {
                let mut distances = Vec::new();
                for (out, doc) in out.iter_mut().zip(docs) {
                    distances.clear();
                    if let Some(points) = points {
                        for (lat, lon) in points.of(*doc) {
                            let place = GeoPoint { lat, lon };
                            distances
                                .extend(origins.iter().map(|origin| distance_m(*origin, place)));
                        }
                    }
                    let distance = reduce(&mut distances, *mode);
                    let absent = if self.descending { f64::NEG_INFINITY } else { f64::INFINITY };
                    *out = key_of_f64(distance.map_or(absent, |distance| distance / *metres));
                }
            }
            Source::Script(script) => {
                let mut values = [0.0; BLOCK];
                let values = &mut values[..docs.len()];
                script.evaluate(docs, scores, values);
                for (out, value) in out.iter_mut().zip(values) {
                    *out = key_of_f64(*value);
                }
            }
        }
        if self.descending {
            for key in out {
                *key = !*key;
            }
        }
    }

    /// The value that a key stands for.
    pub(super) fn value(&self, key: u64) -> Result<SortValue, Error> {
        let key = if self.descending { !key } else { key };
        Ok(match &self.source {
            #[expect(clippy::cast_possible_truncation, reason = "it was made of 32 bits")]
            Source::Score => SortValue::Score(f64_of_key(key) as f32),
            Source::Doc(_) | Source::Long { .. } => SortValue::Long(i64_of_key(key)),
            Source::Unsigned { as_long: true, .. } => SortValue::Long(key.cast_signed()),
            Source::Unsigned { .. } => SortValue::Unsigned(key),
            Source::Double { .. } | Source::Geo { .. } | Source::Script(_) => {
                SortValue::Double(f64_of_key(key))
            }
            Source::Text(text) => {
                if key == text.missing {
                    return Ok(text.missing_value.clone());
                }
                let mut found = String::new();
                if let Some(column) = &text.column {
                    column
                        .ord_to_str((key - 2) / 2, &mut found)
                        .map_err(|error| Error::internal(error.to_string()))?;
                }
                SortValue::Text(found)
            }
        })
    }

    /// The key of a value, as [`Self::keys`] gives it.
    pub(super) fn key(&self, value: &SortValue) -> Result<u64, Error> {
        let key = match (&self.source, value) {
            (Source::Text(text), SortValue::Text(value)) => place(text.column.as_ref(), value)?,
            (Source::Text(text), _) => text.missing,
            (Source::Doc(_) | Source::Long { .. }, SortValue::Long(number)) => key_of_i64(*number),
            (Source::Unsigned { .. }, SortValue::Unsigned(number)) => *number,
            (Source::Unsigned { .. }, SortValue::Long(number)) => {
                u64::try_from(*number).unwrap_or(u64::MAX)
            }
            (_, SortValue::Double(number)) => key_of_f64(*number),
            (_, SortValue::Score(score)) => key_of_f64(f64::from(*score)),
            _ => 0,
        };
        Ok(if self.descending { !key } else { key })
    }

    /// What the keys depend on besides the segment, where they are a column's and who lacks a value is first or last.
    pub(super) fn column(&self) -> Option<String> {
        let (kind, key, mode) = match &self.source {
            Source::Long { column: Some(_), missing, mode } => ("long", key_of_i64(*missing), mode),
            Source::Unsigned { column: Some(_), missing, mode, .. } => ("unsigned", *missing, mode),
            Source::Double { column: Some(_), missing, mode } => {
                // Beyond the infinities lie only the keys of what is no number.
                let key = match *missing {
                    f64::NEG_INFINITY => 0,
                    f64::INFINITY => u64::MAX,
                    _ => 1,
                };
                ("double", key, mode)
            }
            Source::Text(text) if text.column.is_some() => ("text", text.missing, &text.mode),
            _ => return None,
        };
        // Whoever asks might name another value each time.
        let missing = match key {
            0 => "least",
            u64::MAX => "greatest",
            _ => return None,
        };
        let name = self.name.as_ref()?;
        Some(format!("{name} {kind} {missing} {mode:?} {}", self.descending))
    }

    /// The least key that any document of the segment can have, where the column tells.
    pub(super) fn least_key(&self) -> Option<u64> {
        let (low, high, missing) = match &self.source {
            // A sum lies beyond what it is of.
            Source::Long { mode: ValueMode::Sum, .. }
            | Source::Unsigned { mode: ValueMode::Sum, .. }
            | Source::Double { mode: ValueMode::Sum, .. } => return None,
            Source::Long { column: Some(column), missing, .. } => (
                key_of_i64(column.min_value()),
                key_of_i64(column.max_value()),
                key_of_i64(*missing),
            ),
            Source::Double { column: Some(column), missing, .. } => (
                key_of_f64(column.min_value()),
                key_of_f64(column.max_value()),
                key_of_f64(*missing),
            ),
            Source::Unsigned { column: Some(column), missing, .. } => {
                (column.min_value(), column.max_value(), *missing)
            }
            _ => return None,
        };
        Some(if self.descending { !high.max(missing) } else { low.min(missing) })
    }
}

/// The keys of a column of numbers.
fn column_keys<T>(
    column: Option<&Column<T>>,
    docs: &[DocId],
    missing: T,
    mode: ValueMode,
    key: impl Fn(T) -> u64,
    out: &mut [u64],
) where
    T: Copy + PartialOrd + std::fmt::Debug + Send + Sync + 'static + FromF64 + Default,
{
    let Some(column) = column else {
        out.fill(key(missing));
        return;
    };
    if column.get_cardinality() != tantivy::columnar::Cardinality::Multivalued {
        let mut values = [None; BLOCK];
        let values = &mut values[..docs.len()];
        column.first_vals(docs, values);
        for (out, value) in out.iter_mut().zip(values) {
            *out = key(value.unwrap_or(missing));
        }
        return;
    }
    for (out, doc) in out.iter_mut().zip(docs) {
        let values = column.values_for_doc(*doc);
        let one = match mode {
            ValueMode::Min => values.reduce(|a, b| if b < a { b } else { a }),
            ValueMode::Max => values.reduce(|a, b| if b > a { b } else { a }),
            _ => {
                let mut numbers: Vec<f64> = values.map(FromF64::into_f64).collect();
                reduce(&mut numbers, mode).map(FromF64::from_f64)
            }
        };
        *out = key(one.unwrap_or(missing));
    }
}

/// Numbers that become means and medians and are themselves again.
trait FromF64 {
    fn into_f64(self) -> f64;
    fn from_f64(value: f64) -> Self;
}

impl FromF64 for i64 {
    #[expect(clippy::cast_precision_loss, reason = "means are not exact")]
    fn into_f64(self) -> f64 {
        self as f64
    }

    #[expect(clippy::cast_possible_truncation, reason = "a cast saturates")]
    fn from_f64(value: f64) -> Self {
        value.round() as Self
    }
}

impl FromF64 for u64 {
    #[expect(clippy::cast_precision_loss, reason = "means are not exact")]
    fn into_f64(self) -> f64 {
        self as f64
    }

    #[expect(clippy::cast_possible_truncation, reason = "a cast saturates")]
    #[expect(clippy::cast_sign_loss, reason = "a cast saturates")]
    fn from_f64(value: f64) -> Self {
        value.round() as Self
    }
}

impl FromF64 for f64 {
    fn into_f64(self) -> f64 {
        self
    }

    fn from_f64(value: f64) -> Self {
        value
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keys_have_the_order_of_values(a: i64, b: i64, x: f64, y: f64) {
            prop_assert_eq!(key_of_i64(a).cmp(&key_of_i64(b)), a.cmp(&b));
            prop_assert_eq!(i64_of_key(key_of_i64(a)), a);
            prop_assert_eq!(key_of_f64(x).cmp(&key_of_f64(y)), x.total_cmp(&y));
            prop_assert_eq!(f64_of_key(key_of_f64(x)).to_bits(), x.to_bits());
        }
    }
}
