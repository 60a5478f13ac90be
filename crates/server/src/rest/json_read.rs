//! JSON that clients send, as values. Everything that is built from it is counted while it is
//! built ([`plimsoll_index::json`]): the values have a limit, and the request's account is asked for
//! their bytes, so that a small body (or a compressed one) cannot become more memory than there is.
//!
//! How deep values lie in each other is the parser's own limit, 128. What a body may have in bytes is
//! [`super::body`]'s concern, what its values mean everybody else's.

use std::collections::BTreeMap;
use std::fmt;

use plimsoll_cluster::{refused, stopped};
use plimsoll_index::Error;
use plimsoll_index::json::{Unread, read};
use plimsoll_memory::breakers::{is_parent_full, parent_trip};
use plimsoll_memory::{Account, Standing, current};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::json_error::json_error;

/// The most values, names of fields included, in one body.
pub const NODES_MAX: usize = 1_000_000;
/// The same for what only the cluster's own requests have, which no breaker stops.
const NODES_MAX_CONTROL: usize = 200_000;
/// The most fields of an object whose fields are all known.
const FIELDS_MAX: usize = 64;

/// Reads JSON.
///
/// # Errors
/// 400 where it is none or has more than [`NODES_MAX`] values; 429 where there is no room for
/// them.
pub fn value(json: &[u8]) -> Result<Value, Error> {
    let account = current();
    let is_control = account.as_ref().is_some_and(|it| it.standing() == Standing::Control);
    let nodes_max = if is_control { NODES_MAX_CONTROL } else { NODES_MAX };
    let mut ask = |bytes| account.as_ref().map_or(Ok(()), |account| ask_of(account, bytes));
    read(json, nodes_max, &mut ask).map_err(|why| match why {
        Unread::Broken(error) => json_error(json, &error),
        Unread::Refused(error) => error,
    })
}

/// Reads a JSON object.
///
/// # Errors
/// As [`value`]; 400 also where it is something else.
pub fn object(json: &[u8]) -> Result<Map<String, Value>, Error> {
    match value(json)? {
        Value::Object(object) => Ok(object),
        _ => Err(Error::invalid(
            "x_content_parse_exception",
            "[1:1] invalid type: expected an object",
        )),
    }
}

/// The fields of an object, each as it was written, where every field is one of a few.
///
/// # Errors
/// 400 where it is no object in JSON or has more than [`FIELDS_MAX`] fields.
pub fn fields(json: &[u8]) -> Result<BTreeMap<String, Box<RawValue>>, Error> {
    super::json_error::from_json::<Fields>(json).map(|Fields(fields)| fields)
}

/// Asks for bytes that are about to be allocated beside what is counted here.
///
/// # Errors
/// 429 where there is no room.
pub fn ask(bytes: usize) -> Result<(), Error> {
    current().map_or(Ok(()), |account| ask_of(&account, bytes))
}

fn ask_of(account: &Account, bytes: usize) -> Result<(), Error> {
    // Nobody may stop an operator, but no request of theirs needs more memory than there is.
    if account.standing() == Standing::Control && is_parent_full(bytes) {
        return Err(refused(&parent_trip("<http_request>")));
    }
    account.ask(bytes as u64).map_err(|stop| stopped(&stop))
}

struct Fields(BTreeMap<String, Box<RawValue>>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Known;
        impl<'de> Visitor<'de> for Known {
            type Value = Fields;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Fields, A::Error> {
                let mut fields = BTreeMap::new();
                while let Some((name, value)) = entries.next_entry()? {
                    fields.insert(name, value);
                    if fields.len() > FIELDS_MAX {
                        let words = format!("more than {FIELDS_MAX} fields");
                        return Err(serde::de::Error::custom(words));
                    }
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::http_status::HttpStatus;
    use plimsoll_memory::TaskAction;

    #[test]
    fn what_is_no_json_is_said_in_elasticsearchs_words() {
        for (broken, kind) in [
            ("{\"a\":", "json_e_o_f_exception"),
            ("[1,]", "json_parse_exception"),
            ("{} x", "json_parse_exception"),
            ("", "json_e_o_f_exception"),
        ] {
            assert_eq!(value(broken.as_bytes()).unwrap_err().kind, kind, "{broken}");
        }
        assert!(object(b"{}").is_ok() && object(b"[]").is_err());
        assert!(value("[".repeat(200).as_bytes()).unwrap_err().reason.contains("recursion"));
    }

    #[test]
    fn values_are_counted_while_they_are_built() {
        let zeros = |count: usize| format!("[{}0]", "0,".repeat(count - 1));
        assert!(value(zeros(NODES_MAX - 1).as_bytes()).is_ok());
        // The text behind the limit is not looked at any more.
        let many = zeros(NODES_MAX + 1).replace(']', "}");
        let refused = value(many.as_bytes()).unwrap_err();
        assert_eq!((refused.status(), refused.kind.as_ref()), (400, "x_content_parse_exception"));
        assert!(refused.reason.contains("[1000000] values"), "{}", refused.reason);
        let action = TaskAction {
            name: "cluster:admin/change",
            description: String::new(),
            standing: Standing::Control,
            opaque_id: None,
        };
        let control = Account::open(action);
        let read = control.work(|| value(zeros(NODES_MAX_CONTROL + 1).as_bytes()));
        assert_eq!(read.unwrap_err().status(), 400);
    }

    #[test]
    fn a_request_that_was_told_to_stop_reads_no_further() {
        let action = TaskAction {
            name: "indices:data/read/search",
            description: String::new(),
            standing: Standing::Read,
            opaque_id: None,
        };
        let account = Account::open(action);
        let list = format!("[{}0]", "0,".repeat(100_000));
        assert!(account.work(|| value(list.as_bytes())).is_ok());
        account.stop(plimsoll_memory::Stop::Cancelled("by hand".to_owned()));
        assert!(account.work(|| value(list.as_bytes())).is_err());
    }

    #[test]
    fn objects_of_known_fields_are_small() {
        assert_eq!(fields(br#"{"doc":{"a":[1]},"x":1}"#).unwrap().len(), 2);
        let many: Vec<String> = (0..100).map(|number| format!("\"{number}\":1")).collect();
        let refused = fields(format!("{{{}}}", many.join(",")).as_bytes()).unwrap_err();
        assert!(refused.reason.contains("64 fields"), "{}", refused.reason);
    }
}
