//! The rows as the engine has them. A hash of one short field lies in one row there, that of its meta row with its
//! field row in it: one key, one lookup and one write instead of two. What rows mean, digests and what replicas tell
//! each other know nothing of it: a store shows both rows, and packs as it likes.
//!
//! | packed row | bytes |
//! |---|---|
//! | layout, now 16: no format of a meta row | 1 |
//! | flags: 1 where the field has the key's own name, 2 where the key has an expiry, 4 where the hash was made by its last change | 1 |
//! | last change | varint |
//! | expiry, ms since 1970, where it has one | varint |
//! | generation, where it is not the last change | varint |
//! | length of the field's name and the name, where it is not the key's | varint, bytes |
//! | the field row | the rest |
//!
//! This is stable; a change of meaning takes another first byte.

use std::ops::ControlFlow;

use bytes::{BufMut, Bytes, BytesMut};
use plimsoll_log::record::{get_varint, put_varint};
use smallvec::SmallVec;

use super::changes::Changes;
use super::pending::Rows;
use crate::operation::COPY_GENERATIONS_FROM;
use crate::rows::key::{KIND_ROW, RowKey, StoreKey, meta_before};
use crate::rows::meta::{Fields, Kind, Meta, RowBytes};
use crate::rows::{StoreError, Visit};

const LAYOUT: u8 = 0x10;
const NAMED_AS_KEY: u8 = 1;
const HAS_EXPIRY: u8 = 2;
const MADE_BY_LAST_CHANGE: u8 = 4;
/// A field row that is longer with its name has a row of its own: who asks for the meta row alone would read it too.
const FIELD_BYTES_MAX: usize = 4096;
/// What a packed row has beside the names and the field row, bytes, at most.
const HEAD_BYTES_MAX: usize = 2 + 4 * 10;

/// Reads a stored row.
pub(super) type ReadStored<'a> = &'a dyn Fn(&[u8]) -> Result<Option<Bytes>, StoreError>;

/// Shows a stored row and says whether it is there.
pub(super) type ShowStored<'a> =
    &'a dyn Fn(&[u8], &mut dyn FnMut(&[u8])) -> Result<bool, StoreError>;

/// A packed row, taken apart.
pub(super) struct Packed<'a> {
    meta: Meta,
    generation: u64,
    /// None is the key's own.
    name: Option<&'a [u8]>,
    /// The field row.
    pub field: &'a [u8],
}

/// Whether a stored row is a packed one.
pub(super) fn is_packed(key: &[u8], stored: &[u8]) -> bool {
    key.first() == Some(&KIND_ROW) && stored.first() == Some(&LAYOUT)
}

impl<'a> Packed<'a> {
    /// Takes a stored row apart; `None` where it is not a packed one.
    ///
    /// # Errors
    /// Where it is damaged.
    pub(super) fn of(key: &[u8], stored: &'a [u8]) -> Result<Option<Self>, StoreError> {
        if !is_packed(key, stored) {
            return Ok(None);
        }
        let packed = Self::parse(stored).ok_or_else(|| StoreError::Damaged("a packed row".into()));
        packed.map(Some)
    }

    fn parse(stored: &'a [u8]) -> Option<Self> {
        let (&[_, flags], mut rest) = stored.split_first_chunk()?;
        let last_change = get_varint(&mut rest).ok()?;
        let expiry_ms =
            if flags & HAS_EXPIRY == 0 { None } else { Some(get_varint(&mut rest).ok()?) };
        let generation = match flags & MADE_BY_LAST_CHANGE {
            0 => get_varint(&mut rest).ok()?,
            _ => last_change,
        };
        let name = match flags & NAMED_AS_KEY {
            0 => {
                let length = usize::try_from(get_varint(&mut rest).ok()?).ok()?;
                Some(rest.split_off(..length)?)
            }
            _ => None,
        };
        let kind = Kind::Hash(Fields { generation, total: 1, ..Fields::default() });
        let meta = Meta { kind, last_change, version: 0, expiry_ms };
        Some(Self { meta, generation, name, field: rest })
    }

    /// The meta row.
    pub(super) fn meta_row(&self) -> RowBytes {
        let mut row = RowBytes::new();
        self.meta.encode(&mut row);
        row
    }

    /// The key of the field row, where this is the key of the meta row.
    pub(super) fn field_key(&self, meta_key: &[u8]) -> StoreKey {
        let named = RowKey::parse(meta_key);
        let (stem, key) = named.map_or((meta_key, &[][..]), |named| (named.stem, named.key));
        RowKey::field_of(stem, self.generation, self.name.unwrap_or(key))
    }
}

