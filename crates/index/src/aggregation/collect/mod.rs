//! How one partition collects: documents flow, in batches and in order, through a tree of
//! collectors, each batch saying to which bucket of the parent a document belongs.
//!
//! A collector lives for the whole partition, not for one segment, so that nothing is merged at a
//! segment's end; keys of strings are therefore numbered across segments (see `keys`). What a
//! collector holds it accounts for before, or right after, it takes it.

mod accept;
mod filters;
mod histogram;
mod keys;
mod metrics;
mod points;
mod ranges;
mod sketches;
mod table;
mod terms;
mod top;
mod top_hits;
mod tuples;
mod values;

use serde_json::Value;
use tantivy::query::{AllQuery, EnableScoring, Query};
use tantivy::{DocId, DocSet, Score, Searcher, SegmentReader, TERMINATED};

pub(crate) use self::top_hits::compare_sort;
pub(crate) use self::tuples::compare_composite;
use super::fields::Fields;
use super::memory::{Account, Memory};
use super::partial::Partial;
use super::request::{Kind, Metric, Node};
use crate::Error;

/// How many documents flow at a time.
const BATCH_DOCS: usize = 2_048;

/// A document that `top_hits` shows: segment, document, score.
pub type HitAddress = (u32, u32, f32);

/// Makes a query of its JSON.
pub type ResolveQuery<'a> = dyn Fn(&Value) -> Result<Box<dyn Query>, Error> + 'a;

/// Fetches hits of the partition for `top_hits`: addresses, and the options that say how; gives the
/// hits' JSON (`_index`, `_id`, `_source` and so on) in the same order.
pub type FetchHits<'a> = dyn Fn(&[HitAddress], &Value) -> Result<Vec<Value>, Error> + 'a;

/// What an aggregation is given besides the index.
pub struct Context<'a> {
    /// Now, for date maths: milliseconds since 1970.
    pub now_ms: u64,
    /// How many buckets may be made, as `search.max_buckets`.
    pub max_buckets: usize,
    /// Who is told of the memory taken.
    pub memory: &'a dyn Memory,
    /// Asked after each batch of documents.
    pub cancelled: &'a dyn Fn() -> bool,
    /// For filters.
    pub resolve_query: &'a ResolveQuery<'a>,
    /// For `top_hits`, which is refused without it.
    pub fetch: Option<&'a FetchHits<'a>>,
}

/// What collectors share.
pub(crate) struct Env<'a> {
    pub(crate) searcher: &'a Searcher,
    pub(crate) fields: &'a dyn Fields,
    pub(crate) context: &'a Context<'a>,
    pub(crate) account: Account<'a>,
    /// The segment that flows now.
    pub(crate) segment_ordinal: u32,
}

/// Documents of one segment, in order, and the bucket of the parent that each belongs to. A
/// document may occur more than once, in several buckets.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) docs: Vec<DocId>,
    pub(crate) buckets: Vec<u32>,
    /// As many as documents, or none where nobody asks for scores.
    pub(crate) scores: Vec<Score>,
}

impl Batch {
    fn clear(&mut self) {
        self.docs.clear();
        self.buckets.clear();
        self.scores.clear();
    }

    /// Adds what stands at a position of another batch, in another bucket.
    #[inline]
    fn push_from(&mut self, from: &Self, position: usize, bucket: u32) {
        self.docs.push(from.docs[position]);
        self.buckets.push(bucket);
        if let Some(score) = from.scores.get(position) {
            self.scores.push(*score);
        }
    }
}

