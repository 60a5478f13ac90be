//! Reads `sort`.

use serde_json::{Map, Value};

use crate::error::Error;
use crate::geo::{GeoPoint, parse_point, unit_m};
use crate::query::ast::ValueMode;
use crate::query::parse::as_text;
use crate::query::problem::{Parsed, Problem};
use crate::query::script::Script;

/// Clauses of one `sort`.
const CLAUSE_COUNT_MAX: usize = 32;

/// One clause of `sort`.
#[derive(Clone, Debug)]
pub(crate) struct SortClause {
    pub by: SortBy,
    pub descending: bool,
}

/// What a clause sorts by.
#[derive(Clone, Debug)]
pub(crate) enum SortBy {
    Score,
    Doc,
    Field(FieldSort),
    Geo {
        field: String,
        points: Vec<GeoPoint>,
        metres: f64,
        mode: Option<ValueMode>,
        ignore_unmapped: bool,
    },
    Script(Script),
}

/// A field as a clause names it.
#[derive(Clone, Debug)]
pub(crate) struct FieldSort {
    pub name: String,
    pub missing: Missing,
    pub mode: Option<ValueMode>,
    pub unmapped_type: Option<String>,
    pub format: Option<String>,
    pub numeric_type: Option<String>,
}

/// Where documents without a value come.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Missing {
    Last,
    First,
    As(Value),
}

/// Reads the clauses.
pub(crate) fn parse(node: &Value) -> Parsed<Vec<SortClause>> {
    let clauses = match node {
        Value::Array(items) => {
            let mut clauses = Vec::new();
            for item in items {
                clauses.extend(one(item)?);
            }
            clauses
        }
        _ => one(node)?,
    };
    if clauses.len() > CLAUSE_COUNT_MAX {
        return Err(Problem::illegal(format!("[sort] has more than [{CLAUSE_COUNT_MAX}] clauses")));
    }
    Ok(clauses)
}

fn one(node: &Value) -> Parsed<Vec<SortClause>> {
    match node {
        Value::String(text) => Ok(vec![named(text, None)?]),
        Value::Object(map) => {
            let mut clauses = Vec::with_capacity(map.len());
            for (name, value) in map {
                clauses.push(match value {
                    Value::Object(options) => with_options(name, options, value)?,
                    Value::String(order) => named(name, Some(descending(order)?))?,
                    _ => {
                        let reason = "malformed sort format, within the sort array, an object, or an actual string are allowed";
                        return Err(Problem::illegal(reason));
                    }
                });
            }
            Ok(clauses)
        }
        _ => Err(Problem::illegal(
            "malformed sort format, either start with array, object, or an actual string",
        )),
    }
}

impl SortClause {
    /// A clause as the URI parameter `sort` has it: `field`, `field:desc`.
    pub(crate) fn of_uri(text: &str) -> Parsed<Value> {
        let clauses: Vec<Value> = text
            .split(',')
            .filter(|part| !part.trim().is_empty())
            .map(|part| match part.rsplit_once(':') {
                Some((name, order)) if matches!(order, "asc" | "desc") => {
                    let mut map = Map::new();
                    map.insert(name.to_owned(), Value::from(order));
                    Value::Object(map)
                }
                _ => Value::from(part),
            })
            .collect();
        Ok(Value::from(clauses))
    }
}

fn descending(order: &str) -> Parsed<bool> {
    match order.to_ascii_lowercase().as_str() {
        "asc" => Ok(false),
        "desc" => Ok(true),
        _ => Err(Problem::illegal(format!("Unknown SortOrder [{order}]"))),
    }
}

fn named(name: &str, order: Option<bool>) -> Parsed<SortClause> {
    Ok(match name {
        "_score" => SortClause { by: SortBy::Score, descending: order.unwrap_or(true) },
        "_doc" | "_shard_doc" => SortClause { by: SortBy::Doc, descending: order.unwrap_or(false) },
        "_geo_distance" | "_script" => {
            return Err(Problem::illegal(format!("[{name}] sort must be an object")));
        }
        _ => {
            let by = SortBy::Field(FieldSort {
                name: name.to_owned(),
                missing: Missing::Last,
                mode: None,
                unmapped_type: None,
                format: None,
                numeric_type: None,
            });
            SortClause { by, descending: order.unwrap_or(false) }
        }
    })
}