/// Packs the rows of a hash of one field.
fn packed(meta: &Meta, generation: u64, key: &[u8], name: &[u8], field: &[u8]) -> Bytes {
    let mut row = BytesMut::with_capacity(HEAD_BYTES_MAX + name.len() + field.len());
    let flag = |is: bool, flag: u8| if is { flag } else { 0 };
    row.put_u8(LAYOUT);
    row.put_u8(
        flag(name == key, NAMED_AS_KEY)
            | flag(meta.expiry_ms.is_some(), HAS_EXPIRY)
            | flag(generation == meta.last_change, MADE_BY_LAST_CHANGE),
    );
    put_varint(&mut row, meta.last_change);
    if let Some(expiry_ms) = meta.expiry_ms {
        put_varint(&mut row, expiry_ms);
    }
    if generation != meta.last_change {
        put_varint(&mut row, generation);
    }
    if name != key {
        put_varint(&mut row, name.len() as u64);
        row.put_slice(name);
    }
    row.put_slice(field);
    row.freeze()
}

/// A meta row of which nothing is lost where it is packed: that of a hash of one field without an expiry. What is copied
/// in slices has generations out of order, and stays as it is.
fn packable(row: &[u8]) -> Option<(Meta, u64)> {
    let (meta, _) = Meta::decode(row).ok()?;
    let Kind::Hash(fields) = meta.kind else { return None };
    let is_alone =
        fields == Fields { generation: fields.generation, total: 1, ..Fields::default() };
    if !is_alone || fields.generation >= COPY_GENERATIONS_FROM {
        return None;
    }
    let mut again = RowBytes::new();
    meta.encode(&mut again);
    (*again == *row).then_some((meta, fields.generation))
}

/// How changes of rows become changes of stored rows.
pub(super) struct Packing<'a> {
    /// Whether rows may be packed. Those that are so are known in any case.
    pub packs: bool,
    /// Hashes of this generation and later ones are made by these changes; `u64::MAX` where they may be a part of
    /// what makes a copy like another.
    pub new_from: u64,
    /// The rows as they are stored before these changes.
    pub stored: ReadStored<'a>,
}

/// What becomes of a change: another one, or none where it is left out.
type Edit = (Box<[u8]>, Option<Option<Bytes>>);

