//! A node's opening: the log, the metadata, the copies that are in its folder, the threads that
//! apply. It returns when everything that was acknowledged before is there again. Copies that
//! this node should have and has not are made later (`reconcile.rs`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::World;
use plimsoll_base::random::Draws;
use plimsoll_base::time::Instant;
use plimsoll_log::record::{LeadStamp, Record};
use plimsoll_log::rules::chain::{Chain, Position};
use plimsoll_log::{GroupId, Incarnation, LeadId, Log, LogError, Lsn, PartitionId};
use plimsoll_storage::partition::{ApplyError, BeforeFlush, OverBudget, Replica, Resources};
use plimsoll_storage::rows::StoreError;
use tokio::sync::oneshot;

use crate::copies::LocalCopies;
use crate::documents::Searching;
use crate::machine::capacity;
use crate::machine::room::Room;
use crate::metadata;
use crate::metadata::GROUPS;
use crate::metadata::index::IndexMetadata;
use crate::metadata::members::{self, Members, NodeRecord};
use crate::metadata::placement::CopyState;
use crate::metadata::table::TableDefinition;
use crate::metadata::trim_notes::{LastRecords, TrimNote};
use crate::metadata::version::{self, ClusterVersion};
use crate::node::flushing;
use crate::node::settings::{NodeSettings, OpenError, folder};
use crate::node::shared::Shared;
use crate::recovery::joining::Joining;
use crate::recovery::{self, Checkpoints};
use crate::replication::advance::advance;
use crate::replication::applier::{ApplierContext, GroupStart};
use crate::replication::barrier::{Barrier, NOBODY};
use crate::replication::groups::{Begin, Demand, HeldGroups, begin, kept};
use crate::replication::log_engine::OpenLog;
use crate::replication::partition::Partition;
use crate::replication::reading;
use crate::replication::reopening::Reopening;
use crate::replication::session::SessionPool;
use crate::replication::tables::{Copies, Table, Tables};
use crate::replication::tail::{GroupTail, Tail};
use crate::replication::{Replication, partition_of_replica};
use crate::routing::Router;
use crate::routing::load::{Load, SearchMeter};
use crate::settings;

/// Bytes read at once while the metadata is replayed.
const READ_BYTES_MAX: usize = 8 << 20;
/// How long one read of the log may wait while it is replayed.
const READ_TIMEOUT: Duration = Duration::from_secs(1);
/// How often progress of a long replay is told.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);
/// How long a log has to answer where it ends.
const END_TIMEOUT: Duration = Duration::from_secs(30);
/// How soon it is asked again.
const END_PAUSE: Duration = Duration::from_millis(250);

pub(crate) struct Opening {
    world: World,
    /// Names of leads and of what else is this opening's alone.
    names: Draws,
    log: OpenLog,
    incarnation: Incarnation,
    resources: Resources,
    partitions_dir: PathBuf,
    lead: LeadId,
    own: String,
    version: Arc<ClusterVersion>,
    checkpoints: Checkpoints,
}

/// A copy that is in the folder, brought to where it was made durable last.
type Held = (Replica, Arc<Partition>);

impl Opening {
    /// Opens the folder and the log.
    pub(crate) fn begin(settings: &NodeSettings) -> Result<Self, OpenError> {
        capacity::raise_files_max();
        let partitions_dir = settings.data_dir.join("partitions");
        let disk = &settings.world.disk;
        disk.create_dir(&partitions_dir).map_err(folder(&partitions_dir))?;
        disk.sync_dir(&settings.data_dir).map_err(folder(&settings.data_dir))?;
        let log = settings.log.open(&settings.data_dir.join("log"), &settings.world.time)?;
        // The log's own lock has made sure that the folder is nobody else's; another engine has
        // no files here, and two nodes on one folder meet at RocksDB's lock.
        let (world, names) = (settings.world.clone(), settings.world.random.draws("names"));
        let own = members::own_id(disk, &settings.data_dir, &names)
            .map_err(folder(&settings.data_dir))?;
        let checkpoints = Checkpoints::new(&settings.world, &settings.data_dir)
            .map_err(folder(&settings.data_dir))?;
        let unfinished =
            recovery::finish_swaps(disk, &partitions_dir).map_err(folder(&partitions_dir))?;
        tracing::debug!(?unfinished, "copies that were being made");
        Ok(Self {
            world,
            checkpoints,
            incarnation: log.log.incarnation(),
            resources: Resources::of(&settings.world, settings.store, before_flush(&log.log)),
            log,
            partitions_dir,
            lead: LeadId(names.next_u64()),
            names,
            own,
            version: Arc::default(),
        })
    }

