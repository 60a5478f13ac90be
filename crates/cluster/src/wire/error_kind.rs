//! A kind of refusal in a message: its stored name, as text.

use plimsoll_storage::ErrorKind;
use serde::{Deserialize, Deserializer, Serializer};

pub(super) fn serialize<S: Serializer>(kind: &ErrorKind, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(kind.stored_name())
}

pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<ErrorKind, D::Error> {
    Ok(ErrorKind::of_stored_name(&String::deserialize(from)?))
}
