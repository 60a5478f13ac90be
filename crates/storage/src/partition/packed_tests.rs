//! Tests of rows that share a stored one: a store shows what a map of rows would, however they are packed.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use proptest::prelude::*;

use super::engine::Reach;
use super::overlay::Overlay;
use super::packed::is_packed;
use super::store::Store;
use super::tests::resources;
use crate::operation::COPY_GENERATIONS_FROM;
use crate::rows::field::FieldHead;
use crate::rows::key::KeyRows;
use crate::rows::meta::{Fields, Kind, Meta, RowBytes};
use crate::rows::{RowsRead, RowsWrite, StoreError};

const KEYS: [&[u8]; 3] = [b"k", b"key", b""];
/// One of them is the name of a key, one is long.
const FIELDS: [&[u8]; 4] = [b"", b"k", b"name", &[b'n'; LONG]];
const LONG: usize = 5_000;
/// A hash under this one is what a copy in slices makes.
const COPIED: usize = 2;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Row = (Vec<u8>, Vec<u8>);

#[derive(Clone, Debug)]
enum Change {
    /// Sets a field, to a short value or a long one.
    Set(usize, usize, bool),
    DeleteField(usize, usize),
    /// Changes the meta row alone.
    Expire(usize),
    /// Changes a field row alone, as a copy of another's rows in parts may.
    SetRow(usize, usize),
    DeleteRow(usize, usize),
    Delete(usize),
    /// Takes the fields away by a range.
    Clear(usize),
    SetString(usize),
    DeleteAll,
}

fn change() -> impl Strategy<Value = Change> {
    let (key, field) = (0..KEYS.len(), 0..FIELDS.len());
    prop_oneof![
        8 => (key.clone(), field.clone(), prop::bool::weighted(0.2))
            .prop_map(|(key, field, is_long)| Change::Set(key, field, is_long)),
        2 => (key.clone(), field.clone()).prop_map(|(key, field)| Change::DeleteField(key, field)),
        2 => key.clone().prop_map(Change::Expire),
        1 => (key.clone(), field.clone()).prop_map(|(key, field)| Change::SetRow(key, field)),
        1 => (key.clone(), field).prop_map(|(key, field)| Change::DeleteRow(key, field)),
        1 => key.clone().prop_map(Change::Delete),
        1 => key.clone().prop_map(Change::Clear),
        1 => key.prop_map(Change::SetString),
        1 => Just(Change::DeleteAll),
    ]
}

/// What happens between two records.
#[derive(Clone, Copy, Debug)]
enum Between {
    Nothing,
    Flush,
    Reopen,
    Packs(bool),
}

fn between() -> impl Strategy<Value = Between> {
    prop_oneof![
        4 => Just(Between::Nothing),
        2 => Just(Between::Flush),
        1 => Just(Between::Reopen),
        2 => any::<bool>().prop_map(Between::Packs),
    ]
}

/// The changes of one record, on their way to the store and to the model.
struct Record<'a> {
    overlay: Overlay<'a>,
    model: &'a mut Model,
    sequence: u64,
}

