//! `_analyze`: how text becomes terms.

use plimsoll_index::Error;
use plimsoll_index::analysis::{Analysis, Analyzer};
use plimsoll_index::mapping::Mapping;
use serde_json::{Map, Value, json};

use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::documents::write::validation;
use crate::rest::expressions;

use super::settings;
use crate::security::privileges::IndexPrivileges;

/// The most tokens of one answer, where the index does not say otherwise; Elasticsearch's own
/// limit.
const TOKENS_MAX: usize = 10_000;
/// How it is changed.
const TOKENS_MAX_SETTING: &str = "index.analyze.max_token_count";
/// The most bytes of all texts of a request: a document has at most 8 MiB.
const TEXT_BYTES_MAX: usize = 8 << 20;
/// Positions between two texts of one request.
const POSITION_GAP: u64 = 100;

/// GET or POST `[/{index}]/_analyze`.
///
/// # Errors
/// 400 where the analyzer is not known or the body says something else.
pub async fn analyze(mut call: Call) -> Result<Answer, Error> {
    let body = call.json_required().await?;
    let index = call.part("index").or_else(|| call.query.get("index"));
    let (mapping, analysis, tokens_max) = match index {
        None => (Mapping::empty(), Analysis::default(), TOKENS_MAX),
        Some(name) => {
            let grant = call.grant.to(IndexPrivileges::VIEW_METADATA, "indices:admin/analyze");
            let target =
                expressions::resolve_one(call.coordinator(), &grant, name, "index_expression")?;
            let index = &target.index;
            let tokens_max = settings::count(index, TOKENS_MAX_SETTING).unwrap_or(TOKENS_MAX);
            (index.mapping.clone(), Analysis::of_settings(&index.settings)?, tokens_max)
        }
    };
    let Value::Object(body) = body else {
        return Err(Error::parsing("expected an object"));
    };
    const KNOWN: [&str; 8] = [
        "analyzer",
        "tokenizer",
        "filter",
        "char_filter",
        "normalizer",
        "field",
        "text",
        "explain",
    ];
    if let Some(unknown) = body.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return Err(Error::invalid(
            "x_content_parse_exception",
            format!("[1:1] [analyze_request] unknown field [{unknown}]"),
        ));
    }
    if body.get("explain").and_then(Value::as_bool) == Some(true) {
        return Err(Error::illegal_argument("[explain] is not supported"));
    }
    let texts: Vec<&str> = match body.get("text") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if texts.is_empty() {
        return Err(validation(&["text is missing"]));
    }
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    if bytes > TEXT_BYTES_MAX {
        return Err(Error::illegal_argument(format!(
            "the text has [{bytes}] bytes and _analyze takes at most [{TEXT_BYTES_MAX}]"
        )));
    }
    let analyzer = analyzer(&body, &mapping, &analysis)?;
    Ok(Answer::json(&json!({ "tokens": tokens(&analyzer, &texts, tokens_max)? })))
}

fn analyzer(
    body: &Map<String, Value>,
    mapping: &Mapping,
    analysis: &Analysis,
) -> Result<Analyzer, Error> {
    let Some(path) = body.get("field").and_then(Value::as_str) else {
        return analysis.for_request(&Value::Object(body.clone()));
    };
    match mapping.field(path) {
        Some(field) if field.field_type().is_text() => Ok(field.analyzer().clone()),
        Some(field) => match field.normalizer() {
            Some(normalizer) => Ok(normalizer.clone()),
            None => analysis.for_request(&json!({ "analyzer": "keyword" })),
        },
        None => Ok(analysis.default_analyzer()),
    }
}

/// The tokens of all texts, as if they were one field with several values.
fn tokens(analyzer: &Analyzer, texts: &[&str], tokens_max: usize) -> Result<Vec<Value>, Error> {
    let too_many = || {
        Error::failed(
            "illegal_state_exception",
            format!(
                "The number of tokens produced by calling _analyze has exceeded the allowed \
                 maximum of [{tokens_max}]. This limit can be set by changing the \
                 [{TOKENS_MAX_SETTING}] index level setting."
            ),
        )
    };
    let mut all = Vec::new();
    let (mut position, mut offset) = (0, 0);
    for text in texts {
        let mut last = None;
        let room = tokens_max - all.len();
        for mut token in analyzer.explain(text, room).ok_or_else(too_many)? {
            let own = token["position"].as_u64().unwrap_or(0);
            last = Some(own);
            token["position"] = json!(own + position);
            for key in ["start_offset", "end_offset"] {
                token[key] = json!(token[key].as_u64().unwrap_or(0) + offset);
            }
            all.push(token);
        }
        position += last.map_or(0, |last| last + 1) + POSITION_GAP;
        offset += text.encode_utf16().count() as u64 + 1;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_texts_are_one_field() {
        let analyzer = Analysis::default().for_request(&json!({ "analyzer": "standard" })).unwrap();
        let tokens = tokens(&analyzer, &["The Quick", "fox"], 3).unwrap();
        let shown: Vec<String> = tokens
            .iter()
            .map(|token| {
                format!("{} {} {}", token["token"], token["position"], token["start_offset"])
            })
            .collect();
        assert_eq!(shown, ["\"the\" 0 0", "\"quick\" 1 4", "\"fox\" 102 10"]);
    }

    #[test]
    fn tokens_are_counted_while_they_are_made() {
        let analysis = Analysis::default();
        let grams = json!({ "tokenizer": { "type": "ngram", "min_gram": 1, "max_gram": 2 } });
        let grams = analysis.for_request(&grams).unwrap();
        let paths = analysis.for_request(&json!({ "tokenizer": "path_hierarchy" })).unwrap();
        let map =
            json!({ "type": "mapping", "mappings": [format!("a => {}", "b".repeat(1 << 16))] });
        let mapped = json!({ "tokenizer": "standard", "char_filter": [map] });
        let mapped = analysis.for_request(&mapped).unwrap();
        // Made in full, these would take gigabytes.
        for (analyzer, text) in [
            (&grams, "x".repeat(3 << 20)),
            (&paths, "/a".repeat(1 << 20)),
            (&mapped, "a".repeat(1 << 20)),
        ] {
            let refused = tokens(analyzer, &[&text], TOKENS_MAX).unwrap_err();
            assert!(refused.reason.contains(TOKENS_MAX_SETTING), "{}", refused.reason);
        }
        let standard = analysis.for_request(&json!({ "analyzer": "standard" })).unwrap();
        assert_eq!(tokens(&standard, &["a b", "c"], 3).unwrap().len(), 3);
        assert!(tokens(&standard, &["a b", "c d"], 3).is_err());
    }
}