    pub(crate) async fn run(self, settings: &NodeSettings) -> Result<Arc<Shared>, OpenError> {
        let tails: BTreeMap<GroupId, Arc<GroupTail>> =
            (0..=GROUPS).map(|group| (GroupId(group), Arc::default())).collect();
        let genesis = Chain::new(self.incarnation).position();
        let joining = Joining {
            log: &self.log.log,
            peers: &settings.peers,
            record: &settings.record,
            incarnation: self.incarnation,
            world: &self.world,
        };
        let (metadata, chain) = self.replayed_metadata(&joining, genesis).await?;
        let groups = kept(metadata.store()).map_err(mismatch)?;
        let partition = self.partition(&metadata, metadata::GROUP, &tails);
        let in_force = metadata::version(&partition)?;
        if let Some(why) = version::refusal(in_force) {
            return Err(OpenError::Mismatch(why));
        }
        // A node that is alone is all members.
        let is_free = self.log.is_alone && !settings::cluster::holds_version(&partition);
        self.version.raise(if is_free { version::KNOWN } else { in_force });
        // Once the metadata says it: by that an older version finds out that it is too old.
        if in_force >= version::PACKED_ROWS {
            self.resources.pack_rows();
        }
        let notes = metadata::trim_notes(&partition)?;
        let tables = Tables::default();
        let mut held: BTreeMap<GroupId, Vec<Held>> = BTreeMap::new();
        let mut demands: BTreeMap<GroupId, Demand> = BTreeMap::new();
        let mut local: Vec<(Arc<Table>, Arc<Copies>, Arc<Partition>)> = Vec::new();
        for (name, definition) in metadata::tables(&partition)? {
            let table = open_table(&name, &definition, &tables)?;
            for copies in table.copies() {
                let definition = copies.definition();
                let demand = demands.entry(copies.group).or_default();
                demand.add(&definition, &self.own);
                let note = notes.get(&copies.group);
                let held_copy = self.held_copy(copies, &metadata, note)?;
                let Some(mut replica) = held_copy else { continue };
                // Where it had become an index, its rows may know nothing of that yet.
                replica.set_documents(table.is_index()).map_err(mismatch)?;
                let partition = self.partition(&replica, copies.group, &tails);
                local.push((Arc::clone(&table), Arc::clone(copies), Arc::clone(&partition)));
                held.entry(copies.group).or_default().push((replica, partition));
            }
        }
        let chain_at = chain.position();
        let mut starts = vec![GroupStart {
            group: metadata::GROUP,
            chain,
            tail: Arc::clone(&tails[&metadata::GROUP]),
            replicas: vec![(metadata, Arc::clone(&partition))],
            last: LastRecords::seen_from(chain_at.lsn),
        }];
        for group in (1..=GROUPS).map(GroupId) {
            let (kept, tail) = (groups.get(&group), Arc::clone(&tails[&group]));
            let is_wanted = demands.remove(&group).unwrap_or_default().wants_at_first();
            if !self.log.is_alone && !is_wanted {
                // Markers may be appended there all the same: they are anchored to where it stood.
                let position = kept.map_or(genesis, |it| it.position);
                let anchor = Chain::resume(self.incarnation, position).anchor();
                tail.publish(Tail { anchor, log_time_ms: position.log_time_ms });
                continue;
            }
            let replicas = held.remove(&group).unwrap_or_default();
            let positions = replicas.iter().map(|(replica, _)| replica.stamp().position);
            let furthest_behind = positions.min_by_key(|position| position.lsn);
            // A node that is alone has itself trimmed only what it does not need.
            let first = match self.log.is_alone {
                true => Lsn(0),
                false => self.log.log.bounds(group)?.first,
            };
            let found = begin(furthest_behind, kept, notes.get(&group), genesis, first);
            let Begin { position, last } = match found {
                Some(begin) => begin,
                None => {
                    let others = metadata::nodes(&partition, &BTreeMap::new())?;
                    let others = others.into_iter().map(|node| node.record);
                    let others: Vec<NodeRecord> =
                        others.filter(|it| it.rpc != settings.record.rpc).collect();
                    let position = self.position_at_others(group, &joining, &others).await?;
                    Begin { position, last: LastRecords::seen_from(position.lsn) }
                }
            };
            // The log went on while copies were being opened: one that is behind the chain would pass
            // over what lies between. It is made later, as any other that is behind.
            let (replicas, behind): (Vec<Held>, Vec<Held>) =
                replicas.into_iter().partition(|(it, _)| it.stamp().position.lsn >= position.lsn);
            for (replica, _) in &behind {
                tracing::warn!(partition = %replica.id(), "the log went on without this copy");
                local.retain(|(_, copies, _)| copies.id != replica.id());
            }
            let chain = Chain::resume(self.incarnation, position);
            starts.push(GroupStart { group, chain, tail, replicas, last });
        }
        let mut ends = Vec::new();
        for start in &starts {
            let end = self.end(start.group, &start.chain).await?;
            if let Some((replica, _)) =
                start.replicas.iter().find(|(replica, _)| replica.stamp().position.lsn > end)
            {
                return Err(self.lost_end(replica, start.group, end));
            }
            ends.push((start.group, end));
        }
        let shared = self.share(settings, partition, tables, tails);
        for start in starts {
            match shared.replication.groups.start(start) {
                // The others went on without this node while it was being opened: once more, from copies.
                Err(error @ LogError::Trimmed { .. }) if !shared.replication.is_alone => {
                    return Err(OpenError::Reopen(error.to_string()));
                }
                begun => drop(begun?),
            }
        }
        let partitions = local.iter().map(|(.., partition)| Arc::clone(partition));
        catch_up(&shared, &partitions.collect::<Vec<_>>(), &ends).await?;
        for (table, copies, partition) in local {
            if let Some(index) = table.index() {
                shared.copies.open_indexer(&partition, &index).map_err(mismatch)?;
            }
            copies.set_local(Some(partition));
        }
        Ok(shared)
    }

