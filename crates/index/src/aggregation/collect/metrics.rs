//! Sums, extremes, averages and counts of values.

use tantivy::SegmentReader;

use super::collector::Env;
use super::collector::{Batch, Collector};
use super::keys::Keys;
use super::values;
use crate::Error;
use crate::aggregation::fields::FieldKind;
use crate::aggregation::partial::{Partial, Print, Stats};
use crate::aggregation::request::{Metric, Source, TermsFilter, Weighted as WeightedSpec};

/// A sum that keeps what rounding takes from it (Kahan's summation in Neumaier's form).
#[derive(Clone, Copy, Default)]
struct Sum {
    sum: f64,
    lost: f64,
}

impl Sum {
    #[inline]
    fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        self.lost += if self.sum.abs() >= value.abs() {
            (self.sum - sum) + value
        } else {
            (value - sum) + self.sum
        };
        self.sum = sum;
    }

    fn value(self) -> f64 {
        // What is infinite lost nothing, but the difference above is no number.
        if self.sum.is_finite() { self.sum + self.lost } else { self.sum }
    }
}

/// The numbers of each bucket; those that nobody asks for stay empty.
#[derive(Default)]
struct Columns {
    counts: Vec<u64>,
    sums: Vec<Sum>,
    squares: Vec<Sum>,
    ranges: Vec<(f64, f64)>,
}

/// Where values come from: numbers, or anything that can be counted.
enum Input {
    Numbers(Box<values::Numbers>),
    Keys(Box<Keys>),
    Points(Box<super::points::Points>),
}

pub(super) struct Numbers {
    input: Input,
    metric: Metric,
    wants_sum: bool,
    wants_squares: bool,
    wants_range: bool,
    columns: Columns,
    accounted: usize,
}

impl Numbers {
    pub(super) fn new(env: &Env<'_>, metric: &Metric, source: &Source) -> Result<Self, Error> {
        let kind = match metric {
            Metric::Avg => "avg",
            Metric::Sum => "sum",
            Metric::Min => "min",
            Metric::Max => "max",
            Metric::Stats => "stats",
            Metric::ValueCount => "value_count",
            _ => "extended_stats",
        };
        crate::aggregation::dates::check(None, source.zone.as_deref())?;
        let field = env.fields.field(&source.field);
        let is_count = matches!(metric, Metric::ValueCount);
        let input = match field.as_ref().map(|field| &field.kind) {
            Some(FieldKind::Keyword | FieldKind::Ip) if is_count => {
                Input::Keys(Box::new(Keys::new(env, source, &TermsFilter::default(), kind)?))
            }
            Some(FieldKind::GeoPoint) if is_count => {
                Input::Points(Box::new(super::points::Points::new(env, metric, source)?))
            }
            None if is_count && source.missing.is_some() => {
                Input::Keys(Box::new(Keys::new(env, source, &TermsFilter::default(), kind)?))
            }
            _ => Input::Numbers(Box::new(values::Numbers::new(env, source, kind)?)),
        };
        let stats = matches!(metric, Metric::Stats | Metric::ExtendedStats { .. });
        Ok(Self {
            input,
            metric: metric.clone(),
            wants_sum: stats || matches!(metric, Metric::Sum | Metric::Avg),
            wants_squares: matches!(metric, Metric::ExtendedStats { .. }),
            wants_range: stats || matches!(metric, Metric::Min | Metric::Max),
            columns: Columns::default(),
            accounted: 0,
        })
    }

    /// Makes room for every bucket of a batch.
    fn grow(&mut self, env: &Env<'_>, batch: &Batch) -> Result<(), Error> {
        let wanted = batch.buckets.iter().max().map_or(0, |max| *max as usize + 1);
        let columns = &mut self.columns;
        if columns.counts.len() >= wanted {
            return Ok(());
        }
        columns.counts.resize(wanted, 0);
        if self.wants_sum {
            columns.sums.resize(wanted, Sum::default());
        }
        if self.wants_squares {
            columns.squares.resize(wanted, Sum::default());
        }
        if self.wants_range {
            columns.ranges.resize(wanted, (f64::INFINITY, f64::NEG_INFINITY));
        }
        let now = columns.counts.capacity() * size_of::<u64>()
            + (columns.sums.capacity() + columns.squares.capacity()) * size_of::<Sum>()
            + columns.ranges.capacity() * size_of::<(f64, f64)>();
        env.account.adjust(&mut self.accounted, now)
    }

    fn stats(&self, bucket: u32) -> Stats {
        let at = bucket as usize;
        let columns = &self.columns;
        let none = Stats::default();
        let (min, max) = columns.ranges.get(at).copied().unwrap_or((none.min, none.max));
        Stats {
            count: columns.counts.get(at).copied().unwrap_or(0),
            sum: columns.sums.get(at).map_or(0.0, |sum| sum.value()),
            squares: columns.squares.get(at).map_or(0.0, |sum| sum.value()),
            min,
            max,
        }
    }
}

