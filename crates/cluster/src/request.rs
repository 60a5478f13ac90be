//! What a client asks of rows.

use bytes::Bytes;
use plimsoll_storage::Argv;

/// One request, answered by one reply.
#[derive(Clone, Debug)]
pub enum Request {
    /// A command on rows.
    Command(Argv),
    /// Commands that run together or not at all.
    Transaction {
        /// Nothing runs where one of these has changed since.
        watched: Vec<Watched>,
        /// In the order in which they run.
        commands: Vec<Argv>,
    },
}

/// A key and the change that it had last when it was watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The database that it lies in.
    pub db: u32,
    /// The key.
    pub key: Bytes,
    /// The sequence number of its last change, 0 where it did not exist.
    pub change: u64,
}
