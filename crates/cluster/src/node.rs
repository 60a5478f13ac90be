//! A node from its opening to its close: the data folder, the log, the replicas, the threads.
//!
//! Opening replays the log over what each replica contains, and returns when everything that was
//! acknowledged before is there again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use plimsoll_log::embedded::{self, Embedded};
use plimsoll_log::rules::chain::{Chain, Position};
use plimsoll_log::{GroupId, Incarnation, LeadId, Log, LogError, Lsn, PartitionId};
use plimsoll_storage::execute::{ReadContext, ScanCursors};
use plimsoll_storage::partition::{ApplyError, BeforeFlush, Replica, Resources, StoreOptions};
use plimsoll_storage::rows::key::partition_of;

use crate::applier::{self, Applier, GroupStart};
use crate::coordinator::Coordinator;
use crate::documents::{Documents, DocumentsOptions, IndexMetadata, Refresher};
use crate::lead::{Lead, SharedTail, now_ms};
use crate::maintenance::{self, Maintenance};
use crate::metadata;
use crate::partition::Partition;
use crate::session::{SessionPool, cheap_random, random_u64};
use crate::table::{Table, Tables};

/// Log groups that partitions are spread over, beside the metadata's.
pub(crate) const GROUPS: u16 = 16;
/// The most partitions that a database's table may have: a scan's cursor has room for no more.
pub(crate) const PARTITIONS_MAX: u32 = 1024;
/// Bytes read at once while the metadata is replayed.
const READ_BYTES_MAX: usize = 8 << 20;
/// How long one read of the log may wait while it is replayed.
const READ_TIMEOUT: Duration = Duration::from_secs(1);
/// How often progress of a long replay is told.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// What a node is opened with.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// The folder for everything it keeps; made where it is not there.
    pub data_dir: PathBuf,
    /// How the embedded log syncs and how much it holds in memory; the number of groups is the
    /// node's own to choose.
    pub log: embedded::Options,
    /// What rows may take in memory.
    pub store: StoreOptions,
    /// Partitions of a table that `SELECT` reaches, when it is created: 1 to 1,024. Default 1.
    pub database_partitions: u32,
    /// How documents are indexed and searched.
    pub documents: DocumentsOptions,
}

/// Why a node cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The data folder cannot be used.
    #[error("{}: {reason}", path.display())]
    Folder {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The log cannot be opened or read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Rows and log do not fit together.
    #[error("{0}")]
    Mismatch(String),
}

/// What all parts of a node share.
pub(crate) struct Shared {
    pub log: Arc<Embedded>,
    pub resources: Resources,
    pub metadata: Arc<Partition>,
    pub tables: Tables,
    pub sessions: Arc<SessionPool>,
    pub cursors: ScanCursors,
    pub appliers: OnceLock<Vec<Applier>>,
    /// What searches of this node share.
    pub documents: Documents,
    pub partitions_dir: PathBuf,
    pub lead: LeadId,
    pub tails: HashMap<GroupId, SharedTail>,
    pub database_partitions: u32,
    /// Held by who changes which tables there are, or what they are made of.
    pub creation: tokio::sync::Mutex<()>,
}

/// A node that is open. Dropping it stops it where it is: what is not flushed is replayed.
pub struct Node {
    shared: Arc<Shared>,
    maintenance: Option<Maintenance>,
    refresher: Option<Refresher>,
}

impl Node {
    /// Opens the node's folder and brings its replicas forward; blocks until they are.
    ///
    /// # Errors
    /// Where the folder is in use or not writable, or the log or rows are damaged.
    ///
    /// # Panics
    /// Where `database_partitions` is out of its range.
    pub fn open(settings: NodeSettings) -> Result<Self, OpenError> {
        let partitions = settings.database_partitions;
        assert!((1..=PARTITIONS_MAX).contains(&partitions), "a table has 1 to 1,024 partitions");
        let partitions_dir = settings.data_dir.join("partitions");
        std::fs::create_dir_all(&partitions_dir).map_err(folder(&partitions_dir))?;
        sync_dir(&settings.data_dir).map_err(folder(&settings.data_dir))?;
        let log_options = embedded::Options { groups: GROUPS + 1, ..settings.log };
        let log = Embedded::open(&settings.data_dir.join("log"), &log_options)?;
        let log = Arc::new(log);
        let documents = Documents::new(&settings.documents);
        let opening = Opening {
            incarnation: log.incarnation(),
            resources: Resources::new(settings.store, before_flush(&log)),
            log,
            partitions_dir,
            lead: LeadId(random_u64()),
        };
        opening.run(partitions, documents)
    }

