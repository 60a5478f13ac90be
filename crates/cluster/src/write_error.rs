//! Why a write has no replies. Its sender decides by the variant what it may do next, so the variant
//! travels between nodes as it is; protocols make words of it at the end.

use plimsoll_storage::ErrorReply;
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
    /// It did not run, and no lead would take it: a RESP error's code and words.
    #[error("{code} {message}")]
    Refused { code: String, message: String },
    /// Whether it ran, or will run, cannot be said.
    #[error("outcome unknown")]
    Unknown,
}

impl WriteError {
    /// It did not run, and never will, for a reason that is the same each time.
    pub(crate) fn not_taken(why: &str) -> Self {
        Self::NotTaken(why.to_owned())
    }
}

impl From<WriteError> for ErrorReply {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::NotTaken(why) => Self::new("TRYAGAIN", why),
            WriteError::TooLarge(_) => Self::err(error.to_string()),
            WriteError::Refused { code, message } => {
                Self { code: code.into(), message: message.into() }
            }
            WriteError::Unknown => Self::new("TIMEOUT", "outcome unknown"),
        }
    }
}
