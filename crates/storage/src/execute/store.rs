//! Keys found, put and taken away as a whole: meta rows, the expiry index and the partition's
//! counters kept in step. What a hash's fields hold is `hash_edit`'s.

use std::ops::ControlFlow;

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};

use super::answer::Fault;
use super::context::WriteContext;
use crate::rows::field::FieldHead;
use crate::rows::key::{self, KeyRows, RowKey, StoreKey};
use crate::rows::meta::{Fields, Found, Kind, Meta, RowBytes};
use crate::rows::touch::Touch;
use crate::rows::{RowsRead, RowsWrite, StoreError};
use crate::rows::{removal, swept};
use crate::{ErrorKind, ErrorReply};

/// What is asked for a field that expired, until it is removed.
const FOUND_KEY_BYTES: usize = 48;

/// A hash of more fields is taken away by one range, of fewer one by one: a range costs every
/// later read that passes it.
const POINT_DELETES_MAX: u64 = 64;
/// The entries of the expiry index that belong to a hash of more fields are left to sweeps when it
/// is taken away: looking for them would mean to look at every field.
const EXPIRY_DELETES_MAX: u64 = 256;

/// The refusal of a key of another type.
pub(super) fn wrong_type() -> ErrorReply {
    ErrorReply::new(ErrorKind::WrongType, "Operation against a key holding the wrong kind of value")
}

/// The meta row of a key that is there.
pub(super) fn find<R: RowsRead + ?Sized>(
    rows: &R,
    key: &mut KeyRows,
    now_ms: u64,
) -> Result<Option<Found>, StoreError> {
    let Some(row) = rows.get(key.meta())? else { return Ok(None) };
    let found = Found::new(row)?;
    Ok(if is_live(rows, key, &found.meta, now_ms)? { Some(found) } else { None })
}

/// What is known of a key that is there, and how long its value is where it is a string: the value
/// itself is not taken.
pub(super) fn find_meta<R: RowsRead + ?Sized>(
    rows: &R,
    key: &mut KeyRows,
    now_ms: u64,
) -> Result<Option<(Meta, usize)>, StoreError> {
    let mut decoded = None;
    rows.with_value(key.meta(), &mut |row| {
        decoded = Some(Meta::decode(row).map(|(meta, value)| (meta, value.len())));
    })?;
    let Some((meta, length)) = decoded.transpose()? else { return Ok(None) };
    Ok(if is_live(rows, key, &meta, now_ms)? { Some((meta, length)) } else { None })
}

/// The string under a key.
pub(super) fn find_string<R: RowsRead + ?Sized>(
    rows: &R,
    key: &[u8],
    now_ms: u64,
) -> Result<Option<Found>, Fault> {
    match find(rows, &mut KeyRows::new(key), now_ms)? {
        Some(found) if found.meta.kind != Kind::String => Err(wrong_type().into()),
        found => Ok(found),
    }
}

/// The hash under a key: what its meta row knows of its fields.
pub(super) fn find_hash<R: RowsRead + ?Sized>(
    rows: &R,
    key: &mut KeyRows,
    now_ms: u64,
) -> Result<Option<Fields>, Fault> {
    match find_meta(rows, key, now_ms)?.map(|(meta, _)| meta.kind) {
        Some(Kind::String) => Err(wrong_type().into()),
        Some(Kind::Hash(fields)) => Ok(Some(fields)),
        None => Ok(None),
    }
}

/// Whether a stored key is there at a time: neither it nor all of its fields have expired.
pub(super) fn is_live<R: RowsRead + ?Sized>(
    rows: &R,
    key: &KeyRows,
    meta: &Meta,
    now_ms: u64,
) -> Result<bool, StoreError> {
    if meta.expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms) {
        return Ok(false);
    }
    match &meta.kind {
        Kind::Hash(fields) if fields.expiring == fields.total => {
            Ok(count_live(rows, key, fields, now_ms)? > 0)
        }
        _ => Ok(true),
    }
}

/// How many of a hash's fields are there at a time.
pub(super) fn count_live<R: RowsRead + ?Sized>(
    rows: &R,
    key: &KeyRows,
    fields: &Fields,
    now_ms: u64,
) -> Result<u64, StoreError> {
    let mut expired = 0;
    visit_expired(rows, key, fields, now_ms, &mut |_, _| {
        expired += 1;
        Ok(())
    })?;
    Ok(fields.total.saturating_sub(expired))
}

/// Is shown when a field expired, and its row's key.
type VisitExpired<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<(), StoreError>;

