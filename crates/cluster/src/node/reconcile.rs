//! A node follows the metadata: tables that others created are served here too, copies that are
//! this node's are made, those that are no longer are given up, the cluster's settings are taken
//! on. It says that it is there, and the first of the nodes notes who has left and where copies
//! should be. What is held for searches that nobody came back to is let go here too.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::tasks::Role;
use plimsoll_base::time::Instant;
use plimsoll_index::Error;
use plimsoll_log::{Lsn, PartitionId};
use plimsoll_storage::ErrorReply;

use crate::copies::error::{NotMade, NotServed};
use crate::metadata;
use crate::metadata::error::MetadataError;
use crate::metadata::index::IndexMetadata;
use crate::metadata::members::{BEAT_INTERVAL_MS, Beat, LEFT_AFTER_MS};
use crate::metadata::placement::{self, CopyState, Known, PlaceableNodes};
use crate::metadata::reports::{CopyReport, reason};
use crate::metadata::table::{DocumentsDefinition, TableDefinition};
use crate::node::shared::Shared;
use crate::node::trimming::Trimmer;
use crate::replication::groups::follow::UnusedSince;
use crate::replication::partition::Partition;
use crate::replication::proposing::NotChanged;
use crate::replication::tables::{Copies, Table};
use crate::settings;
use crate::settings::cluster::{CLUSTER_SETTINGS, check_cluster_setting};
use crate::settings::work::WORK_SETTINGS;

/// How often the metadata is looked at where nothing says that it changed.
const INTERVAL: Duration = Duration::from_millis(500);
/// How often nodes and copies are looked at, at most, where no table changed.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// Copies that this node makes at once, and first copies of new tables beside them: those are of nothing yet,
/// and clients wait for them.
const MAKING_MAX: usize = 2;
const BEGINNING_MAX: usize = 4;
/// How long a copy that could not be made rests.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// From how much on log time counts as ahead of the clock, ms: clocks may differ by half of it.
const LOG_TIME_AHEAD_MS: u64 = 1_000;
/// How long the log has to take a report of copies before it is tried again at the next look: a beat
/// must not be late.
const REPORT_TIMEOUT: Duration = Duration::from_secs(1);
/// How often files of copies that are no longer this node's are looked for.
const LEFTOVERS_INTERVAL: Duration = Duration::from_secs(30);

/// The handle of the role.
pub(crate) struct Reconciler {
    shared: Weak<Shared>,
    role: Role,
}

impl Reconciler {
    pub(crate) fn start(shared: &Arc<Shared>) -> std::io::Result<Self> {
        let weak = Arc::downgrade(shared);
        shared.metadata.tell_changes(Arc::clone(&shared.router.look));
        let own = Weak::clone(&weak);
        // It hears of the end by `is_stopping`, which those hear too whom it asks.
        let role = shared.world.tasks.networked_role("reconcile", move |_| run(own))?;
        Ok(Self { shared: weak, role })
    }

    /// Ends it after what it is doing. Blocks.
    pub(crate) fn stop(self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.router.look.notify_one();
        }
        self.role.end();
    }
}

/// What the thread remembers from one look to the next.
#[derive(Default)]
struct Seen {
    /// The changes of tables and settings that were seen last.
    tables: Option<u64>,
    settings: Option<u64>,
    documents: BTreeMap<String, Option<DocumentsDefinition>>,
    /// The copies that are being made, and those that could not be and rest.
    making: Arc<Mutex<BTreeMap<PartitionId, Making>>>,
    /// A copy was made, or could not be, since they were looked at.
    has_made: Arc<AtomicBool>,
    /// What the last look at the places of copies went by, where it found nothing to change.
    placed: Option<Placed>,
    looked_at: Option<Instant>,
    leftovers_at: Option<Instant>,
    beat_at: Option<Instant>,
    acted_at: Option<Instant>,
    clock_at: Option<Instant>,
    /// It was said that log time is ahead of the clock.
    is_ahead: bool,
    trimmer: Trimmer,
    /// Log groups that are read and of no use.
    unused: UnusedSince,
}

/// What decides where copies should be: the changes of tables and settings, the nodes, and the
/// change of each node's reports.
#[derive(PartialEq)]
struct Placed {
    tables: Option<u64>,
    settings: Option<u64>,
    places: PlaceableNodes,
    reports: Vec<u64>,
}

