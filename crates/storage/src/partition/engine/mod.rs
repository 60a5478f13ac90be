//! What holds a store's rows: RocksDB in a node; in a simulation a map, whose threads, chance and files are
//! the simulation's. Both take a batch whole or not at all, show it at once, and have of it after the
//! process what was flushed, in the order in which it came. What rows mean, and what is in memory before
//! either has it, is the store's business.

mod memory;
mod rocks;

#[cfg(test)]
mod tests;

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use plimsoll_control::pacing::debt::Backlog;
use rust_rocksdb::{DBPinnableSlice, WriteBatch};

pub(super) use memory::{Memory, MemoryShared};
pub(super) use rocks::{Rocks, RocksShared};

use super::resources::{Kind, Resources};
use crate::rows::{StoreError, Visit};

/// One store's rows.
pub(super) enum Engine {
    Rocks(Rocks),
    Memory(Memory),
}

/// The rows as they were at one moment.
pub(super) enum Snapshot<'a> {
    Rocks(rocks::Snapshot<'a>),
    Memory(memory::Snapshot),
}

/// Changes that are taken whole or not at all, in their order.
pub(super) enum Batch {
    Rocks(WriteBatch),
    Memory(Vec<memory::Change>),
}

/// A row's value, held where it is.
pub(super) enum Value<'a> {
    Rocks(DBPinnableSlice<'a>),
    Memory(Bytes),
}

/// How far a read goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// To the files.
    Files,
    /// To what is in memory: [`StoreError::NotCached`] where that does not say.
    Memory,
}

impl Engine {
    /// Opens the rows in `dir`, or makes an empty folder of them. `has_failed` is set where files cannot be
    /// written.
    pub fn open(
        dir: &Path,
        resources: &Resources,
        has_failed: Arc<AtomicBool>,
        compacts: bool,
    ) -> Result<Self, StoreError> {
        Ok(match &resources.kind {
            Kind::Rocks(shared) => {
                Self::Rocks(Rocks::open(dir, shared, resources, has_failed, compacts)?)
            }
            Kind::Memory(shared) => Self::Memory(Memory::open(dir, shared, resources, has_failed)?),
        })
    }

    /// Whether rows are in `dir`, whole or not.
    pub fn is_in(dir: &Path, resources: &Resources) -> bool {
        match &resources.kind {
            Kind::Rocks(_) => Rocks::is_in(dir),
            Kind::Memory(shared) => shared.is_in(dir),
        }
    }

    /// A batch of no changes, for this store.
    pub fn batch(&self) -> Batch {
        match self {
            Self::Rocks(_) => Batch::Rocks(WriteBatch::default()),
            Self::Memory(_) => Batch::Memory(Vec::new()),
        }
    }

    /// A row as it is now.
    pub fn get(&self, key: &[u8], reach: Reach) -> Result<Option<Value<'_>>, StoreError> {
        match self {
            Self::Rocks(rocks) => Ok(rocks.get(key, reach)?.map(Value::Rocks)),
            Self::Memory(memory) => {
                Ok(memory.snapshot().within(reach)?.get(key).map(Value::Memory))
            }
        }
    }

    /// Shows the rows from one key up to another, as they are now.
    pub fn walk(
        &self,
        range: [&[u8]; 2],
        reach: Reach,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        match self {
            Self::Rocks(rocks) => rocks.walk(range, reach, visit),
            Self::Memory(memory) => {
                memory.snapshot().within(reach)?.walk(range, visit);
                Ok(())
            }
        }
    }

    pub fn snapshot(&self) -> Snapshot<'_> {
        match self {
            Self::Rocks(rocks) => Snapshot::Rocks(rocks.snapshot()),
            Self::Memory(memory) => Snapshot::Memory(memory.snapshot()),
        }
    }

    /// Takes a batch in. With `may_wait` it is waited for where too much waits for files already, else it is
    /// refused then.
    pub fn write(&self, batch: &Batch, may_wait: bool) -> Result<(), StoreError> {
        match (self, batch) {
            (Self::Rocks(rocks), Batch::Rocks(batch)) => rocks.write(batch, may_wait),
            (Self::Memory(memory), Batch::Memory(changes)) => memory.write(changes, may_wait),
            _ => Err(StoreError::Failed("a batch of another engine".to_owned())),
        }
    }

    /// Makes all that was written durable. Blocks.
    pub fn flush(&self) -> Result<(), StoreError> {
        match self {
            Self::Rocks(rocks) => rocks.flush(),
            Self::Memory(memory) => memory.flush(),
        }
    }

    /// As [`super::Store::resume`].
    pub fn resume(&self) -> Result<(), StoreError> {
        match self {
            Self::Rocks(rocks) => rocks.resume(),
            Self::Memory(memory) => memory.resume(),
        }
    }

    /// As [`super::Store::checkpoint`].
    pub fn checkpoint(&self, dir: &Path) -> Result<(), StoreError> {
        match self {
            Self::Rocks(rocks) => rocks.checkpoint(dir),
            Self::Memory(memory) => memory.checkpoint(dir),
        }
    }

    /// As [`super::Store::verify`].
    pub fn verify(&self) -> Result<(), StoreError> {
        match self {
            Self::Rocks(rocks) => rocks.verify(),
            Self::Memory(memory) => memory.verify(),
        }
    }

    /// As [`super::Store::compact`], of what is in files.
    pub fn compact(&self) -> Result<(), StoreError> {
        match self {
            Self::Rocks(rocks) => {
                rocks.compact();
                Ok(())
            }
            Self::Memory(memory) => memory.compact(),
        }
    }

    /// As [`super::Store::abandon`].
    pub fn abandon(&self) {
        match self {
            Self::Rocks(rocks) => rocks.abandon(),
            Self::Memory(memory) => memory.abandon(),
        }
    }

    /// Lays out files written from now on for documents, or for single rows.
    pub fn lay_out_for(&self, has_documents: bool) -> Result<(), StoreError> {
        match self {
            Self::Rocks(rocks) => rocks.lay_out_for(has_documents),
            Self::Memory(_) => Ok(()),
        }
    }

    /// Sizes files written from now on to flushes of so many bytes.
    pub fn shape_files(&self, flush_bytes: u64) -> Result<(), StoreError> {
        match self {
            Self::Rocks(rocks) => rocks.shape_files(flush_bytes),
            Self::Memory(_) => Ok(()),
        }
    }

    pub fn backlog(&self) -> Backlog {
        match self {
            Self::Rocks(rocks) => rocks.backlog(),
            Self::Memory(memory) => memory.backlog(),
        }
    }

    /// Bytes that a flush that begins now would write: not those that are being flushed.
    pub fn flushable_bytes(&self) -> u64 {
        match self {
            Self::Rocks(rocks) => rocks.flushable_bytes(),
            Self::Memory(memory) => memory.unflushed_bytes(),
        }
    }

    /// Bytes that are in no file.
    pub fn unflushed_bytes(&self) -> u64 {
        match self {
            Self::Rocks(rocks) => rocks.unflushed_bytes(),
            Self::Memory(memory) => memory.unflushed_bytes(),
        }
    }

    /// Bytes in files.
    pub fn files_bytes(&self) -> u64 {
        match self {
            Self::Rocks(rocks) => rocks.files_bytes(),
            Self::Memory(memory) => memory.files_bytes(),
        }
    }
}

