//! A partition's rows in an engine, with what is in memory before it: what the last records changed, single
//! rows that were read, the documents that were written last. What the rows mean is not its business.

use std::collections::HashMap;
use std::ops::Bound::{Excluded, Included};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use plimsoll_control::pacing::debt::Backlog;
use plimsoll_log::rules::chain::Position;
use plimsoll_log::{GroupId, PartitionId};

use super::changes::Changes;
use super::engine::{Batch, Engine, Reach, Snapshot, Value};
use super::field_names::keep_names;
use super::format::store_format;
use super::merge::walk_merged;
use super::packed::{self, Packing};
use super::pending::{Pending, SortedRows};
use super::recent::Recent;
use super::resources::Resources;
use super::row_cache::{RowCache, StoreNumber};
use super::system;
use super::unflushed::Unflushed;
use crate::rows::{RowsRead, StoreError, Visit, gather_back, key};

/// One partition's rows; cloned handles read and write the same.
#[derive(Clone)]
pub struct Store {
    pub(super) engine: Arc<Engine>,
    pending: Arc<Pending>,
    pub(super) rows: Arc<RowCache>,
    pub(super) number: StoreNumber,
    recent: Arc<Recent>,
    /// Whether a document's tombstone may be among the rows.
    has_tombstones: Arc<AtomicBool>,
    /// Whether files could not be written, and [`Store::resume`] was not called since.
    has_failed: Arc<AtomicBool>,
    unflushed: Arc<Unflushed>,
    /// Whether rows may be packed: see [`Resources::pack_rows`].
    packs: Arc<AtomicBool>,
}

/// So much may wait in memory while the store takes nothing, bytes: what is acknowledged is in the
/// log, and a disk that is full for a while stops nobody who writes little.
const WAITING_BYTES_MAX: usize = 32 << 20;
/// How often a row is looked up that may be moved meanwhile, before a snapshot says where it is.
const LOOKS_MAX: u32 = 16;

impl Store {
    /// Opens the rows in `dir`, or makes an empty folder of them.
    ///
    /// # Errors
    /// Where the engine cannot open it: damaged, in use, or not writable.
    pub fn open(dir: &Path, resources: &Resources) -> Result<Self, StoreError> {
        Self::open_as(dir, resources, true)
    }

    /// The same of a store that is looked at and closed again: its files are rewritten by nobody meanwhile.
    pub(super) fn open_idle(dir: &Path, resources: &Resources) -> Result<Self, StoreError> {
        Self::open_as(dir, resources, false)
    }

    fn open_as(dir: &Path, resources: &Resources, compacts: bool) -> Result<Self, StoreError> {
        let has_failed = Arc::new(AtomicBool::new(false));
        let engine = Engine::open(dir, resources, Arc::clone(&has_failed), compacts)?;
        let number = resources.stores.fetch_add(1, Ordering::Relaxed);
        let pending = Pending::new(engine.batch(), Arc::clone(&resources.unflushed.pending_bytes));
        let recent =
            Recent::new(Arc::clone(&resources.recent_bytes), resources.options.recent_bytes);
        let store = Self {
            engine: Arc::new(engine),
            pending: Arc::new(pending),
            rows: Arc::clone(&resources.rows),
            number,
            recent: Arc::new(recent),
            has_tombstones: Arc::default(),
            has_failed,
            unflushed: Arc::clone(&resources.unflushed),
            packs: Arc::clone(&resources.packs),
        };
        store.scan(&[key::KIND_TOMBSTONE], &[key::KIND_TOMBSTONE + 1], &mut |_, _| {
            store.has_tombstones.store(true, Ordering::Relaxed);
            ControlFlow::Break(())
        })?;
        Ok(store)
    }

    /// Whether rows are in `dir`, whole or not.
    pub(super) fn is_in(dir: &Path, resources: &Resources) -> bool {
        Engine::is_in(dir, resources)
    }

    /// A batch of no changes.
    pub(super) fn batch(&self) -> Batch {
        self.engine.batch()
    }

    /// Lays out files written from now on for documents, or for single rows as at first.
    ///
    /// # Errors
    /// Where the engine cannot note it.
    pub(super) fn lay_out_for(&self, has_documents: bool) -> Result<(), StoreError> {
        self.engine.lay_out_for(has_documents)
    }

