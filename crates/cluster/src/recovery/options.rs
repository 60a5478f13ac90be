//! How a checkpoint is copied, and why a copy is not whole.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_base::time::Instant;
use plimsoll_control::Random;
use plimsoll_storage::partition::STORE_FORMAT;

use super::window::Window;

/// Of how many files checksums are asked for at once.
pub(super) const CHECKSUMS_MAX: usize = 10_000;

/// Says how long to wait before so many bytes are asked for, and to be asked again then; zero where they may
/// be now, which counts them: the pace of the node's background work.
pub(crate) type Pace = Arc<dyn Fn(u64) -> Duration + Send + Sync>;

/// Says what time it is.
pub(crate) type Now = Arc<dyn Fn() -> Instant + Send + Sync>;

/// Whether chunks are compressed on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyCompression {
    /// Never.
    Off,
    /// By zstd where the link is the bound and that pays.
    #[default]
    Measured,
    /// All of them, by deflate: as published.
    Deflate,
}

/// How a checkpoint is copied.
#[derive(Clone)]
pub(crate) struct CopyOptions {
    /// The largest chunk, bytes; 5 MiB are never passed. Default 4 MiB, what every version gives.
    pub chunk_bytes_max: u64,
    /// The newest format of rows that is taken. Default is what this version reads; of another cluster no newer one than
    /// this cluster's version has, as its nodes copy from one another.
    pub format_max: u8,
    /// How many chunks may be under way or wait to be written. Default 64.
    pub chunks_max: usize,
    /// The most bytes in those. Default 64 MiB.
    pub bytes_max: u64,
    /// How many chunks of one file may be under way. No limit by default.
    pub chunks_of_file_max: u64,
    /// How long a chunk is waited for. Default 30 s.
    pub chunk_timeout: Duration,
    /// How long the making of a checkpoint is waited for at a time. Default 60 s.
    pub open_timeout: Duration,
    /// How often the same is asked for before a source that refuses it is given up, or one that has
    /// not answered at all; and how often a file may turn out wrong. Default 8.
    pub attempts_max: u32,
    /// How long a source that has given something is waited for where nothing more is heard of it,
    /// or it does not serve the partition, however often it was asked. Default 60 s.
    pub away_max: Duration,
    /// What time it is. The node's own by default.
    pub now: Option<Now>,
    /// The first pause before something is asked for again, doubled each time. Default 100 ms.
    pub pause_min: Duration,
    /// The longest. Default 5 s.
    pub pause_max: Duration,
    /// How chunks may be compressed. Default not at all: within a cluster.
    pub compression: CopyCompression,
    /// No limit by default.
    pub pace: Option<Pace>,
    /// How much may be under way; by default one of the copy's own that measures.
    pub window: Option<Window>,
    /// Draws the pauses.
    pub seed: u64,
    /// Goes with every question.
    pub trace: u64,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            chunk_bytes_max: 4 << 20,
            format_max: STORE_FORMAT,
            chunks_max: 64,
            bytes_max: 64 << 20,
            chunks_of_file_max: u64::MAX,
            chunk_timeout: Duration::from_secs(30),
            open_timeout: Duration::from_secs(60),
            attempts_max: 8,
            away_max: Duration::from_secs(60),
            now: None,
            pause_min: Duration::from_millis(100),
            pause_max: Duration::from_secs(5),
            compression: CopyCompression::Off,
            pace: None,
            window: None,
            seed: 0,
            trace: 0,
        }
    }
}

impl CopyOptions {
    /// How long to wait after so many failures, at least one.
    pub(super) fn pause(&self, failures: u32, random: &mut Random) -> Duration {
        let doubled = self.pause_min.saturating_mul(1 << failures.saturating_sub(1).min(16));
        // Somewhere in its upper half, so that those who failed together do not come together.
        doubled.min(self.pause_max).mul_f64(0.5 + random.unit() / 2.0)
    }
}

/// Why a copy is not whole. What was copied is kept for the next attempt.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CopyError {
    /// The source does not serve the partition: ask another.
    #[error("the source does not have it: {0}")]
    NotHere(String),
    /// Nothing was heard of it any more, or it has refused for long: ask another, or later.
    #[error("the source was given up after {attempts} attempts: {last}")]
    GivenUp {
        /// How often the same was asked for.
        attempts: u32,
        /// What came of the last.
        last: String,
    },
    /// The source is of another version or cluster.
    #[error("the source does not fit: {0}")]
    Unfit(String),
    /// The source says what makes no sense, or a file is wrong each time that it is copied.
    #[error("what the source sends is damaged: {0}")]
    Damaged(String),
    /// This node's disk is full or failing.
    #[error("the copy cannot be written: {0}")]
    Disk(#[from] io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let options = CopyOptions::default();
        let mut random = Random::new(3);
        for (failures, full_ms) in [(1, 100), (2, 200), (3, 400), (7, 5000), (40, 5000)] {
            for _ in 0..50 {
                let pause = options.pause(failures, &mut random).as_millis();
                assert!((full_ms / 2..=full_ms).contains(&pause), "{failures}: {pause}");
            }
        }
    }
}
