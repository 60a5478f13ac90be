//! A document's error as nodes send it to each other: JSON that nodes of every version read. Its classes have
//! numbers here, those of HTTP; what a client is told is the server's.

use std::borrow::Cow;

use plimsoll_index::{Error, ErrorClass};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The classes by their numbers.
const CLASSES: [(u16, ErrorClass); 13] = [
    (400, ErrorClass::Invalid),
    (401, ErrorClass::Unauthenticated),
    (403, ErrorClass::Forbidden),
    (404, ErrorClass::NotFound),
    (406, ErrorClass::NotAcceptable),
    (409, ErrorClass::Conflict),
    (413, ErrorClass::TooLarge),
    (415, ErrorClass::Unsupported),
    (429, ErrorClass::Overloaded),
    (500, ErrorClass::Internal),
    (502, ErrorClass::BadAnswer),
    (503, ErrorClass::Unavailable),
    (504, ErrorClass::TimedOut),
];

#[derive(Serialize, Deserialize)]
struct SentError {
    status: u16,
    kind: Cow<'static, str>,
    reason: String,
    extra: Map<String, Value>,
    root: Option<Box<SentError>>,
    caused_by: Option<Box<SentError>>,
}

impl From<Error> for SentError {
    fn from(error: Error) -> Self {
        let number = CLASSES.iter().find(|(_, class)| *class == error.class);
        Self {
            status: number.map_or(500, |(number, _)| *number),
            kind: error.kind,
            reason: error.reason,
            extra: error.extra,
            root: error.root.map(|it| Box::new((*it).into())),
            caused_by: error.caused_by.map(|it| Box::new((*it).into())),
        }
    }
}

impl From<SentError> for Error {
    fn from(sent: SentError) -> Self {
        // A number that is not known is of a newer node: what it lacks cannot be said.
        let class = CLASSES.iter().find(|(number, _)| *number == sent.status);
        Self {
            class: class.map_or(ErrorClass::Internal, |(_, class)| *class),
            kind: sent.kind,
            reason: sent.reason,
            extra: sent.extra,
            root: sent.root.map(|it| Box::new((*it).into())),
            caused_by: sent.caused_by.map(|it| Box::new((*it).into())),
        }
    }
}

/// The JSON of an error.
pub(super) fn to_json(error: Error) -> String {
    let reason = error.reason.clone();
    serde_json::to_string(&SentError::from(error)).unwrap_or(reason)
}

/// The error that such JSON holds.
pub(crate) fn rest_error(json: &str) -> Error {
    serde_json::from_str::<SentError>(json).map_or_else(|_| Error::internal(json), Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_comes_over_as_it_was() {
        let cause = Error::illegal_argument("x");
        for (number, class) in CLASSES {
            let error = Error::new(class, "some_exception", "why").with("index", "i");
            let error = error.caused_by(cause.clone()).rooted_in(cause.clone());
            let json = to_json(error.clone());
            assert!(
                json.starts_with(&format!("{{\"status\":{number},\"kind\":\"some_exc")),
                "{json}"
            );
            assert_eq!(rest_error(&json), error);
        }
        let newer =
            r#"{"status":499,"kind":"k","reason":"r","extra":{},"root":null,"caused_by":null}"#;
        assert_eq!(rest_error(newer), Error::failed("k", "r"));
        assert_eq!(rest_error("{"), Error::internal("{"));
    }
}
