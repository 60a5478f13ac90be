//! How an embedded log is opened.

/// When an append is acknowledged and published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Once it is synced: nothing acknowledged is lost with the machine's power.
    #[default]
    Request,
    /// Once it is written; synced in the background. What was acknowledged survives the end of
    /// the process, but the last of it not the loss of power.
    Async,
}

/// How an embedded log is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// When an append is acknowledged; `Request` by default, and changeable while running.
    pub durability: Durability,
    /// How often an `async` log is synced, in ms; 1000 by default, at least 1.
    pub sync_interval_ms: u64,
    /// Bytes of appends that may wait for the disk, 64 MiB by default; what comes beyond is
    /// refused.
    pub queue_bytes_max: usize,
    /// Bytes of the newest records kept in memory for readers, 64 MiB by default.
    pub cache_bytes_max: usize,
    /// Groups, numbered from 0; 16 by default. May grow from one open to the next, but not
    /// shrink below a group that holds records.
    pub groups: u16,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Request,
            sync_interval_ms: 1000,
            queue_bytes_max: 64 << 20,
            cache_bytes_max: 64 << 20,
            groups: 16,
        }
    }
}
