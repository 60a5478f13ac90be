//! From the JSON of a mapping to its objects and fields.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::date::DateFormat;
use super::field::{Field, FieldType};
use super::object::{Dynamic, Object, Property, RootOptions};
use super::{DEPTH_MAX, Inner, Mapping, NAME_BYTES_MAX, Template, parameters};
use crate::Error;
use crate::analysis::Analysis;

/// Parameters of the root that are kept and shown again.
const ROOT_SHOWN: [&str; 8] = [
    "_meta",
    "_source",
    "_routing",
    "_field_names",
    "_size",
    "date_detection",
    "numeric_detection",
    "dynamic_date_formats",
];

/// Reads a whole mapping.
pub(super) fn root(body: &Value, analysis: &Analysis) -> Result<(Object, RootOptions), Error> {
    let Some(body) = body.as_object() else {
        return Err(Error::mapper_parsing("Expected map for mapping definition"));
    };
    let mut options = RootOptions::default();
    let mut rest = Map::new();
    for (key, value) in body {
        match key.as_str() {
            "dynamic_templates" => {
                let entries = value.as_array().ok_or_else(|| {
                    Error::mapper_parsing(
                        "Dynamic template syntax error. An array of named objects is expected.",
                    )
                })?;
                options.templates =
                    entries.iter().map(Template::parse).collect::<Result<_, _>>()?;
            }
            "date_detection" => options.date_detection = Some(flag(key, value)?),
            "numeric_detection" => options.numeric_detection = Some(flag(key, value)?),
            "dynamic_date_formats" => {
                let formats = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
                let formats = formats.iter().filter_map(Value::as_str);
                let formats = formats.map(|one| DateFormat::parse_pattern(one).map(Arc::new));
                options.date_formats = Some(formats.collect::<Result<_, _>>()?);
            }
            _ => {}
        }
        if ROOT_SHOWN.contains(&key.as_str()) {
            options.shown.insert(key.clone(), value.clone());
        } else if key != "dynamic_templates" {
            rest.insert(key.clone(), value.clone());
        }
    }
    let unknown: Vec<String> = rest
        .iter()
        .filter(|(key, _)| !["properties", "dynamic", "enabled", "type"].contains(&key.as_str()))
        .map(|(key, value)| format!(" [{key} : {}]", shown(value)))
        .collect();
    if !unknown.is_empty() {
        return Err(Error::mapper_parsing(format!(
            "Root mapping definition has unsupported parameters: {}",
            unknown.concat()
        )));
    }
    let root = object("", &rest, analysis, 1)?;
    Ok((root, options))
}

/// A value as Java prints it in messages.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(all) => {
            let all: Vec<String> =
                all.iter().map(|(key, one)| format!("{key}={}", shown(one))).collect();
            format!("{{{}}}", all.join(", "))
        }
        Value::Array(all) => {
            let all: Vec<String> = all.iter().map(shown).collect();
            format!("[{}]", all.join(", "))
        }
        other => other.to_string(),
    }
}

/// Reads a boolean that may be a string.
pub(super) fn flag(name: &str, value: &Value) -> Result<bool, Error> {
    match value {
        Value::Bool(flag) => Ok(*flag),
        Value::String(text) if text == "true" => Ok(true),
        Value::String(text) if text == "false" => Ok(false),
        other => Err(Error::illegal_argument(format!(
            "Failed to parse value [{}] as only [true] or [false] are allowed for [{name}].",
            shown(other)
        ))),
    }
}

/// Reads an object: `path` is its own, `""` for the root.
fn object(
    path: &str,
    body: &Map<String, Value>,
    analysis: &Analysis,
    depth: usize,
) -> Result<Object, Error> {
    if depth > DEPTH_MAX + 1 {
        return Err(Error::illegal_argument(format!(
            "Limit of mapping depth [{DEPTH_MAX}] has been exceeded due to object field [{path}]"
        )));
    }
    let mut object = Object::default();
    for (key, value) in body {
        match key.as_str() {
            "type" => object.nested = value == "nested",
            "dynamic" => {
                object.dynamic = Some(Dynamic::parse(value).ok_or_else(|| {
                    Error::illegal_argument(format!(
                        "No enum constant for dynamic [{}]; it is one of [true, false, strict]",
                        shown(value)
                    ))
                })?);
            }
            "enabled" => object.enabled = Some(flag(key, value)?),
            "properties" => {
                let properties = properties(path, value)?;
                for (name, body) in properties {
                    add(&mut object, path, name, body, analysis, depth)?;
                }
            }
            "include_in_parent" | "include_in_root"
                if body.get("type").is_some_and(|kind| kind == "nested") =>
            {
                object.shown.insert(key.clone(), value.clone());
            }
            _ => {
                return Err(Error::mapper_parsing(format!(
                    "Mapping definition for [{}] has unsupported parameters:  [{key} : {}]",
                    last(path),
                    shown(value)
                )));
            }
        }
    }
    Ok(object)
}

