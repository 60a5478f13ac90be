//! Settings of an index as they come (nested or with dots, with `index.` or without, numbers or
//! text) and as they are answered.

use plimsoll_cluster::IndexMetadata;
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::settings_table::{INDEX_SETTINGS, Kind, Scope, find};
use crate::rest::query::parse_duration;

/// The most settings that one request may have.
const SETTINGS_MAX: usize = 10_000;

/// What is done with the settings.
#[derive(Clone, Copy, Debug)]
pub enum Occasion<'a> {
    /// An index, or a template of one, is made.
    Creation,
    /// This index is changed.
    Change(&'a IndexMetadata),
}

/// Full names and values as text; null where a setting goes back to its default.
///
/// # Errors
/// 400 for a setting that is not there, a value that it does not take, or one that cannot change
/// any more.
pub fn parse(body: &Value, occasion: Occasion<'_>) -> Result<Map<String, Value>, Error> {
    let Value::Object(object) = body else {
        return Err(Error::invalid("parse_exception", "[settings] is not an object"));
    };
    let mut flat = Map::new();
    flatten("", object, &mut flat)?;
    let mut settings = Map::new();
    let mut fixed = Vec::new();
    for (name, value) in flat {
        let name = if name.starts_with("index.") { name } else { format!("index.{name}") };
        let Some(definition) = find(&name) else {
            // One that was taken by an earlier version can be taken back.
            if let Occasion::Change(index) = occasion
                && value.is_null()
                && index.settings.contains_key(&name)
            {
                settings.insert(name, value);
                continue;
            }
            return Err(unknown(&name));
        };
        match (definition.scope, occasion) {
            (Scope::Private, _) => {
                return Err(Error::illegal_argument(format!(
                    "private index setting [{name}] can not be set explicitly"
                )));
            }
            (Scope::Final, Occasion::Change(_)) => fixed.push(name.clone()),
            (Scope::Static, Occasion::Change(index)) if index.is_open => fixed.push(name.clone()),
            _ => (),
        }
        check(&name, definition.kind, &value)?;
        settings.insert(name, value);
    }
    if let (false, Occasion::Change(index)) = (fixed.is_empty(), occasion) {
        fixed.sort_unstable();
        let (fixed, label) = (fixed.join(", "), format!("{}/{}", index.name, index.uuid));
        return Err(Error::illegal_argument(if index.is_open {
            format!("Can't update non dynamic settings [[{fixed}]] for open indices [[{label}]]")
        } else {
            format!("final {label} setting [{fixed}], not updateable")
        }));
    }
    Ok(settings)
}

