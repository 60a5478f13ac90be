//! Buckets of values between bounds: numbers, dates, addresses, distances.

use std::cmp::Ordering;
use std::net::Ipv6Addr;

use serde_json::Value;
use tantivy::SegmentReader;
use tantivy::columnar::Column;

use super::collector::Env;
use super::collector::{Batch, Collector, Subs};
use super::context::{bucket_id, index_error};
use super::filters::{Counted, parents};
use super::points::PointReader;
use super::values::{Numbers, wrong_type};
use crate::Error;
use crate::aggregation::dates;
use crate::aggregation::fields::{Field, FieldKind};
use crate::aggregation::partial::{Bucket, Buckets, Key, Partial, Print};
use crate::aggregation::request::{
    DateBound, DateRange, GeoDistance, Node, NumericRange, RangeOf, Source, read_ip,
};
use crate::geo::{GeoPoint, distance_m, plane_distance_m};
use crate::query::parse::as_text;

/// A value's place among the bounds.
trait Place: PartialOrd + Copy {}
impl Place for f64 {}
impl Place for u128 {}

/// A range: from, and up to but not including.
type Span<T> = (Option<T>, Option<T>);

/// Ranges with their places in the answer.
struct Bounds<T> {
    /// By their begin; those without one first.
    sorted: Vec<(Span<T>, usize)>,
    /// The furthest end of each of them and those before it; none where one of them has no end.
    furthest: Vec<Option<T>>,
}

impl<T: Place> Bounds<T> {
    /// Of ranges in the order of the answer.
    fn new(spans: impl IntoIterator<Item = Span<T>>) -> Self {
        let mut sorted: Vec<(Span<T>, usize)> = spans.into_iter().zip(0..).collect();
        // What cannot be compared is held by no range, wherever that is.
        sorted.sort_by(|((a, _), _), ((b, _), _)| a.partial_cmp(b).unwrap_or(Ordering::Equal));
        let mut furthest: Vec<Option<T>> = Vec::with_capacity(sorted.len());
        for ((_, to), _) in &sorted {
            furthest.push(match (furthest.last(), to) {
                (Some(None), _) => None,
                (Some(Some(before)), Some(to)) if before > to => Some(*before),
                _ => *to,
            });
        }
        Self { sorted, furthest }
    }

    /// Calls `each` with every range that holds a value.
    #[inline]
    fn each(&self, value: T, mut each: impl FnMut(usize)) {
        let ends_after = |to: &Option<T>| to.is_none_or(|to| value < to);
        // Those that begin after the value cannot hold it, nor those before the first one up to
        // which any ends after it.
        let end = self.sorted.partition_point(|((from, _), _)| from.is_none_or(|it| it <= value));
        let start = self.furthest[..end].partition_point(|to| !ends_after(to));
        for ((_, to), at) in &self.sorted[start..end] {
            if ends_after(to) {
                each(*at);
            }
        }
    }
}

enum Input {
    Numbers(Box<Numbers>, Bounds<f64>),
    Ips {
        field: Option<Field>,
        column: Option<Column<Ipv6Addr>>,
        missing: Option<u128>,
        bounds: Bounds<u128>,
    },
    Distance {
        reader: PointReader,
        from: GeoDistance,
        bounds: Bounds<f64>,
    },
}

/// The bucket of range i of the parent's bucket p is p * ranges + i.
pub(super) struct Ranges {
    input: Input,
    keys: Vec<Key>,
    print: Print,
    counted: Counted,
    subs: Subs,
    child: Batch,
    /// Of one batch: (position, range), in the order of positions; no pair twice.
    found: Vec<(u32, usize)>,
}

fn numeric_bounds(ranges: &[NumericRange]) -> (Bounds<f64>, Vec<Key>) {
    (
        Bounds::new(ranges.iter().map(|range| (range.from, range.to))),
        ranges.iter().map(|range| Key::Span(range.from, range.to)).collect(),
    )
}

