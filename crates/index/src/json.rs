//! JSON of others as values, with what is built counted while it is built: how many values there may
//! be, and whether there is memory for them. Who is asked for that is the caller's to say.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::Error;
use crate::aggregation::Memory;

/// After how many bytes memory is asked for.
const ASKED_BYTES: usize = 256 << 10;
/// What a value takes where it stands.
const VALUE_BYTES: usize = size_of::<Value>();
/// What an entry of an object takes beside its name and value: its hash and its place.
const ENTRY_BYTES: usize = size_of::<(String, u64, usize)>();
/// For how many values a list has places at first.
const PLACES_MIN: usize = 4;

/// Why JSON was not read.
#[derive(Debug)]
pub enum Unread {
    /// It is none.
    Broken(serde_json::Error),
    /// It has too many values, or there is no room for them.
    Refused(Error),
}

/// Reads JSON of at most `nodes_max` values and names of fields. `ask` is told of bytes that are
/// about to be built.
///
/// # Errors
/// Where it is not JSON, has more values, or `ask` refuses.
pub fn read(
    json: &[u8],
    nodes_max: usize,
    ask: &mut dyn FnMut(usize) -> Result<(), Error>,
) -> Result<Value, Unread> {
    let mut budget = Budget { ask, nodes: 0, nodes_max, unasked: 0, refused: None };
    let mut reader = serde_json::Deserializer::from_slice(json);
    let read = Seed(&mut budget, VALUE_BYTES).deserialize(&mut reader);
    let read = read.and_then(|value| reader.end().map(|()| value));
    match budget.refused {
        Some(error) => Err(Unread::Refused(error)),
        None => read.map_err(Unread::Broken),
    }
}

/// Reads JSON that was written here or on another node: however much it is, `memory` is asked for it.
///
/// # Errors
/// Those of `memory`, and 500 where it is not JSON.
pub(crate) fn read_own(json: &str, memory: &dyn Memory) -> Result<Value, Error> {
    let mut ask = |bytes: usize| memory.take(bytes as u64);
    read(json.as_bytes(), usize::MAX, &mut ask).map_err(|why| match why {
        Unread::Refused(error) => error,
        Unread::Broken(error) => Error::internal(error.to_string()),
    })
}

/// What one text has come to.
struct Budget<'a> {
    ask: &'a mut dyn FnMut(usize) -> Result<(), Error>,
    nodes: usize,
    nodes_max: usize,
    /// Bytes that were not asked for yet.
    unasked: usize,
    refused: Option<Error>,
}

impl Budget<'_> {
    /// Counts a value or a name and the bytes that it holds.
    fn take<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        self.nodes += 1;
        if self.nodes > self.nodes_max {
            let reason = format!(
                "the JSON has more than [{}] values and names of fields, the most that are taken",
                self.nodes_max
            );
            return self.refuse(Error::invalid("x_content_parse_exception", reason));
        }
        self.hold(bytes)
    }

    /// Counts bytes alone.
    fn hold<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        self.unasked += bytes;
        if self.unasked < ASKED_BYTES {
            return Ok(());
        }
        let asked = std::mem::take(&mut self.unasked);
        (self.ask)(asked).or_else(|error| self.refuse(error))
    }

    fn refuse<E: serde::de::Error>(&mut self, error: Error) -> Result<(), E> {
        self.refused = Some(error);
        Err(E::custom("refused"))
    }
}

/// One value, with all that lies in it; and what its place takes, if that was not asked for yet.
struct Seed<'b, 'a>(&'b mut Budget<'a>, usize);

impl<'de> DeserializeSeed<'de> for Seed<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Seed<'_, '_> {
    fn take<E: serde::de::Error>(&mut self, inner_bytes: usize) -> Result<(), E> {
        self.0.take(self.1 + inner_bytes)
    }
}

impl<'de> Visitor<'de> for Seed<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E: serde::de::Error>(mut self, value: bool) -> Result<Value, E> {
        self.take(0)?;
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(mut self, value: i64) -> Result<Value, E> {
        self.take(0)?;
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: serde::de::Error>(mut self, value: u64) -> Result<Value, E> {
        self.take(0)?;
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(mut self, value: f64) -> Result<Value, E> {
        self.take(0)?;
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: serde::de::Error>(mut self, value: &str) -> Result<Value, E> {
        self.take(value.len())?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: serde::de::Error>(mut self, value: String) -> Result<Value, E> {
        self.take(value.len())?;
        Ok(Value::String(value))
    }

    fn visit_unit<E: serde::de::Error>(mut self) -> Result<Value, E> {
        self.take(0)?;
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        self.take(0)?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Seed(self.0, 0))? {
            if list.len() == list.capacity() {
                // While a list grows, what it was and what it will be are both there: all of the
                // latter is asked for, and counts to the end.
                let more = list.len().max(PLACES_MIN);
                self.0.hold((list.len() + more) * VALUE_BYTES)?;
                list.reserve_exact(more);
            }
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        self.take(0)?;
        let mut object = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            self.0.take(ENTRY_BYTES + name.len())?;
            let value = entries.next_value_seed(Seed(self.0, VALUE_BYTES))?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(json: &str) -> Value {
        read(json.as_bytes(), usize::MAX, &mut |_| Ok(())).unwrap()
    }

    #[test]
    fn values_are_those_of_serde() {
        for json in [
            r#"{"a":[1,-2,3.5,1e300,true,null,"x\u00e9\n"],"b":{"c":{},"d":[]},"a":2}"#,
            "18446744073709551615",
            "123456789012345678901234567890",
            r#" "text" "#,
        ] {
            assert_eq!(whole(json), serde_json::from_str::<Value>(json).unwrap(), "{json}");
        }
        let broken = read(b"[1,]", usize::MAX, &mut |_| Ok(()));
        assert!(matches!(broken, Err(Unread::Broken(_))));
    }

    #[test]
    fn memory_is_asked_for_while_values_are_built() {
        let json = format!("[{}0]", "0,".repeat(1_000_000));
        let mut asked = 0;
        let refused = read(json.as_bytes(), usize::MAX, &mut |bytes| {
            asked += bytes;
            if asked < 8 << 20 { Ok(()) } else { Err(Error::overloaded("x", "full")) }
        });
        assert!(
            matches!(refused, Err(Unread::Refused(error)) if error.class == crate::ErrorClass::Overloaded)
        );
        assert!(asked < 17 << 20, "{asked}: what is refused is never built");
        let many = read(json.as_bytes(), 1_000, &mut |_| Ok(()));
        assert!(matches!(many, Err(Unread::Refused(error)) if error.reason.contains("[1000]")));
    }
}
