//! A group is taken up: where it begins, and who applies it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll_log::GroupId;
use plimsoll_log::rules::chain::Chain;

use super::error::GroupError;
use super::{Begin, begin, kept};
use crate::metadata::trim_notes::LastRecords;
use crate::replication::applier::{Applier, GroupStart};
use crate::replication::service::Replication;

impl Replication {
    /// The applier of a group, which the node reads from now on where it did not.
    ///
    /// # Errors
    /// Where nothing that is known of the group is still in the log, or the log fails.
    pub(crate) async fn take_up(&self, group: GroupId) -> Result<Arc<Applier>, GroupError> {
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
    pub(super) async fn take_up_now(&self, group: GroupId) -> Result<Arc<Applier>, GroupError> {
        if self.is_stopping.load(Ordering::Relaxed) {
            return Err(GroupError::Stopping);
        }
        if let Some(left) = self.groups.remove(group) {
            self.world.tasks.apart("stop", async move { left.stop().await }).await?;
        }
        let tail = self.tails.get(&group).ok_or(GroupError::Unknown(group))?;
        let Begin { position, last } = self.begin_of(group).await?;
        tracing::info!(%group, after = position.lsn.0, "a log group is taken up");
        let chain = Chain::resume(self.log.incarnation(), position);
        let (tail, replicas) = (Arc::clone(tail), Vec::new());
        Ok(self.groups.start(GroupStart { group, chain, tail, replicas, last })?)
    }

    /// Where a group begins in which the node has no copy yet.
    async fn begin_of(&self, group: GroupId) -> Result<Begin, GroupError> {
        let (log, metadata) = (Arc::clone(&self.log), Arc::clone(&self.metadata));
        let found = move || {
            let first = log.bounds(group)?.first;
            let kept = kept(&metadata.store)?;
            let notes = crate::metadata::trim_notes(&metadata)?;
            let genesis = Chain::new(log.incarnation()).position();
            Ok::<_, GroupError>(begin(None, kept.get(&group), notes.get(&group), genesis, first))
        };
        // A server may have to be asked.
        if let Some(begin) = self.world.tasks.blocking(found).await?? {
            return Ok(begin);
        }
        let position = self.position_at_others(group).await;
        let position = position.ok_or(GroupError::Nowhere(group))?;
        Ok(Begin { position, last: LastRecords::seen_from(position.lsn) })
    }
}