/// A part of the tree.
pub(crate) trait Collector {
    /// The documents that come now are of this segment.
    fn segment(&mut self, env: &Env<'_>, segment: &SegmentReader) -> Result<(), Error>;
    /// Takes a batch.
    fn collect(&mut self, env: &Env<'_>, batch: &Batch) -> Result<(), Error>;
    /// What was found in one bucket of the parent.
    fn result(&mut self, env: &Env<'_>, bucket: u32) -> Result<Partial, Error>;
    /// The number to sort the parent's bucket by; NaN where there is none.
    fn number(&self, bucket: u32, path: &[String], property: Option<&str>) -> f64 {
        let _ = (bucket, path, property);
        f64::NAN
    }
}

/// The collectors below one bucket aggregation.
pub(crate) struct Subs {
    list: Vec<(String, Box<dyn Collector>)>,
}

impl Subs {
    fn new(env: &Env<'_>, nodes: &[Node], single: bool) -> Result<Self, Error> {
        let list = nodes
            .iter()
            .map(|node| Ok((node.name.clone(), build(env, node, single)?)))
            .collect::<Result<_, Error>>()?;
        Ok(Self { list })
    }

    fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn segment(&mut self, env: &Env<'_>, segment: &SegmentReader) -> Result<(), Error> {
        self.list.iter_mut().try_for_each(|(_, sub)| sub.segment(env, segment))
    }

    fn collect(&mut self, env: &Env<'_>, batch: &Batch) -> Result<(), Error> {
        if batch.docs.is_empty() {
            return Ok(());
        }
        self.list.iter_mut().try_for_each(|(_, sub)| sub.collect(env, batch))
    }

    fn results(&mut self, env: &Env<'_>, bucket: u32) -> Result<Vec<Partial>, Error> {
        env.account.check()?;
        self.list.iter_mut().map(|(_, sub)| sub.result(env, bucket)).collect()
    }

    fn number(&self, bucket: u32, path: &[String], property: Option<&str>) -> f64 {
        let Some((first, rest)) = path.split_first() else { return f64::NAN };
        let sub = self.list.iter().find(|(name, _)| name == first);
        sub.map_or(f64::NAN, |(_, sub)| sub.number(bucket, rest, property))
    }
}

/// Makes the collector of one aggregation. `single`: its parent has only the bucket 0.
fn build(env: &Env<'_>, node: &Node, single: bool) -> Result<Box<dyn Collector>, Error> {
    Ok(match &node.kind {
        Kind::Metric { metric, source } => match metric {
            Metric::Cardinality { threshold } => {
                Box::new(sketches::Cardinality::new(env, source, *threshold)?)
            }
            Metric::Percentiles { sketch, .. } | Metric::PercentileRanks { sketch, .. } => {
                Box::new(sketches::Quantiles::new(env, source, *sketch)?)
            }
            Metric::MedianAbsoluteDeviation { compression } => {
                let sketch = super::request::Sketch::TDigest { compression: *compression };
                Box::new(sketches::Quantiles::new(env, source, sketch)?)
            }
            Metric::GeoBounds | Metric::GeoCentroid => {
                Box::new(points::Points::new(env, metric, source)?)
            }
            _ => Box::new(metrics::Numbers::new(env, metric, source)?),
        },
        Kind::Weighted(weighted) => Box::new(metrics::Weighted::new(env, weighted)?),
        Kind::TopHits(spec) => Box::new(top_hits::TopHits::new(env, spec)?),
        Kind::Terms(terms) => Box::new(terms::Terms::new(env, node, terms, None, single)?),
        Kind::Significant(spec) => {
            Box::new(terms::Terms::new(env, node, &spec.terms, Some(spec), single)?)
        }
        Kind::GeoGrid(grid) => Box::new(terms::Terms::new_grid(env, node, grid, single)?),
        Kind::MultiTerms(spec) => Box::new(tuples::Tuples::new_multi_terms(env, node, spec)?),
        Kind::Composite(spec) => Box::new(tuples::Tuples::new_composite(env, node, spec)?),
        Kind::Histogram(spec) => Box::new(histogram::Histogram::new(env, node, spec, single)?),
        Kind::DateHistogram(spec) => {
            Box::new(histogram::Histogram::new_date(env, node, spec, single)?)
        }
        Kind::AutoDate(spec) => Box::new(histogram::Histogram::new_auto(env, node, spec, single)?),
        Kind::Range { source, ranges, .. } => {
            Box::new(ranges::Ranges::new(env, node, source, ranges)?)
        }
        Kind::Filter(query) => Box::new(filters::Filters::new_one(env, node, query, single)?),
        Kind::Filters(spec) => Box::new(filters::Filters::new(env, node, spec)?),
        Kind::Missing(field) => Box::new(filters::Existing::new_missing(env, node, field, single)?),
        Kind::Global => Box::new(filters::Existing::new_all(env, node, single)?),
    })
}

/// A count of buckets as the number of one.
pub(crate) fn bucket_id(index: usize) -> Result<u32, Error> {
    u32::try_from(index)
        .map_err(|_| Error::illegal_argument("an aggregation makes more than [4294967295] buckets"))
}

/// An error of Tantivy's, which is a disk's or a bug's.
pub(crate) fn index_error(error: impl std::fmt::Display) -> Error {
    Error::internal(format!("cannot read the index: {error}"))
}

fn needs_scores(nodes: &[Node]) -> bool {
    nodes.iter().any(|node| match &node.kind {
        Kind::TopHits(spec) => spec.needs_scores(),
        _ => needs_scores(&node.subs),
    })
}

/// Collects all documents of a partition that match.
pub(crate) fn collect(
    searcher: &Searcher,
    fields: &dyn Fields,
    nodes: &[Node],
    query: &dyn Query,
    context: &Context<'_>,
) -> Result<Vec<Partial>, Error> {
    let account = Account::new(context.memory);
    let mut env = Env { searcher, fields, context, account, segment_ordinal: 0 };
    let mut all = Vec::new();
    for node in nodes {
        all.push(build(&env, node, true)?);
    }
    // `global` looks at every document, whatever the query says.
    let (mut global, mut matching) = (Vec::new(), Vec::new());
    for (collector, node) in all.iter_mut().zip(nodes) {
        if matches!(node.kind, Kind::Global) { &mut global } else { &mut matching }.push(collector);
    }
    if !matching.is_empty() || global.is_empty() {
        run(&mut env, query, needs_scores(nodes), &mut matching)?;
    }
    if !global.is_empty() {
        run(&mut env, &AllQuery, needs_scores(nodes), &mut global)?;
    }
    all.iter_mut().map(|collector| collector.result(&env, 0)).collect()
}

fn run(
    env: &mut Env<'_>,
    query: &dyn Query,
    scored: bool,
    collectors: &mut [&mut Box<dyn Collector>],
) -> Result<(), Error> {
    let scoring = if scored {
        EnableScoring::enabled_from_searcher(env.searcher)
    } else {
        EnableScoring::disabled_from_searcher(env.searcher)
    };
    let weight = query.weight(scoring).map_err(index_error)?;
    let searcher = env.searcher;
    let mut batch = Batch::default();
    for (ordinal, segment) in searcher.segment_readers().iter().enumerate() {
        env.segment_ordinal = bucket_id(ordinal)?;
        for collector in collectors.iter_mut() {
            collector.segment(env, segment)?;
        }
        let mut scorer = weight.scorer(segment, 1.0).map_err(index_error)?;
        let alive = segment.alive_bitset();
        let mut buffer = [0; tantivy::COLLECT_BLOCK_BUFFER_LEN];
        loop {
            batch.clear();
            let mut ended = false;
            while batch.docs.len() + buffer.len() <= BATCH_DOCS && !ended {
                if scored {
                    let doc = scorer.doc();
                    ended = doc == TERMINATED;
                    if !ended {
                        if alive.is_none_or(|alive| alive.is_alive(doc)) {
                            batch.docs.push(doc);
                            batch.scores.push(scorer.score());
                        }
                        scorer.advance();
                    }
                } else {
                    let count = scorer.fill_buffer(&mut buffer);
                    let docs = buffer.iter().take(count).copied();
                    match alive {
                        Some(alive) => batch.docs.extend(docs.filter(|doc| alive.is_alive(*doc))),
                        None => batch.docs.extend(docs),
                    }
                    ended = count < buffer.len();
                }
            }
            batch.buckets.resize(batch.docs.len(), 0);
            if !batch.docs.is_empty() {
                for collector in collectors.iter_mut() {
                    collector.collect(env, &batch)?;
                }
            }
            if (env.context.cancelled)() {
                return Err(Error::new(400, "task_cancelled_exception", "The task was cancelled"));
            }
            if ended {
                break;
            }
        }
    }
    Ok(())
}
