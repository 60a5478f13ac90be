//! Where log groups stand that this node does not read: another that does is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_log::rules::chain::Position;
use plimsoll_log::{GroupId, Lsn};

use super::error::GroupError;
use crate::metadata;
use crate::metadata::members::Member;
use crate::replication::service::Replication;
use crate::wire::{Question, Reply};

/// How long one node has to answer.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);
/// How long nodes are asked in all: whoever creates a table holds the lock of changes meanwhile, for which the
/// thread that beats waits too.
const ASK_ALL_TIMEOUT: Duration = Duration::from_secs(3);

impl Replication {
    /// A position of each group's chain from which a partition that begins now can be read: where this
    /// node, or one that reads the group, has applied it. Where no such node answers it is the last that
    /// is known here, which is right as well: only more is to be read.
    pub(crate) async fn positions(
        &self,
        groups: &BTreeSet<GroupId>,
    ) -> Result<BTreeMap<GroupId, Position>, GroupError> {
        let notes = metadata::trim_notes(&self.metadata)?;
        let mut positions = BTreeMap::new();
        for group in groups {
            let tail = self.tails.get(group).ok_or(GroupError::Unknown(*group))?;
            let (own, noted) = (tail.get().position(), notes.get(group).map(|note| note.at()));
            let reads = self.groups.reads(*group);
            let known = noted.filter(|it| !reads && it.lsn > own.lsn).unwrap_or(own);
            positions.insert(*group, known);
        }
        let missing = groups.iter().copied().filter(|group| !self.groups.reads(*group)).collect();
        for (group, position) in self.ask_others(missing).await {
            let known = positions.entry(group).or_insert(position);
            if position.lsn > known.lsn {
                *known = position;
            }
        }
        Ok(positions)
    }

    /// Where a node that reads the group has applied it; none where none answers.
    pub(super) async fn position_at_others(&self, group: GroupId) -> Option<Position> {
        self.ask_others(BTreeSet::from([group])).await.remove(&group)
    }

    /// Asks nodes that are there until each group was answered for: first those that have copies in most
    /// of them.
    async fn ask_others(&self, mut missing: BTreeSet<GroupId>) -> BTreeMap<GroupId, Position> {
        let mut found = BTreeMap::new();
        if missing.is_empty() {
            return found;
        }
        let begun = self.world.time.now();
        for member in self.others_by_groups(&missing) {
            match member.link.ask(Question::Positions, ASK_TIMEOUT, 0).await {
                Ok(Reply::Positions(positions)) => {
                    for (group, lsn, hash, log_time_ms) in positions {
                        if missing.remove(&GroupId(group)) {
                            let position = Position { lsn: Lsn(lsn), hash, log_time_ms };
                            found.insert(GroupId(group), position);
                        }
                    }
                }
                Ok(_) => tracing::debug!(node = member.record.name, "it says not where it stands"),
                Err(error) => tracing::debug!(node = member.record.name, %error, "no positions"),
            }
            if missing.is_empty() || self.world.time.now() - begun >= ASK_ALL_TIMEOUT {
                break;
            }
        }
        found
    }

    fn others_by_groups(&self, wanted: &BTreeSet<GroupId>) -> Vec<Arc<Member>> {
        let mut groups: BTreeMap<String, BTreeSet<GroupId>> = BTreeMap::new();
        for table in self.tables.all() {
            for copies in table.copies().iter().filter(|it| wanted.contains(&it.group)) {
                for node in copies.definition().serving() {
                    groups.entry(node.to_owned()).or_default().insert(copies.group);
                }
            }
        }
        let count = |member: &Arc<Member>| groups.get(&member.id).map_or(0, BTreeSet::len);
        let mut others: Vec<Arc<Member>> =
            self.members.others().into_iter().filter(|it| it.is_alive()).collect();
        others.sort_by_key(|member| std::cmp::Reverse(count(member)));
        others
    }
}
