//! What a run of a store of levels is asked for, and what it finds. Sizes are bytes, costs µs of one
//! processor, times ns.

use hdrhistogram::Histogram;

use super::costs::Costs;

/// A server, and each of the clients' machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Machine {
    /// Processors, each with what its second thread adds.
    pub(crate) cpus: f64,
    pub(crate) disks: usize,
    pub(crate) disk_bytes_s: f64,
}

/// A copy's levels, and what a node has for them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) memtable_bytes: f64,
    /// Memtables of a copy, full ones among them, at which it takes no more.
    pub(crate) memtables_max: usize,
    /// What all memtables of a node may take before the fullest is flushed; none is no limit.
    pub(crate) budget_bytes: Option<f64>,
    /// Files of level 0 from which they are rewritten, and at which the copy takes no more.
    pub(crate) level_0: (usize, usize),
    pub(crate) level_base_bytes: f64,
    pub(crate) level_ratio: f64,
    pub(crate) file_bytes: f64,
    /// Bytes of all rows of a copy, each once: what more is written replaces something.
    pub(crate) rows_bytes: f64,
    pub(crate) flush_threads: usize,
    pub(crate) compaction_threads: usize,
    /// Output of a flush or a compaction that goes to the disk at once, and is waited for.
    pub(crate) sync_bytes: f64,
    /// Whether a write waits until the log is on the disk.
    pub(crate) log_is_synced: bool,
}

/// What holds background work back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    Off,
    /// RocksDB's limiter at so many bytes a second.
    Limiter {
        bytes_s: u64,
    },
    /// The same, tuned by itself up to so many.
    Auto {
        bytes_s: u64,
    },
    /// The law that nodes run.
    Ours,
}

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Asked {
    /// So many threads, each waiting for its answer.
    Closed { threads: usize },
    /// So many a second by the clock.
    Open { rate_s: f64 },
}

/// A run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LevelsSpec {
    pub(crate) machine: Machine,
    pub(crate) shape: Shape,
    pub(crate) costs: Costs,
    pub(crate) nodes: usize,
    pub(crate) partitions: usize,
    pub(crate) copies: usize,
    pub(crate) client_machines: usize,
    pub(crate) asked: Asked,
    /// The part of requests that are reads.
    pub(crate) reads: f64,
    pub(crate) value_bytes: f64,
    /// Whether keys are drawn by Zipf's law as YCSB draws them, or evenly.
    pub(crate) is_zipfian: bool,
    pub(crate) arm: Arm,
    /// What counts for nothing, and what is measured after it.
    pub(crate) warm_up_ns: u64,
    pub(crate) window_ns: u64,
}

/// What came of a run, of its window unless said.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) reads_us: Histogram<u64>,
    pub(crate) writes_us: Histogram<u64>,
    pub(crate) refused: u64,
    pub(crate) window_s: f64,
    /// The longest time in which no write was answered while one waited.
    pub(crate) longest_gap_ns: u64,
    /// Bytes that the disks took for each byte of rows that came in, at one copy.
    pub(crate) written_per_byte: Option<f64>,
    /// Of what the disks take, the most within five seconds, the mean over disks.
    pub(crate) disk_peak: f64,
    /// Bytes of files of all copies, the mean of its seconds.
    pub(crate) space_bytes: f64,
    /// The worst node's debt at the end and at most, 0 to 1.
    pub(crate) debt_left: f64,
    pub(crate) debt_peak: f64,
    /// How often a copy took nothing.
    pub(crate) stops: u64,
    /// Files of level 0 at most, in the whole run.
    pub(crate) level_0_max: usize,
    /// Processor seconds of all nodes, background work included.
    pub(crate) cpu_s: f64,
    /// Bytes since the beginning: came in, lie somewhere, were replaced, beside what lay there at first.
    pub(crate) came_in_bytes: f64,
    pub(crate) lies_bytes: f64,
    pub(crate) lay_at_first_bytes: f64,
    pub(crate) replaced_bytes: f64,
    pub(crate) course: Vec<Second>,
    /// Over every event.
    pub(crate) checksum: u64,
    pub(crate) events: u64,
}

/// A second of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Second {
    /// By the first node's disks.
    pub(crate) written_bytes: u64,
    pub(crate) writes: u64,
    /// Of those writes.
    pub(crate) p99_ms: f64,
    /// The worst node's.
    pub(crate) debt: f64,
    /// Of the files of all copies.
    pub(crate) space_bytes: u64,
}

impl Outcome {
    /// The part of what came in that lies nowhere and was not replaced: 0, or the model is wrong.
    pub(crate) fn lost(&self) -> f64 {
        let kept = self.lies_bytes - self.lay_at_first_bytes + self.replaced_bytes;
        (self.came_in_bytes - kept).abs() / self.came_in_bytes.max(1.0)
    }

    pub(crate) fn reads_s(&self) -> f64 {
        self.reads_us.len() as f64 / self.window_s
    }

    pub(crate) fn writes_s(&self) -> f64 {
        self.writes_us.len() as f64 / self.window_s
    }
}
