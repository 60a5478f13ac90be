//! One hash being changed: its field rows, the expiry index, and the counts in its meta row
//! kept in step. The meta row is written once, at the end.

use bytes::Bytes;

use super::answer::Fault;
use super::store::{Edit, wrong_type};
use crate::rows::field::{Field, FieldHead};
use crate::rows::key::KeyRows;
use crate::rows::meta::{Fields, Found, Kind, Meta, RowBytes};
use crate::rows::touch::Touch;
use crate::rows::{RowsWrite, StoreError};

/// A hash being changed.
pub(super) struct HashEdit {
    key: KeyRows,
    /// The meta row as it was; `None` for a hash that is being made.
    old: Option<Meta>,
    pub fields: Fields,
    is_changed: bool,
    /// Whether documents are noted one by one, and not the key as a whole.
    is_noted: bool,
}

impl HashEdit {
    /// The hash under a key, where there is one.
    pub fn open<W: RowsWrite + ?Sized>(
        edit: &mut Edit<'_, W>,
        key: &[u8],
    ) -> Result<Option<Self>, Fault> {
        let mut key = KeyRows::new(key);
        let Some(found) = edit.open(&mut key)? else { return Ok(None) };
        let Kind::Hash(fields) = found.meta.kind else { return Err(wrong_type().into()) };
        Ok(Some(Self::of(key, found.meta, fields)))
    }

    /// The hash of a meta row, some of whose fields may have expired.
    pub fn of(key: KeyRows, meta: Meta, fields: Fields) -> Self {
        Self { key, old: Some(meta), fields, is_changed: false, is_noted: true }
    }

    /// The hash under a key, or a new one.
    pub fn open_or_new<W: RowsWrite + ?Sized>(
        edit: &mut Edit<'_, W>,
        key: &[u8],
    ) -> Result<Self, Fault> {
        if let Some(hash) = Self::open(edit, key)? {
            return Ok(hash);
        }
        Ok(Self::new(edit, KeyRows::new(key)))
    }

    /// A new hash under a key that is not there.
    pub fn new<W: RowsWrite + ?Sized>(edit: &mut Edit<'_, W>, key: KeyRows) -> Self {
        let fields = Fields { generation: edit.change(), ..Fields::default() };
        Self { key, old: None, fields, is_changed: false, is_noted: true }
    }

    /// A new hash of many fields under a key that is not there: noted as a whole.
    pub fn new_in_bulk<W: RowsWrite + ?Sized>(edit: &mut Edit<'_, W>, key: KeyRows) -> Self {
        edit.rows.touch(Touch::Key(key.key()));
        Self { is_noted: false, ..Self::new(edit, key) }
    }

    /// The hash that a string becomes, as the field that has the key's own name, its version,
    /// number and expiry of the key staying: to who reads documents nothing changes.
    pub fn of_string<W: RowsWrite + ?Sized>(
        edit: &mut Edit<'_, W>,
        key: KeyRows,
        found: &Found,
    ) -> Self {
        let Meta { version, last_change: sequence, .. } = found.meta;
        let mut hash = Self { old: Some(found.meta), ..Self::new(edit, key) };
        let name = Bytes::copy_from_slice(hash.key.key());
        let head = FieldHead { version, sequence, expiry_ms: None };
        hash.put_row(edit, &name, found.value(), None, &head);
        hash
    }

    /// Gives the whole hash an expiry, when it is written.
    pub fn finish_with_expiry<W: RowsWrite + ?Sized>(
        self,
        edit: &mut Edit<'_, W>,
        expiry_ms: Option<u64>,
    ) -> Result<(), StoreError> {
        self.write(edit, expiry_ms)
    }

    /// A field's row.
    pub fn get<W: RowsWrite + ?Sized>(
        &mut self,
        edit: &Edit<'_, W>,
        field: &[u8],
    ) -> Result<Option<Field>, StoreError> {
        edit.rows.get(self.key.field(self.fields.generation, field))?.map(Field::new).transpose()
    }

    /// Sets a field, whose row was `old`. One that has expired already is taken away.
    pub fn set<W: RowsWrite + ?Sized>(
        &mut self,
        edit: &mut Edit<'_, W>,
        field: &[u8],
        value: &[u8],
        old: Option<&FieldHead>,
        expiry_ms: Option<u64>,
    ) {
        let version = old.map_or(1, |old| old.version.saturating_add(1));
        self.put(edit, field, value, old, version, expiry_ms);
    }

