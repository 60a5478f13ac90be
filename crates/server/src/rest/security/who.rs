//! `_security/_authenticate` and `_has_privileges`: who asks, and what it may do.

use std::sync::Arc;

use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::users::{object, shown};
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::security::principal::{Principal, Via};
use crate::security::privileges::{ClusterPrivileges, IndexPrivileges};
use crate::security::role;
use crate::security::user::User;

/// The most names that one question has.
const NAMES_MAX: usize = 1000;
/// The most privileges on names that one question has.
const QUESTIONS_MAX: usize = 10_000;

/// GET `/_security/_authenticate`.
///
/// # Errors
/// None of its own.
pub async fn authenticate(call: Call) -> Result<Answer, Error> {
    let principal = &call.principal;
    let directory = call.rest.node.security.directory();
    let user = directory.user(&principal.name).cloned();
    let mut answer = shown(&user.unwrap_or_else(|| User::new(&principal.name)));
    let (realm, kind, way) = match &principal.via {
        Via::Anonymous => ("__anonymous", "__anonymous", "anonymous"),
        Via::Settings(_) => ("reserved", "reserved", "realm"),
        Via::Password(_) => ("default_native", "native", "realm"),
        Via::ApiKey(..) => ("_es_api_key", "_es_api_key", "api_key"),
    };
    answer["roles"] = json!(principal.roles);
    let realm = json!({ "name": realm, "type": kind });
    answer["authentication_realm"] = realm.clone();
    answer["lookup_realm"] = realm;
    answer["authentication_type"] = json!(way);
    if let Via::ApiKey(id, name) = &principal.via {
        answer["api_key"] = json!({ "id": id, "name": name });
    }
    Ok(Answer::json(&answer))
}

/// GET or POST `/_security/user/_has_privileges`: of whoever asks.
///
/// # Errors
/// 400 where the body asks for what there is not.
pub async fn has_privileges(mut call: Call) -> Result<Answer, Error> {
    let body = object(call.json_required().await?)?;
    answer(&call.principal, &body)
}

/// GET or POST `/_security/user/{name}/_has_privileges`.
///
/// # Errors
/// 404 where there is no such user, or it may not log in; else as [`has_privileges`].
pub async fn has_privileges_of(mut call: Call) -> Result<Answer, Error> {
    let body = object(call.json_required().await?)?;
    let name = call.part("name").unwrap_or_default();
    let directory = call.rest.node.security.directory();
    let principal: Option<&Arc<Principal>> = directory.named(name);
    let missing =
        || Error::not_found("resource_not_found_exception", format!("no user [{name}] may log in"));
    answer(principal.ok_or_else(missing)?, &body)
}

fn answer(principal: &Principal, body: &Map<String, Value>) -> Result<Answer, Error> {
    let mut has_all = true;
    let mut judged = |has: bool| {
        has_all &= has;
        json!(has)
    };
    let (mut cluster, mut indices) = (Map::new(), Map::new());
    for (field, value) in body {
        match field.as_str() {
            "cluster" => {
                for name in texts(value, "cluster")? {
                    let wanted =
                        ClusterPrivileges::named(&name).map_err(Error::illegal_argument)?;
                    cluster.insert(name, judged(principal.may_on_cluster(wanted)));
                }
            }
            "index" => {
                let entries = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let asked = |entry: &Value| {
                    let many = |field: &str| entry[field].as_array().map_or(1, Vec::len);
                    many("names") * many("privileges")
                };
                if entries.iter().map(asked).sum::<usize>() > QUESTIONS_MAX {
                    return Err(Error::illegal_argument(format!(
                        "[index] asks for more than {QUESTIONS_MAX} privileges"
                    )));
                }
                for entry in entries {
                    let names = texts(&entry["names"], "names")?;
                    let privileges = texts(&entry["privileges"], "privileges")?;
                    for name in names {
                        let of_name = indices.entry(name.clone()).or_insert_with(|| json!({}));
                        let has = match name.contains(['*', '?']) {
                            true => principal.rights.on_pattern(&name),
                            false => principal.rights.on_index(&name),
                        };
                        for privilege in &privileges {
                            let wanted = IndexPrivileges::named(privilege);
                            let wanted = wanted.map_err(Error::illegal_argument)?;
                            of_name[privilege] = judged(has.has(wanted));
                        }
                    }
                }
            }
            "application" if value.as_array().is_some_and(Vec::is_empty) => {}
            other => {
                return Err(Error::illegal_argument(format!("[{other}] is not supported")));
            }
        }
    }
    Ok(Answer::json(&json!({
        "username": principal.name,
        "has_all_requested": has_all,
        "cluster": cluster,
        "index": indices,
        "application": {},
    })))
}

fn texts(value: &Value, field: &str) -> Result<Vec<String>, Error> {
    let list = role::texts(value, field).ok();
    let list = list.filter(|list| list.len() <= NAMES_MAX);
    list.ok_or_else(|| {
        Error::illegal_argument(format!("[{field}] is a list of at most {NAMES_MAX} strings"))
    })
}

/// GET `/_security/privilege/_builtin`: the names that privileges have.
///
/// # Errors
/// None of its own.
pub async fn builtin(_call: Call) -> Result<Answer, Error> {
    Ok(Answer::json(&json!({
        "cluster": ClusterPrivileges::all_names(),
        "index": IndexPrivileges::all_names(),
    })))
}
