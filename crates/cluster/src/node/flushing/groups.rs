//! A group's rows made durable, and what may be said and trimmed of its log from then on.

use plimsoll_log::{GroupId, Lsn};

use crate::following::Holds;
use crate::metadata::GROUPS;
use crate::node::shared::Shared;
use crate::node::trimming::TrimError;
use crate::replication::durable::Flushed;
use crate::settings;

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
    let Some(applier) = shared.replication.groups.get(group) else { return };
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
    let kept = kept.and_then(|()| store.flush()).map_err(TrimError::from);
    // Where others read the log too, it is not this node's alone to trim.
    let trimmed = match kept {
        Ok(()) if shared.replication.is_alone => trim_alone(shared, group, durable),
        kept => kept,
    };
    if let Err(error) = trimmed {
        tracing::warn!(%group, %error, "the log cannot be trimmed");
        return;
    }
    let flushed = Flushed { metadata, durable, seen: (mark.position, mark.last) };
    let mut held = shared.replication.durable.lock();
    // A group that was given up meanwhile is not named any more.
    if shared.replication.groups.get(group).is_some() {
        held.note(group, flushed);
    }
}

/// Trims a group of which a node that is alone needs nothing up to `durable`, but for what followers in
/// other clusters need.
fn trim_alone(shared: &Shared, group: GroupId, durable: Lsn) -> Result<(), TrimError> {
    let bytes_max = settings::cluster::followers_retention_bytes(&shared.metadata);
    let mut holds = Holds::read(&shared.metadata)?;
    let bytes = holds.kept_bytes(&*shared.replication.log, group, durable.0);
    let spared = holds.spare(group, durable.0, bytes, bytes_max);
    let trimmed = shared.replication.trim(group, Lsn(spared.up_to));
    holds.write_aside(&shared.copies);
    Ok(trimmed?)
}

/// Whether a copy in the group could not be opened: what of the log it lacks is not known, so all of it is
/// kept for the time when its files are restored.
fn is_of_a_stopped_copy(shared: &Shared, group: GroupId) -> bool {
    let tables = shared.tables.all();
    let mut copies = tables.iter().flat_map(|table| table.copies());
    copies.any(|copies| copies.group == group && copies.stopped().is_some())
}