    /// The metadata as the log has it now, and where its group stands. What is trimmed while it is replayed
    /// is copied from another node, as often as that happens.
    async fn replayed_metadata(
        &self,
        joining: &Joining<'_>,
        genesis: Position,
    ) -> Result<(Replica, Chain), OpenError> {
        loop {
            let mut metadata = self.metadata(joining, genesis).await?;
            let mut chain = Chain::resume(self.incarnation, metadata.stamp().position);
            match self.replay_metadata(&mut chain, &mut metadata).await {
                Ok(()) => return Ok((metadata, chain)),
                Err(OpenError::Log(error @ LogError::Trimmed { .. })) if !self.log.is_alone => {
                    tracing::info!(%error, "the metadata's log went on while it was replayed");
                }
                Err(error) => return Err(error),
            }
            self.world.time.sleep(END_PAUSE).await;
        }
    }

    /// The metadata's replica, copied from another node where the log went on without it.
    async fn metadata(
        &self,
        joining: &Joining<'_>,
        genesis: Position,
    ) -> Result<Replica, OpenError> {
        match self.open_replica(metadata::PARTITION, genesis) {
            Err(ApplyError::Store(StoreError::Damaged(why))) if !self.log.is_alone => {
                tracing::error!(
                    why,
                    "the metadata is damaged here, and is copied from another node"
                );
            }
            opened => {
                let replica = self.checked(opened, metadata::PARTITION)?;
                if !self.is_trimmed(metadata::GROUP, replica.stamp().position)? {
                    return Ok(replica);
                }
            }
        }
        let mut told_at: Option<Instant> = None;
        loop {
            let others = joining.found_in_log().await?;
            let copied = joining.copy_metadata(&others, &self.partitions_dir, &self.resources);
            let why = match copied.await {
                Ok(()) => {
                    let replica = self.replica(metadata::PARTITION, genesis)?;
                    if !self.is_trimmed(metadata::GROUP, replica.stamp().position)? {
                        return Ok(replica);
                    }
                    "what was copied is too old by now".to_owned()
                }
                Err(why) => why.to_string(),
            };
            // Others may be starting too: they are waited for.
            if told_at.is_none_or(|at| self.world.time.now() - at >= PROGRESS_INTERVAL) {
                tracing::warn!(
                    why,
                    "the log no longer holds the metadata that this node lacks, and it cannot be \
                     copied yet"
                );
                told_at = Some(self.world.time.now());
            }
            self.world.time.sleep(END_PAUSE).await;
        }
    }

