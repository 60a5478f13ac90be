//! Dynamic templates: how a field that the mapping does not have is mapped when a document
//! brings it.

use plimsoll_stdx::wildcard_matches;
use serde_json::{Map, Value, json};

use crate::Error;

/// The conditions of one rule; the first rule whose conditions all hold is used.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub name: String,
    body: Map<String, Value>,
    match_mapping_type: Option<String>,
    names: Vec<String>,
    unmatch: Vec<String>,
    path_match: Vec<String>,
    path_unmatch: Vec<String>,
    mapping: Value,
}

/// The kinds of JSON value that `match_mapping_type` names.
const KINDS: [&str; 8] = ["*", "object", "string", "long", "double", "boolean", "date", "binary"];

impl Template {
    /// Reads `{"<name>": {"match": …, "mapping": …}}`.
    ///
    /// # Errors
    /// 400 `mapper_parsing_exception`.
    pub fn parse(entry: &Value) -> Result<Self, Error> {
        let named = entry.as_object().filter(|entry| entry.len() == 1);
        let Some((name, body)) = named.and_then(|entry| entry.iter().next()) else {
            return Err(Error::mapper_parsing("A dynamic template must be defined with a name"));
        };
        let body = body.as_object().cloned().unwrap_or_default();
        let wrong = |why: String| Error::mapper_parsing(format!("dynamic template [{name}] {why}"));
        for key in body.keys() {
            const KNOWN: [&str; 7] = [
                "match_mapping_type",
                "match",
                "unmatch",
                "path_match",
                "path_unmatch",
                "match_pattern",
                "mapping",
            ];
            if !KNOWN.contains(&key.as_str()) {
                return Err(Error::illegal_argument(format!(
                    "Illegal dynamic template parameter: [{key}]"
                )));
            }
        }
        let kind = body.get("match_mapping_type").and_then(Value::as_str).map(str::to_owned);
        if let Some(kind) = &kind
            && !KINDS.contains(&kind.as_str())
        {
            return Err(Error::illegal_argument(format!(
                "No field type matched on [{kind}], possible values are [object, string, long, \
                 double, boolean, date, binary]"
            )));
        }
        let mapping = body.get("mapping").cloned();
        let mapping = mapping.ok_or_else(|| wrong("must have mapping set".to_owned()))?;
        let [names, unmatch, path_match, path_unmatch] =
            ["match", "unmatch", "path_match", "path_unmatch"].map(|key| patterns(body.get(key)));
        if kind.is_none() && names.is_empty() && path_match.is_empty() {
            return Err(wrong("must have match, path_match or match_mapping_type set".to_owned()));
        }
        let regex = body.get("match_pattern").is_some_and(|pattern| pattern == "regex");
        if regex {
            return Err(wrong("has match_pattern [regex], which is not supported".to_owned()));
        }
        Ok(Self {
            name: name.clone(),
            match_mapping_type: kind,
            names,
            unmatch,
            path_match,
            path_unmatch,

            mapping,
            body,
        })
    }

    /// The mapping of a field of this path whose values are of the JSON kind `kind` (a name of
    /// [`KINDS`]), which by itself would be mapped as `default`; none where the rule is not for
    /// it.
    pub fn apply(&self, path: &str, kind: &str, default: &str) -> Option<Value> {
        let name = path.rsplit('.').next().unwrap_or(path);
        let any = |patterns: &[String], text: &str| {
            patterns.iter().any(|one| wildcard_matches(one, text))
        };
        let of_kind = match &self.match_mapping_type {
            None => true,
            Some(wanted) => wanted == "*" || wanted == kind,
        };
        let fits = of_kind
            && (self.names.is_empty() || any(&self.names, name))
            && (self.path_match.is_empty() || any(&self.path_match, path))
            && !any(&self.unmatch, name)
            && !any(&self.path_unmatch, path);
        if !fits {
            return None;
        }
        let mut body = fill(&self.mapping, name, default);
        if let Value::Object(body) = &mut body
            && !body.contains_key("type")
        {
            body.insert("type".to_owned(), json!(default));
        }
        Some(body)
    }

    /// As a mapping shows it.
    pub fn to_json(&self) -> Value {
        json!({ &self.name: self.body })
    }
}

/// Puts the field's name and type where the template says `{name}` and `{dynamic_type}`.
fn fill(value: &Value, name: &str, kind: &str) -> Value {
    let text = |text: &str| text.replace("{name}", name).replace("{dynamic_type}", kind);
    match value {
        Value::String(one) => Value::String(text(one)),
        Value::Array(all) => Value::Array(all.iter().map(|one| fill(one, name, kind)).collect()),
        Value::Object(all) => {
            Value::Object(all.iter().map(|(key, one)| (text(key), fill(one, name, kind))).collect())
        }
        other => other.clone(),
    }
}

fn patterns(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(all)) => {
            all.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        Some(Value::String(one)) => vec![one.clone()],
        _ => Vec::new(),
    }
}
