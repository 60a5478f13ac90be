//! Pacing at work: once a second a role looks at what this node's clients felt and at how much was copied,
//! followed and compacted meanwhile, asks the law (`plimsoll_control::pacing::copies`), and sets how fast copies,
//! the files for followers and carried records may go. It decides nothing itself and knows nothing of
//! what is copied.
//!
//! | file | owns |
//! |---|---|
//! | [`admission`] | how many writes come in where much was put off |
//! | [`bucket`] | a rate, kept |
//! | [`lane`] | one kind of work, and how fast it goes |
//! | [`compactions`] | how fast a node's compactions go |

mod admission;
mod bucket;
mod compactions;
mod lane;

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::Time;
use plimsoll_base::tasks::{Role, Stopping};
use plimsoll_control::Mode;
use plimsoll_control::pacing::{CopyPacer, Foreground, Second, copies};

pub(crate) use admission::Admission;
pub(crate) use bucket::Bucket;
use compactions::Compactions;
pub(crate) use lane::Lane;

use crate::node::Shared;
use crate::settings;

/// How often the law is asked.
const INTERVAL: Duration = Duration::from_secs(1);
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

/// Begins the role that asks the law.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<Role> {
    let (weak, time) = (Arc::downgrade(shared), shared.world.time.clone());
    shared.world.tasks.role("pacing", move |stopping| run(weak, time, stopping))
}

async fn run(shared: Weak<Shared>, time: Time, mut stopping: Stopping) {
    let mut pacer = CopyPacer::default();
    let mut compactions = Compactions::default();
    while !stopping.told_within(&time, INTERVAL).await {
        let Some(shared) = shared.upgrade() else { return };
        let mode = settings::cluster::pacing(&shared.metadata);
        let felt = shared.felt();
        shared.pacing.step(&mut pacer, felt, mode);
        compactions.step(&shared, &felt);
    }
    if let Some(shared) = shared.upgrade() {
        // Nobody waits for what is held when the node stops.
        shared.resources.compactions().set(None, true);
    }
}

#[cfg(test)]
mod tests;