    /// Gives a field another expiry, or none. A past one takes the field away.
    pub fn set_expiry<W: RowsWrite + ?Sized>(
        &mut self,
        edit: &mut Edit<'_, W>,
        field: &[u8],
        old: &Field,
        expiry_ms: Option<u64>,
    ) {
        self.put(edit, field, old.value(), Some(&old.head), old.head.version, expiry_ms);
    }

    fn put<W: RowsWrite + ?Sized>(
        &mut self,
        edit: &mut Edit<'_, W>,
        field: &[u8],
        value: &[u8],
        old: Option<&FieldHead>,
        version: u64,
        expiry_ms: Option<u64>,
    ) {
        if expiry_ms.is_some_and(|expiry_ms| expiry_ms <= edit.context.now_ms) {
            if let Some(old) = old {
                self.delete(edit, field, old);
            }
            return;
        }
        let head = FieldHead { version, sequence: edit.change(), expiry_ms };
        self.put_row(edit, field, value, old, &head);
        self.note(edit, field, old.is_none());
    }

    /// Sets a document, whose row was `old`, with its version, for good.
    pub fn set_document<W: RowsWrite + ?Sized>(
        &mut self,
        edit: &mut Edit<'_, W>,
        id: &[u8],
        source: &Bytes,
        old: Option<&FieldHead>,
        version: u64,
        is_new: bool,
    ) {
        let head = FieldHead { version, sequence: edit.change(), expiry_ms: None };
        self.put_row(edit, id, source, old, &head);
        if self.is_noted {
            let touch = Touch::Document { key: self.key.key(), id, is_new };
            edit.rows.touch_written(touch, source);
        }
    }

    fn note<W: RowsWrite + ?Sized>(&self, edit: &mut Edit<'_, W>, id: &[u8], is_new: bool) {
        if self.is_noted {
            edit.rows.touch(Touch::Document { key: self.key.key(), id, is_new });
        }
    }

    fn put_row<W: RowsWrite + ?Sized>(
        &mut self,
        edit: &mut Edit<'_, W>,
        field: &[u8],
        value: &[u8],
        old: Option<&FieldHead>,
        head: &FieldHead,
    ) {
        let expiry_ms = head.expiry_ms;
        let mut head_bytes = RowBytes::new();
        head.encode(&mut head_bytes);
        let old_expiry_ms = old.and_then(|old| old.expiry_ms);
        let row = self.key.field(self.fields.generation, field);
        edit.move_expiry(row, old_expiry_ms, expiry_ms);
        edit.rows.put_parts(row, &[&head_bytes, value]);
        if old.is_none() {
            self.fields.total += 1;
        }
        self.count_expiry(old_expiry_ms, expiry_ms);
        self.is_changed = true;
    }

    /// Takes away a field, whose row was `old`.
    pub fn delete<W: RowsWrite + ?Sized>(
        &mut self,
        edit: &mut Edit<'_, W>,
        field: &[u8],
        old: &FieldHead,
    ) {
        let row = self.key.field(self.fields.generation, field);
        edit.move_expiry(row, old.expiry_ms, None);
        edit.rows.delete(row);
        edit.change();
        self.note(edit, field, false);
        self.fields.total = self.fields.total.saturating_sub(1);
        self.count_expiry(old.expiry_ms, None);
        self.is_changed = true;
    }

    fn count_expiry(&mut self, old_ms: Option<u64>, new_ms: Option<u64>) {
        let fields = &mut self.fields;
        if old_ms.is_some() {
            fields.expiring = fields.expiring.saturating_sub(1);
        }
        if let Some(new_ms) = new_ms {
            let is_first = fields.expiring == 0;
            fields.expiring += 1;
            fields.expiring_from_ms =
                if is_first { new_ms } else { fields.expiring_from_ms.min(new_ms) };
        }
    }

    /// Writes the meta row, where anything changed. A hash without fields is gone.
    pub fn finish<W: RowsWrite + ?Sized>(self, edit: &mut Edit<'_, W>) -> Result<(), StoreError> {
        let expiry_ms = edit.kept_expiry_ms(self.old.as_ref());
        self.write(edit, expiry_ms)
    }

    fn write<W: RowsWrite + ?Sized>(
        mut self,
        edit: &mut Edit<'_, W>,
        expiry_ms: Option<u64>,
    ) -> Result<(), StoreError> {
        if !self.is_changed {
            return Ok(());
        }
        let kind = Kind::Hash(self.fields);
        if self.fields.total > 0 {
            let meta = Meta { kind, last_change: edit.change(), version: 0, expiry_ms };
            edit.put_hash(&mut self.key, self.old.as_ref(), &meta);
        } else if let Some(old) = self.old {
            edit.remove_meta(&mut self.key, &old)?;
        }
        Ok(())
    }
}
