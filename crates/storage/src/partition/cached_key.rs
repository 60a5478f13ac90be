//! The rows of one key, as far as they are in memory: for commands that read a hash, and nothing beside it. They are
//! read as they are now, one by one, which takes no snapshot and hands nothing to the engine; that nothing of them
//! was written meanwhile is asked at the end.
//!
//! Which fields a short hash has is known beside its rows, see `field_names.rs`.

use std::cell::OnceCell;
use std::ops::ControlFlow;

use bytes::Bytes;

use super::engine::Reach;
use super::field_names::{FIELDS_MAX, join_names, split_name};
use super::packed::{self, Packed};
use super::row_cache::{Look, Miss};
use super::store::Store;
use crate::rows::key::{KeyRows, StoreKey};
use crate::rows::meta::{Kind, Meta};
use crate::rows::{RowsRead, StoreError, Visit};

/// So many rows of a hash whose names are kept are looked up in the engine one by one; for more, a walk is quicker.
const LOOKED_UP_MAX: usize = 4;
/// Where the values of a hash take more, bytes, it is read elsewhere.
const READ_BYTES_MAX: usize = 256 << 10;

/// One key's rows. Whatever is read of anything else is [`StoreError::NotCached`].
pub struct CachedKey<'a> {
    store: &'a Store,
    /// What the keys of all its rows begin with.
    stem: StoreKey,
    meta: StoreKey,
    look: Look,
    /// What is stored under that, once it was asked for.
    stored_meta: OnceCell<Option<Bytes>>,
}

impl<'a> CachedKey<'a> {
    /// Begins to read the rows of a key of a store as they are now.
    ///
    /// # Errors
    /// [`StoreError::NotCached`] while something near is written.
    pub fn new(store: &'a Store, key: &[u8]) -> Result<Self, StoreError> {
        let mut rows = KeyRows::new(key);
        let meta = StoreKey::from_slice(rows.meta());
        let stem = StoreKey::from_slice(&meta[..meta.len() - 1]);
        let look = store.rows.begin_look(&stem).ok_or(StoreError::NotCached)?;
        Ok(Self { store, stem, meta, look, stored_meta: OnceCell::new() })
    }

    /// Whether all that was read was there at one moment. Where it was not, nothing that was read says anything, be
    /// it an error.
    #[must_use]
    pub fn is_still(&self) -> bool {
        self.store.rows.is_still(&self.stem, &self.look)
    }

    fn stored_meta(&self) -> Result<Option<&Bytes>, StoreError> {
        if let Some(stored) = self.stored_meta.get() {
            return Ok(stored.as_ref());
        }
        let stored = self.store.stored_through(&self.meta, Reach::Memory)?;
        Ok(self.stored_meta.get_or_init(|| stored).as_ref())
    }

    /// The row that has both the hash and its field.
    fn packed(&self) -> Result<Option<(&Bytes, Packed<'_>)>, StoreError> {
        let Some(stored) = self.stored_meta()? else { return Ok(None) };
        Ok(Packed::of(&self.meta, stored)?.map(|packed| (stored, packed)))
    }

    /// How many fields the hash has, where it is a short one.
    fn fields_total(&self) -> Result<usize, StoreError> {
        let Some(row) = self.stored_meta()? else { return Ok(0) };
        match Meta::decode(row)?.0.kind {
            Kind::Hash(fields) => match usize::try_from(fields.total) {
                Ok(total) if total <= FIELDS_MAX => Ok(total),
                _ => Err(StoreError::NotCached),
            },
            Kind::String => Ok(0),
        }
    }

    fn kept(&self, key: &[u8]) -> Option<Bytes> {
        self.store.rows.get(self.store.number, key).ok()
    }

