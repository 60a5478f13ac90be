//! `bool`, `constant_score`, `dis_max` and `boosting`.

use super::{Body, as_text, clauses, query};
use crate::query::ast::{Bool, Kind, Query};
use crate::query::problem::{Parsed, Problem};

pub(super) fn parse_bool(body: &Body<'_>) -> Parsed<Query> {
    let mut parsed = Query::of(Kind::MatchNone);
    let mut clause = Bool::default();
    for (key, value) in body.map {
        match key.as_str() {
            "must" => clause.must = clauses(value, body.depth)?,
            "should" => clause.should = clauses(value, body.depth)?,
            "filter" => clause.filter = clauses(value, body.depth)?,
            "must_not" | "mustNot" => clause.must_not = clauses(value, body.depth)?,
            "minimum_should_match" => clause.minimum_should_match = Some(as_text(value)),
            "adjust_pure_negative" => {
                body.bool(value)?;
            }
            _ if body.shared(&mut parsed, key, value)? => {}
            _ => return Err(body.unsupported(key, value)),
        }
    }
    parsed.kind = Kind::Bool(Box::new(clause));
    Ok(parsed)
}

pub(super) fn parse_constant_score(body: &Body<'_>) -> Parsed<Query> {
    let mut parsed = Query::of(Kind::MatchNone);
    let mut filter = None;
    for (key, value) in body.map {
        match key.as_str() {
            "filter" => {
                if value.is_array() {
                    return Err(Problem::parsing(value, "unexpected token [START_ARRAY]"));
                }
                filter = Some(query(value, body.depth + 1)?);
            }
            _ if body.shared(&mut parsed, key, value)? => {}
            _ => return Err(body.unsupported(key, value)),
        }
    }
    let Some(filter) = filter else {
        let reason = "[constant_score] requires a 'filter' element";
        return Err(Problem::parsing(body.node, reason));
    };
    parsed.kind = Kind::ConstantScore(Box::new(filter));
    Ok(parsed)
}

pub(super) fn parse_dis_max(body: &Body<'_>) -> Parsed<Query> {
    let mut parsed = Query::of(Kind::MatchNone);
    let mut queries = Vec::new();
    let mut tie_breaker = 0.0;
    for (key, value) in body.map {
        match key.as_str() {
            "queries" => queries = clauses(value, body.depth)?,
            "tie_breaker" => tie_breaker = body.f32(value)?,
            _ if body.shared(&mut parsed, key, value)? => {}
            _ => return Err(body.unsupported(key, value)),
        }
    }
    if queries.is_empty() {
        let reason = "[dis_max] requires 'queries' field with at least one clause";
        return Err(Problem::parsing(body.node, reason));
    }
    parsed.kind = Kind::DisMax { queries, tie_breaker };
    Ok(parsed)
}

pub(super) fn parse_boosting(body: &Body<'_>) -> Parsed<Query> {
    let mut parsed = Query::of(Kind::MatchNone);
    let (mut positive, mut negative, mut negative_boost) = (None, None, None);
    for (key, value) in body.map {
        match key.as_str() {
            "positive" => positive = Some(query(value, body.depth + 1)?),
            "negative" => negative = Some(query(value, body.depth + 1)?),
            "negative_boost" => negative_boost = Some(body.f32(value)?),
            _ if body.shared(&mut parsed, key, value)? => {}
            _ => return Err(body.unsupported(key, value)),
        }
    }
    let missing = |what: &str| Problem::parsing(body.node, what);
    let positive =
        positive.ok_or_else(|| missing("[boosting] query requires 'positive' query to be set'"))?;
    let negative =
        negative.ok_or_else(|| missing("[boosting] query requires 'negative' query to be set'"))?;
    let negative_boost = negative_boost.filter(|boost| *boost >= 0.0).ok_or_else(|| {
        missing("[boosting] query requires 'negative_boost' to be set to be a positive value'")
    })?;
    parsed.kind = Kind::Boosting {
        positive: Box::new(positive),
        negative: Box::new(negative),
        negative_boost,
    };
    Ok(parsed)
}
