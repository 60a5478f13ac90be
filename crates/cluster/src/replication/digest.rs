//! What a copy contains, as its apply thread computes it at a position of the log. Copies are compared by it
//! in `node/digest.rs`.

use serde::Serialize;

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
