//! What a leader is told of its followers here: how far they have come, so that it keeps what they need
//! of its log, and when they follow no more.

use std::sync::Arc;

use super::definition::Follows;
use super::keeper::{Keeping, LOOK_INTERVAL};
use super::remote::{Hold, HoldChange, Remote, RemoteError};
use crate::node::Shared;
use crate::table::{Copies, Table};

/// How often the end of following is told to a leader that does not answer: it keeps its log until
/// its own budget otherwise.
const ENDS_TOLD_MAX: u32 = 30;

impl Keeping {
    /// Tells the leader how far the copies here are that this node speaks for: what comes after is kept.
    pub(super) async fn hold(
        &self,
        shared: &Shared,
        remote: &dyn Remote,
        table: &Table,
        follows: &Follows,
    ) -> Result<(), RemoteError> {
        let taken = |copies: &Arc<Copies>| {
            let is_spoken_for = shared.members.speaks_for(copies.id, &copies.definition());
            if is_spoken_for { self.progress.of(copies.id).needed() } else { 0 }
        };
        let positions: Vec<u64> = table.copies().iter().map(taken).collect();
        // Each is a change of the leader's metadata.
        let is_known = self.held.lock().get(&table.incarnation()) == Some(&positions);
        if is_known {
            return Ok(());
        }
        let change = HoldChange::Positions(positions.clone());
        let hold = |change| self.hold_of(table.name(), table.incarnation(), follows, change);
        let held = remote.hold(hold(change)).await?;
        if held.positions.is_empty() && !held.is_dropped {
            // Somebody had it forgotten; whoever follows still needs what comes next.
            remote.hold(hold(HoldChange::Begin)).await?;
        } else {
            self.held.lock().insert(table.incarnation(), positions);
        }
        Ok(())
    }

    pub(super) fn hold_of(
        &self,
        name: &str,
        incarnation: u64,
        follows: &Follows,
        change: HoldChange,
    ) -> Hold {
        Hold {
            name: follows.leader.clone(),
            table: follows.incarnation,
            cluster_uuid: self.cluster_uuid.clone(),
            follower: name.to_owned(),
            follower_incarnation: incarnation,
            change,
        }
    }

    /// A table follows no more, or is gone: its leader need keep nothing for it.
    pub(super) fn tell_end(self: &Arc<Self>, name: String, incarnation: u64, follows: &Follows) {
        let hold = self.hold_of(&name, incarnation, follows, HoldChange::End);
        let (keeping, remote) = (Arc::clone(self), follows.remote.clone());
        tokio::spawn(async move {
            for _ in 0..ENDS_TOLD_MAX {
                let Some(remote) = keeping.remotes.get(&remote) else { return };
                match remote.hold(hold.clone()).await {
                    Err(RemoteError::Unreachable(_)) => tokio::time::sleep(LOOK_INTERVAL).await,
                    _ => return,
                }
            }
        });
    }
}
