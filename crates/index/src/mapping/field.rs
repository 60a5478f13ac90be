//! One field of a mapping: its type and parameters.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::date::DateFormat;
use crate::analysis::Analyzer;

/// A field's type. Object and nested are not here: they hold fields and have no values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is named as Elasticsearch's documentation names it")]
pub enum FieldType {
    Text,
    MatchOnlyText,
    Keyword,
    Wildcard,
    ConstantKeyword,
    Flattened,
    Long,
    Integer,
    Short,
    Byte,
    UnsignedLong,
    Double,
    Float,
    HalfFloat,
    ScaledFloat,
    Boolean,
    Date,
    DateNanos,
    Ip,
    GeoPoint,
    Binary,
    Alias,
}

/// Every type by its name in a mapping.
const NAMES: [(FieldType, &str); 22] = [
    (FieldType::Text, "text"),
    (FieldType::MatchOnlyText, "match_only_text"),
    (FieldType::Keyword, "keyword"),
    (FieldType::Wildcard, "wildcard"),
    (FieldType::ConstantKeyword, "constant_keyword"),
    (FieldType::Flattened, "flattened"),
    (FieldType::Long, "long"),
    (FieldType::Integer, "integer"),
    (FieldType::Short, "short"),
    (FieldType::Byte, "byte"),
    (FieldType::UnsignedLong, "unsigned_long"),
    (FieldType::Double, "double"),
    (FieldType::Float, "float"),
    (FieldType::HalfFloat, "half_float"),
    (FieldType::ScaledFloat, "scaled_float"),
    (FieldType::Boolean, "boolean"),
    (FieldType::Date, "date"),
    (FieldType::DateNanos, "date_nanos"),
    (FieldType::Ip, "ip"),
    (FieldType::GeoPoint, "geo_point"),
    (FieldType::Binary, "binary"),
    (FieldType::Alias, "alias"),
];

impl FieldType {
    /// The type of this name; OpenSearch's `flat_object` is Elasticsearch's `flattened`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        if name == "flat_object" {
            return Some(Self::Flattened);
        }
        NAMES.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }

    /// Its name in a mapping.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// Whether its values are whole numbers.
    #[must_use]
    pub fn is_integer(self) -> bool {
        matches!(self, Self::Long | Self::Integer | Self::Short | Self::Byte | Self::UnsignedLong)
    }

    /// Whether its values are numbers with a fraction.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, Self::Double | Self::Float | Self::HalfFloat | Self::ScaledFloat)
    }

    /// Whether its values are text that is analyzed.
    #[must_use]
    pub fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::MatchOnlyText)
    }
}

/// One field: what its values are and how they are kept.
#[derive(Clone, Debug)]
pub struct Field {
    pub(super) path: String,
    pub(super) ordinal: usize,
    pub(super) kind: FieldType,
    /// What the mapping says, as it is shown again.
    pub(super) body: Map<String, Value>,
    pub(super) index: bool,
    pub(super) doc_values: bool,
    pub(super) norms: bool,
    pub(super) positions: bool,
    pub(super) frequencies: bool,
    pub(super) coerce: bool,
    pub(super) ignore_malformed: bool,
    pub(super) ignore_above: Option<usize>,
    pub(super) null_value: Option<Value>,
    /// The value of a `constant_keyword`.
    pub(super) constant: Option<String>,
    pub(super) scaling_factor: f64,
    pub(super) date_format: Option<Arc<DateFormat>>,
    pub(super) analyzer: Analyzer,
    pub(super) search_analyzer: Analyzer,
    pub(super) normalizer: Option<Analyzer>,
    pub(super) copy_to: Vec<String>,
    pub(super) alias_of: Option<String>,
    /// Its multi-fields by their own names.
    pub(super) fields: BTreeMap<String, Arc<Field>>,
    /// The ordinals of the fields that its values are copied to.
    pub(super) copy_ordinals: Vec<usize>,
}

impl Field {
    /// The whole dotted path, such as `user.name.raw`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its type.
    #[must_use]
    pub fn field_type(&self) -> FieldType {
        self.kind
    }

    /// Whether it can be searched (`index`).
    #[must_use]
    pub fn is_indexed(&self) -> bool {
        self.index
    }

    /// Whether its values have a column (`doc_values`).
    #[must_use]
    pub fn doc_values(&self) -> bool {
        self.doc_values
    }

    /// Whether the lengths of its texts are kept.
    #[must_use]
    pub fn norms(&self) -> bool {
        self.norms
    }

    /// Whether the positions of its terms are kept.
    #[must_use]
    pub fn positions(&self) -> bool {
        self.positions
    }

    /// The most characters that a keyword is indexed with; longer ones are left out.
    #[must_use]
    pub fn ignore_above(&self) -> Option<usize> {
        self.ignore_above
    }