    /// Whether the log no longer holds what follows a position. One that is alone trims only what
    /// it has itself.
    fn is_trimmed(&self, group: GroupId, position: Position) -> Result<bool, OpenError> {
        let first = self.log.log.bounds(group)?.first;
        Ok(!self.log.is_alone && first > position.lsn.next())
    }

    fn share(
        self,
        settings: &NodeSettings,
        metadata: Arc<Partition>,
        tables: Tables,
        tails: BTreeMap<GroupId, Arc<GroupTail>>,
    ) -> Arc<Shared> {
        let barrier = |(group, tail): (&GroupId, &Arc<GroupTail>)| {
            let (lead, time) = (LeadId(self.names.next_u64()), self.world.time.clone());
            (*group, Barrier::new(*group, Arc::clone(&self.log.log), Arc::clone(tail), lead, time))
        };
        let barriers = tails.iter().map(barrier).collect();
        let peers = Arc::clone(&settings.peers);
        let record = NodeRecord { version_known: version::KNOWN, ..settings.record.clone() };
        let boot = self.names.next_u64();
        let chance = Arc::new(self.world.random.draws("chance"));
        let context = ApplierContext {
            log: Arc::clone(&self.log.log),
            applied_bytes: Arc::default(),
            version: Arc::clone(&self.version),
            reopening: Reopening::default(),
            world: self.world.clone(),
            chance: Arc::clone(&chance),
        };
        let members =
            Members::new(self.own, record, peers, self.incarnation, self.world.time.clone());
        let replication = Replication {
            world: self.world.clone(),
            log: self.log.log,
            _holder: self.log.holder,
            is_alone: self.log.is_alone,
            clock: self.log.clock,
            resources: Arc::new(self.resources),
            room: Arc::new(Room::new(&self.world.disk, &settings.data_dir)),
            metadata,
            members: Arc::new(members),
            tables: Arc::new(tables),
            sessions: Arc::new(SessionPool::new(self.world.time.clone(), &self.world.random)),
            applied_bytes: Arc::clone(&context.applied_bytes),
            lead: self.lead,
            tails,
            barriers,
            durable: Mutex::default(),
            version: self.version,
            reopening: context.reopening.clone(),
            is_stopping: Arc::new(AtomicBool::new(false)),
            groups: Arc::new(HeldGroups::new(context)),
        };
        let replication = Arc::new(replication);
        let searching =
            Searching::new(&settings.documents, settings.work.search, boot, &self.world);
        let load = Load::new(
            boot,
            settings.work.search.thread_count(),
            Arc::clone(&searching.pool) as Arc<dyn SearchMeter>,
        );
        let router = Router::new(&replication, (chance, self.names), settings.work.selection, load);
        let copies = LocalCopies::new(
            router,
            settings.database_partitions,
            self.partitions_dir,
            self.checkpoints,
        );
        Arc::new(Shared {
            router: Arc::clone(&copies.router),
            copies,
            metadata: Arc::clone(&replication.metadata),
            members: Arc::clone(&replication.members),
            tables: Arc::clone(&replication.tables),
            replication,
            cursors: Arc::default(),
            searching: Arc::new(searching),
            work_settings: settings.work.clone(),
            snapshots: Arc::default(),
            process_figures: OnceLock::new(),
            settings_follower: Mutex::default(),
            world: self.world,
        })
    }