/// Shows the expiry and row key of each of a hash's fields that has expired. It looks at what
/// is due in the expiry index, which is little where sweeps are regular; where that is more than
/// the hash, at the hash.
fn visit_expired<R: RowsRead + ?Sized>(
    rows: &R,
    key: &KeyRows,
    fields: &Fields,
    now_ms: u64,
    visit: VisitExpired<'_>,
) -> Result<(), StoreError> {
    if fields.expiring == 0 || fields.expiring_from_ms > now_ms {
        return Ok(());
    }
    let from = key::expiry_from(fields.expiring_from_ms).max(swept::due_from(rows)?);
    let to = key::expiry_after(now_ms);
    let mut due = 0;
    rows.scan(&from, &to, &mut |_, _| {
        due += 1;
        if due > fields.total { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if due == 0 {
        return Ok(());
    }
    let mut failed = Ok(());
    let mut show = |expiry_ms, row: &[u8]| match visit(expiry_ms, row) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Err(error);
            ControlFlow::Break(())
        }
    };
    let fields_from = key.fields_from(fields.generation);
    if due <= fields.total {
        rows.scan(&from, &to, &mut |entry, _| match key::parse_expiry(entry) {
            Some((expiry_ms, row)) if row.starts_with(&fields_from) => show(expiry_ms, row),
            _ => ControlFlow::Continue(()),
        })?;
        return failed;
    }
    let mut damaged = None;
    rows.scan(&fields_from, &key.fields_to(fields.generation), &mut |row, value| {
        match FieldHead::decode(value).map(|(head, _)| head.expiry_ms) {
            Ok(Some(expiry_ms)) if expiry_ms <= now_ms => show(expiry_ms, row),
            Ok(_) => ControlFlow::Continue(()),
            Err(error) => {
                damaged = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    damaged.map_or(failed, Err)
}

/// The last change of a key that is absent and was never there.
pub const NEVER_THERE: u64 = 1 << 63;

/// The number of a key's last change, for comparison alone. An absent key's has the bit of
/// [`NEVER_THERE`] and another number after a key may have been there; also that of a key that is
/// there is another one after fields have expired.
///
/// # Errors
/// Where the store fails.
pub fn last_change<R: RowsRead + ?Sized>(
    rows: &R,
    key: &[u8],
    now_ms: u64,
) -> Result<u64, StoreError> {
    let mut key = KeyRows::new(key);
    let Some(row) = rows.get(key.meta())? else {
        return Ok(NEVER_THERE | removal::last(rows, key.key())?);
    };
    let found = Found::new(row)?;
    if !is_live(rows, &key, &found.meta, now_ms)? {
        // What `Edit::note_removal` will say once its rows are gone.
        let last = removal::last(rows, key.key())?.max(found.meta.last_change);
        return Ok(NEVER_THERE | last);
    }
    let mut expired = 0u64;
    if let Kind::Hash(fields) = &found.meta.kind {
        visit_expired(rows, &key, fields, now_ms, &mut |_, _| {
            expired += 1;
            Ok(())
        })?;
    }
    // Sequence numbers stay far below 2^40, so that the two do not meet.
    Ok(found.meta.last_change ^ (expired << 40))
}

/// Whether a key's last change is the one that was seen; 0 stands for any absence.
///
/// # Errors
/// Where the store fails.
pub fn is_unchanged<R: RowsRead + ?Sized>(
    rows: &R,
    key: &[u8],
    seen: u64,
    now_ms: u64,
) -> Result<bool, StoreError> {
    let change = last_change(rows, key, now_ms)?;
    Ok(change == seen || (seen == 0 && change & NEVER_THERE != 0))
}

/// Rows being changed by one operation.
pub(super) struct Edit<'a, W: ?Sized> {
    pub rows: &'a mut W,
    pub context: &'a mut WriteContext,
    /// The number that all changes share, where they are one to those who count them.
    shared: Option<u64>,
}

impl<'a, W: RowsWrite + ?Sized> Edit<'a, W> {
    /// Changes of which each has its number.
    pub fn new(rows: &'a mut W, context: &'a mut WriteContext) -> Self {
        Self { rows, context, shared: None }
    }

    /// Changes that all have the next number.
    pub fn as_one(rows: &'a mut W, context: &'a mut WriteContext) -> Self {
        let shared = Some(context.sequence + 1);
        Self { rows, context, shared }
    }

    /// The expiry of a key that is written and whose own does not change: a new one has its table's default.
    pub fn kept_expiry_ms(&self, old: Option<&Meta>) -> Option<u64> {
        old.map_or(self.context.default_expiry_ms, |old| old.expiry_ms)
    }

    /// Counts a change: its number.
    pub fn change(&mut self) -> u64 {
        self.context.sequence = self.shared.unwrap_or(self.context.sequence + 1);
        self.context.sequence
    }

    /// The meta row of a key that is there, all of its fields being there too: what has expired
    /// is taken away first.
    pub fn open(&mut self, key: &mut KeyRows) -> Result<Option<Found>, StoreError> {
        let now_ms = self.context.now_ms;
        let Some(row) = self.rows.get(key.meta())? else { return Ok(None) };
        let mut found = Found::new(row)?;
        if found.meta.expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms) {
            self.remove(key, &found.meta)?;
            return Ok(None);
        }
        let Kind::Hash(mut fields) = found.meta.kind else { return Ok(Some(found)) };
        let mut expired: Vec<(u64, StoreKey)> = Vec::new();
        let rows = &*self.rows;
        visit_expired(rows, key, &fields, now_ms, &mut |expiry_ms, row| {
            rows.hold(FOUND_KEY_BYTES)?;
            expired.push((expiry_ms, StoreKey::from_slice(row)));
            Ok(())
        })?;
        if expired.is_empty() {
            return Ok(Some(found));
        }
        for (expiry_ms, row) in &expired {
            self.rows.delete(row);
            self.rows.delete(&key::expiry_entry(*expiry_ms, row));
            self.change();
            if let Some(RowKey { field: Some((_, id)), .. }) = RowKey::parse(row) {
                self.rows.touch(Touch::Document { key: key.key(), id, is_new: false });
            }
        }
        let count = expired.len() as u64;
        fields.total = fields.total.saturating_sub(count);
        fields.expiring = fields.expiring.saturating_sub(count);
        fields.expiring_from_ms = now_ms.saturating_add(1);
        found.meta.kind = Kind::Hash(fields);
        if fields.total == 0 {
            self.remove(key, &found.meta)?;
            return Ok(None);
        }
        found.meta.last_change = self.change();
        self.put_hash(key, Some(&found.meta), &found.meta);
        Ok(Some(found))
    }

    /// The string under a key.
    pub fn open_string(&mut self, key: &mut KeyRows) -> Result<Option<Found>, Fault> {
        match self.open(key)? {
            Some(found) if found.meta.kind != Kind::String => Err(wrong_type().into()),
            found => Ok(found),
        }
    }

    /// Puts a string, its value being the parts one after the other, in the place of what was
    /// there. One that has expired already only takes that away.
    pub fn put_string(
        &mut self,
        key: &mut KeyRows,
        mut old: Option<&Meta>,
        expiry_ms: Option<u64>,
        parts: &[&[u8]],
    ) -> Result<(), StoreError> {
        let is_past = expiry_ms.is_some_and(|expiry_ms| expiry_ms <= self.context.now_ms);
        let is_new = old.is_none();
        if let Some(meta) = old
            && (is_past || meta.kind != Kind::String)
        {
            self.remove(key, meta)?;
            old = None;
        }
        if is_past {
            return Ok(());
        }
        let version = old.map_or(1, |old| old.version.saturating_add(1));
        let meta = Meta { kind: Kind::String, last_change: self.change(), version, expiry_ms };
        self.put_string_row(key, old, &meta, parts);
        let key = key.key();
        self.rows.touch(Touch::Document { key, id: key, is_new });
        Ok(())
    }

    fn put_string_row(
        &mut self,
        key: &mut KeyRows,
        old: Option<&Meta>,
        meta: &Meta,
        parts: &[&[u8]],
    ) {
        let mut head = RowBytes::new();
        meta.encode(&mut head);
        let mut row: SmallVec<[&[u8]; 4]> = smallvec![&head[..]];
        row.extend_from_slice(parts);
        self.put_meta(key, old, meta, &row);
    }

    /// Puts a hash's meta row.
    pub fn put_hash(&mut self, key: &mut KeyRows, old: Option<&Meta>, meta: &Meta) {
        let mut row = RowBytes::new();
        meta.encode(&mut row);
        self.put_meta(key, old, meta, &[&row]);
    }

    fn put_meta(&mut self, key: &mut KeyRows, old: Option<&Meta>, meta: &Meta, row: &[&[u8]]) {
        let old_expiry_ms = old.and_then(|old| old.expiry_ms);
        if old.is_none() {
            self.context.keys += 1;
        }
        self.count_expiry(old_expiry_ms.is_some(), meta.expiry_ms.is_some());
        self.move_expiry(key.meta(), old_expiry_ms, meta.expiry_ms);
        self.rows.put_parts(key.meta(), row);
    }

    /// Gives a key that is there another expiry, or none; a past one takes it away.
    pub fn set_expiry(
        &mut self,
        key: &mut KeyRows,
        found: &Found,
        expiry_ms: Option<u64>,
    ) -> Result<(), StoreError> {
        if expiry_ms.is_some_and(|expiry_ms| expiry_ms <= self.context.now_ms) {
            return self.remove(key, &found.meta);
        }
        let meta = Meta { expiry_ms, last_change: self.change(), ..found.meta };
        match found.meta.kind {
            Kind::String => {
                self.put_string_row(key, Some(&found.meta), &meta, &[found.value()]);
                let key = key.key();
                self.rows.touch(Touch::Document { key, id: key, is_new: false });
            }
            Kind::Hash(_) => self.put_hash(key, Some(&found.meta), &meta),
        }
        Ok(())
    }

    /// Takes a key away, with all of its fields.
    pub fn remove(&mut self, key: &mut KeyRows, meta: &Meta) -> Result<(), StoreError> {
        match &meta.kind {
            Kind::Hash(fields) => {
                self.remove_fields(key, fields)?;
                self.rows.touch(Touch::Key(key.key()));
            }
            Kind::String => {
                let key = key.key();
                self.rows.touch(Touch::Document { key, id: key, is_new: false });
            }
        }
        self.remove_meta(key, meta)
    }

    /// Takes a key's meta row away: nothing else of the key is left.
    pub fn remove_meta(&mut self, key: &mut KeyRows, meta: &Meta) -> Result<(), StoreError> {
        self.move_expiry(key.meta(), meta.expiry_ms, None);
        self.rows.delete(key.meta());
        let change = self.change();
        self.note_removal(key, meta, change)?;
        self.context.keys = self.context.keys.saturating_sub(1);
        self.count_expiry(meta.expiry_ms.is_some(), false);
        Ok(())
    }

    /// Notes that a key is there no more. One that expired was gone before its rows went, which is
    /// no change to those who watch it.
    fn note_removal(&mut self, key: &KeyRows, meta: &Meta, change: u64) -> Result<(), StoreError> {
        let is_expired = meta.expiry_ms.is_some_and(|expiry_ms| expiry_ms <= self.context.now_ms);
        let last = if is_expired {
            removal::last(self.rows, key.key())?.max(meta.last_change)
        } else {
            change
        };
        self.rows.put(&key::removal(key.key()), &removal::encode(last));
        Ok(())
    }

    fn remove_fields(&mut self, key: &KeyRows, fields: &Fields) -> Result<(), StoreError> {
        let (from, to) = (key.fields_from(fields.generation), key.fields_to(fields.generation));
        let is_small = fields.total <= POINT_DELETES_MAX;
        // What is left in the expiry index names a generation that is there no more.
        let leaves_entries = self.context.is_bounded && fields.total > EXPIRY_DELETES_MAX;
        let mut doomed: SmallVec<[StoreKey; 8]> = SmallVec::new();
        if (fields.expiring > 0 && !leaves_entries) || is_small {
            let mut damage = None;
            self.rows.scan(&from, &to, &mut |row, value| {
                match FieldHead::decode(value) {
                    Ok((head, _)) => {
                        if let Some(expiry_ms) = head.expiry_ms {
                            doomed.push(key::expiry_entry(expiry_ms, row));
                        }
                    }
                    Err(error) => damage = Some(error),
                }
                if is_small {
                    doomed.push(StoreKey::from_slice(row));
                }
                if damage.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            if let Some(error) = damage {
                return Err(error);
            }
        }
        for row in &doomed {
            self.rows.delete(row);
        }
        if !is_small {
            self.rows.delete_range(&from, &to);
        }
        Ok(())
    }

    /// Moves a row's entry of the expiry index.
    pub fn move_expiry(&mut self, row: &[u8], from_ms: Option<u64>, to_ms: Option<u64>) {
        if from_ms == to_ms {
            return;
        }
        if let Some(expiry_ms) = from_ms {
            self.rows.delete(&key::expiry_entry(expiry_ms, row));
        }
        if let Some(expiry_ms) = to_ms {
            self.rows.put(&key::expiry_entry(expiry_ms, row), &[]);
        }
    }

    fn count_expiry(&mut self, before: bool, after: bool) {
        let expires = &mut self.context.expires;
        match (before, after) {
            (false, true) => *expires += 1,
            (true, false) => *expires = expires.saturating_sub(1),
            _ => {}
        }
    }
}

/// A number as a string's value.
pub(super) fn integer_bytes(value: i64) -> Bytes {
    value.to_string().into()
}
