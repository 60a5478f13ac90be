//! How one partition collects: documents flow, in batches and in order, through a tree of
//! collectors, each batch saying to which bucket of the parent a document belongs.
//!
//! A collector lives for the whole partition, not for one segment, so that nothing is merged at a
//! segment's end; keys of strings are therefore numbered across segments (see `keys`). What a
//! collector holds it accounts for before, or right after, it takes it.

mod accept;
mod collector;
mod context;
mod encoding;
mod filters;
mod histogram;
mod interner;
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

use tantivy::query::{AllQuery, EnableScoring, Query};
use tantivy::{DocSet, Searcher, TERMINATED};

use self::collector::{Batch, Collector, Env};
use self::context::{BATCH_DOCS, bucket_id, index_error};
pub use self::context::{Context, FetchHits, HitAddress, ResolveQuery};
use super::fields::Fields;
use super::memory::Account;
use super::partial::Partial;
use super::request::{Kind, Metric, Node};
use crate::Error;

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
    let mut env = Env { searcher, fields, context, account, segment_ordinal: 0, build };
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
                return Err(Error::invalid("task_cancelled_exception", "The task was cancelled"));
            }
            if ended {
                break;
            }
        }
    }
    Ok(())
}
