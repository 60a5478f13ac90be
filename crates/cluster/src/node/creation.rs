//! Tables created, changed and deleted through the metadata, and the copies of their partitions
//! opened and closed on this node. When that is due is decided in `reconcile.rs`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use plimsoll_index::Error;
use plimsoll_log::{GroupId, Lsn, PartitionId};
use plimsoll_storage::operation::Operation;
use plimsoll_storage::partition::Replica;
use plimsoll_storage::rows::StoreError;
use plimsoll_storage::{Argv, ErrorReply, Reply};
use serde_json::Map;

use crate::documents::{IndexMetadata, Indexer, no_such_index, replicas};
use crate::metadata;
use crate::metadata::placement::filter::Filter;
use crate::metadata::placement::{PartitionDefinition, groups_of_table, proposed};
use crate::metadata::table::partition_named;
use crate::metadata::table::{Copies, DocumentsDefinition, Table, TableDefinition};
use crate::node::{GROUPS, Shared, partition_of_replica};
use crate::recovery::Folders;
use crate::replication::applier::Added;
use crate::replication::catch_up::{CatchUp, CatchUpError};
use crate::replication::lead::Step;
use crate::replication::partition::Partition;
use crate::replication::tail::GroupTail;
use crate::routing::submit::submit_to;

/// The setting of how many copies beyond the first a table has that does not say.
const DEFAULT_REPLICAS: &str = "cluster.default_number_of_replicas";
/// How often a change of the metadata is tried again after another came before it.
const ATTEMPTS_MAX: u32 = 100;
/// How long a write waits for its database.
const CREATION_WAIT: Duration = Duration::from_secs(10);
/// Partitions of rows that a new table opens at once: each writes and syncs some small files.
const OPENED_AT_ONCE: usize = 16;
/// How often is looked whether a group that is waited for has stopped.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// How long a copy that is behind its group rests before it is brought forward again.
const BEHIND_PAUSE: Duration = Duration::from_millis(5);

impl Shared {
    /// A database's table, created where it is not there. Who waits too long for that goes: it is created
    /// nevertheless.
    pub(crate) async fn table_for_write(self: &Arc<Self>, db: u32) -> Result<&Table, ErrorReply> {
        if self.tables.get(db).is_none() {
            let shared = Arc::clone(self);
            let create = async move { shared.create_database(db).await };
            let created = self.world.tasks.spawn("create", create);
            let created =
                self.world.time.timeout(CREATION_WAIT, created).await.map_err(|_| {
                    ErrorReply::new("TRYAGAIN", "the database is still being created")
                })?;
            created.map_err(|error| ErrorReply::err(error.to_string()))??;
        }
        let table = self.tables.get(db);
        table.map(AsRef::as_ref).ok_or_else(|| ErrorReply::err("DB index is out of range"))
    }

    /// Creates a database's table where it is not there.
    async fn create_database(&self, db: u32) -> Result<(), ErrorReply> {
        let creating = self.creation.lock().await;
        if self.tables.get(db).is_some() {
            return Ok(());
        }
        self.check_capacity(self.database_partitions, 0, self.wanted_copies(None))
            .map_err(|error| ErrorReply::err(error.reason))?;
        let definition = self.new_definition(self.database_partitions, None).await?;
        let name = metadata::table_name(db);
        let definition = self.create_table(&name, &definition).await?;
        self.open_table(&name, &definition).await?;
        drop(creating);
        self.tell_others().await;
        Ok(())
    }

