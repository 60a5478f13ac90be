//! The index over one partition's documents, kept up with its rows: what changed since the last
//! refresh is read from the rows as they are, and a searcher is paired with a snapshot of the
//! rows at the same position of the log.
//!
//! Which rows changed is noted by apply, in the rows' own batch (touches), until the index has
//! them durably. So no command is run twice, and the log need not be kept for the index.

use std::any::Any;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use plimsoll_base::World;
use plimsoll_base::time::Instant;
use plimsoll_index::Error;
use plimsoll_index::partition::{Grown, IndexError, Options, PartitionIndex, View};
use plimsoll_log::{Lsn, PartitionId};
use plimsoll_memory::{ledger::INDEX, local::enter};
use plimsoll_storage::execute::{self, DocumentsCursor};
use plimsoll_storage::partition::{OwnedSnapshot, Store, position_of, touches_of};
use plimsoll_storage::rows::StoreError;
use plimsoll_storage::rows::touch::{Touched, TouchedDocument};
use tokio::sync::watch;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::types::Document;
use crate::metadata::index::IndexMetadata;
use crate::replication::index::DocumentsIndex;
use crate::replication::partition::Partition;

/// Documents that are gathered before they are given to the index.
const BATCH_DOCUMENTS: usize = 16_384;
/// After how long what is indexed is made durable.
const PERSIST_INTERVAL: Duration = Duration::from_secs(30);
/// After how long without a change an index gives back the memory for new documents.
const REST_AFTER: Duration = Duration::from_secs(5);
/// After how many documents it is made durable at once.
const PERSIST_DOCUMENTS: u64 = 500_000;

/// How long a refresh that somebody waits for waits for a mapping.
const MAPPING_TIMEOUT: Duration = Duration::from_secs(2);
/// How soon it looks for it again.
const MAPPING_PAUSE: Duration = Duration::from_millis(10);
/// The kind of the error that tells of a mapping that is not known yet.
const BEHIND_MAPPING: &str = "mapping_not_known_exception";

/// The document of this hash key and id, as it was.
pub(crate) fn document_in(
    rows: &OwnedSnapshot,
    key: &[u8],
    id: &str,
    now_ms: u64,
) -> Result<Option<Document>, StoreError> {
    Ok(execute::document(rows, key, id.as_bytes(), now_ms)?.map(Document::of))
}

impl Document {
    pub(crate) fn of(found: execute::Document) -> Self {
        Self { seq_no: found.seq_no(), source: found.source, version: found.version }
    }
}

/// A searcher and the rows of the same position.
pub(crate) struct PartitionView {
    pub searcher: View,
    pub rows: OwnedSnapshot,
    pub position: Lsn,
}

/// The index over one partition.
pub(crate) struct Indexer {
    world: World,
    partition: PartitionId,
    dir: PathBuf,
    store: Store,
    metadata: RwLock<Arc<IndexMetadata>>,
    /// One refresh at a time.
    work: Mutex<IndexState>,
    view: RwLock<Option<Arc<PartitionView>>>,
    /// The position of the last view: who waits for a refresh waits for it to pass theirs.
    refreshed: watch::Sender<u64>,
    is_behind: AtomicBool,
    /// Up to when the view is known to lack no refresh that was acknowledged, ns of the node's time.
    complete_as_of: AtomicU64,
    /// One makes it complete; when that was in vain last.
    pub completing: tokio::sync::Mutex<Option<Instant>>,
    /// Why the index is being built anew, while it is.
    rebuilding: Mutex<Option<String>>,
    /// A search met what should not be: the files are to be checked.
    is_suspect: AtomicBool,
    /// What reading the rows failed with.
    store_fault: Mutex<Option<StoreError>>,
    pub counters: Counters,
}

