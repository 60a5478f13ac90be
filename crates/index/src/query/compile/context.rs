//! What a query is compiled for, and what is counted and noted meanwhile.

use std::cell::Cell;
use std::sync::Arc;

use tantivy::schema::Field;
use tantivy_fst::Automaton;

use super::compiled::Compiled;
use crate::error::Error;
use crate::partition::View;
use crate::query::exec::automaton::{AutomatonQuery, Watched};
use crate::query::exec::run::{Cancelled, Run, Stoppable};
use crate::query::limits;

/// What a query is compiled for.
pub struct Context<'a> {
    /// The documents.
    pub view: &'a View,
    /// What `now` means in dates: milliseconds since 1970.
    pub now_ms: u64,
    /// The use of the query: its errors, and whether anybody waits.
    run: Run,
    /// Whether texts are scored as exactly as Lucene does, at the price of skipping nothing.
    exact: bool,
    /// How many words of texts are scored.
    texts: Cell<usize>,
    /// The clauses of the query so far.
    clauses: Cell<usize>,
}

impl<'a> Context<'a> {
    /// A context for one search.
    #[must_use]
    pub fn new(view: &'a View, now_ms: u64, cancelled: &Cancelled) -> Self {
        let (run, clauses) = (Run::new(cancelled.clone()), Cell::new(0));
        Self { view, now_ms, run, exact: false, texts: Cell::new(0), clauses }
    }

    /// A context whose queries score texts exactly as Lucene does.
    #[must_use]
    pub fn exact(view: &'a View, now_ms: u64, cancelled: &Cancelled) -> Self {
        Self { exact: true, ..Self::new(view, now_ms, cancelled) }
    }

    /// A context like this one that scores texts exactly as Lucene does, for another query.
    #[must_use]
    pub(crate) fn anew_exact(&self) -> Self {
        Self::exact(self.view, self.now_ms, self.run.cancelled())
    }

    pub(crate) const fn is_exact(&self) -> bool {
        self.exact
    }

    /// Counts clauses, before they are made.
    ///
    /// # Errors
    /// 400 where the query has too many of them.
    pub(crate) fn take_clauses(&self, count: usize) -> Result<(), Error> {
        let clauses = self.clauses.get().saturating_add(count);
        self.clauses.set(clauses);
        if clauses <= limits::CLAUSES_IN_ALL_MAX {
            return Ok(());
        }
        Err(limits::too_many_nested_clauses())
    }

    /// How many words of texts the queries that were compiled here score.
    pub(crate) fn texts(&self) -> usize {
        self.texts.get()
    }

    pub(crate) fn note_text(&self) {
        self.texts.update(|texts| texts + 1);
    }

    /// The error of a query that failed while it ran, such as a script whose value is not a
    /// number, or that was cancelled. To be asked after every use of the compiled query.
    ///
    /// # Errors
    /// That error.
    pub fn check(&self) -> Result<(), Error> {
        self.run.take_error().map_or(Ok(()), Err)
    }

    pub(crate) fn run(&self) -> &Run {
        &self.run
    }

    /// A query that may walk through many terms before its first match, and stops there once
    /// nobody waits.
    pub(crate) fn stoppable(&self, compiled: Compiled) -> Compiled {
        if compiled.is_none() {
            return compiled;
        }
        let query = Stoppable { inner: compiled.query, run: self.run.clone() };
        Compiled { query: Box::new(query), score: compiled.score }
    }

    /// The documents that have a term which an automaton takes.
    pub(crate) fn automaton<A>(&self, field: Field, automaton: A) -> Compiled
    where
        A: Automaton + Send + Sync + 'static,
        A::State: Clone,
    {
        let automaton = Arc::new(Watched::new(automaton, self.run.clone()));
        self.stoppable(Compiled::constant(AutomatonQuery { field, automaton }))
    }
}
