//! What this node says that it needs of the log.

use std::collections::BTreeMap;

use plimsoll_log::GroupId;

use super::service::Replication;
use crate::metadata::members::Beat;

impl Replication {
    /// What this node's beats say that it needs of the log; the metadata is followed up to `reconciled`. Every
    /// group that it reads is named: of one that was not flushed yet it needs all, and so it does of one that is
    /// not named and in which it has a copy.
    pub(crate) fn needs_of_log(&self, reconciled: u64) -> Beat {
        let held = self.durable.lock();
        let mut durable: BTreeMap<u16, u64> =
            held.groups().map(|(group, flushed)| (group.0, flushed.durable.0)).collect();
        for group in self.groups.all() {
            durable.entry(group.0).or_default();
        }
        // A copy that is being made may need the log from where its partition begins.
        for table in self.tables.all() {
            for copies in table.copies() {
                let definition = copies.definition();
                if copies.local().is_none() && definition.copy_on(&self.members.own).is_some() {
                    let durable = durable.entry(copies.group.0).or_default();
                    *durable = (*durable).min(definition.begin().lsn.0);
                }
            }
        }
        // In one that has stopped nothing is served that came after it was flushed last.
        let goes_on = |group: &GroupId| self.tails.get(group).is_some_and(|it| !it.has_stopped());
        let flushed = held.groups().filter(|(group, _)| goes_on(group));
        let metadata = flushed.map(|(_, flushed)| flushed.metadata.0).min().unwrap_or(0);
        // What was applied of the metadata and not followed yet may name a copy that is not known above.
        let metadata = metadata.min(reconciled);
        Beat { metadata, durable, ..Beat::default() }
    }
}