impl Record<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.overlay.put(key, value);
        self.model.insert(key.to_vec(), value.to_vec());
    }

    fn delete(&mut self, key: &[u8]) {
        self.overlay.delete(key);
        self.model.remove(key);
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) {
        self.overlay.delete_range(from, to);
        self.model.retain(|key, _| **key < *from || *to <= **key);
    }

    fn meta(&self, key: &mut KeyRows) -> Option<Meta> {
        self.model.get(key.meta()).map(|row| Meta::decode(row).unwrap().0)
    }

    fn fields(&self, key: &mut KeyRows) -> Option<Fields> {
        match self.meta(key)?.kind {
            Kind::Hash(fields) => Some(fields),
            Kind::String => None,
        }
    }

    fn put_meta(&mut self, key: &mut KeyRows, kind: Kind, expiry_ms: Option<u64>) {
        let mut row = RowBytes::new();
        Meta { kind, last_change: self.sequence, version: 0, expiry_ms }.encode(&mut row);
        self.put(key.meta(), &row);
    }

    fn field_row(&self, is_long: bool) -> RowBytes {
        let mut row = RowBytes::new();
        FieldHead { version: 1, sequence: self.sequence, expiry_ms: None }.encode(&mut row);
        row.extend_from_slice(&self.sequence.to_le_bytes());
        row.resize(row.len() + if is_long { LONG } else { 0 }, 7);
        row
    }

    fn delete_fields(&mut self, key: &mut KeyRows) {
        let Some(fields) = self.fields(key) else { return };
        for name in FIELDS {
            let row = key.field(fields.generation, name).to_vec();
            if self.model.contains_key(&row) {
                self.delete(&row);
            }
        }
    }

    fn make(&mut self, change: &Change) {
        self.sequence += 1;
        match *change {
            Change::Set(key, field, is_long) => {
                let of_copy = if key == COPIED { COPY_GENERATIONS_FROM } else { 0 };
                let mut key = KeyRows::new(KEYS[key]);
                let new = Fields { generation: of_copy | self.sequence, ..Fields::default() };
                let fields = self.fields(&mut key).unwrap_or(new);
                let row = key.field(fields.generation, FIELDS[field]).to_vec();
                let added = u64::from(!self.model.contains_key(&row));
                self.put(&row, &self.field_row(is_long));
                let fields = Fields { total: fields.total + added, ..fields };
                self.put_meta(&mut key, Kind::Hash(fields), None);
            }
            Change::DeleteField(key, field) => {
                let mut key = KeyRows::new(KEYS[key]);
                let Some(fields) = self.fields(&mut key) else { return };
                let row = key.field(fields.generation, FIELDS[field]).to_vec();
                if !self.model.contains_key(&row) {
                    return;
                }
                self.delete(&row);
                let fields = Fields { total: fields.total - 1, ..fields };
                match fields.total {
                    0 => self.delete(key.meta()),
                    _ => self.put_meta(&mut key, Kind::Hash(fields), None),
                }
            }
            Change::Expire(key) => {
                let mut key = KeyRows::new(KEYS[key]);
                let Some(meta) = self.meta(&mut key) else { return };
                let expiry_ms = (!self.sequence.is_multiple_of(3)).then_some(self.sequence);
                self.put_meta(&mut key, meta.kind, expiry_ms);
            }
            Change::SetRow(key, field) => {
                let mut key = KeyRows::new(KEYS[key]);
                let Some(fields) = self.fields(&mut key) else { return };
                let row = key.field(fields.generation, FIELDS[field]).to_vec();
                if self.model.contains_key(&row) {
                    self.put(&row, &self.field_row(false));
                }
            }
            Change::DeleteRow(key, field) => {
                let mut key = KeyRows::new(KEYS[key]);
                let Some(fields) = self.fields(&mut key) else { return };
                let row = key.field(fields.generation, FIELDS[field]).to_vec();
                // It is made good in the same record or a later one.
                if self.model.contains_key(&row) && fields.total > 1 {
                    self.delete(&row);
                    let fields = Fields { total: fields.total - 1, ..fields };
                    self.put_meta(&mut key, Kind::Hash(fields), None);
                }
            }
            Change::Delete(key) => {
                let mut key = KeyRows::new(KEYS[key]);
                self.delete_fields(&mut key);
                self.delete(key.meta());
            }
            Change::Clear(key) => {
                let mut key = KeyRows::new(KEYS[key]);
                let Some(fields) = self.fields(&mut key) else { return };
                let (from, to) =
                    (key.fields_from(fields.generation), key.fields_to(fields.generation));
                self.delete_range(&from, &to);
                let fields = Fields { total: 0, ..fields };
                self.put_meta(&mut key, Kind::Hash(fields), None);
            }
            Change::SetString(key) => {
                let mut key = KeyRows::new(KEYS[key]);
                self.delete_fields(&mut key);
                self.put_meta(&mut key, Kind::String, None);
            }
            Change::DeleteAll => self.delete_range(&[1], &[2]),
        }
    }
}

fn scanned(
    rows: &dyn RowsRead,
    [from, to]: [&[u8]; 2],
    is_back: bool,
    most: usize,
) -> Result<Vec<Row>, StoreError> {
    let mut seen = Vec::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        seen.push((key.to_vec(), value.to_vec()));
        if seen.len() >= most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    match is_back {
        true => rows.scan_back(from, to, &mut visit)?,
        false => rows.scan(from, to, &mut visit)?,
    }
    Ok(seen)
}

/// Keys at which ranges begin and end, of rows that are there and of some that are not.
fn places(model: &Model) -> Vec<Vec<u8>> {
    let mut places = vec![vec![], vec![1], vec![2]];
    for key in KEYS {
        let mut rows = KeyRows::new(key);
        let meta = rows.meta().to_vec();
        places.push([&*meta, &[0]].concat());
        places.push(meta);
        places.push(rows.field(1, b"").to_vec());
        places.push(rows.end().to_vec());
    }
    places.extend(model.keys().cloned());
    places.extend(model.keys().map(|key| [key, &[0][..]].concat()));
    places
}

