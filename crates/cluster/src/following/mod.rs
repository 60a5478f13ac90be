//! Tables that follow one of another cluster: the leader's records are carried through this cluster's own
//! log, unchanged, and applied from there ([`plimsoll_storage`]'s replicas that follow).
//!
//! | file | owns |
//! |---|---|
//! | [`definition`] | what a table's definition says of it; which settings travel |
//! | [`requests`] | what people ask for: follow, pause, resume, end; what is told |
//! | [`auto_follow`] | tables that follow by themselves, by patterns of names |
//! | [`keeper`] | what this node does for the tables that follow |
//! | [`making`] | which first copies this node makes, and with what of the link |
//! | [`holding`] | how far followers are, told to their leaders |
//! | [`ends`] | the end of following, told to leaders until they know it |
//! | [`slots`] | what runs once at a time |
//! | [`mirror`] | mapping, settings and aliases as the leader has them |
//! | [`first_copy`] | the first copy of a partition, from the leader's files |
//! | [`check`] | what came, looked at before it is appended |
//! | [`pull`] | the leader's records, asked for and appended here |
//! | [`progress`] | how far that is |
//! | [`leading`] | what this cluster's own tables tell those who follow them |
//! | [`difference`] | copies that the leader's log no longer reaches, levelled |
//! | [`remote`] | what is asked of another cluster |
//!
//! How another cluster is reached is not known here: the front end hands a [`Remotes`] in.

mod auto_follow;
mod check;
mod definition;
mod difference;
mod ends;
mod first_copy;
mod holding;
mod keeper;
mod leading;
mod making;
mod mirror;
mod progress;
mod pull;
mod remote;
mod requests;
mod slots;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::node::Shared;
use crate::node::pacing::Pacing;
use auto_follow::{AutoFollowTold, Rests};
use keeper::Keeping;
use making::Making;
use progress::Progress;

pub use crate::node::pacing::PacingStatistics;
pub use crate::recovery::CopyCompression;
pub use auto_follow::{AutoFollow, AutoFollowStatistics};
pub(crate) use definition::Follows;
pub use definition::travels;
pub use difference::{DifferenceAnswer, DifferenceAsk, Opened, SpanForm};
pub use first_copy::REMOTE_SOURCE;
pub use leading::{FollowerHold, Leading, PLACES_MAX, RecordStream};
pub(crate) use leading::{Holds, Snapshots, Spared};
pub use progress::Counters;
pub use remote::{
    Asked, Held, Hold, HoldChange, LeaderDocuments, LeaderPartition, LeaderTable, Level,
    PartitionLevel, Place, Records, Remote, RemoteError, Remotes, Told,
};
pub use requests::{FollowRequest, FollowerOverview, FollowerPartition, FollowerStatus};

/// The tables of a node that follow.
#[derive(Clone)]
pub struct Following {
    shared: Arc<Shared>,
    keeping: Arc<Keeping>,
}

/// The thread that cares for them.
pub struct FollowingThread {
    following: Following,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl FollowingThread {
    /// Begins; `cluster_uuid` is this cluster, as leaders know it.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        remotes: Arc<dyn Remotes>,
        cluster_uuid: String,
        pacing: Arc<Pacing>,
    ) -> io::Result<Self> {
        let progress = Arc::new(Progress::default());
        let weak = Arc::downgrade(shared);
        let keeping = Arc::new(Keeping {
            shared: weak,
            remotes,
            progress,
            pacing,
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
        let following = Following { shared: Arc::clone(shared), keeping };
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