/// How the field's dates are written, and the bounds of ranges in milliseconds.
#[expect(clippy::type_complexity, reason = "two results of one look at the field")]
fn date_bounds(
    env: &Env<'_>,
    source: &Source,
    ranges: &[DateRange],
) -> Result<(String, Vec<(Option<f64>, Option<f64>)>), Error> {
    let mapped = match env.fields.field(&source.field).map(|field| field.kind) {
        Some(FieldKind::Date { format, .. }) => format,
        _ => dates::FORMAT_DEFAULT.to_owned(),
    };
    let format = source.format.clone().unwrap_or(mapped);
    let zone = source.zone.as_deref();
    let now_ms = env.context.now_ms;
    let bound = |value: &DateBound| match value {
        None => Ok(None),
        Some(value) => {
            // A number is read by the format too: it may be a year, or seconds since 1970.
            let text = match value {
                Value::Number(number) => {
                    number.as_i64().map(|whole| Value::from(whole.to_string()))
                }
                _ => None,
            };
            let value = text.as_ref().unwrap_or(value);
            dates::parse_bound(value, Some(&format), zone, now_ms, false).map(|ms| Some(ms as f64))
        }
    };
    let mut bounds = Vec::new();
    for range in ranges {
        bounds.push((bound(&range.from)?, bound(&range.to)?));
    }
    Ok((format, bounds))
}

impl Ranges {
    pub(super) fn new(
        env: &Env<'_>,
        node: &Node,
        source: &Source,
        ranges: &RangeOf,
    ) -> Result<Self, Error> {
        let mut print = Print::Double { format: source.format.clone() };
        let (input, keys) = match ranges {
            RangeOf::Numbers(ranges) => {
                let (bounds, keys) = numeric_bounds(ranges);
                (Input::Numbers(Box::new(Numbers::new(env, source, "range")?), bounds), keys)
            }
            RangeOf::Dates(ranges) => {
                let numbers = Numbers::new(env, source, "date_range")?;
                let (format, keys) = date_bounds(env, source, ranges)?;
                print = Print::Date { format, zone: source.zone.clone() };
                // The order is the request's, so that partitions agree on positions even where
                // `now` differs between them; the answer is sorted when it is printed.
                let bounds = Bounds::new(keys.iter().copied());
                let keys = keys.into_iter().map(|(from, to)| Key::Span(from, to)).collect();
                (Input::Numbers(Box::new(numbers), bounds), keys)
            }
            RangeOf::Ips(ranges) => {
                let field = env.fields.field(&source.field);
                if let Some(field) = &field {
                    field.column()?;
                    if field.kind != FieldKind::Ip {
                        return Err(wrong_type(field, "ip_range"));
                    }
                }
                print = Print::Ip;
                let octets = |address: Option<u128>| address.map(u128::to_be_bytes);
                let keys = ranges
                    .iter()
                    .map(|range| Key::IpSpan(octets(range.from), octets(range.to)))
                    .collect();
                let bounds = Bounds::new(ranges.iter().map(|range| (range.from, range.to)));
                let missing = source.missing.as_ref();
                let missing = missing.map(|value| read_ip(&as_text(value))).transpose()?;
                (Input::Ips { field, column: None, missing, bounds }, keys)
            }
            RangeOf::Distance(from, ranges) => {
                let (bounds, keys) = numeric_bounds(ranges);
                let reader = PointReader::new(env, &source.field, "geo_distance")?;
                (Input::Distance { reader, from: *from, bounds }, keys)
            }
        };
        Ok(Self {
            input,
            keys,
            print,
            counted: Counted::default(),
            subs: Subs::new(env, &node.subs, false)?,
            child: Batch::default(),
            found: Vec::new(),
        })
    }