    /// Where requests go.
    #[must_use]
    pub fn coordinator(&self) -> Arc<Coordinator> {
        Arc::new(Coordinator::new(Arc::clone(&self.shared)))
    }

    /// Makes everything durable and stops; blocks. Requests still in flight end unknown.
    pub fn close(mut self) {
        self.stop_chores();
        for partition in self.shared.tables.partitions() {
            if let Some(indexer) = partition.indexer() {
                indexer.close();
            }
        }
        maintenance::flush(&self.shared);
    }

    fn stop_chores(&mut self) {
        self.refresher.take().into_iter().for_each(Refresher::stop);
        self.maintenance.take().into_iter().for_each(Maintenance::stop);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop_chores();
        for applier in self.shared.appliers.get().map(Vec::as_slice).unwrap_or_default() {
            applier.stop();
        }
    }
}

struct Opening {
    log: Arc<Embedded>,
    incarnation: Incarnation,
    resources: Resources,
    partitions_dir: PathBuf,
    lead: LeadId,
}

impl Opening {
    fn run(self, database_partitions: u32, documents: Documents) -> Result<Node, OpenError> {
        let tails: HashMap<GroupId, SharedTail> =
            (0..=GROUPS).map(|group| (GroupId(group), SharedTail::default())).collect();
        let genesis = Chain::new(self.incarnation).position();
        let mut metadata = self.replica(metadata::PARTITION, metadata::GROUP, genesis)?;
        let mut chain = Chain::resume(self.incarnation, metadata.stamp().position);
        self.replay_metadata(&mut chain, &mut metadata)?;
        let groups = metadata.store().groups().map_err(mismatch)?;
        let group = metadata::GROUP;
        let partition =
            partition_of_replica(&metadata, group, self.lead, &self.log, &tails[&group]);
        let definitions = metadata::tables(&partition).map_err(OpenError::Mismatch)?;
        let mut starts: HashMap<GroupId, GroupStart> = HashMap::new();
        let start = |group, chain| GroupStart {
            group,
            chain,
            tail: Arc::clone(&tails[&group]),
            replicas: Vec::new(),
        };
        starts.insert(metadata::GROUP, start(metadata::GROUP, chain));
        let tables = Tables::default();
        let mut replicas: HashMap<GroupId, Vec<(Replica, Arc<Partition>)>> = HashMap::new();
        for (name, definition) in definitions {
            let mut partitions = Vec::new();
            for (id, group) in definition.partitions() {
                let initial = groups.get(&group).copied().unwrap_or(genesis);
                let replica = self.replica(id, group, initial)?;
                if replica.is_new() && metadata.store().is_held(id).map_err(mismatch)? {
                    return Err(OpenError::Mismatch(format!(
                        "the rows of partition {id} are gone from {}",
                        self.partitions_dir.display()
                    )));
                }
                let partition =
                    partition_of_replica(&replica, group, self.lead, &self.log, &tails[&group]);
                partitions.push(Arc::clone(&partition));
                replicas.entry(group).or_default().push((replica, partition));
            }
            let index = IndexMetadata::of(&name, &definition).map_err(mismatch)?.map(Arc::new);
            tables.insert(Table::new(&name, definition.incarnation, partitions, index));
        }
        for group in (1..=GROUPS).map(GroupId) {
            let held = replicas.remove(&group).unwrap_or_default();
            let position = held
                .iter()
                .map(|(replica, _)| replica.stamp().position)
                .min_by_key(|position| position.lsn)
                .or_else(|| groups.get(&group).copied())
                .unwrap_or(genesis);
            let mut start = start(group, Chain::resume(self.incarnation, position));
            start.replicas = held;
            starts.insert(group, start);
        }
        if let Some(start) = starts.get_mut(&metadata::GROUP) {
            start.replicas.push((metadata, Arc::clone(&partition)));
        }
        self.start(partition, tables, tails, starts, (database_partitions, documents))
    }