fn properties<'a>(path: &str, value: &'a Value) -> Result<&'a Map<String, Value>, Error> {
    static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    match value {
        Value::Object(properties) => Ok(properties),
        Value::Array(all) if all.is_empty() => Ok(&NONE),
        _ => Err(Error::mapper_parsing(format!(
            "Expected map for property [properties] on field [{path}]"
        ))),
    }
}

fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// Adds one property to an object; a name with dots adds the objects between.
fn add(
    object: &mut Object,
    path: &str,
    name: &str,
    body: &Value,
    analysis: &Analysis,
    depth: usize,
) -> Result<(), Error> {
    check_name(name)?;
    if let Some((first, rest)) = name.split_once('.') {
        let inner_path = join(path, first);
        let inner = object
            .properties
            .entry(first.to_owned())
            .or_insert_with(|| Property::Object(Object::default()));
        let Property::Object(inner) = inner else {
            return Err(Error::illegal_argument(format!(
                "can't merge a non object mapping [{inner_path}] with an object mapping"
            )));
        };
        return add(inner, &inner_path, rest, body, analysis, depth + 1);
    }
    let path = join(path, name);
    let Some(body) = body.as_object() else {
        return Err(Error::mapper_parsing(format!(
            "Expected map for property [fields] on field [{name}] but got a class java.lang.String"
        )));
    };
    let kind = match body.get("type") {
        None if body.contains_key("properties")
            || body.contains_key("dynamic")
            || body.contains_key("enabled") =>
        {
            "object"
        }
        None if body.is_empty() => "object",
        None => {
            return Err(Error::mapper_parsing(format!("No type specified for field [{name}]")));
        }
        Some(kind) => kind.as_str().unwrap_or_default(),
    };
    let property = match kind {
        "object" | "nested" => Property::Object(self::object(&path, body, analysis, depth + 1)?),
        _ => Property::Field(Arc::new(field(&path, kind, body, analysis, false)?)),
    };
    object.properties.insert(name.to_owned(), property);
    Ok(())
}

/// Reads a field; a multi-field has none of its own.
fn field(
    path: &str,
    kind: &str,
    body: &Map<String, Value>,
    analysis: &Analysis,
    multi: bool,
) -> Result<Field, Error> {
    let name = last(path);
    let Some(kind) = FieldType::parse(kind) else {
        return Err(Error::mapper_parsing(format!(
            "No handler for type [{kind}] declared on field [{name}]"
        )));
    };
    let mut field = parameters::field(path, kind, body, analysis)?;
    let Some(multi_fields) = body.get("fields") else { return Ok(field) };
    if multi {
        return Err(Error::mapper_parsing(format!(
            "Type [{}] cannot be used in multi field with fields of its own, on field [{name}]",
            kind.name()
        )));
    }
    let mut fields = BTreeMap::new();
    for (inner, inner_body) in properties(path, multi_fields)? {
        check_name(inner)?;
        if inner.contains('.') {
            return Err(Error::mapper_parsing(format!(
                "Field name [{inner}] which is a multi field of [{name}] cannot contain '.'"
            )));
        }
        let inner_body = inner_body.as_object().cloned().unwrap_or_default();
        let inner_kind = inner_body.get("type").and_then(Value::as_str).ok_or_else(|| {
            Error::mapper_parsing(format!("no type specified for property [{inner}]"))
        })?;
        if ["object", "nested", "alias"].contains(&inner_kind) {
            return Err(Error::mapper_parsing(format!(
                "Type [{inner_kind}] cannot be used in multi field"
            )));
        }
        let whole = join(path, inner);
        let field = self::field(&whole, inner_kind, &inner_body, analysis, true)?;
        fields.insert(inner.clone(), Arc::new(field));
    }
    field.fields = fields;
    Ok(field)
}

