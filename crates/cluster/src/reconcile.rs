//! A node follows the metadata: tables that others created are served here too, copies that are
//! this node's are made, those that are no longer are given up, the cluster's settings are taken
//! on. It says that it is there, and the first of the nodes notes who has left and where copies
//! should be. What is held for searches that nobody came back to is let go here too.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use plimsoll_control::Class;
use plimsoll_log::{Lsn, PartitionId};
use plimsoll_storage::partition::Replica;

use crate::catch_up::CatchUpError;
use crate::documents::IndexMetadata;
use crate::lead::now_ms;
use crate::members::{BEAT_INTERVAL_MS, Beat, LEFT_AFTER_MS, STOPPED_MAX};
use crate::metadata;
use crate::node::Shared;
use crate::placement::{self, CopyState, Places};
use crate::recovery::{self, CopyOptions, Folders, Recovery, Stage};
use crate::session::random_u64;
use crate::table::{Copies, DocumentsDefinition, Table, TableDefinition};
use crate::trimming::{self, Trimming};
use crate::work_settings::WORK_SETTINGS;

/// How often the metadata is looked at where nothing says that it changed.
const INTERVAL: Duration = Duration::from_millis(500);
/// How often nodes and copies are looked at, at most, where no table changed.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// Copies that this node makes at once.
const MAKING_MAX: usize = 2;
/// How many positions of its group a new copy is brought through the log, rather than copied.
const REPLAY_RECORDS_MAX: u64 = 1_000;
/// How long a copy that could not be made rests.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// The handle of the thread.
pub(crate) struct Reconciler {
    shared: Weak<Shared>,
    thread: JoinHandle<()>,
}

impl Reconciler {
    pub(crate) fn start(shared: &Arc<Shared>) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let weak = Arc::downgrade(shared);
        shared.metadata.tell_changes(Arc::clone(&shared.look));
        let own = Weak::clone(&weak);
        let run = move || {
            runtime.block_on(run(&own));
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("reconcile".to_owned()).spawn(run)?;
        Ok(Self { shared: weak, thread })
    }

    /// Ends the thread after what it is doing. Blocks.
    pub(crate) fn stop(self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.look.notify_one();
        }
        if self.thread.join().is_err() {
            tracing::error!("the reconcile thread panicked");
        }
    }
}

/// What the thread remembers from one look to the next.
#[derive(Default)]
struct Seen {
    /// The changes of tables and settings that were seen last.
    tables: Option<u64>,
    settings: Option<u64>,
    documents: HashMap<String, Option<DocumentsDefinition>>,
    /// When a copy that could not be made is tried again; those being made are there too.
    making: Arc<Mutex<HashMap<PartitionId, Option<Instant>>>>,
    /// A copy was made, or could not be, since they were looked at.
    has_made: Arc<AtomicBool>,
    /// What the last look at the places of copies went by, where it found nothing to change.
    placed: Option<Placed>,
    looked_at: Option<Instant>,
    beat_at: Option<Instant>,
    acted_at: Option<Instant>,
    trimming: Trimming,
}

/// What decides where copies should be: the changes of tables and settings, and the nodes.
#[derive(PartialEq)]
struct Placed {
    tables: Option<u64>,
    settings: Option<u64>,
    places: Places,
}

async fn run(weak: &Weak<Shared>) {
    let mut seen = Seen::default();
    loop {
        let Some(shared) = weak.upgrade() else { return };
        if shared.is_stopping.load(Ordering::Relaxed) {
            shared.say_goodbye().await;
            return;
        }
        let position = shared.metadata.applied();
        match shared.reconcile(&mut seen, position).await {
            Ok(()) => {
                shared.reconciled.send_replace(position.0);
            }
            Err(error) => tracing::warn!(error, "the metadata cannot be followed"),
        }
        let look = Arc::clone(&shared.look);
        drop(shared);
        let _ = tokio::time::timeout(INTERVAL, look.notified()).await;
    }
}

