//! `_security/user`: users made, shown, changed and taken away.

use plimsoll_index::Error;
use plimsoll_stdx::wildcard_matches;
use serde_json::{Map, Value, json};

use super::{changing, failed};
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::security::principal::Via;
use crate::security::user::{DEFAULT, ELASTIC, User, UserSpec};

/// A user without what opens it.
pub(super) fn shown(user: &User) -> Value {
    let mut metadata = user.metadata.clone();
    if user.name == DEFAULT {
        metadata.insert("_reserved".to_owned(), json!(true));
    }
    if let Some(rules) = &user.acl {
        // What it may do, whatever its roles say.
        metadata.insert("_redis_acl".to_owned(), json!(rules));
    }
    json!({
        "username": shown_name(&user.name),
        "roles": user.roles,
        "full_name": user.full_name,
        "email": user.email,
        "metadata": metadata,
        "enabled": user.enabled,
    })
}

/// The user that is there from the start has the name that clients of REST know it by.
fn shown_name(name: &str) -> &str {
    if name == DEFAULT { ELASTIC } else { name }
}

/// GET `/_security/user[/{name}]`: all, or those that are named.
///
/// # Errors
/// None of its own; 404, as an answer, where none of those that are named is there.
pub async fn get(call: Call) -> Result<Answer, Error> {
    let names: Option<Vec<&str>> = call.part("name").map(|names| names.split(',').collect());
    let directory = call.rest.node.security.directory();
    let is_meant = |user: &&User| {
        let is_it =
            |name: &&str| *name == user.name || wildcard_matches(name, shown_name(&user.name));
        names.as_ref().is_none_or(|names| names.iter().any(is_it))
    };
    let found: Map<String, Value> = directory
        .users()
        .filter(is_meant)
        .map(|user| (shown_name(&user.name).to_owned(), shown(user)))
        .collect();
    let status = if found.is_empty() && names.is_some() { 404 } else { 200 };
    Ok(Answer::json(&found).with_status(status))
}

/// PUT or POST `/_security/user/{name}`.
///
/// # Errors
/// 400 where the body is none of a user, or nobody would be left who may change users.
pub async fn put(mut call: Call) -> Result<Answer, Error> {
    let body = object(call.json_required().await?)?;
    let name = call.part("name").unwrap_or_default();
    if body.get("username").is_some_and(|it| it != name) {
        return Err(Error::illegal_argument("[username] is not that of the path"));
    }
    let spec = UserSpec::parse(&body).map_err(Error::illegal_argument)?;
    let created = changing(&call).put_user(name, spec).await;
    let created = created.map_err(|error| failed(&call, error))?;
    Ok(Answer::json(&json!({ "created": created })))
}

/// DELETE `/_security/user/{name}`.
///
/// # Errors
/// 400 where nobody would be left who may change users; 404, as an answer, where there is no such user.
pub async fn delete(call: Call) -> Result<Answer, Error> {
    let name = call.part("name").unwrap_or_default();
    let found = changing(&call).delete_user(name).await;
    let found = found.map_err(|error| failed(&call, error))?;
    Ok(Answer::json(&json!({ "found": found })).with_status(if found { 200 } else { 404 }))
}

/// PUT or POST `/_security/user/{name}/_password`.
///
/// # Errors
/// 400 where the password is none, or there is no such user.
pub async fn password(mut call: Call) -> Result<Answer, Error> {
    let name = call.part("name").unwrap_or_default().to_owned();
    change_password(&mut call, &name).await
}

/// PUT or POST `/_security/user/_password`: of whoever asks.
///
/// # Errors
/// 400 where the password is none, or who asks came by a key.
pub async fn own_password(mut call: Call) -> Result<Answer, Error> {
    match call.principal.via {
        Via::ApiKey(..) => return Err(Error::illegal_argument("an API key has no password")),
        Via::Anonymous if !call.principal.may_all => {
            return Err(Error::illegal_argument("whoever did not log in has no password"));
        }
        _ => {}
    }
    let name = call.principal.name.clone();
    change_password(&mut call, &name).await
}

async fn change_password(call: &mut Call, name: &str) -> Result<Answer, Error> {
    let body = object(call.json_required().await?)?;
    let text = |field: &str| body.get(field).and_then(Value::as_str).map(str::to_owned);
    let (password, hash) = (text("password"), text("password_hash"));
    if let Some(other) =
        body.keys().find(|key| !["password", "password_hash"].contains(&key.as_str()))
    {
        return Err(Error::illegal_argument(format!("unexpected field [{other}] in a password")));
    }
    let changing = changing(call);
    let is_there = match (password, hash) {
        (Some(password), None) => changing.set_password(name, password).await,
        (None, Some(hash)) => changing.set_hash(name, hash).await,
        _ => return Err(Error::illegal_argument("password is required")),
    };
    if !is_there.map_err(|error| failed(call, error))? {
        return Err(Error::illegal_argument(format!("user [{name}] does not exist")));
    }
    Ok(Answer::json(&json!({})))
}

/// PUT or POST `/_security/user/{name}/_enable` and `/_disable`.
///
/// # Errors
/// 400 where nobody would be left who may change users, or there is no such user.
pub async fn enable(call: Call, enabled: bool) -> Result<Answer, Error> {
    let name = call.part("name").unwrap_or_default();
    let is_there = changing(&call).enable(name, enabled).await;
    if !is_there.map_err(|error| failed(&call, error))? {
        return Err(Error::illegal_argument(format!("user [{name}] does not exist")));
    }
    Ok(Answer::json(&json!({})))
}

/// A body that is an object.
pub(super) fn object(body: Value) -> Result<Map<String, Value>, Error> {
    match body {
        Value::Object(fields) => Ok(fields),
        _ => Err(Error::invalid("parse_exception", "expected an object")),
    }
}
