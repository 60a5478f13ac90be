//! Making this node's copy of a partition: from the files that are here, from the log, or from
//! another node's copy. Which copies are to be made, and when, is decided in `node/reconcile.rs`.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_control::Class;
use plimsoll_log::{Lsn, PartitionId};
use plimsoll_storage::partition::{ApplyError, Replica};
use plimsoll_storage::rows::StoreError;

use super::LocalCopies;
use super::error::{Lacking, NotMade, NotServed};
use crate::metadata;
use crate::metadata::placement::CopyState;
use crate::metadata::table::TableDefinition;
use crate::recovery::{self, Copied, CopyOptions, Pace, Recovery, Stage};
use crate::replication::catch_up::CatchUpError;
use crate::replication::tables::{Copies, Table};

/// How many positions of its group a new copy is brought through the log, rather than copied.
const REPLAY_RECORDS_MAX: u64 = 1_000;

/// How often is looked whether the table of a copy that is being made is still there.
const FORGOTTEN_LOOK: Duration = Duration::from_millis(500);

impl LocalCopies {
    /// Makes this node's copy of a partition, and says so where others wait for it.
    pub(crate) async fn make_copy(&self, table: &Table, copies: &Copies) -> Result<(), NotMade> {
        if copies.local().is_none() {
            // From here on the log is kept for it, beginning with what it lacks.
            self.replication.take_up(copies.group).await.map_err(NotServed::from)?;
            let begin = copies.definition().begin();
            let (incarnation, dir) =
                (self.replication.log.incarnation(), self.partition_dir(copies.id));
            let open =
                || Replica::open(copies.id, &dir, &self.replication.resources, incarnation, begin);
            let mut recovery = None;
            // What came from another cluster is nowhere in this log.
            let is_imported = copies.definition().is_imported;
            let is_here = self.world.disk.has_dir(&dir).map_err(NotServed::from)?;
            let is_copied = is_imported && (!is_here || self.is_to_be_made(copies));
            if is_copied || !is_here && self.is_worth_copying(copies).await {
                recovery = Some(self.copy_from_another(table, copies).await?);
            }
            let opened = match open() {
                // What is there is of no use: a damaged copy, or one that was given up.
                Err(ApplyError::Store(StoreError::Damaged(why))) if recovery.is_none() => {
                    tracing::error!(partition = %copies.id, why, "the rows are damaged");
                    recovery = Some(self.copy_from_another(table, copies).await?);
                    open()
                }
                Ok(replica)
                    if recovery.is_none()
                        && (copies.definition().is_given_up(&self.members.own)
                            || is_imported && replica.is_new()) =>
                {
                    drop(replica);
                    recovery = Some(self.copy_from_another(table, copies).await?);
                    open()
                }
                opened => opened,
            };
            let mut replica = opened.map_err(NotServed::from)?;
            let lacking = self.bridge(copies, &mut replica)?;
            let held = replica.stamp().position.lsn;
            let served = match self.serve_copy(table, copies, replica).await {
                Err(NotServed::CatchUp(CatchUpError::Trimmed(error))) if recovery.is_none() => {
                    tracing::info!(partition = %copies.id, %error, "the copy is made anew");
                    let copied = self.copy_from_another(table, copies).await;
                    recovery = Some(copied.map_err(|why| match (lacking, Box::new(why)) {
                        (Some(lacking), why) => NotMade::Trimmed { lacking, why },
                        (None, why) => NotMade::TrimmedSince { held, why },
                    })?);
                    let opened = open().map_err(NotServed::from)?;
                    self.serve_copy(table, copies, opened).await
                }
                served => served,
            };
            if let Err(error) = &served {
                recovery.iter().for_each(|recovery| recovery.fail(&error.to_string()));
            }
            served?;
            recovery.iter().for_each(|recovery| recovery.enter(Stage::Done));
        }
        if self.tables.copies(copies.id).is_none() {
            return Ok(self.close_copy(copies, "the table was deleted").await?);
        }
        let own = &self.members.own;
        let ordinal = copies.id.ordinal as usize;
        let is_whole = |definition: &mut TableDefinition| {
            let Some(partition) = definition.partitions.get_mut(ordinal) else { return false };
            let Some(copy) = partition.copies.iter_mut().find(|copy| &copy.node == own) else {
                return false;
            };
            if copy.state == CopyState::Serving {
                return false;
            }
            copy.state = CopyState::Serving;
            partition.epoch += 1;
            true
        };
        self.replication.update_definition(table.name(), table.incarnation(), is_whole).await?;
        Ok(())
    }

