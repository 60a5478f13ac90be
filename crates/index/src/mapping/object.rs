//! Objects of a mapping, the root among them, and what only the root says.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::Template;
use super::date::DateFormat;
use super::field::Field;

/// What happens with a field that the mapping does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dynamic {
    /// It is added.
    True,
    /// It stays in the source only.
    False,
    /// The document is refused.
    Strict,
    /// It is added where a template matches, else the document is refused.
    StrictAllowTemplates,
    /// It is added where a template matches, else it stays in the source only.
    FalseAllowTemplates,
}

impl Dynamic {
    /// Reads the value of `dynamic`: a boolean or its name.
    pub fn parse(value: &Value) -> Option<Self> {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_lowercase);
        Some(match text.as_str() {
            "true" => Self::True,
            "false" => Self::False,
            "strict" => Self::Strict,
            "strict_allow_templates" => Self::StrictAllowTemplates,
            "false_allow_templates" => Self::FalseAllowTemplates,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::True => "true",
            Self::False => "false",
            Self::Strict => "strict",
            Self::StrictAllowTemplates => "strict_allow_templates",
            Self::FalseAllowTemplates => "false_allow_templates",
        }
    }
}

/// A property: an object with properties of its own, or a field.
#[derive(Clone, Debug)]
pub(crate) enum Property {
    Object(Object),
    Field(Arc<Field>),
}

/// An object of the mapping.
#[derive(Clone, Debug, Default)]
pub(crate) struct Object {
    /// `nested` in the mapping.
    pub nested: bool,
    /// None: as the object around it.
    pub dynamic: Option<Dynamic>,
    /// False: what is in it is neither parsed nor indexed. None: not said, which is true.
    pub enabled: Option<bool>,
    /// Parameters of `nested` that are shown again and mean nothing here.
    pub shown: Map<String, Value>,
    pub properties: BTreeMap<String, Property>,
}

impl Object {
    /// Whether its documents are said to be separate ones.
    pub fn is_nested(&self) -> bool {
        self.nested
    }

    /// Whether what is in it is parsed.
    pub fn is_enabled(&self) -> bool {
        self.enabled.unwrap_or(true)
    }

    /// As a mapping shows it.
    pub fn to_json(&self, root: bool) -> Value {
        let mut body = Map::new();
        if self.nested {
            body.insert("type".to_owned(), json!("nested"));
        } else if self.properties.is_empty() && !root {
            body.insert("type".to_owned(), json!("object"));
        }
        if let Some(dynamic) = self.dynamic {
            body.insert("dynamic".to_owned(), json!(dynamic.name()));
        }
        if let Some(enabled) = self.enabled {
            body.insert("enabled".to_owned(), json!(enabled));
        }
        body.extend(self.shown.clone());
        if !self.properties.is_empty() {
            let properties = self.properties.iter().map(|(name, property)| {
                let body = match property {
                    Property::Object(object) => object.to_json(false),
                    Property::Field(field) => field.to_json(),
                };
                (name.clone(), body)
            });
            body.insert("properties".to_owned(), Value::Object(properties.collect()));
        }
        Value::Object(body)
    }
}

/// What only the root of a mapping says.
#[derive(Clone, Debug, Default)]
pub(crate) struct RootOptions {
    /// `_meta`, `_source`, `_routing`, `date_detection` and so on as they were given.
    pub shown: Map<String, Value>,
    pub templates: Vec<Template>,
    /// How strings that are dates are known; none: the default formats.
    pub date_formats: Option<Vec<Arc<DateFormat>>>,
    pub date_detection: Option<bool>,
    pub numeric_detection: Option<bool>,
    pub routing_required: bool,
    /// `_source.enabled: false`.
    pub source_disabled: bool,
    pub source_includes: Vec<String>,
    pub source_excludes: Vec<String>,
}

impl RootOptions {
    /// These options where the newer ones say nothing.
    pub fn merged(&self, mut newer: Self) -> Self {
        let mut shown = self.shown.clone();
        for (key, value) in std::mem::take(&mut newer.shown) {
            shown.insert(key, value);
        }
        let mut templates = self.templates.clone();
        for template in newer.templates {
            match templates.iter_mut().find(|old| old.name == template.name) {
                Some(old) => *old = template,
                None => templates.push(template),
            }
        }
        let (source, routing) = (shown.get("_source").cloned(), shown.get("_routing").cloned());
        let mut merged = Self {
            shown,
            templates,
            date_formats: newer.date_formats.or_else(|| self.date_formats.clone()),
            date_detection: newer.date_detection.or(self.date_detection),
            numeric_detection: newer.numeric_detection.or(self.numeric_detection),
            ..Self::default()
        };
        if let Some(source) = source {
            merged.source_disabled = source.get("enabled") == Some(&Value::Bool(false));
            merged.source_includes = patterns(source.get("includes"));
            merged.source_excludes = patterns(source.get("excludes"));
        }
        merged.routing_required = routing
            .as_ref()
            .and_then(|routing| routing.get("required"))
            .is_some_and(|required| required == &Value::Bool(true) || required == "true");
        merged
    }

    /// As a mapping shows it.
    pub fn to_json(&self) -> Map<String, Value> {
        let mut body = self.shown.clone();
        if !self.templates.is_empty() {
            let all = self.templates.iter().map(Template::to_json).collect();
            body.insert("dynamic_templates".to_owned(), Value::Array(all));
        }
        body
    }
}

fn patterns(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(all)) => {
            all.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        Some(Value::String(one)) => vec![one.clone()],
        _ => Vec::new(),
    }
}
