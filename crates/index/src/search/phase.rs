//! The query phase: what one partition finds.

use serde_json::Value;
use tantivy::Searcher;
use tantivy::query::Query as TantivyQuery;

use super::fetch::{RowOf, fetch_phase};
use super::limits::{Count, Limits};
use super::matching::{compiled, filtered, with_min_score};
use super::request::{SearchRequest, TrackTotal};
use super::result::{Hit, PartitionResult, SortValue};
use super::sort::SortBy;
use super::{numbers, rescore, sorted, top};
use crate::aggregation::{self, Memory, Unlimited};
use crate::error::Error;
use crate::json;
use crate::partition::View;
use crate::query::ast::Query;
use crate::query::compile::Compiled;
use crate::query::exec::run::Cancelled;
use crate::query::{Context, parse};

/// What a search is given besides its request.
pub struct Surroundings<'a> {
    /// What `now` means in dates: milliseconds since 1970.
    pub now_ms: u64,
    /// Asked often; once it says yes, the search ends: with what it has (`timed_out`), or with an
    /// error where a clause was not looked at whole.
    pub cancelled: &'a Cancelled,
    /// Who is told of the memory that aggregations take.
    pub memory: &'a dyn Memory,
    /// How many buckets may be made (`search.max_buckets`).
    pub max_buckets: usize,
    /// Only hits behind this one, which a search of the same view and request has found. Scrolls
    /// go on with it.
    pub after: Option<&'a Hit>,
    /// Whether somebody goes on behind the last hit, as scrolls do: the hits are chosen by the scores
    /// that they show, or the next page would begin elsewhere than this one ends.
    pub goes_on: bool,
    /// The index's name and its rows, where aggregations may show documents (`top_hits`).
    pub rows: Option<(&'a str, RowOf<'a>)>,
}

impl<'a> Surroundings<'a> {
    /// A search without limits of memory, for tests and tools.
    #[must_use]
    pub fn simple(now_ms: u64, cancelled: &'a Cancelled) -> Self {
        let max_buckets = aggregation::MAX_BUCKETS_DEFAULT;
        let (after, goes_on) = (None, false);
        Self { now_ms, cancelled, memory: &Unlimited, max_buckets, after, goes_on, rows: None }
    }
}

/// Finds the best hits of one partition, as [`query_phase_in`] does without limits of memory.
///
/// # Errors
/// As [`query_phase_in`].
pub fn query_phase(
    view: &View,
    request: &SearchRequest,
    now_ms: u64,
    cancelled: &Cancelled,
) -> Result<PartitionResult, Error> {
    query_phase_in(view, request, &Surroundings::simple(now_ms, cancelled))
}

/// Finds the best hits of one partition, and aggregates its matches.
///
/// # Errors
/// 400 where the request does not fit the mapping, the breaker's where memory is refused.
pub fn query_phase_in(
    view: &View,
    request: &SearchRequest,
    around: &Surroundings<'_>,
) -> Result<PartitionResult, Error> {
    let window = request.window()?;
    let is_pruned = !around.goes_on && around.after.is_none() && may_be_pruned(request);
    let context = if is_pruned {
        Context::new(view, around.now_ms, around.cancelled)
    } else {
        Context::exact(view, around.now_ms, around.cancelled)
    };
    let matching =
        with_min_score(&context, compiled(&context, request.query())?, request.min_score);
    let rescored = request.rescore.iter().map(|rescore| rescore.window).max().unwrap_or(0);
    let limits = Limits {
        window: if window == 0 { 0 } else { window.max(rescored) },
        track_total: request.track_total,
        terminate_after: request.terminate_after,
        cancelled: around.cancelled,
        after: around.after,
    };
    let mut result = PartitionResult::default();
    if let Some(aggregations) = &request.aggregations {
        result.aggregations = Some(aggregate(&context, aggregations, &matching, around)?);
    }
    let hits = match &request.post_filter {
        Some(filter) => filtered(matching, filter.compiled(&context)?),
        None => matching,
    };
    let again = (limits.terminate_after > 0).then(|| hits.query.box_clone());
    let (hits, mut count) = find(&context, request, hits, is_pruned, &limits)?;
    context.check()?;
    if let (true, Some(query)) = (count.terminated_early, again) {
        count.terminated_early = is_more_than(view.searcher(), query.as_ref(), &limits)?;
        count.is_exact = !count.terminated_early;
        context.check()?;
    }
    result.hits = hits;
    result.total = count.found;
    result.total_is_exact = count.is_exact;
    result.terminated_early = count.terminated_early;
    result.timed_out = count.timed_out;
    for rescore in &request.rescore {
        rescore.apply(&context, &mut result.hits)?;
    }
    context.check()?;
    result.hits.truncate(window);
    let has_max = request.is_by_score() || request.track_scores;
    if has_max {
        let scores = result.hits.iter().filter_map(|hit| hit.score);
        result.max_score = scores.reduce(f32::max);
    }
    Ok(result)
}

/// Whether more documents match than a search stopped after. Where it was stopped by the last of
/// them it has seen all, and did not end early.
fn is_more_than(
    searcher: &Searcher,
    query: &dyn TantivyQuery,
    limits: &Limits<'_>,
) -> Result<bool, Error> {
    let terminate_after = limits.terminate_after.saturating_add(1);
    let track_total = TrackTotal::Exact;
    let limits = Limits { window: 0, terminate_after, track_total, after: None, ..*limits };
    Ok(top::by_doc(searcher, query, &limits)?.1.found >= terminate_after)
}

