//! This node's copies of partitions: opened, brought forward, served, closed ([`making`]: made of another's
//! files). Which copies this node is to have is the metadata's to say; when one is made or closed is decided in
//! `node/reconcile.rs`.

pub(crate) mod error;
pub(crate) mod making;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use plimsoll_base::World;
use plimsoll_log::{GroupId, Lsn, PartitionId};
use plimsoll_storage::ErrorReply;
use plimsoll_storage::partition::Replica;
use plimsoll_storage::rows::StoreError;

use crate::copies::error::NotServed;
use crate::documents::Indexer;
use crate::metadata;
use crate::metadata::index::IndexMetadata;
use crate::metadata::members::Members;
use crate::metadata::table::{TableDefinition, partition_named};
use crate::pacing::Pacing;
use crate::recovery::{Checkpoints, Folders, Recoveries};
use crate::replication::applier::Added;
use crate::replication::catch_up::{CatchUp, CatchUpError};
use crate::replication::partition::Partition;
use crate::replication::tables::{Copies, Table, Tables};
use crate::replication::tail::GroupTail;
use crate::replication::{Replication, partition_of_replica};
use crate::routing::Router;
use crate::routing::changes::{Doing, LocalTables, TableChanges};

/// Partitions of rows that a new table opens at once: each writes and syncs some small files.
const OPENED_AT_ONCE: usize = 16;
/// How often is looked whether a group that is waited for has stopped.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// How long a copy that is behind its group rests before it is brought forward again.
const BEHIND_PAUSE: Duration = Duration::from_millis(5);

/// The copies of partitions on this node.
pub(crate) struct LocalCopies {
    pub world: World,
    pub replication: Arc<Replication>,
    pub router: Arc<Router>,
    /// Makes and changes tables.
    pub changes: Arc<TableChanges>,
    /// As in [`Replication`].
    pub metadata: Arc<Partition>,
    pub members: Arc<Members>,
    pub tables: Arc<Tables>,
    pub partitions_dir: PathBuf,
    /// Checkpoints for nodes that copy from this one.
    pub checkpoints: Checkpoints,
    /// What this one copies.
    pub recoveries: Recoveries,
    /// How fast copies may go.
    pub pacing: Arc<Pacing>,
    /// Held by who gives copies that serve an index, or has one serve with or without: two would both find
    /// that it has none, or neither.
    indexing: tokio::sync::Mutex<()>,
}

impl LocalCopies {
    /// The copies below `partitions_dir`; a database's table has so many partitions.
    pub(crate) fn new(
        router: Router,
        database_partitions: u32,
        partitions_dir: PathBuf,
        checkpoints: Checkpoints,
    ) -> Arc<Self> {
        let (replication, router) = (Arc::clone(&router.replication), Arc::new(router));
        let world = replication.world.clone();
        Arc::new_cyclic(|copies: &Weak<Self>| Self {
            changes: Arc::new(TableChanges {
                router: Arc::clone(&router),
                opener: Weak::clone(copies) as Weak<dyn LocalTables>,
                database_partitions,
                changing: tokio::sync::Mutex::new(()),
            }),
            metadata: Arc::clone(&replication.metadata),
            members: Arc::clone(&replication.members),
            tables: Arc::clone(&replication.tables),
            partitions_dir,
            checkpoints,
            recoveries: Recoveries::new(&replication.members.record.name, &world),
            pacing: Arc::new(Pacing::new(&world.time)),
            indexing: tokio::sync::Mutex::new(()),
            router,
            replication,
            world,
        })
    }
}

impl LocalTables for LocalCopies {
    fn open(self: Arc<Self>, name: String, definition: TableDefinition) -> Doing<Arc<Table>> {
        Box::pin(async move { self.open_table(&name, &definition).await })
    }

    fn index(self: Arc<Self>, table: Arc<Table>) -> Doing<()> {
        Box::pin(async move { self.index_partitions(&table).await.map_err(refused) })
    }

    fn close(self: Arc<Self>, table: Arc<Table>) -> Doing<()> {
        Box::pin(async move { self.close_table(&table).await.map_err(refused) })
    }
}

