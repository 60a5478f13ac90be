//! What a walk through a document does with its values, and with fields that the mapping does not have. How it
//! goes through the JSON is `visit.rs`'s.

use serde::de::{self, IgnoredAny, MapAccess};
use serde_json::Value;

use super::leaf::{Leaf, Scalar, leaf};
use super::{Added, infer};
use crate::Error;
use crate::mapping::{Dynamic, Field, FieldType, Mapping};

/// The most characters of a value that a message shows.
const PREVIEW_CHARS_MAX: usize = 64;

/// Takes the values of a document, in the order of the JSON.
pub(crate) trait Sink {
    /// A value of a field.
    fn leaf(&mut self, field: &Field, leaf: Leaf<'_>);
    /// A field whose value was left out (`ignore_malformed`, `ignore_above`).
    fn ignored(&mut self, path: &str);
}

/// One walk.
pub(super) struct Walk<'m, S> {
    pub mapping: &'m Mapping,
    id: &'m str,
    pub sink: &'m mut S,
    /// Whether new fields are wanted.
    pub inferring: bool,
    added: Added,
    /// The path of the object that the walk is in.
    pub path: String,
    /// Why the walk stopped, where it is not the JSON's fault.
    error: Option<Error>,
}

impl<'m, S: Sink> Walk<'m, S> {
    pub fn new(mapping: &'m Mapping, id: &'m str, sink: &'m mut S, inferring: bool) -> Self {
        Self { mapping, id, sink, inferring, added: Added::new(), path: String::new(), error: None }
    }

    /// What the document adds to the mapping.
    pub fn into_added(self) -> Added {
        self.added
    }

    pub fn refusal(&mut self, error: &serde_json::Error) -> Error {
        if let Some(own) = self.error.take() {
            return own;
        }
        let at = format!(
            "\n at [Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); \
             line: {}, column: {}]",
            error.line(),
            error.column() + if error.is_eof() { 1 } else { 0 }
        );
        let cause = if error.is_eof() {
            let reason = format!("Unexpected end-of-input within/between Object entries{at}");
            Error::invalid("json_e_o_f_exception", reason)
        } else {
            let text = error.to_string();
            let what = text.split(" at line ").next().unwrap_or_default();
            Error::invalid("json_parse_exception", format!("{what}{at}"))
        };
        Error::mapper_parsing("failed to parse").caused_by(cause)
    }

    /// Stops the walk; what it returns makes the JSON reader stop.
    pub fn stop<E: de::Error>(&mut self, error: Error) -> E {
        self.error = Some(error);
        E::custom("stopped")
    }

    /// Runs `inner` with the path of an object below.
    pub fn below<T>(&mut self, name: &str, inner: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        let result = inner(self);
        self.path.truncate(length);
        result
    }

    pub fn whole_path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// A value of a field: for it, its multi-fields and the fields that it is copied to.
    pub fn scalar(&mut self, field: &Field, scalar: Scalar<'_>) -> Result<(), Error> {
        self.one(field, scalar)?;
        for (_, inner) in field.fields() {
            self.one(inner, scalar)?;
        }
        if field.copy_to().is_empty() {
            return Ok(());
        }
        let mapping = self.mapping;
        for ordinal in field.copy_ordinals() {
            let target = mapping.by_ordinal(*ordinal);
            self.one(target, scalar)?;
            for (_, inner) in target.fields() {
                self.one(inner, scalar)?;
            }
        }
        if self.inferring {
            self.infer_copies(field, &scalar.value())?;
        }
        Ok(())
    }

    /// A value of one field.
    pub fn one(&mut self, field: &Field, scalar: Scalar<'_>) -> Result<(), Error> {
        match leaf(field, scalar) {
            Ok(Leaf::TooLong) => self.sink.ignored(field.path()),
            Ok(leaf) => self.sink.leaf(field, leaf),
            Err(_) if field.ignores_malformed() => self.sink.ignored(field.path()),
            Err(cause) => return Err(self.cannot_parse(field, &scalar.text(), cause)),
        }
        if self.inferring
            && field.field_type() == FieldType::ConstantKeyword
            && field.constant().is_none()
        {
            self.infer_constant(field, &scalar.text());
        }
        Ok(())
    }

    /// That a value does not fit, and why.
    pub fn cannot_parse(&self, field: &Field, preview: &str, cause: Error) -> Error {
        let preview: String = preview.chars().take(PREVIEW_CHARS_MAX).collect();
        if cause.reason.starts_with("Document contains at least one immense term") {
            return cause;
        }
        Error::mapper_parsing(format!(
            "failed to parse field [{}] of type [{}] in document with id '{}'. Preview of field's \
             value: '{preview}'",
            field.path(),
            field.field_type().name(),
            self.id
        ))
        .caused_by(cause)
    }

    /// Adds the fields that a value is copied to and that the mapping does not have.
    fn infer_copies(&mut self, field: &Field, value: &Value) -> Result<(), Error> {
        let mapping = self.mapping;
        for path in field.copy_to() {
            if mapping.exact(path).is_none() && mapping.root().dynamic != Some(Dynamic::False) {
                infer::put(mapping, "", path, value, &mut self.added, false)?;
            }
        }
        Ok(())
    }

    fn infer_constant(&mut self, field: &Field, value: &str) {
        let Value::Object(mut body) = field.to_json() else { return };
        body.insert("value".to_owned(), Value::from(value));
        let (around, name) = field.path().rsplit_once('.').unwrap_or(("", field.path()));
        if let Some(added) = infer::inside(&mut self.added, self.mapping.root(), around) {
            added.insert(name.to_owned(), Value::Object(body));
        }
    }

    /// A field that the mapping does not have.
    pub fn unknown<'de, A: MapAccess<'de>>(
        &mut self,
        name: &str,
        dynamic: Dynamic,
        map: &mut A,
    ) -> Result<(), A::Error> {
        let strict = matches!(dynamic, Dynamic::Strict | Dynamic::StrictAllowTemplates);
        if !strict && (dynamic == Dynamic::False || !self.inferring) {
            return map.next_value::<IgnoredAny>().map(drop);
        }
        let refused = |walk: &Self| {
            let around = if walk.path.is_empty() { "_doc" } else { walk.path.as_str() };
            Error::invalid(
                "strict_dynamic_mapping_exception",
                format!(
                    "mapping set to strict, dynamic introduction of [{name}] within [{around}] is \
                     not allowed"
                ),
            )
        };
        if dynamic == Dynamic::Strict {
            let error = refused(self);
            return Err(self.stop(error));
        }
        let value: Value = map.next_value()?;
        let templates_only = dynamic != Dynamic::True;
        let mapping = self.mapping;
        let path = self.path.clone();
        let before = self.added.len();
        let put = match infer::inside(&mut self.added, mapping.root(), &path) {
            Some(added) => infer::put(mapping, &path, name, &value, added, templates_only)
                .map(|()| !added.is_empty()),
            None => Ok(before > 0),
        };
        match put {
            Ok(added) if strict && !added => {
                let error = refused(self);
                Err(self.stop(error))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(self.stop(error)),
        }
    }
}
