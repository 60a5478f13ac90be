//! What a copy contains, as its apply thread computes it at a position of the log. Copies are compared by it
//! in `node/digest.rs`.

use plimsoll_storage::rows::StoreError;
use serde::Serialize;

use crate::wire::CallError;

/// What a copy contains at a position of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Digest {
    /// The position.
    pub lsn: u64,
    /// The hash over all records of the group up to there.
    pub hash: u64,
    /// A hash over everything that must be the same on every copy at that position.
    pub digest: u64,
    /// A hash over what it contains, without where it stands: the same at a leader and at those in
    /// other clusters that follow it. Told by the copy's own node alone.
    pub content: Option<u64>,
}

/// Why it is not known what a copy contains.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// The node has no applier for the copy's group.
    #[error("the node does not read its log group")]
    NotRead,
    /// The group's applier has no copy of the partition.
    #[error("the node does not serve the partition")]
    NotServed,
    /// The group's applier has too much to do already.
    #[error("the apply thread has no time for it")]
    Busy,
    /// The group's applier is in a record, or ends.
    #[error("apply waits")]
    Waits,
    /// The copy stands still: the words of its fault.
    #[error("{0}")]
    Fault(String),
    /// Its rows cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its node gave no answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Its node answered something else.
    #[error("the node gave no digest")]
    NoDigest,
    /// Its node does not know it: that one's words.
    #[error("{0}")]
    NotHere(String),
}
