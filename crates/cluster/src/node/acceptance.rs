//! An operator accepts that a partition lost records: of a partition that no copy serves, one copy
//! that is behind serves again from where it stands (Elasticsearch's `allocate_stale_primary`).
//! Nothing here happens by itself.

use crate::Coordinator;
use crate::metadata;
use crate::metadata::placement::CopyState;
use crate::metadata::reports::CopyReport;
use crate::metadata::table::TableDefinition;
use crate::metadata::trim_notes::TrimNote;
use crate::node::shared::Shared;
use crate::replication::tables::Copies;

/// Why a stale copy is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcceptError {
    /// The table or partition is not there.
    #[error("no shard [{0}] of index [{1}] is there")]
    NoPartition(u32, String),
    /// The node holds no copy of it that is behind, or is not there; an empty copy is none.
    #[error("the node [{0}] is not there, or holds no copy of the shard that is behind its log")]
    NoCopy(String),
    /// Nothing is to be accepted: a copy serves, or may serve by itself.
    #[error("the shard's copy on [{0}] serves, or may do so by itself: nothing has to be lost")]
    Served(String),
    /// The metadata was not changed.
    #[error("{0}")]
    Failed(String),
}

impl Coordinator {
    /// Has the copy of a partition that is on `node` (its id) serve from where it stands, whatever
    /// it lacks, and all other copies be made anew from it.
    ///
    /// # Errors
    /// Where any copy is known to serve, or the node has none.
    pub async fn accept_stale_copy(
        &self,
        table: &str,
        ordinal: u32,
        node: &str,
    ) -> Result<(), AcceptError> {
        let shared = self.shared();
        let missing = || AcceptError::NoPartition(ordinal, table.to_owned());
        let found = shared.tables.by_name(table).ok_or_else(missing)?;
        let copies = found.copies().get(ordinal as usize).ok_or_else(missing)?;
        let epoch = shared.check_acceptable(copies, node)?;
        // The earliest position that the log can be read on from; without a note where it is applied.
        let note = metadata::trim_notes(&shared.metadata).map_err(not_changed)?;
        let applied = shared.replication.positions(&[copies.group].into()).await;
        let applied = applied.map_err(not_changed)?.remove(&copies.group);
        let from = note.get(&copies.group).map(TrimNote::at).or(applied);
        let from = from.ok_or_else(|| AcceptError::Failed("an unknown log group".to_owned()))?;
        let accept = |definition: &mut TableDefinition| {
            let partition = definition.partitions.get_mut(ordinal as usize);
            let Some(partition) = partition.filter(|it| it.epoch == epoch) else { return false };
            // The others are made anew from it, whatever they hold.
            for copy in &mut partition.copies {
                let is_it = copy.node == node;
                copy.state = if is_it { CopyState::Serving } else { CopyState::Initializing };
            }
            partition.accepted = Some((from.lsn.0, from.hash, from.log_time_ms));
            partition.epoch += 1;
            true
        };
        tracing::warn!(table, ordinal, node, up_to = from.lsn.0, "a stale copy is accepted");
        let changed =
            shared.replication.update_definition(table, found.incarnation(), accept).await;
        match changed {
            Ok(true) => {
                shared.router.tell_others().await;
                Ok(())
            }
            Ok(false) => Err(AcceptError::Failed("the copies changed meanwhile".to_owned())),
            Err(error) => Err(not_changed(error)),
        }
    }
}

fn not_changed(why: impl ToString) -> AcceptError {
    AcceptError::Failed(why.to_string())
}

impl Shared {
    /// The epoch of the copies, if the one on `node` may be accepted: no other that is there serves or
    /// may yet do so by itself.
    fn check_acceptable(&self, copies: &Copies, node: &str) -> Result<u64, AcceptError> {
        let members = self.members.all();
        let definition = copies.definition();
        let there = members.values().filter(|it| it.is_alive());
        let mut named = there.filter(|it| definition.copy_on(&it.id).is_some());
        let is_lost = |report: Option<&CopyReport>| {
            use CopyReport::{Absent, Halted, Stopped};
            matches!(report, Some(Absent { .. } | Stopped { .. } | Halted { .. }))
        };
        if let Some(member) = named.find(|it| !is_lost(it.reports.of(copies.id))) {
            return Err(AcceptError::Served(member.record.name.clone()));
        }
        let member = members.get(node).filter(|it| it.is_alive());
        match member.and_then(|it| it.reports.of(copies.id)) {
            Some(CopyReport::Absent { held, .. }) if *held > definition.begin().lsn.0 => {
                Ok(definition.epoch)
            }
            _ => Err(AcceptError::NoCopy(node.to_owned())),
        }
    }
}