    /// The documents that were written last.
    #[must_use]
    pub fn recent(&self) -> &Recent {
        &self.recent
    }

    /// The format of what was written up to now: an earlier one than [`super::STORE_FORMAT`] where nothing of that is
    /// used.
    #[must_use]
    pub fn format(&self) -> u8 {
        store_format(self.packs())
    }

    /// Never packs rows: those of the metadata, by which an older version finds out that it is too old.
    pub(super) fn keep_unpacked(&mut self) {
        self.packs = Arc::default();
    }

    /// Whether rows may be packed.
    pub(super) fn packs(&self) -> bool {
        self.packs.load(Ordering::Relaxed)
    }

    /// Whether a tombstone may be among the rows: where none was ever written, none is looked for.
    pub(super) fn has_tombstones(&self) -> bool {
        self.has_tombstones.load(Ordering::Relaxed)
    }

    /// The rows as they are now, unmoved by what is written after; also while the disk is full, and
    /// without a wait where the store takes nothing for a while.
    ///
    /// # Errors
    /// Where the store fails.
    pub fn snapshot(&self) -> Result<StoreSnapshot<'_>, StoreError> {
        if self.hand_on_to_read().is_ok() {
            return Ok(StoreSnapshot { snapshot: self.engine.snapshot(), pending: None });
        }
        let (pending, snapshot) = self.pending.sorted_with(|| self.engine.snapshot());
        Ok(StoreSnapshot { snapshot, pending: Some(pending) })
    }

    /// Whether files could not be written; until [`Self::resume`] nothing more is.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Has files written again, once there is room for all that is not in files yet. Blocks until
    /// that is there.
    ///
    /// # Errors
    /// Where it still cannot be written: may be called again, unless the disk fails for good.
    pub fn resume(&self) -> Result<(), StoreError> {
        self.engine.resume()
    }

    /// The rows as they are now, as far as they are in memory.
    ///
    /// # Errors
    /// Where the store fails; [`StoreError::NotCached`] where it would have to be waited for.
    pub fn cached(&self) -> Result<CachedStore<'_>, StoreError> {
        // What it cannot be given is read beside it, by who may take longer.
        self.hand_on_to_read().map_err(|_| StoreError::NotCached)?;
        Ok(CachedStore { snapshot: self.engine.snapshot() })
    }

    /// Single rows, as far as they are in memory.
    #[must_use]
    pub fn cached_row(&self) -> CachedRow<'_> {
        CachedRow { store: self }
    }

    /// Keeps the position of a group of which the node may hold no replica, and the caller's note.
    ///
    /// # Errors
    /// Where the store fails.
    pub fn put_group(
        &self,
        group: GroupId,
        position: &Position,
        note: &[u8],
    ) -> Result<(), StoreError> {
        self.put_unless_there(&system::group_key(group), &system::encode_group(position, note))
    }

    /// Puts one row, where there is not the same already: what nobody changed is flushed to no file.
    pub(super) fn put_unless_there(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        if self.get(key)?.is_some_and(|held| *held == *value) {
            return Ok(());
        }
        let mut batch = self.batch();
        batch.put(key, value);
        self.write(&batch)
    }

    /// Notes that the node holds a replica: its folder must be there from now on.
    ///
    /// # Errors
    /// Where the store fails.
    pub fn put_held(&self, id: PartitionId) -> Result<(), StoreError> {
        let mut batch = self.batch();
        batch.put(system::held_key(id), []);
        self.write(&batch)
    }

    /// Whether the node was noted to hold a replica.
    ///
    /// # Errors
    /// Where the store fails.
    pub fn is_held(&self, id: PartitionId) -> Result<bool, StoreError> {
        Ok(self.get(&system::held_key(id))?.is_some())
    }

    /// Bytes of rows of all stores of the node that are in no file yet, and how many there should be at
    /// most: from twice as many on, none takes more.
    #[must_use]
    pub fn unflushed_of_node(&self) -> (usize, usize) {
        self.unflushed.bytes()
    }

    /// What of its files is to be written anew.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        self.engine.backlog()
    }

    /// Bytes of rows that a flush that begins now would write: not those that are being flushed, and none where
    /// files cannot be written until [`Self::resume`].
    #[must_use]
    pub fn flushable_bytes(&self) -> u64 {
        if self.has_failed() {
            return 0;
        }
        self.engine.flushable_bytes() + self.pending.bytes() as u64
    }

    /// Sizes files written from now on to flushes of so many bytes.
    ///
    /// # Errors
    /// Where the engine cannot note it.
    pub fn shape_files(&self, flush_bytes: u64) -> Result<(), StoreError> {
        self.engine.shape_files(flush_bytes)
    }

    /// Bytes of rows that were not flushed.
    #[must_use]
    pub fn unflushed_bytes(&self) -> u64 {
        self.engine.unflushed_bytes() + self.pending.bytes() as u64
    }

    /// The positions kept by [`Self::put_group`], each with its note.
    ///
    /// # Errors
    /// Where the store fails or holds what this version cannot read.
    pub fn groups(&self) -> Result<HashMap<GroupId, (Position, Vec<u8>)>, StoreError> {
        let mut groups = HashMap::new();
        let mut unreadable = Ok(());
        self.scan(system::GROUPS_FROM, system::GROUPS_TO, &mut |key, value| {
            match (system::group_of(key), system::decode_group(value)) {
                (Some(group), Ok((position, note))) => {
                    groups.insert(group, (position, note.to_vec()));
                }
                (_, decoded) => {
                    let error = decoded.err();
                    unreadable = Err(StoreError::Failed(format!("a group's position: {error:?}")));
                }
            }
            ControlFlow::Continue(())
        })?;
        unreadable.map(|()| groups)
    }

    /// Reads a row as it is now.
    fn get_through(&self, key: &[u8], reach: Reach) -> Result<Option<Bytes>, StoreError> {
        let stored = |key: &[u8]| self.stored_through(key, reach);
        if key::meta_before(key).is_none() {
            return stored(key)?.map(|row| packed::unpacked(key, row)).transpose();
        }
        // It lies in one of two places, between which it may be moved just now; what is written beside it looks alike.
        for _ in 0..LOOKS_MAX {
            let Some(look) = self.rows.begin_look(key) else { continue };
            let row = packed::get(key, &stored)?;
            if self.rows.is_still(key, &look) {
                return Ok(row);
            }
        }
        match reach {
            Reach::Files => self.snapshot()?.get(key),
            Reach::Memory => Err(StoreError::NotCached),
        }
    }

    /// Reads a stored row from memory, or from the engine and then keeps it there. What is pending is looked at
    /// before the store: it leaves there only once the store has it.
    pub(super) fn stored_through(
        &self,
        key: &[u8],
        reach: Reach,
    ) -> Result<Option<Bytes>, StoreError> {
        let miss = match self.rows.get(self.number, key) {
            Ok(value) => return Ok(Some(value)),
            Err(miss) => miss,
        };
        let value = match self.pending.get(key) {
            Some(value) => value,
            None => self.engine.get(key, reach)?.map(|value| value.to_bytes()),
        };
        if let Some(value) = &value {
            self.rows.keep(self.number, key, value, &miss);
        }
        Ok(value)
    }

    /// As [`Self::get_through`], for who does not keep the value, and knows whether its key was written meanwhile: only
    /// one that is kept in memory is copied.
    fn read_through(
        &self,
        key: &[u8],
        reach: Reach,
        show: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, StoreError> {
        if let Some(meta_key) = key::meta_before(key)
            && let Some(stored) = self.stored_through(&meta_key, reach)?
            && packed::show_field(key, &meta_key, &stored, show)?
        {
            return Ok(true);
        }
        let miss = match self.rows.get(self.number, key) {
            Ok(value) => {
                packed::show_unpacked(key, &value, show)?;
                return Ok(true);
            }
            Err(miss) => miss,
        };
        let value = match self.pending.get(key) {
            Some(value) => value,
            None => match self.engine.get(key, reach)? {
                Some(value) if !RowCache::takes(&value) => {
                    packed::show_unpacked(key, &value, show)?;
                    return Ok(true);
                }
                value => value.map(|value| value.to_bytes()),
            },
        };
        let Some(value) = value else { return Ok(false) };
        self.rows.keep(self.number, key, &value, &miss);
        packed::show_unpacked(key, &value, show)?;
        Ok(true)
    }

    /// Takes the changes of a record in, whole or not at all; visible at once. Hashes of generations from
    /// `new_from` on are made by them. Rows of documents are kept in memory only once they are read: most are not,
    /// and an index asks for them.
    pub(super) fn write_changes(
        &self,
        mut changes: Changes,
        new_from: u64,
        are_documents: bool,
    ) -> Result<(), StoreError> {
        let stored = |key: &[u8]| self.stored_through(key, Reach::Files);
        Packing { packs: self.packs(), new_from, stored: &stored }.pack(&mut changes)?;
        if changes.rows.keys().any(|key| key.first() == Some(&key::KIND_TOMBSTONE)) {
            self.has_tombstones.store(true, Ordering::Relaxed);
        }
        if !changes.removed.is_empty() {
            return self.write_ranges(&changes);
        }
        if self.pending.is_full()
            && let Err(error) =
                self.unflushed.await_room(&self.has_failed).and_then(|()| self.hand_on())
            && self.pending.bytes() > WAITING_BYTES_MAX
        {
            return Err(error);
        }
        if !are_documents {
            keep_names(&self.rows, self.number, &changes.rows);
        }
        changes.rows.keys().for_each(|key| self.rows.begin_write(self.number, key));
        // Who misses a row in memory waits for all of them; so none is seen without the others.
        self.pending.merge(changes.rows, |key, value| {
            self.rows.end_write(self.number, key, value, !are_documents);
        });
        Ok(())
    }

    /// Takes in what removes ranges, which the store alone can keep.
    fn write_ranges(&self, changes: &Changes) -> Result<(), StoreError> {
        let mut batch = self.batch();
        changes.removed.iter().for_each(|(from, to)| batch.delete_range(from, to));
        for (key, value) in &changes.rows {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            }
        }
        changes.removed.iter().for_each(|(from, to)| self.rows.begin_write_range(from, to));
        changes.rows.keys().for_each(|key| self.rows.begin_write(self.number, key));
        let written = self.write(&batch);
        for (key, value) in &changes.rows {
            let value = value.as_ref().filter(|_| written.is_ok());
            self.rows.end_write(self.number, key, value, true);
        }
        changes.removed.iter().for_each(|(from, to)| self.rows.end_write_range(from, to));
        written
    }

    /// Writes a batch whole or not at all, after what is pending; visible at once, durable after
    /// the next flush.
    pub(super) fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        self.hand_on()?;
        self.write_now(batch)
    }

    /// Gives the engine what is pending.
    fn hand_on(&self) -> Result<(), StoreError> {
        self.pending.hand_on(|batch| self.write_now(batch))
    }

    /// Whether it has failed and took no rows since: reads do not try it again until it is resumed.
    fn takes_nothing(&self) -> bool {
        self.has_failed() && self.pending.was_refused()
    }

    /// The same for a read, which goes on beside what cannot be handed on at once: where the store
    /// takes nothing, up to 32 MiB would be put into a batch and taken back for each.
    fn hand_on_to_read(&self) -> Result<(), StoreError> {
        if self.takes_nothing() {
            return Err(StoreError::Failed("files cannot be written".to_owned()));
        }
        self.pending.hand_on_at_once(|batch| self.engine.write(batch, false))
    }

    /// The same where rows whose keys begin with this may be pending.
    pub(super) fn hand_on_rows_of(&self, stem: &[u8]) -> Result<(), StoreError> {
        if !self.pending.may_hold(stem) {
            return Ok(());
        }
        self.hand_on_to_read().map_err(|_| StoreError::NotCached)
    }

    fn write_now(&self, batch: &Batch) -> Result<(), StoreError> {
        self.engine.write(batch, true)
    }

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// Where the disk is full or fails; the rows stay in memory then.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.hand_on()?;
        self.engine.flush()
    }

    /// Makes everything durable, and `dir` a folder of it that is opened as this one is: hard links
    /// where the file system allows it, so it costs little until the store has rewritten its
    /// files. `dir` must not be there yet, its parent must. The state is that after some record
    /// applied during the call, whole, with its stamp. Blocks.
    ///
    /// # Errors
    /// Where the disk is full or fails, or `dir` is there.
    pub fn checkpoint(&self, dir: &Path) -> Result<(), StoreError> {
        self.hand_on()?;
        self.engine.checkpoint(dir)
    }

    /// Compares every block of the files with its checksum: one that was damaged where it was copied from
    /// looks well by all checksums that were made of it there. Leaves caches alone. Takes as long as reading
    /// the files does, and blocks.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] where a block is not what was written.
    pub fn verify(&self) -> Result<(), StoreError> {
        self.engine.verify()
    }

    /// Writes the files anew as few as they can be, without what was removed or replaced and with
    /// the compression of what is kept longest. Takes long, and blocks.
    ///
    /// # Errors
    /// Where the disk is full or fails; the rows stay as they were then.
    pub fn compact(&self) -> Result<(), StoreError> {
        self.flush()?;
        self.engine.compact()
    }

    /// Lets no more files be written, for good: they are about to be deleted. Waits for those that
    /// are being written.
    pub fn abandon(&self) {
        self.engine.abandon();
    }

    /// Bytes in the files of this partition.
    #[must_use]
    pub fn files_bytes(&self) -> u64 {
        self.engine.files_bytes()
    }
}

