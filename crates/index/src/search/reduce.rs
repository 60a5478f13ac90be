//! The hits of all partitions become those of the answer.

use serde_json::Value;

use super::request::{SearchRequest, TrackTotal};
use super::result::{Hit, PartitionResult};
use super::sort::{Missing, SortBy};
use super::sorted::{compare, group_of};
use crate::aggregation::{MAX_BUCKETS_DEFAULT, Memory, Unlimited};
use crate::error::Error;

/// What a search found.
#[derive(Clone, Debug, Default)]
pub struct Reduced {
    /// Matching documents; none where they were not counted.
    pub total: Option<u64>,
    /// Whether there may be more than `total`.
    pub total_is_at_least: bool,
    /// The best score of all; none where hits have no scores, or there are none.
    pub max_score: Option<f32>,
    /// The hits of the page in their order, each with the number of its partition.
    pub hits: Vec<(usize, Hit)>,
    /// The answer's `aggregations`.
    pub aggregations: Option<Value>,
    /// Whether `terminate_after` ended the search of a partition.
    pub terminated_early: bool,
    /// Whether a partition was cancelled or ran out of time.
    pub timed_out: bool,
}

impl Reduced {
    /// `hits.total` of an answer: `{"value": 3, "relation": "eq"}`.
    #[must_use]
    pub fn total_json(&self) -> Option<Value> {
        let relation = if self.total_is_at_least { "gte" } else { "eq" };
        self.total.map(|total| serde_json::json!({ "value": total, "relation": relation }))
    }
}

/// Reduces what the partitions found, with the defaults of aggregations.
///
/// # Errors
/// As [`reduce_with`].
pub fn reduce(request: &SearchRequest, results: Vec<PartitionResult>) -> Result<Reduced, Error> {
    reduce_with(request, results, MAX_BUCKETS_DEFAULT, false, &Unlimited)
}

/// Reduces what the partitions found. `typed_keys`: the names of aggregations say their kinds.
///
/// # Errors
/// 400 where there are too many buckets; the breaker's where memory is refused.
pub fn reduce_with(
    request: &SearchRequest,
    results: Vec<PartitionResult>,
    max_buckets: usize,
    typed_keys: bool,
    memory: &dyn Memory,
) -> Result<Reduced, Error> {
    let mut reduced = Reduced::default();
    let mut total = 0u64;
    let mut is_exact = true;
    let mut merged = None;
    for (partition, result) in results.into_iter().enumerate() {
        memory.take(0)?;
        total = total.saturating_add(result.total);
        is_exact &= result.total_is_exact;
        reduced.terminated_early |= result.terminated_early;
        reduced.timed_out |= result.timed_out;
        if let Some(score) = result.max_score {
            reduced.max_score = Some(reduced.max_score.map_or(score, |best| best.max(score)));
        }
        if let (Some(aggregations), Some(found)) = (&request.aggregations, result.aggregations) {
            match &mut merged {
                Some(into) => aggregations.merge(into, found),
                None => merged = Some(found),
            }
        }
        reduced.hits.extend(result.hits.into_iter().map(|hit| (partition, hit)));
    }
    if let (Some(aggregations), Some(found)) = (&request.aggregations, merged) {
        reduced.aggregations = Some(aggregations.finish(found, max_buckets, typed_keys, memory)?);
    }
    reduced.total = match request.track_total {
        TrackTotal::No => None,
        TrackTotal::Exact => Some(total),
        TrackTotal::UpTo(limit) => {
            reduced.total_is_at_least = total > limit;
            Some(total.min(limit))
        }
    };
    if !is_exact && request.track_total != TrackTotal::No && !reduced.terminated_early {
        // A partition that stopped counting had passed the limit, unless it was cancelled.
        reduced.total_is_at_least |= !matches!(request.track_total, TrackTotal::Exact);
    }
    order(request, &mut reduced.hits);
    if request.collapse.is_some() {
        collapse(&mut reduced.hits);
    }
    let page = reduced.hits.drain(..).skip(request.from).take(request.size).collect();
    reduced.hits = page;
    if request.size == 0 {
        reduced.max_score = None;
    }
    Ok(reduced)
}

fn order(request: &SearchRequest, hits: &mut [(usize, Hit)]) {
    let by_score = request.sort.is_empty();
    let descending: Vec<bool> = request.sort.iter().map(|clause| clause.descending).collect();
    let nulls_first: Vec<bool> = request
        .sort
        .iter()
        .map(|clause| matches!(&clause.by, SortBy::Field(field) if field.missing == Missing::First))
        .collect();
    // Stable: what is equal stays in the order of partitions, and of documents in each.
    hits.sort_by(|(_, a), (_, b)| {
        if by_score {
            let (a, b) = (a.score.unwrap_or(0.0), b.score.unwrap_or(0.0));
            return b.total_cmp(&a);
        }
        compare(&a.sort, &b.sort, &descending, &nulls_first)
    });
}

fn collapse(hits: &mut Vec<(usize, Hit)>) {
    let mut seen = std::collections::HashSet::new();
    hits.retain(|(_, hit)| seen.insert(group_of(hit)));
}