    /// A table that is to be created: its partitions are spread over the log groups, and their
    /// copies over the nodes.
    ///
    /// # Errors
    /// Where the metadata cannot be read.
    pub(crate) async fn new_definition(
        &self,
        partitions: u32,
        documents: Option<DocumentsDefinition>,
    ) -> Result<TableDefinition, ErrorReply> {
        let incarnation = self.names.next_u64();
        let copies = self.wanted_copies(documents.as_ref());
        let mut places = self.members.places(0, 0, &self.wanted_nodes());
        if proposed(0, 1, &places).is_empty() {
            // Nobody is wanted: without a copy from the first it would never get one.
            places = self.members.places(0, 0, &Filter::default());
        }
        let first = u16::try_from(incarnation % u64::from(GROUPS)).unwrap_or(0);
        let groups = groups_of_table(partitions, copies, GROUPS, first, &places);
        let begins = self.positions(&groups.iter().copied().map(GroupId).collect()).await;
        let begins = begins.map_err(ErrorReply::err)?;
        let partition = |group: u16| {
            let begin = begins.get(&GroupId(group)).copied();
            let begin = begin.unwrap_or_else(|| unreachable!("all groups have a position"));
            PartitionDefinition::new(group, begin, proposed(group, copies, &places))
        };
        let partitions = groups.into_iter().map(partition).collect();
        Ok(TableDefinition {
            incarnation,
            partitions,
            documents,
            follows: None,
            default_expiry_ms: None,
            unknown: Map::new(),
        })
    }

    /// Which nodes the cluster's settings want copies on.
    pub(crate) fn wanted_nodes(&self) -> Filter {
        Filter::of(&metadata::settings(&self.metadata))
    }

    /// How many copies each partition of a table should have.
    pub(crate) fn wanted_copies(&self, documents: Option<&DocumentsDefinition>) -> usize {
        let replicas = documents.and_then(|it| replicas(&it.settings).ok().flatten());
        self.copies_of(replicas)
    }

    /// As [`Self::wanted_copies`], of a table that is served.
    pub(crate) fn wanted_copies_of(&self, index: Option<&IndexMetadata>) -> usize {
        self.copies_of(index.and_then(|it| replicas(&it.settings).ok().flatten()))
    }

    fn copies_of(&self, replicas: Option<u32>) -> usize {
        replicas.unwrap_or_else(|| self.default_replicas()) as usize + 1
    }

