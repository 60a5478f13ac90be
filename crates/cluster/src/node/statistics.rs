//! What a node can say of itself: numbers only, to be put into words by the server.

use plimsoll_log::Stats;
use plimsoll_storage::partition::StoreStatistics;

/// A node's figures at one moment.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// The databases that have been written to, by number.
    pub databases: Vec<DatabaseStatistics>,
    /// What the log did since it was opened.
    pub log: Stats,
    /// Groups of the log that are read, the metadata's among them.
    pub groups_read: usize,
    /// What rows take in memory.
    pub store: StoreStatistics,
    /// Bytes in the files of all partitions.
    pub files_bytes: u64,
    /// Writes that wait at leads, bytes.
    pub queue_bytes: usize,
    /// How far the store that has put off most is towards the point where it takes no more, 0 to 1.
    pub write_debt: f64,
    /// Writes that were refused because too many waited for the stores.
    pub writes_refused: u64,
    /// Partitions that have stopped, and why.
    pub faults: Vec<String>,
}

/// One database's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatabaseStatistics {
    /// Its number.
    pub db: u32,
    /// Keys, those expired but not swept included.
    pub keys: u64,
    /// Keys with an expiry.
    pub expires: u64,
}
