//! Templates: what indices are made of by their names. `_index_template` with its components,
//! and `_template` of before version 7.8. How they come together stands in [`apply`].

pub mod apply;

use plimsoll_index::Error;
use plimsoll_index::mapping::Mapping;
use serde_json::{Map, Value, json};

use super::aliases;
use super::mappings::untyped;
use super::settings::{self, Occasion};
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::documents::write::validation;
use crate::rest::names;
use crate::security::privileges::IndexPrivileges;
use plimsoll_stdx::wildcard_matches;

/// Where templates of each kind are kept.
pub const LEGACY: &str = "template";
/// The same, of `_index_template`.
pub const INDEX: &str = "index_template";
/// The same, of `_component_template`.
pub const COMPONENT: &str = "component_template";

/// Settings, mappings and aliases in the shape that they are kept in: settings flat, by full
/// names.
fn content(object: &Map<String, Value>) -> Result<Map<String, Value>, Error> {
    let mut kept = Map::new();
    for (key, value) in object {
        let value = match key.as_str() {
            "settings" => Value::Object(settings::parse(value, Occasion::Creation)?),
            "mappings" => {
                let mappings = untyped(value)?;
                Mapping::parse(mappings)?;
                mappings.clone()
            }
            "aliases" => json!(aliases::parse_all(value)?),
            other => {
                return Err(Error::invalid(
                    "x_content_parse_exception",
                    format!("[1:1] [template] unknown field [{other}]"),
                ));
            }
        };
        kept.insert(key.clone(), value);
    }
    Ok(kept)
}

/// A template as it is answered: settings nested under `index`.
fn shown(template: &Value, is_flat: bool) -> Value {
    let mut shown = template.clone();
    let place = match shown.get("template") {
        Some(Value::Object(_)) => &mut shown["template"],
        _ => &mut shown,
    };
    if let Some(Value::Object(flat)) = place.get("settings") {
        place["settings"] = settings::shown(flat.clone(), is_flat);
    }
    shown
}

