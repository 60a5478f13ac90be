//! What a command answers, before any protocol puts it into bytes.

use std::borrow::Cow;

use bytes::Bytes;

/// An answer. RESP2 and RESP3 write the same answer differently; that is theirs.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A short fixed word: `OK`, `PONG`, `QUEUED`, a type's name.
    Status(&'static str),
    /// A number.
    Integer(i64),
    /// Any bytes.
    Bulk(Bytes),
    /// No value: a null bulk string in RESP2.
    Nil,
    /// No array (an EXEC whose watched key changed): a null array in RESP2.
    NilArray,
    /// A list.
    Array(Vec<Reply>),
    /// Pairs: a flat list in RESP2.
    Map(Vec<(Reply, Reply)>),
    /// Distinct items: a list in RESP2.
    Set(Vec<Reply>),
    /// Text to be shown as it is: a bulk string in RESP2.
    Verbatim(String),
    /// A refusal.
    Error(ErrorReply),
}

/// A refusal: an upper-case code that programs read, and words that people read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code} {message}")]
pub struct ErrorReply {
    /// `ERR`, `WRONGTYPE`, `TRYAGAIN`, …
    pub code: Cow<'static, str>,
    /// One line.
    pub message: Cow<'static, str>,
}

impl ErrorReply {
    /// A refusal with a code of its own.
    #[must_use]
    pub fn new(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code: code.into(), message: message.into() }
    }

    /// A refusal under the general code `ERR`.
    #[must_use]
    pub fn err(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new("ERR", message)
    }
}

impl Reply {
    /// `OK`.
    pub const OK: Self = Self::Status("OK");

    /// Any bytes.
    #[must_use]
    pub fn bulk(bytes: impl Into<Bytes>) -> Self {
        Self::Bulk(bytes.into())
    }
}

impl From<ErrorReply> for Reply {
    fn from(error: ErrorReply) -> Self {
        Self::Error(error)
    }
}