fn is_shown(rows: &dyn RowsRead, model: &Model) -> Result<(), StoreError> {
    let places = places(model);
    for key in &places {
        let expected = model.get(key);
        assert_eq!(rows.get(key)?.as_deref(), expected.map(Vec::as_slice), "{key:?}");
        let mut shown = None;
        let is_there = rows.with_value(key, &mut |value| shown = Some(value.to_vec()))?;
        assert_eq!((is_there, shown.as_ref()), (expected.is_some(), expected));
    }
    for (at, from) in places.iter().enumerate() {
        let to = &places[(at * 7 + 3) % places.len()];
        for to in [to, &vec![2]] {
            let mut expected: Vec<_> = match from <= to {
                true => model.range(from.clone()..to.clone()).collect(),
                false => Vec::new(),
            };
            for is_back in [false, true] {
                for most in [1, 2, usize::MAX] {
                    let seen = scanned(rows, [from, to], is_back, most)?;
                    let seen: Vec<_> = seen.iter().map(|(key, value)| (key, value)).collect();
                    assert_eq!(seen, expected[..expected.len().min(most)], "{from:?} {to:?}");
                }
                expected.reverse();
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn packed_rows_are_shown_as_rows(
        records in prop::collection::vec((prop::collection::vec(change(), 1..6), between()), 1..12),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let resources = resources();
        let mut store = Store::open(dir.path(), &resources).unwrap();
        let (mut model, mut sequence) = (Model::new(), 0);
        for (changes, between) in records {
            let overlay = Overlay::new(&store);
            let new_from = sequence + 1;
            let mut record = Record { overlay, model: &mut model, sequence };
            changes.iter().for_each(|change| record.make(change));
            sequence = record.sequence;
            is_shown(&record.overlay, record.model).unwrap();
            let changes = record.overlay.into_changes();
            store.write_changes(changes, new_from, false).unwrap();
            is_shown(&store, &model).unwrap();
            match between {
                Between::Nothing => {}
                Between::Flush => store.flush().unwrap(),
                Between::Reopen => {
                    store.flush().unwrap();
                    drop(store);
                    store = Store::open(dir.path(), &resources).unwrap();
                }
                Between::Packs(packs) => resources.packs.store(packs, Ordering::Relaxed),
            }
            is_shown(&store, &model).unwrap();
            is_shown(&store.snapshot().unwrap(), &model).unwrap();
            let shown = is_shown(&store.cached().unwrap(), &model);
            prop_assert!(matches!(shown, Ok(()) | Err(StoreError::NotCached)));
        }
    }
}

#[test]
fn a_hash_of_one_short_field_is_one_row() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), &resources()).unwrap();
    let (mut model, mut sequence) = (Model::new(), 0);
    let mut write = |change: Change| {
        let overlay = Overlay::new(&store);
        let new_from = sequence + 1;
        let mut record = Record { overlay, model: &mut model, sequence };
        record.make(&change);
        sequence = record.sequence;
        let changes = record.overlay.into_changes();
        store.write_changes(changes, new_from, false).unwrap();
        store.flush().unwrap();
        let mut rows = 0;
        let mut are_packed = 0;
        let mut visit = |key: &[u8], value: &[u8]| {
            rows += 1;
            are_packed += usize::from(is_packed(key, value));
            ControlFlow::Continue(())
        };
        store.engine.walk([&[1], &[2]], Reach::Files, &mut visit).unwrap();
        (rows, are_packed)
    };
    assert_eq!(write(Change::Set(0, 0, false)), (1, 1));
    assert_eq!(write(Change::Set(0, 0, false)), (1, 1), "once more");
    assert_eq!(write(Change::Expire(0)), (1, 1), "its meta row alone");
    assert_eq!(write(Change::Set(0, 1, false)), (3, 0), "two fields");
    assert_eq!(write(Change::DeleteField(0, 1)), (2, 0), "what is not written is not packed");
    assert_eq!(write(Change::Set(0, 0, false)), (1, 1));
    assert_eq!(write(Change::Set(0, 0, true)), (2, 0), "a long one");
    assert_eq!(write(Change::Set(0, 0, false)), (1, 1), "a short one again");
    assert_eq!(write(Change::SetRow(0, 0)), (2, 0), "the field row alone");
    assert_eq!(write(Change::Delete(0)), (0, 0));
    assert_eq!(write(Change::Set(0, 3, false)), (2, 0), "a long name");
    assert_eq!(write(Change::Delete(0)), (0, 0));
    assert_eq!(write(Change::Set(COPIED, 0, false)), (2, 0), "a copy's");
}
