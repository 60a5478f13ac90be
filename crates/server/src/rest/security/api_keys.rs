//! `_security/api_key` and `_security/cross_cluster/api_key`: keys made, shown and taken back. A key of
//! `api_key` opens REST in the name of whoever made it; one of `cross_cluster` the port for other clusters, and that
//! alone. What a key is and where it is kept is [`crate::security::keys`]'.

use std::time::Duration;

use plimsoll_index::Error;
use plimsoll_stdx::wildcard_matches;
use serde_json::{Map, Value, json};

use super::{changing, failed};
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::documents::write::validation;
use crate::rest::query::parse_duration;
use crate::security::keys::{Key, KeySpec, Owner, Which};
use crate::security::principal::Via;
use crate::security::privileges::ClusterPrivileges;
use crate::security::role::Role;
use crate::security::user::{DEFAULT, kept_name};

/// The most ids that one request takes back.
const IDS_MAX: usize = 1000;
/// The longest time after which a key ends: a hundred years.
const EXPIRATION_MAX: Duration = Duration::from_secs(36_500 * 24 * 3600);
/// The most bytes of a key's roles, in JSON, and of what its user has.
const ROLES_BYTES_MAX: usize = 64 << 10;
/// The most roles that a key is given.
const ROLES_MAX: usize = 100;

/// POST `/_security/cross_cluster/api_key`.
///
/// # Errors
/// 400 where what is asked for makes no sense or is not supported.
pub async fn create_for_follower(mut call: Call) -> Result<Answer, Error> {
    let spec = spec_for_follower(call.json_required().await?)?;
    made(&call, spec).await
}

/// POST or PUT `/_security/api_key`: a key that has no more than whoever makes it has now.
///
/// # Errors
/// 400 where what is asked for makes no sense or is not supported.
pub async fn create(mut call: Call) -> Result<Answer, Error> {
    match call.principal.via {
        Via::ApiKey(..) => {
            return Err(Error::illegal_argument("keys are made by users, and not by other keys"));
        }
        Via::Anonymous if !call.principal.may_all => {
            return Err(Error::illegal_argument("keys are made by users: log in"));
        }
        _ => {}
    }
    let (mut spec, roles) = spec(call.json_required().await?)?;
    let limited_by = changing(&call).descriptors().map_err(|error| failed(&call, error))?;
    spec.owner = Some(Owner {
        user: kept_name(&call.principal.name).to_owned(),
        user_id: call.principal.user_id.clone(),
        roles,
        limited_by,
    });
    let owner = serde_json::to_vec(&spec.owner).map_or(usize::MAX, |json| json.len());
    if owner > ROLES_BYTES_MAX {
        return Err(Error::illegal_argument(format!(
            "the roles of the key and of its user are larger than {ROLES_BYTES_MAX} bytes"
        )));
    }
    made(&call, spec).await
}

async fn made(call: &Call, spec: KeySpec) -> Result<Answer, Error> {
    let made = changing(call).make_key(spec).await;
    let (key, credential) = made.map_err(|error| failed(call, error))?;
    let mut answer = json!({ "id": key.id, "name": key.name });
    if let Some(expires_ms) = key.expires_ms {
        answer["expiration"] = json!(expires_ms);
    }
    answer["api_key"] = json!(credential.secret());
    answer["encoded"] = json!(credential.encode());
    Ok(Answer::json(&answer))
}

/// The user whose keys alone whoever asks may see and take back, and the key where that asks: it owns no other.
struct Own {
    user: String,
    key: Option<String>,
}

impl Own {
    fn of(call: &Call) -> Self {
        let key = match &call.principal.via {
            Via::ApiKey(id, _) => Some(id.clone()),
            _ => None,
        };
        Self { user: kept_name(&call.principal.name).to_owned(), key }
    }

    /// None: everybody's.
    fn alone(call: &Call) -> Option<Self> {
        let is_for_all = call.principal.may_on_cluster(ClusterPrivileges::API_KEYS);
        (!is_for_all).then(|| Self::of(call))
    }

    fn has(&self, key: &Key) -> bool {
        key.is_of(&self.user) && self.key.as_ref().is_none_or(|id| key.id == *id)
    }
}