/// A copy that this node is to make.
enum Making {
    /// It is being made, perhaps as the first of a new table; `why` that failed before, if it did.
    Now { is_first: bool, why: Option<NotMade> },
    /// It could not be made.
    Rests { until: Instant, why: NotMade },
}

/// Why the node does not follow the metadata, or does not say what it is to say in it.
#[derive(Debug, thiserror::Error)]
enum Unreconciled {
    /// It cannot be read.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// It was not changed.
    #[error(transparent)]
    NotChanged(#[from] NotChanged),
    /// A change of it was refused, or its outcome is not known.
    #[error(transparent)]
    Refused(#[from] ErrorReply),
    /// A change of it was not answered in time.
    #[error("no answer")]
    NoAnswer,
    /// What a table is as an index cannot be read, or a copy not be indexed.
    #[error(transparent)]
    Index(#[from] Error),
    /// A copy cannot be taken off this node.
    #[error(transparent)]
    Copy(#[from] NotServed),
}

async fn run(weak: Weak<Shared>) {
    let mut seen = Seen::default();
    loop {
        let Some(shared) = weak.upgrade() else { return };
        if shared.replication.is_stopping.load(Ordering::Relaxed) {
            shared.say_goodbye().await;
            return;
        }
        let position = shared.metadata.applied();
        match shared.reconcile(&mut seen, position).await {
            Ok(()) => {
                shared.router.reconciled.send_replace(position.0);
            }
            Err(error) => tracing::warn!(%error, "the metadata cannot be followed"),
        }
        let (look, time) = (Arc::clone(&shared.router.look), shared.world.time.clone());
        drop(shared);
        let _ = time.timeout(INTERVAL, look.notified()).await;
    }
}

impl Shared {
    async fn reconcile(
        self: &Arc<Self>,
        seen: &mut Seen,
        position: Lsn,
    ) -> Result<(), Unreconciled> {
        // Every beat of every node is a change of the metadata: what does not answer a client's
        // change is done at its own pace.
        let time = self.world.time.clone();
        let is_turn = seen.looked_at.is_none_or(|at| time.now() - at >= LOOK_INTERVAL);
        if is_turn {
            seen.looked_at = Some(time.now());
            self.searching.contexts.expire();
            self.searching.views.expire();
            self.router.follow_members()?;
        }
        let change = metadata::objects_change(&self.metadata, metadata::SETTINGS.0)?;
        if seen.settings != Some(change) {
            self.follow_settings();
            seen.settings = Some(change);
        }
        self.replication.follow_version()?;
        let mut is_look = false;
        let change = metadata::tables_change(&self.metadata)?;
        if seen.tables != Some(change) {
            let _changing = self.copies.changes.changing.lock().await;
            self.follow_tables(seen).await?;
            seen.tables = Some(change);
            seen.trimmer.tables_changed(self, position);
            self.follow_copies(seen).await?;
            is_look = true;
        } else if is_turn || seen.has_made.swap(false, Ordering::Relaxed) {
            self.follow_copies(seen).await?;
            is_look = true;
        }
        if is_look {
            self.replication.follow_groups(&mut seen.unused);
        }
        let is_due = |at: Option<Instant>| {
            at.is_none_or(|at| time.now() - at >= Duration::from_millis(BEAT_INTERVAL_MS))
        };
        if is_due(seen.clock_at) {
            seen.clock_at = Some(time.now());
            self.check_clock(seen);
        }
        // Before the first beat: others go by what a node reported as soon as it counts as there, and
        // that was another life's.
        let is_first = seen.beat_at.is_none();
        if is_first {
            self.report_or_warn(seen).await;
        }
        // A node that is alone says who it is once, when it starts.
        if is_first || (!self.replication.is_alone && is_due(seen.beat_at)) {
            seen.beat_at = Some(time.now());
            self.replication.compare_clocks();
            self.beat();
        }
        // After the beat: what the log does not take now is said at the next look.
        if is_look && !is_first {
            self.report_or_warn(seen).await;
        }
        if seen.leftovers_at.is_none_or(|at| time.now() - at >= LEFTOVERS_INTERVAL) {
            seen.leftovers_at = Some(time.now());
            self.forget_leftovers_aside();
        }
        if is_due(seen.acted_at) {
            seen.acted_at = Some(time.now());
            // Everybody does, as the one that acts may be the one that left.
            self.note_who_left().await?;
            if self.members.acts() {
                self.replication.raise_version().await?;
                self.place(seen).await?;
            }
            if !self.replication.is_alone {
                seen.trimmer.trim(self, position);
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
                tracing::warn!(name, %error, "the cluster's setting is passed over");
            }
        }
        for (name, _) in CLUSTER_SETTINGS {
            // Whoever reads one that this version does not take has its default.
            if let Some(text) = settings.get(name)
                && let Err(error) = check_cluster_setting(name, text)
            {
                tracing::warn!(name, %error, "the cluster's setting is passed over");
            }
        }
        self.router.selection.change(&work.selection);
        self.searching.pool.change(&work.search);
        if let Some(follower) = &*follower {
            follower(&settings);
        }
    }

    /// Serves the tables that the metadata has, as it has them.
    async fn follow_tables(&self, seen: &mut Seen) -> Result<(), Unreconciled> {
        let definitions: BTreeMap<String, TableDefinition> =
            metadata::tables(&self.metadata)?.into_iter().collect();
        for table in self.tables.all() {
            let is_same = |it: &TableDefinition| it.incarnation == table.incarnation();
            if !definitions.get(table.name()).is_some_and(is_same) {
                self.copies.close_table(&table).await?;
                seen.documents.remove(table.name());
            }
        }
        for (name, definition) in &definitions {
            let table = match self.tables.by_name(name) {
                Some(table) => table,
                None => {
                    let index = IndexMetadata::of(name, definition)?.map(Arc::new);
                    self.tables.insert(Table::new(name, definition, index))
                }
            };
            for (copies, (_, partition)) in table.copies().iter().zip(definition.partitions()) {
                copies.set_definition(partition);
            }
            table.follow(definition);
            if seen.documents.get(name) != Some(&definition.documents) {
                if let Some(index) = IndexMetadata::of(name, definition)? {
                    table.set_index(Arc::new(index));
                    self.copies.index_partitions(&table).await?;
                }
                seen.documents.insert(name.clone(), definition.documents.clone());
            }
        }
        Ok(())
    }

    /// Begins to make the copies that are this node's and missing, and gives up those that are
    /// not.
    async fn follow_copies(self: &Arc<Self>, seen: &Seen) -> Result<(), NotServed> {
        let mut wanted = BTreeSet::new();
        for table in self.tables.all() {
            for copies in table.copies() {
                let definition = copies.definition();
                let own = definition.copy_on(&self.members.own);
                let is_own = own.is_some();
                let is_initializing = own.is_some_and(|it| it.state == CopyState::Initializing);
                match copies.local() {
                    // Its files may be the last: they go only once another copy is known to serve.
                    Some(_) if !is_own && self.router.is_served_elsewhere(copies) => {
                        tracing::info!(partition = %copies.id, "the copy is no longer here");
                        self.copies.close_copy(copies, "the copy is no longer here").await?;
                    }
                    // It was opened again before the metadata knew that it serves.
                    Some(local) if is_initializing && local.fault().is_none() => {
                        wanted.insert(copies.id);
                        self.make_in_time(seen, &table, copies);
                    }
                    Some(local) if is_initializing && self.is_to_be_replaced(copies, &local) => {
                        tracing::info!(partition = %copies.id, "the copy is made anew");
                        self.copies.close_copy(copies, "the copy is being made anew").await?;
                        wanted.insert(copies.id);
                        self.make_in_time(seen, &table, copies);
                    }
                    // Who follows makes it, of the leader's.
                    None if copies.is_first_to_come() => {}
                    None if is_own && copies.stopped().is_none() => {
                        wanted.insert(copies.id);
                        self.make_in_time(seen, &table, copies);
                    }
                    _ => {}
                }
            }
        }
        let is_kept = |id: &PartitionId, it: &mut Making| {
            matches!(it, Making::Now { .. }) || wanted.contains(id)
        };
        seen.making.lock().retain(is_kept);
        Ok(())
    }

    /// Whether this node's copy is damaged, and can be made anew.
    fn is_to_be_replaced(&self, copies: &Copies, local: &Partition) -> bool {
        // One that stopped may hold more than the copy that an operator accepted in its stead.
        let is_given_up =
            local.fault().is_some() && copies.definition().is_given_up(&self.members.own);
        (local.is_damaged() || is_given_up) && self.router.is_served_elsewhere(copies)
    }

    /// Has files of copies that are no longer here deleted, beside everything else.
    fn forget_leftovers_aside(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        self.world.tasks.spawn("leftovers", async move {
            // A table that is being created has files before it is known.
            let Ok(_creating) = shared.copies.changes.changing.try_lock() else { return };
            let copies = Arc::clone(&shared.copies);
            let forgotten = shared.world.tasks.blocking(move || copies.forget_leftovers()).await;
            if let Err(error) = forgotten.unwrap_or_else(|lost| Err(io::Error::other(lost))) {
                tracing::warn!(%error, "files of copies that are no longer here stay");
            }
        });
    }

    /// Reports the copies; what the log does not take is said at the next look.
    async fn report_or_warn(&self, seen: &Seen) {
        if let Err(error) = self.report(seen).await {
            tracing::warn!(%error, "the node cannot report its copies");
        }
    }

    /// Has the metadata say how this node's copies are. Others know of a change of tables by this
    /// node only once it has said what came of it.
    async fn report(&self, seen: &Seen) -> Result<(), Unreconciled> {
        if self.replication.is_alone {
            return Ok(());
        }
        let mut current = BTreeMap::new();
        for table in self.tables.all() {
            for copies in table.copies() {
                if copies.definition().copy_on(&self.members.own).is_none() {
                    continue;
                }
                let report = match (copies.report(), seen.making.lock().get(&copies.id)) {
                    (Some(report), _) => report,
                    // Also while it is tried again: each try would be a change for all.
                    (
                        None,
                        Some(Making::Rests { why, .. } | Making::Now { why: Some(why), .. }),
                    ) => CopyReport::Absent { why: reason(&why.to_string()), held: why.held().0 },
                    (None, _) => CopyReport::Making,
                };
                current.insert(copies.id, report);
            }
        }
        let known = self.members.get(&self.members.own);
        let known = known.as_ref().map(|it| &it.reports);
        let own = metadata::reports(&self.metadata, &self.members.own, known)?;
        let differences = own.differences(&current);
        if differences.is_empty() {
            return Ok(());
        }
        let report = metadata::report(&self.members.own, &differences);
        let reported = self
            .world
            .time
            .timeout(REPORT_TIMEOUT, self.replication.submit_metadata(&report))
            .await;
        reported.map_err(|_| Unreconciled::NoAnswer)??;
        self.router.look.notify_one();
        Ok(self.router.follow_members()?)
    }

    fn make_in_time(self: &Arc<Self>, seen: &Seen, table: &Arc<Table>, copies: &Arc<Copies>) {
        let mut making = seen.making.lock();
        let now = self.world.time.now();
        let rests = match making.get(&copies.id) {
            Some(Making::Now { .. }) => true,
            Some(Making::Rests { until, .. }) => *until > now,
            None => false,
        };
        let is_first = copies.begins_on(&self.members.own);
        let same = |it: &&Making| matches!(it, Making::Now { is_first: it, .. } if *it == is_first);
        let busy_max = if is_first { BEGINNING_MAX } else { MAKING_MAX };
        if rests || making.values().filter(same).count() >= busy_max {
            return;
        }
        let why = match making.remove(&copies.id) {
            Some(Making::Rests { why, .. }) => Some(why),
            _ => None,
        };
        making.insert(copies.id, Making::Now { is_first, why });
        let (shared, making) = (Arc::downgrade(self), Arc::clone(&seen.making));
        let has_made = Arc::clone(&seen.has_made);
        let (table, copies) = (Arc::clone(table), Arc::clone(copies));
        self.world.tasks.spawn("copy", async move {
            let Some(shared) = shared.upgrade() else { return };
            let made = shared.copies.make_copy(&table, &copies).await;
            match made {
                Ok(()) => making.lock().remove(&copies.id),
                Err(why) => {
                    tracing::warn!(partition = %copies.id, %why, "a copy cannot be made yet");
                    let until = shared.world.time.now() + RETRY_INTERVAL;
                    making.lock().insert(copies.id, Making::Rests { until, why })
                }
            };
            has_made.store(true, Ordering::Relaxed);
            shared.router.look.notify_one();
        });
    }

    /// Has the clock looked at also while nothing is appended, and says it where log time is ahead:
    /// nothing expires then until the clock has caught up.
    fn check_clock(&self, seen: &mut Seen) {
        // A clock that is wrong shows in the node's health.
        let is_right = self.replication.log.health().is_ok();
        let log_time_ms = self.replication.tails.values().map(|tail| tail.get().log_time_ms).max();
        let ahead_ms = log_time_ms.unwrap_or(0).saturating_sub(self.world.time.wall_ms());
        let is_ahead = is_right && ahead_ms > LOG_TIME_AHEAD_MS;
        if is_ahead && !seen.is_ahead {
            tracing::warn!(
                ahead_ms,
                "log time is ahead of this node's clock, most likely because a clock was wrong \
                 before: nothing expires until the clock has caught up"
            );
        }
        seen.is_ahead = is_ahead;
    }

    /// Says that this node is there; what comes of it is not waited for.
    fn beat(self: &Arc<Self>) {
        let reconciled = *self.router.reconciled.borrow();
        let beat =
            Beat { at_ms: self.world.time.wall_ms(), ..self.replication.needs_of_log(reconciled) };
        let operation = metadata::beat(&self.members.own, &self.members.record, &beat);
        let (shared, sent) = (Arc::downgrade(self), self.world.time.now());
        self.world.tasks.spawn("beat", async move {
            let Some(shared) = shared.upgrade() else { return };
            match shared.replication.submit_metadata(&operation).await {
                Ok(_) => shared.router.beat_came_back(sent).await,
                Err(error) => tracing::warn!(%error, "the node cannot say that it is there"),
            }
        });
    }

    async fn say_goodbye(&self) {
        if self.replication.is_alone {
            return;
        }
        let log_time_ms = self.metadata.log_time_ms();
        let said = self.replication.write_metadata(metadata::left(&self.members.own, log_time_ms));
        // The others notice by themselves where the log does not take it.
        let _ = self.world.time.timeout(INTERVAL, said).await;
    }

    /// Notes the nodes that have not said anything for too long.
    async fn note_who_left(&self) -> Result<(), Unreconciled> {
        let (log_time_ms, now) = (self.metadata.log_time_ms(), self.world.time.now());
        for member in self.members.others().into_iter().filter(|it| it.is_silent(now)) {
            let beat = metadata::last_beat(&self.metadata, &member.id)?;
            let (at_ms, seen) = beat.map_or((0, 0), |(beat, seen)| (beat.at_ms, seen));
            // One that is newer than what the members are known by was not waited for.
            if seen == member.beat.0 && at_ms + LEFT_AFTER_MS < log_time_ms {
                tracing::warn!(node = member.record.name, "a node has left");
                let leave = metadata::leave(&member.id, log_time_ms, seen);
                self.replication.submit_metadata(&leave).await?;
            }
        }
        Ok(())
    }

    /// Has copies made and given up where they should be others. Looks at no table where nothing
    /// changed since there was nothing to do.
    async fn place(&self, seen: &mut Seen) -> Result<(), ErrorReply> {
        let log_time_ms = self.metadata.log_time_ms();
        let wanted = self.copies.changes.wanted_nodes();
        let places = self.members.places(log_time_ms, 0, &wanted);
        // How long one that is away is waited for is each table's own.
        let is_all_there = places.values().all(|place| place.is_alive);
        let members = self.members.all();
        let reports = members.values().map(|member| member.reports.change).collect();
        let placed = Placed { tables: seen.tables, settings: seen.settings, places, reports };
        if is_all_there && seen.placed.as_ref() == Some(&placed) {
            return Ok(());
        }
        seen.placed = None;
        let default_wait_ms = settings::cluster::delayed_ms(&self.metadata);
        let mut making = self.making();
        let mut has_changed = false;
        for table in self.tables.all() {
            let index = table.index();
            let wait_ms = index.as_ref().and_then(|it| it.delayed_ms()).unwrap_or(default_wait_ms);
            let places = self.members.places(log_time_ms, wait_ms, &wanted);
            let copies = self.copies.changes.wanted_copies_of(index.as_deref());
            let known = |id: PartitionId| {
                let members = &members;
                move |node: &str| members.get(node).map_or(Known::Other, |it| it.known(id))
            };
            let changes = table.copies().iter().any(|it| {
                let (definition, mut making) = (it.definition(), making.clone());
                placement::next(&definition, copies, &places, &known(it.id), &mut making).is_some()
            });
            if !changes {
                continue;
            }
            has_changed = true;
            let counted = Mutex::new(&mut making);
            let change = |definition: &mut TableDefinition| {
                let mut is_changed = false;
                let table = definition.incarnation;
                for (ordinal, partition) in (0..).zip(&mut definition.partitions) {
                    let known = known(PartitionId { table, ordinal });
                    let next = placement::next(partition, copies, &places, &known, *counted.lock());
                    if let Some(next) = next {
                        partition.copies = next;
                        partition.epoch += 1;
                        is_changed = true;
                    }
                }
                is_changed
            };
            self.replication.update_definition(table.name(), table.incarnation(), change).await?;
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
