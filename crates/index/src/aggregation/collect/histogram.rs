//! Buckets of equal width: numbers, dates by the calendar, and dates in a unit chosen to fit.

use tantivy::SegmentReader;

use super::collector::Env;
use super::collector::{Batch, Collector, Subs};
use super::encoding::{f64_of_key, i64_of_key, key_of_f64, key_of_i64};
use super::table::{Table, flat_range};
use super::values::{Numbers, open_number, wrong_type};
use crate::Error;
use crate::aggregation::auto_date;
use crate::aggregation::dates;
use crate::aggregation::fields::{Field, FieldKind};
use crate::aggregation::partial::{Bucket, Buckets, Key, Partial, Print};
use crate::aggregation::request::{
    AutoDate, DateBound, DateHistogram, Histogram as Spec, Node, Source,
};
use crate::aggregation::rounding::Interval;
use crate::aggregation::rounding::{Rounding, Zone};

/// Begins of buckets are listed beforehand where the field's values span no more than so many.
const LISTED_MAX: usize = 1 << 16;

/// How a value finds its bucket's key.
enum Bucketing {
    /// The number of the bucket, counted from zero.
    Number { interval: f64, offset: f64 },
    /// Spans of equal milliseconds: the number of the bucket.
    Uniform { span_ms: i64, offset_ms: i64 },
    /// The position of the begin among those listed, which cover every value.
    Listed { begins: Vec<i64>, last: usize },
    /// The begin itself.
    Rounded,
}

pub(super) struct Histogram {
    numbers: Numbers,
    bucketing: Bucketing,
    rounding: Option<Rounding>,
    hard: Option<(f64, f64)>,
    extended: Option<(Option<i64>, Option<i64>)>,
    hard_ms: Option<(Option<i64>, Option<i64>)>,
    level: u8,
    print: Print,
    table: Table,
    subs: Subs,
    child: Batch,
    keys: Vec<u64>,
}

impl Histogram {
    pub(super) fn new(
        env: &Env<'_>,
        node: &Node,
        spec: &Spec,
        single: bool,
    ) -> Result<Self, Error> {
        let numbers = Numbers::new(env, &spec.source, "histogram")?;
        let bucketing = Bucketing::Number { interval: spec.interval, offset: spec.offset };
        let range = value_range(env, &spec.source)?.and_then(|(min, max)| {
            let key = |value: f64| number_key(value, spec.interval, spec.offset);
            Some((key(min)?, key(max)?))
        });
        let print = Print::Double { format: spec.source.format.clone() };
        let print = match numbers.print() {
            date @ Print::Date { .. } => date,
            _ => print,
        };
        let mut histogram = Self::with(env, node, numbers, bucketing, range, print, single)?;
        histogram.hard = spec.hard;
        Ok(histogram)
    }

    pub(super) fn new_date(
        env: &Env<'_>,
        node: &Node,
        spec: &DateHistogram,
        single: bool,
    ) -> Result<Self, Error> {
        let zone = Zone::parse(spec.source.zone.as_deref())?;
        let rounding = Rounding::new(spec.interval.clone(), zone, spec.offset_ms);
        let (numbers, format) = date_numbers(env, &spec.source, "date_histogram")?;
        let bounds = |bounds: &Option<(DateBound, DateBound)>| -> Result<_, Error> {
            let Some((min, max)) = bounds else { return Ok(None) };
            let read = |bound: &DateBound| match bound {
                None => Ok(None),
                Some(value) => dates::parse_bound(
                    value,
                    Some(&format),
                    spec.source.zone.as_deref(),
                    env.context.now_ms,
                    false,
                )
                .map(Some),
            };
            Ok(Some((read(min)?, read(max)?)))
        };
        let extended = bounds(&spec.extended)?;
        if let Some((Some(min), Some(max))) = extended
            && min > max
        {
            return Err(Error::illegal_argument(format!(
                "[extended_bounds.min][{min}] cannot be greater than [extended_bounds.max][{max}] for histogram aggregation [{}]",
                node.name
            )));
        }
        let hard_ms = bounds(&spec.hard)?;
        let print = Print::Date { format, zone: spec.source.zone.clone() };
        let mut histogram =
            Self::with_dates(env, node, &spec.source, numbers, rounding, print, single)?;
        histogram.extended = extended;
        histogram.hard = hard_ms.map(|(min, max)| {
            (
                min.map_or(f64::NEG_INFINITY, |min| min as f64),
                max.map_or(f64::INFINITY, |max| max as f64),
            )
        });
        histogram.hard_ms = hard_ms;
        Ok(histogram)
    }