impl RowsRead for Store {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.get_through(key, Reach::Files)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        self.snapshot()?.scan(from, to, visit)
    }

    fn scan_back(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        self.snapshot()?.scan_back(from, to, visit)
    }
}

/// A consistent state of a partition's rows.
pub struct StoreSnapshot<'a> {
    snapshot: Snapshot<'a>,
    /// What the store could not be given, where it takes nothing.
    pending: Option<Arc<SortedRows>>,
}

impl StoreSnapshot<'_> {
    fn stored(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        if let Some(change) = self.pending.as_ref().and_then(|pending| pending.get(key)) {
            return Ok(change.clone());
        }
        let value = self.snapshot.get(key, Reach::Files)?;
        Ok(value.map(|value| value.to_bytes()))
    }

    fn walk_stored(&self, [from, to]: [&[u8]; 2], visit: Visit<'_>) -> Result<(), StoreError> {
        let walk = |visit: Visit<'_>| self.snapshot.walk([from, to], Reach::Files, visit);
        let Some(pending) = self.pending.as_ref().filter(|_| from < to) else {
            return walk(visit);
        };
        let changed = pending.range::<[u8], _>((Included(from), Excluded(to)));
        let changed = changed.map(|(key, value)| (&**key, value.as_deref()));
        let mut show = |key: &[u8], value: Option<&[u8]>| {
            value.map_or(ControlFlow::Continue(()), |value| visit(key, value))
        };
        walk_merged(changed, &mut show, walk)
    }
}

