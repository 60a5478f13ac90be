//! `_cluster/settings`: changed and shown while the cluster runs. Values are kept as text, under
//! full names, one object for those that stay and one for those that do not outlive a full
//! restart in Elasticsearch; here both stay until they are taken back.

use plimsoll_cluster::{WorkSettings, check_cluster_setting};
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::settings_table::{Kind, SETTINGS, find};
use crate::remote::clusters::settings as remote;
use crate::rest::admin::settings::shown;
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::query::parse_duration;
use plimsoll_stdx::units;
use plimsoll_stdx::wildcard_matches;

/// Both kinds, in the order in which they are looked at last to first.
const KINDS: [&str; 2] = ["persistent", "transient"];
/// The most settings that a request may change.
const CHANGES_MAX: usize = 1000;
/// The longest value, in bytes.
const VALUE_BYTES_MAX: usize = 1 << 14;

fn stored(call: &Call, kind: &str) -> Map<String, Value> {
    match call.coordinator().stored("settings", kind) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

/// GET `/_cluster/settings`.
///
/// # Errors
/// None of its own.
pub async fn get(call: Call) -> Result<Answer, Error> {
    let is_flat = call.query.flag_or("flat_settings", false)?;
    let mut answer = Map::new();
    let mut set: Vec<String> = Vec::new();
    for kind in KINDS {
        let settings = stored(&call, kind);
        set.extend(settings.keys().cloned());
        answer.insert(kind.to_owned(), shown(settings, is_flat));
    }
    if call.query.flag_or("include_defaults", false)? {
        let unset = SETTINGS
            .iter()
            .filter(|(name, ..)| !name.ends_with('*') && !set.iter().any(|known| known == name));
        let defaults = unset.map(|(name, _, value)| ((*name).to_owned(), json!(value)));
        answer.insert("defaults".to_owned(), shown(defaults.collect(), is_flat));
    }
    Ok(Answer::json(&answer))
}

/// PUT `/_cluster/settings`. Everything is checked before anything is changed.
///
/// # Errors
/// 400 for a setting that is not there or a value that it does not take.
pub async fn put(mut call: Call) -> Result<Answer, Error> {
    let is_flat = call.query.flag_or("flat_settings", false)?;
    let body = call.json_required().await?;
    let Some(body) = body.as_object() else {
        return Err(Error::parsing("Expected [START_OBJECT]"));
    };
    if let Some(other) = body.keys().find(|key| !KINDS.contains(&key.as_str())) {
        return Err(Error::invalid(
            "x_content_parse_exception",
            format!("[cluster_update_settings_request] unknown field [{other}]"),
        ));
    }
    let mut changes = Vec::new();
    for kind in KINDS {
        let given = body.get(kind).and_then(Value::as_object);
        changes.push((kind, checked(kind, given)?));
    }
    if changes.iter().all(|(_, changes)| changes.is_empty()) {
        let reason = "Validation Failed: 1: no settings to update;";
        return Err(Error::invalid("action_request_validation_exception", reason));
    }
    let changes = changes.into_iter().map(|(kind, changes)| Change::new(&call, kind, changes));
    let changes: Vec<Change> = changes.collect();
    check_remote(&changes)?;
    let mut answer = json!({ "acknowledged": true });
    for Change { kind, settings, updated, is_one } in changes {
        if is_one {
            let value = (!settings.is_empty()).then_some(Value::Object(settings));
            call.coordinator().store("settings", kind, value).await?;
        }
        answer[kind] = shown(updated, is_flat);
    }
    Ok(Answer::json(&answer))
}

/// What becomes of the settings of one kind.
struct Change {
    kind: &'static str,
    /// All of them, as they will be.
    settings: Map<String, Value>,
    /// Those that were given a value.
    updated: Map<String, Value>,
    /// Whether anything is changed.
    is_one: bool,
}

impl Change {
    fn new(call: &Call, kind: &'static str, changes: Map<String, Value>) -> Self {
        let mut settings = stored(call, kind);
        let mut updated = Map::new();
        let is_one = !changes.is_empty();
        for (name, value) in changes {
            if value.is_null() {
                settings.retain(|known, _| !wildcard_matches(&name, known));
            } else {
                settings.insert(name.clone(), value.clone());
                updated.insert(name, value);
            }
        }
        Self { kind, settings, updated, is_one }
    }
}

/// Settings of remote clusters have to go together, those of both kinds.
fn check_remote(changes: &[Change]) -> Result<(), Error> {
    let all = changes.iter().flat_map(|change| &change.settings);
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let all = all.map(|(name, value)| (name.clone(), text(value))).collect();
    remote::check_together(&all).map_err(Error::illegal_argument)
}

/// Full names with checked values; null where a setting goes back to its default.
fn checked(kind: &str, given: Option<&Map<String, Value>>) -> Result<Map<String, Value>, Error> {
    let mut flat = Map::new();
    if let Some(given) = given {
        flatten("", given, &mut flat)?;
    }
    for (name, value) in &flat {
        let Some((_, values, _)) = find(name) else {
            // Patterns take settings back, and so does the name of one that was known once.
            if value.is_null() {
                continue;
            }
            return Err(Error::illegal_argument(format!(
                "{kind} setting [{name}], not recognized"
            )));
        };
        if let Some(text) = value.as_str() {
            check(name, *values, text)?;
        }
    }
    Ok(flat)
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
            Value::Null => Value::Null,
            Value::String(text) => Value::String(text.clone()),
            Value::Array(items) => {
                let texts: Vec<String> = items
                    .iter()
                    .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned))
                    .collect();
                Value::String(texts.join(","))
            }
            other => Value::String(other.to_string()),
        };
        if flat.len() >= CHANGES_MAX || value.as_str().is_some_and(|it| it.len() > VALUE_BYTES_MAX)
        {
            return Err(Error::illegal_argument("too many settings, or too long a value"));
        }
        flat.insert(name, value);
    }
    Ok(())
}

