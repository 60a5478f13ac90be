//! The service: what is asked of the tables that follow, and what the tasks that care for them share.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::World;
use plimsoll_base::random::Draws;
use plimsoll_base::time::Instant;
use tokio::sync::Notify;

use super::auto_follow_told::{AutoFollowTold, Rests};
use super::children::Children;
use super::first_copies::Making;
use super::progress::Progress;
use super::remote::{LeaderTable, RemoteError, Remotes};
use crate::copies::LocalCopies;
use crate::metadata::follows::Follows;
use crate::pacing::Pacing;

/// How often a leader's table is looked at, and told how far its follower is.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// The tables of a node that follow.
#[derive(Clone)]
pub struct Following {
    pub(super) here: Arc<LocalCopies>,
    pub(super) keeping: Arc<Keeping>,
}

/// What several tasks share.
pub(super) struct Keeping {
    pub world: World,
    pub here: Weak<LocalCopies>,
    pub remotes: Arc<dyn Remotes>,
    pub progress: Arc<Progress>,
    /// How fast it may go.
    pub pacing: Arc<Pacing>,
    /// This cluster, as leaders know it.
    pub cluster_uuid: String,
    /// What goes on beside everything else, for as long as these tables are cared for.
    pub children: Children,
    /// What copies that are levelled are compared by.
    pub seeds: Arc<Draws>,
    /// What became of looking for new tables.
    pub auto: AutoFollowTold,
    pub auto_rests: Rests,
    /// Tables that follow, as they were last, by their incarnations.
    pub known: Mutex<BTreeMap<u64, (String, Arc<Follows>)>>,
    pub making: Making,
    /// Leaders' tables as they were of late, by their incarnations.
    pub leaders: Mutex<BTreeMap<u64, (Instant, LeaderTable)>>,
    /// Something is to be looked at now.
    pub wake: Notify,
    /// What leaders were told last of each table.
    pub held: Mutex<BTreeMap<u64, Vec<u64>>>,
}

/// What is told of a remote's refusal, and whether it stays.
pub(super) fn trouble_of(error: RemoteError) -> (String, bool) {
    let is_final = error.is_final();
    (error.to_string(), is_final)
}
