//! The one error of everything that a client is told, in Elasticsearch's words: a class, a type, a reason, what
//! it concerns and what caused it. How a protocol says it is the server's.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value, json};

/// What kind of refusal it is: what whoever asked can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The request is wrong as it is.
    Invalid,
    /// Nobody knows who asks.
    Unauthenticated,
    /// Who asks may not.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// The answer cannot be had in the form that is wanted.
    NotAcceptable,
    /// Somebody else changed it meanwhile.
    Conflict,
    /// The request is too large.
    TooLarge,
    /// The request's form is not known.
    Unsupported,
    /// There is too much to do for now; later it may be done.
    Overloaded,
    /// The node's own fault, such as a disk that fails.
    Internal,
    /// Another node or cluster gave an answer that is of no use.
    BadAnswer,
    /// It cannot be done now.
    Unavailable,
    /// It took too long.
    TimedOut,
}

impl ErrorClass {
    /// Whether the node lacks something: the same request may be answered elsewhere, or later.
    #[must_use]
    pub fn is_the_nodes(self) -> bool {
        matches!(self, Self::Internal | Self::BadAnswer | Self::Unavailable | Self::TimedOut)
    }
}

/// Why a request, or one item of it, is not answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// What kind of refusal it is.
    pub class: ErrorClass,
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
    /// An error of any class and kind.
    #[must_use]
    pub fn new(class: ErrorClass, kind: &'static str, reason: impl ToString) -> Self {
        Self {
            class,
            kind: Cow::Borrowed(kind),
            reason: reason.to_string(),
            extra: Map::new(),
            root: None,
            caused_by: None,
        }
    }

    /// The request is wrong as it is.
    #[must_use]
    pub fn invalid(kind: &'static str, reason: impl ToString) -> Self {
        Self::new(ErrorClass::Invalid, kind, reason)
    }

    /// Nobody knows who asks.
    #[must_use]
    pub fn unauthenticated(kind: &'static str, reason: impl ToString) -> Self {
        Self::new(ErrorClass::Unauthenticated, kind, reason)
    }

    /// Who asks may not.
    #[must_use]
    pub fn forbidden(kind: &'static str, reason: impl ToString) -> Self {
        Self::new(ErrorClass::Forbidden, kind, reason)
    }

    /// There is no such thing.
    #[must_use]
    pub fn not_found(kind: &'static str, reason: impl ToString) -> Self {
        Self::new(ErrorClass::NotFound, kind, reason)
    }

    /// The answer cannot be had in the form that is wanted.
    #[must_use]
    pub fn not_acceptable(kind: &'static str, reason: impl ToString) -> Self {
        Self::new(ErrorClass::NotAcceptable, kind, reason)
    }

    /// Somebody else changed it meanwhile.
    #[must_use]
    pub fn conflict(kind: &'static str, reason: impl ToString) -> Self {
        Self::new(ErrorClass::Conflict, kind, reason)
    }

    /// The request is too large.
    #[must_use]
    pub fn too_large(kind: &'static str, reason: impl ToString) -> Self {
        Self::new(ErrorClass::TooLarge, kind, reason)
    }

    /// The request's form is not known.
    #[must_use]
    pub fn unsupported(kind: &'static str, reason: impl ToString) -> Self {
        Self::new(ErrorClass::Unsupported, kind, reason)
    }

    /// There is too much to do for now.
    #[must_use]
    pub fn overloaded(kind: &'static str, reason: impl ToString) -> Self {
        Self::new(ErrorClass::Overloaded, kind, reason)
    }

    /// The node's own fault.
    #[must_use]
    pub fn failed(kind: &'static str, reason: impl ToString) -> Self {
        Self::new(ErrorClass::Internal, kind, reason)
    }

    /// Another node or cluster gave an answer that is of no use.
    #[must_use]
    pub fn bad_answer(kind: &'static str, reason: impl ToString) -> Self {
        Self::new(ErrorClass::BadAnswer, kind, reason)
    }

    /// It cannot be done now.
    #[must_use]
    pub fn unavailable(kind: &'static str, reason: impl ToString) -> Self {
        Self::new(ErrorClass::Unavailable, kind, reason)
    }

    /// It took too long.
    #[must_use]
    pub fn timed_out(kind: &'static str, reason: impl ToString) -> Self {
        Self::new(ErrorClass::TimedOut, kind, reason)
    }

    /// `illegal_argument_exception`.
    #[must_use]
    pub fn illegal_argument(reason: impl ToString) -> Self {
        Self::invalid("illegal_argument_exception", reason)
    }

    /// The same where a setting or parameter is no time.
    #[must_use]
    pub fn no_duration(setting: &str, text: &str) -> Self {
        Self::illegal_argument(format!(
            "failed to parse setting [{setting}] with value [{text}] as a time value: unit is missing or unrecognized"
        ))
    }

    /// `parsing_exception`.
    #[must_use]
    pub fn parsing(reason: impl ToString) -> Self {
        Self::invalid("parsing_exception", reason)
    }

    /// `mapper_parsing_exception`.
    #[must_use]
    pub fn mapper_parsing(reason: impl ToString) -> Self {
        Self::invalid("mapper_parsing_exception", reason)
    }

    /// `exception`: the node's own fault.
    #[must_use]
    pub fn internal(reason: impl ToString) -> Self {
        Self::failed("exception", reason)
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

    /// What a response says under `error`: the error with its root cause.
    #[must_use]
    pub fn rooted_json(&self) -> Value {
        let root = self.root.as_deref().unwrap_or(self);
        let mut error = Map::new();
        // A root cause says what it is, not what caused it.
        error.insert("root_cause".to_owned(), json!([Value::Object(root.own_json())]));
        error.append(&mut self.object());
        Value::Object(error)
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
            error.rooted_json().to_string(),
            r#"{"root_cause":[{"type":"mapper_parsing_exception","reason":"failed to parse","index":"g"}],"type":"mapper_parsing_exception","reason":"failed to parse","index":"g","caused_by":{"type":"illegal_argument_exception","reason":"For input string: \"x\""}}"#
        );
    }
}
