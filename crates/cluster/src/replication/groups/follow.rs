//! Groups are taken up and given up as the metadata says where copies are.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_base::time::Instant;
use plimsoll_log::GroupId;

use super::error::GroupError;
use super::need::{Demand, KEEP};
use crate::metadata::GROUPS;
use crate::replication::service::Replication;

/// Since when groups that are read are of no use.
#[derive(Default)]
pub(crate) struct UnusedSince(BTreeMap<GroupId, Instant>);

impl UnusedSince {
    /// Notes whether a group is of use; says whether it has been of none for long enough.
    fn note(&mut self, group: GroupId, is_wanted: bool, now: Instant) -> bool {
        if is_wanted {
            self.0.remove(&group);
            return false;
        }
        now - *self.0.entry(group).or_insert(now) >= KEEP
    }
}

impl Replication {
    /// Takes up what is to be read now and gives up what is not, beside this thread, which beats.
    pub(crate) fn follow_groups(self: &Arc<Self>, unused: &mut UnusedSince) {
        if self.is_alone {
            return;
        }
        let (acts, now) = (self.members.acts(), self.world.time.now());
        let changes = |(group, demand): (GroupId, Demand)| {
            let holds = self.groups.get(group).is_some();
            let is_wanted = demand.wants(holds, acts);
            let is_over = unused.note(group, is_wanted || !holds, now);
            ((is_wanted && !self.groups.reads(group)) || is_over).then_some(group)
        };
        let changed: Vec<GroupId> = self.demands().into_iter().filter_map(changes).collect();
        if changed.is_empty() {
            return;
        }
        let Ok(changing) = Arc::clone(&self.groups.changing).try_lock_owned() else { return };
        let replication = Arc::downgrade(self);
        self.world.tasks.spawn("groups", async move {
            let Some(replication) = replication.upgrade() else { return };
            for group in changed {
                if let Err(error) = replication.change(group).await {
                    tracing::warn!(%group, %error, "a log group can be neither read nor left");
                }
            }
            drop(changing);
        });
    }

    /// Takes a group up or gives it up, by what is to be by now.
    async fn change(&self, group: GroupId) -> Result<(), GroupError> {
        let holds = self.groups.get(group).is_some();
        let demand = self.demands().remove(&group).unwrap_or_default();
        match demand.wants(holds, self.members.acts()) {
            true if !self.groups.reads(group) => self.take_up_now(group).await.map(drop),
            false if holds => self.give_up(group).await,
            _ => Ok(()),
        }
    }

    /// Reads a group no more, and keeps where it stood.
    async fn give_up(&self, group: GroupId) -> Result<(), GroupError> {
        // First it is found no more, then it takes no copy any more.
        let Some(applier) = self.groups.remove(group) else { return Ok(()) };
        let metadata = Arc::clone(&self.metadata);
        let leave = async move {
            let Some(mark) = applier.leave().await else { return Err(applier) };
            let note = serde_json::to_vec(&mark.last).unwrap_or_default();
            let store = &metadata.store;
            let kept = store.put_group(group, &mark.position, &note).and_then(|()| store.flush());
            if let Err(error) = kept {
                // It begins earlier then, should it be taken up again.
                tracing::warn!(%group, %error, "where a log group stood is not kept");
            }
            applier.stop().await;
            Ok(mark.position)
        };
        match self.world.tasks.apart("leave", leave).await? {
            Ok(position) => {
                tracing::info!(%group, at = position.lsn.0, "a log group is given up");
                self.durable.lock().forget(group);
            }
            // A copy came meanwhile, or the thread stands still.
            Err(applier) => self.groups.put_back(group, applier),
        }
        Ok(())
    }

    /// What each group is to this node, the metadata's aside.
    fn demands(&self) -> BTreeMap<GroupId, Demand> {
        let mut demands: BTreeMap<GroupId, Demand> =
            (1..=GROUPS).map(|group| (GroupId(group), Demand::default())).collect();
        let (members, own) = (self.members.all(), self.members.own.as_str());
        for table in self.tables.all() {
            for copies in table.copies() {
                let demand = demands.entry(copies.group).or_default();
                let definition = copies.definition();
                demand.add(&definition, own);
                demand.is_used |= copies.local().is_some();
                let others = definition.copies.iter().filter(|copy| copy.node != own);
                let mut others = others.filter_map(|copy| members.get(&copy.node));
                demand.is_served_elsewhere |= others.any(|member| member.serves(copies.id));
            }
        }
        for (group, demand) in &mut demands {
            let has_stopped = self.tails.get(group).is_some_and(|tail| tail.has_stopped());
            // What stopped is kept as it is.
            demand.is_used |= has_stopped || self.groups.is_leased(*group);
        }
        demands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_given_up_after_it_was_of_no_use_for_a_while_without_a_break() {
        let (mut unused, group, begun) = (UnusedSince::default(), GroupId(3), Instant::default());
        assert!(!unused.note(group, false, begun));
        assert!(!unused.note(group, false, begun + KEEP / 2));
        assert!(!unused.note(group, true, begun + KEEP / 2));
        assert!(!unused.note(group, false, begun + KEEP));
        assert!(unused.note(group, false, begun + KEEP * 2));
    }
}
