//! The options of one aggregation, taken one by one; what is left at the end is unknown.

use serde_json::{Map, Value};

use super::ast::Source;
use crate::Error;

/// How many ranges, filters, sources or listed terms one aggregation may name.
pub(super) const LIST_MAX: usize = 65_536;

/// The options that were not taken yet.
pub(super) struct Options<'a> {
    /// The aggregation's name.
    pub(super) name: &'a str,
    /// Its kind.
    pub(super) kind: &'a str,
    left: Map<String, Value>,
}

/// What a JSON value starts with, in the words of Elasticsearch's errors.
pub(super) fn token(value: &Value) -> &'static str {
    match value {
        Value::Null => "VALUE_NULL",
        Value::Bool(_) => "VALUE_BOOLEAN",
        Value::Number(_) => "VALUE_NUMBER",
        Value::String(_) => "VALUE_STRING",
        Value::Array(_) => "START_ARRAY",
        Value::Object(_) => "START_OBJECT",
    }
}

impl<'a> Options<'a> {
    pub(super) fn new(name: &'a str, kind: &'a str, body: &Value) -> Result<Self, Error> {
        let Value::Object(map) = body else {
            return Err(Error::parsing(format!(
                "Expected [START_OBJECT] under [{kind}], but got a [{}] in [{name}]",
                token(body)
            )));
        };
        Ok(Self { name, kind, left: map.clone() })
    }

    /// Takes an option; an explicit null is as if it were not there.
    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        // The order of what is left does not matter: it is only named in an error.
        self.left.swap_remove(key).filter(|value| !value.is_null())
    }

    /// An error about one option's value.
    pub(super) fn bad(&self, key: &str) -> Error {
        Error::invalid(
            "x_content_parse_exception",
            format!("[{}] failed to parse field [{key}]", self.kind),
        )
    }

    pub(super) fn string(&mut self, key: &str) -> Result<Option<String>, Error> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(other) => Err(Error::invalid(
                "x_content_parse_exception",
                format!("[{}] {key} doesn't support values of type: {}", self.kind, token(&other)),
            )),
        }
    }

    pub(super) fn bool(&mut self, key: &str, default: bool) -> Result<bool, Error> {
        match self.take(key) {
            None => Ok(default),
            Some(Value::Bool(value)) => Ok(value),
            Some(Value::String(text)) if text == "true" => Ok(true),
            Some(Value::String(text)) if text == "false" => Ok(false),
            Some(_) => Err(self.bad(key)),
        }
    }

    pub(super) fn f64(&mut self, key: &str) -> Result<Option<f64>, Error> {
        match self.take(key) {
            None => Ok(None),
            Some(value) => number(&value)
                .filter(|value| value.is_finite())
                .map(Some)
                .ok_or_else(|| self.bad(key)),
        }
    }

    pub(super) fn u64(&mut self, key: &str) -> Result<Option<u64>, Error> {
        match self.i64(key)? {
            None => Ok(None),
            Some(value) => u64::try_from(value).map(Some).map_err(|_| {
                Error::illegal_argument(format!(
                    "[{key}] must be greater than or equal to 0. Found [{value}] in [{}]",
                    self.name
                ))
            }),
        }
    }

    pub(super) fn i64(&mut self, key: &str) -> Result<Option<i64>, Error> {
        match self.take(key) {
            None => Ok(None),
            Some(value) => integer(&value).map(Some).ok_or_else(|| self.bad(key)),
        }
    }

    /// A count that has to be at least one, at most `i32::MAX` (as in Elasticsearch).
    pub(super) fn positive(&mut self, key: &str) -> Result<Option<usize>, Error> {
        match self.i64(key)? {
            None => Ok(None),
            Some(value) if value <= 0 => Err(Error::illegal_argument(format!(
                "[{key}] must be greater than 0. Found [{value}] in [{}]",
                self.name
            ))),
            Some(value) => i32::try_from(value)
                .ok()
                .and_then(|value| usize::try_from(value).ok())
                .map(Some)
                .ok_or_else(|| self.bad(key)),
        }
    }

    pub(super) fn list(&mut self, key: &str) -> Result<Option<Vec<Value>>, Error> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(_) => Err(self.bad(key)),
        }
    }

    pub(super) fn object(&mut self, key: &str) -> Result<Option<Map<String, Value>>, Error> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(_) => Err(self.bad(key)),
        }
    }

    pub(super) fn required_field(&mut self) -> Result<String, Error> {
        self.refuse("script")?;
        self.string("field")?.ok_or_else(|| {
            Error::illegal_argument(
                "Required one of fields [field, script], but none were specified. ",
            )
        })
    }

    /// `field` with the options that every aggregation on values has.
    pub(super) fn source(&mut self) -> Result<Source, Error> {
        let field = self.required_field()?;
        self.take("value_type");
        self.take("execution_hint");
        Ok(Source {
            field,
            missing: self.take("missing"),
            format: self.string("format")?,
            zone: self.string("time_zone")?,
        })
    }

    /// An option that Elasticsearch has and this engine has not.
    pub(super) fn refuse(&mut self, key: &str) -> Result<(), Error> {
        if self.take(key).is_some() {
            return Err(Error::illegal_argument(format!(
                "[{key}] is not supported in [{}] aggregation [{}]",
                self.kind, self.name
            )));
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<(), Error> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(key) => Err(Error::invalid(
                "x_content_parse_exception",
                format!("[{}] unknown field [{key}]", self.kind),
            )),
        }
    }
}

/// A number, also one that is written as a string.
pub(crate) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// A whole number, also one that is written as a string or with a fraction of zero.
pub(super) fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| whole(number.as_f64()?)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn whole(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && value.abs() < 9e15).then_some(value as i64)
}
