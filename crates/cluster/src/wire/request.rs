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

/// How fresh the rows are that a client reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadLevel {
    /// Everything that anybody was told was written before the read began. On a shared log it costs
    /// a wait for an append, which reads that come at the same time share; while the log elects a
    /// leader, reads wait for that.
    #[default]
    Strong,
    /// Everything that this client was told itself: what it wrote, and no less than its earlier
    /// reads saw. Costs nothing where the copy has come so far, else a wait for that.
    Session,
    /// What the copy has that answers: it may be behind by what is on its way to it, a later read
    /// may see less than an earlier one, and a node that is cut off from the log goes on answering.
    /// Costs nothing.
    Eventual,
}

/// Which copy a client wants to be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    /// The one that is likely to answer first.
    #[default]
    Best,
    /// The one on the node that was asked, where there is one; else the best.
    Local,
    /// The same one for the same number, as long as it serves: what two copies answer may differ by
    /// what one has made visible already.
    Same(u64),
}
