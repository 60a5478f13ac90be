//! A group's rows made durable, and what may be said and trimmed of its log from then on.

use std::collections::BTreeMap;

use plimsoll_log::rules::chain::Position;
use plimsoll_log::{GroupId, Lsn};

use crate::following::Holds;
use crate::metadata::members::Beat;
use crate::node::trimming::LastRecords;
use crate::node::{GROUPS, Shared};
use crate::settings;

/// How far a node has made its copies durable, and what it saw of each group up to there.
#[derive(Default)]
pub(crate) struct Durable(BTreeMap<GroupId, Flushed>);

/// A group as it was when it was flushed last.
struct Flushed {
    /// What of the metadata the node had seen before.
    metadata: Lsn,
    /// Up to where its copies need no more of the log.
    durable: Lsn,
    /// The chain's position, and the last records up to it.
    seen: (Position, LastRecords),
}

impl Durable {
    /// What the node's beats say of it. Every group that it reads is named: of one that was not flushed yet
    /// it needs all, and so it does of one that is not named and in which it has a copy.
    pub(crate) fn beat(&self, shared: &Shared) -> Beat {
        let mut durable: BTreeMap<u16, u64> =
            self.0.iter().map(|(group, flushed)| (group.0, flushed.durable.0)).collect();
        for group in shared.groups.all() {
            durable.entry(group.0).or_default();
        }
        // A copy that is being made may need the log from where its partition begins.
        for table in shared.tables.all() {
            for copies in table.copies() {
                let definition = copies.definition();
                if copies.local().is_none() && definition.copy_on(&shared.members.own).is_some() {
                    let durable = durable.entry(copies.group.0).or_default();
                    *durable = (*durable).min(definition.begin().lsn.0);
                }
            }
        }
        // In one that has stopped nothing is served that came after it was flushed last.
        let goes_on = |group: &GroupId| shared.tails.get(group).is_some_and(|it| !it.has_stopped());
        let flushed = self.0.iter().filter(|(group, _)| goes_on(group));
        let metadata = flushed.map(|(_, flushed)| flushed.metadata.0).min().unwrap_or(0);
        // What was applied of the metadata and not followed yet may name a copy that is not known above.
        let metadata = metadata.min(*shared.reconciled.borrow());
        Beat { metadata, durable, ..Beat::default() }
    }

    /// The node reads the group no more.
    pub(crate) fn forget(&mut self, group: GroupId) {
        self.0.remove(&group);
    }

    /// What was seen of a group up to where it was durable.
    pub(crate) fn seen(&self, group: GroupId) -> Option<(Position, LastRecords)> {
        self.0.get(&group).map(|flushed| flushed.seen.clone())
    }
}

/// Makes all rows durable and trims the log behind them.
pub(crate) async fn flush_all(shared: &Shared) {
    for group in 0..=GROUPS {
        flush(shared, GroupId(group)).await;
    }
}

/// Makes a group's rows durable and trims its log behind them. What fails is reported and left for the
/// next time: it costs space and replay, no data.
pub(super) async fn flush(shared: &Shared, group: GroupId) {
    // Before the mark: of what is said after this the mark may know nothing.
    let metadata = shared.metadata.applied();
    let is_needed = is_of_a_stopped_copy(shared, group);
    let Some(applier) = shared.groups.get(group) else { return };
    let Some(mut mark) = applier.mark().await else { return };
    let mut durable = mark.position.lsn;
    for (partition, position) in &mark.replicas {
        // Its next try is `maintenance`'s, which says so.
        if partition.store.has_failed() {
            durable = Lsn(0);
            continue;
        }
        match partition.store.flush() {
            Ok(()) => durable = durable.min(position.lsn),
            Err(error) => {
                tracing::warn!(partition = %partition.id, %error, "rows cannot be flushed");
                partition.note(&error);
                durable = Lsn(0);
            }
        }
    }
    if durable == Lsn(0) || is_needed {
        return;
    }
    mark.last.prune(|id| shared.tables.copies(id).is_some());
    let note = serde_json::to_vec(&mark.last).unwrap_or_default();
    let store = &shared.metadata.store;
    let kept = store.put_group(group, &mark.position, &note);
    let kept = kept.and_then(|()| store.flush()).map_err(|error| error.to_string());
    // Where others read the log too, it is not this node's alone to trim.
    let trimmed = match kept {
        Ok(()) if shared.is_alone => trim_alone(shared, group, durable),
        kept => kept,
    };
    if let Err(error) = trimmed {
        tracing::warn!(%group, error, "the log cannot be trimmed");
        return;
    }
    let flushed = Flushed { metadata, durable, seen: (mark.position, mark.last) };
    let mut held = shared.durable.lock();
    // A group that was given up meanwhile is not named any more.
    if shared.groups.get(group).is_some() {
        held.0.insert(group, flushed);
    }
}

/// Trims a group of which a node that is alone needs nothing up to `durable`, but for what followers in
/// other clusters need.
fn trim_alone(shared: &Shared, group: GroupId, durable: Lsn) -> Result<(), String> {
    let bytes_max = settings::cluster::followers_retention_bytes(&shared.metadata);
    let mut holds = Holds::read(&shared.metadata)?;
    let bytes = holds.kept_bytes(&*shared.log, group, durable.0);
    let spared = holds.spare(group, durable.0, bytes, bytes_max);
    let trimmed = shared.trim(group, Lsn(spared.up_to));
    holds.write_aside(shared);
    trimmed
}

/// Whether a copy in the group could not be opened: what of the log it lacks is not known, so all of it is
/// kept for the time when its files are restored.
fn is_of_a_stopped_copy(shared: &Shared, group: GroupId) -> bool {
    let tables = shared.tables.all();
    let mut copies = tables.iter().flat_map(|table| table.copies());
    copies.any(|copies| copies.group == group && copies.stopped().is_some())
}
