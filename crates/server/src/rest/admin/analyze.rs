//! `_analyze`: how text becomes terms.

use plimsoll_index::Error;
use plimsoll_index::analysis::{Analysis, Analyzer};
use plimsoll_index::mapping::Mapping;
use serde_json::{Map, Value, json};

use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::documents::write::validation;
use crate::rest::expressions;

/// The most tokens of one answer; Elasticsearch's own limit.
const TOKENS_MAX: usize = 10_000;
/// Positions between two texts of one request.
const POSITION_GAP: u64 = 100;

/// GET or POST `[/{index}]/_analyze`.
///
/// # Errors
/// 400 where the analyzer is not known or the body says something else.
pub async fn analyze(mut call: Call) -> Result<Answer, Error> {
    let body = call.json_required().await?;
    let index = call.part("index").or_else(|| call.query.get("index"));
    let (mapping, analysis) = match index {
        None => (Mapping::empty(), Analysis::default()),
        Some(name) => {
            let target = expressions::resolve_one(call.coordinator(), name, "index_expression")?;
            (target.index.mapping.clone(), Analysis::of_settings(&target.index.settings)?)
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
        return Err(Error::new(
            400,
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
    let analyzer = analyzer(&body, &mapping, &analysis)?;
    Ok(Answer::json(&json!({ "tokens": tokens(&analyzer, &texts)? })))
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
fn tokens(analyzer: &Analyzer, texts: &[&str]) -> Result<Vec<Value>, Error> {
    let mut all = Vec::new();
    let (mut position, mut offset) = (0, 0);
    for text in texts {
        let mut last = None;
        for mut token in analyzer.explain(text) {
            let own = token["position"].as_u64().unwrap_or(0);
            last = Some(own);
            token["position"] = json!(own + position);
            for key in ["start_offset", "end_offset"] {
                token[key] = json!(token[key].as_u64().unwrap_or(0) + offset);
            }
            all.push(token);
            if all.len() > TOKENS_MAX {
                return Err(Error::new(
                    500,
                    "illegal_state_exception",
                    format!(
                        "The number of tokens produced by calling _analyze has exceeded the \
                         allowed maximum of [{TOKENS_MAX}]. This limit can be set by changing the \
                         [index.analyze.max_token_count] index level setting."
                    ),
                ));
            }
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
        let tokens = tokens(&analyzer, &["The Quick", "fox"]).unwrap();
        let shown: Vec<String> = tokens
            .iter()
            .map(|token| {
                format!("{} {} {}", token["token"], token["position"], token["start_offset"])
            })
            .collect();
        assert_eq!(shown, ["\"the\" 0 0", "\"quick\" 1 4", "\"fox\" 102 10"]);
    }
}
