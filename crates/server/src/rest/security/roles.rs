//! `_security/role`: roles made, shown and taken away.

use plimsoll_index::Error;
use plimsoll_stdx::wildcard_matches;
use serde_json::{Map, Value, json};

use super::{changing, failed};
use crate::rest::answer::Answer;
use crate::rest::call::Call;

/// GET `/_security/role[/{name}]`: all, or those that are named.
///
/// # Errors
/// None of its own; 404, as an answer, where none of those that are named is there.
pub async fn get(call: Call) -> Result<Answer, Error> {
    let names: Option<Vec<&str>> = call.part("name").map(|names| names.split(',').collect());
    let directory = call.rest.node.security.directory();
    let is_meant = |name: &str| {
        names.as_ref().is_none_or(|names| names.iter().any(|it| wildcard_matches(it, name)))
    };
    let found: Map<String, Value> = directory
        .roles()
        .filter(|(name, _)| is_meant(name))
        .map(|(name, role)| (name.clone(), role.to_json()))
        .collect();
    let status = if found.is_empty() && names.is_some() { 404 } else { 200 };
    Ok(Answer::json(&found).with_status(status))
}

/// PUT or POST `/_security/role/{name}`.
///
/// # Errors
/// 400 where the body is none of a role, or nobody would be left who may change users.
pub async fn put(mut call: Call) -> Result<Answer, Error> {
    let body = call.json_required().await?;
    let name = call.part("name").unwrap_or_default();
    let created = changing(&call).put_role(name, &body).await;
    let created = created.map_err(|error| failed(&call, error))?;
    Ok(Answer::json(&json!({ "role": { "created": created } })))
}

/// DELETE `/_security/role/{name}`.
///
/// # Errors
/// 400 where nobody would be left who may change users; 404, as an answer, where there is no such role.
pub async fn delete(call: Call) -> Result<Answer, Error> {
    let name = call.part("name").unwrap_or_default();
    let found = changing(&call).delete_role(name).await;
    let found = found.map_err(|error| failed(&call, error))?;
    Ok(Answer::json(&json!({ "found": found })).with_status(if found { 200 } else { 404 }))
}
