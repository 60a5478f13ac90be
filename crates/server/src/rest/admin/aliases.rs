//! Other names of indices: `_alias`, `_aliases`.

use std::collections::BTreeMap;

use plimsoll_cluster::{AliasAction, IndexMetadata};
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::documents::write::validation;
use crate::rest::expressions::{self, Expand};
use crate::rest::needs;
use crate::rest::{media, names};
use crate::security::principal::Grant;
use plimsoll_stdx::wildcard_matches;

/// An alias and what it was given.
pub type Aliases = BTreeMap<String, Map<String, Value>>;

/// Reads `{"name": {…}, …}`.
///
/// # Errors
/// 400 where a name or what is given cannot be.
pub fn parse_all(body: &Value) -> Result<Aliases, Error> {
    let Value::Object(object) = body else {
        return Err(Error::invalid("parse_exception", "[aliases] is not an object"));
    };
    object
        .iter()
        .map(|(name, given)| {
            names::check_alias(name)?;
            Ok((name.clone(), parse(given)?))
        })
        .collect()
}

/// Reads what an alias is given.
///
/// # Errors
/// 400 for what an alias does not have.
pub fn parse(body: &Value) -> Result<Map<String, Value>, Error> {
    let mut alias = Map::new();
    let Value::Object(object) = body else {
        return Err(Error::invalid("parse_exception", "expected an object for an alias"));
    };
    let text = |value: &Value| match value {
        Value::String(text) => Some(json!(text)),
        Value::Number(number) => Some(json!(number.to_string())),
        _ => None,
    };
    for (key, value) in object {
        let wrong =
            || Error::illegal_argument(format!("Unknown value [{value}] of [{key}] for an alias"));
        let mut set = |name: &str, value: Value| alias.insert(name.to_owned(), value);
        match (key.as_str(), value) {
            (_, Value::Null) => (),
            ("filter", Value::Object(_)) => drop(set("filter", value.clone())),
            ("routing", value) => {
                let routing = text(value).ok_or_else(wrong)?;
                set("index_routing", routing.clone());
                set("search_routing", routing);
            }
            ("index_routing" | "indexRouting" | "index-routing", value) => {
                set("index_routing", text(value).ok_or_else(wrong)?);
            }
            ("search_routing" | "searchRouting" | "search-routing", value) => {
                set("search_routing", text(value).ok_or_else(wrong)?);
            }
            ("is_write_index" | "is_hidden", Value::Bool(_)) => drop(set(key, value.clone())),
            ("filter" | "is_write_index" | "is_hidden", _) => return Err(wrong()),
            (other, _) => {
                return Err(Error::illegal_argument(format!(
                    "Unknown field [{other}] for an alias"
                )));
            }
        }
    }
    Ok(alias)
}

/// PUT `/{index}/_alias/{name}`.
///
/// # Errors
/// 400 or 404 where the alias cannot be.
pub async fn put(mut call: Call) -> Result<Answer, Error> {
    let body = call.json().await?.unwrap_or_else(|| json!({}));
    let name = call.part("name").unwrap_or_default().to_owned();
    names::check_alias(&name)?;
    needs::check(&call.grant, &name)?;
    let alias = parse(&body)?;
    let options = Expand { allow_no_indices: false, aliases: false, ..Expand::any() };
    let options = options.with_query(&call.query)?;
    let found =
        expressions::resolve(call.coordinator(), &call.grant, call.part("index"), &options)?;
    if call.coordinator().documents().index(&name).is_some() {
        return Err(same_as_index(&name));
    }
    let actions = found.into_iter().map(|target| AliasAction::Add {
        index: target.index.name.clone(),
        alias: name.clone(),
        body: alias.clone(),
    });
    call.coordinator().documents().update_aliases(actions.collect()).await?;
    Ok(Answer::acknowledged())
}

fn same_as_index(name: &str) -> Error {
    Error::invalid(
        "invalid_alias_name_exception",
        format!(
            "Invalid alias name [{name}]: an index or data stream exists with the same name as the alias"
        ),
    )
}

/// DELETE `/{index}/_alias/{name}`.
///
/// # Errors
/// 404 where no index has it.
pub async fn delete(call: Call) -> Result<Answer, Error> {
    let patterns: Vec<String> = call
        .part("name")
        .unwrap_or_default()
        .split(',')
        .map(|name| if name == "_all" { "*".to_owned() } else { name.to_owned() })
        .collect();
    check_named(&call.grant, &patterns)?;
    let options = Expand { aliases: false, ..Expand::any() }.with_query(&call.query)?;
    let found =
        expressions::resolve(call.coordinator(), &call.grant, call.part("index"), &options)?;
    let actions: Vec<AliasAction> =
        found.iter().flat_map(|target| removals(&target.index, &call.grant, &patterns)).collect();
    if actions.is_empty() {
        let names = patterns.join(",");
        return Err(missing(&names));
    }
    call.coordinator().documents().update_aliases(actions).await?;
    Ok(Answer::acknowledged())
}

fn missing(names: &str) -> Error {
    Error::not_found("aliases_not_found_exception", format!("aliases [{names}] missing"))
        .with("resource.type", "aliases")
        .with("resource.id", names)
}

/// Aliases that are named have to be granted as their indices are; wildcards mean those that are.
fn check_named(grant: &Grant, names: &[String]) -> Result<(), Error> {
    names.iter().filter(|name| !name.contains('*')).try_for_each(|name| needs::check(grant, name))
}

fn removals(index: &IndexMetadata, grant: &Grant, patterns: &[String]) -> Vec<AliasAction> {
    let wanted = |alias: &&String| {
        patterns.iter().any(|pattern| wildcard_matches(pattern, alias)) && grant.holds_for(alias)
    };
    let remove =
        |alias: &String| AliasAction::Remove { index: index.name.clone(), alias: alias.clone() };
    index.aliases.keys().filter(wanted).map(remove).collect()
}