fn with_options(name: &str, options: &Map<String, Value>, node: &Value) -> Parsed<SortClause> {
    match name {
        "_geo_distance" | "_geoDistance" => return geo(options),
        "_script" => return script(options, node),
        _ => {}
    }
    let mut clause = named(name, None)?;
    for (key, value) in options {
        if key == "order" {
            clause.descending = descending(&as_text(value))?;
            continue;
        }
        let SortBy::Field(field) = &mut clause.by else {
            return Err(unknown("_score", key, value));
        };
        match key.as_str() {
            "missing" => {
                field.missing = match value {
                    Value::String(text) if text == "_last" => Missing::Last,
                    Value::String(text) if text == "_first" => Missing::First,
                    Value::Null => Missing::Last,
                    _ => Missing::As(value.clone()),
                };
            }
            "mode" => field.mode = Some(crate::query::parse::value_mode(value)?),
            "unmapped_type" => field.unmapped_type = Some(as_text(value)),
            "format" => field.format = Some(as_text(value)),
            "numeric_type" => field.numeric_type = Some(as_text(value)),
            "nested" | "nested_path" | "nested_filter" => return Err(nested(key, value)),
            _ => return Err(unknown("field_sort", key, value)),
        }
    }
    Ok(clause)
}

fn unknown(what: &str, key: &str, value: &Value) -> Box<Problem> {
    let error =
        Error::invalid("x_content_parse_exception", format!("[{what}] unknown field [{key}]"));
    Problem::at(value, error)
}

fn geo(options: &Map<String, Value>) -> Parsed<SortClause> {
    let (mut field, mut points) = (None, Vec::new());
    let (mut metres, mut is_descending, mut mode) = (1.0, false, None);
    let mut ignore_unmapped = false;
    for (key, value) in options {
        match key.as_str() {
            "order" => is_descending = descending(&as_text(value))?,
            "unit" => {
                let unit = as_text(value);
                metres = unit_m(&unit)
                    .ok_or_else(|| Problem::illegal(format!("No distance unit match [{unit}]")))?;
            }
            "mode" | "sort_mode" => mode = Some(crate::query::parse::value_mode(value)?),
            "ignore_unmapped" => ignore_unmapped = value.as_bool().unwrap_or(false),
            "nested" | "nested_path" | "nested_filter" => return Err(nested(key, value)),
            "distance_type" | "validation_method" => {}
            _ => {
                field = Some(key.clone());
                let read = |value: &Value| {
                    parse_point(value).map_err(|reason| {
                        Problem::at(value, Error::invalid("parse_exception", reason))
                    })
                };
                points = match value {
                    Value::Array(items) if items.first().is_none_or(|item| !item.is_number()) => {
                        items.iter().map(read).collect::<Parsed<_>>()?
                    }
                    _ => vec![read(value)?],
                };
            }
        }
    }
    let Some(field) = field.filter(|_| !points.is_empty()) else {
        return Err(Problem::illegal("Geo distance sorting needs at least one point."));
    };
    let by = SortBy::Geo { field, points, metres, mode, ignore_unmapped };
    Ok(SortClause { by, descending: is_descending })
}

fn nested(key: &str, value: &Value) -> Box<Problem> {
    Problem::parsing(
        value,
        format!("[{key}] of a sort is not supported: there are no nested objects"),
    )
}

fn script(options: &Map<String, Value>, node: &Value) -> Parsed<SortClause> {
    let (mut found, mut is_descending, mut kind) = (None, false, String::new());
    for (key, value) in options {
        match key.as_str() {
            "order" => is_descending = descending(&as_text(value))?,
            "script" => found = Some(Script::parse(value)?),
            "type" => kind = as_text(value),
            "nested" => return Err(nested(key, value)),
            "mode" => {}
            _ => return Err(unknown("_script", key, value)),
        }
    }
    let Some(script) = found else {
        return Err(Problem::parsing(node, "[_script] requires a [script]"));
    };
    if kind != "number" {
        return Err(Problem::illegal(format!(
            "[_script] sort of type [{kind}] is not supported: only [number] is"
        )));
    }
    Ok(SortClause { by: SortBy::Script(script), descending: is_descending })
}
