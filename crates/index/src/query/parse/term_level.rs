//! `term`, `terms`, `range`, `exists`, `ids`, `prefix`, `wildcard`, `regexp` and `fuzzy`.

use std::sync::Arc;

use serde_json::Value;

use super::{Body, as_text, single_field};
use crate::query::ast::{Fuzziness, Kind, PatternKind, Query, Range};
use crate::query::limits;
use crate::query::problem::{Parsed, Problem};

pub(super) fn parse_term(body: &Body<'_>) -> Parsed<Query> {
    let mut query = Query::of(Kind::MatchNone);
    let (field, node) = single_field(body, body.map, &["boost", "_name"])?;
    outer_shared(body, &mut query)?;
    let mut found = None;
    let mut case_insensitive = false;
    match node {
        Value::Object(map) => {
            for (key, value) in map {
                match key.as_str() {
                    "value" | "term" => found = Some(value),
                    "case_insensitive" => case_insensitive = body.bool(value)?,
                    _ if body.shared(&mut query, key, value)? => {}
                    _ => return Err(body.unsupported(key, value)),
                }
            }
        }
        Value::Array(_) => {
            let reason = "[term] query does not support array of values";
            return Err(Problem::parsing(node, reason));
        }
        _ => found = Some(node),
    }
    let value = match found {
        None | Some(Value::Null) => return Err(Problem::illegal("value cannot be null")),
        Some(value @ (Value::Object(_) | Value::Array(_))) => {
            return Err(body.unexpected("value", value));
        }
        Some(value) => value.clone(),
    };
    query.kind = Kind::Term { field: field.to_owned(), value, case_insensitive };
    Ok(query)
}

/// `boost` and `_name` beside the field instead of inside it.
fn outer_shared(body: &Body<'_>, query: &mut Query) -> Parsed<()> {
    for (key, value) in body.map {
        if matches!(key.as_str(), "boost" | "_name") {
            body.shared(query, key, value)?;
        }
    }
    Ok(())
}

pub(super) fn parse_terms(body: &Body<'_>) -> Parsed<Query> {
    let mut query = Query::of(Kind::MatchNone);
    let mut found: Option<(&str, &Value)> = None;
    for (key, value) in body.map {
        match value {
            Value::Array(_) | Value::Object(_) => {
                if let Some((first, _)) = found {
                    return Err(Problem::parsing(
                        value,
                        format!(
                            "[terms] query does not support more than one field. Already got: [{first}] but also found [{key}]"
                        ),
                    ));
                }
                found = Some((key, value));
            }
            _ if key == "value_type" => {}
            _ if body.shared(&mut query, key, value)? => {}
            _ => return Err(body.unsupported(key, value)),
        }
    }
    let Some((field, node)) = found else {
        let reason = "[terms] query requires a field name, followed by array of terms or a document lookup specification";
        return Err(Problem::parsing(body.node, reason));
    };
    let Value::Array(values) = node else {
        return Err(Problem::parsing(
            node,
            "[terms] lookup of terms in a document is not supported",
        ));
    };
    if values.len() > limits::TERMS_COUNT_MAX {
        let limit = limits::TERMS_COUNT_MAX;
        return Err(Problem::illegal(format!(
            "The number of terms [{}] used in the Terms Query request has exceeded the allowed maximum of [{limit}]. This maximum can be set by changing the [index.max_terms_count] index level setting.",
            values.len()
        )));
    }
    for value in values {
        match value {
            Value::Null => {
                return Err(Problem::illegal("No value specified for terms query"));
            }
            Value::Object(_) | Value::Array(_) => return Err(body.unexpected(field, value)),
            _ => {}
        }
    }
    query.kind = Kind::Terms { field: field.to_owned(), values: Arc::new(values.clone()) };
    Ok(query)
}

pub(super) fn parse_range(body: &Body<'_>) -> Parsed<Query> {
    let mut query = Query::of(Kind::MatchNone);
    let (field, node) = single_field(body, body.map, &["boost", "_name"])?;
    outer_shared(body, &mut query)?;
    let Value::Object(map) = node else {
        return Err(body.unsupported(field, node));
    };
    let mut range = Range { field: field.to_owned(), ..Range::default() };
    let (mut from, mut to) = (None, None);
    let (mut has_lower, mut has_upper) = (true, true);
    for (key, value) in map {
        if matches!(value, Value::Object(_) | Value::Array(_)) {
            return Err(body.unexpected(key, value));
        }
        match key.as_str() {
            "from" => from = Some(value),
            "to" => to = Some(value),
            "gte" | "ge" => (from, has_lower) = (Some(value), true),
            "gt" => (from, has_lower) = (Some(value), false),
            "lte" | "le" => (to, has_upper) = (Some(value), true),
            "lt" => (to, has_upper) = (Some(value), false),
            "include_lower" => has_lower = body.bool(value)?,
            "include_upper" => has_upper = body.bool(value)?,
            "format" => range.format = Some(as_text(value)),
            "time_zone" | "timezone" => range.time_zone = Some(as_text(value)),
            "relation" => {
                let relation = as_text(value);
                if !matches!(
                    relation.to_ascii_lowercase().as_str(),
                    "intersects" | "within" | "contains"
                ) {
                    let reason = format!("[range] query does not support relation [{relation}]");
                    return Err(Problem::illegal(reason));
                }
            }
            _ if body.shared(&mut query, key, value)? => {}
            _ => return Err(body.unsupported(key, value)),
        }
    }
    range.from = from.filter(|value| !value.is_null()).map(|value| (value.clone(), has_lower));
    range.to = to.filter(|value| !value.is_null()).map(|value| (value.clone(), has_upper));
    query.kind = Kind::Range(Box::new(range));
    Ok(query)
}