/// What refreshes did, and searches of this partition.
#[derive(Default)]
pub(crate) struct Counters {
    pub refreshes: AtomicU64,
    pub refresh_us: AtomicU64,
    pub persists: AtomicU64,
    pub persist_us: AtomicU64,
    pub documents: AtomicU64,
    pub queries: AtomicU64,
    pub query_us: AtomicU64,
    pub fetches: AtomicU64,
    pub fetch_us: AtomicU64,
}

/// How an indexer's index stands.
enum IndexState {
    Open(Box<Work>),
    /// It broke off in the middle and could not be opened anew: what it has of the last touches is
    /// not known. It is opened before it is read, written or copied again.
    Unopened,
    Closed,
}

struct Work {
    index: PartitionIndex,
    /// Touches up to here are in the index, if not yet durably.
    indexed: Lsn,
    mapping_version: u64,
    /// The index has none of the rows.
    must_rebuild: bool,
    refreshed_at: Instant,
    persisted_at: Instant,
    unpersisted: u64,
    /// Of the hashes of documents: nobody can choose ids of equal hashes.
    hash_seed: u64,
}

/// What is gathered of the touches of one refresh.
#[derive(Default)]
struct Batch {
    touched: Touched,
    /// The hashes of documents that earlier batches indexed.
    indexed: HashSet<u64>,
    /// The keys whose documents earlier batches indexed.
    keys: HashSet<Bytes>,
}

impl Indexer {
    /// Opens the index in `dir`, or makes an empty one.
    pub(crate) fn open(
        world: &World,
        dir: &Path,
        partition: PartitionId,
        store: &Store,
        metadata: &Arc<IndexMetadata>,
    ) -> Result<Self, Error> {
        let _index = enter(&INDEX);
        let (work, damage) = Work::open(world, dir, metadata)?;
        if let Some(why) = &damage {
            tracing::error!(%partition, why, "the index is built anew from the rows");
        }
        Ok(Self {
            world: world.clone(),
            rebuilding: Mutex::new(damage),
            is_suspect: AtomicBool::new(false),
            store_fault: Mutex::default(),
            partition,
            dir: dir.to_owned(),
            store: store.clone(),
            metadata: RwLock::new(Arc::clone(metadata)),
            work: Mutex::new(IndexState::Open(Box::new(work))),
            view: RwLock::new(None),
            refreshed: watch::Sender::new(0),
            is_behind: AtomicBool::new(true),
            complete_as_of: AtomicU64::new(0),
            completing: tokio::sync::Mutex::default(),
            counters: Counters::default(),
        })
    }

    /// The last view; `None` before the first refresh.
    pub(crate) fn view(&self) -> Option<Arc<PartitionView>> {
        self.view.read().clone()
    }

    /// Up to when the view is known to lack no refresh that was acknowledged, whoever asked for it.
    pub(crate) fn complete_as_of(&self) -> Instant {
        Instant(self.complete_as_of.load(Ordering::Acquire))
    }

    /// Notes that.
    pub(crate) fn note_complete_as_of(&self, moment: Instant) {
        self.complete_as_of.fetch_max(moment.0, Ordering::AcqRel);
    }

    /// Tells when views change: the position of the last one.
    pub(crate) fn refreshed(&self) -> watch::Receiver<u64> {
        self.refreshed.subscribe()
    }

    /// Whether rows changed since the last view.
    pub(crate) fn is_behind(&self, applied: Lsn) -> bool {
        *self.refreshed.borrow() < applied.0 || self.is_behind.load(Ordering::Acquire)
    }

