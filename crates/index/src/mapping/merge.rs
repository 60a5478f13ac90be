//! Merging a mapping into one that is there: what is new is added, what cannot change must not.

use std::sync::Arc;

use serde_json::Value;

use super::field::Field;
use super::object::{Object, Property};
use super::parse::join;
use crate::Error;

/// Parameters that a field may change after it is made.
const CHANGEABLE: [&str; 13] = [
    "ignore_above",
    "ignore_malformed",
    "coerce",
    "search_analyzer",
    "search_quote_analyzer",
    "copy_to",
    "boost",
    "meta",
    "fielddata",
    "eager_global_ordinals",
    "fielddata_frequency_filter",
    "split_queries_on_whitespace",
    "path",
];

/// The object `old` with what `new` says.
pub(super) fn objects(old: &Object, new: Object, path: &str) -> Result<Object, Error> {
    let mut merged = old.clone();
    let fresh = old.properties.is_empty() && path.is_empty();
    if new.nested != old.nested && !path.is_empty() {
        return Err(Error::illegal_argument(format!(
            "can't merge a {} mapping [{path}] with a {} mapping",
            if old.nested { "nested" } else { "non nested" },
            if new.nested { "nested" } else { "non nested" },
        )));
    }
    if new.dynamic.is_some() {
        merged.dynamic = new.dynamic;
    }
    if new.enabled.is_some() {
        if !fresh && new.is_enabled() != old.is_enabled() {
            return Err(Error::illegal_argument(format!(
                "the [enabled] parameter can't be updated for the object mapping [{path}]"
            )));
        }
        merged.enabled = new.enabled;
    }
    merged.shown.extend(new.shown);
    for (name, property) in new.properties {
        let inner = join(path, &name);
        let property = match (old.properties.get(&name), property) {
            (None, property) => property,
            (Some(Property::Object(old)), Property::Object(new)) => {
                Property::Object(objects(old, new, &inner)?)
            }
            (Some(Property::Field(old)), Property::Field(new)) => {
                Property::Field(Arc::new(fields(old, &new)?))
            }
            (Some(Property::Object(_)), Property::Field(_)) => {
                return Err(Error::illegal_argument(format!(
                    "can't merge a non object mapping [{inner}] with an object mapping"
                )));
            }
            (Some(Property::Field(old)), Property::Object(new)) => {
                let kind = if new.nested { "nested" } else { "object" };
                return Err(cannot_change(&inner, old.kind.name(), kind));
            }
        };
        merged.properties.insert(name, property);
    }
    Ok(merged)
}

fn cannot_change(path: &str, from: &str, to: &str) -> Error {
    Error::illegal_argument(format!(
        "mapper [{path}] cannot be changed from type [{from}] to [{to}]"
    ))
}

fn fields(old: &Field, new: &Field) -> Result<Field, Error> {
    if old.kind != new.kind {
        return Err(cannot_change(&old.path, old.kind.name(), new.kind.name()));
    }
    let conflicts: Vec<String> = old
        .body
        .keys()
        .chain(new.body.keys().filter(|key| !old.body.contains_key(*key)))
        .filter(|key| !CHANGEABLE.contains(&key.as_str()))
        .filter_map(|key| {
            let (was, is) = (meaning(old, key), meaning(new, key));
            // A constant that no document has set yet is set by the first.
            if *key == "value" && was.is_null() {
                return None;
            }
            (was != is).then(|| {
                format!(
                    "\tCannot update parameter [{key}] from [{}] to [{}]",
                    plain(&was),
                    plain(&is)
                )
            })
        })
        .collect();
    if !conflicts.is_empty() {
        return Err(Error::illegal_argument(format!(
            "Mapper for [{}] conflicts with existing mapper:\n{}",
            old.path,
            conflicts.join("\n")
        )));
    }
    let mut merged = new.clone();
    merged.fields = old.fields.clone();
    for (name, inner) in &new.fields {
        let inner = match old.fields.get(name) {
            None => Arc::clone(inner),
            Some(old) => Arc::new(fields(old, inner)?),
        };
        merged.fields.insert(name.clone(), inner);
    }
    Ok(merged)
}

/// What a parameter says, or its default where it says nothing.
fn meaning(field: &Field, key: &str) -> Value {
    let default = match key {
        "index" | "coerce" => Value::Bool(true),
        "doc_values" => Value::Bool(field.kind != super::FieldType::Binary),
        "norms" => Value::Bool(field.kind.is_text()),
        "store" | "ignore_malformed" => Value::Bool(false),
        "analyzer" => Value::from("default"),
        "format" => Value::from("strict_date_optional_time||epoch_millis"),
        "index_options" => Value::from("positions"),
        _ => Value::Null,
    };
    field.body.get(key).cloned().unwrap_or(default)
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
