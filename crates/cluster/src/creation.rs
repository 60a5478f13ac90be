//! Tables created, opened and deleted on a node that runs: the metadata says which there are, and
//! here they get their replicas, appliers and indexes.

use std::sync::Arc;

use plimsoll_index::Error;
use plimsoll_log::rules::chain::Position;
use plimsoll_log::{GroupId, Log, PartitionId};
use plimsoll_storage::operation::Operation;
use plimsoll_storage::partition::Replica;
use plimsoll_storage::rows::StoreError;
use plimsoll_storage::{Argv, ErrorReply, Reply};

use crate::applier::Applier;
use crate::coordinator::submit_to;
use crate::documents::{IndexMetadata, Indexer, no_such_index};
use crate::lead::Step;
use crate::metadata;
use crate::node::{GROUPS, Shared, partition_of_replica, sync_dir};
use crate::partition::Partition;
use crate::session::random_u64;
use crate::table::{DocumentsDefinition, Table, TableDefinition};

/// What an index' folder is called after its partition.
const INDEX_SUFFIX: &str = ".index";

impl Shared {
    /// A database's table, created where it is not there.
    pub(crate) async fn table_for_write(&self, db: u32) -> Result<&Table, ErrorReply> {
        if let Some(table) = self.tables.get(db) {
            return Ok(table);
        }
        let _creating = self.creation.lock().await;
        if self.tables.get(db).is_none() {
            let definition = self.new_definition(self.database_partitions, None);
            let name = metadata::table_name(db);
            let definition = self.create_table(&name, &definition).await?;
            self.open_table(&name, &definition).await?;
        }
        let table = self.tables.get(db);
        table.map(AsRef::as_ref).ok_or_else(|| ErrorReply::err("DB index is out of range"))
    }

    /// A table that is to be created: its partitions are spread over the log groups.
    pub(crate) fn new_definition(
        &self,
        partitions: u32,
        documents: Option<DocumentsDefinition>,
    ) -> TableDefinition {
        let incarnation = random_u64();
        let first = incarnation % u64::from(GROUPS);
        let group = |ordinal: u32| {
            let group = (first + u64::from(ordinal)) % u64::from(GROUPS);
            u16::try_from(group + 1).unwrap_or(1)
        };
        TableDefinition { incarnation, groups: (0..partitions).map(group).collect(), documents }
    }

    /// Has the metadata create a table, and says which one there is then: another's, where that
    /// came first.
    pub(crate) async fn create_table(
        &self,
        name: &str,
        definition: &TableDefinition,
    ) -> Result<TableDefinition, ErrorReply> {
        self.write_metadata(metadata::create_table(name, definition)).await?;
        let found = metadata::definition(&self.metadata, name).map_err(ErrorReply::err)?;
        found.map(|(found, _)| found).ok_or_else(|| ErrorReply::err("the table was not created"))
    }

    /// Replaces a table's definition unless tables were changed since `seen`; says whether.
    pub(crate) async fn replace_definition(
        &self,
        name: &str,
        definition: &TableDefinition,
        seen: u64,
    ) -> Result<bool, ErrorReply> {
        let replace = metadata::replace_definition(name, definition, seen);
        Ok(self.submit_metadata(&replace).await? != Reply::NilArray)
    }

    /// Carries out one command on the metadata.
    pub(crate) async fn write_metadata(&self, command: Argv) -> Result<Reply, ErrorReply> {
        self.submit_metadata(&Operation::Command(command)).await
    }

    async fn submit_metadata(&self, operation: &Operation) -> Result<Reply, ErrorReply> {
        let mut session = self.sessions.session();
        let steps = vec![Step::Write(operation.encode())];
        let replies = submit_to(&self.metadata, &mut session, steps).await?;
        match replies.into_iter().next() {
            Some(Reply::Error(error)) => Err(error),
            Some(reply) => Ok(reply),
            None => Err(ErrorReply::err("the metadata gave no answer")),
        }
    }

    /// Opens the replicas of a table that the metadata has, and serves it.
    pub(crate) async fn open_table(
        &self,
        name: &str,
        definition: &TableDefinition,
    ) -> Result<Arc<Table>, ErrorReply> {
        let index = IndexMetadata::of(name, definition);
        let index = index.map_err(|error| ErrorReply::err(error.to_string()))?.map(Arc::new);
        // All are opened before any is served: a failure leaves nothing behind.
        let opened: Result<Vec<_>, String> = definition
            .partitions()
            .map(|(id, group)| self.new_replica(id, group).map(|opened| (group, opened)))
            .collect();
        let mut partitions = Vec::new();
        for (group, (mut replica, partition)) in opened.map_err(ErrorReply::err)? {
            if index.is_some() {
                let noted = replica.set_documents(true);
                noted.map_err(|error| ErrorReply::err(error.to_string()))?;
            }
            partitions.push(Arc::clone(&partition));
            let is_added = match self.applier(group) {
                Some(applier) => applier.add(replica, partition, group).await,
                None => false,
            };
            if !is_added {
                return Err(ErrorReply::err("the node is stopping"));
            }
        }
        self.keep_replicas(&partitions).map_err(|error| ErrorReply::err(error.to_string()))?;
        let table = Table::new(name, definition.incarnation, partitions, index);
        if table.index().is_some() {
            self.open_indexers(&table).map_err(ErrorReply::err)?;
        }
        Ok(self.tables.insert(table))
    }