impl Snapshot<'_> {
    /// A row.
    pub fn get(&self, key: &[u8], reach: Reach) -> Result<Option<Value<'_>>, StoreError> {
        match self {
            Self::Rocks(snapshot) => Ok(snapshot.get(key, reach)?.map(Value::Rocks)),
            Self::Memory(snapshot) => Ok(snapshot.within(reach)?.get(key).map(Value::Memory)),
        }
    }

    /// Shows the rows from one key up to another, without that.
    pub fn walk(
        &self,
        range: [&[u8]; 2],
        reach: Reach,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        match self {
            Self::Rocks(snapshot) => snapshot.walk(range, reach, visit),
            Self::Memory(snapshot) => {
                snapshot.within(reach)?.walk(range, visit);
                Ok(())
            }
        }
    }

    /// The same in the opposite order.
    pub fn walk_back(
        &self,
        range: [&[u8]; 2],
        reach: Reach,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        match self {
            Self::Rocks(snapshot) => snapshot.walk_back(range, reach, visit),
            Self::Memory(snapshot) => {
                snapshot.within(reach)?.walk_back(range, visit);
                Ok(())
            }
        }
    }
}

impl Batch {
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        match self {
            Self::Rocks(batch) => batch.put(key, value),
            Self::Memory(changes) => {
                changes.push(memory::Change::put(key.as_ref(), value.as_ref()))
            }
        }
    }

    pub fn delete(&mut self, key: impl AsRef<[u8]>) {
        match self {
            Self::Rocks(batch) => batch.delete(key),
            Self::Memory(changes) => changes.push(memory::Change::delete(key.as_ref())),
        }
    }

    /// Deletes the rows from one key up to another, without that.
    pub fn delete_range(&mut self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) {
        match self {
            Self::Rocks(batch) => batch.delete_range(from.as_ref(), to.as_ref()),
            Self::Memory(changes) => {
                changes.push(memory::Change::delete_range(from.as_ref(), to.as_ref()));
            }
        }
    }

    /// Forgets its changes; keeps its memory for the next ones, unless that is more than so much.
    pub fn clear(&mut self, bytes_kept: usize) {
        match self {
            Self::Rocks(batch) if batch.size_in_bytes() > bytes_kept => {
                *batch = WriteBatch::default();
            }
            Self::Rocks(batch) => batch.clear(),
            Self::Memory(changes) => *changes = Vec::new(),
        }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        match self {
            Self::Rocks(batch) => batch.len(),
            Self::Memory(changes) => changes.len(),
        }
    }
}

impl Deref for Value<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Rocks(value) => value,
            Self::Memory(value) => value,
        }
    }
}

impl Value<'_> {
    /// The value, for as long as it is wanted.
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Self::Rocks(value) => Bytes::copy_from_slice(value),
            Self::Memory(value) => value.clone(),
        }
    }
}
