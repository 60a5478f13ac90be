//! A partial document put into a document. It works on the bytes: values that are not changed
//! stay as they were written.

use std::collections::HashMap;

use plimsoll_index::Error;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::rest::json_error::json_error;
use crate::rest::json_read;

/// What an object's field takes beside its bytes: the name and the value as blocks of their own.
const FIELD_BYTES: usize = 128;

/// An object's fields in their order, each as it was written.
#[derive(Debug, Default)]
struct Object(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Object;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Object, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Object(fields))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// The document with the partial one in it: objects are merged field by field, all else is
/// replaced. None where it comes to the same document.
///
/// # Errors
/// 400 where one of them is not an object in JSON, 429 where there is no room for both.
pub fn merge(source: &str, partial: &str) -> Result<Option<String>, Error> {
    let mut object = Object::parse(source)?;
    if !object.take(Object::parse(partial)?)? {
        return Ok(None);
    }
    serde_json::to_string(&object).map(Some).map_err(|error| Error::internal(error.to_string()))
}

impl Object {
    fn parse(text: &str) -> Result<Self, Error> {
        let fields = memchr::memchr_iter(b':', text.as_bytes()).count();
        json_read::ask(text.len() + fields * FIELD_BYTES)?;
        serde_json::from_str(text).map_err(|error| {
            let cause = json_error(text.as_bytes(), &error);
            Error::mapper_parsing("failed to parse").caused_by(cause)
        })
    }

    /// Takes over fields; false where that changes nothing.
    fn take(&mut self, partial: Self) -> Result<bool, Error> {
        let mut has_changed = false;
        // The first of two of the same name counts.
        let mut places: HashMap<String, usize> = HashMap::with_capacity(self.0.len());
        for (at, (name, _)) in self.0.iter().enumerate() {
            places.entry(name.clone()).or_insert(at);
        }
        for (name, value) in partial.0 {
            let Some((_, own)) = places.get(&name).and_then(|at| self.0.get_mut(*at)) else {
                places.insert(name.clone(), self.0.len());
                self.0.push((name, value));
                has_changed = true;
                continue;
            };
            if own.get().starts_with('{') && value.get().starts_with('{') {
                if let Some(merged) = merge(own.get(), value.get())? {
                    let merged = RawValue::from_string(merged);
                    *own = merged.map_err(|error| Error::internal(error.to_string()))?;
                    has_changed = true;
                }
            } else if !is_same(own, &value)? {
                *own = value;
                has_changed = true;
            }
        }
        Ok(has_changed)
    }
}

fn is_same(one: &RawValue, other: &RawValue) -> Result<bool, Error> {
    if one.get() == other.get() {
        return Ok(true);
    }
    // Numbers that are written differently differ, as 1 and 1.0 do in Elasticsearch.
    let has_numbers = |raw: &RawValue| !raw.get().starts_with('"');
    if has_numbers(one) != has_numbers(other) {
        return Ok(false);
    }
    Ok(json_read::value(one.get().as_bytes())? == json_read::value(other.get().as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::merge;

    #[test]
    fn partial_documents() {
        let source = r#"{"a": 1.10, "o": {"x": 1, "y": [1]}, "s": "t"}"#;
        for (partial, expected) in [
            (r#"{"a": 1.10}"#, None),
            (r#"{"o": {"x": 1}}"#, None),
            (r#"{"s": "\u0074"}"#, None),
            (r#"{"o": {"x": 2}}"#, Some(r#"{"a":1.10,"o":{"x":2,"y":[1]},"s":"t"}"#)),
            (r#"{"o": 1, "n": null}"#, Some(r#"{"a":1.10,"o":1,"s":"t","n":null}"#)),
            (r#"{"o": {"y": []}}"#, Some(r#"{"a":1.10,"o":{"x":1,"y":[]},"s":"t"}"#)),
        ] {
            assert_eq!(merge(source, partial).unwrap().as_deref(), expected, "{partial}");
        }
        assert!(merge("[]", "{}").is_err() && merge("{}", "1").is_err());
    }
}
