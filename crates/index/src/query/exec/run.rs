//! A query while it runs: where it puts the error that a scorer cannot return, and how it learns that
//! nobody waits for its answer any more. Who cancels a search, and why, is not known here.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tantivy::query::{EmptyScorer, EnableScoring, Explanation, Query, Scorer, Weight};
use tantivy::{DocId, Score, SegmentReader, TantivyError};

use crate::error::Error;

/// Whether a search was cancelled. It is asked often, by the thread that searches.
#[derive(Clone)]
pub struct Cancelled(Arc<dyn Fn() -> bool + Send + Sync>);

impl Cancelled {
    /// What says whether it was.
    pub fn by(asked: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(asked))
    }

    /// A search that nobody cancels, for tests and tools.
    #[must_use]
    pub fn never() -> Self {
        Self::by(|| false)
    }

    /// Whether it was.
    #[must_use]
    pub fn is_set(&self) -> bool {
        (self.0)()
    }
}

/// One use of a compiled query. The first error counts; after it, whatever of the query asks finds
/// nothing more.
#[derive(Clone)]
pub(crate) struct Run {
    error: Arc<Mutex<Option<Error>>>,
    cancelled: Cancelled,
}

impl Run {
    pub(crate) fn new(cancelled: Cancelled) -> Self {
        Self { error: Arc::default(), cancelled }
    }

    pub(crate) fn fail(&self, error: Error) {
        self.error.lock().get_or_insert(error);
    }

    /// Whether the query has failed, or nobody wants its answer: that is an error too, as what was
    /// found without some of its clauses is no answer.
    pub(crate) fn is_over(&self) -> bool {
        if self.cancelled.is_set() {
            self.fail(Error::invalid("task_cancelled_exception", "The task was cancelled"));
        }
        self.error.lock().is_some()
    }

    pub(crate) const fn cancelled(&self) -> &Cancelled {
        &self.cancelled
    }

    /// Takes the error, if there is one.
    pub(crate) fn take_error(&self) -> Option<Error> {
        self.error.lock().take()
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Run").field(&self.error).finish()
    }
}

/// A query that does most of its work before its first match, as those do that walk through many
/// terms: nobody can stop it by its matches, so that it looks before each segment.
#[derive(Debug)]
pub(crate) struct Stoppable {
    pub inner: Box<dyn Query>,
    pub run: Run,
}

impl Clone for Stoppable {
    fn clone(&self) -> Self {
        Self { inner: self.inner.box_clone(), run: self.run.clone() }
    }
}

impl Query for Stoppable {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(StoppableWeight { inner: self.inner.weight(scoring)?, run: self.run.clone() }))
    }

    fn query_terms<'a>(&'a self, visitor: &mut dyn FnMut(&'a tantivy::Term, bool)) {
        self.inner.query_terms(visitor);
    }
}

struct StoppableWeight {
    inner: Box<dyn Weight>,
    run: Run,
}

impl Weight for StoppableWeight {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        if self.run.is_over() {
            return Ok(Box::new(EmptyScorer));
        }
        self.inner.scorer(reader, boost)
    }

    fn explain(&self, reader: &SegmentReader, doc: DocId) -> tantivy::Result<Explanation> {
        if self.run.is_over() {
            return Err(TantivyError::InvalidArgument("the query was stopped".to_owned()));
        }
        self.inner.explain(reader, doc)
    }

    // The inner query may know a quicker way than by its scorer.

    fn count(&self, reader: &SegmentReader) -> tantivy::Result<u32> {
        if self.run.is_over() { Ok(0) } else { self.inner.count(reader) }
    }

    fn for_each(
        &self,
        reader: &SegmentReader,
        callback: &mut dyn FnMut(DocId, Score),
    ) -> tantivy::Result<()> {
        if self.run.is_over() { Ok(()) } else { self.inner.for_each(reader, callback) }
    }

    fn for_each_no_score(
        &self,
        reader: &SegmentReader,
        callback: &mut dyn FnMut(&[DocId]),
    ) -> tantivy::Result<()> {
        if self.run.is_over() { Ok(()) } else { self.inner.for_each_no_score(reader, callback) }
    }

    fn for_each_pruning(
        &self,
        threshold: Score,
        reader: &SegmentReader,
        callback: &mut dyn FnMut(DocId, Score) -> Score,
    ) -> tantivy::Result<()> {
        if self.run.is_over() {
            return Ok(());
        }
        self.inner.for_each_pruning(threshold, reader, callback)
    }
}