fn check(name: &str, kind: Kind, text: &str) -> Result<(), Error> {
    let failed = |why: &str| {
        Err(Error::illegal_argument(format!(
            "Failed to parse value [{text}] for setting [{name}]{why}"
        )))
    };
    match kind {
        Kind::Text => Ok(()),
        Kind::Word(words) if words.contains(&text) => Ok(()),
        Kind::Word(words) => failed(&format!(" must be one of [{}]", words.join(", "))),
        Kind::Work => match WorkSettings::default().set(name, text) {
            Ok(()) => Ok(()),
            Err(why) => failed(&format!(": {why}")),
        },
        Kind::Cluster => match check_cluster_setting(name, text) {
            Ok(()) => Ok(()),
            Err(why) => failed(&format!(": {why}")),
        },
        Kind::Remote => match remote::check(name, text) {
            Ok(()) => Ok(()),
            Err(why) => failed(&format!(": {why}")),
        },
        Kind::Toggle if matches!(text, "true" | "false") => Ok(()),
        Kind::Toggle => Err(Error::illegal_argument(format!(
            "Failed to parse value [{text}] as only [true] or [false] are allowed."
        ))),
        Kind::Count(least) => match text.parse::<i64>() {
            Ok(count) if count >= least => Ok(()),
            Ok(_) => failed(&format!(" must be >= {least}")),
            Err(_) => failed(""),
        },
        Kind::Factor => match text.parse::<f64>() {
            Ok(factor) if factor >= 0.0 => Ok(()),
            _ => failed(" must be >= 0"),
        },
        Kind::Time if parse_duration(text).is_some() => Ok(()),
        Kind::Time => failed(" as a time value: unit is missing or unrecognized"),
        Kind::Amount => {
            let percent = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
            let is_good = match percent {
                Some(percent) => (0.0..=100.0).contains(&percent),
                None => text == "-1" || units::bytes(text).is_ok(),
            };
            if is_good { Ok(()) } else { failed(" as a size in bytes or percent") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: Value) -> Result<Value, String> {
        let found = checked("transient", body.as_object());
        found.map(Value::Object).map_err(|error| error.reason)
    }

    #[test]
    fn settings_are_flat_and_known() {
        assert_eq!(
            check(json!({ "cluster": { "default_number_of_replicas": 2 }, "action": null })),
            Ok(json!({ "cluster.default_number_of_replicas": "2", "action": null }))
        );
        assert_eq!(
            check(json!({ "bogus.x": 1 })),
            Err("transient setting [bogus.x], not recognized".to_owned())
        );
        assert!(check(json!({ "cluster.*": null })).is_ok());
        assert!(check(json!({ "cluster.*": 1 })).is_err());
        for (name, good, bad) in [
            ("action.destructive_requires_name", "true", "maybe"),
            ("cluster.default_number_of_replicas", "1", "-1"),
            ("indices.breaker.total.limit", "85%", "185%"),
            ("search.default_keep_alive", "5m", "6m"),
            ("cluster.routing.allocation.enable", "all", "none"),
            ("cluster.routing.replica_selection", "c3", "c4"),
            ("cluster.routing.hedging", "shadow", "true"),
            ("thread_pool.search.target_response_time", "4s", "4"),
            ("thread_pool.search.size", "3", "-1"),
        ] {
            assert!(check(json!({ name: good })).is_ok(), "{name}");
            assert!(check(json!({ name: bad })).is_err(), "{name}");
        }
    }

    #[test]
    fn all_settings_of_the_controllers_are_known_by_their_defaults() {
        for name in plimsoll_cluster::WORK_SETTINGS {
            let (_, _, value) = find(name).unwrap();
            let mut work = WorkSettings::default();
            work.set(name, value).unwrap();
            assert_eq!(work, WorkSettings::default(), "{name}");
            let at_start = crate::settings::table::find(name).unwrap();
            assert_eq!(at_start.default, *value, "{name}");
            // What is taken at the start is what the controllers know.
            if let crate::settings::table::Kind::Choice(words) = at_start.kind {
                for word in words {
                    work.set(name, word).unwrap();
                }
            }
        }
    }

    #[test]
    fn names_stand_in_order() {
        assert!(SETTINGS.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