impl LocalCopies {
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
            copies.begins_on(&self.members.own) && self.replication.groups.reads(copies.group)
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
        opened.into_iter().collect::<Result<(), NotServed>>().map_err(refused)?;
        Ok(self.tables.insert(table))
    }

    /// Opens a copy that begins where its partition does, and brings it forward.
    pub(crate) async fn open_empty_copy(
        &self,
        table: &Table,
        copies: &Copies,
    ) -> Result<(), NotServed> {
        let begin = copies.definition().begin();
        let dir = self.partition_dir(copies.id);
        let (id, incarnation) = (copies.id, self.replication.log.incarnation());
        let (resources, parent) =
            (Arc::clone(&self.replication.resources), self.partitions_dir.clone());
        let disk = self.world.disk.clone();
        let open = move || {
            let replica = Replica::open(id, &dir, &resources, incarnation, begin)?;
            disk.sync_dir(&parent)?;
            Ok::<_, NotServed>(replica)
        };
        let replica = self.world.tasks.blocking(open).await??;
        self.serve_copy(table, copies, replica).await
    }

    /// Brings a copy forward, hands it to its applier, indexes it, and serves it.
    pub(crate) async fn serve_copy(
        &self,
        table: &Table,
        copies: &Copies,
        mut replica: Replica,
    ) -> Result<(), NotServed> {
        let group = copies.group;
        let tail = self.replication.tails.get(&group).ok_or(NotServed::UnknownGroup)?;
        replica.set_documents(table.is_index())?;
        let log = (&self.replication.log, &self.replication.clock, &self.replication.version);
        let partition = partition_of_replica(&replica, group, self.replication.lead, log, tail);
        let applier = self.replication.take_up(group).await?;
        self.has_come_to(tail, replica.stamp().position.lsn).await?;
        let mut replica = Box::new(replica);
        loop {
            match applier.add(replica, Arc::clone(&partition)).await {
                Added::Served => break,
                Added::Refused(reason) => return Err(reason.into()),
                Added::Behind(_) if tail.has_stopped() => return Err(NotServed::GroupStopped),
                Added::Behind(behind) => {
                    // The thread may be in a record for long.
                    self.world.time.sleep(BEHIND_PAUSE).await;
                    let (log, target) = (Arc::clone(&self.replication.log), tail.applied());
                    let stopping = Arc::clone(&self.replication.is_stopping);
                    let over = self.replication.version.over_budget();
                    let time = self.world.time.clone();
                    let forward = async move {
                        let mut behind = behind;
                        let stop = || stopping.load(Ordering::Relaxed);
                        let mut way = CatchUp::begin(&*log, group, &behind)?;
                        way.run(&time, &mut behind, target, over, &stop).await?;
                        Ok::<_, CatchUpError>(behind)
                    };
                    replica = self.world.tasks.apart("catch up", forward).await??;
                }
            }
        }
        let kept = self.keep_and_index(table, copies, &partition).await;
        if let Err(error) = kept {
            // One that stayed with its applier would have its group read, and the log kept, for good.
            partition.halt(&error.to_string());
            self.take_out(group, partition.id).await;
            partition.lead.abandon("the copy could not be made");
            return Err(error);
        }
        // It may have become an index, or another, meanwhile.
        if let (Some(index), Some(own)) = (table.index(), partition.index()) {
            own.set_metadata(index);
        }
        Ok(())
    }

    /// Makes a copy durable that its applier has, opens its index, and has it serve.
    async fn keep_and_index(
        &self,
        table: &Table,
        copies: &Copies,
        partition: &Arc<Partition>,
    ) -> Result<(), NotServed> {
        let kept = (Arc::clone(partition), Arc::clone(&self.metadata));
        // Beside this thread, which others are answered on: a flush may wait for those of other stores.
        self.world.tasks.blocking(move || keep_copy(&kept.0, &kept.1)).await??;
        loop {
            if let Some(index) = table.index() {
                self.index_copy(copies, partition, &index).await?;
            }
            let _indexing = self.indexing.lock().await;
            // The table may have become an index meanwhile.
            if table.index().is_none() || partition.index().is_some() {
                copies.set_local(Some(Arc::clone(partition)));
                return Ok(());
            }
        }
    }

    /// Has the copies of a table of rows note what changes from now on, and indexes them.
    pub(crate) async fn index_partitions(&self, table: &Table) -> Result<(), NotServed> {
        let _indexing = self.indexing.lock().await;
        let Some(index) = table.index() else { return Ok(()) };
        for copies in table.copies() {
            if let Some(partition) = copies.local()
                && partition.index().is_none()
            {
                self.index_copy(copies, &partition, &index).await?;
            }
        }
        Ok(())
    }

    /// Has a copy that its applier has note what changes from now on, and opens its index.
    async fn index_copy(
        &self,
        copies: &Copies,
        partition: &Arc<Partition>,
        index: &Arc<IndexMetadata>,
    ) -> Result<(), NotServed> {
        let applier = self.replication.groups.get(copies.group);
        let applier = applier.ok_or(NotServed::GroupStopped)?;
        if !applier.note_documents(partition.id).await {
            return Err(NotServed::NotNoted);
        }
        // All its files are read, where they came with the copy: beside this thread, which beats.
        let (dir, partition) = (self.index_dir(partition.id), Arc::clone(partition));
        let (world, index) = (self.world.clone(), Arc::clone(index));
        let open = move || open_indexer(&world, &dir, &partition, &index);
        self.world.tasks.blocking(open).await?
    }

    /// Opens the index of a partition; blocks for as long as that reads files.
    pub(crate) fn open_indexer(
        &self,
        partition: &Partition,
        index: &Arc<IndexMetadata>,
    ) -> Result<(), NotServed> {
        open_indexer(&self.world, &self.index_dir(partition.id), partition, index)
    }

    /// Takes a table that the metadata no longer has off this node, files and all.
    pub(crate) async fn close_table(&self, table: &Table) -> Result<(), NotServed> {
        self.tables.remove(table.name());
        for copies in table.copies() {
            self.close_copy(copies, &format!("no such index [{}]", table.name())).await?;
        }
        Ok(())
    }

    /// Takes a copy off this node, files and all; `why` is what late requests are told.
    pub(crate) async fn close_copy(&self, copies: &Copies, why: &str) -> Result<(), NotServed> {
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
                if let Some(index) = partition.index() {
                    index.delete();
                }
                // A file that is still being written would come into a folder that is being deleted.
                partition.store.abandon();
            }
            folders.delete()
        };
        Ok(self.world.tasks.blocking(close).await??)
    }

    /// Takes a replica out of its apply thread. One that stayed there would have its group read for good, and
    /// the log kept for it.
    async fn take_out(&self, group: GroupId, id: PartitionId) {
        while let Some(applier) = self.replication.groups.applier_of(group).await {
            if applier.remove(id).await || self.replication.is_stopping.load(Ordering::Relaxed) {
                return;
            }
            self.world.time.sleep(LOOK_INTERVAL).await;
        }
    }

    /// Deletes what was left behind by copies that are no longer this node's. What may still be
    /// needed stays: files of a partition of which no other copy is known to serve.
    pub(crate) fn forget_leftovers(&self) -> io::Result<()> {
        let held = |id: PartitionId| {
            let is_needed = |it: Arc<Copies>| {
                let is_own = it.definition().copy_on(&self.members.own).is_some();
                is_own || !self.router.is_served_elsewhere(&it)
            };
            id == metadata::PARTITION || self.tables.copies(id).is_some_and(is_needed)
        };
        for name in self.world.disk.list_dirs(&self.partitions_dir)? {
            let Some(name) = name.to_str() else { continue };
            let name = name.split_once('.').map_or(name, |(name, _)| name);
            // What is not named as a partition is not ours to delete.
            if let Some(id) = partition_named(name)
                && !held(id)
            {
                tracing::info!(partition = %id, "files of a copy that is no longer here are removed");
                self.folders(id).delete()?;
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
    async fn has_come_to(&self, tail: &GroupTail, lsn: Lsn) -> Result<(), NotServed> {
        while self.world.time.timeout(LOOK_INTERVAL, tail.reached(lsn)).await.is_err() {
            if self.replication.is_stopping.load(Ordering::Relaxed) {
                return Err(CatchUpError::Stopped.into());
            }
            if tail.has_stopped() {
                return Err(NotServed::GroupStopped);
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

/// What a client is told whose table cannot be opened or taken away here.
fn refused(error: NotServed) -> ErrorReply {
    ErrorReply::err(error.to_string())
}

fn open_indexer(
    world: &World,
    dir: &Path,
    partition: &Partition,
    index: &Arc<IndexMetadata>,
) -> Result<(), NotServed> {
    let indexer = Indexer::open(world, dir, partition.id, &partition.store, index)
        .map_err(|source| NotServed::Index { dir: dir.to_owned(), source })?;
    partition.set_index(Arc::new(indexer));
    Ok(())
}
