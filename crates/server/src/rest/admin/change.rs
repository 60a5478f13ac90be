//! Mappings and settings of indices that are there, changed.

use plimsoll_cluster::default_expiry::{self, DEFAULT_TTL};
use plimsoll_cluster::is_database;
use plimsoll_index::Error;
use serde_json::{Value, json};

use super::mappings::untyped;
use super::settings::{self, Occasion};
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::expressions::{self, Expand};

/// PUT `/{index}/_mapping`.
///
/// # Errors
/// 400 where a field cannot be or cannot change, 404 where an index is not there.
pub async fn mapping(mut call: Call) -> Result<Answer, Error> {
    if let Some(kind) = call.part("type").filter(|kind| *kind != "_doc") {
        return Err(Error::illegal_argument(format!(
            "mapping type [{kind}] is not supported: there are no types"
        )));
    }
    let body = call.json_required().await?;
    let mapping = untyped(&body)?;
    let options = Expand { allow_no_indices: false, ..Expand::any() }.with_query(&call.query)?;
    let found =
        expressions::resolve(call.coordinator(), &call.grant, call.part("index"), &options)?;
    // Checked for all before it is changed for one.
    for target in &found {
        target.index.mapping.merge(mapping)?;
    }
    for target in found {
        call.coordinator().documents().put_mapping(&target.index.name, mapping).await?;
    }
    Ok(Answer::acknowledged())
}

/// PUT `[/{index}]/_settings`.
///
/// # Errors
/// 400 where a setting cannot be or cannot change, 404 where an index is not there.
pub async fn settings(mut call: Call) -> Result<Answer, Error> {
    let body = call.json_required().await?;
    // The settings may stand under `settings`, as in the body of an index.
    let body = match body.as_object() {
        Some(object) if object.len() == 1 && object.contains_key("settings") => &body["settings"],
        _ => &body,
    };
    if let Some(name) = rows_alone(&call) {
        return database_settings(&call, name, body).await;
    }
    let options = Expand { allow_no_indices: false, ..Expand::any() }.with_query(&call.query)?;
    let found =
        expressions::resolve(call.coordinator(), &call.grant, call.part("index"), &options)?;
    let keeps = call.query.flag_or("preserve_existing", false)?;
    let mut changes = Vec::new();
    for target in &found {
        let mut change = settings::parse(body, Occasion::Change(&target.index))?;
        if keeps {
            change.retain(|name, _| !target.index.settings.contains_key(name));
        }
        changes.push((target.index.name.clone(), change));
    }
    for (name, change) in changes {
        if !change.is_empty() {
            call.coordinator().documents().put_index_settings(&name, change).await?;
        }
    }
    Ok(Answer::json(&json!({ "acknowledged": true })))
}

/// The database that a path names and that is no index.
pub(super) fn rows_alone(call: &Call) -> Option<&str> {
    let name = call.part("index").filter(|name| is_database(name))?;
    call.coordinator().documents().index(name).is_none().then_some(name)
}

/// The default expiry of a database that is no index, ms.
pub(super) fn default_expiry_of(call: &Call, name: &str) -> Result<Option<u64>, Error> {
    let found = call.coordinator().default_expiry_of(name);
    found.map_err(|error| Error::internal(error.to_string()))
}

/// The one setting of a database that is no index.
async fn database_settings(call: &Call, name: &str, body: &Value) -> Result<Answer, Error> {
    let settings = settings::parse(body, Occasion::Creation)?;
    if let Some(other) = settings.keys().find(|key| *key != DEFAULT_TTL) {
        return Err(Error::illegal_argument(format!(
            "[{name}] is a database of rows alone, which has no setting [{other}] but [{DEFAULT_TTL}]: \
             PUT /{name} makes it an index as well"
        )));
    }
    let keeps = call.query.flag_or("preserve_existing", false)?;
    let is_kept = keeps && default_expiry_of(call, name)?.is_some();
    if let Some(setting) = settings.get(DEFAULT_TTL).filter(|_| !is_kept) {
        let after_ms = default_expiry::parse(setting)?;
        call.coordinator().set_default_expiry(name, after_ms).await?;
    }
    Ok(Answer::acknowledged())
}
