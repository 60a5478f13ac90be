//! The tree of aggregations that a request asks for. How it is read is the files' beside it.

use serde_json::Value;

use crate::aggregation::rounding::{Interval, Unit};
use crate::aggregation::script::Script;
use crate::geo::GeoPoint;

/// One aggregation and those below it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Its name in the request and in the answer.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// What every bucket of it is aggregated by.
    pub(crate) subs: Vec<Node>,
    /// What is computed from the results of `subs`, or from the buckets themselves.
    pub(crate) pipelines: Vec<Pipeline>,
    /// Sent back as it came.
    pub(crate) meta: Option<Value>,
}

/// Where values come from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    /// The field's path in the mapping.
    pub(crate) field: String,
    /// The value of a document that has none.
    pub(crate) missing: Option<Value>,
    /// How values are printed; the mapping's format where `None`.
    pub(crate) format: Option<String>,
    /// The zone in which dates are printed, rounded and computed.
    pub(crate) zone: Option<String>,
}

/// What one aggregation computes.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Metric { metric: Metric, source: Source },
    Weighted(Weighted),
    TopHits(TopHits),
    Terms(Terms),
    Significant(Significant),
    MultiTerms(MultiTerms),
    Composite(Composite),
    Histogram(Histogram),
    DateHistogram(DateHistogram),
    AutoDate(AutoDate),
    Range { source: Source, ranges: RangeOf, keyed: bool },
    GeoGrid(GeoGrid),
    Filter(Value),
    Filters(Filters),
    Missing(String),
    Global,
}

impl Kind {
    /// Whether it has buckets, and so may have aggregations below it.
    pub(crate) fn is_bucket(&self) -> bool {
        !matches!(self, Self::Metric { .. } | Self::Weighted(_) | Self::TopHits(_))
    }

    /// Whether it has exactly one bucket.
    pub(crate) fn is_single_bucket(&self) -> bool {
        matches!(self, Self::Filter(_) | Self::Missing(_) | Self::Global)
    }
}

/// A computation over the values of one field.
#[derive(Clone, Debug)]
pub(crate) enum Metric {
    Avg,
    Sum,
    Min,
    Max,
    Stats,
    ExtendedStats { sigma: f64 },
    ValueCount,
    Cardinality { threshold: usize },
    Percentiles { percents: Vec<f64>, keyed: bool, sketch: Sketch },
    PercentileRanks { values: Vec<f64>, keyed: bool, sketch: Sketch },
    MedianAbsoluteDeviation { compression: f64 },
    GeoBounds,
    GeoCentroid,
}

impl Metric {
    /// Whether it gives one number, so that a path need not say which.
    pub(super) fn is_one_number(&self) -> bool {
        !matches!(
            self,
            Self::Stats
                | Self::ExtendedStats { .. }
                | Self::Percentiles { .. }
                | Self::PercentileRanks { .. }
                | Self::GeoBounds
                | Self::GeoCentroid
        )
    }
}

/// What percentiles are estimated with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sketch {
    TDigest { compression: f64 },
    Hdr { digits: u8 },
}

/// An average in which each value has a weight.
#[derive(Clone, Debug)]
pub(crate) struct Weighted {
    pub(crate) value: Source,
    pub(crate) weight: Source,
    pub(crate) format: Option<String>,
}

/// The best documents of each bucket.
#[derive(Clone, Debug)]
pub(crate) struct TopHits {
    pub(crate) from: usize,
    pub(crate) size: usize,
    pub(crate) sort: Vec<SortBy>,
    /// The options that concern how a hit is fetched, for whoever fetches.
    pub(crate) fetch: Value,
}

/// One key that hits are sorted by.
#[derive(Clone, Debug)]
pub(crate) enum SortBy {
    Score { ascending: bool },
    Document { ascending: bool },
    Field { field: String, ascending: bool, missing_first: bool },
}

/// What buckets are sorted by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OrderBy {
    Count,
    Key,
    /// The number that an aggregation below gives: its path, and which of its numbers.
    Metric {
        path: Vec<String>,
        property: Option<String>,
    },
}

/// One step of an order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Order {
    pub(crate) by: OrderBy,
    pub(crate) ascending: bool,
}

/// Which terms get a bucket at all.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    /// A regular expression that the whole term has to match.
    Regex(regex::Regex),
    /// These terms, as they are written.
    List(Vec<String>),
}

/// `include` and `exclude`.
#[derive(Clone, Debug, Default)]
pub(crate) struct TermsFilter {
    pub(crate) include: Option<Pattern>,
    pub(crate) exclude: Option<Pattern>,
    /// One part of so many: (part, parts).
    pub(crate) part: Option<(u64, u64)>,
}

