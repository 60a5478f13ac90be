//! Makes a Tantivy query of a parsed one: fields become targets, values become terms and bounds.
//! What scores every match alike is known as such, so that a search may end early.

mod compiled;
mod compound;
mod context;
mod dates;
mod fields;
mod full_text;
mod functions;
mod geo;
mod minimum;
mod patterns;
mod query_string;
mod refusal;
mod term_level;
mod values;

use tantivy::query::Query as TantivyQuery;

pub(crate) use compiled::Compiled;
pub use context::Context;
pub(crate) use fields::Resolved;
pub(crate) use functions::bind_script;
pub(crate) use refusal::shard_error;

use super::ast::{Kind, Query};
use crate::error::Error;

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
        if context.run().is_over() {
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