    /// Of how many parts one is, for `scaled_float`; else 1.
    #[must_use]
    pub fn scaling_factor(&self) -> f64 {
        self.scaling_factor
    }

    /// How dates are written, for `date` and `date_nanos`.
    #[must_use]
    pub fn date_format(&self) -> Option<&Arc<DateFormat>> {
        self.date_format.as_ref()
    }

    /// Makes terms of documents.
    #[must_use]
    pub fn analyzer(&self) -> &Analyzer {
        &self.analyzer
    }

    /// Makes terms of queries.
    #[must_use]
    pub fn search_analyzer(&self) -> &Analyzer {
        &self.search_analyzer
    }

    /// What keyword values go through.
    #[must_use]
    pub fn normalizer(&self) -> Option<&Analyzer> {
        self.normalizer.as_ref()
    }

    /// The multi-fields, by their own names.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Arc<Field>)> {
        self.fields.iter().map(|(name, field)| (name.as_str(), field))
    }

    /// The value that stands for `null`.
    #[must_use]
    pub fn null_value(&self) -> Option<&Value> {
        self.null_value.as_ref()
    }

    /// The path that an alias stands for.
    #[must_use]
    pub fn alias_of(&self) -> Option<&str> {
        self.alias_of.as_deref()
    }

    /// What the mapping says of it: `{"type": …, …}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut body = self.body.clone();
        if !self.fields.is_empty() {
            let fields = self.fields.iter().map(|(name, field)| (name.clone(), field.to_json()));
            body.insert("fields".to_owned(), Value::Object(fields.collect()));
        }
        Value::Object(body)
    }

    /// Whether text is read as a number, and a fraction cut off (`coerce`).
    pub(crate) fn coerces(&self) -> bool {
        self.coerce
    }

    /// Whether a value that cannot be read is left out (`ignore_malformed`).
    pub(crate) fn ignores_malformed(&self) -> bool {
        self.ignore_malformed
    }

    /// The value of a `constant_keyword`.
    pub(crate) fn constant(&self) -> Option<&str> {
        self.constant.as_deref()
    }

    /// The paths that its values are copied to.
    pub(crate) fn copy_to(&self) -> &[String] {
        &self.copy_to
    }

    /// The ordinals of those of them that the mapping has.
    pub(crate) fn copy_ordinals(&self) -> &[usize] {
        &self.copy_ordinals
    }

    /// Its place in [`super::Mapping::fields`].
    pub(crate) fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// Whether the index keeps anything of it.
    pub(crate) fn has_slot(&self) -> bool {
        match self.kind {
            FieldType::Alias => false,
            FieldType::Text | FieldType::MatchOnlyText => self.index,
            FieldType::Binary => true,
            _ => self.index || self.doc_values,
        }
    }

    /// Whether its terms have postings. Numbers with fractions, dates and points are searched by
    /// range, which their columns answer; those without a column need postings after all.
    pub(crate) fn postings(&self) -> bool {
        let by_column =
            self.kind.is_float() || matches!(self.kind, FieldType::Date | FieldType::DateNanos);
        match self.kind {
            FieldType::GeoPoint | FieldType::Binary | FieldType::Alias => false,
            _ => self.index && !(by_column && self.doc_values),
        }
    }

    /// What decides how it is indexed; see `Layout`.
    pub(crate) fn signature(&self) -> String {
        let flag = |on: bool, flag: &'static str| if on { flag } else { "" };
        let stored_as = match self.kind {
            FieldType::Text | FieldType::MatchOnlyText => {
                return format!(
                    "text{}{}{}:{}",
                    flag(self.positions, ":p"),
                    flag(self.frequencies, ":f"),
                    flag(self.norms, ":n"),
                    self.analyzer.fingerprint().replace(':', ";"),
                );
            }
            FieldType::Keyword
            | FieldType::Wildcard
            | FieldType::ConstantKeyword
            | FieldType::Flattened => {
                let normalizer = self.normalizer.as_ref().map_or("", Analyzer::fingerprint);
                return format!(
                    "keyword{}{}:{}",
                    flag(self.postings(), ":i"),
                    flag(self.doc_values, ":d"),
                    normalizer.replace(':', ";"),
                );
            }
            FieldType::Long | FieldType::Integer | FieldType::Short | FieldType::Byte => "long",
            FieldType::Date | FieldType::DateNanos => "long",
            FieldType::UnsignedLong | FieldType::Boolean => "unsigned",
            FieldType::Double
            | FieldType::Float
            | FieldType::HalfFloat
            | FieldType::ScaledFloat => "double",
            FieldType::Ip => "ip",
            FieldType::GeoPoint => return "geo:d".to_owned(),
            FieldType::Binary | FieldType::Alias => return "none".to_owned(),
        };
        format!("{stored_as}{}{}", flag(self.postings(), ":i"), flag(self.doc_values, ":d"))
    }
}
