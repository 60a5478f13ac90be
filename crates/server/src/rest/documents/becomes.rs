//! What a document becomes when a script or an update changes it. Writing it is theirs.

use bytes::Bytes;

/// What becomes of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Becomes {
    /// This.
    Document(Bytes),
    /// Nothing: it goes.
    Nothing,
    /// What it is.
    Same,
}