fn flatten(
    prefix: &str,
    object: &Map<String, Value>,
    flat: &mut Map<String, Value>,
) -> Result<(), Error> {
    for (key, value) in object {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        let value = match value {
            Value::Object(inner) => {
                flatten(&name, inner, flat)?;
                continue;
            }
            Value::Array(items) => {
                let texts = items.iter().map(|item| Value::String(text(item)));
                Value::Array(texts.collect())
            }
            Value::Null => Value::Null,
            scalar => Value::String(text(scalar)),
        };
        if flat.len() >= SETTINGS_MAX {
            return Err(Error::illegal_argument(format!("more than {SETTINGS_MAX} settings")));
        }
        flat.insert(name, value);
    }
    Ok(())
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn check(name: &str, kind: Kind, value: &Value) -> Result<(), Error> {
    if value.is_null() {
        return Ok(());
    }
    let shown = text(value);
    let failed = |why: String| {
        Err(Error::illegal_argument(format!(
            "Failed to parse value [{shown}] for setting [{name}]{why}"
        )))
    };
    match kind {
        Kind::Any => Ok(()),
        Kind::Count(min, max) => match shown.parse::<i64>() {
            Err(_) => failed(String::new()).map_err(|error| {
                let why = format!("For input string: \"{shown}\"");
                error.caused_by(Error::invalid("number_format_exception", why))
            }),
            Ok(count) if count < min => failed(format!(" must be >= {min}")),
            Ok(count) if count > max => failed(format!(" must be <= {max}")),
            Ok(_) => Ok(()),
        },
        Kind::Toggle if matches!(shown.as_str(), "true" | "false") => Ok(()),
        Kind::Toggle => Err(Error::illegal_argument(format!(
            "Failed to parse value [{shown}] as only [true] or [false] are allowed."
        ))),
        Kind::Time if parse_duration(&shown).is_some() => Ok(()),
        Kind::Time => Err(Error::no_duration(name, &shown)),
        Kind::Choice(words) if words.contains(&shown.as_str()) => Ok(()),
        Kind::Choice(words) => {
            failed(format!(": another value than [{}] is not supported", words.join(", ")))
        }
    }
}

fn unknown(name: &str) -> Error {
    let nearest = INDEX_SETTINGS
        .iter()
        .map(|definition| (strsim::jaro_winkler(name, definition.name), definition.name))
        .filter(|(likeness, _)| *likeness > 0.95)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let rest = match nearest {
        Some((_, known)) => format!("did you mean [{known}]?"),
        None => "please check that any required plugins are installed, or check the breaking \
                 changes documentation for removed settings"
            .to_owned(),
    };
    Error::illegal_argument(format!("unknown setting [{name}] {rest}"))
}

/// A setting of an index that is a number; none where it is not set.
#[must_use]
pub fn count(index: &IndexMetadata, name: &str) -> Option<usize> {
    index.settings.get(name).and_then(|value| text(value).parse().ok())
}

/// All settings of an index, those of the node's making too, by their full names; `replicas` are
/// the copies beyond the first that it has where it does not say.
#[must_use]
pub fn all(index: &IndexMetadata, replicas: u32, version: &str) -> Map<String, Value> {
    let mut settings = index.settings.clone();
    let mut say = |name: &str, value: String| {
        settings.insert(name.to_owned(), Value::String(value));
    };
    say("index.number_of_shards", index.partitions.to_string());
    say("index.number_of_replicas", replicas.to_string());
    say("index.uuid", index.uuid.clone());
    say("index.creation_date", index.created_ms.to_string());
    say("index.provided_name", index.name.clone());
    say("index.version.created", version_id(version).to_string());
    for value in settings.values_mut() {
        if !matches!(value, Value::String(_) | Value::Array(_)) {
            *value = Value::String(text(value));
        }
    }
    let mut sorted: Vec<(String, Value)> = settings.into_iter().collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    sorted.into_iter().collect()
}

/// `7.10.2` as `7100299`.
fn version_id(version: &str) -> u64 {
    let mut numbers = version.split('.').map(|part| part.parse::<u64>().unwrap_or(0) % 100);
    let mut next = || numbers.next().unwrap_or(0);
    next() * 1_000_000 + next() * 10_000 + next() * 100 + 99
}

/// Settings as they are answered: nested, or with dots.
#[must_use]
pub fn shown(settings: Map<String, Value>, is_flat: bool) -> Value {
    if is_flat {
        return Value::Object(settings);
    }
    nested(&settings)
}

/// Names with dots as objects in objects. A name that is the beginning of another stays flat.
fn nested(settings: &Map<String, Value>) -> Value {
    let mut root = json!({});
    'settings: for (name, value) in settings {
        let mut place = &mut root;
        let (path, last) = name.rsplit_once('.').unwrap_or(("", name));
        for word in path.split('.').filter(|word| !word.is_empty()) {
            let Value::Object(object) = place else { continue 'settings };
            place = object.entry(word).or_insert_with(|| json!({}));
        }
        if let Value::Object(object) = place {
            object.insert(last.to_owned(), value.clone());
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::http_status::HttpStatus;

    #[test]
    fn settings_are_read_in_every_shape() {
        let body = json!({
            "number_of_shards": 2,
            "index": {"refresh_interval": "5s", "blocks.write": true},
            "index.analysis.filter.s.stopwords": ["a", 1],
            "number_of_replicas": null,
        });
        let settings = parse(&body, Occasion::Creation).unwrap();
        assert_eq!(
            Value::Object(settings.clone()),
            json!({
                "index.number_of_shards": "2",
                "index.refresh_interval": "5s",
                "index.blocks.write": "true",
                "index.analysis.filter.s.stopwords": ["a", "1"],
                "index.number_of_replicas": null,
            })
        );
        assert_eq!(shown(settings, false)["index"]["blocks"]["write"], "true");
        assert_eq!(version_id("7.10.2"), 7_100_299);
    }

    #[test]
    fn what_does_nothing_here_is_taken_as_it_is_by_default() {
        for (name, default, other) in [
            ("index.gc_deletes", json!("60s"), json!("61s")),
            ("index.allocation.max_retries", json!(5), json!(0)),
            ("index.search.idle.after", json!("30s"), json!("0")),
            ("index.max_refresh_listeners", json!(1000), json!(0)),
        ] {
            let settings = parse(&json!({ name: default }), Occasion::Creation).unwrap();
            assert_eq!(settings[name], text(&default));
            assert!(parse(&json!({ name: null }), Occasion::Creation).is_ok(), "{name}");
            let refused = parse(&json!({ name: other }), Occasion::Creation).unwrap_err();
            assert_eq!(refused.status(), 400, "{name}");
            assert!(refused.reason.contains(name), "{}", refused.reason);
        }
    }

    #[test]
    fn what_an_index_does_not_take_is_named() {
        for (body, reason) in [
            (
                json!({"bogus": 1}),
                "unknown setting [index.bogus] please check that any required plugins are \
                 installed, or check the breaking changes documentation for removed settings",
            ),
            (
                json!({"number_of_shard": 1}),
                "unknown setting [index.number_of_shard] did you mean [index.number_of_shards]?",
            ),
            (
                json!({"number_of_shards": 0}),
                "Failed to parse value [0] for setting [index.number_of_shards] must be >= 1",
            ),
            (
                json!({"number_of_replicas": "x"}),
                "Failed to parse value [x] for setting [index.number_of_replicas]",
            ),
            (
                json!({"hidden": "no"}),
                "Failed to parse value [no] as only [true] or [false] are allowed.",
            ),
            (
                json!({"gc_deletes": "1h"}),
                "Failed to parse value [1h] for setting [index.gc_deletes]: another value than \
                 [60s] is not supported",
            ),
            (json!({"uuid": "x"}), "private index setting [index.uuid] can not be set explicitly"),
        ] {
            let refused = parse(&body, Occasion::Creation).unwrap_err();
            assert_eq!(refused.reason, reason, "{body}");
        }
    }
}