    pub(super) fn new_auto(
        env: &Env<'_>,
        node: &Node,
        spec: &AutoDate,
        single: bool,
    ) -> Result<Self, Error> {
        let (numbers, format) = date_numbers(env, &spec.source, "auto_date_histogram")?;
        let range = value_range(env, &spec.source)?;
        let level = auto_date::level_for(range, spec);
        let zone = Zone::parse(spec.source.zone.as_deref())?;
        let rounding = Rounding::new(Interval::Calendar(auto_date::unit(level)), zone, 0);
        let print = Print::Date { format, zone: spec.source.zone.clone() };
        let mut histogram =
            Self::with_dates(env, node, &spec.source, numbers, rounding, print, single)?;
        histogram.level = level;
        Ok(histogram)
    }

    fn with_dates(
        env: &Env<'_>,
        node: &Node,
        source: &Source,
        numbers: Numbers,
        rounding: Rounding,
        print: Print,
        single: bool,
    ) -> Result<Self, Error> {
        let range = value_range(env, source)?.map(|(min, max)| (whole(min), whole(max)));
        let (bucketing, keys) = date_bucketing(&rounding, range);
        let mut histogram = Self::with(env, node, numbers, bucketing, keys, print, single)?;
        histogram.rounding = Some(rounding);
        Ok(histogram)
    }

    fn with(
        env: &Env<'_>,
        node: &Node,
        numbers: Numbers,
        bucketing: Bucketing,
        range: Option<(u64, u64)>,
        print: Print,
        single: bool,
    ) -> Result<Self, Error> {
        let flat = flat_range(range, env.searcher.num_docs());
        Ok(Self {
            numbers,
            bucketing,
            rounding: None,
            hard: None,
            extended: None,
            hard_ms: None,
            level: 0,
            print,
            table: Table::new(env, single, flat)?,
            subs: Subs::new(env, &node.subs, false)?,
            child: Batch::default(),
            keys: Vec::new(),
        })
    }

    /// The key of each value of the batch, in the same order.
    fn make_keys(&mut self) {
        self.keys.clear();
        let values = &self.numbers.values;
        match &mut self.bucketing {
            Bucketing::Number { interval, offset } => {
                let (interval, offset) = (*interval, *offset);
                self.keys.extend(values.iter().map(|value| {
                    number_key(*value, interval, offset)
                        .unwrap_or_else(|| key_of_f64(((value - offset) / interval).floor()))
                }));
            }
            Bucketing::Uniform { span_ms, offset_ms } => {
                let (span, offset) = (*span_ms, *offset_ms);
                self.keys.extend(values.iter().map(|value| {
                    key_of_i64(whole(*value).saturating_sub(offset).div_euclid(span))
                }));
            }
            Bucketing::Listed { begins, last } => {
                for value in values {
                    let value = whole(*value);
                    let fits = begins[*last] <= value
                        && begins.get(*last + 1).is_none_or(|next| value < *next);
                    if !fits {
                        *last = begins.partition_point(|begin| *begin <= value).saturating_sub(1);
                    }
                    self.keys.push(*last as u64);
                }
            }
            Bucketing::Rounded => {
                if let Some(rounding) = &self.rounding {
                    self.keys.extend(
                        values.iter().map(|value| key_of_i64(rounding.round(whole(*value)))),
                    );
                }
            }
        }
    }

