//! The walk through a document's JSON along the mapping: serde's visitors of objects and of values. What is done
//! with a value, and with a field that the mapping does not have, is `walk.rs`'s.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::Value;

use super::infer;
use super::leaf::{Leaf, Scalar};
use super::walk::{Sink, Walk};
use crate::Error;
use crate::geo::{GeoPoint, parse_points};
use crate::mapping::{Dynamic, Field, FieldType, Object, Property};

impl<'m, S: Sink> Walk<'m, S> {
    /// Walks through a whole source.
    pub fn run(&mut self, source: &[u8]) -> Result<(), Error> {
        let mut reader = serde_json::Deserializer::from_slice(source);
        let mapping = self.mapping;
        let root = mapping.root();
        let dynamic = infer::dynamic_of(root, Dynamic::True);
        let walked = if root.is_enabled() {
            ObjectSeed { walk: self, object: root, dynamic, is_root: true }.deserialize(&mut reader)
        } else {
            IgnoredAny::deserialize(&mut reader).map(drop)
        };
        walked.and_then(|()| reader.end()).map_err(|error| self.refusal(&error))
    }

    /// One property of an object.
    pub fn property<'de, A: MapAccess<'de>>(
        &mut self,
        object: &'m Object,
        dynamic: Dynamic,
        name: &str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        match object.properties.get(name) {
            Some(Property::Field(field)) => map.next_value_seed(FieldSeed { walk: self, field }),
            Some(Property::Object(inner)) if !inner.is_enabled() => {
                map.next_value::<IgnoredAny>().map(drop)
            }
            Some(Property::Object(inner)) => self.below(name, |walk| {
                let dynamic = infer::dynamic_of(inner, dynamic);
                map.next_value_seed(ObjectSeed { walk, object: inner, dynamic, is_root: false })
            }),
            None => match name.split_once('.') {
                // A name with dots is that of a field of an object.
                Some((first, rest)) => match object.properties.get(first) {
                    Some(Property::Object(inner)) if inner.is_enabled() => self
                        .below(first, |walk| {
                            walk.property(inner, infer::dynamic_of(inner, dynamic), rest, map)
                        }),
                    Some(Property::Object(_)) => map.next_value::<IgnoredAny>().map(drop),
                    Some(Property::Field(_)) => {
                        let path = self.whole_path(first);
                        let error = Error::mapper_parsing(format!(
                            "Could not dynamically add mapping for field [{name}]. Existing mapping \
                             for [{path}] must be of type object but found [{}].",
                            self.mapping.exact(&path).map_or("", |field| field.field_type().name())
                        ));
                        Err(self.stop(error))
                    }
                    None => self.unknown(name, dynamic, map),
                },
                None => self.unknown(name, dynamic, map),
            },
        }
    }
}