impl Collector for Numbers {
    fn segment(&mut self, env: &Env<'_>, segment: &SegmentReader) -> Result<(), Error> {
        match &mut self.input {
            Input::Numbers(numbers) => numbers.segment(segment),
            Input::Keys(keys) => keys.segment(env, segment),
            Input::Points(points) => points.segment(env, segment),
        }
    }

    fn collect(&mut self, env: &Env<'_>, batch: &Batch) -> Result<(), Error> {
        self.grow(env, batch)?;
        let columns = &mut self.columns;
        let numbers = match &mut self.input {
            Input::Numbers(numbers) => {
                numbers.read(batch);
                numbers
            }
            Input::Keys(keys) => {
                keys.read(env, batch)?;
                for position in &keys.positions {
                    columns.counts[batch.buckets[*position as usize] as usize] += 1;
                }
                return Ok(());
            }
            Input::Points(points) => {
                points.each(batch, |position, _, _| {
                    columns.counts[batch.buckets[position] as usize] += 1
                });
                return Ok(());
            }
        };
        for (position, value) in numbers.positions.iter().zip(&numbers.values) {
            let bucket = batch.buckets[*position as usize] as usize;
            columns.counts[bucket] += 1;
            if self.wants_sum {
                columns.sums[bucket].add(*value);
            }
            if self.wants_squares {
                columns.squares[bucket].add(value * value);
            }
            if self.wants_range {
                let (min, max) = &mut columns.ranges[bucket];
                *min = min.min(*value);
                *max = max.max(*value);
            }
        }
        Ok(())
    }

    fn result(&mut self, _: &Env<'_>, bucket: u32) -> Result<Partial, Error> {
        let print = match &self.input {
            Input::Numbers(numbers) => numbers.print(),
            _ => Print::Unmapped,
        };
        Ok(Partial::Stats(self.stats(bucket), print))
    }

    fn number(&self, bucket: u32, _: &[String], property: Option<&str>) -> f64 {
        crate::aggregation::statistic::stats_number(&self.metric, &self.stats(bucket), property)
    }
}

/// `weighted_avg`.
pub(super) struct Weighted {
    value: values::Numbers,
    weight: values::Numbers,
    sums: Vec<(Sum, Sum)>,
    accounted: usize,
}

impl Weighted {
    pub(super) fn new(env: &Env<'_>, spec: &WeightedSpec) -> Result<Self, Error> {
        Ok(Self {
            value: values::Numbers::new(env, &spec.value, "weighted_avg")?,
            weight: values::Numbers::new(env, &spec.weight, "weighted_avg")?,
            sums: Vec::new(),
            accounted: 0,
        })
    }
}

impl Collector for Weighted {
    fn segment(&mut self, _: &Env<'_>, segment: &SegmentReader) -> Result<(), Error> {
        self.value.segment(segment)?;
        self.weight.segment(segment)
    }

    fn collect(&mut self, env: &Env<'_>, batch: &Batch) -> Result<(), Error> {
        let wanted = batch.buckets.iter().max().map_or(0, |max| *max as usize + 1);
        if self.sums.len() < wanted {
            self.sums.resize(wanted, Default::default());
            env.account
                .adjust(&mut self.accounted, self.sums.capacity() * size_of::<(Sum, Sum)>())?;
        }
        self.value.read(batch);
        self.weight.read(batch);
        let mut weights = self.weight.positions.iter().zip(&self.weight.values).peekable();
        for (position, value) in self.value.positions.iter().zip(&self.value.values) {
            while weights.next_if(|(other, _)| *other < position).is_some() {}
            let mut ahead = weights.clone();
            let Some((_, weight)) = ahead.next().filter(|(other, _)| *other == position) else {
                continue;
            };
            if ahead.next().is_some_and(|(other, _)| other == position) {
                return Err(Error::illegal_argument(
                    "Encountered more than one weight for a single document. Use a script to combine multiple weights-per-doc into a single value.",
                ));
            }
            let (sum, all) = &mut self.sums[batch.buckets[*position as usize] as usize];
            sum.add(value * weight);
            all.add(*weight);
        }
        Ok(())
    }

    fn result(&mut self, _: &Env<'_>, bucket: u32) -> Result<Partial, Error> {
        let (sum, weight) = self.sums.get(bucket as usize).copied().unwrap_or_default();
        Ok(Partial::Weighted { sum: sum.value(), weight: weight.value() })
    }

    fn number(&self, bucket: u32, _: &[String], _: Option<&str>) -> f64 {
        self.sums
            .get(bucket as usize)
            .map_or(f64::NAN, |(sum, weight)| sum.value() / weight.value())
    }
}
