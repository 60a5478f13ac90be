//! What trimming asks before it takes anything from a group's log: which followers of other clusters
//! still need it, and which of them loses it where it is too much.
//!
//! It reads the metadata's rows and nothing else, so that a hold and the table that it is of are seen
//! together. What it decides is written by whoever trims.

use std::collections::BTreeMap;

use plimsoll_log::{GroupId, Log, Lsn};
use plimsoll_storage::Argv;
use plimsoll_storage::operation::Operation;
use tokio::sync::oneshot;

use super::floor::{self, Needed, Spared};
use super::holds::{self, FollowerHold, HoldsError, KIND};
use crate::copies::LocalCopies;
use crate::metadata;
use crate::replication::lead::{Step, Submission};
use crate::replication::partition::Partition;

/// What followers need, as the metadata has it now.
#[derive(Default)]
pub(crate) struct Holds {
    /// The change that they were read at.
    seen: u64,
    all: BTreeMap<String, FollowerHold>,
    needed: BTreeMap<GroupId, Vec<Needed>>,
    /// Those of tables that are gone, and those that are dropped: what is to be written of it.
    commands: Vec<Argv>,
}

impl Holds {
    /// # Errors
    /// Where something cannot be read: nothing may be trimmed then.
    pub(crate) fn read(metadata: &Partition) -> Result<Self, HoldsError> {
        let seen = metadata::objects_change(metadata, KIND)?;
        let all: BTreeMap<String, FollowerHold> = holds::all(metadata)?.into_iter().collect();
        let mut holds = Self { seen, ..Self::default() };
        // After the holds: a table that one of them names is there by now, or gone.
        let mut groups: BTreeMap<&str, Option<(u64, Vec<GroupId>)>> = BTreeMap::new();
        for held in all.values() {
            if !groups.contains_key(held.name.as_str()) {
                let found = metadata::definition(metadata, &held.name)?;
                let found = found.map(|(it, _)| (it.incarnation, holds::groups_of(&it)));
                groups.insert(&held.name, found);
            }
        }
        for (name, held) in &all {
            let table = groups.get(held.name.as_str()).and_then(Option::as_ref);
            let Some((_, groups)) = table.filter(|(table, _)| *table == held.table) else {
                holds.commands.push(metadata::delete_object(KIND, name));
                continue;
            };
            if held.is_dropped {
                continue;
            }
            for (group, position) in groups.iter().zip(&held.positions) {
                holds.needed.entry(*group).or_default().push((name.clone(), *position));
            }
        }
        holds.all = all;
        Ok(holds)
    }

    /// What the log of a group holds for followers alone, bytes, where this cluster needs nothing up to
    /// `up_to`; `None` where the log does not count so.
    pub(crate) fn kept_bytes(&self, log: &dyn Log, group: GroupId, up_to: u64) -> Option<u64> {
        let lowest = self.needed.get(&group)?.iter().map(|(_, position)| *position).min()?;
        let after = |lsn: u64| log.bytes_after(group, Lsn(lsn)).ok().flatten();
        Some(after(lowest.min(up_to))?.saturating_sub(after(up_to)?))
    }

    /// Up to where a group may be trimmed of which this cluster needs nothing up to `up_to`, and
    /// whether a hold was dropped for it: that is so from now on in all groups.
    pub(crate) fn spare(
        &mut self,
        group: GroupId,
        up_to: u64,
        bytes: Option<u64>,
        bytes_max: u64,
    ) -> Spared {
        let needed = self.needed.get(&group).map(Vec::as_slice).unwrap_or_default();
        let spared = floor::spare(up_to, needed, bytes.is_some_and(|bytes| bytes > bytes_max));
        if let Some(name) = &spared.dropped {
            self.drop_hold(name, group, bytes, bytes_max);
        }
        spared
    }

    fn drop_hold(&mut self, name: &str, group: GroupId, bytes: Option<u64>, bytes_max: u64) {
        for needed in self.needed.values_mut() {
            needed.retain(|(other, _)| other != name);
        }
        let Some(held) = self.all.get_mut(name) else { return };
        tracing::warn!(
            table = held.name,
            follower = held.follower,
            cluster_uuid = held.cluster_uuid,
            %group,
            bytes,
            bytes_max,
            "the log holds more than ccr.retention.max_bytes of a group for a follower in another \
             cluster: nothing is kept for it any more"
        );
        (held.is_dropped, held.bytes) = (true, bytes);
        self.commands.push(holds::put(name, held));
    }

    /// What is to be written, if anything. It does nothing where a hold was changed meanwhile: the next
    /// look decides anew.
    pub(crate) fn write(&mut self) -> Option<Operation> {
        let commands: Vec<Argv> = std::mem::take(&mut self.commands);
        (!commands.is_empty()).then(|| metadata::change_objects(KIND, commands, self.seen))
    }

    /// Has it written without waiting for it, by a thread that cannot.
    pub(crate) fn write_aside(&mut self, here: &LocalCopies) {
        let Some(operation) = self.write() else { return };
        // Its outcome is not waited for, so no other operation is given this session.
        let mut session = here.replication.sessions.session();
        let (first, acked) = (session.take(1), session.acked());
        let (session, steps) = (session.id(), vec![Step::Write(operation.encode())]);
        let (done, _) = oneshot::channel();
        let stamp_ms = here.world.time.wall_ms().max(here.metadata.lead.log_time_ms());
        here.metadata.lead.submit(Submission { session, first, acked, stamp_ms, steps, done });
    }
}
