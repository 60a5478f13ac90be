//! `_source`: which parts of a document are shown.

use plimsoll_stdx::wildcard_matches;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::query::parse::as_text;

/// Which parts of `_source` are shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFilter {
    /// Whether it is shown at all.
    pub enabled: bool,
    /// Dotted paths with `*`; empty: all.
    pub includes: Vec<String>,
    /// Dotted paths with `*` that are left out.
    pub excludes: Vec<String>,
}

impl Default for SourceFilter {
    fn default() -> Self {
        Self { enabled: true, includes: Vec::new(), excludes: Vec::new() }
    }
}

impl SourceFilter {
    /// Reads `true`, `false`, `"a.*"`, `["a", "b"]` or `{"includes": …, "excludes": …}`; none
    /// where it is nothing of these.
    #[must_use]
    pub fn parse(node: &Value) -> Option<Self> {
        let list = |value: &Value| match value {
            Value::Array(items) => items.iter().map(as_text).collect(),
            other => vec![as_text(other)],
        };
        let mut filter = Self::default();
        match node {
            Value::Bool(enabled) => filter.enabled = *enabled,
            Value::String(text) if text == "true" => {}
            Value::String(text) if text == "false" => filter.enabled = false,
            Value::String(text) => filter.includes = text.split(',').map(str::to_owned).collect(),
            Value::Array(_) => filter.includes = list(node),
            Value::Object(map) => {
                for (key, value) in map {
                    match key.as_str() {
                        "includes" | "include" => filter.includes = list(value),
                        "excludes" | "exclude" => filter.excludes = list(value),
                        _ => return None,
                    }
                }
            }
            _ => return None,
        }
        Some(filter)
    }

    /// Whether a whole document is shown as it is.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.enabled && self.includes.is_empty() && self.excludes.is_empty()
    }

    /// The parts of a document that are shown.
    #[must_use]
    pub fn apply(&self, source: &Value) -> Value {
        match source {
            Value::Object(map) => Value::Object(self.object(map, "", self.includes.is_empty())),
            other => other.clone(),
        }
    }

    /// `included`: whether a parent is included as a whole.
    fn object(&self, map: &Map<String, Value>, prefix: &str, included: bool) -> Map<String, Value> {
        let mut kept = Map::new();
        for (key, value) in map {
            let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            if self.excludes.iter().any(|pattern| wildcard_matches(pattern, &path)) {
                continue;
            }
            let included =
                included || self.includes.iter().any(|pattern| wildcard_matches(pattern, &path));
            if let Some(value) = self.value(value, &path, included) {
                kept.insert(key.clone(), value);
            }
        }
        kept
    }

    fn value(&self, value: &Value, path: &str, included: bool) -> Option<Value> {
        match value {
            Value::Object(map) => {
                let inner = self.object(map, path, included);
                // An object of which nothing is left is shown where it was asked for itself.
                (included || !inner.is_empty()).then_some(Value::Object(inner))
            }
            Value::Array(items) => {
                let inner: Vec<Value> =
                    items.iter().filter_map(|item| self.value(item, path, included)).collect();
                (included || !inner.is_empty()).then(|| Value::from(inner))
            }
            other => included.then(|| other.clone()),
        }
    }
}

/// All values of a path in a document, arrays on the way included.
pub(crate) fn values_at<'a>(source: &'a Value, path: &str, found: &mut Vec<&'a Value>) {
    match source {
        Value::Array(items) => {
            for item in items {
                values_at(item, path, found);
            }
        }
        Value::Object(map) => {
            // A key may have dots of its own.
            for (key, value) in map {
                if key == path {
                    flatten(value, found);
                } else if let Some(rest) =
                    path.strip_prefix(key.as_str()).and_then(|rest| rest.strip_prefix('.'))
                {
                    values_at(value, rest, found);
                }
            }
        }
        _ => {}
    }
}

fn flatten<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Array(items) => {
            for item in items {
                flatten(item, found);
            }
        }
        other => found.push(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_are_chosen_by_path() {
        let source =
            json!({"a": 1, "o": {"x": 1, "y": {"z": 2}}, "l": [{"x": 1, "y": 2}, 3], "e": {}});
        for (filter, expected) in [
            (json!(["a"]), json!({"a": 1})),
            (json!("o.*"), json!({"o": {"x": 1, "y": {"z": 2}}})),
            (json!(["o"]), json!({"o": {"x": 1, "y": {"z": 2}}})),
            (
                json!({"excludes": ["o.y"]}),
                json!({"a": 1, "o": {"x": 1}, "l": [{"x": 1, "y": 2}, 3], "e": {}}),
            ),
            (json!({"includes": ["l.x"]}), json!({"l": [{"x": 1}]})),
            (json!({"includes": ["o"], "excludes": ["*.z"]}), json!({"o": {"x": 1, "y": {}}})),
            (json!(["nope"]), json!({})),
        ] {
            let parsed = SourceFilter::parse(&filter).unwrap();
            assert_eq!(parsed.apply(&source), expected, "{filter}");
        }
        assert!(SourceFilter::parse(&json!(3)).is_none());
    }

    #[test]
    fn values_are_found_through_arrays() {
        let source = json!({"a": [{"b": 1}, {"b": [2, 3]}], "a.b": 4});
        let mut found = Vec::new();
        values_at(&source, "a.b", &mut found);
        assert_eq!(found, [&json!(1), &json!(2), &json!(3), &json!(4)]);
    }
}
