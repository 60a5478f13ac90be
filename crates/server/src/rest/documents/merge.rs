//! A partial document put into a document. It works on the bytes: values that are not changed
//! stay as they were written.

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

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
/// Where one of them is not an object in JSON.
pub fn merge(source: &str, partial: &str) -> Result<Option<String>, serde_json::Error> {
    let mut object: Object = serde_json::from_str(source)?;
    let partial: Object = serde_json::from_str(partial)?;
    if object.take(partial)? { serde_json::to_string(&object).map(Some) } else { Ok(None) }
}

impl Object {
    /// Takes over fields; false where that changes nothing.
    fn take(&mut self, partial: Self) -> Result<bool, serde_json::Error> {
        let mut has_changed = false;
        for (name, value) in partial.0 {
            let Some((_, own)) = self.0.iter_mut().find(|(known, _)| *known == name) else {
                self.0.push((name, value));
                has_changed = true;
                continue;
            };
            if own.get().starts_with('{') && value.get().starts_with('{') {
                if let Some(merged) = merge(own.get(), value.get())? {
                    *own = RawValue::from_string(merged)?;
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

fn is_same(one: &RawValue, other: &RawValue) -> Result<bool, serde_json::Error> {
    if one.get() == other.get() {
        return Ok(true);
    }
    // Numbers that are written differently differ, as 1 and 1.0 do in Elasticsearch.
    let parse = |raw: &RawValue| serde_json::from_str::<Value>(raw.get());
    Ok(parse(one)? == parse(other)?)
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