    /// Takes a copy that the log went on without forward where nothing of it was trimmed, or where
    /// an operator accepted that it is, and its files were here. Otherwise says what it lacks.
    fn bridge(&self, copies: &Copies, replica: &mut Replica) -> Result<Option<Lacking>, NotMade> {
        let held = replica.stamp().position.lsn;
        let definition = copies.definition();
        let own = definition.copy_on(&self.members.own);
        // One that holds nothing is not what was accepted: its files are gone.
        let is_accepted = held > definition.begin().lsn
            && own.is_some_and(|copy| copy.state == CopyState::Serving);
        let accepted = definition.accepted().filter(|it| is_accepted && it.lsn > held);
        if let Some(accepted) = accepted {
            tracing::warn!(
                partition = %copies.id,
                from = held.0 + 1,
                to = accepted.lsn.0,
                "what the copy is missing was accepted as lost"
            );
            replica.pass(accepted);
            return Ok(None);
        }
        let first = self.replication.log.bounds(copies.group)?.first;
        if first <= held.next() {
            return Ok(None);
        }
        let note = metadata::trim_notes(&self.metadata)?.remove(&copies.group);
        if note.as_ref().is_some_and(|it| it.bridge(replica)) {
            tracing::info!(partition = %copies.id, "what was trimmed had nothing of this copy");
            return Ok(None);
        }
        let last = note.map(|note| note.last_record(copies.id));
        Ok(Some(Lacking { held, first, last }))
    }

    /// Whether a new copy is made faster from another's files than from the log.
    async fn is_worth_copying(&self, copies: &Copies) -> bool {
        let definition = copies.definition();
        let is_made = self.is_to_be_made(copies);
        // This node may only have begun to read the group.
        let (log, group) = (Arc::clone(&self.replication.log), copies.group);
        let last = move || log.bounds(group).map_or(Lsn(0), |bounds| bounds.last);
        let last = self.world.tasks.blocking(last).await.unwrap_or(Lsn(0));
        is_made && last.0.saturating_sub(definition.begin().lsn.0) > REPLAY_RECORDS_MAX
    }

    /// Whether this node's copy does not serve yet, as the metadata has it.
    fn is_to_be_made(&self, copies: &Copies) -> bool {
        let definition = copies.definition();
        let own = definition.copy_on(&self.members.own);
        own.is_some_and(|copy| copy.state == CopyState::Initializing)
    }

    /// Puts a copy in its place. All its rows are read for that: beside this thread, which beats.
    async fn install(&self, copied: Copied, is_index: bool) -> Result<(), NotMade> {
        let (resources, incarnation) =
            (Arc::clone(&self.replication.resources), self.replication.log.incarnation());
        let install = move || copied.install(&resources, incarnation, is_index);
        self.world.tasks.blocking(install).await??;
        Ok(())
    }

    /// Ends once the table of a partition is no more.
    async fn is_forgotten(&self, id: PartitionId) {
        while self.tables.copies(id).is_some() {
            self.world.time.sleep(FORGOTTEN_LOOK).await;
        }
    }

    /// Asks the node's pace before each piece: its own clients come first.
    fn pace_of_copies(&self) -> Pace {
        let pacing = Arc::clone(&self.pacing);
        Arc::new(move |bytes| {
            let wait = pacing.copies.wait();
            if wait.is_zero() {
                pacing.copies.add(bytes);
            }
            wait
        })
    }

    /// Puts a copy of another node's files in this node's place for them.
    async fn copy_from_another(
        &self,
        table: &Table,
        copies: &Copies,
    ) -> Result<Arc<Recovery>, NotMade> {
        let folders = self.folders(copies.id);
        let mut why = NotMade::NoSource;
        for member in self.router.others_with(copies, Class::Scan) {
            let recovery = self.recoveries.begin(copies.id, &member.record.name);
            let recovery = recovery.map_err(|_| NotMade::BeingMade)?;
            let pace = Some(self.pace_of_copies());
            let options =
                CopyOptions { seed: self.router.names.next_u64(), pace, ..CopyOptions::default() };
            let copied = recovery::copy(&member.link, copies.id, &folders, &options, &recovery);
            let copied = tokio::select! {
                biased;
                copied = copied => copied.map_err(NotMade::from),
                () = self.is_forgotten(copies.id) => Err(NotMade::Deleted),
            };
            let installed = match copied {
                Ok(copied) => {
                    recovery.enter(Stage::Translog);
                    self.install(copied, table.is_index()).await
                }
                Err(error) => Err(error),
            };
            match installed {
                Ok(()) => return Ok(recovery),
                Err(error) => {
                    recovery.fail(&error.to_string());
                    let node = member.record.name.clone();
                    why = NotMade::Source { node, why: Box::new(error) };
                }
            }
        }
        Err(why)
    }
}
