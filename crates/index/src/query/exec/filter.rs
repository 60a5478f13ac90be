//! Filters over columns as Tantivy queries. A filter is asked for windows of documents where it
//! leads, and for single documents where another query leads, so that the dearer of two filters
//! is only computed where the cheaper one matched.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use tantivy::query::{
    AllScorer, BitSetDocSet, ConstScorer, EmptyScorer, EnableScoring, Explanation, Query, Scorer,
    Weight,
};
use tantivy::{
    BitSet, COLLECT_BLOCK_BUFFER_LEN, DocId, DocSet, Score, SeekDangerResult, SegmentReader,
    TERMINATED, TantivyError,
};

/// The documents of a window at first, and at most.
const WINDOW_MIN: u32 = 32;
const WINDOW_MAX: u32 = 4096;

/// A condition on columns, before it is bound to a segment.
pub(crate) trait Filter: fmt::Debug + Send + Sync + 'static {
    /// Binds it.
    fn segment(&self, reader: &SegmentReader) -> tantivy::Result<Matches>;
}

/// The documents of a segment that match.
pub(crate) enum Matches {
    None,
    All,
    Docs(BitSet),
    Filter(Box<dyn SegmentFilter>),
}

/// A condition bound to a segment's columns.
pub(crate) trait SegmentFilter: Send + 'static {
    /// Whether one document matches.
    fn matches(&mut self, doc: DocId) -> bool;

    /// Adds the matching documents of a window, in order, each once.
    fn collect(&mut self, window: Range<DocId>, out: &mut Vec<DocId>);

    /// What one document costs, beside 1 for the next document of a posting list.
    fn cost(&self) -> u64 {
        4
    }

    /// A guess of how many documents match.
    fn estimate(&self, max_doc: u32) -> u32 {
        max_doc
    }
}

/// A filter as a query: every match scores 1.
#[derive(Clone, Debug)]
pub(crate) struct FilterQuery(pub Arc<dyn Filter>);

impl FilterQuery {
    pub(crate) fn boxed(filter: impl Filter) -> Box<dyn Query> {
        Box::new(Self(Arc::new(filter)))
    }
}

impl Query for FilterQuery {
    fn weight(&self, _: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(self.clone()))
    }
}

impl Weight for FilterQuery {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        Ok(match self.0.segment(reader)? {
            Matches::None => Box::new(EmptyScorer),
            // Tantivy leaves a bare AllScorer out of a conjunction with its score, which is what
            // is wanted where the score does not count, and that is 1 * 1 otherwise.
            Matches::All => Box::new(ConstScorer::new(AllScorer::new(reader.max_doc()), boost)),
            Matches::Docs(docs) => Box::new(ConstScorer::new(BitSetDocSet::from(docs), boost)),
            Matches::Filter(filter) => {
                Box::new(ConstScorer::new(FilterDocSet::new(filter, reader.max_doc()), boost))
            }
        })
    }

    fn explain(&self, reader: &SegmentReader, doc: DocId) -> tantivy::Result<Explanation> {
        let mut scorer = self.scorer(reader, 1.0)?;
        if scorer.doc() > doc || scorer.seek(doc) != doc {
            return Err(TantivyError::InvalidArgument(format!("document {doc} does not match")));
        }
        Ok(Explanation::new("ConstantScore", 1.0))
    }
}

/// The matches of a filter, computed window by window.
struct FilterDocSet {
    filter: Box<dyn SegmentFilter>,
    max_doc: DocId,
    /// The matches of the last window.
    window: Vec<DocId>,
    at: usize,
    /// The first document that no window has covered.
    next: DocId,
    size: u32,
    /// The number of matches of a whole segment is not known before it is walked.
    estimate: u32,
}

impl FilterDocSet {
    fn new(filter: Box<dyn SegmentFilter>, max_doc: DocId) -> Self {
        let estimate = filter.estimate(max_doc);
        let mut docs = Self {
            filter,
            max_doc,
            window: Vec::new(),
            at: 0,
            next: 0,
            size: WINDOW_MIN,
            estimate,
        };
        docs.fill();
        docs
    }

    /// Goes on to the next window that has a match.
    fn fill(&mut self) -> DocId {
        self.window.clear();
        self.at = 0;
        while self.next < self.max_doc {
            let end = self.next.saturating_add(self.size).min(self.max_doc);
            self.filter.collect(self.next..end, &mut self.window);
            self.next = end;
            self.size = (self.size * 2).min(WINDOW_MAX);
            if !self.window.is_empty() {
                break;
            }
        }
        self.doc()
    }
}

impl DocSet for FilterDocSet {
    fn advance(&mut self) -> DocId {
        self.at += 1;
        match self.window.get(self.at) {
            Some(doc) => *doc,
            None => self.fill(),
        }
    }

    fn seek(&mut self, target: DocId) -> DocId {
        if target < self.next {
            let skipped =
                self.window[self.at.min(self.window.len())..].partition_point(|doc| *doc < target);
            self.at += skipped;
            if self.at < self.window.len() {
                return self.doc();
            }
        } else {
            self.next = target;
            self.size = WINDOW_MIN;
        }
        self.fill()
    }

    fn seek_danger(&mut self, target: DocId) -> SeekDangerResult {
        if target >= self.max_doc {
            return SeekDangerResult::SeekLowerBound(TERMINATED);
        }
        if target < self.next && !self.window.is_empty() {
            let doc = self.seek(target);
            return if doc == target {
                SeekDangerResult::Found
            } else {
                SeekDangerResult::SeekLowerBound(doc)
            };
        }
        self.window.clear();
        self.at = 0;
        self.next = target + 1;
        self.size = WINDOW_MIN;
        if self.filter.matches(target) {
            self.window.push(target);
            SeekDangerResult::Found
        } else {
            SeekDangerResult::SeekLowerBound(target + 1)
        }
    }

    fn fill_buffer(&mut self, buffer: &mut [DocId; COLLECT_BLOCK_BUFFER_LEN]) -> usize {
        let mut filled = 0;
        while filled < buffer.len() && self.doc() != TERMINATED {
            let ready = &self.window[self.at..];
            let count = ready.len().min(buffer.len() - filled);
            buffer[filled..filled + count].copy_from_slice(&ready[..count]);
            filled += count;
            self.at += count;
            if self.at >= self.window.len() {
                self.fill();
            }
        }
        filled
    }

    fn doc(&self) -> DocId {
        self.window.get(self.at).copied().unwrap_or(TERMINATED)
    }

    fn size_hint(&self) -> u32 {
        self.estimate
    }

    fn cost(&self) -> u64 {
        u64::from(self.max_doc) * self.filter.cost()
    }

    fn count_including_deleted(&mut self) -> u32 {
        let mut count = 0;
        while self.doc() != TERMINATED {
            count += u32::try_from(self.window.len() - self.at).unwrap_or(u32::MAX);
            self.fill();
        }
        count
    }
}