    /// The begin of the bucket that a key stands for.
    fn begin(&self, key: u64) -> Key {
        match &self.bucketing {
            Bucketing::Number { interval, offset } => {
                let bucket = match number_of(key) {
                    Some(bucket) => bucket as f64,
                    None => f64_of_key(key),
                };
                Key::F64(bucket * interval + offset + 0.0)
            }
            Bucketing::Uniform { span_ms, offset_ms } => {
                Key::I64(i64_of_key(key).saturating_mul(*span_ms).saturating_add(*offset_ms))
            }
            Bucketing::Listed { begins, .. } => {
                let at = usize::try_from(key).unwrap_or(usize::MAX);
                Key::I64(begins.get(at).copied().unwrap_or(0))
            }
            Bucketing::Rounded => Key::I64(i64_of_key(key)),
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a float to integer cast saturates")]
fn whole(value: f64) -> i64 {
    value as i64
}

/// Bucket numbers up to so great are keys by their number; beyond, doubles have gaps anyway.
const NUMBER_MAX: f64 = 4e15;

fn number_key(value: f64, interval: f64, offset: f64) -> Option<u64> {
    let bucket = ((value - offset) / interval).floor();
    (bucket.abs() < NUMBER_MAX).then(|| key_of_i64(whole(bucket)))
}

fn number_of(key: u64) -> Option<i64> {
    let number = i64_of_key(key);
    ((number as f64).abs() < NUMBER_MAX).then_some(number)
}

fn date_numbers(env: &Env<'_>, source: &Source, kind: &str) -> Result<(Numbers, String), Error> {
    dates::check(source.format.as_deref(), source.zone.as_deref())?;
    let field = env.fields.field(&source.field);
    let mapped = match field.as_ref().map(|field| &field.kind) {
        Some(FieldKind::Date { format, .. }) => format.clone(),
        Some(FieldKind::Long | FieldKind::Boolean) | None => dates::FORMAT_DEFAULT.to_owned(),
        Some(_) => {
            return Err(field.map_or_else(
                || Error::illegal_argument("no such field"),
                |field| field.column().err().unwrap_or_else(|| wrong_type(&field, kind)),
            ));
        }
    };
    Ok((Numbers::new(env, source, kind)?, source.format.clone().unwrap_or(mapped)))
}

/// The least and greatest value that the partition may hold.
fn value_range(env: &Env<'_>, source: &Source) -> Result<Option<(f64, f64)>, Error> {
    let Some(field) = env.fields.field(&source.field) else { return Ok(None) };
    let mut range: Option<(f64, f64)> = None;
    let mut add = |value: f64| {
        range = Some(range.map_or((value, value), |(min, max)| (min.min(value), max.max(value))))
    };
    for segment in env.searcher.segment_readers() {
        if let Some((min, max)) = segment_range(segment, &field)? {
            add(min);
            add(max);
        }
    }
    if let Some(value) = &source.missing {
        add(super::values::missing_number(env, Some(&field), value)?);
    }
    Ok(range)
}

fn segment_range(segment: &SegmentReader, field: &Field) -> Result<Option<(f64, f64)>, Error> {
    let by = if matches!(field.kind, FieldKind::Date { nanos: true, .. }) { 1e6 } else { 1.0 };
    let Some(number) = open_number(segment, field)? else { return Ok(None) };
    let value =
        |key: u64| if by > 1.0 { (number.number(key) / by).floor() } else { number.number(key) };
    Ok(number.range().map(|(min, max)| (value(min), value(max))))
}

/// How dates find their bucket, and the least and greatest key.
fn date_bucketing(
    rounding: &Rounding,
    range: Option<(i64, i64)>,
) -> (Bucketing, Option<(u64, u64)>) {
    if let Some((span_ms, offset_ms)) = rounding.uniform_ms() {
        let key = |ms: i64| key_of_i64(ms.saturating_sub(offset_ms).div_euclid(span_ms));
        return (
            Bucketing::Uniform { span_ms, offset_ms },
            range.map(|(min, max)| (key(min), key(max))),
        );
    }
    let Some((min, max)) = range else { return (Bucketing::Rounded, None) };
    let mut begins = vec![rounding.round(min)];
    while let Some(last) = begins.last() {
        let next = rounding.next(*last);
        if next > max {
            let last = begins.len() as u64 - 1;
            return (Bucketing::Listed { begins, last: 0 }, Some((0, last)));
        }
        if begins.len() >= LISTED_MAX {
            break;
        }
        begins.push(next);
    }
    (Bucketing::Rounded, None)
}

impl Collector for Histogram {
    fn segment(&mut self, env: &Env<'_>, segment: &SegmentReader) -> Result<(), Error> {
        self.numbers.segment(segment)?;
        self.subs.segment(env, segment)
    }

    fn collect(&mut self, env: &Env<'_>, batch: &Batch) -> Result<(), Error> {
        self.numbers.read(batch);
        self.make_keys();
        self.table.reserve(env, self.keys.len())?;
        self.child.clear();
        let below = !self.subs.is_empty();
        // The buckets that the position at hand is in already.
        let mut position_before = u32::MAX;
        let mut own: Vec<u32> = Vec::new();
        for (at, (position, key)) in self.numbers.positions.iter().zip(&self.keys).enumerate() {
            if let Some((min, max)) = self.hard
                && !(min..=max).contains(&self.numbers.values[at])
            {
                continue;
            }
            let place = *position as usize;
            let id = self.table.bucket(batch.buckets[place], *key);
            if *position == position_before {
                if own.contains(&id) {
                    continue;
                }
            } else {
                own.clear();
                position_before = *position;
            }
            own.push(id);
            self.table.counts[id as usize] += 1;
            if below {
                self.child.push_from(batch, place, id);
            }
        }
        self.subs.collect(env, &self.child)
    }

    fn result(&mut self, env: &Env<'_>, bucket: u32) -> Result<Partial, Error> {
        let ids = self.table.of_parent(bucket);
        env.account.grow(ids.len() * size_of::<Bucket>())?;
        let mut buckets = Vec::with_capacity(ids.len());
        for id in ids {
            let at = id as usize;
            buckets.push(Bucket {
                key: self.begin(self.table.keys[at]),
                count: u64::from(self.table.counts[at]),
                error: 0,
                background: 0,
                subs: self.subs.results(env, id)?,
            });
        }
        buckets.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Partial::Buckets(Box::new(Buckets {
            prints: vec![self.print.clone()],
            buckets,
            extended: self.extended,
            hard: self.hard_ms,
            level: self.level,
            ..Buckets::default()
        })))
    }
}
