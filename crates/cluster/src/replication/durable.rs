//! What this node needs no more of the log: of each group, up to where its copies are in files, and what was
//! seen of it up to there. `node/flushing` writes the files.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_log::rules::chain::Position;
use plimsoll_log::{GroupId, Lsn};

use crate::metadata::trim_notes::LastRecords;

/// How far a node has made its copies durable, and what it saw of each group up to there.
#[derive(Default)]
pub(crate) struct Durable {
    flushed: BTreeMap<GroupId, Flushed>,
    /// Groups that are to be flushed before their turn.
    wished: BTreeSet<GroupId>,
}

/// A group as it was when it was flushed last.
pub(crate) struct Flushed {
    /// What of the metadata the node had seen before.
    pub metadata: Lsn,
    /// Up to where its copies need no more of the log.
    pub durable: Lsn,
    /// The chain's position, and the last records up to it.
    pub seen: (Position, LastRecords),
}

impl Durable {
    /// A group was flushed.
    pub(crate) fn note(&mut self, group: GroupId, flushed: Flushed) {
        self.flushed.insert(group, flushed);
    }

    /// The node reads the group no more.
    pub(crate) fn forget(&mut self, group: GroupId) {
        self.flushed.remove(&group);
        self.wished.remove(&group);
    }

    /// Somebody wants a group's log to hold no more than it must, soon.
    pub(crate) fn wish(&mut self, group: GroupId) {
        self.wished.insert(group);
    }

    /// Takes the wish that has the least key; those without one wait.
    pub(crate) fn take_wish<K: Ord>(
        &mut self,
        key: impl Fn(GroupId) -> Option<K>,
    ) -> Option<GroupId> {
        let keys = self.wished.iter().filter_map(|group| Some((key(*group)?, *group)));
        let (_, group) = keys.min()?;
        self.wished.remove(&group);
        Some(group)
    }

    /// The groups that were flushed, and what was seen then.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&GroupId, &Flushed)> {
        self.flushed.iter()
    }

    /// What was seen of a group up to where it was durable.
    pub(crate) fn seen(&self, group: GroupId) -> Option<(Position, LastRecords)> {
        self.flushed.get(&group).map(|flushed| flushed.seen.clone())
    }
}