/// GET `/_security/api_key`.
///
/// # Errors
/// 400 where both an id and a name are given; 404 where there is no key of the id.
pub async fn get(call: Call) -> Result<Answer, Error> {
    let [id, name, user] =
        ["id", "name", "username"].map(|it| call.query.get(it).filter(|text| !text.is_empty()));
    if id.is_some() && name.is_some() {
        return Err(validation(&["only one of [api key id, api key name] can be specified"]));
    }
    let is_active_only = call.query.flag_or("active_only", false)?;
    let own = call.query.flag_or("owner", false)?.then(|| Own::of(&call));
    let own = own.or_else(|| Own::alone(&call));
    let now_ms = call.rest.node.security.keys.now_ms();
    let is_meant = |key: &Key| {
        id.is_none_or(|id| key.id == id)
            && name.is_none_or(|name| wildcard_matches(name, &key.name))
            && user.is_none_or(|user| key.is_of(kept_name(user)))
            && own.as_ref().is_none_or(|own| own.has(key))
            && !(is_active_only && (key.invalidated_ms.is_some() || key.is_expired(now_ms)))
    };
    let keys = call.rest.node.security.keys.all()?;
    let keys: Vec<Value> = keys.iter().filter(|key| is_meant(key)).map(shown).collect();
    let status = if keys.is_empty() && id.is_some() { 404 } else { 200 };
    Ok(Answer::json(&json!({ "api_keys": keys })).with_status(status))
}

/// DELETE `/_security/api_key`.
///
/// # Errors
/// 400 where it is not said which.
pub async fn invalidate(mut call: Call) -> Result<Answer, Error> {
    let (mut which, is_owner) = which(call.json_required().await?)?;
    if is_owner && which.user.is_some() {
        let why = "username must not be set when the [owner] flag is true";
        return Err(validation(&[why]));
    }
    if let Some(own) = is_owner.then(|| Own::of(&call)).or_else(|| Own::alone(&call)) {
        let is_meant = |id: &String| own.key.as_ref().is_none_or(|own| id == own);
        // Others' are as if they were not there.
        if which.user.as_ref().is_some_and(|user| *user != own.user)
            || (!which.ids.is_empty() && !which.ids.iter().any(is_meant))
        {
            which.ids = vec![String::new()];
        } else if let Some(id) = own.key {
            which.ids = vec![id];
        }
        which.user = Some(own.user);
    }
    let done = changing(&call).invalidate(&which).await;
    let done = done.map_err(|error| failed(&call, error))?;
    let mut answer = json!({
        "invalidated_api_keys": done.now,
        "previously_invalidated_api_keys": done.before,
        "error_count": done.failed.len(),
    });
    if !done.failed.is_empty() {
        let failed: Vec<Value> = done.failed.iter().map(Error::cause_json).collect();
        answer["error_details"] = json!(failed);
    }
    Ok(Answer::json(&answer))
}

/// A key without what opens it.
fn shown(key: &Key) -> Value {
    let names = json!([{ "names": key.patterns }]);
    let mut shown = json!({
        "id": key.id,
        "name": key.name,
        "type": if key.owner.is_some() { "rest" } else { "cross_cluster" },
        "creation": key.created_ms,
    });
    if let Some(expires_ms) = key.expires_ms {
        shown["expiration"] = json!(expires_ms);
    }
    shown["invalidated"] = json!(key.invalidated_ms.is_some());
    if let Some(invalidated_ms) = key.invalidated_ms {
        shown["invalidation"] = json!(invalidated_ms);
    }
    shown["username"] = json!(key.owner.as_ref().map_or(DEFAULT, |owner| &owner.user));
    shown["realm"] = json!("plimsoll");
    shown["metadata"] = json!(key.metadata);
    match &key.owner {
        Some(owner) => {
            shown["role_descriptors"] = json!(owner.roles);
            shown["limited_by"] = json!([owner.limited_by]);
        }
        None => shown["access"] = json!({ "replication": names }),
    }
    shown
}

fn unknown(object: &str, field: &str) -> Error {
    let reason = format!("[1:1] [{object}] unknown field [{field}]");
    Error::invalid("x_content_parse_exception", reason)
}

fn wrong(object: &str, field: &str, wanted: &str) -> Error {
    let reason = format!("[1:1] [{object}] failed to parse field [{field}]: expected {wanted}");
    Error::invalid("x_content_parse_exception", reason)
}

fn object(value: Value, whole: &str, field: &str) -> Result<Map<String, Value>, Error> {
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(wrong(whole, field, "an object")),
    }
}

fn text(value: Value, whole: &str, field: &str) -> Result<String, Error> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(wrong(whole, field, "a string")),
    }
}

fn texts(value: Value, whole: &str, field: &str) -> Result<Vec<String>, Error> {
    match value {
        Value::Array(items) => items.into_iter().map(|item| text(item, whole, field)).collect(),
        // Where lists of names are read, one name stands for itself, as in Elasticsearch.
        Value::String(text) => Ok(vec![text]),
        _ => Err(wrong(whole, field, "a list of strings")),
    }
}