impl Packing<'_> {
    /// Makes changes of stored rows of changes of rows. Whoever puts a string in the place of a hash takes the hash's
    /// field rows away; a range that is removed ends with the rows of a key, or between those of two.
    ///
    /// # Errors
    /// Where the store fails; the changes are as they were.
    pub(super) fn pack(&self, changes: &mut Changes) -> Result<(), StoreError> {
        let mut edits = Vec::new();
        self.gather(changes, &mut edits)?;
        for (key, change) in edits {
            match change {
                Some(change) => changes.rows.insert(key, change),
                None => changes.rows.remove(&key),
            };
        }
        Ok(())
    }

    fn gather(&self, changes: &Changes, edits: &mut Vec<Edit>) -> Result<(), StoreError> {
        let mut gone = Vec::new();
        for (from, to) in &changes.removed {
            let Some(meta_key) = meta_before(from) else { continue };
            let stored = (self.stored)(&meta_key)?;
            let packed = stored.as_deref().map(|row| Packed::of(&meta_key, row)).transpose()?;
            let Some(field_key) = packed.flatten().map(|it| it.field_key(&meta_key)) else {
                continue;
            };
            let is_removed = **from <= *field_key && *field_key < **to;
            if is_removed && !changes.rows.contains_key(&*field_key) {
                gone.push(Box::from(&*field_key));
            }
        }
        let is_removed =
            |key: &[u8]| changes.removed.iter().any(|(from, to)| **from <= *key && *key < **to);
        let keys = changes.rows.keys().chain(&gone).map(|key| &**key);
        let mut keys: SmallVec<[&[u8]; 64]> =
            keys.filter(|key| key.first() == Some(&KIND_ROW)).collect();
        keys.sort_unstable();
        let mut keys = keys.as_slice();
        while let [first, ..] = keys {
            let Some(RowKey { stem, key, field, .. }) = RowKey::parse(first) else {
                keys = &keys[1..];
                continue;
            };
            let count = keys.iter().take_while(|key| key.starts_with(stem)).count();
            let (group, rest) = keys.split_at(count);
            keys = rest;
            let meta_key = RowKey::meta_of(stem);
            // The meta row is the first of a key's.
            let fields = if field.is_none() { &group[1..] } else { group };
            let rows = RowsOfKey { key, meta_key: &meta_key, fields, changed: &changes.rows };
            self.pack_key(&rows, is_removed(&meta_key), edits)?;
        }
        Ok(())
    }

    fn pack_key(
        &self,
        rows: &RowsOfKey<'_>,
        is_removed: bool,
        edits: &mut Vec<Edit>,
    ) -> Result<(), StoreError> {
        let meta_key = rows.meta_key;
        let change = rows.changed.get(meta_key);
        let packable = change.and_then(|row| packable(row.as_ref()?)).filter(|_| self.packs);
        let is_new = match change {
            Some(Some(row)) => match Meta::decode(row)?.0.kind {
                Kind::Hash(fields) => {
                    (self.new_from..COPY_GENERATIONS_FROM).contains(&fields.generation)
                }
                // What was a hash is taken away field by field, by the same record where it makes hashes too.
                Kind::String => self.new_from < COPY_GENERATIONS_FROM,
            },
            _ => false,
        };
        let before = if is_new || is_removed { None } else { (self.stored)(meta_key)? };
        if let Some((meta, generation)) = packable
            && let Some((field_key, name, field)) = rows.only_put(generation)
        {
            let row = packed(&meta, generation, rows.key, name, field);
            edits.push((meta_key.into(), Some(Some(row))));
            // Where it may have one, its own row goes.
            let mut may_have_row = false;
            if let Some(before) = &before {
                let was = Packed::of(meta_key, before)?.map(|was| (was.field_key(meta_key), was));
                may_have_row = was.as_ref().is_none_or(|(key, _)| **key != *field_key);
                if let Some((key, was)) = was
                    && may_have_row
                    && !rows.fields.contains(&&*key)
                {
                    edits.push((Box::from(&*key), Some(Some(before.slice_ref(was.field)))));
                }
            }
            edits.push((field_key.into(), may_have_row.then_some(None)));
            return Ok(());
        }
        let Some(before) = before else { return Ok(()) };
        let Some(was) = Packed::of(meta_key, &before)? else { return Ok(()) };
        let field_key = was.field_key(meta_key);
        let is_field_changed = rows.fields.contains(&&*field_key);
        if is_field_changed && rows.changed.get(&*field_key).is_none_or(Option::is_none) {
            // It goes with the packed row.
            edits.push((Box::from(&*field_key), None));
        }
        let own_row = || (Box::from(&*field_key), Some(Some(before.slice_ref(was.field))));
        match (change, is_field_changed) {
            (Some(_), true) => {}
            (Some(_), false) => match packable {
                Some((meta, generation))
                    if generation == was.generation && rows.fields.is_empty() =>
                {
                    let name = was.name.unwrap_or(rows.key);
                    let row = packed(&meta, generation, rows.key, name, was.field);
                    edits.push((meta_key.into(), Some(Some(row))));
                }
                _ => edits.push(own_row()),
            },
            (None, is_changed) => {
                let meta = Bytes::copy_from_slice(&was.meta_row());
                edits.push((meta_key.into(), Some(Some(meta))));
                if !is_changed {
                    edits.push(own_row());
                }
            }
        }
        Ok(())
    }
}

/// The changes of one key's rows.
struct RowsOfKey<'a> {
    key: &'a [u8],
    meta_key: &'a [u8],
    /// The keys of field rows among them.
    fields: &'a [&'a [u8]],
    changed: &'a Rows,
}

impl<'a> RowsOfKey<'a> {
    /// The key, name and value of the field row that is put, where that is one of the generation, short, and no
    /// other is.
    fn only_put(&self, generation: u64) -> Option<(&'a [u8], &'a [u8], &'a Bytes)> {
        let put = |key: &&'a [u8]| Some((*key, self.changed.get(*key)?.as_ref()?));
        let mut put = self.fields.iter().filter_map(put);
        let (key, row) = put.next().filter(|_| put.next().is_none())?;
        let (of, name) = RowKey::parse(key)?.field?;
        let is_short = name.len() + row.len() <= FIELD_BYTES_MAX;
        (of == generation && is_short).then_some((key, name, row))
    }
}