    fn start(
        self,
        metadata: Arc<Partition>,
        tables: Tables,
        tails: HashMap<GroupId, SharedTail>,
        starts: HashMap<GroupId, GroupStart>,
        (database_partitions, documents): (u32, Documents),
    ) -> Result<Node, OpenError> {
        let mut ends = Vec::new();
        for group in tails.keys() {
            ends.push((*group, self.log.bounds(*group)?.last));
        }
        let shared = Arc::new(Shared {
            log: self.log,
            resources: self.resources,
            metadata,
            tables,
            sessions: Arc::default(),
            cursors: ScanCursors::default(),
            appliers: OnceLock::new(),
            documents,
            partitions_dir: self.partitions_dir,
            lead: self.lead,
            tails,
            database_partitions,
            creation: tokio::sync::Mutex::new(()),
        });
        let mut shares: Vec<Vec<GroupStart>> = (0..applier_count()).map(|_| Vec::new()).collect();
        for (group, start) in starts {
            let at = shared.applier_of(group);
            shares[at].push(start);
        }
        let appliers = shares.into_iter().map(|share| Applier::start(&*shared.log, share));
        let appliers: Vec<Applier> = appliers.collect::<Result<_, _>>()?;
        if shared.appliers.set(appliers).is_err() {
            unreachable!("appliers are started once");
        }
        shared.catch_up(&ends)?;
        shared.forget_leftovers().map_err(OpenError::Mismatch)?;
        for table in shared.tables.all().iter().filter(|table| table.index().is_some()) {
            shared.open_indexers(table).map_err(OpenError::Mismatch)?;
        }
        let refresher = Refresher::start(&shared).map_err(folder(Path::new("refresh threads")))?;
        let maintenance = Maintenance::start(&shared);
        let maintenance = maintenance.map_err(folder(Path::new("maintenance thread")))?;
        Ok(Node { shared, maintenance: Some(maintenance), refresher: Some(refresher) })
    }

    fn replica(
        &self,
        id: PartitionId,
        group: GroupId,
        initial: Position,
    ) -> Result<Replica, OpenError> {
        let dir = self.partitions_dir.join(id.to_string());
        let opened = Replica::open(id, &dir, &self.resources, self.incarnation, initial);
        let replica = opened.map_err(|error| apply_error(&dir, error))?;
        let stamp = replica.stamp();
        if stamp.incarnation != self.incarnation {
            return Err(OpenError::Mismatch(format!(
                "{} holds rows of log {}, the log here is {}",
                dir.display(),
                stamp.incarnation,
                self.incarnation
            )));
        }
        let last = self.log.bounds(group)?.last;
        if stamp.position.lsn > last {
            return Err(OpenError::Mismatch(format!(
                "{} contains the log up to {}, but log group {group} ends at {last}: \
                 the log lost its end",
                dir.display(),
                stamp.position.lsn
            )));
        }
        Ok(replica)
    }

    /// The metadata comes first: it says which other replicas there are.
    fn replay_metadata(&self, chain: &mut Chain, replica: &mut Replica) -> Result<(), OpenError> {
        let end = self.log.bounds(metadata::GROUP)?.last;
        let mut reader = self.log.read(&[(metadata::GROUP, chain.position().lsn.next())])?;
        let mut entries = Vec::new();
        while chain.position().lsn < end {
            reader.next(&mut entries, READ_BYTES_MAX, READ_TIMEOUT)?;
            for entry in entries.drain(..).filter(|entry| entry.lsn <= end) {
                let advanced = applier::advance(chain, &entry);
                let (record, position) = advanced.map_err(OpenError::Mismatch)?;
                let applied = replica.apply(position, &record, &mut ());
                applied.map_err(|error| apply_error(&self.partitions_dir, error))?;
            }
        }
        Ok(())
    }
}

