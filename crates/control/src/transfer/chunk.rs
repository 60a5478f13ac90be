//! A chunk of a transfer that is under way, as a window sends it and gets it back. When the next may go is the
//! window's to say.

/// A chunk under way. Small, and given back to its window when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its size.
    pub bytes: u64,
    pub(super) sent_ns: u64,
    /// How many bytes had arrived when it was sent.
    pub(super) arrived_before: u64,
    /// How many chunks were sent before it.
    pub(super) number: u64,
}
