//! The documents that a request matches, as a query: with the least score and the filter that it has besides.

use tantivy::query::{BooleanQuery, ConstScoreQuery, Occur, Query as TantivyQuery};

use crate::error::Error;
use crate::query::Context;
use crate::query::ast::{BoostMode, Query, ScoreMode};
use crate::query::compile::Compiled;
use crate::query::exec::score::{Combination, ComputedScore};

pub(super) fn compiled(context: &Context<'_>, query: Option<&Query>) -> Result<Compiled, Error> {
    query.map_or_else(|| Ok(Compiled::all()), |query| query.compiled(context))
}

/// The matches that score enough.
pub(super) fn with_min_score(
    context: &Context<'_>,
    matching: Compiled,
    min_score: Option<f32>,
) -> Compiled {
    let Some(least) = min_score else { return matching };
    match matching.score {
        Some(score) if score >= least => matching,
        Some(_) => Compiled::none(),
        None => {
            let combination = Combination {
                score_mode: ScoreMode::Multiply,
                boost_mode: BoostMode::Multiply,
                max_boost: f64::INFINITY,
                min_score: Some(least),
                is_script_score: false,
                is_filter: false,
            };
            let run = context.run().clone();
            let (inner, functions) = (matching.query, Vec::new());
            Compiled::scored(ComputedScore { inner, functions, combination, run })
        }
    }
}

/// The matches that a filter lets pass.
pub(super) fn filtered(matching: Compiled, filter: Compiled) -> Compiled {
    if matching.is_none() || filter.is_none() {
        return Compiled::none();
    }
    let score = matching.score;
    let filter: Box<dyn TantivyQuery> = match score {
        Some(_) => filter.query,
        None => Box::new(ConstScoreQuery::new(filter.query, 0.0)),
    };
    let clauses = vec![(Occur::Must, matching.query), (Occur::Must, filter)];
    let query = Box::new(BooleanQuery::with_minimum_required_clauses(clauses, 0));
    Compiled { query, score }
}