impl TermsFilter {
    /// Whether everything passes.
    pub(crate) fn is_open(&self) -> bool {
        self.include.is_none() && self.exclude.is_none() && self.part.is_none()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) source: Source,
    pub(crate) size: usize,
    /// How many buckets one partition sends.
    pub(crate) shard_size: usize,
    pub(crate) order: Vec<Order>,
    pub(crate) min_doc_count: u64,
    pub(crate) shard_min_doc_count: u64,
    pub(crate) filter: TermsFilter,
    pub(crate) show_error: bool,
    /// Above this count a term is not rare; `None` for the ordinary kind.
    pub(crate) rare_max: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Significant {
    pub(crate) terms: Terms,
}

/// One of the values that make a key of several.
#[derive(Clone, Debug)]
pub(crate) struct TupleSource {
    pub(crate) source: Source,
}

#[derive(Clone, Debug)]
pub(crate) struct MultiTerms {
    pub(crate) sources: Vec<TupleSource>,
    pub(crate) size: usize,
    pub(crate) shard_size: usize,
    pub(crate) order: Vec<Order>,
    pub(crate) min_doc_count: u64,
    pub(crate) show_error: bool,
}

/// How a composite source makes a key of a value.
#[derive(Clone, Debug)]
pub(crate) enum CompositeKind {
    Terms,
    Histogram { interval: f64 },
    Date { interval: Interval, offset_ms: i64 },
    Geotile { precision: u8 },
}

#[derive(Clone, Debug)]
pub(crate) struct CompositeSource {
    pub(crate) name: String,
    pub(crate) source: Source,
    pub(crate) kind: CompositeKind,
    pub(crate) ascending: bool,
    /// Whether documents without a value make a key of null.
    pub(crate) missing_bucket: bool,
    /// Whether null comes first; where not said it is first in ascending order, last in descending.
    pub(crate) missing_first: Option<bool>,
}

#[derive(Clone, Debug)]
pub(crate) struct Composite {
    pub(crate) sources: Vec<CompositeSource>,
    pub(crate) size: usize,
    pub(crate) after: Option<Vec<Value>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    pub(crate) source: Source,
    pub(crate) interval: f64,
    pub(crate) offset: f64,
    pub(crate) order: Vec<Order>,
    pub(crate) min_doc_count: u64,
    pub(crate) extended: Option<(f64, f64)>,
    pub(crate) hard: Option<(f64, f64)>,
    pub(crate) keyed: bool,
}

/// A bound in time as written: a date, date maths, or milliseconds.
pub(crate) type DateBound = Option<Value>;

#[derive(Clone, Debug)]
pub(crate) struct DateHistogram {
    pub(crate) source: Source,
    pub(crate) interval: Interval,
    pub(crate) offset_ms: i64,
    pub(crate) order: Vec<Order>,
    pub(crate) min_doc_count: u64,
    pub(crate) extended: Option<(DateBound, DateBound)>,
    pub(crate) hard: Option<(DateBound, DateBound)>,
    pub(crate) keyed: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct AutoDate {
    pub(crate) source: Source,
    pub(crate) buckets: usize,
    pub(crate) minimum: Option<Unit>,
}

#[derive(Clone, Debug)]
pub(crate) struct NumericRange {
    pub(crate) key: Option<String>,
    pub(crate) from: Option<f64>,
    pub(crate) to: Option<f64>,
}

#[derive(Clone, Debug)]
pub(crate) struct DateRange {
    pub(crate) key: Option<String>,
    pub(crate) from: DateBound,
    pub(crate) to: DateBound,
}

#[derive(Clone, Debug)]
pub(crate) struct IpRange {
    pub(crate) key: Option<String>,
    pub(crate) from: Option<u128>,
    /// Not included.
    pub(crate) to: Option<u128>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct GeoDistance {
    pub(crate) origin: GeoPoint,
    /// Metres in one unit of the ranges.
    pub(crate) unit_m: f64,
    /// Whether the earth is taken for a plane.
    pub(crate) plane: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum RangeOf {
    Numbers(Vec<NumericRange>),
    Dates(Vec<DateRange>),
    Ips(Vec<IpRange>),
    Distance(GeoDistance, Vec<NumericRange>),
}

#[derive(Clone, Debug)]
pub(crate) struct GeoGrid {
    pub(crate) field: String,
    /// Tiles of a map where true, geohashes else.
    pub(crate) tiles: bool,
    pub(crate) precision: u8,
    pub(crate) size: usize,
    pub(crate) shard_size: usize,
    /// Top, left, bottom, right.
    pub(crate) bounds: Option<[f64; 4]>,
}

#[derive(Clone, Debug)]
pub(crate) struct Filters {
    /// Names are given where the request names them.
    pub(crate) filters: Vec<(Option<String>, Value)>,
    pub(crate) other: Option<String>,
    pub(crate) keyed: bool,
}

/// What a gap (a bucket without a value) counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gaps {
    Skip,
    Zeros,
}

/// A path to numbers: the aggregations to walk through and which number of the last.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) parts: Vec<String>,
    pub(crate) property: Option<String>,
}

/// A pipeline aggregation.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    pub(crate) name: String,
    pub(crate) kind: PipelineKind,
    pub(crate) meta: Option<Value>,
}

/// What a sibling pipeline makes of the numbers of all buckets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OverBuckets {
    Avg,
    Sum,
    Min,
    Max,
    Stats,
    ExtendedStats { sigma: f64 },
    Percentiles { percents: Vec<f64>, keyed: bool },
}

/// What `moving_fn` computes from its window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Moving {
    Max,
    Min,
    Sum,
    Unweighted,
    Linear,
    Ewma { alpha: f64 },
    StdDev,
}

#[derive(Clone, Debug)]
pub(crate) enum PipelineKind {
    Sibling { path: Path, over: OverBuckets, gaps: Gaps },
    Derivative { path: Path, gaps: Gaps, unit_ms: Option<i64> },
    CumulativeSum { path: Path },
    SerialDifference { path: Path, gaps: Gaps, lag: usize },
    MovingFunction { path: Path, gaps: Gaps, window: usize, shift: i64, function: Moving },
    BucketScript { paths: Vec<(String, Path)>, script: Script, gaps: Gaps },
    BucketSelector { paths: Vec<(String, Path)>, script: Script, gaps: Gaps },
    BucketSort { order: Vec<Order>, from: usize, size: Option<usize>, gaps: Gaps },
}