pub(super) fn parse_exists(body: &Body<'_>) -> Parsed<Query> {
    let mut query = Query::of(Kind::MatchNone);
    let mut field = None;
    for (key, value) in body.map {
        match key.as_str() {
            "field" => field = Some(body.text(key, value)?),
            _ if body.shared(&mut query, key, value)? => {}
            _ => return Err(body.unsupported(key, value)),
        }
    }
    let Some(field) = field.filter(|field| !field.is_empty()) else {
        return Err(Problem::parsing(body.node, "[exists] must be provided with a [field]"));
    };
    query.kind = Kind::Exists { field };
    Ok(query)
}

pub(super) fn parse_ids(body: &Body<'_>) -> Parsed<Query> {
    let mut query = Query::of(Kind::MatchNone);
    let mut ids = None;
    for (key, value) in body.map {
        match key.as_str() {
            "values" => {
                let values = match value {
                    Value::Array(items) => items.iter().map(as_text).collect(),
                    _ => vec![as_text(value)],
                };
                if values.len() > limits::TERMS_COUNT_MAX {
                    return Err(Problem::illegal("too many ids in one [ids] query"));
                }
                ids = Some(values);
            }
            "type" => {}
            _ if body.shared(&mut query, key, value)? => {}
            _ => return Err(body.unsupported(key, value)),
        }
    }
    let Some(ids) = ids else {
        let reason = "[ids] requires providing a values array of ids";
        return Err(Problem::parsing(body.node, reason));
    };
    query.kind = Kind::Ids(ids);
    Ok(query)
}

pub(super) fn parse_pattern(body: &Body<'_>) -> Parsed<Query> {
    let mut query = Query::of(Kind::MatchNone);
    let (field, node) = single_field(body, body.map, &["boost", "_name"])?;
    outer_shared(body, &mut query)?;
    let kind = match body.name {
        "prefix" => PatternKind::Prefix,
        "wildcard" => PatternKind::Wildcard,
        _ => PatternKind::Regexp,
    };
    let mut pattern = None;
    let mut case_insensitive = false;
    match node {
        Value::Object(map) => {
            for (key, value) in map {
                match key.as_str() {
                    "value" => pattern = Some(body.text(key, value)?),
                    "wildcard" if kind == PatternKind::Wildcard => {
                        pattern = Some(body.text(key, value)?);
                    }
                    "prefix" if kind == PatternKind::Prefix => {
                        pattern = Some(body.text(key, value)?);
                    }
                    "case_insensitive" => case_insensitive = body.bool(value)?,
                    "rewrite" => {}
                    "flags" | "flags_value" | "max_determinized_states"
                        if kind == PatternKind::Regexp => {}
                    _ if body.shared(&mut query, key, value)? => {}
                    _ => return Err(body.unsupported(key, value)),
                }
            }
        }
        Value::Array(_) => return Err(body.unexpected(field, node)),
        Value::Null => {}
        _ => pattern = Some(as_text(node)),
    }
    let Some(pattern) = pattern else {
        return Err(Problem::illegal("value cannot be null"));
    };
    let limit = match kind {
        PatternKind::Regexp => limits::REGEX_LENGTH_MAX,
        _ => limits::WILDCARD_LENGTH_MAX,
    };
    if pattern.chars().count() > limit {
        let length = pattern.chars().count();
        return Err(Problem::illegal(match kind {
            PatternKind::Regexp => format!(
                "The length of regex [{length}] used in the Regexp Query request has exceeded the allowed maximum of [{limit}]. This maximum can be set by changing the [index.max_regex_length] index level setting."
            ),
            _ => format!(
                "The length of the pattern [{length}] has exceeded the allowed maximum of [{limit}]."
            ),
        }));
    }
    let field = field.to_owned();
    query.kind = Kind::Pattern { kind, field, pattern, case_insensitive };
    Ok(query)
}

pub(super) fn parse_fuzzy(body: &Body<'_>) -> Parsed<Query> {
    let mut query = Query::of(Kind::MatchNone);
    let (field, node) = single_field(body, body.map, &[])?;
    let mut word = None;
    let mut fuzziness = Fuzziness::Auto { low: 3, high: 6 };
    let mut prefix_length = 0;
    let mut max_expansions = limits::EXPANSIONS_MAX_DEFAULT;
    let mut transpositions = true;
    match node {
        Value::Object(map) => {
            for (key, value) in map {
                match key.as_str() {
                    "value" | "term" => word = Some(body.text(key, value)?),
                    "fuzziness" => fuzziness = body.fuzziness(value)?,
                    "prefix_length" => prefix_length = body.usize(value)?,
                    "max_expansions" => {
                        max_expansions = body.usize(value)?.clamp(1, limits::EXPANSIONS_MAX);
                    }
                    "transpositions" => transpositions = body.bool(value)?,
                    "rewrite" => {}
                    _ if body.shared(&mut query, key, value)? => {}
                    _ => return Err(body.unsupported(key, value)),
                }
            }
        }
        Value::Array(_) => return Err(body.unexpected(field, node)),
        Value::Null => {}
        _ => word = Some(as_text(node)),
    }
    let Some(value) = word else {
        return Err(Problem::illegal("query value cannot be null"));
    };
    let field = field.to_owned();
    query.kind =
        Kind::Fuzzy { field, value, fuzziness, prefix_length, max_expansions, transpositions };
    Ok(query)
}
