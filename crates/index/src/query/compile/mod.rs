//! Makes a Tantivy query of a parsed one: fields become targets, values become terms and bounds.
//! What scores every match alike is known as such, so that a search may end early.

mod compound;
mod dates;
mod fields;
mod full_text;
mod functions;
mod geo;
mod minimum;
mod patterns;
mod query_string;
mod term_level;
mod values;

use std::cell::Cell;
use std::sync::Arc;

use tantivy::query::{AllQuery, BoostQuery, ConstScoreQuery, EmptyQuery, Query as TantivyQuery};
use tantivy::schema::Field;
use tantivy_fst::Automaton;

pub(crate) use fields::Resolved;
pub(crate) use functions::bind_script;

use super::ast::{Kind, Query};
use super::exec::automaton::{AutomatonQuery, Watched};
use super::exec::run::{Cancelled, Run, Stoppable};
use super::limits;
use crate::error::Error;
use crate::partition::View;

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
    /// Whether a text is scored at all.
    scores_text: Cell<bool>,
    /// The clauses of the query so far.
    clauses: Cell<usize>,
}

impl<'a> Context<'a> {
    /// A context for one search.
    #[must_use]
    pub fn new(view: &'a View, now_ms: u64, cancelled: &Cancelled) -> Self {
        let (run, clauses) = (Run::new(cancelled.clone()), Cell::new(0));
        Self { view, now_ms, run, exact: false, scores_text: Cell::new(false), clauses }
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

    /// Whether a query that was compiled here scores a text.
    pub(crate) fn scores_text(&self) -> bool {
        self.scores_text.get()
    }

    pub(crate) fn note_text(&self) {
        self.scores_text.set(true);
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

/// A compiled query and, where all matches score alike, their score.
pub(crate) struct Compiled {
    pub query: Box<dyn TantivyQuery>,
    /// Where this is known, the query's own scores mean nothing.
    pub score: Option<f32>,
}

impl Compiled {
    /// Matches that all score 1.
    pub(crate) fn constant(query: impl TantivyQuery) -> Self {
        Self { query: Box::new(query), score: Some(1.0) }
    }

    pub(crate) fn scored(query: impl TantivyQuery) -> Self {
        Self { query: Box::new(query), score: None }
    }

    pub(crate) fn all() -> Self {
        Self::constant(AllQuery)
    }

    pub(crate) fn none() -> Self {
        Self { query: Box::new(EmptyQuery), score: Some(0.0) }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.query.is::<EmptyQuery>()
    }

    #[expect(clippy::float_cmp, reason = "a boost of exactly 1 changes nothing")]
    pub(crate) fn boosted(self, boost: f32) -> Self {
        match self.score {
            Some(score) => Self { query: self.query, score: Some(score * boost) },
            None if boost == 1.0 => self,
            None => Self { query: Box::new(BoostQuery::new(self.query, boost)), score: None },
        }
    }

    /// The query with its scores.
    pub(crate) fn into_query(self) -> Box<dyn TantivyQuery> {
        match self.score {
            Some(_) if self.is_none() => self.query,
            Some(score) => Box::new(ConstScoreQuery::new(self.query, score)),
            None => self.query,
        }
    }
}

impl Query {
    /// The Tantivy query over a view.
    ///
    /// # Errors
    /// 400 where a value does not fit its field, and others as Elasticsearch has them.
    pub fn compile(&self, context: &Context<'_>) -> Result<Box<dyn TantivyQuery>, Error> {
        Ok(self.compiled(context)?.into_query())
    }

    pub(crate) fn compiled(&self, context: &Context<'_>) -> Result<Compiled, Error> {
        context.take_clauses(1)?;
        if context.run.is_over() {
            context.check()?;
        }
        let compiled = match &self.kind {
            Kind::MatchAll => Compiled::all(),
            Kind::MatchNone => Compiled::none(),
            Kind::Match(text) => full_text::compile_match(context, text)?,
            Kind::MatchBoolPrefix(text) => full_text::compile_bool_prefix(context, text)?,
            Kind::Phrase(phrase) => full_text::compile_phrase(context, phrase)?,
            Kind::MultiMatch(multi) => full_text::compile_multi_match(context, multi)?,
            Kind::Term { field, value, case_insensitive } => {
                term_level::compile_term(context, field, value, *case_insensitive)?
            }
            Kind::Terms { field, values } => {
                context.stoppable(term_level::compile_terms(context, field, values)?)
            }
            Kind::Range(range) => context.stoppable(term_level::compile_range(context, range)?),
            Kind::Exists { field } => term_level::compile_exists(context, field),
            Kind::Ids(ids) => context.stoppable(term_level::compile_ids(context, ids)),
            Kind::Pattern { kind, field, pattern, case_insensitive } => {
                patterns::compile_pattern(context, *kind, field, pattern, *case_insensitive)?
            }
            Kind::Fuzzy {
                field,
                value,
                fuzziness,
                prefix_length,
                max_expansions,
                transpositions,
            } => {
                let spec = patterns::FuzzySpec {
                    edits: fuzziness.edits(value.chars().count()),
                    prefix_length: *prefix_length,
                    max_expansions: *max_expansions,
                    transpositions: *transpositions,
                };
                patterns::compile_fuzzy(context, field, value, spec)?
            }
            Kind::Bool(clause) => compound::compile_bool(context, clause)?,
            Kind::ConstantScore(inner) => {
                let inner = inner.compiled(context)?;
                Compiled { query: inner.query, score: Some(1.0) }
            }
            Kind::DisMax { queries, tie_breaker } => {
                let queries: Result<Vec<_>, _> =
                    queries.iter().map(|query| query.compiled(context)).collect();
                compound::dis_max(queries?, *tie_breaker)
            }
            Kind::Boosting { positive, negative, negative_boost } => {
                compound::compile_boosting(context, positive, negative, *negative_boost)?
            }
            Kind::QueryString(text) => query_string::compile_query_string(context, text)?,
            Kind::SimpleQueryString(text) => query_string::compile_simple(context, text)?,
            Kind::GeoDistance(distance) => geo::compile_distance(context, distance)?,
            Kind::GeoBoundingBox(edges) => geo::compile_box(context, edges)?,
            Kind::FunctionScore(function) => functions::compile_function_score(context, function)?,
            Kind::ScriptScore { query, script, min_score } => {
                functions::compile_script_score(context, query, script, *min_score)?
            }
            Kind::Script(script) => functions::compile_script(context, script)?,
            Kind::DistanceFeature { field, origin, pivot } => {
                functions::compile_distance_feature(context, field, origin, pivot)?
            }
        };
        Ok(compiled.boosted(self.boost))
    }

    /// The queries that have a name, this one included, with their names.
    #[must_use]
    pub fn named(&self) -> Vec<(&str, &Self)> {
        let mut found = Vec::new();
        self.collect_named(&mut found);
        found
    }

    fn collect_named<'a>(&'a self, found: &mut Vec<(&'a str, &'a Self)>) {
        if let Some(name) = &self.name {
            found.push((name, self));
        }
        for child in self.children() {
            child.collect_named(found);
        }
    }

    /// The queries inside this one.
    #[must_use]
    pub fn children(&self) -> Vec<&Self> {
        match &self.kind {
            Kind::Bool(clause) => clause
                .must
                .iter()
                .chain(&clause.should)
                .chain(&clause.filter)
                .chain(&clause.must_not)
                .collect(),
            Kind::ConstantScore(inner) => vec![inner],
            Kind::DisMax { queries, .. } => queries.iter().collect(),
            Kind::Boosting { positive, negative, .. } => vec![positive, negative],
            Kind::ScriptScore { query, .. } => vec![query],
            Kind::FunctionScore(function) => std::iter::once(&function.query)
                .chain(function.functions.iter().filter_map(|function| function.filter.as_ref()))
                .collect(),
            _ => Vec::new(),
        }
    }
}

/// A `query_shard_exception`.
pub(crate) fn shard_error(reason: impl ToString) -> Error {
    Error::new(400, "query_shard_exception", reason)
}

/// An error that a value made while a query was built, in the words that Elasticsearch has then.
pub(crate) fn failed_to_create(cause: Error) -> Error {
    shard_error(format!("failed to create query: {}", cause.reason)).caused_by(cause)
}
