//! Mappings as clients send them, freed of what only older ones put around them. What a mapping means is the
//! index's.

use plimsoll_index::Error;
use plimsoll_index::mapping::check_supported;
use serde_json::Value;

/// A mapping without the one type that clients of before version 8 may put around it.
///
/// # Errors
/// 400 where it is not an object, or asks for a type that is not supported.
pub fn untyped(mapping: &Value) -> Result<&Value, Error> {
    let mapping = match mapping {
        Value::Object(object) => match (object.len(), object.get("_doc")) {
            (1, Some(inner @ Value::Object(_))) => inner,
            _ => mapping,
        },
        _ => return Err(Error::mapper_parsing("Failed to parse mapping: expected an object")),
    };
    check_supported(mapping)?;
    Ok(mapping)
}