    /// Makes everything that was applied before this call visible to searches. Blocks.
    pub(crate) fn refresh(&self) -> Result<Arc<PartitionView>, Error> {
        // Whoever asks for it, the view is everyone's.
        let _index = enter(&INDEX);
        let mut held = self.work.lock();
        let Some(work) = self.opened(&mut held)? else {
            return Err(Error::invalid("index_closed_exception", "closed"));
        };
        let began = self.now();
        self.is_behind.store(false, Ordering::Release);
        let view = match self.refresh_now(work) {
            Ok(view) => view,
            Err(fault) => {
                self.is_behind.store(true, Ordering::Release);
                if let Fault::Mapping { .. } = fault {
                    return Err(fault.error());
                }
                return Err(self.recover(&mut held, fault));
            }
        };
        count(&self.counters.refreshes, &self.counters.refresh_us, self.now() - began);
        if work.unpersisted >= PERSIST_DOCUMENTS
            || (work.unpersisted > 0 && self.now() - work.persisted_at >= PERSIST_INTERVAL)
        {
            self.persist_now(work).map_err(|fault| self.recover(&mut held, fault))?;
        }
        Ok(view)
    }

    /// Brings the index back to where it was durable last, or to nothing where its files are
    /// damaged: the next refresh goes on from there. Says what was wrong.
    fn recover(&self, held: &mut IndexState, fault: Fault) -> Error {
        let error = fault.error();
        tracing::error!(partition = %self.partition, %error, "the index is opened anew");
        if let Fault::Store(fault) = &fault {
            *self.store_fault.lock() = Some(fault.clone());
        }
        let is_lost =
            matches!(fault, Fault::Index(IndexError::Corrupt(_) | IndexError::NeedsRebuild));
        if is_lost && let Err(error) = PartitionIndex::destroy(&self.world.disk, &self.dir) {
            tracing::error!(partition = %self.partition, %error, "files cannot be removed");
        }
        if is_lost {
            self.note_lost(error.reason.clone());
        }
        // What broke off has some of the touches: it is used no more, opened or not.
        *held = IndexState::Unopened;
        if let Err(error) = self.opened(held) {
            tracing::error!(partition = %self.partition, %error, "the index cannot be opened");
        }
        error
    }

    /// Its files are gone: what is asked next waits for the new ones, or asks another copy.
    fn note_lost(&self, why: String) {
        tracing::error!(partition = %self.partition, why, "the index is built anew from the rows");
        *self.rebuilding.lock() = Some(why);
        self.view.write().take();
        self.is_behind.store(true, Ordering::Release);
    }

