//! Which fields a short hash has, kept in the cache of rows under what the keys of all its rows begin with.
//!
//! It is never taken back: where the meta row counts as many fields and each of these has its row, they are all that
//! there are. Who reads them sees to that, see `cached_key.rs`.

use bytes::{BufMut, Bytes, BytesMut};
use smallvec::SmallVec;

use super::pending::Rows;
use super::row_cache::{RowCache, StoreNumber};
use crate::rows::key::RowKey;
use crate::rows::meta::{Kind, Meta};

/// Of hashes of more fields, or whose names take more bytes, none are kept.
pub(super) const FIELDS_MAX: usize = 64;
const NAMES_BYTES_MAX: usize = 4096;

/// Keeps the names of the fields of each short hash of which these changes have all: of one that is made, or whose
/// fields are all written. What is read next needs no walk then.
pub(super) fn keep_names(kept: &RowCache, store: StoreNumber, rows: &Rows) {
    let is_field = |key: &[u8]| RowKey::parse(key).is_some_and(|key| key.field.is_some());
    if !rows.keys().any(|key| is_field(key)) {
        return;
    }
    let mut keys: SmallVec<[&[u8]; 64]> = rows.keys().map(|key| &**key).collect();
    keys.sort_unstable();
    let mut keys = keys.as_slice();
    while let [meta, rest @ ..] = keys {
        keys = rest;
        let Some(total) = total_of(meta, rows) else { continue };
        let stem = &meta[..meta.len() - 1];
        // The meta row is the first of a key's; what follows up to the next are its fields.
        let fields = rest.iter().take_while(|key| key.starts_with(stem)).count();
        let (fields, after) = rest.split_at(fields);
        keys = after;
        if fields.len() != total || fields.iter().any(|key| matches!(rows.get(*key), Some(None))) {
            continue;
        }
        if let Some(names) = join_names(fields.iter().map(|key| &key[stem.len()..])) {
            kept.keep_hint(store, stem, names);
        }
    }
}

/// How many fields there are by the meta row of a short hash, where this is one.
fn total_of(key: &[u8], rows: &Rows) -> Option<usize> {
    let is_meta = RowKey::parse(key)?.field.is_none();
    let row = rows.get(key)?.as_ref().filter(|_| is_meta)?;
    match Meta::decode(row).ok()?.0.kind {
        Kind::Hash(fields) => usize::try_from(fields.total).ok().filter(|it| *it <= FIELDS_MAX),
        Kind::String => None,
    }
}

/// Names one after the other, each behind its length; none where they are long.
pub(super) fn join_names<'a>(names: impl Iterator<Item = &'a [u8]>) -> Option<Bytes> {
    let mut joined = BytesMut::new();
    for name in names {
        joined.put_u16(u16::try_from(name.len()).ok()?);
        joined.put_slice(name);
        if joined.len() > NAMES_BYTES_MAX {
            return None;
        }
    }
    Some(joined.freeze())
}

/// The first name, and what follows it.
pub(super) fn split_name(names: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = names.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}