fn find(
    context: &Context<'_>,
    request: &SearchRequest,
    hits: Compiled,
    is_pruned: bool,
    limits: &Limits<'_>,
) -> Result<(Vec<Hit>, Count), Error> {
    let searcher = context.view.searcher();
    let clauses = sorted::bind(context, &request.sort)?;
    if hits.is_none() {
        return Ok((Vec::new(), Count { is_exact: true, ..Count::default() }));
    }
    if limits.window == 0 {
        // Nothing but a number is wanted; without one, only whether the query runs.
        let (_, count) = top::by_doc(searcher, hits.query.as_ref(), limits)?;
        return Ok((Vec::new(), count));
    }
    let is_plain = request.collapse.is_none() && request.search_after.is_none();
    let is_by_doc = matches!(
        request.sort.as_slice(),
        [only] if matches!(only.by, SortBy::Doc) && !only.descending
    ) && !request.track_scores;
    let is_alike = request.is_by_score() && hits.score.is_some();
    if is_plain && (is_by_doc || is_alike) {
        let score = hits.score.filter(|_| is_alike);
        let (addresses, count) = top::by_doc(searcher, hits.query.as_ref(), limits)?;
        let hits = addresses.into_iter().map(|at| plain_hit(searcher, request, at, score));
        return Ok((hits.collect(), count));
    }
    if is_pruned {
        let exact = context.anew_exact();
        let shown = match context.texts() {
            0 => None,
            _ => Some(compiled(&exact, request.query())?.into_query()),
        };
        // Of a word or two all documents that score alike do so by the rounded scores as well.
        let deciding = shown.as_deref().filter(|_| context.texts() > 2);
        let (mut hits, count) = top::by_score(searcher, hits.query.as_ref(), deciding, limits)?;
        if let (Some(shown), None) = (&shown, deciding) {
            rescore::replace(searcher, shown.as_ref(), &mut hits)?;
        }
        exact.check()?;
        if !request.sort.is_empty() {
            for hit in &mut hits {
                hit.sort = hit.score.map(SortValue::Score).into_iter().collect();
            }
        }
        return Ok((hits, count));
    }
    sorted::find(context, request, clauses, hits, limits)
}

/// Whether the best hits can be found by score, with pruning.
fn may_be_pruned(request: &SearchRequest) -> bool {
    request.is_by_score() && request.collapse.is_none() && request.search_after.is_none()
}

fn plain_hit(
    searcher: &Searcher,
    request: &SearchRequest,
    address: (u32, u32),
    score: Option<f32>,
) -> Hit {
    let number = || numbers::first_of(searcher, address.0) + i64::from(address.1);
    let sort = match (request.sort.is_empty(), score) {
        (true, _) => Vec::new(),
        (false, Some(score)) => vec![SortValue::Score(score)],
        (false, None) => vec![SortValue::Long(number())],
    };
    Hit { address, score, sort, group: None }
}

fn aggregate(
    context: &Context<'_>,
    aggregations: &aggregation::Aggregations,
    matching: &Compiled,
    around: &Surroundings<'_>,
) -> Result<aggregation::Intermediate, Error> {
    let view = context.view;
    let resolve = |node: &Value| -> Result<Box<dyn TantivyQuery>, Error> {
        Ok(parse(node)?.compiled(context)?.query)
    };
    let fetch = |hits: &[aggregation::HitAddress], options: &Value| -> Result<Vec<Value>, Error> {
        let Some((index, rows)) = around.rows else {
            return Err(Error::illegal_argument("documents cannot be shown here"));
        };
        let shown = SearchRequest::parse(options)?;
        let hits: Vec<Hit> = hits
            .iter()
            .map(|(segment, doc, score)| Hit {
                address: (*segment, *doc),
                score: Some(*score),
                sort: Vec::new(),
                group: None,
            })
            .collect();
        let rendered =
            fetch_phase(view, &shown, index, &hits, rows, around.memory, around.cancelled)?;
        rendered.iter().flatten().map(|hit| json::read_own(hit.get(), around.memory)).collect()
    };
    let aggregation_context = aggregation::Context {
        now_ms: around.now_ms,
        max_buckets: around.max_buckets,
        memory: around.memory,
        cancelled: &|| around.cancelled.is_set(),
        resolve_query: &resolve,
        fetch: if around.rows.is_some() { Some(&fetch) } else { None },
    };
    let found = aggregations.collect(view, matching.query.as_ref(), &aggregation_context)?;
    context.check()?;
    Ok(found)
}

/// Counts the documents of a partition that match; none: all.
///
/// # Errors
/// As the query phase.
pub fn count(
    view: &View,
    query: Option<&Query>,
    now_ms: u64,
    cancelled: &Cancelled,
) -> Result<u64, Error> {
    let context = Context::new(view, now_ms, cancelled);
    let matching = compiled(&context, query)?;
    let limits = Limits {
        window: 0,
        track_total: TrackTotal::Exact,
        terminate_after: 0,
        cancelled,
        after: None,
    };
    let found = counted(view.searcher(), &matching, &limits)?;
    context.check()?;
    Ok(found)
}

fn counted(searcher: &Searcher, matching: &Compiled, limits: &Limits<'_>) -> Result<u64, Error> {
    if matching.is_none() {
        return Ok(0);
    }
    Ok(top::by_doc(searcher, matching.query.as_ref(), limits)?.1.found)
}