    fn partition(
        &self,
        replica: &Replica,
        group: GroupId,
        tails: &BTreeMap<GroupId, Arc<GroupTail>>,
    ) -> Arc<Partition> {
        let log = (&self.log.log, &self.log.clock, &self.version);
        partition_of_replica(replica, group, self.lead, log, &tails[&group])
    }

    /// The copy of a partition that is in this node's folder and its own; one that was created
    /// just before a crash begins empty. `None` for one that others have, or that is to be made. On a
    /// node that is alone one that cannot be opened stops by name, and the others do their work.
    fn held_copy(
        &self,
        copies: &Copies,
        metadata: &Replica,
        note: Option<&TrimNote>,
    ) -> Result<Option<Replica>, OpenError> {
        let definition = copies.definition();
        let Some(own) = definition.copy_on(&self.own) else { return Ok(None) };
        // What is there of it may be of an earlier leader's: whoever makes it looks.
        if definition.is_imported && own.state == CopyState::Initializing {
            return Ok(None);
        }
        let dir = self.partitions_dir.join(copies.id.to_string());
        let was_held = metadata.store().is_held(copies.id).map_err(mismatch)?;
        let is_gone = format!("its rows are gone from {}", dir.display());
        // RocksDB would make an empty store, and delete the files that are left of the old one.
        if self.log.is_alone && was_held && !Replica::is_in(&dir, &self.resources) {
            copies.stop(&is_gone);
            return Ok(None);
        }
        if !self.log.is_alone && !self.world.disk.has_dir(&dir).map_err(folder(&dir))? {
            return Ok(None);
        }
        let opened = self.open_replica(copies.id, definition.begin());
        let mut replica = match opened {
            Err(ApplyError::Store(StoreError::Damaged(why))) => {
                tracing::error!(partition = %copies.id, why, "the rows are damaged");
                if self.log.is_alone {
                    copies.stop(&format!("its rows in {} are damaged: {why}", dir.display()));
                }
                return Ok(None);
            }
            opened => self.checked(opened, copies.id)?,
        };
        if definition.is_given_up(&self.own) {
            return Ok(None);
        }
        if definition.is_imported && replica.is_new() {
            // Opening made an empty one, which the log cannot fill.
            if self.log.is_alone {
                copies.stop(&is_gone);
            }
            return Ok(None);
        }
        if self.log.is_alone && replica.is_new() && was_held {
            copies.stop(&is_gone);
            return Ok(None);
        }
        let is_trimmed = |replica: &Replica| -> Result<Option<Lsn>, OpenError> {
            let first = self.log.log.bounds(copies.group)?.first;
            Ok((first > replica.stamp().position.lsn.next()).then_some(first))
        };
        let Some(first) = is_trimmed(&replica)? else { return Ok(Some(replica)) };
        if self.log.is_alone {
            let held = replica.stamp().position.lsn;
            copies.stop(&format!(
                "its rows in {} end at {held}, and the log begins at {first}: they are of an \
                 earlier time",
                dir.display()
            ));
            return Ok(None);
        }
        if note.is_some_and(|it| it.bridge(&mut replica)) && is_trimmed(&replica)?.is_none() {
            tracing::info!(partition = %copies.id, "what was trimmed had nothing of this copy");
            return Ok(Some(replica));
        }
        tracing::warn!(partition = %copies.id, "the log went on without this copy");
        Ok(None)
    }

