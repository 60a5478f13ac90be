//! What a log counts and measures; an engine leaves 0 what it has not.

use std::time::Duration;

/// The weight of a new sample in an average: the last ten or so matter.
const AVERAGE_WEIGHT: f64 = 0.1;

/// Figures of a log since it was opened here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Records appended.
    pub appends: u64,
    /// Their bytes, without headers.
    pub append_bytes: u64,
    /// Bytes written to the log's files, headers and all.
    pub written_bytes: u64,
    /// Appends refused or with an unknown outcome.
    pub appends_failed: u64,
    /// Batches written: appends by commits is the size of a group commit.
    pub commits: u64,
    /// Syncs of the log's files.
    pub syncs: u64,
    /// How long the last sync took.
    pub sync_last: Duration,
    /// How long a sync takes, the last ten or so.
    pub sync_average: Duration,
    /// How long an append takes from the queue to its outcome: the slowest of each of the last
    /// ten or so commits, averaged.
    pub append_average: Duration,
    /// Appends that wait for the disk now, those being written included.
    pub queue_length: usize,
    /// Bytes that they take.
    pub queue_bytes: usize,
    /// How long the oldest of them has waited.
    pub queue_age: Duration,
    /// Bytes of records kept in memory for readers.
    pub cache_bytes: usize,
    /// Why the log takes no more appends, if so.
    pub stopped: Option<String>,
}

impl Stats {
    pub(crate) fn synced(&mut self, took: Duration) {
        self.syncs += 1;
        self.sync_last = took;
        self.sync_average = average(self.sync_average, took);
    }

    pub(crate) fn committed(&mut self, appends: u64, append_bytes: u64, slowest: Duration) {
        self.commits += 1;
        self.appends += appends;
        self.append_bytes += append_bytes;
        self.append_average = average(self.append_average, slowest);
    }
}

fn average(average: Duration, sample: Duration) -> Duration {
    if average.is_zero() {
        return sample;
    }
    average.mul_f64(1.0 - AVERAGE_WEIGHT) + sample.mul_f64(AVERAGE_WEIGHT)
}
