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
//! | [`slots`], [`children`] | what runs once at a time; what ends with whoever began it |
//! | [`mirror`] | mapping, settings and aliases as the leader has them |
//! | [`first_copy`] | the first copy of a partition, from the leader's files |
//! | [`check`] | what came, looked at before it is appended |
//! | [`pull`], [`pulled`], [`left_out`] | the leader's records, asked for and appended here; which not now |
//! | [`progress`] | how far that is |
//! | [`leading`] | what this cluster's own tables tell those who follow them |
//! | [`difference`] | copies that the leader's log no longer reaches, levelled |
//! | [`remote`] | what is asked of another cluster |
//!
//! How another cluster is reached is not known here: the front end hands a [`Remotes`] in.

mod auto_follow;
mod auto_follow_told;
mod check;
mod children;
mod definition;
mod difference;
mod ends;
mod first_copies;
mod first_copy;
mod holding;
mod keeper;
mod leading;
mod left_out;
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

use parking_lot::Mutex;
use plimsoll_base::tasks::Role;
use tokio::sync::Notify;

use crate::copies::LocalCopies;
use auto_follow_told::{AutoFollowTold, Rests};
use children::Parent;
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
    Asked, FollowerPosition, Held, Hold, HoldChange, LeaderDocuments, LeaderPartition, LeaderTable,
    Level, PartitionLevel, Records, Remote, RemoteError, Remotes, Told,
};
pub use requests::{FollowRequest, FollowerOverview, FollowerPartition, FollowerStatus};
pub use service::Following;

/// The handle of the role that cares for them: a node's has a thread.
pub struct FollowingThread {
    following: Following,
    role: Mutex<Option<Role>>,
}

impl FollowingThread {
    /// Begins; `cluster_uuid` is this cluster, as leaders know it.
    pub(crate) fn start(
        here: &Arc<LocalCopies>,
        remotes: Arc<dyn Remotes>,
        cluster_uuid: String,
    ) -> io::Result<Self> {
        let world = here.world.clone();
        let (parent, children) = Parent::new(&world.tasks);
        let keeping = Arc::new(Keeping {
            here: Arc::downgrade(here),
            remotes,
            progress: Arc::new(Progress::default()),
            pacing: Arc::clone(&here.pacing),
            cluster_uuid,
            children,
            seeds: Arc::new(world.random.draws("levelling")),
            auto: AutoFollowTold::default(),
            auto_rests: Rests::default(),
            held: Mutex::default(),
            known: Mutex::default(),
            making: Making::default(),
            leaders: Mutex::default(),
            wake: Notify::new(),
            world,
        });
        let kept = Arc::clone(&keeping);
        let run = move |stopping| keeper::run(kept, parent, stopping);
        let role = here.world.tasks.networked_role("following", run)?;
        let following = Following { here: Arc::clone(here), keeping };
        Ok(Self { following, role: Mutex::new(Some(role)) })
    }

    /// What can be asked for.
    #[must_use]
    pub fn following(&self) -> &Following {
        &self.following
    }

    /// Ends the role, and what goes on beside it: nothing is pulled any more. Of a node's this blocks; a
    /// simulation's ends when it is polled next.
    pub fn stop(&self) {
        let role = self.role.lock().take();
        role.into_iter().for_each(Role::end);
    }
}
