//! What a leader is told of its followers here: how far they have come, so that it keeps what they need
//! of its log. That they follow no more is told by `ends.rs`.

use std::sync::Arc;

use super::remote::{Hold, HoldChange, Remote, RemoteError};
use super::service::Keeping;
use crate::copies::LocalCopies;
use crate::metadata::follows::Follows;
use crate::replication::tables::{Copies, Table};

impl Keeping {
    /// Tells the leader how far the copies here are that this node speaks for: what comes after is kept.
    pub(super) async fn hold(
        &self,
        here: &LocalCopies,
        remote: &dyn Remote,
        table: &Table,
        follows: &Follows,
    ) -> Result<(), RemoteError> {
        let taken = |copies: &Arc<Copies>| {
            let is_spoken_for = here.members.speaks_for(copies.id, &copies.definition());
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
        match (held.is_dropped, held.positions.is_empty()) {
            // It is told again: what all nodes here say together ends that, and one that spoke for a partition
            // meanwhile may have said less of it.
            (true, _) => {}
            // Somebody had it forgotten; whoever follows still needs what comes next.
            (false, true) => {
                remote.hold(hold(HoldChange::Begin)).await?;
            }
            (false, false) => {
                self.held.lock().insert(table.incarnation(), positions);
            }
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
            key: String::new(),
        }
    }
}
