//! Why the metadata gives no answer.

use std::string::FromUtf8Error;

use plimsoll_storage::ErrorReply;
use plimsoll_storage::rows::StoreError;

/// Why the metadata cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// Its store gives no answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The command that reads it is refused: a fault of ours.
    #[error(transparent)]
    Refused(#[from] ErrorReply),
    /// Something else stands where a hash should be.
    #[error("the metadata holds no such hash")]
    NoHash,
    /// A hash has fields or values that are no bytes.
    #[error("the metadata holds no pairs")]
    NoPairs,
    /// The field of a hash is no text.
    #[error(transparent)]
    NoText(#[from] FromUtf8Error),
    /// What a node says of itself is not what this version reads.
    #[error(transparent)]
    Node(serde_json::Error),
    /// A table's definition is not what this version reads.
    #[error("table `{name}`: {source}")]
    Table {
        /// The table's name.
        name: String,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// What was noted of a log group before a trim is not what this version reads.
    #[error("the note of log group {group}: {source}")]
    TrimNote {
        /// The group, as the note names it.
        group: String,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// A trim was noted of something else than a log group.
    #[error("the note of log group {0}: no number")]
    NoGroup(String),
    /// The cluster's version is no number.
    #[error("the cluster's version is no number")]
    NoVersion,
}
