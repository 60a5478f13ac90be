//! Reads the query DSL. [`query`] finds the kind by its name; the other modules read one family
//! of kinds each. Nothing here knows a mapping: whether a field exists is seen when the query is
//! compiled.

mod compound;
mod full_text;
mod functions;
mod geo;
mod object;
mod term_level;

use serde_json::{Map, Value};

pub(crate) use functions::value_mode;
pub(crate) use object::{Body, as_text};

use super::ast::{Kind, Query};
use super::limits;
use super::problem::{Parsed, Problem};
use crate::error::Error;

/// The queries that there are. `docs/elasticsearch.md` lists them (a test).
pub(in crate::query) const KNOWN: [&str; 28] = [
    "match_all",
    "match_none",
    "match",
    "match_bool_prefix",
    "match_phrase",
    "match_phrase_prefix",
    "multi_match",
    "query_string",
    "simple_query_string",
    "term",
    "terms",
    "range",
    "exists",
    "ids",
    "prefix",
    "wildcard",
    "regexp",
    "fuzzy",
    "bool",
    "constant_score",
    "dis_max",
    "boosting",
    "function_score",
    "script_score",
    "script",
    "distance_feature",
    "geo_distance",
    "geo_bounding_box",
];

/// Kinds that Elasticsearch has and Plimsoll has not.
const UNSUPPORTED: [&str; 29] = [
    "combined_fields",
    "geo_grid",
    "geo_polygon",
    "geo_shape",
    "has_child",
    "has_parent",
    "intervals",
    "knn",
    "more_like_this",
    "nested",
    "neural",
    "parent_id",
    "percolate",
    "pinned",
    "rank_feature",
    "shape",
    "span_containing",
    "span_field_masking",
    "span_first",
    "span_multi",
    "span_near",
    "span_not",
    "span_or",
    "span_term",
    "span_within",
    "sparse_vector",
    "terms_set",
    "wrapper",
    "xy_shape",
];

/// Reads one query, `depth` queries inside another.
pub(crate) fn query(node: &Value, depth: usize) -> Parsed<Query> {
    if depth > limits::DEPTH_MAX {
        let limit = limits::DEPTH_MAX;
        return Err(Problem::illegal(format!(
            "The nested depth of the query exceeds the maximum nested depth for queries set in [indices.query.bool.max_nested_depth] of [{limit}]"
        )));
    }
    let Value::Object(map) = node else {
        return Err(Problem::parsing(node, "[_na] query malformed, must start with start_object"));
    };
    let mut entries = map.iter();
    let Some((name, body)) = entries.next() else {
        return Err(Problem::illegal("query malformed, empty clause found"));
    };
    let parsed = kind(name, body, depth)?;
    if let Some((_, second)) = entries.next() {
        return Err(Problem::parsing(
            second,
            format!("[{name}] malformed query, expected [END_OBJECT] but found [FIELD_NAME]"),
        ));
    }
    Ok(parsed)
}

fn kind(name: &str, node: &Value, depth: usize) -> Parsed<Query> {
    let map = match node {
        Value::Object(map) => map,
        _ if KNOWN.contains(&name) => {
            let reason = format!("[{name}] query malformed, no start_object after query name");
            return Err(Problem::parsing(node, reason));
        }
        _ => return Err(unknown(name, node)),
    };
    let body = Body { name, node, map, depth };
    match name {
        "match_all" => body.no_fields(Kind::MatchAll),
        "match_none" => body.no_fields(Kind::MatchNone),
        "match" => full_text::parse_match(&body, false),
        "match_bool_prefix" => full_text::parse_match(&body, true),
        "match_phrase" => full_text::parse_phrase(&body, false),
        "match_phrase_prefix" => full_text::parse_phrase(&body, true),
        "multi_match" => full_text::parse_multi_match(&body),
        "query_string" => full_text::parse_query_string(&body),
        "simple_query_string" => full_text::parse_simple_query_string(&body),
        "term" => term_level::parse_term(&body),
        "terms" => term_level::parse_terms(&body),
        "range" => term_level::parse_range(&body),
        "exists" => term_level::parse_exists(&body),
        "ids" => term_level::parse_ids(&body),
        "prefix" | "wildcard" | "regexp" => term_level::parse_pattern(&body),
        "fuzzy" => term_level::parse_fuzzy(&body),
        "bool" => compound::parse_bool(&body),
        "constant_score" => compound::parse_constant_score(&body),
        "dis_max" => compound::parse_dis_max(&body),
        "boosting" => compound::parse_boosting(&body),
        "function_score" => functions::parse_function_score(&body),
        "script_score" => functions::parse_script_score(&body),
        "script" => functions::parse_script(&body),
        "distance_feature" => functions::parse_distance_feature(&body),
        "geo_distance" => geo::parse_distance(&body),
        "geo_bounding_box" => geo::parse_bounding_box(&body),
        _ => Err(unknown(name, node)),
    }
}

fn unknown(name: &str, node: &Value) -> Box<Problem> {
    if UNSUPPORTED.contains(&name) {
        let reason = format!("query [{name}] is not supported");
        return Problem::parsing(node, reason);
    }
    let cause = format!("unknown field [{name}]");
    let error = Error::parsing(format!("unknown query [{name}]"))
        .caused_by(Error::invalid("named_object_not_found_exception", cause));
    Problem::at(node, error)
}

/// Reads the queries of a clause: one object or a list of them.
pub(super) fn clauses(node: &Value, depth: usize) -> Parsed<Vec<Query>> {
    match node {
        // Counted before they are read: a million of them take more than they say.
        Value::Array(items) if items.len() > limits::CLAUSE_COUNT_MAX => {
            Err(Problem::at(node, limits::too_many_clauses()))
        }
        Value::Array(items) => items.iter().map(|item| query(item, depth + 1)).collect(),
        Value::Null => Ok(Vec::new()),
        _ => Ok(vec![query(node, depth + 1)?]),
    }
}

/// The only entry of a map that names a field, as `match` and its kin have it.
pub(super) fn single_field<'a>(
    body: &Body<'a>,
    map: &'a Map<String, Value>,
    own_keys: &[&str],
) -> Parsed<(&'a str, &'a Value)> {
    let mut found: Option<(&str, &Value)> = None;
    for (key, value) in map {
        if own_keys.contains(&key.as_str()) {
            continue;
        }
        if let Some((first, _)) = found {
            let name = body.name;
            return Err(Problem::parsing(
                value,
                format!(
                    "[{name}] query doesn't support multiple fields, found [{first}] and [{key}]"
                ),
            ));
        }
        found = Some((key, value));
    }
    found.ok_or_else(|| Problem::illegal("field name is null or empty"))
}
