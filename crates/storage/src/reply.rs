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

/// A refusal: a kind that programs go by, and words that people read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ErrorReply {
    /// What kind it is.
    pub kind: ErrorKind,
    /// One line.
    pub message: Cow<'static, str>,
}

/// What kind of refusal it is. A protocol has its own word for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// None of the others: the command is wrong, or cannot run.
    General,
    /// The key holds another type.
    WrongType,
    /// What is written here comes from elsewhere alone.
    ReadOnly,
    /// It did not run; later it may.
    TryAgain,
    /// The disk has too little room for what makes the store larger.
    DiskFull,
    /// It would take more memory than there is for it.
    OutOfMemory,
    /// Its keys are not in one partition.
    CrossesPartitions,
    /// Whether it ran, or will run, cannot be said.
    OutcomeUnknown,
    /// One that a single protocol has, or that a newer node has, by its name there.
    Named(Cow<'static, str>),
}

impl ErrorReply {
    /// A refusal of some kind.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into() }
    }

    /// A refusal of no special kind.
    #[must_use]
    pub fn err(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::General, message)
    }

    /// A refusal that one protocol alone has, by its name there.
    #[must_use]
    pub fn named(name: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Named(name.into()), message)
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
