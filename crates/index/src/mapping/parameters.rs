//! The parameters of a field: which a type has, what they mean, what is wrong with them.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};

use super::date::DateFormat;
use super::field::{Field, FieldType};
use super::parse::flag;
use crate::Error;
use crate::analysis::Analysis;

/// Parameters that every type takes.
const ALL: [&str; 6] = ["type", "fields", "copy_to", "meta", "boost", "store"];
const NUMBERS: [&str; 8] = [
    "index",
    "doc_values",
    "null_value",
    "coerce",
    "ignore_malformed",
    "time_series_metric",
    "time_series_dimension",
    "skip_list",
];
const TEXT: [&str; 13] = [
    "index",
    "norms",
    "analyzer",
    "search_analyzer",
    "search_quote_analyzer",
    "index_options",
    "fielddata",
    "fielddata_frequency_filter",
    "position_increment_gap",
    "eager_global_ordinals",
    "index_phrases",
    "index_prefixes",
    "term_vector",
];
const KEYWORD: [&str; 9] = [
    "index",
    "doc_values",
    "null_value",
    "ignore_above",
    "normalizer",
    "norms",
    "eager_global_ordinals",
    "split_queries_on_whitespace",
    "index_options",
];
const DATE: [&str; 7] =
    ["index", "doc_values", "null_value", "format", "locale", "ignore_malformed", "skip_list"];
const GEO: [&str; 6] =
    ["index", "doc_values", "null_value", "ignore_malformed", "ignore_z_value", "validate"];

/// The parameters that a type takes beside those of [`ALL`].
fn own(kind: FieldType) -> &'static [&'static str] {
    match kind {
        FieldType::Text => &TEXT,
        FieldType::MatchOnlyText => &["analyzer", "search_analyzer", "search_quote_analyzer"],
        FieldType::Keyword | FieldType::Flattened => &KEYWORD,
        FieldType::Wildcard => &["ignore_above", "null_value", "doc_values", "normalizer"],
        FieldType::ConstantKeyword => &["value"],
        FieldType::Boolean => &["index", "doc_values", "null_value", "ignore_malformed"],
        FieldType::Date | FieldType::DateNanos => &DATE,
        FieldType::Ip => &["index", "doc_values", "null_value", "ignore_malformed", "skip_list"],
        FieldType::GeoPoint => &GEO,
        FieldType::Binary => &["doc_values"],
        FieldType::Alias => &["path"],
        _ => &NUMBERS,
    }
}

/// `_ignored` as a field: a keyword that no mapping names and every index has.
pub(super) fn ignored() -> &'static Field {
    static FIELD: LazyLock<Field> = LazyLock::new(|| {
        let analysis = Analysis::default();
        field(super::IGNORED, FieldType::Keyword, &Map::new(), &analysis)
            .expect("a keyword needs no parameters")
    });
    &FIELD
}

/// Reads a field's parameters; its multi-fields are read by the caller.
pub(super) fn field(
    path: &str,
    kind: FieldType,
    body: &Map<String, Value>,
    analysis: &Analysis,
) -> Result<Field, Error> {
    let name = path.rsplit('.').next().unwrap_or(path);
    for key in body.keys() {
        let scale = key == "scaling_factor" && kind == FieldType::ScaledFloat;
        if !ALL.contains(&key.as_str()) && !own(kind).contains(&key.as_str()) && !scale {
            return Err(Error::mapper_parsing(format!(
                "unknown parameter [{key}] on mapper [{name}] of type [{}]",
                kind.name()
            )));
        }
    }
    let standard = analysis.default_analyzer();
    let mut field = Field {
        path: path.to_owned(),
        ordinal: 0,
        kind,
        body: shown(kind, body),
        index: on(body, "index", true)?,
        doc_values: !kind.is_text() && on(body, "doc_values", kind != FieldType::Binary)?,
        norms: kind == FieldType::Text && on(body, "norms", true)?,
        positions: false,
        frequencies: false,
        coerce: on(body, "coerce", true)?,
        ignore_malformed: on(body, "ignore_malformed", false)?,
        ignore_above: None,
        null_value: body.get("null_value").filter(|value| !value.is_null()).cloned(),
        constant: body.get("value").map(plain),
        scaling_factor: 1.0,
        date_format: None,
        analyzer: standard.clone(),
        search_analyzer: standard,
        normalizer: None,
        copy_to: copies(body.get("copy_to")),
        alias_of: None,
        fields: BTreeMap::new(),
        copy_ordinals: Vec::new(),
    };
    of_type(name, &mut field, body, analysis)?;
    if kind == FieldType::Wildcard {
        field.index = true;
    }
    Ok(field)
}