impl RowsRead for StoreSnapshot<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        packed::get(key, &|key| self.stored(key))
    }

    fn with_value(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        let stored = |key: &[u8], show: &mut dyn FnMut(&[u8])| {
            if let Some(change) = self.pending.as_ref().and_then(|pending| pending.get(key)) {
                return Ok(change.as_ref().inspect(|value| show(value)).is_some());
            }
            Ok(shown(self.snapshot.get(key, Reach::Files)?, show))
        };
        packed::show(key, &stored, show)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        let walk = |visit: Visit<'_>| self.walk_stored([from, to], visit);
        packed::walk([from, to], false, &|key| self.stored(key), walk, visit)
    }

    fn scan_back(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        if self.pending.is_some() {
            // A store that takes nothing is seldom, and ends soon.
            return gather_back(self, from, to, visit);
        }
        let walk = |visit: Visit<'_>| self.snapshot.walk_back([from, to], Reach::Files, visit);
        packed::walk([from, to], true, &|key| self.stored(key), walk, visit)
    }
}

/// A consistent state of the rows, read only as far as that needs no disk and little time;
/// [`StoreError::NotCached`] otherwise, so that the read can be handed on.
pub struct CachedStore<'a> {
    snapshot: Snapshot<'a>,
}

impl CachedStore<'_> {
    fn stored(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(self.snapshot.get(key, Reach::Memory)?.map(|value| value.to_bytes()))
    }
}

