//! The log groups that this node reads, each with an applier of its own: those of its copies, the
//! metadata's, and what is asked for a while. Which they are is decided in [`need`], where one begins in
//! [`begin`], how it is taken up in [`taking`]; they follow the metadata in [`follow`]. Of a group that it does not read the node knows
//! where it stood once; [`positions`] asks others.
//!
//! A node that is alone reads all groups.

mod begin;
pub(crate) mod error;
pub(crate) mod follow;
mod need;
mod positions;
mod taking;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use plimsoll_log::rules::chain::Position;
use plimsoll_log::{GroupId, LogError};
use plimsoll_storage::partition::Store;
use plimsoll_storage::rows::StoreError;

use crate::metadata::trim_notes::LastRecords;
use crate::replication::applier::{Applier, ApplierContext, GroupStart};

pub(crate) use begin::{Begin, Kept, begin};
pub(crate) use need::Demand;

/// The appliers of a node.
pub(crate) struct HeldGroups {
    context: ApplierContext,
    state: Mutex<GroupTable>,
    /// How many ask for a group beside its copies.
    leases: Mutex<BTreeMap<GroupId, usize>>,
    /// Held by who takes groups up or gives them up.
    changing: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct GroupTable {
    appliers: BTreeMap<GroupId, Arc<Applier>>,
    is_closed: bool,
}

impl HeldGroups {
    pub(crate) fn new(context: ApplierContext) -> Self {
        let (state, leases, changing) = (Mutex::default(), Mutex::default(), Arc::default());
        Self { context, state, leases, changing }
    }

    /// The applier of a group, if the node reads it.
    pub(crate) fn get(&self, group: GroupId) -> Option<Arc<Applier>> {
        self.state.lock().appliers.get(&group).cloned()
    }

    /// The same, once nobody is taking groups up or giving them up.
    pub(crate) async fn applier_of(&self, group: GroupId) -> Option<Arc<Applier>> {
        match self.get(group) {
            Some(applier) => Some(applier),
            None => {
                let _changing = self.changing.lock().await;
                self.get(group)
            }
        }
    }

    /// Whether the node reads a group, and can bring a copy forward there.
    pub(crate) fn reads(&self, group: GroupId) -> bool {
        self.state.lock().appliers.get(&group).is_some_and(|it| !it.has_left())
    }

    /// The groups that the node reads.
    pub(crate) fn all(&self) -> Vec<GroupId> {
        self.state.lock().appliers.keys().copied().collect()
    }

    /// Begins to read a group.
    pub(crate) fn start(&self, start: GroupStart) -> Result<Arc<Applier>, LogError> {
        let group = start.group;
        let applier = Arc::new(Applier::start(&self.context, start)?);
        let mut state = self.state.lock();
        if state.is_closed {
            drop(state);
            applier.end();
            return Err(LogError::Failed("the node is stopping".to_owned()));
        }
        state.appliers.insert(group, Arc::clone(&applier));
        Ok(applier)
    }

    fn remove(&self, group: GroupId) -> Option<Arc<Applier>> {
        self.state.lock().appliers.remove(&group)
    }

    /// Takes an applier back that could not be given up.
    fn put_back(&self, group: GroupId, applier: Arc<Applier>) {
        let mut state = self.state.lock();
        if state.is_closed {
            drop(state);
            return applier.end();
        }
        state.appliers.insert(group, applier);
    }

    /// Ends all appliers after what they are doing; a node's are waited for, which blocks.
    pub(crate) fn close(&self) {
        let appliers = {
            let mut state = self.state.lock();
            state.is_closed = true;
            std::mem::take(&mut state.appliers)
        };
        appliers.values().for_each(|applier| applier.begin_to_stop());
        appliers.values().for_each(|applier| applier.end());
    }

    /// Has the node read a group for as long as this lives, also where it has no copy in it.
    pub(crate) fn lease(self: &Arc<Self>, group: GroupId) -> Lease {
        *self.leases.lock().entry(group).or_default() += 1;
        Lease { groups: Arc::clone(self), group }
    }

    fn is_leased(&self, group: GroupId) -> bool {
        self.leases.lock().contains_key(&group)
    }
}

impl Drop for HeldGroups {
    /// An opening that fails leaves no thread behind, which would keep the stores open.
    fn drop(&mut self) {
        self.close();
    }
}

/// Has a group read: see [`HeldGroups::lease`].
pub(crate) struct Lease {
    groups: Arc<HeldGroups>,
    group: GroupId,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut leases = self.groups.leases.lock();
        if let Some(count) = leases.get_mut(&self.group) {
            *count -= 1;
            if *count == 0 {
                leases.remove(&self.group);
            }
        }
    }
}

/// What the store of the metadata keeps of the groups.
pub(crate) fn kept(store: &Store) -> Result<BTreeMap<GroupId, Kept>, StoreError> {
    let kept = |(group, (position, note)): (GroupId, (Position, Vec<u8>))| {
        (group, Kept { position, last: serde_json::from_slice::<LastRecords>(&note).ok() })
    };
    Ok(store.groups()?.into_iter().map(kept).collect())
}
