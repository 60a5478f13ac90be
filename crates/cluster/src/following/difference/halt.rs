//! Why a partition cannot be levelled now.

use plimsoll_storage::rows::StoreError;

use crate::following::remote::RemoteError;

/// Why it does not go on now.
pub(super) struct Halt {
    pub why: String,
    /// It will not mend by itself.
    pub is_fatal: bool,
}

impl Halt {
    pub(super) fn waits(why: impl ToString) -> Self {
        Self { why: why.to_string(), is_fatal: false }
    }

    pub(super) fn stops(why: impl ToString) -> Self {
        Self { why: why.to_string(), is_fatal: true }
    }

    /// What a leader sent is no answer to what it was asked.
    pub(super) fn another() -> Self {
        Self::stops("another question was answered")
    }

    /// What a leader sent makes no sense here.
    pub(super) fn of_leader(error: StoreError) -> Self {
        Self::stops(format!("the leader's rows: {error}"))
    }
}

impl From<RemoteError> for Halt {
    fn from(error: RemoteError) -> Self {
        let is_fatal = matches!(error, RemoteError::NoTable(_) | RemoteError::Forked(_));
        Self { why: error.to_string(), is_fatal }
    }
}