/// The body of a creation, and the roles that it asks for.
fn spec(body: Value) -> Result<(KeySpec, Map<String, Value>), Error> {
    const WHOLE: &str = "api_key_request";
    let (mut spec, mut roles) = (KeySpec::default(), Map::new());
    for (field, value) in object(body, WHOLE, "body")? {
        match field.as_str() {
            "name" => spec.name = text(value, WHOLE, &field)?,
            "role_descriptors" | "metadata" | "expiration" if value.is_null() => {}
            "role_descriptors" => roles = object(value, WHOLE, &field)?,
            "metadata" => spec.metadata = object(value, WHOLE, &field)?,
            "expiration" => spec.expires_after_ms = expiration(&text(value, WHOLE, &field)?)?,
            _ => return Err(unknown(WHOLE, &field)),
        }
    }
    if roles.len() > ROLES_MAX {
        return Err(validation(&[&format!("a key has at most {ROLES_MAX} role descriptors")]));
    }
    for role in roles.values() {
        Role::parse(role).map_err(Error::illegal_argument)?;
    }
    Ok((spec, roles))
}

/// The body of a creation for a follower.
fn spec_for_follower(body: Value) -> Result<KeySpec, Error> {
    const WHOLE: &str = "cross_cluster_api_key_request_payload";
    let mut spec = KeySpec::default();
    let mut has_access = false;
    for (field, value) in object(body, WHOLE, "body")? {
        match field.as_str() {
            "name" => spec.name = text(value, WHOLE, &field)?,
            "access" => {
                has_access = true;
                spec.patterns = patterns(object(value, WHOLE, &field)?)?;
            }
            "metadata" if value.is_null() => {}
            "metadata" => spec.metadata = object(value, WHOLE, &field)?,
            "expiration" if value.is_null() => {}
            "expiration" => spec.expires_after_ms = expiration(&text(value, WHOLE, &field)?)?,
            _ => return Err(unknown(WHOLE, &field)),
        }
    }
    if !has_access {
        let reason = format!("Required [access] in [{WHOLE}]");
        return Err(Error::illegal_argument(reason));
    }
    Ok(spec)
}

/// The patterns of `access`. Searches of other clusters are not there, and a key that seemed to allow
/// them would mislead.
fn patterns(access: Map<String, Value>) -> Result<Vec<String>, Error> {
    const WHOLE: &str = "access";
    let mut patterns = Vec::new();
    for (field, value) in access {
        match (field.as_str(), value) {
            ("replication", Value::Array(entries)) => {
                for entry in entries {
                    for (field, value) in object(entry, WHOLE, "replication")? {
                        match field.as_str() {
                            "names" => patterns.extend(texts(value, "replication", "names")?),
                            _ => return Err(unknown("replication", &field)),
                        }
                    }
                }
            }
            ("replication", _) => return Err(wrong(WHOLE, "replication", "a list")),
            ("search", _) => {
                return Err(Error::illegal_argument(
                    "[access.search] is not supported: other clusters are followed, not searched",
                ));
            }
            (other, _) => return Err(unknown(WHOLE, other)),
        }
    }
    Ok(patterns)
}

