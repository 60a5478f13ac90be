//! Why a write has no replies. Its sender decides by the variant what it may do next, so the variant
//! travels between nodes as it is; at the end it becomes a reply of RESP, or an error of REST.

use plimsoll_index::Error;
use plimsoll_storage::{ErrorKind, ErrorReply};
use serde::{Deserialize, Serialize};

/// Why a write has no replies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub(crate) enum WriteError {
    /// It did not run and never will as it was sent: another lead may take it, or the same later.
    #[error("{0}")]
    NotTaken(String),
    /// It did not run, and no lead would take it: it takes more than so many bytes in the log.
    #[error("the write takes over {0} bytes in the log")]
    TooLarge(u64),
    /// It did not run, and no lead would take it.
    #[error("{message}")]
    Refused {
        #[serde(with = "super::error_kind")]
        kind: ErrorKind,
        message: String,
    },
    /// Whether it ran, or will run, cannot be said.
    #[error("outcome unknown")]
    Unknown,
}

/// What the sender of a write that has no replies does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Sends it to another lead, or again later.
    Elsewhere,
    /// Says so to its client: no lead would take it.
    GiveUp,
    /// Asks for its fate by fences before anything else.
    Settle,
}

impl WriteError {
    /// What its sender does.
    pub(crate) fn next(&self) -> Next {
        match self {
            Self::NotTaken(_) => Next::Elsewhere,
            Self::TooLarge(_) | Self::Refused { .. } => Next::GiveUp,
            Self::Unknown => Next::Settle,
        }
    }

    /// It did not run: the table takes its leader's writes alone. Redis' words.
    pub(crate) fn read_only() -> Self {
        let message = "You can't write against a read only replica.".to_owned();
        Self::Refused { kind: ErrorKind::ReadOnly, message }
    }

    /// It did not run, and never will, for a reason that is the same each time.
    pub(crate) fn not_taken(why: &str) -> Self {
        Self::NotTaken(why.to_owned())
    }
}

impl From<WriteError> for ErrorReply {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::NotTaken(why) => Self::new(ErrorKind::TryAgain, why),
            WriteError::TooLarge(_) => Self::err(error.to_string()),
            WriteError::Refused { kind, message } => Self::new(kind, message),
            WriteError::Unknown => Self::new(ErrorKind::OutcomeUnknown, "outcome unknown"),
        }
    }
}

/// What REST says where a write of documents has no replies.
pub(crate) fn failed_write(error: WriteError) -> Error {
    match error {
        WriteError::TooLarge(_) => {
            Error::too_large("illegal_argument_exception", error.to_string())
        }
        other => failed(other.into()),
    }
}

/// What REST says where a lead did not take a write, or its outcome is not known.
pub(crate) fn failed(error: ErrorReply) -> Error {
    let ErrorReply { kind, message } = error;
    match kind {
        ErrorKind::TryAgain => Error::overloaded("es_rejected_execution_exception", message),
        ErrorKind::DiskFull => Error::overloaded("cluster_block_exception", message),
        ErrorKind::OutcomeUnknown => Error::timed_out("timeout_exception", message),
        ErrorKind::ReadOnly => Error::forbidden("cluster_block_exception", message),
        ErrorKind::WrongType => Error::illegal_argument(message),
        _ => Error::unavailable("unavailable_shards_exception", message),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_index::ErrorClass;

    use super::*;
    use crate::wire::{Problem, Reply, Told, decode_answer, encode_answer};

    #[test]
    fn every_reason_crosses_the_wire_and_says_the_same_to_all() {
        use ErrorKind::{DiskFull, General, OutcomeUnknown, TryAgain, WrongType};
        let refused = |kind| WriteError::Refused { kind, message: "some words".to_owned() };
        let too_large = "the write takes over 100 bytes in the log";
        for (error, next, (kind, message), class) in [
            (
                WriteError::not_taken("it waits"),
                Next::Elsewhere,
                (TryAgain, "it waits"),
                ErrorClass::Overloaded,
            ),
            (WriteError::TooLarge(100), Next::GiveUp, (General, too_large), ErrorClass::TooLarge),
            (refused(General), Next::GiveUp, (General, "some words"), ErrorClass::Unavailable),
            (refused(DiskFull), Next::GiveUp, (DiskFull, "some words"), ErrorClass::Overloaded),
            (refused(WrongType), Next::GiveUp, (WrongType, "some words"), ErrorClass::Invalid),
            // Another's words decide nothing: only the variant does.
            (
                refused(OutcomeUnknown),
                Next::GiveUp,
                (OutcomeUnknown, "some words"),
                ErrorClass::TimedOut,
            ),
            (
                WriteError::Unknown,
                Next::Settle,
                (OutcomeUnknown, "outcome unknown"),
                ErrorClass::TimedOut,
            ),
        ] {
            let sent = Reply::Problem(Problem::Write(error.clone()));
            let (came, _) = decode_answer(&encode_answer(sent, Told::default()));
            let Reply::Problem(Problem::Write(came)) = came else { panic!("{came:?}") };
            assert_eq!(came, error);
            assert_eq!(came.next(), next, "{error:?}");
            let words = ErrorReply::new(kind, message);
            assert_eq!(ErrorReply::from(came.clone()), words, "{error:?}");
            let rest = failed_write(came);
            assert_eq!((rest.class, &*rest.reason), (class, message), "{error:?}");
        }
    }
}
