//! The leader's side of following: what a node answers to those whose tables, in another cluster,
//! follow tables here. What is asked comes over the port for other clusters, which knows who may ask
//! for which table; nothing of that is known here.
//!
//! | file | owns |
//! |---|---|
//! | `table.rs` | a table as its followers see it |
//! | `holds.rs`, `floor.rs`, `sparing.rs` | how far followers are, and what trimming spares for them |
//! | `records.rs`, `reading.rs` | the records of partitions, as a stream |
//! | `files.rs` | the questions of recovery |
//! | `difference.rs` | what differs, where the log is gone |
//!
//! It writes nothing but holds, and never waits for a follower with anything that others wait for.

mod difference;
mod files;
mod floor;
mod holds;
mod reading;
mod records;
mod sparing;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::tasks::Role;
use tokio::sync::Semaphore;

pub(crate) use difference::Snapshots;
pub(crate) use floor::Spared;
pub use holds::FollowerHold;
pub(crate) use holds::HoldsError;
pub use records::{PLACES_MAX, RecordStream};
pub(crate) use sparing::Holds;

use super::remote::RemoteError;
use crate::copies::LocalCopies;
use crate::pacing::Pacing;

/// How long it may take to find out what the metadata says now.
const METADATA_TIME: Duration = Duration::from_secs(5);
/// How many streams of records a node serves at once.
const STREAMS_MAX: usize = 32;

/// What this node answers to followers.
pub struct Leading {
    here: Arc<LocalCopies>,
    /// Held while what is kept for a follower changes.
    holding: tokio::sync::Mutex<()>,
    pacing: Arc<Pacing>,
    snapshots: Arc<Snapshots>,
    /// Room for streams.
    streams: Arc<Semaphore>,
    /// Those that run, and some that have ended; none once no more may begin.
    roles: Mutex<Option<Vec<Role>>>,
}

impl Leading {
    pub(crate) fn new(
        here: Arc<LocalCopies>,
        pacing: Arc<Pacing>,
        snapshots: Arc<Snapshots>,
    ) -> Self {
        let streams = Arc::new(Semaphore::new(STREAMS_MAX));
        let holding = tokio::sync::Mutex::default();
        let roles = Mutex::new(Some(Vec::new()));
        Self { here, pacing, snapshots, holding, streams, roles }
    }

    /// Ends the streams; none begins any more. Blocks.
    pub(crate) fn stop(&self) {
        self.streams.close();
        let roles = self.roles.lock().take().unwrap_or_default();
        roles.iter().for_each(Role::tell_to_stop);
        roles.into_iter().for_each(Role::end);
    }
}

/// What cannot be found out now may be later, or at another node.
fn unreachable(why: impl ToString) -> RemoteError {
    RemoteError::Unreachable(why.to_string())
}
