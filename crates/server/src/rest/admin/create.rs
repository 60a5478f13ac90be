//! PUT `/{index}`: an index made of its body and the templates that fit its name.

use plimsoll_cluster::{Coordinator, IndexBody};
use plimsoll_index::Error;
use plimsoll_index::analysis::Analysis;
use serde_json::{Map, Value, json};

use super::mappings::untyped;
use super::settings::{self, Occasion};
use super::{aliases, templates};
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::expressions::parts;
use crate::rest::{names, needs};
use crate::security::privileges::IndexPrivileges;
use plimsoll_stdx::wildcard_matches;

/// PUT `/{index}`.
///
/// # Errors
/// 400 where the name or the body is none that an index can have, or it is there already.
pub async fn create(mut call: Call) -> Result<Answer, Error> {
    let given = call.part("index").unwrap_or_default();
    let name = parts(given)?.join(",");
    names::check_index(&name)?;
    needs::check(&call.grant, &name)?;
    if call
        .coordinator()
        .documents()
        .indices()
        .iter()
        .any(|index| index.aliases.contains_key(&name))
    {
        return Err(Error::invalid(
            "invalid_index_name_exception",
            format!("Invalid index name [{name}], already exists as alias"),
        )
        .with("index", name.as_str())
        .with("index_uuid", "_na_"));
    }
    let body = call.json().await?.unwrap_or_else(|| json!({}));
    let body = index_body(&body)?;
    let aliasing = call.grant.to(IndexPrivileges::MANAGE, "indices:admin/aliases");
    for alias in body.aliases.keys() {
        needs::check(&aliasing, alias)?;
    }
    let body = templates::apply::compose(call.coordinator(), &name, body)?;
    Analysis::of_settings(&body.settings)?;
    call.coordinator().documents().create_index(&name, body).await?;
    Ok(Answer::json(&json!({
        "acknowledged": true,
        "shards_acknowledged": true,
        "index": name,
    })))
}

/// What a body says of an index to be made.
///
/// # Errors
/// 400 where it says something that is not known.
pub fn index_body(body: &Value) -> Result<IndexBody, Error> {
    let Value::Object(object) = body else {
        return Err(Error::invalid("parse_exception", "expected an object"));
    };
    let mut made = IndexBody { mappings: json!({}), ..IndexBody::default() };
    for (key, value) in object {
        match key.as_str() {
            "settings" => {
                made.settings = without_nulls(settings::parse(value, Occasion::Creation)?)
            }
            "mappings" => made.mappings = untyped(value)?.clone(),
            "aliases" => made.aliases = aliases::parse_all(value)?,
            other => {
                return Err(Error::invalid(
                    "parse_exception",
                    format!("unknown key [{other}] for create index"),
                ));
            }
        }
    }
    Ok(made)
}

fn without_nulls(settings: Map<String, Value>) -> Map<String, Value> {
    settings.into_iter().filter(|(_, value)| !value.is_null()).collect()
}

/// Whether a document may make the index that it is written to: `action.auto_create_index`.
#[must_use]
pub fn may_create(coordinator: &Coordinator, name: &str) -> bool {
    let setting = coordinator.cluster_setting("action.auto_create_index");
    setting.is_none_or(|rule| allows(&rule, name))
}

/// `true`, `false`, or patterns with a sign, of which the first that fits decides.
fn allows(rule: &str, name: &str) -> bool {
    match rule.trim() {
        "true" | "" => true,
        "false" => false,
        patterns => patterns
            .split(',')
            .map(str::trim)
            .map(|pattern| match pattern.strip_prefix('-') {
                Some(pattern) => (pattern, false),
                None => (pattern.strip_prefix('+').unwrap_or(pattern), true),
            })
            .find(|(pattern, _)| wildcard_matches(pattern, name))
            .is_some_and(|(_, allows)| allows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_of_indices() {
        let body = json!({
            "settings": {"number_of_shards": 3},
            "mappings": {"_doc": {"properties": {"k": {"type": "keyword"}}}},
            "aliases": {"a": {"routing": "1"}},
        });
        let made = index_body(&body).unwrap();
        assert_eq!(made.settings["index.number_of_shards"], "3");
        assert_eq!(made.mappings["properties"]["k"]["type"], "keyword");
        assert_eq!(made.aliases["a"]["search_routing"], "1");
        let refused = index_body(&json!({"bogus": {}})).unwrap_err();
        assert_eq!(refused.reason, "unknown key [bogus] for create index");
    }

    #[test]
    fn who_may_be_created() {
        for (rule, name, expected) in [
            ("true", "x", true),
            ("false", "x", false),
            ("logs-*", "logs-1", true),
            ("logs-*", "x", false),
            ("-logs-*,+*", "logs-1", false),
            ("-logs-*,+*", "x", true),
        ] {
            assert_eq!(allows(rule, name), expected, "{rule} {name}");
        }
    }
}