/// A row, where `stored` reads stored ones. For a field row it reads two, which have to be of one moment.
pub(super) fn get(key: &[u8], stored: ReadStored<'_>) -> Result<Option<Bytes>, StoreError> {
    if let Some(meta_key) = meta_before(key)
        && let Some(row) = stored(&meta_key)?
        && let Some(packed) = Packed::of(&meta_key, &row)?
        && *packed.field_key(&meta_key) == *key
    {
        return Ok(Some(row.slice_ref(packed.field)));
    }
    stored(key)?.map(|row| unpacked(key, row)).transpose()
}

/// The row of a stored one, both of this key.
pub(super) fn unpacked(key: &[u8], stored: Bytes) -> Result<Bytes, StoreError> {
    match Packed::of(key, &stored)? {
        Some(packed) => Ok(Bytes::copy_from_slice(&packed.meta_row())),
        None => Ok(stored),
    }
}

/// The same of a row that is shown and says whether it is there.
pub(super) fn show(
    key: &[u8],
    stored: ShowStored<'_>,
    show: &mut dyn FnMut(&[u8]),
) -> Result<bool, StoreError> {
    if let Some(meta_key) = meta_before(key) {
        let mut is_shown = Ok(false);
        stored(&meta_key, &mut |row| is_shown = show_field(key, &meta_key, row, show))?;
        if is_shown? {
            return Ok(true);
        }
    }
    let mut shown = Ok(());
    let is_there = stored(key, &mut |row| shown = show_unpacked(key, row, show))?;
    shown.map(|()| is_there)
}

/// Shows a field row that lies in a stored row, and says whether it does.
pub(super) fn show_field(
    key: &[u8],
    meta_key: &[u8],
    stored: &[u8],
    show: &mut dyn FnMut(&[u8]),
) -> Result<bool, StoreError> {
    let packed = Packed::of(meta_key, stored)?;
    let found = packed.filter(|packed| *packed.field_key(meta_key) == *key);
    Ok(found.inspect(|packed| show(packed.field)).is_some())
}

/// Shows the row of a stored one, both of this key.
pub(super) fn show_unpacked(
    key: &[u8],
    stored: &[u8],
    show: &mut dyn FnMut(&[u8]),
) -> Result<(), StoreError> {
    match Packed::of(key, stored)? {
        Some(packed) => show(&packed.meta_row()),
        None => show(stored),
    }
    Ok(())
}

/// Shows the rows from one key up to another, in order or back from the last, where `walk` does so with stored ones.
pub(super) fn walk(
    [from, to]: [&[u8]; 2],
    is_back: bool,
    stored: ReadStored<'_>,
    walk: impl FnOnce(Visit<'_>) -> Result<(), StoreError>,
    visit: Visit<'_>,
) -> Result<(), StoreError> {
    let is_asked = |key: &[u8]| from <= key && key < to;
    // A field row of the range may lie in a row before it.
    let first = match meta_before(from) {
        Some(meta_key) => stored(&meta_key)?.map(|row| (meta_key, row)),
        None => None,
    };
    let show_first = |visit: Visit<'_>| -> Result<ControlFlow<()>, StoreError> {
        let Some((meta_key, row)) = &first else { return Ok(ControlFlow::Continue(())) };
        let Some(packed) = Packed::of(meta_key, row)? else { return Ok(ControlFlow::Continue(())) };
        let key = packed.field_key(meta_key);
        Ok(if is_asked(&key) { visit(&key, packed.field) } else { ControlFlow::Continue(()) })
    };
    if !is_back && show_first(visit)?.is_break() {
        return Ok(());
    }
    let mut damaged = None;
    let mut flow = ControlFlow::Continue(());
    walk(&mut |key, stored| {
        let packed = match Packed::of(key, stored) {
            Ok(Some(packed)) => packed,
            Ok(None) => {
                flow = visit(key, stored);
                return flow;
            }
            Err(error) => {
                damaged = Some(error);
                return ControlFlow::Break(());
            }
        };
        let (meta, field_key) = (packed.meta_row(), packed.field_key(key));
        let rows = [(key, &*meta), (&*field_key, packed.field)];
        let order = if is_back { [1, 0] } else { [0, 1] };
        for (key, row) in order.map(|at| rows[at]) {
            if is_asked(key) {
                flow = visit(key, row);
                if flow.is_break() {
                    break;
                }
            }
        }
        flow
    })?;
    if let Some(error) = damaged {
        return Err(error);
    }
    if is_back && flow.is_continue() {
        let _ = show_first(visit)?;
    }
    Ok(())
}