impl Shared {
    /// How many partitions the table has, or will have.
    pub(crate) fn partition_count(&self, table: Option<&Table>) -> usize {
        table.map_or(self.database_partitions as usize, |table| table.partitions().len())
    }

    /// The ordinal that a key will have in a table that does not exist yet.
    pub(crate) fn ordinal_in_new_table(&self, key: &[u8]) -> usize {
        partition_of(key, self.database_partitions) as usize
    }

    /// What a read that begins now knows of a partition; none is an empty one.
    pub(crate) fn read_context(&self, partition: Option<&Partition>) -> ReadContext<'_> {
        ReadContext {
            now_ms: partition.map_or_else(now_ms, Partition::read_time_ms),
            seed: cheap_random(),
            keys: partition.map_or(0, Partition::keys),
            cursors: Some(&self.cursors),
        }
    }

    pub(crate) fn trim(&self, group: GroupId, up_to: Lsn) -> Result<(), String> {
        self.log.trim(group, up_to).map_err(|error| error.to_string())
    }

    pub(crate) fn applier_of(&self, group: GroupId) -> usize {
        usize::from(group.0) % applier_count()
    }

    /// Waits until what the log held at the opening is applied.
    fn catch_up(&self, ends: &[(GroupId, Lsn)]) -> Result<(), OpenError> {
        let mut told_at = Instant::now();
        loop {
            let behind = |(group, end): &&(GroupId, Lsn)| {
                self.tails.get(group).is_some_and(|tail| tail.lock().anchor.lsn < *end)
            };
            let left = ends.iter().filter(behind).count();
            if left == 0 {
                return Ok(());
            }
            let held = self.tables.partitions();
            let mut partitions = held.iter().chain([&self.metadata]);
            if let Some(fault) = partitions.find_map(|partition| partition.fault()) {
                return Err(OpenError::Mismatch(fault));
            }
            if told_at.elapsed() >= PROGRESS_INTERVAL {
                tracing::info!(groups = left, "the log is being replayed");
                told_at = Instant::now();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// What the coordinator sees of a replica, with a lead to write through.
pub(crate) fn partition_of_replica(
    replica: &Replica,
    group: GroupId,
    lead: LeadId,
    log: &Arc<Embedded>,
    tail: &SharedTail,
) -> Arc<Partition> {
    let log: Arc<dyn Log> = Arc::<Embedded>::clone(log);
    let lead = Lead::new(replica.id(), group, lead, log, Arc::clone(tail));
    Arc::new(Partition::new(replica.id(), replica.store().clone(), lead, replica.stamp()))
}

/// An `async` log may be behind its readers: it is synced before rows become durable.
fn before_flush(log: &Arc<Embedded>) -> BeforeFlush {
    let log = Arc::downgrade(log);
    Arc::new(move || {
        let synced = log.upgrade().map_or(Ok(()), |log| log.sync());
        if let Err(error) = synced {
            tracing::error!(%error, "the log cannot be synced before a flush");
        }
    })
}

/// One for every two processors: apply is bound by the rows' memory, and clients need the rest.
fn applier_count() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).clamp(1, 8))
}

/// Makes the entries of a folder durable.
pub(crate) fn sync_dir(dir: &Path) -> std::io::Result<()> {
    std::fs::File::open(dir)?.sync_all()
}

fn folder(path: &Path) -> impl FnOnce(std::io::Error) -> OpenError {
    let path = path.to_owned();
    move |error| OpenError::Folder { path, reason: error.to_string() }
}

fn mismatch(error: impl ToString) -> OpenError {
    OpenError::Mismatch(error.to_string())
}

fn apply_error(dir: &Path, error: ApplyError) -> OpenError {
    OpenError::Folder { path: dir.to_owned(), reason: error.to_string() }
}