/// A key of an object, borrowed where it has no escapes.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(key)))
            }

            fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(key.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

/// The names of an object so far.
#[derive(Default)]
struct Seen {
    few: Vec<String>,
    many: HashSet<String>,
}

impl Seen {
    /// Whether the name came before; from now on it has.
    fn has_seen(&mut self, name: &str) -> bool {
        // Comparing with a few names is cheaper than hashing.
        const FEW: usize = 16;
        if self.few.iter().any(|seen| seen == name) {
            return true;
        }
        if self.few.len() < FEW {
            self.few.push(name.to_owned());
            return false;
        }
        !self.many.insert(name.to_owned())
    }
}

/// Names that a document cannot bring.
const METADATA: [&str; 9] = [
    "_id",
    "_index",
    "_routing",
    "_source",
    "_version",
    "_seq_no",
    "_field_names",
    "_ignored",
    "_primary_term",
];

/// An object of a document, or a list of them.
pub(super) struct ObjectSeed<'w, 'm, S> {
    pub walk: &'w mut Walk<'m, S>,
    pub object: &'m Object,
    pub dynamic: Dynamic,
    pub is_root: bool,
}

impl<'de, S: Sink> DeserializeSeed<'de> for ObjectSeed<'_, '_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<S: Sink> ObjectSeed<'_, '_, S> {
    fn concrete<E: de::Error>(self) -> Result<(), E> {
        let error = if self.is_root {
            Error::mapper_parsing("failed to parse").caused_by(Error::invalid(
                "not_x_content_exception",
                "Compressor detection can only be called on some xcontent bytes or compressed \
                 xcontent bytes",
            ))
        } else {
            let path = &self.walk.path;
            Error::mapper_parsing(format!(
                "object mapping for [{path}] tried to parse field [{}] as object, but found a \
                 concrete value",
                path.rsplit('.').next().unwrap_or(path)
            ))
        };
        Err(self.walk.stop(error))
    }
}

impl<'de, S: Sink> Visitor<'de> for ObjectSeed<'_, '_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = Seen::default();
        while let Some(Key(name)) = map.next_key()? {
            if self.walk.inferring && seen.has_seen(&name) {
                let cause =
                    Error::invalid("json_parse_exception", format!("Duplicate field '{name}'"));
                let error = Error::mapper_parsing("failed to parse").caused_by(cause);
                return Err(self.walk.stop(error));
            }
            if self.is_root && name.starts_with('_') && METADATA.contains(&name.as_ref()) {
                let error = Error::mapper_parsing(format!(
                    "Field [{name}] is a metadata field and cannot be added inside a document. Use \
                     the index API request parameters."
                ));
                return Err(self.walk.stop(error));
            }
            self.walk.property(self.object, self.dynamic, &name, &mut map)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if self.is_root {
            return self.concrete();
        }
        loop {
            let seed = ObjectSeed {
                walk: &mut *self.walk,
                object: self.object,
                dynamic: self.dynamic,
                is_root: false,
            };
            if list.next_element_seed(seed)?.is_none() {
                return Ok(());
            }
        }
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        if self.is_root { self.concrete() } else { Ok(()) }
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<(), E> {
        self.concrete()
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<(), E> {
        self.concrete()
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<(), E> {
        self.concrete()
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<(), E> {
        self.concrete()
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<(), E> {
        self.concrete()
    }
}

/// A value of a field, or a list of them.
pub(super) struct FieldSeed<'w, 'm, S> {
    pub walk: &'w mut Walk<'m, S>,
    pub field: &'m Field,
}

impl<'de, S: Sink> DeserializeSeed<'de> for FieldSeed<'_, '_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.field.field_type() {
            FieldType::GeoPoint => {
                let value = Value::deserialize(deserializer)?;
                self.points(&value)
            }
            FieldType::Flattened => {
                let value = Value::deserialize(deserializer)?;
                self.flattened(&value)
            }
            _ => deserializer.deserialize_any(self),
        }
    }
}

/// The places of a value.
fn points_on_earth(value: &Value) -> Result<Vec<GeoPoint>, Error> {
    let points = parse_points(value);
    let points = points.map_err(|reason| Error::invalid("parse_exception", reason))?;
    match points.iter().find_map(|point| point.check().err()) {
        Some(reason) => Err(Error::illegal_argument(reason)),
        None => Ok(points),
    }
}

impl<S: Sink> FieldSeed<'_, '_, S> {
    fn scalar<E: de::Error>(self, scalar: Scalar<'_>) -> Result<(), E> {
        self.walk.scalar(self.field, scalar).map_err(|error| self.walk.stop(error))
    }

    fn points<E: de::Error>(self, value: &Value) -> Result<(), E> {
        let (walk, field) = (self.walk, self.field);
        let value = if value.is_null() { field.null_value().unwrap_or(value) } else { value };
        let points = match points_on_earth(value) {
            Ok(points) => points,
            Err(_) if field.ignores_malformed() => {
                walk.sink.ignored(field.path());
                return Ok(());
            }
            Err(cause) => {
                // Elasticsearch does not say which value it was.
                let error = Error::mapper_parsing(format!(
                    "failed to parse field [{}] of type [geo_point]",
                    field.path()
                ));
                return Err(walk.stop(error.caused_by(cause)));
            }
        };
        let mapping = walk.mapping;
        for GeoPoint { lat, lon } in points {
            let leaf = || Leaf::Point { latitude: lat, longitude: lon };
            walk.sink.leaf(field, leaf());
            for ordinal in field.copy_ordinals() {
                let target = mapping.by_ordinal(*ordinal);
                if target.field_type() == FieldType::GeoPoint {
                    walk.sink.leaf(target, leaf());
                }
            }
            let text = format!("{lat},{lon}");
            for (_, inner) in field.fields() {
                if inner.field_type() != FieldType::GeoPoint {
                    walk.one(inner, Scalar::Text(&text)).map_err(|error| walk.stop(error))?;
                }
            }
        }
        Ok(())
    }

    /// The leaves of an object that is kept as keywords.
    fn flattened<E: de::Error>(self, value: &Value) -> Result<(), E> {
        let mut rest = vec![value];
        while let Some(value) = rest.pop() {
            match value {
                Value::Object(inner) => rest.extend(inner.values()),
                Value::Array(all) => rest.extend(all),
                scalar => {
                    if let Some(scalar) = Scalar::of(scalar) {
                        let one = self.walk.one(self.field, scalar);
                        one.map_err(|error| self.walk.stop(error))?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl<'de, S: Sink> Visitor<'de> for FieldSeed<'_, '_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        self.scalar(Scalar::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        self.scalar(Scalar::Signed(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        self.scalar(i64::try_from(value).map_or(Scalar::Unsigned(value), Scalar::Signed))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        self.scalar(Scalar::Float(value))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        let kind = self.field.field_type();
        // As Elasticsearch has it: a number that may come as a string is none where that is empty.
        if text.is_empty() && self.field.coerces() && (kind.is_integer() || kind.is_float()) {
            return self.visit_unit();
        }
        self.scalar(Scalar::Text(text))
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        let null_value = self.field.null_value();
        match null_value.and_then(Scalar::of) {
            Some(scalar) => {
                self.walk.one(self.field, scalar).map_err(|error| self.walk.stop(error))
            }
            None => Ok(()),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let (walk, field) = (self.walk, self.field);
        while list.next_element_seed(FieldSeed { walk: &mut *walk, field })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let value = Value::deserialize(de::value::MapAccessDeserializer::new(map))?;
        let (walk, field) = (self.walk, self.field);
        if field.ignores_malformed() {
            walk.sink.ignored(field.path());
            return Ok(());
        }
        let kind = field.field_type();
        let cause = if kind.is_integer() || kind.is_float() {
            let reason = "Cannot parse object as number".to_owned();
            Error::illegal_argument(reason)
        } else {
            let reason = "Can't get text on a START_OBJECT".to_owned();
            Error::invalid("illegal_state_exception", reason)
        };
        let error = walk.cannot_parse(field, &java_map(&value), cause);
        Err(walk.stop(error))
    }
}

/// An object as Java prints a map: `{a=1, b=[2]}`.
fn java_map(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => {
            format!("[{}]", all.iter().map(java_map).collect::<Vec<_>>().join(", "))
        }
        Value::Object(all) => {
            let all = all.iter().map(|(name, value)| format!("{name}={}", java_map(value)));
            format!("{{{}}}", all.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}