impl Shared {
    async fn reconcile(self: &Arc<Self>, seen: &mut Seen, position: Lsn) -> Result<(), String> {
        // Every beat of every node is a change of the metadata: what does not answer a client's
        // change is done at its own pace.
        let is_turn = seen.looked_at.is_none_or(|at| at.elapsed() >= LOOK_INTERVAL);
        if is_turn {
            seen.looked_at = Some(Instant::now());
            self.documents.contexts.expire();
            self.documents.views.expire();
            self.members.set(metadata::nodes(&self.metadata)?);
        }
        let change = metadata::objects_change(&self.metadata, metadata::SETTINGS.0)?;
        if seen.settings != Some(change) {
            self.follow_settings();
            seen.settings = Some(change);
        }
        let change = metadata::tables_change(&self.metadata)?;
        if seen.tables != Some(change) {
            let _changing = self.creation.lock().await;
            self.follow_tables(seen).await?;
            seen.tables = Some(change);
            seen.trimming.tables_changed(position);
            self.follow_copies(seen).await?;
        } else if is_turn || seen.has_made.swap(false, Ordering::Relaxed) {
            self.follow_copies(seen).await?;
        }
        let is_due = |at: Option<Instant>| {
            at.is_none_or(|at| at.elapsed() >= Duration::from_millis(BEAT_INTERVAL_MS))
        };
        // A node that is alone says who it is once, when it starts.
        if seen.beat_at.is_none() || (!self.is_alone && is_due(seen.beat_at)) {
            seen.beat_at = Some(Instant::now());
            self.compare_clocks();
            self.beat();
        }
        if is_due(seen.acted_at) {
            seen.acted_at = Some(Instant::now());
            // Everybody does, as the one that acts may be the one that left.
            self.note_who_left().await?;
            if self.members.acts() {
                self.place(seen).await?;
                if !self.is_alone {
                    trimming::trim(self, position, &mut seen.trimming).await?;
                }
            }
        }
        Ok(())
    }

    /// Works as the cluster's settings say, and where they do not, as it was started.
    pub(crate) fn follow_settings(&self) {
        // Held from the read on, so that an older state is never the last one told.
        let follower = self.settings_follower.lock();
        let settings = metadata::settings(&self.metadata);
        let mut work = self.work_settings.clone();
        for name in WORK_SETTINGS {
            if let Some(text) = settings.get(name)
                && let Err(error) = work.set(name, text)
            {
                tracing::warn!(name, error, "the cluster's setting is passed over");
            }
        }
        self.selection.change(&work.selection);
        self.documents.pool.change(&work.search);
        if let Some(follower) = &*follower {
            follower(&settings);
        }
    }

    /// Serves the tables that the metadata has, as it has them.
    async fn follow_tables(&self, seen: &mut Seen) -> Result<(), String> {
        let definitions: BTreeMap<String, TableDefinition> =
            metadata::tables(&self.metadata)?.into_iter().collect();
        for table in self.tables.all() {
            let is_same = |it: &TableDefinition| it.incarnation == table.incarnation();
            if !definitions.get(table.name()).is_some_and(is_same) {
                self.close_table(&table).await?;
                seen.documents.remove(table.name());
            }
        }
        for (name, definition) in &definitions {
            let table = match self.tables.by_name(name) {
                Some(table) => table,
                None => {
                    let index = IndexMetadata::of(name, definition);
                    let index = index.map_err(|error| error.to_string())?.map(Arc::new);
                    self.tables.insert(Table::new(name, definition, index))
                }
            };
            for (copies, (_, partition)) in table.copies().iter().zip(definition.partitions()) {
                copies.set_definition(partition);
            }
            if seen.documents.get(name) != Some(&definition.documents) {
                let index = IndexMetadata::of(name, definition);
                if let Some(index) = index.map_err(|error| error.to_string())? {
                    table.set_index(Arc::new(index));
                    let indexed = self.index_partitions(&table).await;
                    indexed.map_err(|error| error.to_string())?;
                }
                seen.documents.insert(name.clone(), definition.documents.clone());
            }
        }
        Ok(())
    }

    /// Begins to make the copies that are this node's and missing, and gives up those that are
    /// not.
    async fn follow_copies(self: &Arc<Self>, seen: &Seen) -> Result<(), String> {
        let mut wanted = BTreeSet::new();
        for table in self.tables.all() {
            for copies in table.copies() {
                let definition = copies.definition();
                let is_own = definition.copy_on(&self.members.own).is_some();
                match copies.local() {
                    Some(_) if !is_own => {
                        tracing::info!(partition = %copies.id, "the copy is no longer here");
                        self.close_copy(copies, "the copy is no longer here").await?;
                    }
                    None if is_own => {
                        wanted.insert(copies.id);
                        self.make_in_time(seen, &table, copies);
                    }
                    _ => {}
                }
            }
        }
        seen.making.lock().retain(|id, rests| rests.is_none() || wanted.contains(id));
        Ok(())
    }