/// GET `[/{index}]/_alias[/{name}]`.
///
/// # Errors
/// 404 where an alias that is named is not there.
pub async fn list(call: Call) -> Result<Answer, Error> {
    let options = Expand { hidden: true, ..Expand::any() }.with_query(&call.query)?;
    let found =
        expressions::resolve(call.coordinator(), &call.grant, call.part("index"), &options)?;
    let patterns: Vec<&str> = match call.part("name") {
        None | Some("_all" | "*") => Vec::new(),
        Some(names) => names.split(',').collect(),
    };
    let (excluded, wanted): (Vec<&str>, Vec<&str>) =
        patterns.iter().partition(|pattern| pattern.starts_with('-'));
    let is_shown = |alias: &str| {
        call.grant.holds_for(alias)
            && (wanted.is_empty() || wanted.iter().any(|pattern| wildcard_matches(pattern, alias)))
            && !excluded.iter().any(|pattern| wildcard_matches(&pattern[1..], alias))
    };
    let mut shown = Map::new();
    for target in &found {
        let index = &target.index;
        let aliases = index.aliases.iter().filter(|(alias, _)| is_shown(alias));
        let aliases: Map<String, Value> =
            aliases.map(|(alias, body)| (alias.clone(), Value::Object(body.clone()))).collect();
        if !aliases.is_empty() || patterns.is_empty() {
            shown.insert(index.name.clone(), json!({ "aliases": aliases }));
        }
    }
    let is_there =
        |name: &&str| found.iter().any(|target| target.index.aliases.contains_key(*name));
    let absent: Vec<&str> =
        wanted.into_iter().filter(|name| !name.contains('*') && !is_there(name)).collect();
    if absent.is_empty() {
        return Ok(Answer::json(&shown));
    }
    let plural = if absent.len() > 1 { "aliases" } else { "alias" };
    let error = Error::not_found(media::BARE, format!("{plural} [{}] missing", absent.join(",")));
    if shown.is_empty() {
        return Err(error);
    }
    // What is there is answered beside what is not.
    let mut body = json!({ "error": error.reason, "status": 404 });
    if let Value::Object(object) = &mut body {
        object.append(&mut shown);
    }
    Ok(Answer::json(&body).with_status(404))
}

/// POST `/_aliases`: several changes that happen together.
///
/// # Errors
/// 400 or 404 where one of them cannot be.
pub async fn actions(mut call: Call) -> Result<Answer, Error> {
    let body = call.json_required().await?;
    let actions = body.get("actions").and_then(Value::as_array).filter(|list| !list.is_empty());
    let actions = actions.ok_or_else(|| validation(&["Must specify at least one alias action"]))?;
    let mut changes = Vec::new();
    for action in actions {
        let single = action.as_object().filter(|action| action.len() == 1);
        let entry = single.and_then(|action| action.iter().next());
        let Some((name, Value::Object(body))) = entry else {
            return Err(Error::illegal_argument("Too many operations declared on operation entry"));
        };
        changes.extend(self::action(&call, name, body)?);
    }
    call.coordinator().documents().update_aliases(changes).await?;
    Ok(Answer::acknowledged())
}

fn action(call: &Call, name: &str, body: &Map<String, Value>) -> Result<Vec<AliasAction>, Error> {
    let list = |one: &str, many: &str| -> Vec<String> {
        let items = [one, many].into_iter().filter_map(|key| body.get(key));
        items
            .flat_map(|value| match value {
                Value::Array(items) => items.clone(),
                one => vec![one.clone()],
            })
            .filter_map(|item| item.as_str().map(str::to_owned))
            .collect()
    };
    let (indices, aliases) = (list("index", "indices"), list("alias", "aliases"));
    if indices.is_empty() {
        return Err(Error::illegal_argument("One of [index] or [indices] is required"));
    }
    if aliases.is_empty() && name != "remove_index" {
        return Err(Error::illegal_argument("One of [alias] or [aliases] is required"));
    }
    let options = Expand { allow_no_indices: false, aliases: false, ..Expand::any() };
    let found =
        expressions::resolve(call.coordinator(), &call.grant, Some(&indices.join(",")), &options)?;
    let given: Map<String, Value> = body
        .iter()
        .filter(|(key, _)| {
            !["index", "indices", "alias", "aliases", "must_exist"].contains(&key.as_str())
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let mut changes = Vec::new();
    match name {
        "add" => {
            let parsed = parse(&Value::Object(given))?;
            for alias in &aliases {
                names::check_alias(alias)?;
                needs::check(&call.grant, alias)?;
                changes.extend(found.iter().map(|target| AliasAction::Add {
                    index: target.index.name.clone(),
                    alias: alias.clone(),
                    body: parsed.clone(),
                }));
            }
        }
        "remove" => {
            check_named(&call.grant, &aliases)?;
            let must_exist = body.get("must_exist").and_then(Value::as_bool) != Some(false);
            let removed: Vec<AliasAction> = found
                .iter()
                .flat_map(|target| removals(&target.index, &call.grant, &aliases))
                .collect();
            if removed.is_empty() && must_exist {
                return Err(missing(&aliases.join(",")));
            }
            changes.extend(removed);
        }
        "remove_index" => changes.extend(
            found
                .iter()
                .map(|target| AliasAction::RemoveIndex { index: target.index.name.clone() }),
        ),
        other => {
            return Err(Error::illegal_argument(format!(
                "[alias_action] unknown field [{other}], expected [add], [remove] or \
                 [remove_index]"
            )));
        }
    }
    Ok(changes)
}
