//! Indices looked at: `GET /{index}`, `_mapping`, `_settings`, `_resolve/index`.

use plimsoll_cluster::IndexMetadata;
use plimsoll_cluster::default_expiry::DEFAULT_TTL;
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::change::{default_expiry_of, rows_alone};
use super::settings;
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::expressions::{self, Expand, Target};
use plimsoll_stdx::wildcard_matches;

/// What settings say where an index does not, as `include_defaults` shows it.
const DEFAULTS: [(&str, &str); 6] = [
    ("index.refresh_interval", "1s"),
    ("index.max_result_window", "10000"),
    ("index.blocks.read_only", "false"),
    ("index.blocks.write", "false"),
    ("index.requests.cache.enable", "true"),
    ("index.mapping.total_fields.limit", "1000"),
];

fn found(call: &Call, strict: bool) -> Result<Vec<Target>, Error> {
    let options = Expand { allow_no_indices: !strict, ..Expand::any() };
    let options = options.with_query(&call.query)?;
    expressions::resolve(call.coordinator(), &call.grant, call.part("index"), &options)
}

/// Answers something for each index.
fn each(found: &[Target], one: impl Fn(&IndexMetadata) -> Value) -> Answer {
    let all: Map<String, Value> =
        found.iter().map(|target| (target.index.name.clone(), one(&target.index))).collect();
    Answer::json(&all)
}

/// GET `/{index}`.
///
/// # Errors
/// 404 where an index that is named is not there.
pub async fn index(call: Call) -> Result<Answer, Error> {
    let found = found(&call, false)?;
    let is_flat = call.query.flag_or("flat_settings", false)?;
    let has_defaults = call.query.flag_or("include_defaults", false)?;
    let version = &call.rest.node.settings.rest_version;
    Ok(each(&found, |index| {
        let replicas = call.coordinator().wanted_replicas(index);
        let all = settings::all(index, replicas, version);
        let mut shown = json!({
            "aliases": index.aliases,
            "mappings": index.mapping.to_json(),
        });
        if has_defaults {
            shown["defaults"] = defaults(&all, is_flat);
        }
        shown["settings"] = settings::shown(all, is_flat);
        shown
    }))
}

/// What is not set, at its default.
fn defaults(set: &Map<String, Value>, is_flat: bool) -> Value {
    let unset = DEFAULTS.iter().filter(|(name, _)| !set.contains_key(*name));
    let defaults = unset.map(|(name, value)| ((*name).to_owned(), json!(value)));
    settings::shown(defaults.collect(), is_flat)
}

/// HEAD `/{index}`.
///
/// # Errors
/// 404 where it is not there.
pub async fn exists(call: Call) -> Result<Answer, Error> {
    let options = Expand { allow_no_indices: false, ..Expand::any() }.with_query(&call.query)?;
    match expressions::resolve(call.coordinator(), &call.grant, call.part("index"), &options) {
        Ok(found) if found.is_empty() => Ok(Answer::empty().with_status(404)),
        Ok(_) => Ok(Answer::empty()),
        Err(error) => Err(error),
    }
}

/// GET `[/{index}]/_mapping`.
///
/// # Errors
/// 404 where an index that is named is not there.
pub async fn mapping(call: Call) -> Result<Answer, Error> {
    let found = found(&call, false)?;
    Ok(each(&found, |index| json!({ "mappings": index.mapping.to_json() })))
}

/// GET `[/{index}]/_mapping/field/{fields}`.
///
/// # Errors
/// 404 where an index that is named is not there.
pub async fn mapping_fields(call: Call) -> Result<Answer, Error> {
    let found = found(&call, false)?;
    let patterns: Vec<&str> = call.part("fields").unwrap_or_default().split(',').collect();
    Ok(each(&found, |index| {
        let mut fields = Map::new();
        for pattern in &patterns {
            for path in index.mapping.paths(pattern) {
                if let Some(field) = index.mapping.field_json(path) {
                    fields.insert(path.to_owned(), field);
                }
            }
        }
        json!({ "mappings": fields })
    }))
}

/// GET `[/{index}]/_settings[/{name}]`.
///
/// # Errors
/// 404 where an index that is named is not there.
pub async fn settings(call: Call) -> Result<Answer, Error> {
    let is_flat = call.query.flag_or("flat_settings", false)?;
    let has_defaults = call.query.flag_or("include_defaults", false)?;
    let patterns: Vec<&str> = match call.part("name") {
        None | Some("_all" | "*") => vec!["*"],
        Some(names) => names.split(',').collect(),
    };
    let is_meant = |name: &str| patterns.iter().any(|pattern| wildcard_matches(pattern, name));
    if let Some(name) = rows_alone(&call)
        && let Some(after_ms) = default_expiry_of(&call, name)?
    {
        let mut all = Map::from_iter([(DEFAULT_TTL.to_owned(), json!(format!("{after_ms}ms")))]);
        all.retain(|name, _| is_meant(name));
        let mut shown = json!({ "settings": settings::shown(all, is_flat) });
        if has_defaults {
            shown["defaults"] = json!({});
        }
        return Ok(Answer::json(&json!({ name: shown })));
    }
    let found = found(&call, false)?;
    let version = &call.rest.node.settings.rest_version;
    Ok(each(&found, |index| {
        let replicas = call.coordinator().wanted_replicas(index);
        let mut all = settings::all(index, replicas, version);
        let mut shown = json!({});
        if has_defaults {
            shown["defaults"] = defaults(&all, is_flat);
        }
        all.retain(|name, _| is_meant(name));
        shown["settings"] = settings::shown(all, is_flat);
        shown
    }))
}

/// GET `/_resolve/index/{name}`.
///
/// # Errors
/// 404 where a name is not there.
pub async fn resolve(call: Call) -> Result<Answer, Error> {
    let expression = call.part("name").unwrap_or_default();
    let options = Expand::open().with_query(&call.query)?;
    let found = expressions::resolve(call.coordinator(), &call.grant, Some(expression), &options)?;
    let parts = expressions::parts(expression)?;
    let mut indices = Vec::new();
    let mut aliases: std::collections::BTreeMap<&str, Vec<&str>> = Default::default();
    for target in &found {
        let index = &target.index;
        if target.aliases.is_empty() {
            let mut attributes = vec![if index.is_open { "open" } else { "closed" }];
            if index.settings.get("index.hidden").and_then(Value::as_str) == Some("true") {
                attributes.push("hidden");
            }
            let mut entry = json!({ "name": index.name, "attributes": attributes });
            if !index.aliases.is_empty() {
                entry["aliases"] = index.aliases.keys().cloned().collect();
            }
            indices.push(entry);
        }
        for alias in index.aliases.keys() {
            if parts.iter().any(|part| wildcard_matches(part, alias)) {
                aliases.entry(alias).or_default().push(&index.name);
            }
        }
    }
    let aliases: Vec<Value> = aliases
        .into_iter()
        .map(|(name, indices)| json!({ "name": name, "indices": indices }))
        .collect();
    Ok(Answer::json(&json!({ "indices": indices, "aliases": aliases, "data_streams": [] })))
}
