//! The one error of everything that REST answers, in Elasticsearch's words: a status, a type, a
//! reason, what it concerns and what caused it. How it is sent is the server's.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Why a request, or one item of it, is not answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Error {
    /// The HTTP status: 400 to 599.
    pub status: u16,
    /// Elasticsearch's name of the kind, such as `mapper_parsing_exception`.
    pub kind: Cow<'static, str>,
    /// What is wrong, for people.
    pub reason: String,
    /// What else the object says: `index`, `index_uuid`, `line`, `col`, `resource.type` and so on.
    pub extra: Map<String, Value>,
    /// The root cause, where it is another than this error.
    pub root: Option<Box<Error>>,
    /// What caused it.
    pub caused_by: Option<Box<Error>>,
}

impl Error {
    /// An error of any kind.
    #[must_use]
    pub fn new(status: u16, kind: &'static str, reason: impl ToString) -> Self {
        Self {
            status,
            kind: Cow::Borrowed(kind),
            reason: reason.to_string(),
            extra: Map::new(),
            root: None,
            caused_by: None,
        }
    }

    /// 400 `illegal_argument_exception`.
    #[must_use]
    pub fn illegal_argument(reason: impl ToString) -> Self {
        Self::new(400, "illegal_argument_exception", reason)
    }

    /// 400 where a setting or parameter is no time.
    #[must_use]
    pub fn no_duration(setting: &str, text: &str) -> Self {
        Self::illegal_argument(format!(
            "failed to parse setting [{setting}] with value [{text}] as a time value: unit is missing or unrecognized"
        ))
    }

    /// 400 `parsing_exception`.
    #[must_use]
    pub fn parsing(reason: impl ToString) -> Self {
        Self::new(400, "parsing_exception", reason)
    }

    /// 400 `mapper_parsing_exception`.
    #[must_use]
    pub fn mapper_parsing(reason: impl ToString) -> Self {
        Self::new(400, "mapper_parsing_exception", reason)
    }

    /// 500: the fault is the node's own, such as a disk that fails.
    #[must_use]
    pub fn internal(reason: impl ToString) -> Self {
        Self::new(500, "exception", reason)
    }

    /// The error, saying one thing more.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(key.to_owned(), value.into());
        self
    }

    /// The error with its cause.
    #[must_use]
    pub fn caused_by(mut self, cause: Self) -> Self {
        self.caused_by = Some(Box::new(cause));
        self
    }

    /// The error with a root cause that is not itself.
    #[must_use]
    pub fn rooted_in(mut self, root: Self) -> Self {
        self.root = Some(Box::new(root));
        self
    }

    /// What a whole response says: `{"error": {"root_cause": […], …}, "status": …}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let root = self.root.as_deref().unwrap_or(self);
        let mut error = Map::new();
        // A root cause says what it is, not what caused it.
        error.insert("root_cause".to_owned(), json!([Value::Object(root.own_json())]));
        error.append(&mut self.object());
        json!({ "error": error, "status": self.status })
    }

    /// What an item of a response says: the error alone, without root cause.
    #[must_use]
    pub fn cause_json(&self) -> Value {
        Value::Object(self.object())
    }

    fn object(&self) -> Map<String, Value> {
        let mut object = self.own_json();
        if let Some(cause) = &self.caused_by {
            object.insert("caused_by".to_owned(), cause.cause_json());
        }
        object
    }

    fn own_json(&self) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("type".to_owned(), json!(self.kind));
        object.insert("reason".to_owned(), json!(self.reason));
        for (key, value) in &self.extra {
            object.insert(key.clone(), value.clone());
        }
        object
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.reason)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_shape_that_clients_read() {
        let cause = Error::illegal_argument("For input string: \"x\"");
        let error = Error::mapper_parsing("failed to parse").with("index", "g").caused_by(cause);
        assert_eq!(
            error.to_json().to_string(),
            r#"{"error":{"root_cause":[{"type":"mapper_parsing_exception","reason":"failed to parse","index":"g"}],"type":"mapper_parsing_exception","reason":"failed to parse","index":"g","caused_by":{"type":"illegal_argument_exception","reason":"For input string: \"x\""}},"status":400}"#
        );
    }
}
