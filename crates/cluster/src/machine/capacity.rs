//! How many copies of partitions the nodes can hold: a table, or replicas, that would exceed it are
//! refused before they are created. What a copy costs does not depend on what is in it: an empty one
//! has the memory and the files of its rows, its index and its lead.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What an empty copy with an index takes in memory, bytes (measured: 0.9 MB).
const COPY_BYTES: u64 = 1 << 20;
/// The part of the node's memory that empty copies may take: one in so many.
const MEMORY_PART: u64 = 2;
/// The files that a copy keeps open (measured: 7 with an index and nothing in it), and those of its
/// segments and tables while it is written to.
const COPY_FILES: u64 = 16;
/// Into so many shares the process's files are divided.
pub const FILES_SHARES: usize = 32;
/// Those for copies and for what else a node has open, connections apart.
pub const SHARES_OF_COPIES: usize = 12;
/// How many files of these the rest of the node has, apart from copies.
const OTHER_FILES: u64 = 256;

/// What one node can hold, and what sets that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub copies: u64,
    /// In the words of who runs the node.
    pub set_by: &'static str,
}

/// The least of what a setting, the memory and the open files of a node allow; 0 is not known.
pub(crate) fn capacity(set: u64, memory_bytes: u64, files: u64) -> Capacity {
    let of_memory =
        if memory_bytes == 0 { u64::MAX } else { memory_bytes / MEMORY_PART / COPY_BYTES };
    let of_files = match files {
        0 => u64::MAX,
        files => {
            let share = files / FILES_SHARES as u64 * SHARES_OF_COPIES as u64;
            share.saturating_sub(OTHER_FILES) / COPY_FILES
        }
    };
    let bounds = [
        (set, "cluster.max_shards_per_node"),
        (of_memory, "the memory of a node"),
        (of_files, "the open files that a node may have (ulimit -n)"),
    ];
    let least = bounds.into_iter().min_by_key(|(copies, _)| *copies);
    least.map_or(Capacity { copies: set, set_by: "" }, |(copies, set_by)| Capacity {
        copies,
        set_by,
    })
}

/// How many files this process may have open; 0 where that is not known. A node that is opened has
/// raised it as far as the system lets it.
#[must_use]
pub fn files_max() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(0)
}

/// Has the process open as many files as the system allows it: what shells set by default is little
/// for a node.
pub(crate) fn raise_files_max() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_the_bounds_counts() {
        let of = |set, memory, files| {
            let found = capacity(set, memory, files);
            (found.copies, found.set_by)
        };
        assert_eq!(of(1_000, 64 << 30, 1 << 20), (1_000, "cluster.max_shards_per_node"));
        assert_eq!(of(1_000, 1 << 30, 1 << 20), (512, "the memory of a node"));
        assert_eq!(of(1_000, 64 << 30, 1_024).0, 8);
        assert_eq!(of(10_000, 64 << 30, 1 << 19).0, 10_000);
        assert_eq!(of(1_000, 64 << 30, 100).0, 0);
        assert_eq!(of(1_000, 0, 0).0, 1_000, "what is not known does not count");
    }
}