impl RowsRead for CachedStore<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        packed::get(key, &|key| self.stored(key))
    }

    fn with_value(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        let stored = |key: &[u8], show: &mut dyn FnMut(&[u8])| {
            Ok(shown(self.snapshot.get(key, Reach::Memory)?, show))
        };
        packed::show(key, &stored, show)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        let walk = |visit: Visit<'_>| self.snapshot.walk([from, to], Reach::Memory, visit);
        packed::walk([from, to], false, &|key| self.stored(key), walk, visit)
    }

    fn scan_back(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        let walk = |visit: Visit<'_>| self.snapshot.walk_back([from, to], Reach::Memory, visit);
        packed::walk([from, to], true, &|key| self.stored(key), walk, visit)
    }
}

/// The current rows, one at a time: for commands that read a single row, which need no
/// consistent state.
pub struct CachedRow<'a> {
    store: &'a Store,
}

impl RowsRead for CachedRow<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.store.get_through(key, Reach::Memory)
    }

    fn with_value(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        self.store.read_through(key, Reach::Memory, show)
    }

    fn scan(&self, _from: &[u8], _to: &[u8], _visit: Visit<'_>) -> Result<(), StoreError> {
        Err(StoreError::NotCached)
    }
}

/// Shows a value where there is one; says whether there is.
fn shown(value: Option<Value<'_>>, show: &mut dyn FnMut(&[u8])) -> bool {
    value.inspect(|value| show(value)).is_some()
}

