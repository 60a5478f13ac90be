//! How fast a node may copy, give files to followers and carry their records. It keeps to what the law
//! (`plimsoll_control::pacing::copies`) says; when that is asked is the node's (`node/pacer`), and what is
//! copied is not known here.
//!
//! | file | owns |
//! |---|---|
//! | [`bucket`] | a rate, kept |
//! | [`lane`] | one kind of work, and how fast it goes |

mod bucket;
mod lane;

use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::Time;
use plimsoll_control::Mode;
use plimsoll_control::pacing::{CopyPacer, Foreground, Second, copies};

pub(crate) use bucket::Bucket;
pub(crate) use lane::Lane;

/// A byte of a record counts as so many of a file: it is appended to the log, applied and indexed.
const RECORD_WEIGHT: u64 = 4;

/// How fast a node may copy and follow.
pub(crate) struct Pacing {
    /// Copies that it makes of other nodes' and other clusters' files.
    pub copies: Lane,
    /// Files that nodes of other clusters copy from it.
    pub files: Lane,
    /// Records that it carries, by their weight.
    pub records: Lane,
    /// How urgent those are, from 0 to 1.
    urgency: Mutex<f64>,
}

/// What is told of a node's pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacingStatistics {
    /// How fast first copies may be made and files be given, bytes a second; none is no limit.
    pub bytes_s: Option<u64>,
    /// For how long first copies were held back so far, or would have been in the shadow.
    pub copies_held: Duration,
    /// The same of files for followers.
    pub files_held: Duration,
    /// The same of carried records.
    pub records_held: Duration,
}

impl Pacing {
    pub(crate) fn new(time: &Time) -> Self {
        let [copies, files, records] = [(); 3].map(|()| Lane::new(time.clone()));
        Self { copies, files, records, urgency: Mutex::default() }
    }

    pub(crate) fn statistics(&self) -> PacingStatistics {
        PacingStatistics {
            bytes_s: self.copies.bytes_s(),
            copies_held: self.copies.held(),
            files_held: self.files.held(),
            records_held: self.records.held(),
        }
    }

    /// What so many bytes of records come to.
    pub(crate) fn weight(records_bytes: usize) -> u64 {
        (records_bytes as u64).saturating_mul(RECORD_WEIGHT)
    }

    /// How urgent it is that carried records go on, from 0 to 1.
    pub(crate) fn hasten(&self, urgency: f64) {
        *self.urgency.lock() = urgency;
    }

    pub(crate) fn step(&self, pacer: &mut CopyPacer, foreground: Foreground, mode: Mode) {
        let lanes = [&self.copies, &self.files, &self.records];
        let background_bytes = lanes.iter().map(|lane| lane.take_begun()).sum();
        if mode == Mode::Off {
            *pacer = CopyPacer::default();
            lanes.iter().for_each(|lane| lane.set(None, true));
            return;
        }
        let acts = mode == Mode::On;
        let bytes_s = pacer.step(&Second { foreground, background_bytes });
        tracing::debug!(bytes_s, background_bytes, ?foreground, "the pace of copies");
        self.copies.set(bytes_s, acts);
        self.files.set(bytes_s, acts);
        self.records.set(copies::hastened(bytes_s, *self.urgency.lock()), acts);
    }
}

#[cfg(test)]
mod tests;
