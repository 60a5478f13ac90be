//! Options of a request, read as strictly as Elasticsearch reads them.

use serde_json::Value;

use crate::query::parse::as_text;
use crate::query::problem::{Parsed, Problem};

pub(super) const fn token(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "START_OBJECT",
        Value::Array(_) => "START_ARRAY",
        Value::Null => "VALUE_NULL",
        Value::Bool(_) => "VALUE_BOOLEAN",
        Value::Number(_) => "VALUE_NUMBER",
        Value::String(_) => "VALUE_STRING",
    }
}

pub(super) fn whole(key: &str, value: &Value) -> Parsed<usize> {
    let number = match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let number = number.ok_or_else(|| {
        let reason = format!("Failed to parse value [{}] for [{key}]", as_text(value));
        Problem::illegal(reason)
    })?;
    usize::try_from(number).map_err(|_| {
        let reason = format!("[{key}] parameter cannot be negative, found [{number}]");
        Problem::illegal(reason)
    })
}

#[expect(clippy::cast_possible_truncation, reason = "scores are floats of 32 bits")]
pub(super) fn float(key: &str, value: &Value) -> Parsed<f32> {
    value.as_f64().map(|number| number as f32).ok_or_else(|| {
        let reason = format!("Failed to parse value [{}] for [{key}]", as_text(value));
        Problem::illegal(reason)
    })
}

pub(super) fn flag(key: &str, value: &Value) -> Parsed<bool> {
    match value {
        Value::Bool(flag) => Ok(*flag),
        Value::String(text) if text == "true" => Ok(true),
        Value::String(text) if text == "false" => Ok(false),
        _ => Err(Problem::illegal(format!(
            "Failed to parse value [{}] for [{key}] as only [true] or [false] are allowed.",
            as_text(value)
        ))),
    }
}
