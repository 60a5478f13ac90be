//! Why a log group is not read here.

use plimsoll_base::tasks::Lost;
use plimsoll_log::{GroupId, LogError};
use plimsoll_storage::rows::StoreError;

use crate::metadata::error::MetadataError;

/// Why a log group can be neither taken up nor given up, or why it is not known where it stands.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GroupError {
    /// No group is taken up any more.
    #[error("the node is stopping")]
    Stopping,
    /// The number is none of a group.
    #[error("the log has no group {0}")]
    Unknown(GroupId),
    /// What is known of it here was trimmed, and no other node says where it stands.
    #[error("no node knows where log group {0} is")]
    Nowhere(GroupId),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The store does not say where the group stood.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The metadata does not say what was noted before a trim.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// What was to be done ended halfway.
    #[error(transparent)]
    Lost(#[from] Lost),
}