    /// `cluster.default_number_of_replicas`: where it is not set, 1 as soon as two nodes hold copies. One
    /// that is away counts: its copies are not given up because it is.
    pub(crate) fn default_replicas(&self) -> u32 {
        let set = metadata::setting(&self.metadata, DEFAULT_REPLICAS);
        let set = set.and_then(|text| text.parse().ok());
        set.unwrap_or_else(|| u32::from(self.members.data_nodes_known() > 1))
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

    pub(crate) async fn submit_metadata(&self, operation: &Operation) -> Result<Reply, ErrorReply> {
        let mut session = self.sessions.session();
        let steps = vec![Step::Write(operation.encode())];
        let replies = submit_to(&self.metadata, &mut session, steps).await;
        let replies = replies.map_err(ErrorReply::from)?;
        match replies.into_iter().next() {
            Some(Reply::Error(error)) => Err(error),
            Some(reply) => Ok(reply),
            None => Err(ErrorReply::err("the metadata gave no answer")),
        }
    }

    /// Changes a table's definition if it is still the same table, trying again where another
    /// change comes between; false where `change` finds nothing to do.
    pub(crate) async fn update_definition(
        &self,
        name: &str,
        incarnation: u64,
        change: impl Fn(&mut TableDefinition) -> bool,
    ) -> Result<bool, ErrorReply> {
        for _ in 0..ATTEMPTS_MAX {
            let found = metadata::definition(&self.metadata, name).map_err(ErrorReply::err)?;
            let Some((mut definition, seen)) =
                found.filter(|(found, _)| found.incarnation == incarnation)
            else {
                return Ok(false);
            };
            if !change(&mut definition) {
                return Ok(false);
            }
            if self.replace_definition(name, &definition, seen).await? {
                return Ok(true);
            }
        }
        Err(ErrorReply::err("the metadata is busy"))
    }

    /// Serves a table that the metadata has: its copies that are this node's and empty are opened.
    pub(crate) async fn open_table(
        &self,
        name: &str,
        definition: &TableDefinition,
    ) -> Result<Arc<Table>, ErrorReply> {
        let index = IndexMetadata::of(name, definition);
        let index = index.map_err(|error| ErrorReply::err(error.to_string()))?.map(Arc::new);
        let table = Table::new(name, definition, index);
        // Where the group has to be taken up first it is made as others make theirs: the client that creates
        // the table does not wait for it.
        let is_empty_here = |copies: &&Arc<Copies>| {
            copies.begins_on(&self.members.own) && self.groups.reads(copies.group)
        };
        // Indices that begin all at once take much memory.
        let at_once = if table.is_index() { 1 } else { OPENED_AT_ONCE };
        let new = &table;
        let open = |copies: &Arc<Copies>| {
            let copies = Arc::clone(copies);
            async move { self.open_empty_copy(new, &copies).await }
        };
        let empty = table.copies().iter().filter(is_empty_here);
        let opened: Vec<_> = stream::iter(empty.map(open)).buffered(at_once).collect().await;
        opened.into_iter().collect::<Result<(), String>>().map_err(ErrorReply::err)?;
        Ok(self.tables.insert(table))
    }

    /// Opens a copy that begins where its partition does, and brings it forward.
    pub(crate) async fn open_empty_copy(
        &self,
        table: &Table,
        copies: &Copies,
    ) -> Result<(), String> {
        let begin = copies.definition().begin();
        let dir = self.partition_dir(copies.id);
        let (id, incarnation) = (copies.id, self.log.incarnation());
        let (resources, parent) = (Arc::clone(&self.resources), self.partitions_dir.clone());
        let disk = self.world.disk.clone();
        let open = move || {
            let replica = Replica::open(id, &dir, &resources, incarnation, begin);
            let replica = replica.map_err(|error| error.to_string())?;
            disk.sync_dir(&parent).map_err(|error| error.to_string())?;
            Ok::<_, String>(replica)
        };
        let replica =
            self.world.tasks.blocking(open).await.map_err(|error| error.to_string())??;
        self.serve_copy(table, copies, replica).await.map_err(|error| error.to_string())
    }

    /// Brings a copy forward, hands it to its applier, indexes it, and serves it.
    pub(crate) async fn serve_copy(
        &self,
        table: &Table,
        copies: &Copies,
        mut replica: Replica,
    ) -> Result<(), CatchUpError> {
        let failed = |error: &dyn std::fmt::Display| CatchUpError::Failed(error.to_string());
        let group = copies.group;
        let tail = self.tails.get(&group).ok_or_else(|| failed(&"an unknown log group"))?;
        replica.set_documents(table.is_index()).map_err(|error| failed(&error))?;
        let log = (&self.log, &self.clock, &self.version);
        let partition = partition_of_replica(&replica, group, self.lead, log, tail);
        let applier = self.take_up(group).await.map_err(|error| failed(&error))?;
        self.has_come_to(tail, replica.stamp().position.lsn).await?;
        let mut replica = Box::new(replica);
        loop {
            match applier.add(replica, Arc::clone(&partition)).await {
                Added::Served => break,
                Added::Refused(reason) => return Err(CatchUpError::Failed(reason)),
                Added::Behind(_) if tail.has_stopped() => {
                    return Err(CatchUpError::Failed("the log group has stopped here".to_owned()));
                }
                Added::Behind(behind) => {
                    // The thread may be in a record for long.
                    self.world.time.sleep(BEHIND_PAUSE).await;
                    let (log, target) = (Arc::clone(&self.log), tail.applied());
                    let stopping = Arc::clone(&self.is_stopping);
                    let over = self.version.over_budget();
                    let time = self.world.time.clone();
                    let forward = async move {
                        let mut behind = behind;
                        let stop = || stopping.load(Ordering::Relaxed);
                        let mut way = CatchUp::begin(&*log, group, &behind)?;
                        way.run(&time, &mut behind, target, over, &stop).await?;
                        Ok::<_, CatchUpError>(behind)
                    };
                    let forward = self.world.tasks.apart("catch up", forward).await;
                    replica = forward.map_err(|error| failed(&error))??;
                }
            }
        }
        let kept = self.keep_and_index(table, &partition).await;
        if let Err(error) = kept {
            // One that stayed with its applier would have its group read, and the log kept, for good.
            partition.halt(&error.to_string());
            self.take_out(group, partition.id).await;
            partition.lead.abandon("the copy could not be made");
            return Err(error);
        }
        copies.set_local(Some(Arc::clone(&partition)));
        // It may have become an index, or another, meanwhile.
        if let (Some(index), Some(indexer)) = (table.index(), partition.indexer()) {
            indexer.set_metadata(index);
        }
        Ok(())
    }

    /// Makes a copy durable that its applier has, and opens its index.
    async fn keep_and_index(
        &self,
        table: &Table,
        partition: &Arc<Partition>,
    ) -> Result<(), CatchUpError> {
        let failed = |error: &dyn std::fmt::Display| CatchUpError::Failed(error.to_string());
        let kept = (Arc::clone(partition), Arc::clone(&self.metadata));
        // Beside this thread, which others are answered on: a flush may wait for those of other stores.
        let kept = self.world.tasks.blocking(move || keep_copy(&kept.0, &kept.1)).await;
        kept.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
        if let Some(index) = table.index() {
            // All its files are read, where they came with the copy: beside this thread, which beats.
            let (dir, partition) = (self.index_dir(partition.id), Arc::clone(partition));
            let open = move || open_indexer(&dir, &partition, &index);
            let opened = self.world.tasks.blocking(open).await.map_err(|error| failed(&error))?;
            opened.map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    /// Has the copies of a table of rows note what changes from now on, and indexes them.
    pub(crate) async fn index_partitions(&self, table: &Table) -> Result<(), Error> {
        let Some(index) = table.index() else { return Ok(()) };
        for copies in table.copies() {
            let Some(partition) = copies.local() else { continue };
            if partition.indexer().is_some() {
                continue;
            }
            let is_noting = match self.groups.get(copies.group) {
                Some(applier) => applier.note_documents(partition.id).await,
                None => false,
            };
            if !is_noting {
                return Err(Error::internal("the node is stopping"));
            }
            self.open_indexer(&partition, &index).map_err(Error::internal)?;
        }
        Ok(())
    }

    /// Opens the index of a partition; blocks for as long as that reads files.
    pub(crate) fn open_indexer(
        &self,
        partition: &Partition,
        index: &Arc<IndexMetadata>,
    ) -> Result<(), String> {
        open_indexer(&self.index_dir(partition.id), partition, index)
    }

    /// Takes a table away with everything in it; the caller holds the lock of changes.
    pub(crate) async fn delete_table(&self, name: &str) -> Result<(), Error> {
        let table = self.tables.by_name(name).filter(|table| table.index().is_some());
        let table = table.ok_or_else(|| no_such_index(name))?;
        if metadata::is_database(name) {
            let reason = match table.follows() {
                Some(_) => format!(
                    "[{name}] is the table of a database that follows: after pause_follow and \
                     unfollow FLUSHDB empties it"
                ),
                None => format!("[{name}] is the table of a database: FLUSHDB empties it"),
            };
            return Err(Error::illegal_argument(reason));
        }
        let deleted = self.write_metadata(metadata::delete_table(name)).await;
        deleted.map_err(crate::documents::failed)?;
        self.close_table(&table).await.map_err(Error::internal)
    }

    /// Takes a table that the metadata no longer has off this node, files and all.
    pub(crate) async fn close_table(&self, table: &Table) -> Result<(), String> {
        self.tables.remove(table.name());
        for copies in table.copies() {
            self.close_copy(copies, &format!("no such index [{}]", table.name())).await?;
        }
        Ok(())
    }

    /// Takes a copy off this node, files and all; `why` is what late requests are told.
    pub(crate) async fn close_copy(&self, copies: &Copies, why: &str) -> Result<(), String> {
        let local = copies.local();
        if let Some(partition) = &local {
            copies.set_local(None);
            // First: an apply thread that waits with its store goes on without it.
            partition.halt(why);
            self.take_out(copies.group, partition.id).await;
            partition.lead.abandon(why);
        }
        let folders = self.folders(copies.id);
        // A refresh, a merge or a rewrite of files that is under way is waited for: for seconds.
        let close = move || {
            if let Some(partition) = local {
                if let Some(indexer) = partition.indexer() {
                    indexer.delete();
                }
                // A file that is still being written would come into a folder that is being deleted.
                partition.store.abandon();
            }
            folders.delete().map_err(|error| error.to_string())
        };
        self.world.tasks.blocking(close).await.map_err(|error| error.to_string())?
    }

    /// Takes a replica out of its apply thread. One that stayed there would have its group read for good, and
    /// the log kept for it.
    async fn take_out(&self, group: GroupId, id: PartitionId) {
        while let Some(applier) = self.groups.applier_of(group).await {
            if applier.remove(id).await || self.is_stopping.load(Ordering::Relaxed) {
                return;
            }
            self.world.time.sleep(LOOK_INTERVAL).await;
        }
    }

    /// Deletes what was left behind by copies that are no longer this node's. What may still be
    /// needed stays: files of a partition of which no other copy is known to serve.
    pub(crate) fn forget_leftovers(&self) -> Result<(), String> {
        let held = |id: PartitionId| {
            let is_needed = |it: Arc<Copies>| {
                let is_own = it.definition().copy_on(&self.members.own).is_some();
                is_own || !self.is_served_elsewhere(&it)
            };
            id == metadata::PARTITION || self.tables.copies(id).is_some_and(is_needed)
        };
        let dirs = self.world.disk.list_dirs(&self.partitions_dir);
        for name in dirs.map_err(|error| error.to_string())? {
            let Some(name) = name.to_str() else { continue };
            let name = name.split_once('.').map_or(name, |(name, _)| name);
            // What is not named as a partition is not ours to delete.
            if let Some(id) = partition_named(name)
                && !held(id)
            {
                tracing::info!(partition = %id, "files of a copy that is no longer here are removed");
                let folders = self.folders(id);
                folders.delete().map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// The folders of a partition on this node.
    pub(crate) fn folders(&self, id: PartitionId) -> Folders {
        Folders::of(&self.world.disk, &self.partitions_dir, id)
    }

    pub(crate) fn partition_dir(&self, id: PartitionId) -> PathBuf {
        self.folders(id).replica
    }

    pub(crate) fn index_dir(&self, id: PartitionId) -> PathBuf {
        self.folders(id).index
    }

    /// Waits until a group that was taken up has come to where a copy stands: one that is ahead of its
    /// group would be served, and compared with others, as what it was earlier.
    async fn has_come_to(&self, tail: &GroupTail, lsn: Lsn) -> Result<(), CatchUpError> {
        while self.world.time.timeout(LOOK_INTERVAL, tail.reached(lsn)).await.is_err() {
            if self.is_stopping.load(Ordering::Relaxed) {
                return Err(CatchUpError::Stopped);
            }
            if tail.has_stopped() {
                return Err(CatchUpError::Failed("the log group has stopped here".to_owned()));
            }
        }
        Ok(())
    }
}

/// Makes a new copy durable with where it begins, and notes that it must be there: one that is gone at the
/// next opening is a loss and not a new one.
fn keep_copy(partition: &Partition, metadata: &Partition) -> Result<(), StoreError> {
    partition.store.flush()?;
    metadata.store.put_held(partition.id)?;
    metadata.store.flush()
}

fn open_indexer(
    dir: &Path,
    partition: &Partition,
    index: &Arc<IndexMetadata>,
) -> Result<(), String> {
    let indexer = Indexer::open(dir, partition.id, &partition.store, index)
        .map_err(|error| format!("{}: {error}", dir.display()))?;
    partition.set_indexer(Arc::new(indexer));
    Ok(())
}
