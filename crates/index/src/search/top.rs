//! The best hits by score, and the first hits by number where all score alike. Both stop as soon
//! as nothing can change: scores are pruned by the worst of the best once enough hits are counted.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use tantivy::query::{EnableScoring, Query, Weight};
use tantivy::{COLLECT_BLOCK_BUFFER_LEN, DocSet as _, Searcher, TERMINATED};

use super::failure::internal;
use super::limits::{Count, Limits};
use super::rescore::score_of;
use super::result::Hit;
use crate::error::Error;

/// A document among the best; the worst one is the greatest.
struct Entry {
    score: f32,
    address: (u32, u32),
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(self.address.cmp(&other.address))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

/// By what part of it a score that pruning goes by may be too small: it adds those of the words in an order that differs
/// from document to document, and rounds each time.
const ROUNDED: f32 = 1.0 / 65_536.0;

/// The best `limits.window` hits of a query whose scores differ. Where there is a second query, its scores decide
/// which they are, of those that the first one's leave: it matches the same documents.
pub(super) fn by_score(
    searcher: &Searcher,
    query: &dyn Query,
    shown: Option<&dyn Query>,
    limits: &Limits<'_>,
) -> Result<(Vec<Hit>, Count), Error> {
    let scoring = EnableScoring::enabled_from_searcher(searcher);
    let weight = query.weight(scoring).map_err(internal)?;
    let shown = shown.map(|shown| shown.weight(scoring)).transpose().map_err(internal)?;
    let rounded = if shown.is_some() { ROUNDED } else { 0.0 };
    let mut best: BinaryHeap<Entry> = BinaryHeap::with_capacity(limits.window.min(10_000) + 1);
    let mut count = Count::default();
    let counted = limits.count_limit();
    for (segment, reader) in (0u32..).zip(searcher.segment_readers()) {
        count.stop_between(segment, limits);
        if count.stopped {
            break;
        }
        let alive = reader.alive_bitset();
        let mut polled = 0u32;
        let mut shown = match &shown {
            Some(weight) => Some(weight.scorer(reader, 1.0).map_err(internal)?),
            None => None,
        };
        let first = threshold(&best, limits.window, count.found > counted, rounded);
        let mut see = |doc: u32, score: f32| {
            polled += 1;
            if polled.is_multiple_of(1024) && limits.cancelled.is_set() {
                count.stopped = true;
                count.timed_out = true;
            }
            if count.stopped {
                // Nothing scores more than this, so that the rest is passed over.
                return f32::INFINITY;
            }
            if alive.is_none_or(|alive| alive.is_alive(doc)) {
                count.found += 1;
                if limits.terminate_after > 0 && count.found >= limits.terminate_after {
                    count.stopped = true;
                    count.terminated_early = true;
                }
                if score > threshold(&best, limits.window, true, rounded) {
                    let second = shown.as_mut().and_then(|shown| score_of(shown, doc));
                    let score = second.unwrap_or(score);
                    best.push(Entry { score, address: (segment, doc) });
                    if best.len() > limits.window {
                        best.pop();
                    }
                }
            }
            threshold(&best, limits.window, count.found > counted, rounded)
        };
        weight.for_each_pruning(first, reader, &mut see).map_err(internal)?;
    }
    count.is_exact = !count.stopped && count.found <= counted;
    let hits = best
        .into_sorted_vec()
        .into_iter()
        .map(|entry| Hit {
            address: entry.address,
            score: Some(entry.score),
            sort: Vec::new(),
            group: None,
        })
        .collect();
    Ok((hits, count))
}

/// The score that a document has to pass to be seen, where scores may be too small by a part of them.
fn threshold(best: &BinaryHeap<Entry>, window: usize, is_counted: bool, rounded: f32) -> f32 {
    if !is_counted || best.len() < window {
        return f32::MIN;
    }
    best.peek().map_or(f32::MAX, |worst| worst.score - worst.score.abs() * rounded)
}

/// The first hits in the order of documents, after `limits.after` where it is given.
pub(super) fn by_doc(
    searcher: &Searcher,
    query: &dyn Query,
    limits: &Limits<'_>,
) -> Result<(Vec<(u32, u32)>, Count), Error> {
    let weight = query.weight(EnableScoring::disabled_from_searcher(searcher)).map_err(internal)?;
    let mut hits = Vec::new();
    let mut count = Count::default();
    let counted = limits.count_limit();
    let start = limits.after.map(|hit| hit.address);
    for (segment, reader) in (0u32..).zip(searcher.segment_readers()) {
        count.stop_between(segment, limits);
        if count.stopped || (hits.len() >= limits.window && count.found > counted) {
            break;
        }
        // A count without an end is left to the query, which may know it without walking.
        let is_count_alone = hits.len() >= limits.window && limits.terminate_after == 0;
        if is_count_alone && counted == u64::MAX && start.is_none() {
            count.found += u64::from(counted_by(weight.as_ref(), reader)?);
            if limits.cancelled.is_set() {
                count.stopped = true;
                count.timed_out = true;
            }
            continue;
        }
        let is_before = start.is_some_and(|(from, _)| segment < from);
        if is_before && limits.count_limit() == 0 {
            continue;
        }
        walk(weight.as_ref(), reader, segment, limits, &mut hits, &mut count)?;
    }
    count.is_exact = !count.stopped && count.found <= counted;
    Ok((hits, count))
}

fn counted_by(weight: &dyn Weight, reader: &tantivy::SegmentReader) -> Result<u32, Error> {
    weight.count(reader).map_err(internal)
}

fn walk(
    weight: &dyn Weight,
    reader: &tantivy::SegmentReader,
    segment: u32,
    limits: &Limits<'_>,
    hits: &mut Vec<(u32, u32)>,
    count: &mut Count,
) -> Result<(), Error> {
    let counted = limits.count_limit();
    let start = limits.after.map(|hit| hit.address);
    let mut scorer = weight.scorer(reader, 1.0).map_err(internal)?;
    if let Some((from, doc)) = start
        && from == segment
        && counted == 0
        && scorer.doc() <= doc
    {
        scorer.seek(doc + 1);
    }
    let alive = reader.alive_bitset();
    let mut block = [0; COLLECT_BLOCK_BUFFER_LEN];
    let mut polled = 0u32;
    while scorer.doc() != TERMINATED {
        let length = scorer.fill_buffer(&mut block);
        polled += 1;
        if polled.is_multiple_of(16) && limits.cancelled.is_set() {
            count.stopped = true;
            count.timed_out = true;
            return Ok(());
        }
        for doc in &block[..length] {
            if alive.is_some_and(|alive| !alive.is_alive(*doc)) {
                continue;
            }
            count.found += 1;
            if hits.len() < limits.window && start.is_none_or(|start| (segment, *doc) > start) {
                hits.push((segment, *doc));
            }
            if limits.terminate_after > 0 && count.found >= limits.terminate_after {
                count.stopped = true;
                count.terminated_early = true;
                return Ok(());
            }
        }
        if hits.len() >= limits.window && count.found > counted {
            return Ok(());
        }
        if hits.len() >= limits.window
            && counted == u64::MAX
            && start.is_none()
            && limits.terminate_after == 0
        {
            // The page is full: the rest of the segment is only counted.
            count.found += match alive {
                Some(alive) => u64::from(scorer.count(alive)),
                None => u64::from(scorer.count_including_deleted()),
            };
            return Ok(());
        }
    }
    Ok(())
}