fn check_name(name: &str) -> Result<(), Error> {
    if name.is_empty() || name.trim().is_empty() {
        return Err(Error::illegal_argument("name cannot be empty string"));
    }
    if name.split('.').any(str::is_empty) {
        return Err(Error::illegal_argument(format!(
            "object field starting or ending with a [.] makes object resolution ambiguous: [{name}]"
        )));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::illegal_argument(format!(
            "Field name [{name}] is longer than the limit of [{NAME_BYTES_MAX}] characters"
        )));
    }
    Ok(())
}

pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

impl Mapping {
    /// Numbers the fields, resolves aliases and copies, and checks the limits.
    pub(super) fn compile(
        mut root: Object,
        options: RootOptions,
        analysis: Analysis,
        fields_max: usize,
    ) -> Result<Self, Error> {
        let mut all = Numbered { count_max: fields_max, ..Numbered::default() };
        all.object(&mut root, "", 1)?;
        let by_path: HashMap<String, usize> =
            all.fields.iter().enumerate().map(|(at, field)| (field.path.clone(), at)).collect();
        for field in &all.fields {
            if let Some(target) = &field.alias_of {
                let found = by_path.get(target.as_str()).map(|at| &all.fields[*at]);
                if found.is_none_or(|found| found.alias_of.is_some()) {
                    return Err(Error::mapper_parsing(format!(
                        "Invalid [path] value [{target}] for field alias [{}]: an alias must refer \
                         to an existing field in the mappings.",
                        field.path
                    )));
                }
            }
        }
        let copies: Vec<Vec<usize>> = all
            .fields
            .iter()
            .map(|field| field.copy_to.iter().filter_map(|to| by_path.get(to).copied()).collect())
            .collect();
        for (field, copies) in all.fields.iter_mut().zip(copies) {
            if !copies.is_empty() {
                Arc::make_mut(field).copy_ordinals = copies;
            }
        }
        relink(&mut root, &all.fields);
        let fields = all.fields;
        Ok(Self(Arc::new(Inner { root, options, analysis, fields_max, fields, by_path })))
    }
}

#[derive(Default)]
struct Numbered {
    fields: Vec<Arc<Field>>,
    count: usize,
    count_max: usize,
}

impl Numbered {
    fn object(&mut self, object: &mut Object, path: &str, depth: usize) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(Error::illegal_argument(format!(
                "Limit of mapping depth [{DEPTH_MAX}] has been exceeded due to object field [{path}]"
            )));
        }
        for (name, property) in &mut object.properties {
            self.counted()?;
            match property {
                Property::Object(inner) => self.object(inner, &join(path, name), depth + 1)?,
                Property::Field(field) => self.field(field)?,
            }
        }
        Ok(())
    }

    fn field(&mut self, field: &mut Arc<Field>) -> Result<(), Error> {
        let own = Arc::make_mut(field);
        own.ordinal = self.fields.len();
        own.copy_ordinals.clear();
        // The place is taken first, so that a field comes before its multi-fields.
        self.fields.push(Arc::new(own.clone()));
        for inner in own.fields.values_mut() {
            self.counted()?;
            let inner = Arc::make_mut(inner);
            inner.ordinal = self.fields.len();
            inner.copy_ordinals.clear();
            self.fields.push(Arc::new(inner.clone()));
        }
        let at = own.ordinal;
        self.fields[at] = Arc::clone(field);
        Ok(())
    }

    fn counted(&mut self) -> Result<(), Error> {
        self.count += 1;
        if self.count > self.count_max {
            return Err(Error::illegal_argument(format!(
                "Limit of total fields [{}] has been exceeded",
                self.count_max
            )));
        }
        Ok(())
    }
}

/// Lets the tree hold the same fields as the list.
fn relink(object: &mut Object, fields: &[Arc<Field>]) {
    for property in object.properties.values_mut() {
        match property {
            Property::Object(inner) => relink(inner, fields),
            Property::Field(field) => *field = Arc::clone(&fields[field.ordinal]),
        }
    }
}