/// The templates whose names a request asks for.
fn found(call: &Call, kind: &str) -> Vec<(String, Value)> {
    let mut all = call.coordinator().stored_all(kind);
    if let Some(names) = call.part("name") {
        all.retain(|(name, _)| names.split(',').any(|pattern| wildcard_matches(pattern, name)));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// Whether a name is asked for that must be there.
fn is_named(call: &Call) -> Option<&str> {
    call.part("name").filter(|name| !name.contains('*') && !name.contains(','))
}

async fn delete(call: &Call, kind: &'static str) -> Result<Answer, Error> {
    let found = found(call, kind);
    let name = call.part("name").unwrap_or_default();
    if found.is_empty() && name != "*" {
        return Err(Error::not_found(
            "index_template_missing_exception",
            format!("index_template [{name}] missing"),
        ));
    }
    for (name, _) in found {
        call.coordinator().store(kind, &name, None).await?;
    }
    Ok(Answer::acknowledged())
}

fn check_create(call: &Call, kind: &str, name: &str) -> Result<(), Error> {
    let creates_only = call.query.flag_or("create", false)?;
    if creates_only && call.coordinator().stored(kind, name).is_some() {
        return Err(Error::illegal_argument(format!("index_template [{name}] already exists")));
    }
    Ok(())
}

fn patterns(body: &Map<String, Value>) -> Result<Vec<String>, Error> {
    let patterns = match body.get("index_patterns").or_else(|| body.get("template")) {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(items)) => {
            items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    };
    if patterns.is_empty() {
        return Err(validation(&["index patterns are missing"]));
    }
    let forbidden = |pattern: &&String| {
        pattern.is_empty() || pattern.starts_with('_') || pattern.contains([' ', '#', ':', ','])
    };
    match patterns.iter().find(forbidden) {
        Some(wrong) => Err(Error::illegal_argument(format!(
            "index_pattern [{wrong}] must not be empty, contain a space, '#', ':' or a comma, or \
             start with '_'"
        ))),
        None => Ok(patterns),
    }
}

fn object(body: Value) -> Result<Map<String, Value>, Error> {
    match body {
        Value::Object(object) => Ok(object),
        _ => Err(Error::invalid("parse_exception", "expected an object")),
    }
}

/// GET `/_template[/{name}]`.
///
/// # Errors
/// None but those of the request.
pub async fn legacy_get(call: Call) -> Result<Answer, Error> {
    let found = found(&call, LEGACY);
    let is_flat = call.query.flag_or("flat_settings", false)?;
    let status = if found.is_empty() && is_named(&call).is_some() { 404 } else { 200 };
    let all: Map<String, Value> =
        found.iter().map(|(name, template)| (name.clone(), shown(template, is_flat))).collect();
    Ok(Answer::json(&all).with_status(status))
}

/// PUT `/_template/{name}`.
///
/// # Errors
/// 400 where the template cannot be.
pub async fn legacy_put(mut call: Call) -> Result<Answer, Error> {
    let mut body = object(call.json_required().await?)?;
    let name = call.part("name").unwrap_or_default().to_owned();
    names::check_template(&name)?;
    check_create(&call, LEGACY, &name)?;
    let patterns = patterns(&body)?;
    let order = match call.query.number::<i64>("order")? {
        Some(order) => order,
        None => body.get("order").and_then(Value::as_i64).unwrap_or(0),
    };
    let version = body.get("version").cloned();
    for key in ["index_patterns", "template", "order", "version"] {
        body.shift_remove(key);
    }
    let mut kept = Map::new();
    kept.insert("order".to_owned(), json!(order));
    if let Some(version) = version {
        kept.insert("version".to_owned(), version);
    }
    kept.insert("index_patterns".to_owned(), json!(patterns));
    let content = content(&body)?;
    for key in ["settings", "mappings", "aliases"] {
        kept.insert(key.to_owned(), content.get(key).cloned().unwrap_or_else(|| json!({})));
    }
    let kept = Value::Object(kept);
    check_aliases(&call, &apply::patterns(&kept), &[&kept])?;
    call.coordinator().store(LEGACY, &name, Some(kept)).await?;
    Ok(Answer::acknowledged())
}

/// DELETE `/_template/{name}`.
///
/// # Errors
/// 404 where it is not there.
pub async fn legacy_delete(call: Call) -> Result<Answer, Error> {
    delete(&call, LEGACY).await
}

/// GET `/_index_template[/{name}]`.
///
/// # Errors
/// 404 where one that is named is not there.
pub async fn index_get(call: Call) -> Result<Answer, Error> {
    list(&call, INDEX, "index_templates", "index_template", "index template")
}

/// GET `/_component_template[/{name}]`.
///
/// # Errors
/// 404 where one that is named is not there.
pub async fn component_get(call: Call) -> Result<Answer, Error> {
    list(&call, COMPONENT, "component_templates", "component_template", "component template")
}

fn list(call: &Call, kind: &str, all: &str, one: &str, words: &str) -> Result<Answer, Error> {
    let found = found(call, kind);
    if let (true, Some(name)) = (found.is_empty(), is_named(call)) {
        return Err(Error::not_found(
            "resource_not_found_exception",
            format!("{words} matching [{name}] not found"),
        ));
    }
    let is_flat = call.query.flag_or("flat_settings", false)?;
    let entries: Vec<Value> = found
        .iter()
        .map(|(name, template)| json!({ "name": name, one: shown(template, is_flat) }))
        .collect();
    Ok(Answer::json(&json!({ all: entries })))
}

/// PUT `/_index_template/{name}`.
///
/// # Errors
/// 400 where the template cannot be.
pub async fn index_put(mut call: Call) -> Result<Answer, Error> {
    let body = object(call.json_required().await?)?;
    let name = call.part("name").unwrap_or_default().to_owned();
    names::check_template(&name)?;
    check_create(&call, INDEX, &name)?;
    let mut kept = Map::new();
    kept.insert("index_patterns".to_owned(), json!(patterns(&body)?));
    kept.insert("composed_of".to_owned(), json!([]));
    for (key, value) in &body {
        let value = match key.as_str() {
            "index_patterns" => continue,
            "template" => {
                let inner = value.as_object().ok_or_else(|| {
                    Error::invalid("parse_exception", "[template] is not an object")
                })?;
                Value::Object(content(inner)?)
            }
            "composed_of"
                if value.as_array().is_some_and(|list| list.iter().all(Value::is_string)) =>
            {
                value.clone()
            }
            "priority" | "version" if value.is_i64() || value.is_u64() => value.clone(),
            "_meta" if value.is_object() => value.clone(),
            "data_stream" => {
                return Err(Error::illegal_argument(
                    "[data_stream] is not supported: there are no data streams",
                ));
            }
            other => {
                return Err(Error::invalid(
                    "x_content_parse_exception",
                    format!(
                        "[1:1] [index_template] unknown field [{other}] or a wrong value of it"
                    ),
                ));
            }
        };
        kept.insert(key.clone(), value);
    }
    let template = Value::Object(kept);
    check_components(&call, &name, &template)?;
    check_overlap(&call, &name, &template)?;
    let components = template["composed_of"].as_array().into_iter().flatten();
    let components = components.filter_map(Value::as_str);
    let components = components.filter_map(|it| call.coordinator().stored(COMPONENT, it));
    let components: Vec<Value> = components.collect();
    let parts: Vec<&Value> =
        components.iter().chain([&template]).map(|it| &it["template"]).collect();
    check_aliases(&call, &apply::patterns(&template), &parts)?;
    call.coordinator().store(INDEX, &name, Some(template)).await?;
    Ok(Answer::acknowledged())
}

/// Every component that a template is made of must be there.
fn check_components(call: &Call, name: &str, template: &Value) -> Result<(), Error> {
    let components = template["composed_of"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_missing = |component: &&str| call.coordinator().stored(COMPONENT, component).is_none();
    let missing: Vec<&str> =
        components.iter().filter_map(Value::as_str).filter(is_missing).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(
        "invalid_index_template_exception",
        format!(
            "index_template [{name}] invalid, cause [index template [{name}] specifies component \
             templates [{}] that do not exist]",
            missing.join(", ")
        ),
    ))
}

/// Whether an index template has a component of this name.
fn is_made_of(template: &Value, component: &str) -> bool {
    let list = template["composed_of"].as_array();
    list.is_some_and(|list| list.iter().any(|item| item.as_str() == Some(component)))
}

/// Whoever may read an alias reads all indices that come to have it. So aliases of a template are as those that
/// are put on indices that are there: `manage` is needed on both, here on all that the patterns cover.
///
/// # Errors
/// 403, naming the privilege.
fn check_aliases(call: &Call, patterns: &[&str], parts: &[&Value]) -> Result<(), Error> {
    let aliases = parts.iter().filter_map(|part| part.get("aliases")?.as_object());
    let aliases: Vec<&str> = aliases.flat_map(|it| it.keys().map(String::as_str)).collect();
    if aliases.is_empty() {
        return Ok(());
    }
    let wanted = call.grant.to(IndexPrivileges::MANAGE, "indices:admin/aliases");
    for name in patterns.iter().chain(&aliases) {
        if !call.principal.may_on_all(name, IndexPrivileges::MANAGE) {
            return Err(Error::forbidden("security_exception", wanted.refusal(name)));
        }
    }
    Ok(())
}

/// Two templates of one priority must not fit the same names.
fn check_overlap(call: &Call, name: &str, template: &Value) -> Result<(), Error> {
    let own = apply::patterns(template);
    for (other, known) in call.coordinator().stored_all(INDEX) {
        let overlaps = apply::patterns(&known).iter().any(|theirs| {
            own.iter().any(|ours| wildcard_matches(ours, theirs) || wildcard_matches(theirs, ours))
        });
        if other != name && overlaps && apply::priority(&known) == apply::priority(template) {
            return Err(Error::illegal_argument(format!(
                "index template [{name}] has index patterns {own:?} matching patterns from \
                 existing templates [{other}] with patterns ({other} => {:?}) that have the same \
                 priority [{}], multiple index templates may not match during index creation, \
                 please use a different priority",
                apply::patterns(&known),
                apply::priority(template)
            )));
        }
    }
    Ok(())
}

/// DELETE `/_index_template/{name}`.
///
/// # Errors
/// 404 where it is not there.
pub async fn index_delete(call: Call) -> Result<Answer, Error> {
    delete(&call, INDEX).await
}

/// POST `/_index_template/_simulate_index/{name}`: what an index of this name would be made of.
///
/// # Errors
/// 400 where its templates do not fit together.
pub async fn simulate(call: Call) -> Result<Answer, Error> {
    let name = call.part("name").unwrap_or_default();
    let body = plimsoll_cluster::IndexBody { mappings: json!({}), ..Default::default() };
    let made = apply::compose(call.coordinator(), name, body)?;
    Ok(Answer::json(&json!({
        "template": {
            "settings": settings::shown(made.settings, false),
            "mappings": made.mappings,
            "aliases": made.aliases,
        },
        "overlapping": [],
    })))
}

/// PUT `/_component_template/{name}`.
///
/// # Errors
/// 400 where the template cannot be.
pub async fn component_put(mut call: Call) -> Result<Answer, Error> {
    let body = object(call.json_required().await?)?;
    let name = call.part("name").unwrap_or_default().to_owned();
    names::check_template(&name)?;
    check_create(&call, COMPONENT, &name)?;
    let Some(Value::Object(inner)) = body.get("template") else {
        return Err(validation(&["template is missing"]));
    };
    if let Some(unknown) =
        body.keys().find(|key| !["template", "version", "_meta"].contains(&key.as_str()))
    {
        return Err(Error::invalid(
            "x_content_parse_exception",
            format!("[1:1] [component_template] unknown field [{unknown}]"),
        ));
    }
    let mut kept = body.clone();
    kept.insert("template".to_owned(), Value::Object(content(inner)?));
    let users = call.coordinator().stored_all(INDEX);
    let users = users.iter().filter(|(_, template)| is_made_of(template, &name));
    let patterns: Vec<&str> = users.flat_map(|(_, template)| apply::patterns(template)).collect();
    check_aliases(&call, &patterns, &[&kept["template"]])?;
    call.coordinator().store(COMPONENT, &name, Some(Value::Object(kept))).await?;
    Ok(Answer::acknowledged())
}

/// DELETE `/_component_template/{name}`.
///
/// # Errors
/// 404 where it is not there, 400 where a template is made of it.
pub async fn component_delete(call: Call) -> Result<Answer, Error> {
    for (name, _) in found(&call, COMPONENT) {
        let users = call.coordinator().stored_all(INDEX);
        if let Some((user, _)) = users.iter().find(|(_, template)| is_made_of(template, &name)) {
            return Err(Error::illegal_argument(format!(
                "component templates [{name}] cannot be removed as they are still in use by index \
                 templates [{user}]"
            )));
        }
    }
    delete(&call, COMPONENT).await
}
