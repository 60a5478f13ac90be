//! A group is taken up: where it begins, and who applies it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll_log::GroupId;
use plimsoll_log::rules::chain::Chain;

use super::{Begin, begin, kept};
use crate::metadata::trim_notes::LastRecords;
use crate::replication::applier::{Applier, GroupStart};
use crate::replication::service::Replication;

impl Replication {
    /// The applier of a group, which the node reads from now on where it did not.
    ///
    /// # Errors
    /// Where nothing that is known of the group is still in the log, or the log fails.
    pub(crate) async fn take_up(&self, group: GroupId) -> Result<Arc<Applier>, String> {
        let reading = || self.groups.get(group).filter(|it| !it.has_left());
        if let Some(applier) = reading() {
            return Ok(applier);
        }
        let _changing = self.groups.changing.lock().await;
        match reading() {
            Some(applier) => Ok(applier),
            None => self.take_up_now(group).await,
        }
    }

    /// The same, by whoever holds the lock of changes.
    pub(super) async fn take_up_now(&self, group: GroupId) -> Result<Arc<Applier>, String> {
        if self.is_stopping.load(Ordering::Relaxed) {
            return Err("the node is stopping".to_owned());
        }
        if let Some(left) = self.groups.remove(group) {
            let stopped = self.world.tasks.apart("stop", async move { left.stop().await }).await;
            stopped.map_err(|error| error.to_string())?;
        }
        let tail = self.tails.get(&group).ok_or_else(|| format!("the log has no group {group}"))?;
        let Begin { position, last } = self.begin_of(group).await?;
        tracing::info!(%group, after = position.lsn.0, "a log group is taken up");
        let chain = Chain::resume(self.log.incarnation(), position);
        let (tail, replicas) = (Arc::clone(tail), Vec::new());
        let started = self.groups.start(GroupStart { group, chain, tail, replicas, last });
        started.map_err(|error| error.to_string())
    }

    /// Where a group begins in which the node has no copy yet.
    async fn begin_of(&self, group: GroupId) -> Result<Begin, String> {
        let (log, metadata) = (Arc::clone(&self.log), Arc::clone(&self.metadata));
        let found = move || {
            let first = log.bounds(group).map_err(|error| error.to_string())?.first;
            let kept = kept(&metadata.store).map_err(|error| error.to_string())?;
            let notes = crate::metadata::trim_notes(&metadata)?;
            let genesis = Chain::new(log.incarnation()).position();
            Ok(begin(None, kept.get(&group), notes.get(&group), genesis, first))
        };
        // A server may have to be asked.
        let found: Result<_, String> =
            self.world.tasks.blocking(found).await.map_err(|error| error.to_string())?;
        if let Some(begin) = found? {
            return Ok(begin);
        }
        let position = self.position_at_others(group).await;
        let position =
            position.ok_or_else(|| format!("no node knows where log group {group} is"))?;
        Ok(Begin { position, last: LastRecords::seen_from(position.lsn) })
    }
}