/// Reads what only the field's type has.
fn of_type(
    name: &str,
    field: &mut Field,
    body: &Map<String, Value>,
    analysis: &Analysis,
) -> Result<(), Error> {
    match field.kind {
        FieldType::Text | FieldType::MatchOnlyText => text(name, field, body, analysis)?,
        FieldType::Keyword | FieldType::Wildcard | FieldType::Flattened => {
            keyword(name, field, body, analysis)?;
        }
        FieldType::ScaledFloat => {
            let factor = body.get("scaling_factor").ok_or_else(|| {
                Error::mapper_parsing(format!(
                    "Field [{name}] misses required parameter [scaling_factor]"
                ))
            })?;
            field.scaling_factor = factor
                .as_f64()
                .or_else(|| factor.as_str()?.parse().ok())
                .filter(|factor| factor.is_finite() && *factor > 0.0)
                .ok_or_else(|| {
                    Error::illegal_argument(format!(
                        "[scaling_factor] must be a positive number, got [{}]",
                        plain(factor)
                    ))
                })?;
        }
        FieldType::Date | FieldType::DateNanos => {
            let format = body.get("format").map_or_else(
                || Ok(DateFormat::default_date()),
                |format| DateFormat::parse_pattern(&plain(format)),
            )?;
            field.date_format = Some(Arc::new(format));
        }
        FieldType::Alias => {
            let target = body.get("path").and_then(Value::as_str);
            field.alias_of = Some(target.map(str::to_owned).ok_or_else(|| {
                Error::mapper_parsing(format!(
                    "The [path] property must be specified for field [{name}]."
                ))
            })?);
        }
        _ => {}
    }
    Ok(())
}

fn text(
    name: &str,
    field: &mut Field,
    body: &Map<String, Value>,
    analysis: &Analysis,
) -> Result<(), Error> {
    let analyzer = |key: &str| match body.get(key).map(plain) {
        None => Ok(None),
        Some(wanted) => analysis.analyzer(&wanted).map(Some).ok_or_else(|| {
            Error::mapper_parsing(format!(
                "Failed to parse mapping: analyzer [{wanted}] has not been configured in mappings"
            ))
        }),
    };
    if let Some(analyzer) = analyzer("analyzer")? {
        field.analyzer = analyzer;
    }
    let default_search =
        analysis.analyzer("default_search").filter(|_| !body.contains_key("analyzer"));
    field.search_analyzer =
        analyzer("search_analyzer")?.or(default_search).unwrap_or_else(|| field.analyzer.clone());
    analyzer("search_quote_analyzer")?;
    let options = body.get("index_options").map_or_else(|| "positions".to_owned(), plain);
    (field.frequencies, field.positions) = match options.as_str() {
        "docs" => (false, false),
        "freqs" => (true, false),
        "positions" | "offsets" => (true, true),
        other => {
            return Err(Error::illegal_argument(format!(
                "Unknown value [{other}] for field [index_options] - accepted values are [positions, \
                 docs, freqs, offsets], on mapper [{name}]"
            )));
        }
    };
    Ok(())
}

fn keyword(
    name: &str,
    field: &mut Field,
    body: &Map<String, Value>,
    analysis: &Analysis,
) -> Result<(), Error> {
    if let Some(limit) = body.get("ignore_above") {
        let parsed = limit.as_i64().or_else(|| limit.as_str()?.parse().ok());
        let parsed = parsed.and_then(|limit| usize::try_from(limit).ok());
        field.ignore_above = Some(parsed.ok_or_else(|| {
            Error::illegal_argument(format!(
                "[ignore_above] must be positive, got [{}]",
                plain(limit)
            ))
        })?);
    }
    if let Some(wanted) = body.get("normalizer").map(plain) {
        let normalizer = analysis.normalizer(&wanted).ok_or_else(|| {
            Error::mapper_parsing(format!("normalizer [{wanted}] not found for field [{name}]"))
        })?;
        field.normalizer = Some(normalizer);
    }
    Ok(())
}

fn on(body: &Map<String, Value>, key: &str, default: bool) -> Result<bool, Error> {
    match body.get(key) {
        None | Some(Value::Null) => Ok(default),
        Some(value) => flag(key, value),
    }
}

/// A value as text: a string without its quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn copies(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(all)) => {
            all.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        Some(Value::String(one)) => vec![one.clone()],
        _ => Vec::new(),
    }
}

/// The body as it is shown again: the type first, values of the right kind, `copy_to` as a list.
fn shown(kind: FieldType, body: &Map<String, Value>) -> Map<String, Value> {
    let mut shown = Map::new();
    shown.insert("type".to_owned(), Value::from(kind.name()));
    for (key, value) in body {
        let value = match (key.as_str(), value) {
            ("type" | "fields", _) => continue,
            (_, Value::Null) => continue,
            ("copy_to", value) => Value::from(copies(Some(value))),
            ("null_value" | "value" | "format" | "path" | "analyzer" | "meta", value) => {
                value.clone()
            }
            (_, Value::String(text)) if text == "true" || text == "false" => {
                Value::Bool(text == "true")
            }
            ("ignore_above", Value::String(text)) => {
                text.parse::<i64>().map_or_else(|_| value.clone(), Value::from)
            }
            ("scaling_factor", value) => {
                let factor = value.as_f64().or_else(|| value.as_str()?.parse().ok());
                factor.map_or_else(|| value.clone(), Value::from)
            }
            (_, value) => value.clone(),
        };
        shown.insert(key.clone(), value);
    }
    shown
}