    fn find(&mut self, batch: &Batch) {
        self.found.clear();
        let found = &mut self.found;
        match &mut self.input {
            Input::Numbers(numbers, bounds) => {
                numbers.read(batch);
                for (position, value) in numbers.positions.iter().zip(&numbers.values) {
                    bounds.each(*value, |at| found.push((*position, at)));
                }
            }
            Input::Ips { column, missing, bounds, .. } => {
                for (position, doc) in (0u32..).zip(&batch.docs) {
                    let mut any = false;
                    for address in column.iter().flat_map(|column| column.values_for_doc(*doc)) {
                        any = true;
                        bounds.each(u128::from(address), |at| found.push((position, at)));
                    }
                    if let (false, Some(missing)) = (any, &missing) {
                        bounds.each(*missing, |at| found.push((position, at)));
                    }
                }
            }
            Input::Distance { reader, from, bounds } => {
                reader.each(batch, |position, latitude, longitude| {
                    let place = GeoPoint { lat: latitude, lon: longitude };
                    let metres = match from.plane {
                        true => plane_distance_m(from.origin, place),
                        false => distance_m(from.origin, place),
                    };
                    let position = u32::try_from(position).unwrap_or(u32::MAX);
                    bounds.each(metres / from.unit_m, |at| found.push((position, at)));
                })
            }
        }
        // A document with several values in one range is counted once.
        found.sort_unstable();
        found.dedup();
    }
}

impl Collector for Ranges {
    fn segment(&mut self, env: &Env<'_>, segment: &SegmentReader) -> Result<(), Error> {
        match &mut self.input {
            Input::Numbers(numbers, _) => numbers.segment(segment)?,
            Input::Ips { field, column, .. } => {
                *column = None;
                if let Some(field) = field
                    && segment.schema().find_field(field.column()?).is_some()
                {
                    *column =
                        segment.fast_fields().column_opt(field.column()?).map_err(index_error)?;
                }
            }
            Input::Distance { reader, .. } => reader.segment(segment)?,
        }
        self.subs.segment(env, segment)
    }

    fn collect(&mut self, env: &Env<'_>, batch: &Batch) -> Result<(), Error> {
        let fan = self.keys.len();
        self.counted.grow(env, parents(batch) * fan)?;
        self.find(batch);
        self.child.clear();
        let below = !self.subs.is_empty();
        for (position, range) in &self.found {
            let position = *position as usize;
            let bucket = batch.buckets[position] as usize * fan + range;
            self.counted.add(bucket);
            if below {
                self.child.push_from(batch, position, bucket_id(bucket)?);
            }
        }
        self.subs.collect(env, &self.child)
    }

    fn result(&mut self, env: &Env<'_>, bucket: u32) -> Result<Partial, Error> {
        let first = (bucket as usize).saturating_mul(self.keys.len());
        let mut buckets = Vec::new();
        for (at, key) in self.keys.iter().enumerate() {
            let at = first.saturating_add(at);
            let id = bucket_id(at).unwrap_or(u32::MAX);
            buckets.push(Bucket {
                key: key.clone(),
                count: self.counted.get(at),
                error: 0,
                background: 0,
                subs: self.subs.results(env, id)?,
            });
        }
        Ok(Partial::Buckets(Box::new(Buckets {
            prints: vec![self.print.clone()],
            buckets,
            ..Buckets::default()
        })))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Bounds;

    proptest! {
        #[test]
        fn ranges_that_hold_a_value_are_those_of_a_look_at_all(
            spans in prop::collection::vec((prop::option::of(-9i8..9), prop::option::of(-9i8..9)), 0..20),
            value in -10i8..10,
        ) {
            let spans: Vec<_> = spans
                .into_iter()
                .map(|(from, to)| (from.map(f64::from), to.map(f64::from)))
                .collect();
            let value = f64::from(value);
            let mut found = Vec::new();
            Bounds::new(spans.iter().copied()).each(value, |at| found.push(at));
            found.sort_unstable();
            let holds = |(from, to): &(Option<f64>, Option<f64>)| {
                from.is_none_or(|from| from <= value) && to.is_none_or(|to| value < to)
            };
            let all: Vec<usize> = (0..spans.len()).filter(|at| holds(&spans[*at])).collect();
            prop_assert_eq!(found, all);
        }
    }
}
