//! How an index is run, and what it counts.

use std::collections::BTreeMap;
use std::time::Duration;

/// How an index is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Memory for documents that are not in a segment yet, in bytes; at least 15,000,000, which
    /// smaller values are raised to. Default 64,000,000.
    pub writer_bytes: usize,
    /// Threads that merge segments; at least 1, the default.
    pub merge_threads: usize,
    /// Blocks of stored ids (16 KiB each) that a view keeps decompressed. Default 32.
    pub stored_blocks: usize,
    /// Whether segments are merged by whoever refreshes, and not by a thread some time: the same writes then
    /// make the same segments. Default false.
    pub merges_in_step: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            writer_bytes: 64_000_000,
            merge_threads: 1,
            stored_blocks: 32,
            merges_in_step: false,
        }
    }
}

/// What a new mapping means for the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grown {
    /// It has what it needs.
    Same,
    /// It was extended. The next refresh shows it.
    Extended,
    /// It indexes a field otherwise than the mapping says: it has to be built anew from rows. It
    /// is unchanged.
    NeedsRebuild,
}

/// Counts of an index, as of the last refresh where not said otherwise.
#[derive(Clone, Debug, Default)]
pub struct IndexStatistics {
    /// Documents.
    pub docs: u64,
    /// Documents that are deleted and still in a segment.
    pub deleted: u64,
    /// Segments.
    pub segments: u64,
    /// Bytes on disk now by part: `term`, `idx`, `pos`, `fast`, `fieldnorm`, `store`, `del`.
    pub bytes: BTreeMap<String, u64>,
    /// Merges since the index was opened.
    pub merges: u64,
    /// Whether segments are being merged now (or documents being indexed).
    pub writing: bool,
    /// Refreshes since the index was opened that showed something new.
    pub refreshes: u64,
    /// How long those took, in all: the owner's to say, who has a clock.
    pub refresh_time: Duration,
    /// Documents put since the index was opened.
    pub puts: u64,
    /// Documents, of those, that the mapping could not parse: they are found by id alone.
    pub unparsed: u64,
    /// Whether the writer is there, with its threads and memory.
    pub has_writer: bool,
}