/// After how long a key ends; `-1` is never.
fn expiration(text: &str) -> Result<Option<u64>, Error> {
    if text == "-1" {
        return Ok(None);
    }
    let time = parse_duration(text).filter(|time| *time > Duration::ZERO);
    let time = time.ok_or_else(|| {
        Error::illegal_argument(format!(
            "failed to parse setting [expiration] with value [{text}] as a time value above zero"
        ))
    })?;
    if time > EXPIRATION_MAX {
        return Err(Error::illegal_argument(format!(
            "[expiration] is [{text}]: a key that ends does so within 36500d"
        )));
    }
    Ok(Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
}

/// The body of a deletion: which, and whether those of whoever asks alone.
fn which(body: Value) -> Result<(Which, bool), Error> {
    const WHOLE: &str = "invalidate_api_key_request";
    let (mut which, mut is_owner) = (Which::default(), false);
    for (field, value) in object(body, WHOLE, "body")? {
        match field.as_str() {
            "ids" => which.ids.extend(texts(value, WHOLE, &field)?),
            "id" => which.ids.push(text(value, WHOLE, &field)?),
            "name" => which.name = Some(text(value, WHOLE, &field)?),
            "username" => which.user = Some(kept_name(&text(value, WHOLE, &field)?).to_owned()),
            "owner" => {
                let owner = value.as_bool();
                is_owner = owner.ok_or_else(|| wrong(WHOLE, &field, "true or false"))?;
            }
            "realm_name" => {
                return Err(Error::illegal_argument(
                    "[realm_name] is not supported: say [username]",
                ));
            }
            _ => return Err(unknown(WHOLE, &field)),
        }
    }
    if which.ids.len() > IDS_MAX || which.ids.iter().any(String::is_empty) {
        return Err(validation(&["Field [ids] has 1 to 1000 items, none of them blank"]));
    }
    if !which.ids.is_empty() && which.name.is_some() {
        return Err(validation(&["only one of [api key id(s), api key name] can be specified"]));
    }
    let is_named = which.name.as_ref().is_none_or(|name| !name.is_empty());
    if (which == Which::default() && !is_owner) || !is_named {
        return Err(validation(&[
            "One of [api key id(s), api key name, username, realm name] must be specified if \
             [owner] flag is false",
        ]));
    }
    Ok((which, is_owner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::http_status::HttpStatus;

    #[test]
    fn a_creation_says_what_may_be_followed() {
        let access = json!({ "replication": [{ "names": ["a*", "b"] }, { "names": "c" }] });
        let body = json!({
            "name": "west", "access": access, "metadata": { "team": "x" }, "expiration": "1d",
        });
        let spec = spec_for_follower(body).unwrap();
        assert_eq!(
            (spec.name.as_str(), &spec.patterns[..]),
            ("west", &["a*", "b", "c"].map(String::from)[..])
        );
        assert_eq!(spec.expires_after_ms, Some(24 * 3600 * 1000));
        assert_eq!(spec.metadata["team"], "x");
        let open = json!({ "replication": [{ "names": ["*"] }] });
        for (body, why) in [
            (json!({ "name": "x" }), "Required [access]"),
            (json!({ "name": "x", "access": { "search": [] } }), "[access.search]"),
            (json!({ "name": "x", "access": { "write": [] } }), "unknown field [write]"),
            (json!({ "name": "x", "access": { "replication": {} } }), "expected a list"),
            (json!({ "name": "x", "access": open, "role_descriptors": {} }), "unknown field"),
            (json!({ "name": 7, "access": open }), "expected a string"),
            (json!({ "name": "x", "access": open, "expiration": "soon" }), "[soon]"),
            (json!({ "name": "x", "access": open, "expiration": "0" }), "above zero"),
            (json!({ "name": "x", "access": open, "expiration": "36501d" }), "36500d"),
            (json!({ "access": { "replication": [{ "names": ["x"], "query": {} }] } }), "[query]"),
            (json!([]), "expected an object"),
        ] {
            let error = spec_for_follower(body).unwrap_err();
            assert!(error.status() == 400 && error.reason.contains(why), "{why}: {error}");
        }
    }

    #[test]
    fn a_deletion_says_which() {
        let ids = |ids: &[&str]| Which {
            ids: ids.iter().map(|it| (*it).to_owned()).collect(),
            ..Which::default()
        };
        assert_eq!(which(json!({ "ids": ["a", "b"] })), Ok((ids(&["a", "b"]), false)));
        assert_eq!(which(json!({ "id": "a", "owner": true })), Ok((ids(&["a"]), true)));
        let named = Which { name: Some("x".into()), ..Which::default() };
        assert_eq!(which(json!({ "name": "x" })), Ok((named, false)));
        assert_eq!(which(json!({ "owner": true })), Ok((Which::default(), true)));
        let of_user = Which { user: Some("default".into()), ..Which::default() };
        assert_eq!(which(json!({ "username": "elastic" })), Ok((of_user, false)));
        for body in [
            json!({}),
            json!({ "ids": [] }),
            json!({ "ids": [""] }),
            json!({ "ids": ["a"], "name": "x" }),
            json!({ "owner": 7 }),
            json!({ "name": "" }),
            json!({ "realm_name": "x" }),
            json!({ "bogus": 1 }),
        ] {
            assert_eq!(which(body.clone()).unwrap_err().status(), 400, "{body}");
        }
    }

    #[test]
    fn a_key_of_rest_has_roles_that_are_read() {
        let roles = json!({ "r": { "indices": [{ "names": "a", "privileges": "read" }] } });
        let (spec, found) = spec(json!({ "name": "x", "role_descriptors": roles })).unwrap();
        assert_eq!((spec.name.as_str(), found.len()), ("x", 1));
        for body in [
            json!({ "name": "x", "role_descriptors": [] }),
            json!({ "name": "x", "role_descriptors": { "r": { "cluster": ["fly"] } } }),
            json!({ "name": "x", "access": {} }),
        ] {
            assert_eq!(super::spec(body.clone()).unwrap_err().status(), 400, "{body}");
        }
    }
}
