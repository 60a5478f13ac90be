//! Dynamic mapping: what a field is mapped as whose first value is seen.

use serde_json::{Map, Value, json};

use super::Added;
use crate::Error;
use crate::mapping::date::DateFormat;
use crate::mapping::{DEPTH_MAX, Dynamic, Mapping, Object, Property};

/// Maps a new field at `path` by its value and puts the result into `added`, which is of the
/// object around it; nothing is put where the value says nothing (null, an empty list).
///
/// # Errors
/// 400 where objects are nested too deeply.
pub(super) fn value(
    mapping: &Mapping,
    path: &str,
    name: &str,
    value: &Value,
    added: &mut Added,
    templates_only: bool,
) -> Result<(), Error> {
    if path.split('.').count() > DEPTH_MAX {
        return Err(Error::illegal_argument(format!(
            "Limit of mapping depth [{DEPTH_MAX}] has been exceeded due to object field [{path}]"
        )));
    }
    match value {
        Value::Null => Ok(()),
        Value::Array(all) => {
            // Objects of a list add to each other; of other values the first decides.
            let objects = all.iter().any(Value::is_object);
            for one in all {
                if objects || !added.contains_key(name) {
                    self::value(mapping, path, name, one, added, templates_only)?;
                }
            }
            Ok(())
        }
        Value::Object(inner) => object(mapping, path, name, inner, added, templates_only),
        scalar => {
            let (kind, default) = kind_of(mapping, scalar);
            let body = template(mapping, path, kind, default_type(&default));
            if let Some(body) = body.or_else(|| (!templates_only).then_some(default)) {
                added.insert(name.to_owned(), body);
            }
            Ok(())
        }
    }
}

fn object(
    mapping: &Mapping,
    path: &str,
    name: &str,
    inner: &Map<String, Value>,
    added: &mut Added,
    templates_only: bool,
) -> Result<(), Error> {
    let body = match added.get(name) {
        Some(body) => body.clone(),
        None => match template(mapping, path, "object", "object") {
            Some(body) => body,
            None if templates_only => return Ok(()),
            None => json!({ "type": "object" }),
        },
    };
    let Value::Object(mut body) = body else { return Ok(()) };
    let kind = body.get("type").and_then(Value::as_str).unwrap_or("object");
    let dynamic = body.get("dynamic").and_then(Dynamic::parse).unwrap_or(Dynamic::True);
    let parsed = body.get("enabled") != Some(&Value::Bool(false));
    if ["object", "nested"].contains(&kind) && parsed && dynamic == Dynamic::True {
        let properties = body.remove("properties");
        let mut properties =
            properties.and_then(|all| all.as_object().cloned()).unwrap_or_default();
        for (inner_name, inner_value) in inner {
            put(mapping, path, inner_name, inner_value, &mut properties, templates_only)?;
        }
        if !properties.is_empty() {
            body.insert("properties".to_owned(), Value::Object(properties));
        }
    }
    added.insert(name.to_owned(), Value::Object(body));
    Ok(())
}

/// As [`value`], for a name that may have dots: they stand for objects.
pub(super) fn put(
    mapping: &Mapping,
    path: &str,
    name: &str,
    value: &Value,
    added: &mut Added,
    templates_only: bool,
) -> Result<(), Error> {
    if name.is_empty() || name.split('.').any(|part| part.trim().is_empty()) {
        return Err(Error::illegal_argument(format!(
            "object field starting or ending with a [.] makes object resolution ambiguous: [{name}]"
        )));
    }
    let whole = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    let Some((first, rest)) = name.split_once('.') else {
        return self::value(mapping, &whole, name, value, added, templates_only);
    };
    let inner_path = if path.is_empty() { first.to_owned() } else { format!("{path}.{first}") };
    let inner = added.entry(first.to_owned()).or_insert_with(|| json!({ "properties": {} }));
    let inner = inner
        .as_object_mut()
        .map(|inner| inner.entry("properties").or_insert_with(|| Value::Object(Map::new())));
    match inner.and_then(Value::as_object_mut) {
        Some(inner) => put(mapping, &inner_path, rest, value, inner, templates_only),
        None => Ok(()),
    }
}

/// The kind of a value as templates name it, and its mapping where no template fits.
fn kind_of(mapping: &Mapping, value: &Value) -> (&'static str, Value) {
    match value {
        Value::Bool(_) => ("boolean", json!({ "type": "boolean" })),
        Value::Number(number) if number.is_f64() => ("double", json!({ "type": "float" })),
        Value::Number(_) => ("long", json!({ "type": "long" })),
        Value::String(text) => of_text(mapping, text),
        _ => ("string", json!({ "type": "text" })),
    }
}

fn of_text(mapping: &Mapping, text: &str) -> (&'static str, Value) {
    let options = mapping.options();
    let is_long = text.parse::<i64>().is_ok();
    let is_double = text.parse::<f64>().is_ok();
    if options.numeric_detection == Some(true) && is_long {
        return ("long", json!({ "type": "long" }));
    }
    if options.numeric_detection == Some(true) && is_double {
        return ("double", json!({ "type": "float" }));
    }
    if options.date_detection != Some(false)
        && !is_long
        && !is_double
        && let Some(body) = date(mapping, text)
    {
        return ("date", body);
    }
    let keyword = json!({ "type": "keyword", "ignore_above": 256 });
    ("string", json!({ "type": "text", "fields": { "keyword": keyword } }))
}

fn date(mapping: &Mapping, text: &str) -> Option<Value> {
    if !text.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if let Some(formats) = &mapping.options().date_formats {
        let format = formats.iter().find(|format| format.try_parse(text).is_some())?;
        return Some(json!({ "type": "date", "format": format.pattern() }));
    }
    if DateFormat::default_date().try_parse(text).is_some() {
        return Some(json!({ "type": "date" }));
    }
    let slashes = "yyyy/MM/dd HH:mm:ss||yyyy/MM/dd||epoch_millis";
    let format = DateFormat::parse_pattern(slashes).ok()?;
    format.try_parse(text).map(|_| json!({ "type": "date", "format": slashes }))
}

fn template(mapping: &Mapping, path: &str, kind: &str, default: &str) -> Option<Value> {
    let templates = &mapping.options().templates;
    templates.iter().find_map(|template| template.apply(path, kind, default))
}

fn default_type(body: &Value) -> &str {
    body.get("type").and_then(Value::as_str).unwrap_or("object")
}

/// The body of a mapping that adds these fields.
pub(super) fn to_body(added: Added) -> Value {
    json!({ "properties": added })
}

/// What an object does with fields that it does not have, by its own word or that of the objects
/// around it.
pub(super) fn dynamic_of(object: &Object, around: Dynamic) -> Dynamic {
    object.dynamic.unwrap_or(around)
}

/// The map of what is added inside the object at `path`.
pub(super) fn inside<'a>(added: &'a mut Added, root: &Object, path: &str) -> Option<&'a mut Added> {
    if path.is_empty() {
        return Some(added);
    }
    let mut at = added;
    let mut object = Some(root);
    for name in path.split('.') {
        object = object.and_then(|object| match object.properties.get(name) {
            Some(Property::Object(inner)) => Some(inner),
            _ => None,
        });
        let nested = object.is_some_and(Object::is_nested);
        let body = at.entry(name.to_owned()).or_insert_with(|| {
            if nested {
                json!({ "type": "nested", "properties": {} })
            } else {
                json!({ "properties": {} })
            }
        });
        let body = body.as_object_mut()?;
        at = body
            .entry("properties")
            .or_insert_with(|| Value::Object(Map::new()))
            .as_object_mut()?;
    }
    Some(at)
}