    /// The index, opened where it could not be before; `None` where it is closed.
    fn opened<'a>(&self, held: &'a mut IndexState) -> Result<Option<&'a mut Work>, Error> {
        if let IndexState::Unopened = held {
            let (opened, damage) = Work::open(&self.world, &self.dir, &self.metadata.read())?;
            if let Some(why) = damage {
                self.note_lost(why);
            }
            *held = IndexState::Open(Box::new(opened));
        }
        Ok(held.open())
    }

    fn refresh_now(&self, work: &mut Work) -> Result<Arc<PartitionView>, Fault> {
        let rows = self.store.owned_snapshot()?;
        let position = position_in(&rows)?;
        if let Some(view) = self.view()
            && view.position == position
            && work.mapping_version == self.metadata.read().mapping_version
        {
            return Ok(view);
        }
        let metadata = Arc::clone(&self.metadata.read());
        let is_rebuilt = work.must_rebuild;
        if work.mapping_version != metadata.mapping_version {
            if work.index.set_mapping(&metadata.mapping)? == Grown::NeedsRebuild {
                return Err(Fault::Index(IndexError::NeedsRebuild));
            }
            work.mapping_version = metadata.mapping_version;
        }
        if is_rebuilt {
            work.check_mapping(mapping_needed(&rows, work.indexed)?)?;
            self.rebuild(work, &rows)?;
        } else {
            self.take_touches(work, &rows)?;
        }
        let searcher = work.index.refresh(position.0)?;
        work.indexed = position;
        work.refreshed_at = self.now();
        work.must_rebuild = false;
        let view = Arc::new(PartitionView { searcher, rows, position });
        *self.view.write() = Some(Arc::clone(&view));
        self.refreshed.send_replace(position.0);
        if self.rebuilding.lock().take().is_some() {
            tracing::info!(partition = %self.partition, "the index is whole again");
        }
        Ok(view)
    }

    /// What reading the rows failed with since this was asked last.
    pub(crate) fn take_store_fault(&self) -> Option<StoreError> {
        self.store_fault.lock().take()
    }

    /// A search failed for a reason that should not be: the files are checked soon.
    pub(crate) fn suspect(&self) {
        self.is_suspect.store(true, Ordering::Relaxed);
    }

    /// Whether the files are to be checked at once; asked once.
    pub(crate) fn take_suspicion(&self) -> bool {
        self.is_suspect.swap(false, Ordering::Relaxed)
    }

    /// Checks the durable files by their checksums; `pace` is given the bytes of each block and says
    /// whether to go on. One that is damaged has the index built anew from the rows. Blocks.
    pub(crate) fn check_files(&self, pace: &mut dyn FnMut(u64) -> bool) {
        let checker = self.work.lock().open().map(|work| work.index.checker());
        let Some(checker) = checker else { return };
        for file in checker.files() {
            match checker.check(&file, pace) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error @ IndexError::Corrupt(_)) => {
                    // Files of an index that was replaced meanwhile are gone: that is no damage.
                    let mut held = self.work.lock();
                    if held.open().is_some_and(|work| work.index.owns(&checker)) {
                        self.recover(&mut held, Fault::Index(error));
                    }
                    return;
                }
                Err(error) => {
                    tracing::warn!(partition = %self.partition, %error, "a file is not checked");
                }
            }
        }
    }

    /// Gives the index every document that was touched, as it is in `rows`.
    fn take_touches(&self, work: &mut Work, rows: &OwnedSnapshot) -> Result<(), Fault> {
        let mut batch = Batch::default();
        let position = position_in(rows)?;
        if let Some(recent) = self.store.recent().take(work.indexed, position) {
            let needed = recent.iter().map(|record| record.touches.mapping_version()).max();
            work.check_mapping(needed.unwrap_or(0))?;
            for record in recent {
                batch.touched.add_with(&record.touches, &record.sources);
                if batch.touched.is_all() {
                    return self.rebuild(work, rows);
                }
                if batch.touched.len() >= BATCH_DOCUMENTS {
                    self.index_batch(work, &mut batch, rows)?;
                }
            }
            return self.index_batch(work, &mut batch, rows);
        }
        work.check_mapping(mapping_needed(rows, work.indexed)?)?;
        let mut outcome = Ok(());
        let visited = touches_of(rows, work.indexed, &mut |_, touches| {
            batch.touched.add(&touches);
            if batch.touched.len() >= BATCH_DOCUMENTS {
                outcome = self.index_batch(work, &mut batch, rows);
            }
            if batch.touched.is_all() { ControlFlow::Break(()) } else { go_on(&outcome) }
        });
        visited?;
        outcome?;
        if batch.touched.is_all() {
            return self.rebuild(work, rows);
        }
        self.index_batch(work, &mut batch, rows)
    }

    /// Indexes what was gathered. What an earlier batch of the same refresh has indexed may be
    /// there also where a touch calls it new: it was taken as it is at the end.
    fn index_batch(
        &self,
        work: &mut Work,
        batch: &mut Batch,
        rows: &OwnedSnapshot,
    ) -> Result<(), Fault> {
        let touched = std::mem::take(&mut batch.touched);
        let now_ms = self.world.time.wall_ms();
        for key in touched.keys() {
            work.index.delete_key(key)?;
            work.unpersisted += 1;
            let mut outcome = Ok(());
            let visited = execute::documents_of(rows, key, now_ms, &mut |_, id, document| {
                outcome = put(work, key, id, document.source);
                go_on(&outcome)
            });
            visited?;
            outcome?;
            batch.keys.insert(key.clone());
        }
        for TouchedDocument { key, id, is_new, source } in touched.documents() {
            // An id that is no text was written by a Redis client: it is a row, not a document.
            let Ok(text) = std::str::from_utf8(id) else { continue };
            let hash = xxh3_64_with_seed(id, xxh3_64_with_seed(key, work.hash_seed));
            let may_be_there = !is_new || batch.indexed.contains(&hash) || batch.keys.contains(key);
            // What was written last is known; anything else is read back.
            let read = match source {
                Some(_) => None,
                None => document_in(rows, key, text, now_ms)?.map(|document| document.source),
            };
            match source.as_ref().or(read.as_ref()) {
                Some(source) => work.index.put(key, text, source, !may_be_there)?,
                None => work.index.delete(key, text)?,
            }
            batch.indexed.insert(hash);
            work.unpersisted += 1;
            self.counters.documents.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Indexes all documents anew.
    fn rebuild(&self, work: &mut Work, rows: &OwnedSnapshot) -> Result<(), Fault> {
        tracing::info!(partition = %self.partition, "the index is built anew from the rows");
        work.index.delete_all()?;
        let mut outcome = Ok(());
        let from = DocumentsCursor::default();
        let (all, now_ms) = (usize::MAX, self.world.time.wall_ms());
        let visited = execute::documents(rows, &from, all, all, now_ms, &mut |key, id, it| {
            outcome = put(work, key, id, it.source);
            self.counters.documents.fetch_add(1, Ordering::Relaxed);
            go_on(&outcome)
        });
        visited?;
        outcome
    }

    /// Makes what the last refresh saw durable. Blocks.
    pub(crate) fn persist(&self) -> Result<(), Error> {
        let mut held = self.work.lock();
        let Some(work) = self.opened(&mut held)? else { return Ok(()) };
        self.persist_now(work).map_err(|fault| self.recover(&mut held, fault))
    }

    fn persist_now(&self, work: &mut Work) -> Result<(), Fault> {
        let began = self.now();
        let position = work.index.persist()?;
        self.store.forget_touches(Lsn(position))?;
        work.unpersisted = 0;
        work.persisted_at = self.now();
        count(&self.counters.persists, &self.counters.persist_us, self.now() - began);
        Ok(())
    }

    fn link_now(&self, held: &mut IndexState, dir: &Path) -> Option<Lsn> {
        let work = match self.opened(held) {
            Ok(work) => work?,
            Err(error) => {
                tracing::warn!(partition = %self.partition, %error, "a copy goes without the index");
                return None;
            }
        };
        if work.must_rebuild || self.rebuilding().is_some() {
            return None;
        }
        if let Err(fault) = self.persist_now(work) {
            self.recover(held, fault);
            return None;
        }
        if let Err(error) = work.index.link(dir) {
            tracing::warn!(partition = %self.partition, %error, "a copy goes without the index");
            let _ = self.world.disk.remove_dir(dir);
            return None;
        }
        Some(Lsn(work.index.position()))
    }

    /// Gives the memory for new documents back where none came for a while, and makes durable what
    /// is not yet. Blocks, but not behind a refresh.
    pub(crate) fn rest(&self) {
        let Some(mut held) = self.work.try_lock() else { return };
        let Some(work) = held.open() else { return };
        if self.now() - work.refreshed_at < REST_AFTER {
            return;
        }
        if work.unpersisted > 0 && self.now() - work.persisted_at >= PERSIST_INTERVAL {
            if let Err(fault) = self.persist_now(work) {
                self.recover(&mut held, fault);
            }
        } else if work.unpersisted == 0 {
            work.index.release();
        }
    }

    /// Merges segments until there are no more than `segments_max`. Blocks.
    pub(crate) fn force_merge(&self, segments_max: usize) -> Result<(), Error> {
        self.refresh()?;
        let mut held = self.work.lock();
        let Some(work) = self.opened(&mut held)? else { return Ok(()) };
        self.merge_now(work, segments_max).map_err(|fault| self.recover(&mut held, fault))
    }

    fn merge_now(&self, work: &mut Work, segments_max: usize) -> Result<(), Fault> {
        work.index.force_merge(segments_max)?;
        let position = work.indexed;
        let rows = self.store.owned_snapshot()?;
        // The rows may be ahead of the index by now; then the next refresh pairs them.
        if position_in(&rows)? == position {
            let searcher = work.index.refresh(position.0)?;
            *self.view.write() = Some(Arc::new(PartitionView { searcher, rows, position }));
        }
        Ok(())
    }

    pub(crate) fn statistics(&self) -> Option<plimsoll_index::partition::IndexStatistics> {
        // A refresh may hold it for long; its figures are then those of the moment after.
        let mut statistics = self.work.lock().open()?.index.statistics();
        let refresh_us = self.counters.refresh_us.load(Ordering::Relaxed);
        statistics.refresh_time = Duration::from_micros(refresh_us);
        Some(statistics)
    }

    /// Bytes of its files; what vanishes meanwhile counts nothing.
    pub(crate) fn files_bytes(&self) -> u64 {
        let found = self.world.disk.find_in(&self.dir).unwrap_or_default();
        found.iter().map(|(_, file)| file.bytes).sum()
    }

    fn now(&self) -> Instant {
        self.world.time.now()
    }
}

/// As [`Indexer::refresh`] of a partition that is an index; where the mapping of the documents is on its way
/// here, after it has come.
pub(super) async fn refresh_in_time(
    world: &World,
    partition: &Arc<Partition>,
) -> Result<(), Error> {
    let end = world.time.now() + MAPPING_TIMEOUT;
    loop {
        let refreshed = Arc::clone(partition);
        let refresh = move || indexer_of(&refreshed).map_or(Ok(()), |it| it.refresh().map(drop));
        let refreshed = world.tasks.blocking(refresh).await;
        match refreshed.map_err(Error::internal)? {
            Err(error) if is_behind_mapping(&error) && world.time.now() < end => {
                world.time.sleep(MAPPING_PAUSE).await;
            }
            refreshed => return refreshed,
        }
    }
}

impl DocumentsIndex for Indexer {
    fn rebuilding(&self) -> Option<String> {
        self.rebuilding.lock().clone()
    }

    fn set_metadata(&self, metadata: Arc<IndexMetadata>) {
        let is_new_mapping = metadata.mapping_version != self.metadata.read().mapping_version;
        *self.metadata.write() = metadata;
        if is_new_mapping {
            self.is_behind.store(true, Ordering::Release);
        }
    }

    // It is of no use elsewhere where it is closed, or being built, or cannot be made durable now.
    fn checkpoint(&self, dir: &Path, rows: &mut dyn FnMut()) -> Option<Lsn> {
        let _index = enter(&INDEX);
        let mut held = self.work.lock();
        let linked = self.link_now(&mut held, dir);
        // Under the lock: a later persist would have the rows forget touches that the linked files
        // lack.
        rows();
        linked
    }

    fn close(&self) {
        let refreshed = self.refresh().map(drop).and_then(|()| self.persist());
        if let Err(error) = refreshed {
            tracing::warn!(partition = %self.partition, %error, "the index is behind its rows");
        }
        *self.work.lock() = IndexState::Closed;
    }

    fn delete(&self) {
        *self.work.lock() = IndexState::Closed;
        self.view.write().take();
    }
}

/// The index over a partition's documents; none where its table is rows alone.
pub(crate) fn indexer_of(partition: &Partition) -> Option<&Indexer> {
    let index: &dyn Any = &**partition.index()?;
    index.downcast_ref()
}

impl IndexState {
    fn open(&mut self) -> Option<&mut Work> {
        match self {
            Self::Open(work) => Some(work.as_mut()),
            Self::Unopened | Self::Closed => None,
        }
    }
}

impl Work {
    /// Refuses documents that fit a later mapping than the one that is known, before any of them
    /// is indexed: fields would be left out for good.
    fn check_mapping(&self, needed: u64) -> Result<(), Fault> {
        if needed <= self.mapping_version {
            return Ok(());
        }
        Err(Fault::Mapping { needed, known: self.mapping_version })
    }

    /// Opens the index, or an empty one in its place where it is of no use; says what was wrong then.
    fn open(
        world: &World,
        dir: &Path,
        metadata: &IndexMetadata,
    ) -> Result<(Self, Option<String>), Error> {
        let options = match world.tasks.are_the_machines() {
            true => Options::default(),
            // The same seed has to be the same history, and documents are few.
            false => Options { merges_in_step: true, writer_bytes: 0, ..Options::default() },
        };
        let open = || PartitionIndex::open(&world.disk, dir, &metadata.mapping, options.clone());
        let mut damage = None;
        let index = match open() {
            Err(error) if error.is_damage() => {
                damage = Some(error.to_string());
                PartitionIndex::destroy(&world.disk, dir).and_then(|()| open())
            }
            opened => opened,
        };
        let index = index.map_err(|error| Fault::Index(error).error())?;
        let indexed = Lsn(index.position());
        let work = Self {
            // What an index that is gone had was noted no longer: all rows are its own again.
            must_rebuild: indexed == Lsn(0),
            index,
            indexed,
            mapping_version: metadata.mapping_version,
            refreshed_at: world.time.now(),
            persisted_at: world.time.now(),
            unpersisted: 0,
            hash_seed: world.random.of("hashes of documents").next_u64(),
        };
        Ok((work, damage))
    }
}

/// Why documents cannot be indexed.
enum Fault {
    Index(IndexError),
    Store(StoreError),
    /// Documents were checked against a mapping that is not known here yet. Nothing was done.
    Mapping {
        needed: u64,
        known: u64,
    },
}

impl Fault {
    fn error(&self) -> Error {
        match self {
            Self::Index(error) => Error::internal(error),
            Self::Store(error) => Error::internal(error),
            Self::Mapping { needed, known } => {
                let reason = format!(
                    "documents fit version [{needed}] of the mapping, and the node knows [{known}]"
                );
                Error::unavailable(BEHIND_MAPPING, reason)
            }
        }
    }
}

impl From<IndexError> for Fault {
    fn from(error: IndexError) -> Self {
        Self::Index(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

fn put(work: &mut Work, key: &[u8], id: &[u8], source: &[u8]) -> Result<(), Fault> {
    let Ok(id) = std::str::from_utf8(id) else { return Ok(()) };
    work.unpersisted += 1;
    Ok(work.index.put(key, id, source, true)?)
}

fn go_on(outcome: &Result<(), Fault>) -> ControlFlow<()> {
    if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// Whether a refresh waits for a mapping.
pub(crate) fn is_behind_mapping(error: &Error) -> bool {
    error.kind == BEHIND_MAPPING
}

/// The highest version of the mapping that the documents touched after a position were checked
/// against.
fn mapping_needed(rows: &OwnedSnapshot, after: Lsn) -> Result<u64, StoreError> {
    let mut needed = 0;
    touches_of(rows, after, &mut |_, touches| {
        needed = needed.max(touches.mapping_version());
        ControlFlow::Continue(())
    })?;
    Ok(needed)
}

/// The position that a snapshot contains.
fn position_in(rows: &OwnedSnapshot) -> Result<Lsn, StoreError> {
    let position = position_of(rows)?;
    Ok(position.map_or(Lsn(0), |position| position.lsn))
}

fn count(number: &AtomicU64, micros: &AtomicU64, took: Duration) {
    number.fetch_add(1, Ordering::Relaxed);
    let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    micros.fetch_add(took_us, Ordering::Relaxed);
}

#[cfg(test)]
mod tests;