    /// The rows of the names that are kept, where they are so many, all there and most of them kept as well.
    fn kept_rows(
        &self,
        from: &[u8],
        total: usize,
    ) -> Result<Option<Vec<(StoreKey, Bytes)>>, StoreError> {
        let Some(kept) = self.kept(&self.stem) else { return Ok(None) };
        let mut names = &*kept;
        let (mut rows, mut bytes, mut looked_up) = (Vec::with_capacity(total), 0, 0);
        while let Some((name, rest)) = split_name(names) {
            let mut key = self.stem.clone();
            key.extend_from_slice(name);
            // Those of another generation.
            if !key.starts_with(from) {
                return Ok(None);
            }
            let value = match self.kept(&key) {
                None if looked_up < LOOKED_UP_MAX => {
                    looked_up += 1;
                    self.get(&key)?
                }
                value => value,
            };
            let Some(value) = value else { return Ok(None) };
            bytes += value.len();
            if bytes > READ_BYTES_MAX {
                return Err(StoreError::NotCached);
            }
            rows.push((key, value));
            names = rest;
        }
        Ok((rows.len() == total).then_some(rows))
    }

    /// Reads the rows from the engine and keeps them and their names, where they are as many as there should be.
    fn read_rows(
        &self,
        [from, to]: [&[u8]; 2],
        total: usize,
    ) -> Result<Vec<(StoreKey, Bytes)>, StoreError> {
        self.store.hand_on_rows_of(&self.stem)?;
        let (mut rows, mut bytes) = (Vec::with_capacity(total), 0);
        self.store.engine.walk([from, to], Reach::Memory, &mut |key, value| {
            bytes += value.len();
            if rows.len() == total || bytes > READ_BYTES_MAX {
                bytes = usize::MAX;
                return ControlFlow::Break(());
            }
            rows.push((StoreKey::from_slice(key), Bytes::copy_from_slice(value)));
            ControlFlow::Continue(())
        })?;
        if rows.len() != total || bytes > READ_BYTES_MAX {
            // Long, or written meanwhile, or damaged: whoever looks at one state of it says which.
            return Err(StoreError::NotCached);
        }
        let miss = Miss::from(&self.look);
        let names = rows.iter().map(|(key, _)| &key[self.stem.len()..]);
        if let Some(names) = join_names(names) {
            let keep = |key: &[u8], value: &Bytes| {
                self.store.rows.keep(self.store.number, key, value, &miss);
            };
            keep(&self.stem, &names);
            rows.iter().for_each(|(key, value)| keep(key, value));
        }
        Ok(rows)
    }
}

impl RowsRead for CachedKey<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        if !key.starts_with(&self.stem) {
            return Err(StoreError::NotCached);
        }
        if *key == *self.meta {
            let stored = self.stored_meta()?.cloned();
            return stored.map(|stored| packed::unpacked(key, stored)).transpose();
        }
        match self.packed()? {
            Some((stored, packed)) if *packed.field_key(&self.meta) == *key => {
                Ok(Some(stored.slice_ref(packed.field)))
            }
            _ => self.store.stored_through(key, Reach::Memory),
        }
    }

    fn with_value(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        if !key.starts_with(&self.stem) {
            return Err(StoreError::NotCached);
        }
        let Some(stored) = self.stored_meta()?.filter(|_| *key == *self.meta) else {
            return self.store.cached_row().with_value(key, show);
        };
        packed::show_unpacked(key, stored, show)?;
        Ok(true)
    }

    /// Of all fields of a generation alone.
    fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        let is_of_all = KeyRows::is_of_all_fields(&self.stem, from, to);
        if !is_of_all {
            return Err(StoreError::NotCached);
        }
        if let Some((_, packed)) = self.packed()? {
            let key = packed.field_key(&self.meta);
            if from <= &*key && &*key < to {
                let _ = visit(&key, packed.field);
            }
            return Ok(());
        }
        let total = self.fields_total()?;
        let rows = match self.kept_rows(from, total)? {
            Some(rows) => rows,
            None => self.read_rows([from, to], total)?,
        };
        for (key, value) in &rows {
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn scan_back(&self, _from: &[u8], _to: &[u8], _visit: Visit<'_>) -> Result<(), StoreError> {
        Err(StoreError::NotCached)
    }
}
