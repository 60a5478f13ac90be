//! The upper-case word that begins an error of RESP, for each kind of refusal. Programs read it;
//! the words are Redis'.

use plimsoll_storage::{ErrorKind, ErrorReply};

/// A refusal as RESP says it: the word of its kind, and its words.
#[must_use]
pub fn error_text(error: &ErrorReply) -> String {
    format!("{} {}", error_code(&error.kind), error.message)
}

/// The word of a kind.
#[must_use]
pub fn error_code(kind: &ErrorKind) -> &str {
    match kind {
        ErrorKind::General => "ERR",
        ErrorKind::WrongType => "WRONGTYPE",
        ErrorKind::ReadOnly => "READONLY",
        ErrorKind::TryAgain => "TRYAGAIN",
        ErrorKind::DiskFull => "MISCONF",
        ErrorKind::OutOfMemory => "OOM",
        ErrorKind::CrossesPartitions => "CROSSSLOT",
        ErrorKind::OutcomeUnknown => "TIMEOUT",
        ErrorKind::Named(name) => name,
    }
}
