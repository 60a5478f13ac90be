//! Tables that follow one of another cluster: the leader's records are carried through this cluster's own
//! log, unchanged, and applied from there ([`plimsoll_storage`]'s replicas that follow).
//!
//! | file | owns |
//! |---|---|
//! | [`service`] | what is asked of the tables that follow, and what the tasks that care for them share |
//! | [`definition`] | what becomes of the leader's settings, mapping and aliases |
//! | [`requests`] | what people ask for: follow, pause, resume, end; what is told |
//! | [`auto_follow`], [`auto_follow_told`] | tables that follow by themselves, by patterns of names; what became of that |
//! | [`keeper`] | what this node does for the tables that follow |
//! | [`making`], [`first_copies`] | which first copies this node makes, and with what of the link |
//! | [`holding`] | how far followers are, told to their leaders |
//! | [`ends`] | the end of following, told to leaders until they know it |
//! | [`slots`] | what runs once at a time |
//! | [`mirror`] | mapping, settings and aliases as the leader has them |
//! | [`first_copy`] | the first copy of a partition, from the leader's files |
//! | [`check`] | what came, looked at before it is appended |
//! | [`pull`], [`pulled`] | the leader's records, asked for and appended here |
//! | [`progress`] | how far that is |
//! | [`leading`] | what this cluster's own tables tell those who follow them |
//! | [`difference`] | copies that the leader's log no longer reaches, levelled |
//! | [`remote`] | what is asked of another cluster |
//!
//! How another cluster is reached is not known here: the front end hands a [`Remotes`] in.

#![expect(clippy::disallowed_methods, reason = "following does not run in a simulation yet")]

mod auto_follow;
mod auto_follow_told;
mod check;
mod definition;
mod difference;
mod ends;
mod first_copies;
mod first_copy;
mod holding;
mod keeper;
mod leading;
mod making;
mod mirror;
mod progress;
mod pull;
mod pulled;
mod remote;
mod requests;
mod service;
mod slots;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::copies::LocalCopies;
use auto_follow_told::{AutoFollowTold, Rests};
use first_copies::Making;
use progress::Progress;
use service::Keeping;

pub use crate::metadata::follows::travels;
pub use crate::pacing::PacingStatistics;
pub use crate::recovery::CopyCompression;
pub use auto_follow::AutoFollow;
pub use auto_follow_told::AutoFollowStatistics;
pub use difference::{DifferenceAnswer, DifferenceAsk, Opened, SpanForm};
pub use first_copy::REMOTE_SOURCE;
pub use leading::{FollowerHold, Leading, PLACES_MAX, RecordStream};
pub(crate) use leading::{Holds, HoldsError, Snapshots, Spared};
pub use progress::Counters;
pub use remote::{
    Asked, Held, Hold, HoldChange, LeaderDocuments, LeaderPartition, LeaderTable, Level,
    PartitionLevel, Place, Records, Remote, RemoteError, Remotes, Told,
};
pub use requests::{FollowRequest, FollowerOverview, FollowerPartition, FollowerStatus};
pub use service::Following;

/// The thread that cares for them.
pub struct FollowingThread {
    following: Following,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl FollowingThread {
    /// Begins; `cluster_uuid` is this cluster, as leaders know it.
    pub(crate) fn start(
        here: &Arc<LocalCopies>,
        remotes: Arc<dyn Remotes>,
        cluster_uuid: String,
    ) -> io::Result<Self> {
        let progress = Arc::new(Progress::default());
        let weak = Arc::downgrade(here);
        let keeping = Arc::new(Keeping {
            here: weak,
            remotes,
            progress,
            pacing: Arc::clone(&here.pacing),
            cluster_uuid,
            is_stopping: AtomicBool::new(false),
            auto: AutoFollowTold::default(),
            auto_rests: Rests::default(),
            held: Mutex::default(),
            known: Mutex::default(),
            making: Making::default(),
            leaders: Mutex::default(),
            wake: Notify::new(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let kept = Arc::clone(&keeping);
        let run = move || {
            runtime.block_on(keeper::run(kept));
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("following".to_owned()).spawn(run)?;
        let following = Following { here: Arc::clone(here), keeping };
        Ok(Self { following, thread: Mutex::new(Some(thread)) })
    }

    /// What can be asked for.
    #[must_use]
    pub fn following(&self) -> &Following {
        &self.following
    }

    /// Ends the thread: nothing is pulled any more. Blocks.
    pub fn stop(&self) {
        self.following.keeping.is_stopping.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of what follows panicked");
        }
    }
}
