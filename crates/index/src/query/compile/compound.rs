//! `bool`, `dis_max` and `boosting`.

use tantivy::query::{
    AllQuery, BooleanQuery, ConstScoreQuery, DisjunctionMaxQuery, Occur, Query as TantivyQuery,
};

use super::compiled::Compiled;
use super::context::Context;
use super::minimum::minimum_should_match;
use super::refusal::failed_to_create;
use crate::error::Error;
use crate::query::ast::{Bool, Query};
use crate::query::exec::score::Demoted;
use crate::query::limits;

pub(super) fn compile_bool(context: &Context<'_>, clause: &Bool) -> Result<Compiled, Error> {
    let list = |queries: &[Query]| -> Result<Vec<Compiled>, Error> {
        queries.iter().map(|query| query.compiled(context)).collect()
    };
    let count =
        clause.must.len() + clause.should.len() + clause.filter.len() + clause.must_not.len();
    check_count(count)?;
    let must = list(&clause.must)?;
    let should = list(&clause.should)?;
    let filter = list(&clause.filter)?;
    let must_not = list(&clause.must_not)?;
    let minimum = match &clause.minimum_should_match {
        Some(text) => Some(minimum_should_match(text, should.len()).map_err(failed_to_create)?),
        None => None,
    };
    Ok(join(must, should, filter, must_not, minimum))
}

pub(super) fn check_count(count: usize) -> Result<(), Error> {
    if count > limits::CLAUSE_COUNT_MAX {
        return Err(failed_to_create(limits::too_many_clauses()));
    }
    Ok(())
}

/// Joins clauses. `minimum`: how many of `should`; where it is not given, one of them where there
/// is nothing else that has to match.
pub(super) fn join(
    must: Vec<Compiled>,
    should: Vec<Compiled>,
    filter: Vec<Compiled>,
    must_not: Vec<Compiled>,
    minimum: Option<usize>,
) -> Compiled {
    let is_required = |clauses: &[Compiled]| clauses.iter().any(Compiled::is_none);
    if is_required(&must) || is_required(&filter) {
        return Compiled::none();
    }
    let has_required = !must.is_empty() || !filter.is_empty();
    if !has_required && should.is_empty() {
        if must_not.is_empty() {
            return Compiled::all();
        }
        // Everything but what is denied, without a score.
        let all = vec![Compiled::all()];
        return join(Vec::new(), Vec::new(), all, must_not, None);
    }
    let minimum = match minimum {
        Some(minimum) if minimum > should.len() => return Compiled::none(),
        Some(0) | None if has_required => 0,
        Some(0) | None => usize::from(!should.is_empty()),
        Some(minimum) => minimum,
    };
    let must_not: Vec<Compiled> = must_not.into_iter().filter(|query| !query.is_none()).collect();
    let score = constant_of(&must, &should, minimum);
    let is_single = must.len() + filter.len() == 1 && should.is_empty() && must_not.is_empty();
    if is_single {
        let score = if must.is_empty() { Some(0.0) } else { None };
        let only = must.into_iter().chain(filter).next();
        let only = only.unwrap_or_else(Compiled::none);
        return Compiled { score: score.or(only.score), query: only.query };
    }
    let mut clauses: Vec<(Occur, Box<dyn TantivyQuery>)> = Vec::new();
    let plain = |compiled: Compiled| -> Box<dyn TantivyQuery> {
        if score.is_some() { compiled.query } else { compiled.into_query() }
    };
    for query in must {
        clauses.push((Occur::Must, plain(query)));
    }
    for query in filter {
        let query: Box<dyn TantivyQuery> = if score.is_some() {
            query.query
        } else {
            Box::new(ConstScoreQuery::new(query.query, 0.0))
        };
        clauses.push((Occur::Must, query));
    }
    // Clauses that only add to scores do nothing where scores do not count.
    if score.is_none() || minimum > 0 {
        for query in should.into_iter().filter(|query| !query.is_none() || minimum > 1) {
            clauses.push((Occur::Should, plain(query)));
        }
    }
    for query in must_not {
        clauses.push((Occur::MustNot, query.query));
    }
    if clauses.iter().all(|(occur, _)| *occur == Occur::MustNot) {
        if minimum > 0 {
            return Compiled::none();
        }
        clauses.push((Occur::Must, Box::new(AllQuery)));
    }
    let query = Box::new(BooleanQuery::with_minimum_required_clauses(clauses, minimum));
    Compiled { query, score }
}

/// The score of every match, where it is the same: that of the clauses that all match.
fn constant_of(must: &[Compiled], should: &[Compiled], minimum: usize) -> Option<f32> {
    let can_vary = should.iter().any(|query| !query.is_none());
    if can_vary {
        // One clause that has to match is as good as necessary.
        let is_one = should.len() == 1 && minimum == 1;
        if !is_one {
            return None;
        }
    }
    let mut sum = 0.0;
    for query in must.iter().chain(if minimum > 0 { should } else { &[] }) {
        sum += query.score?;
    }
    Some(sum)
}

/// The best of several.
pub(super) fn dis_max(queries: Vec<Compiled>, tie_breaker: f32) -> Compiled {
    let mut queries: Vec<Compiled> = queries.into_iter().filter(|query| !query.is_none()).collect();
    match queries.len() {
        0 => Compiled::none(),
        1 => queries.remove(0),
        _ => {
            let queries = queries.into_iter().map(Compiled::into_query).collect();
            Compiled::scored(DisjunctionMaxQuery::with_tie_breaker(queries, tie_breaker))
        }
    }
}

pub(super) fn compile_boosting(
    context: &Context<'_>,
    positive: &Query,
    negative: &Query,
    factor: f32,
) -> Result<Compiled, Error> {
    let positive = positive.compiled(context)?;
    let negative = negative.compiled(context)?;
    if negative.is_none() {
        return Ok(positive);
    }
    let (positive, negative) = (positive.into_query(), negative.query);
    Ok(Compiled::scored(Demoted { positive, negative, factor }))
}
