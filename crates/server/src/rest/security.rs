//! Keys of followers: `POST /_security/cross_cluster/api_key`, and `GET` and `DELETE` of
//! `/_security/api_key`, in Elasticsearch's shapes. What a key is and where it is kept is
//! `remote::keys`; no key of any kind opens REST.

use std::time::Duration;

use plimsoll_index::Error;
use plimsoll_stdx::wildcard_matches;
use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::call::Call;
use super::documents::write::validation;
use super::query::parse_duration;
use super::route::{Route, Verb, route};
use crate::auth::USER;
use crate::node::unix_time;
use crate::remote::keys::{DRAWN_BYTES, Key, KeySpec, KeysError, Which};

/// The most ids that one request takes back.
const IDS_MAX: usize = 1000;

/// The routes of this module.
pub const ROUTES: &[Route] = &[
    route(&[Verb::Post], "/_security/cross_cluster/api_key", &[], |call| Box::pin(create(call))),
    route(&[Verb::Get], "/_security/api_key", &[&["id", "name", "active_only"]], |call| {
        Box::pin(get(call))
    }),
    route(&[Verb::Delete], "/_security/api_key", &[], |call| Box::pin(invalidate(call))),
];

fn now_ms() -> u64 {
    u64::try_from(unix_time().as_millis()).unwrap_or(u64::MAX)
}

/// POST `/_security/cross_cluster/api_key`.
///
/// # Errors
/// 400 where what is asked for makes no sense or is not supported.
async fn create(mut call: Call) -> Result<Answer, Error> {
    let spec = spec(call.json_required().await?)?;
    let mut drawn = [0; DRAWN_BYTES];
    getrandom::fill(&mut drawn).map_err(|error| Error::internal(error.to_string()))?;
    let made = call.rest.remote.keys.make(spec, &drawn, now_ms()).await;
    let (key, credential) = made.map_err(|error| match error {
        KeysError::Faults(faults) => {
            validation(&faults.iter().map(String::as_str).collect::<Vec<_>>())
        }
        KeysError::TooMany => Error::illegal_argument(
            "there are 1000 keys: those that were invalidated or expired go after a week",
        ),
        KeysError::Failed(error) => error,
    })?;
    let mut answer = json!({ "id": key.id, "name": key.name });
    if let Some(expires_ms) = key.expires_ms {
        answer["expiration"] = json!(expires_ms);
    }
    answer["api_key"] = json!(credential.secret());
    answer["encoded"] = json!(credential.encode());
    Ok(Answer::json(&answer))
}

/// GET `/_security/api_key`.
///
/// # Errors
/// 400 where both an id and a name are given; 404 where there is no key of the id.
async fn get(call: Call) -> Result<Answer, Error> {
    let [id, name] = ["id", "name"].map(|it| call.query.get(it).filter(|text| !text.is_empty()));
    if id.is_some() && name.is_some() {
        return Err(validation(&["only one of [api key id, api key name] can be specified"]));
    }
    let is_active_only = call.query.flag_or("active_only", false)?;
    let now_ms = now_ms();
    let is_meant = |key: &Key| {
        id.is_none_or(|id| key.id == id)
            && name.is_none_or(|name| wildcard_matches(name, &key.name))
            && !(is_active_only && (key.invalidated_ms.is_some() || key.is_expired(now_ms)))
    };
    let keys: Vec<Value> =
        call.rest.remote.keys.all().iter().filter(|key| is_meant(key)).map(shown).collect();
    let status = if keys.is_empty() && id.is_some() { 404 } else { 200 };
    Ok(Answer::json(&json!({ "api_keys": keys })).with_status(status))
}

/// DELETE `/_security/api_key`.
///
/// # Errors
/// 400 where it is not said which.
async fn invalidate(mut call: Call) -> Result<Answer, Error> {
    let which = which(call.json_required().await?)?;
    let done = call.rest.remote.keys.invalidate(&which, now_ms()).await;
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
        "type": "cross_cluster",
        "creation": key.created_ms,
    });
    if let Some(expires_ms) = key.expires_ms {
        shown["expiration"] = json!(expires_ms);
    }
    shown["invalidated"] = json!(key.invalidated_ms.is_some());
    if let Some(invalidated_ms) = key.invalidated_ms {
        shown["invalidation"] = json!(invalidated_ms);
    }
    shown["username"] = json!(USER);
    shown["realm"] = json!("plimsoll");
    shown["metadata"] = json!(key.metadata);
    shown["access"] = json!({ "replication": names });
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

/// The body of a creation.
fn spec(body: Value) -> Result<KeySpec, Error> {
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
    Ok(Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
}

/// The body of a deletion.
fn which(body: Value) -> Result<Which, Error> {
    const WHOLE: &str = "invalidate_api_key_request";
    let (mut ids, mut name) = (Vec::new(), None);
    for (field, value) in object(body, WHOLE, "body")? {
        match field.as_str() {
            "ids" => ids.extend(texts(value, WHOLE, &field)?),
            "id" => ids.push(text(value, WHOLE, &field)?),
            "name" => name = Some(text(value, WHOLE, &field)?),
            "owner" if value == json!(false) => {}
            "owner" | "realm_name" | "username" => {
                return Err(Error::illegal_argument(format!(
                    "[{field}] is not supported: there is one user, say [ids] or [name]"
                )));
            }
            _ => return Err(unknown(WHOLE, &field)),
        }
    }
    if ids.len() > IDS_MAX || ids.iter().any(String::is_empty) {
        return Err(validation(&["Field [ids] has 1 to 1000 items, none of them blank"]));
    }
    match (ids.is_empty(), name) {
        (false, None) => Ok(Which::Ids(ids)),
        (true, Some(name)) if !name.is_empty() => Ok(Which::Name(name)),
        (false, Some(_)) => {
            Err(validation(&["only one of [api key id(s), api key name] can be specified"]))
        }
        (true, _) => Err(validation(&[
            "One of [api key id(s), api key name, username, realm name] must be specified if \
             [owner] flag is false",
        ])),
    }
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
        let spec = spec(body).unwrap();
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
            (json!({ "access": { "replication": [{ "names": ["x"], "query": {} }] } }), "[query]"),
            (json!([]), "expected an object"),
        ] {
            let error = super::spec(body).unwrap_err();
            assert!(error.status() == 400 && error.reason.contains(why), "{why}: {error}");
        }
    }

    #[test]
    fn a_deletion_says_which() {
        assert_eq!(
            which(json!({ "ids": ["a", "b"] })),
            Ok(Which::Ids(vec!["a".into(), "b".into()]))
        );
        assert_eq!(which(json!({ "id": "a", "owner": false })), Ok(Which::Ids(vec!["a".into()])));
        assert_eq!(which(json!({ "name": "x" })), Ok(Which::Name("x".into())));
        for body in [
            json!({}),
            json!({ "ids": [] }),
            json!({ "ids": [""] }),
            json!({ "ids": ["a"], "name": "x" }),
            json!({ "owner": true }),
            json!({ "username": "elastic" }),
            json!({ "bogus": 1 }),
        ] {
            assert_eq!(which(body.clone()).unwrap_err().status(), 400, "{body}");
        }
    }
}