    fn open_replica(&self, id: PartitionId, initial: Position) -> Result<Replica, ApplyError> {
        let dir = self.partitions_dir.join(id.to_string());
        Replica::open(id, &dir, &self.resources, self.incarnation, initial)
    }

    fn replica(&self, id: PartitionId, initial: Position) -> Result<Replica, OpenError> {
        self.checked(self.open_replica(id, initial), id)
    }

    /// A replica that was opened, if it is of this log.
    fn checked(
        &self,
        opened: Result<Replica, ApplyError>,
        id: PartitionId,
    ) -> Result<Replica, OpenError> {
        let dir = self.partitions_dir.join(id.to_string());
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
        Ok(replica)
    }

    /// Where another node stands in a group of which the log no longer holds what this one lacks.
    /// Others may be starting too: they are waited for.
    async fn position_at_others(
        &self,
        group: GroupId,
        joining: &Joining<'_>,
        others: &[NodeRecord],
    ) -> Result<Position, OpenError> {
        let mut told_at: Option<Instant> = None;
        loop {
            let mut why = "no other node is known".to_owned();
            for other in others {
                let found = joining.positions(std::slice::from_ref(other)).await;
                match found.map(|it| it.get(&group).copied()) {
                    // One that is behind the trim itself is of no use.
                    Ok(Some(position)) if !self.is_trimmed(group, position)? => {
                        return Ok(position);
                    }
                    Ok(_) => why = format!("{} lacks it too", other.name),
                    Err(error) => why = error.to_string(),
                }
            }
            if told_at.is_none_or(|at| self.world.time.now() - at >= PROGRESS_INTERVAL) {
                tracing::warn!(%group, why, "waiting for a node that knows where the log is");
                told_at = Some(self.world.time.now());
            }
            self.world.time.sleep(END_PAUSE).await;
        }
    }

    fn lost_end(&self, replica: &Replica, group: GroupId, end: Lsn) -> OpenError {
        OpenError::Mismatch(format!(
            "{} contains the log up to {}, but log group {group} ends at {end}: \
             the log lost its end",
            self.partitions_dir.join(replica.id().to_string()).display(),
            replica.stamp().position.lsn
        ))
    }

    /// Where a group's log ends. Where others append too, what a server says is only a hint: then
    /// it is where a marker of ours comes to stand.
    async fn end(&self, group: GroupId, chain: &Chain) -> Result<Lsn, OpenError> {
        if self.log.is_alone {
            return Ok(self.log.log.bounds(group)?.last);
        }
        let marker = Record {
            partition: NOBODY,
            version: 1,
            lead: LeadStamp { lead: LeadId(self.names.next_u64()), epoch: 1, n: 1 },
            stamp_ms: self.world.time.wall_ms().max(chain.position().log_time_ms),
            anchor: chain.anchor(),
            items: Vec::new(),
        };
        let record = marker.encode();
        let time = &self.world.time;
        let deadline = time.now() + END_TIMEOUT;
        loop {
            let (done, told) = oneshot::channel();
            let tell = move |outcome| {
                // Who asked may have gone.
                let _ = done.send(outcome);
            };
            self.log.log.append(group, record.clone(), Box::new(tell));
            let why = match time.timeout(END_TIMEOUT, told).await {
                Ok(Ok(Ok(lsn))) => return Ok(lsn),
                Ok(Ok(Err(error))) => error.to_string(),
                _ => "it does not answer".to_owned(),
            };
            // Its leader may be about to be elected; a second marker does no harm.
            if time.now() >= deadline {
                return Err(LogError::Failed(format!("log group {group}: {why}")).into());
            }
            self.world.time.sleep(END_PAUSE).await;
        }
    }

