//! Mappings: what the fields of an index's documents are, how they are written in JSON, merged
//! and shown, and how values of dates and points are read.
//!
//! How a document is taken apart by a mapping is `document`'s.

pub mod date;
mod field;
mod merge;
mod object;
mod parameters;
mod parse;
mod supported;
mod template;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use plimsoll_stdx::wildcard_matches;
use serde_json::{Map, Value, json};

pub use field::{Field, FieldType};
pub(crate) use object::{Dynamic, Object, Property};
pub use supported::check_supported;
pub(crate) use template::Template;

use crate::Error;
use crate::analysis::Analysis;
use object::RootOptions;

/// The most fields, objects and multi-fields counted, of one index, where its settings do not say
/// otherwise.
pub const FIELDS_MAX: usize = 1000;
/// How they say it.
pub const FIELDS_MAX_SETTING: &str = "index.mapping.total_fields.limit";
/// The paths of a document whose values were left out (`ignore_malformed`, `ignore_above`).
pub const IGNORED: &str = "_ignored";
/// The most levels of objects, the root being the first.
pub const DEPTH_MAX: usize = 20;
/// The most bytes of one field's name (not of its path).
pub const NAME_BYTES_MAX: usize = 255;

/// The fields of an index. Immutable and cheap to clone.
#[derive(Clone, Debug)]
pub struct Mapping(Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    root: Object,
    options: RootOptions,
    analysis: Analysis,
    /// How many there may be of them and objects together.
    fields_max: usize,
    fields: Vec<Arc<Field>>,
    by_path: HashMap<String, usize>,
}

impl Mapping {
    /// No fields, and the built-in analyzers.
    #[must_use]
    pub fn empty() -> Self {
        Self::with_analysis(Analysis::default())
    }

    /// No fields, and the analyzers of an index's settings.
    #[must_use]
    pub fn with_analysis(analysis: Analysis) -> Self {
        Self(Arc::new(Inner {
            root: Object::default(),
            options: RootOptions::default(),
            analysis,
            fields_max: FIELDS_MAX,
            fields: Vec::new(),
            by_path: HashMap::new(),
        }))
    }

    /// No fields, and what the settings of an index say of analyzers and limits; by full names.
    ///
    /// # Errors
    /// 400 where the analyzers are wrong.
    pub fn of_settings(settings: &Map<String, Value>) -> Result<Self, Error> {
        let mut mapping = Self::with_analysis(Analysis::of_settings(settings)?);
        let limit = settings.get(FIELDS_MAX_SETTING).and_then(|value| match value {
            Value::String(text) => text.parse().ok(),
            value => usize::try_from(value.as_u64()?).ok(),
        });
        if let (Some(limit), Some(inner)) = (limit, Arc::get_mut(&mut mapping.0)) {
            inner.fields_max = limit;
        }
        Ok(mapping)
    }

    /// The mapping that a body such as `{"properties": {…}}` gives a new index.
    ///
    /// # Errors
    /// 400 `mapper_parsing_exception` and others, as Elasticsearch answers them when an index is
    /// created: the reason starts with `Failed to parse mapping [_doc]`.
    pub fn parse(body: &Value) -> Result<Self, Error> {
        Self::empty().create(body)
    }

    /// As [`Self::parse`], on a mapping that has analyzers already.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn create(&self, body: &Value) -> Result<Self, Error> {
        self.merge(body).map_err(|cause| {
            let reason = format!("Failed to parse mapping [_doc]: {}", cause.reason);
            let root = cause.clone();
            Error::mapper_parsing(reason).caused_by(cause).rooted_in(root)
        })
    }

    /// The mapping with what `body` adds or changes (`PUT _mapping`).
    ///
    /// # Errors
    /// 400 where the body is not a mapping, changes what cannot change, or passes a limit.
    pub fn merge(&self, body: &Value) -> Result<Self, Error> {
        let (root, options) = parse::root(body, &self.0.analysis)?;
        let root = merge::objects(&self.0.root, root, "")?;
        let options = self.0.options.merged(options);
        Self::compile(root, options, self.0.analysis.clone(), self.0.fields_max)
    }

    /// The body that gives this mapping, as `GET _mapping` shows it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut body = self.0.options.to_json();
        if let Value::Object(root) = self.0.root.to_json(true) {
            body.extend(root);
        }
        Value::Object(body)
    }

    /// The field of a dotted path: a property, a property of an object, a multi-field. An alias
    /// gives the field that it stands for.
    #[must_use]
    pub fn field(&self, path: &str) -> Option<&Field> {
        let field = self.exact(path)?;
        match field.alias_of() {
            Some(path) => self.exact(path),
            None => Some(field),
        }
    }

    /// As [`Self::field`], and `_ignored` besides, which every index has.
    #[must_use]
    pub fn searched_field(&self, path: &str) -> Option<&Field> {
        if path == IGNORED { Some(parameters::ignored()) } else { self.field(path) }
    }

    /// As [`Self::field`], but an alias gives itself.
    #[must_use]
    pub fn exact(&self, path: &str) -> Option<&Field> {
        self.0.by_path.get(path).map(|at| self.0.fields[*at].as_ref())
    }

    /// The paths, in order, that match a pattern with `*`: fields, multi-fields and aliases.
    #[must_use]
    pub fn paths(&self, pattern: &str) -> Vec<&str> {
        let all = self.0.fields.iter().map(|field| field.path());
        let mut paths: Vec<&str> = all.filter(|path| wildcard_matches(pattern, path)).collect();
        paths.sort_unstable();
        paths
    }

    /// Whether there is an object (or nested object) of this path.
    #[must_use]
    pub fn is_object(&self, path: &str) -> bool {
        self.object(path).is_some()
    }

    /// Whether there is a nested object of this path.
    #[must_use]
    pub fn is_nested(&self, path: &str) -> bool {
        self.object(path).is_some_and(Object::is_nested)
    }

    fn object(&self, path: &str) -> Option<&Object> {
        path.split('.').try_fold(&self.0.root, |object, name| match object.properties.get(name) {
            Some(Property::Object(inner)) => Some(inner),
            _ => None,
        })
    }

    /// All fields, multi-fields and aliases.
    pub fn fields(&self) -> impl Iterator<Item = &Arc<Field>> {
        self.0.fields.iter()
    }

    /// The index's analyzers.
    #[must_use]
    pub fn analysis(&self) -> &Analysis {
        &self.0.analysis
    }

    /// Whether every document has to come with a routing.
    #[must_use]
    pub fn routing_required(&self) -> bool {
        self.0.options.routing_required
    }

    /// The patterns of `_source.includes` and `.excludes`, and whether `_source` is kept at all.
    #[must_use]
    pub fn source_filter(&self) -> (bool, &[String], &[String]) {
        let options = &self.0.options;
        (!options.source_disabled, &options.source_includes, &options.source_excludes)
    }

    /// What `GET _mapping/field/<path>` shows: `{"full_name": …, "mapping": {…}}`.
    #[must_use]
    pub fn field_json(&self, path: &str) -> Option<Value> {
        let field = self.exact(path)?;
        let name = path.rsplit('.').next().unwrap_or(path);
        Some(json!({ "full_name": path, "mapping": { name: field.to_json() } }))
    }

    pub(crate) fn root(&self) -> &Object {
        &self.0.root
    }

    pub(crate) fn options(&self) -> &RootOptions {
        &self.0.options
    }

    pub(crate) fn by_ordinal(&self, ordinal: usize) -> &Field {
        &self.0.fields[ordinal]
    }
}

impl Default for Mapping {
    fn default() -> Self {
        Self::empty()
    }
}