#[cfg(test)]
mod tests {
    use super::super::tests::resources;
    use super::*;

    #[test]
    fn reads_of_a_store_that_failed_share_what_it_was_not_given() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), &resources()).unwrap();
        let put = |key: &[u8], value: &'static [u8]| {
            let rows = [(key.into(), Some(Bytes::from_static(value)))].into_iter().collect();
            store.write_changes(Changes { rows, removed: Default::default() }, 0, false).unwrap();
        };
        put(b"ma", b"1");
        store.has_failed.store(true, Ordering::Relaxed);
        let full = || Err(StoreError::Failed("full".to_owned()));
        assert!(store.pending.hand_on(|_| full()).is_err());
        let first = store.snapshot().unwrap();
        let second = store.snapshot().unwrap();
        let shared = first.pending.as_ref().zip(second.pending.as_ref());
        let (one, other) = shared.expect("the store is not tried");
        assert!(Arc::ptr_eq(one, other));
        assert!(matches!(store.cached(), Err(StoreError::NotCached)));
        put(b"mb", b"2");
        let value = |rows: &dyn RowsRead, key: &[u8]| rows.get(key).unwrap();
        assert_eq!(value(&first, b"ma"), Some(Bytes::from_static(b"1")));
        assert_eq!(value(&first, b"mb"), None, "it came after");
        let mut keys = Vec::new();
        let mut visit = |key: &[u8], _: &[u8]| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        };
        store.scan(b"m", b"n", &mut visit).unwrap();
        assert_eq!(keys, [b"ma", b"mb"]);
        let mut keys = Vec::new();
        let mut visit = |key: &[u8], _: &[u8]| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        };
        store.scan_back(b"m", b"n", &mut visit).unwrap();
        assert_eq!(keys, [b"mb", b"ma"]);
        store.has_failed.store(false, Ordering::Relaxed);
        let third = store.snapshot().unwrap();
        assert!(third.pending.is_none() && !store.takes_nothing());
        assert_eq!(value(&third, b"mb"), Some(Bytes::from_static(b"2")));
    }

    #[test]
    fn reads_wait_for_nobody_who_waits_for_the_store() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), &resources()).unwrap();
        let put = |key: &[u8]| {
            let rows = [(key.into(), Some(Bytes::from_static(b"1")))].into_iter().collect();
            store.write_changes(Changes { rows, removed: Default::default() }, 0, false).unwrap();
        };
        put(b"ma");
        let keys = || {
            let mut keys = Vec::new();
            let mut visit = |key: &[u8], _: &[u8]| {
                keys.push(key.to_vec());
                ControlFlow::Continue(())
            };
            store.scan(b"m", b"n", &mut visit).unwrap();
            keys
        };
        let handed = store.pending.hand_on(|batch| {
            // The store has not taken it yet, as while it is stopped.
            put(b"mb");
            assert_eq!(keys(), [b"ma", b"mb"]);
            let snapshot = store.snapshot().unwrap();
            store.write_now(batch)?;
            assert_eq!(keys(), [b"ma", b"mb"]);
            put(b"ma2");
            assert!(
                snapshot.get(b"mb").unwrap().is_some() && snapshot.get(b"ma2").unwrap().is_none()
            );
            Ok(())
        });
        handed.unwrap();
        assert_eq!(keys().len(), 3);
    }
}