    /// The metadata comes first: it says which other replicas there are.
    async fn replay_metadata(
        &self,
        chain: &mut Chain,
        replica: &mut Replica,
    ) -> Result<(), OpenError> {
        let end = self.end(metadata::GROUP, chain).await?;
        if replica.stamp().position.lsn > end {
            return Err(self.lost_end(replica, metadata::GROUP, end));
        }
        let mut reader = self.log.log.read(&[(metadata::GROUP, chain.position().lsn.next())])?;
        let mut entries = Vec::new();
        while chain.position().lsn < end {
            let time = &self.world.time;
            reading::next(time, &mut *reader, &mut entries, READ_BYTES_MAX, READ_TIMEOUT).await?;
            for entry in entries.drain(..).filter(|entry| entry.lsn <= end) {
                let (record, position) = advance(chain, &entry)?;
                if record.partition == replica.id() {
                    let applied = replica.apply(position, &record, OverBudget::Refuse, &mut ());
                    applied.map_err(|error| apply_error(&self.partitions_dir, error))?;
                }
            }
        }
        replica.pass(chain.position());
        Ok(())
    }
}

fn open_table(
    name: &str,
    definition: &TableDefinition,
    tables: &Tables,
) -> Result<Arc<Table>, OpenError> {
    let index = IndexMetadata::of(name, definition).map_err(mismatch)?.map(Arc::new);
    Ok(tables.insert(Table::new(name, definition, index)))
}

/// Waits until what the log held at the opening is applied.
async fn catch_up(
    shared: &Shared,
    partitions: &[Arc<Partition>],
    ends: &[(GroupId, Lsn)],
) -> Result<(), OpenError> {
    let time = &shared.world.time;
    let mut told_at = time.now();
    let filling: Vec<_> = partitions.iter().chain([&shared.metadata]).map(Arc::clone).collect();
    loop {
        // Nobody else does yet, and who applies would wait for it for ever.
        flushing::relieve(shared, &filling);
        let behind = |(group, end): &&(GroupId, Lsn)| {
            let is_behind = |it: &Arc<GroupTail>| it.applied() < *end && !it.has_stopped();
            // One without copies that was trimmed meanwhile is taken up again later.
            shared.replication.groups.reads(*group)
                && shared.replication.tails.get(group).is_some_and(is_behind)
        };
        let left = ends.iter().filter(behind).count();
        if left == 0 {
            return Ok(());
        }
        // Other nodes may have what a copy here lacks: this one goes on without it, and says so. One
        // that is damaged is no better for the others being refused.
        let needed = if shared.replication.is_alone { partitions } else { &[] };
        // Nor is one that its leader's log stopped.
        let follows = |it: &Arc<Partition>| {
            shared.tables.copies(it.id).is_some_and(|copies| copies.is_follower())
        };
        let needed = needed.iter().filter(|it| !it.is_damaged() && !follows(it));
        let fault = needed.chain([&shared.metadata]).find_map(|it| it.fault());
        if let Some(fault) = fault {
            return Err(OpenError::Mismatch(fault));
        }
        if let Some(why) = shared.replication.reopening.why() {
            return Err(OpenError::Reopen(why));
        }
        if time.now() - told_at >= PROGRESS_INTERVAL {
            tracing::info!(groups = left, "the log is being replayed");
            told_at = time.now();
        }
        time.sleep(Duration::from_millis(2)).await;
    }
}

/// An `async` log may be behind its readers: it is synced before rows become durable.
fn before_flush(log: &Arc<dyn Log>) -> BeforeFlush {
    let log = Arc::downgrade(log);
    Arc::new(move || {
        let synced = log.upgrade().map_or(Ok(()), |log| log.sync());
        if let Err(error) = synced {
            tracing::error!(%error, "the log cannot be synced before a flush");
        }
    })
}

fn mismatch(error: impl ToString) -> OpenError {
    OpenError::Mismatch(error.to_string())
}

fn apply_error(dir: &Path, error: ApplyError) -> OpenError {
    OpenError::Folder { path: dir.to_owned(), reason: error.to_string() }
}