    fn make_in_time(self: &Arc<Self>, seen: &Seen, table: &Arc<Table>, copies: &Arc<Copies>) {
        let mut making = seen.making.lock();
        let now = Instant::now();
        let rests = match making.get(&copies.id) {
            Some(None) => true,
            Some(Some(until)) => *until > now,
            None => false,
        };
        let busy = making.values().filter(|rests| rests.is_none()).count();
        if rests || busy >= MAKING_MAX {
            return;
        }
        making.insert(copies.id, None);
        let (shared, making) = (Arc::downgrade(self), Arc::clone(&seen.making));
        let has_made = Arc::clone(&seen.has_made);
        let (table, copies) = (Arc::clone(table), Arc::clone(copies));
        tokio::spawn(async move {
            let Some(shared) = shared.upgrade() else { return };
            let made = shared.make_copy(&table, &copies).await;
            let rest = match made {
                Ok(()) => None,
                Err(error) => {
                    tracing::warn!(partition = %copies.id, error, "a copy cannot be made yet");
                    Some(Some(Instant::now() + RETRY_INTERVAL))
                }
            };
            match rest {
                Some(rest) => making.lock().insert(copies.id, rest),
                None => making.lock().remove(&copies.id),
            };
            has_made.store(true, Ordering::Relaxed);
            shared.look.notify_one();
        });
    }

