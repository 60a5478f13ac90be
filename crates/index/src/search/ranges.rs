//! Ranges of a segment's documents with the least sort key of each, by which a sorted search begins where the first
//! hits are and leaves out the rest: of the newest log lines only the last range is read. The bounds of a column are
//! kept ([`Bounds`]); what is done with them is `walk`'s.

use std::ops::Range;
use std::sync::Arc;

use tantivy::query::Scorer;
use tantivy::{DocId, DocSet as _, Searcher, SegmentReader, TERMINATED};

use super::segment_sort::SegmentClause;
use crate::partition::Bounds;
use crate::query::exec::BLOCK;
use crate::query::exec::run::Cancelled;

/// Documents of a range; the last of a segment has fewer.
const RANGE_DOCS: u32 = if cfg!(test) { 128 } else { 4096 };
/// Where less is left to leave out, all is gone through: documents of a segment, and the part of them that match.
const SEGMENT_DOCS_MIN: u32 = 4 * RANGE_DOCS;
const MATCHING_PART_MIN: u32 = 64;
/// So many times the hits that are wanted are expected in the ranges that are read first, and at least so many.
const FIRST_TIMES: usize = 2;
const FIRST_MIN: usize = 64;

/// The ranges of one segment.
pub(super) struct Ranges {
    /// The least key of each range's documents, by the order of documents.
    least: Arc<[u64]>,
    docs: u32,
    /// How many documents match, by estimate.
    matching: u32,
}

/// One of them.
pub(super) struct OneRange {
    pub at: usize,
    pub docs: Range<DocId>,
    /// No document of it has a lesser one.
    pub least_key: u64,
}

impl Ranges {
    /// None where the clause does not go by a column, or too little could be left out.
    pub fn of(
        clause: &mut SegmentClause,
        reader: &SegmentReader,
        bounds: &Bounds,
        searcher: &Searcher,
        matching: u32,
        cancelled: &Cancelled,
    ) -> Option<Self> {
        let docs = reader.max_doc();
        if docs < SEGMENT_DOCS_MIN || matching < docs / MATCHING_PART_MIN {
            return None;
        }
        let column = clause.column()?;
        let find = || least_keys(clause, docs, cancelled);
        let least = bounds.of(searcher, reader.segment_id(), &column, find)?;
        Some(Self { least, docs, matching })
    }

    /// All of them, by the order of documents.
    pub fn all(&self) -> impl Iterator<Item = OneRange> {
        self.least.iter().zip((0..self.docs).step_by(RANGE_DOCS as usize)).enumerate().map(
            |(at, (least_key, start))| OneRange {
                at,
                docs: start..self.docs.min(start + RANGE_DOCS),
                least_key: *least_key,
            },
        )
    }

    /// For each range whether it is one of those that come first and together have more hits than are wanted.
    pub fn first(&self, window: usize) -> Vec<bool> {
        let wanted = window.saturating_mul(FIRST_TIMES).max(FIRST_MIN) as u64;
        let docs = wanted.saturating_mul(u64::from(self.docs)) / u64::from(self.matching.max(1));
        let count = usize::try_from(docs.div_ceil(u64::from(RANGE_DOCS))).unwrap_or(usize::MAX);
        let mut order: Vec<usize> = (0..self.least.len()).collect();
        order.sort_by_key(|at| (self.least[*at], *at));
        let mut first = vec![false; order.len()];
        order.into_iter().take(count.max(1)).for_each(|at| first[at] = true);
        first
    }
}

/// None where the search is cancelled.
fn least_keys(clause: &mut SegmentClause, docs: u32, cancelled: &Cancelled) -> Option<Arc<[u64]>> {
    let range = |start: u32| {
        if cancelled.is_set() {
            return None;
        }
        let end = docs.min(start + RANGE_DOCS);
        let mut least = u64::MAX;
        let docs: Vec<DocId> = (start..end).collect();
        for block in docs.chunks(BLOCK) {
            let mut keys = [0; BLOCK];
            let keys = &mut keys[..block.len()];
            clause.keys(block, &[], keys);
            least = keys.iter().copied().fold(least, u64::min);
        }
        Some(least)
    };
    (0..docs).step_by(RANGE_DOCS as usize).map(range).collect()
}

/// The documents of a query, taken in blocks up to the end of one range after the other. What is sought has to come
/// after what was taken.
pub(super) struct Cursor {
    scorer: Box<dyn Scorer>,
    block: [DocId; BLOCK],
    /// What of the block is not taken yet.
    left: Range<usize>,
    /// Documents before this one are taken or left out.
    from: DocId,
}

impl Cursor {
    pub fn new(scorer: Box<dyn Scorer>) -> Self {
        Self { scorer, block: [0; BLOCK], left: 0..0, from: 0 }
    }

    /// Goes on at a document, or at the first after it; false where that lies behind.
    pub fn seek(&mut self, doc: DocId) -> bool {
        if doc < self.from {
            return false;
        }
        self.from = doc;
        while self.left.start < self.left.end && self.block[self.left.start] < doc {
            self.left.start += 1;
        }
        if self.left.is_empty() && self.scorer.doc() < doc {
            self.scorer.seek(doc);
        }
        true
    }

    /// The next documents before `end`; none where there are no more.
    pub fn block(&mut self, end: DocId) -> Option<&[DocId]> {
        if self.left.is_empty() && self.scorer.doc() != TERMINATED && self.scorer.doc() < end {
            self.left = 0..self.scorer.fill_buffer(&mut self.block);
        }
        let start = self.left.start;
        let taken = self.block[self.left.clone()].partition_point(|doc| *doc < end);
        self.left.start += taken;
        let block = &self.block[start..start + taken];
        self.from = block.last()? + 1;
        Some(block)
    }
}
