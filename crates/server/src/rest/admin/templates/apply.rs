//! What an index is made of: the template of the highest priority that fits its name with its
//! components, or, where none fits, all templates of the old kind in their order; and over them
//! what the request says.

use std::collections::BTreeMap;

use plimsoll_cluster::{Coordinator, IndexBody};
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::{COMPONENT, INDEX, LEGACY};
use crate::rest::admin::aliases;
use plimsoll_stdx::wildcard_matches;

/// Puts what a request says over the templates that fit the name.
///
/// # Errors
/// Where an alias of a template cannot be.
pub fn compose(coordinator: &Coordinator, name: &str, body: IndexBody) -> Result<IndexBody, Error> {
    let component = |name: &str| coordinator.stored(COMPONENT, name);
    let layers =
        layers(name, coordinator.stored_all(INDEX), coordinator.stored_all(LEGACY), component);
    let mut made = IndexBody { mappings: json!({}), ..IndexBody::default() };
    for layer in layers {
        let aliases = layer.get("aliases").map(aliases::parse_all).transpose()?;
        add(
            &mut made,
            layer.get("settings").and_then(Value::as_object).cloned().unwrap_or_default(),
            layer.get("mappings").unwrap_or(&json!({})),
            aliases.unwrap_or_default(),
        );
    }
    add(&mut made, body.settings, &body.mappings, body.aliases);
    // `{index}` in an alias of a template stands for the index.
    let named =
        |(alias, given): (String, Map<String, Value>)| (alias.replace("{index}", name), given);
    made.aliases = made.aliases.into_iter().map(named).collect();
    made.settings.retain(|_, value| !value.is_null());
    Ok(made)
}

fn add(
    made: &mut IndexBody,
    settings: Map<String, Value>,
    mappings: &Value,
    aliases: BTreeMap<String, Map<String, Value>>,
) {
    made.settings.extend(settings);
    merge(&mut made.mappings, mappings, true);
    made.aliases.extend(aliases);
}

/// What is kept of the templates that fit a name, those that count least first.
fn layers(
    name: &str,
    index: Vec<(String, Value)>,
    legacy: Vec<(String, Value)>,
    component: impl Fn(&str) -> Option<Value>,
) -> Vec<Value> {
    let fits =
        |template: &Value| patterns(template).iter().any(|pattern| wildcard_matches(pattern, name));
    let best = index
        .into_iter()
        .filter(|(_, template)| fits(template))
        .max_by_key(|(_, template)| priority(template));
    if let Some((_, best)) = best {
        let names = best["composed_of"].as_array().cloned().unwrap_or_default();
        let components = names.iter().filter_map(|name| component(name.as_str()?));
        let components = components.map(|component| component["template"].clone());
        return components.chain([best["template"].clone()]).collect();
    }
    let mut fitting: Vec<(String, Value)> =
        legacy.into_iter().filter(|(_, template)| fits(template)).collect();
    fitting.sort_by_key(|(name, template)| (template["order"].as_i64().unwrap_or(0), name.clone()));
    fitting.into_iter().map(|(_, template)| template).collect()
}

/// The patterns of names that a template fits.
#[must_use]
pub fn patterns(template: &Value) -> Vec<&str> {
    let list = template["index_patterns"].as_array();
    list.map(|list| list.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

/// Which template counts where several fit.
#[must_use]
pub fn priority(template: &Value) -> i64 {
    template["priority"].as_i64().unwrap_or(0)
}

/// Puts one mapping over another: fields are added, and a field that both have is the upper
/// one's, unless both are objects with fields of their own.
fn merge(under: &mut Value, over: &Value, is_mapping: bool) {
    let (Value::Object(under), Value::Object(over)) = (under, over) else { return };
    for (key, value) in over {
        let joins = key == "properties" || (!is_mapping && is_parent(under.get(key), value));
        match under.get_mut(key) {
            Some(known) if joins => merge(known, value, key != "properties"),
            Some(Value::Array(known)) if key == "dynamic_templates" => {
                // A later template counts before an earlier one.
                let mut list = value.as_array().cloned().unwrap_or_default();
                list.append(known);
                *known = list;
            }
            _ => {
                under.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Whether both fields are objects with fields.
fn is_parent(under: Option<&Value>, over: &Value) -> bool {
    under.is_some_and(|under| under.get("properties").is_some()) && over.get("properties").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(list: Value) -> Vec<(String, Value)> {
        list.as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    #[test]
    fn the_template_of_the_highest_priority_counts() {
        let index = named(json!({
            "low": {"index_patterns": ["logs-*"], "composed_of": [], "template": {"x": 1}},
            "high": {"index_patterns": ["logs-a*"], "priority": 5, "composed_of": ["c"], "template": {"x": 2}},
        }));
        let legacy = named(json!({
            "second": {"index_patterns": ["*"], "order": 2},
            "first": {"index_patterns": ["m*"], "order": 1},
        }));
        let component = |name: &str| (name == "c").then(|| json!({"template": {"x": 0}}));
        let of = |name: &str| {
            let layers = layers(name, index.clone(), legacy.clone(), component);
            layers
                .iter()
                .map(|layer| layer["x"].as_i64().or(layer["order"].as_i64()).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(of("logs-a1"), [0, 2]);
        assert_eq!(of("logs-b"), [1]);
        assert_eq!(of("metrics"), [1, 2]);
    }

    #[test]
    fn mappings_come_together() {
        let mut under = json!({
            "dynamic": "strict",
            "dynamic_templates": [{"a": {}}],
            "properties": {"k": {"type": "keyword", "ignore_above": 9}, "o": {"properties": {"x": {"type": "long"}}}},
        });
        let over = json!({
            "dynamic": true,
            "dynamic_templates": [{"b": {}}],
            "properties": {"k": {"type": "text"}, "o": {"properties": {"y": {"type": "date"}}}},
        });
        merge(&mut under, &over, true);
        assert_eq!(
            under,
            json!({
                "dynamic": true,
                "dynamic_templates": [{"b": {}}, {"a": {}}],
                "properties": {"k": {"type": "text"}, "o": {"properties": {"x": {"type": "long"}, "y": {"type": "date"}}}},
            })
        );
    }
}
