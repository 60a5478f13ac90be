//! How a JetStream log is opened.

/// How a JetStream log is opened, beside where its servers are.
#[derive(Clone, Debug)]
pub struct Options {
    /// Groups, numbered from 0, one stream each; 17 by default. Fixed for the life of the log.
    pub groups: u16,
    /// Copies that the servers keep of each stream: 1, 3 (the default) or 5. A log that exists
    /// must have at least as many.
    pub replicas: u8,
    /// Bytes that a new stream may hold before it refuses appends; 0, the default, for no limit
    /// but the server's.
    pub stream_bytes_max: u64,
    /// Bytes of appends of one group that wait for their outcome, 32 MiB by default; what comes
    /// beyond is refused.
    pub queue_bytes_max: usize,
    /// Bytes of one group that are sent and not answered yet, 16 MiB by default; more waits.
    pub sent_bytes_max: usize,
    /// Appends of one group that are sent and not answered yet, 1,024 by default: a server
    /// answers many thousands at once more slowly than one thousand after the other.
    pub sent_max: usize,
    /// After how long without an answer the outcome of an append is unknown, and after how long
    /// unsent it is refused, ms; 5,000 by default.
    pub append_timeout_ms: u64,
    /// After how long the servers must have answered at the opening, ms; 30,000 by default: an
    /// election takes up to 9 s.
    pub open_timeout_ms: u64,
    /// Whether a leader that is slow against its peers is asked to step down; yes by default.
    pub moves_leaders: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            groups: 17,
            replicas: 3,
            stream_bytes_max: 0,
            queue_bytes_max: 32 << 20,
            sent_bytes_max: 16 << 20,
            sent_max: 1024,
            append_timeout_ms: 5_000,
            open_timeout_ms: 30_000,
            moves_leaders: true,
        }
    }
}