    /// Makes this node's copy of a partition, and says so where others wait for it.
    async fn make_copy(&self, table: &Table, copies: &Copies) -> Result<(), String> {
        if copies.local().is_none() {
            let begin = copies.definition().begin();
            let (incarnation, dir) = (self.log.incarnation(), self.partition_dir(copies.id));
            let open = || {
                let opened = Replica::open(copies.id, &dir, &self.resources, incarnation, begin);
                opened.map_err(|error| error.to_string())
            };
            let mut recovery = None;
            if !dir.exists() && self.is_worth_copying(copies) {
                recovery = Some(self.copy_from_another(table, copies).await?);
            }
            let served = match self.serve_copy(table, copies, open()?).await {
                Err(CatchUpError::Trimmed(error)) if recovery.is_none() => {
                    tracing::info!(partition = %copies.id, %error, "the copy is made anew");
                    recovery = Some(self.copy_from_another(table, copies).await?);
                    self.serve_copy(table, copies, open()?).await
                }
                served => served,
            };
            if let Err(error) = &served {
                recovery.iter().for_each(|recovery| recovery.fail(&error.to_string()));
            }
            served.map_err(|error| error.to_string())?;
            recovery.iter().for_each(|recovery| recovery.enter(Stage::Done));
        }
        if self.tables.copies(copies.id).is_none() {
            return self.close_copy(copies, "the table was deleted").await;
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
        let said = self.update_definition(table.name(), table.incarnation(), is_whole).await;
        said.map(drop).map_err(|error| error.to_string())
    }

    /// Whether a new copy is made faster from another's files than from the log.
    fn is_worth_copying(&self, copies: &Copies) -> bool {
        let definition = copies.definition();
        let is_made = definition
            .copy_on(&self.members.own)
            .is_some_and(|copy| copy.state == CopyState::Initializing);
        let tail = self.tails.get(&copies.group).map_or(Lsn(0), |tail| tail.applied());
        is_made && tail.0.saturating_sub(definition.begin().lsn.0) > REPLAY_RECORDS_MAX
    }

    /// Puts a copy of another node's files in this node's place for them.
    async fn copy_from_another(
        &self,
        table: &Table,
        copies: &Copies,
    ) -> Result<Arc<Recovery>, String> {
        let folders = Folders::of(&self.partitions_dir, copies.id);
        let mut why = "no other copy can be asked".to_owned();
        for member in self.others_with(copies, Class::Scan) {
            let recovery = self.recoveries.begin(copies.id, &member.record.name);
            let recovery = recovery.map_err(|_| "a copy is being made already".to_owned())?;
            let options = CopyOptions { seed: random_u64(), ..CopyOptions::default() };
            match recovery::copy(&member.link, copies.id, &folders, &options, &recovery).await {
                Ok(copied) => {
                    recovery.enter(Stage::Translog);
                    let (resources, incarnation) = (&self.resources, self.log.incarnation());
                    let installed = copied.install(resources, incarnation, table.is_index());
                    installed.map_err(|error| error.to_string())?;
                    return Ok(recovery);
                }
                Err(error) => {
                    recovery.fail(&error.to_string());
                    why = format!("{}: {error}", member.record.name);
                }
            }
        }
        Err(why)
    }

    /// Says that this node is there; what comes of it is not waited for.
    fn beat(self: &Arc<Self>) {
        let partitions = self.tables.partitions();
        let stopped = partitions.iter().filter(|it| it.fault().is_some());
        let stopped = stopped.map(|it| (it.id.table, it.id.ordinal)).take(STOPPED_MAX).collect();
        let beat = Beat { at_ms: now_ms(), stopped, ..self.durable.lock().clone() };
        let operation = metadata::beat(&self.members.own, &self.members.record, &beat);
        let shared = Arc::downgrade(self);
        tokio::spawn(async move {
            let Some(shared) = shared.upgrade() else { return };
            if let Err(error) = shared.submit_metadata(&operation).await {
                tracing::warn!(%error, "the node cannot say that it is there");
            }
        });
    }

    async fn say_goodbye(&self) {
        if self.is_alone {
            return;
        }
        let log_time_ms = self.metadata.log_time_ms();
        let said = self.write_metadata(metadata::left(&self.members.own, log_time_ms));
        // The others notice by themselves where the log does not take it.
        let _ = tokio::time::timeout(INTERVAL, said).await;
    }

    /// Notes the nodes that have not said anything for too long.
    async fn note_who_left(&self) -> Result<(), String> {
        let log_time_ms = self.metadata.log_time_ms();
        for member in self.members.others() {
            let beat = metadata::last_beat(&self.metadata, &member.id)?;
            let (at_ms, seen) = beat.map_or((0, 0), |(beat, seen)| (beat.at_ms, seen));
            if at_ms + LEFT_AFTER_MS < log_time_ms {
                tracing::warn!(node = member.record.name, "a node has left");
                let leave = metadata::leave(&member.id, log_time_ms, seen);
                self.submit_metadata(&leave).await.map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Has copies made and given up where they should be others. Looks at no table where nothing
    /// changed since there was nothing to do.
    async fn place(&self, seen: &mut Seen) -> Result<(), String> {
        let log_time_ms = self.metadata.log_time_ms();
        let wanted = self.wanted_nodes();
        let places = self.members.places(log_time_ms, 0, &wanted);
        // How long one that is away is waited for is each table's own.
        let is_all_there = places.values().all(|place| place.is_alive);
        let placed = Placed { tables: seen.tables, settings: seen.settings, places };
        if is_all_there && seen.placed.as_ref() == Some(&placed) {
            return Ok(());
        }
        seen.placed = None;
        let mut making = self.making();
        let mut has_changed = false;
        for table in self.tables.all() {
            let index = table.index();
            let wait_ms = index.as_ref().map_or(metadata::DELAYED_MS, |it| it.delayed_ms());
            let places = self.members.places(log_time_ms, wait_ms, &wanted);
            let copies = self.wanted_copies_of(index.as_deref());
            let changes = table.copies().iter().any(|it| {
                placement::next(&it.definition(), copies, &places, &mut making.clone()).is_some()
            });
            if !changes {
                continue;
            }
            has_changed = true;
            let counted = Mutex::new(&mut making);
            let change = |definition: &mut TableDefinition| {
                let mut is_changed = false;
                for partition in &mut definition.partitions {
                    let next = placement::next(partition, copies, &places, *counted.lock());
                    if let Some(next) = next {
                        partition.copies = next;
                        partition.epoch += 1;
                        is_changed = true;
                    }
                }
                is_changed
            };
            let changed = self.update_definition(table.name(), table.incarnation(), change).await;
            changed.map_err(|error| error.to_string())?;
        }
        seen.placed = (!has_changed).then_some(placed);
        Ok(())
    }

    /// How many copies each node is making.
    fn making(&self) -> BTreeMap<String, usize> {
        let mut making = BTreeMap::new();
        for table in self.tables.all() {
            for copies in table.copies() {
                for copy in &copies.definition().copies {
                    if copy.state == CopyState::Initializing {
                        *making.entry(copy.node.clone()).or_insert(0) += 1;
                    }
                }
            }
        }
        making
    }
}