    /// Has the replicas of a table of rows note what changes from now on, and indexes them.
    pub(crate) async fn index_partitions(&self, table: &Arc<Table>) -> Result<(), Error> {
        for (ordinal, partition) in table.partitions().iter().enumerate() {
            let group = self.group_of(table.name(), ordinal).map_err(Error::internal)?;
            let is_noting = match self.applier(group) {
                Some(applier) => applier.note_documents(partition.id, group).await,
                None => false,
            };
            if !is_noting {
                return Err(Error::internal("the node is stopping"));
            }
        }
        self.open_indexers(table).map_err(Error::internal)
    }

    /// Opens the index of each partition; blocks for as long as that reads files.
    pub(crate) fn open_indexers(&self, table: &Table) -> Result<(), String> {
        let Some(index) = table.index() else { return Ok(()) };
        for partition in table.partitions() {
            let dir = self.index_dir(partition.id);
            let indexer = Indexer::open(&dir, partition, &index)
                .map_err(|error| format!("{}: {error}", dir.display()))?;
            partition.set_indexer(Arc::new(indexer));
        }
        Ok(())
    }

    /// Takes a table away with everything in it; the caller holds the lock of changes.
    pub(crate) async fn delete_table(&self, name: &str) -> Result<(), Error> {
        let table = self.tables.by_name(name).filter(|table| table.index().is_some());
        let table = table.ok_or_else(|| no_such_index(name))?;
        if metadata::database_of(name.as_bytes()).is_some() {
            let reason = format!("[{name}] is the table of a database: FLUSHDB empties it");
            return Err(Error::illegal_argument(reason));
        }
        let mut groups = Vec::new();
        for ordinal in 0..table.partitions().len() {
            groups.push(self.group_of(name, ordinal).map_err(Error::internal)?);
        }
        let deleted = self.write_metadata(metadata::delete_table(name)).await;
        deleted.map_err(crate::documents::failed)?;
        self.tables.remove(name);
        for (partition, group) in table.partitions().iter().zip(groups) {
            if let Some(applier) = self.applier(group) {
                applier.remove(partition.id, group).await;
            }
            partition.set_fault(Some(format!("no such index [{name}]")));
            if let Some(indexer) = partition.indexer() {
                indexer.delete();
            }
            // A file that is still being written would come into a folder that is being deleted.
            partition.store.abandon();
            self.delete_files(partition.id).map_err(|error| Error::internal(error.to_string()))?;
        }
        Ok(())
    }

    /// Deletes what replicas left behind whose table was deleted just before a crash.
    pub(crate) fn forget_leftovers(&self) -> Result<(), String> {
        let tables = self.tables.all();
        let held = |id: PartitionId| {
            id == metadata::PARTITION || tables.iter().any(|it| it.incarnation() == id.table)
        };
        let entries = std::fs::read_dir(&self.partitions_dir).map_err(|error| error.to_string())?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let name = name.strip_suffix(INDEX_SUFFIX).unwrap_or(name);
            // What is not named as a partition is not ours to delete.
            if let Some(id) = partition_named(name)
                && !held(id)
            {
                tracing::info!(partition = %id, "files of a deleted table are removed");
                self.delete_files(id).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    fn delete_files(&self, id: PartitionId) -> std::io::Result<()> {
        for dir in [self.partitions_dir.join(id.to_string()), self.index_dir(id)] {
            match std::fs::remove_dir_all(&dir) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        sync_dir(&self.partitions_dir)
    }

    fn index_dir(&self, id: PartitionId) -> std::path::PathBuf {
        self.partitions_dir.join(format!("{id}{INDEX_SUFFIX}"))
    }

    fn applier(&self, group: GroupId) -> Option<&Applier> {
        self.appliers.get()?.get(self.applier_of(group))
    }

    fn group_of(&self, table: &str, ordinal: usize) -> Result<GroupId, String> {
        let definition = metadata::definition(&self.metadata, table)?;
        let group = definition.and_then(|(it, _)| it.groups.get(ordinal).copied());
        group.map(GroupId).ok_or_else(|| format!("the table {table} is gone"))
    }

    /// Makes new replicas durable with where they begin, and notes that they must be there: one
    /// that is gone at the next opening is a loss and not a new one.
    fn keep_replicas(&self, partitions: &[Arc<Partition>]) -> Result<(), StoreError> {
        for partition in partitions {
            partition.store.flush()?;
            self.metadata.store.put_held(partition.id)?;
        }
        self.metadata.store.flush()
    }

    /// A replica of a partition that nothing was written to yet: it begins where its group is.
    fn new_replica(
        &self,
        id: PartitionId,
        group: GroupId,
    ) -> Result<(Replica, Arc<Partition>), String> {
        let shared_tail = self.tails.get(&group).ok_or("the table names an unknown log group")?;
        let tail = *shared_tail.lock();
        let initial = Position {
            lsn: tail.anchor.lsn,
            hash: tail.anchor.hash,
            log_time_ms: tail.log_time_ms,
        };
        let dir = self.partitions_dir.join(id.to_string());
        let incarnation = self.log.incarnation();
        let replica = Replica::open(id, &dir, &self.resources, incarnation, initial)
            .map_err(|error| error.to_string())?;
        sync_dir(&self.partitions_dir).map_err(|error| error.to_string())?;
        let partition = partition_of_replica(&replica, group, self.lead, &self.log, shared_tail);
        Ok((replica, partition))
    }
}

/// The partition whose files have this name.
fn partition_named(name: &str) -> Option<PartitionId> {
    let (table, ordinal) = name.split_once('-')?;
    let table = u64::from_str_radix(table, 16).ok()?;
    let id = PartitionId { table, ordinal: ordinal.parse().ok()? };
    (id.to_string() == name).then_some(id)
}
