//! A document as Tantivy takes it in: one list of values and one buffer of text, so that a
//! document is two allocations.

use std::net::Ipv6Addr;

use tantivy::schema::Field as Slot;
use tantivy::schema::document::{Document, ReferenceValue, ReferenceValueLeaf, Value};

/// A document to be indexed.
#[derive(Debug, Default)]
pub(super) struct Record {
    values: Vec<(Slot, Stored)>,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Stored {
    Text { from: u32, to: u32 },
    Bytes { from: u32, to: u32 },
    I64(i64),
    U64(u64),
    F64(f64),
    Ip(Ipv6Addr),
}

impl Record {
    pub fn text(&mut self, slot: Slot, text: &str) {
        let (from, to) = self.keep(text.as_bytes());
        self.values.push((slot, Stored::Text { from, to }));
    }

    pub fn bytes(&mut self, slot: Slot, bytes: &[u8]) {
        let (from, to) = self.keep(bytes);
        self.values.push((slot, Stored::Bytes { from, to }));
    }

    pub fn i64(&mut self, slot: Slot, value: i64) {
        self.values.push((slot, Stored::I64(value)));
    }

    pub fn u64(&mut self, slot: Slot, value: u64) {
        self.values.push((slot, Stored::U64(value)));
    }

    pub fn f64(&mut self, slot: Slot, value: f64) {
        self.values.push((slot, Stored::F64(value)));
    }

    pub fn ip(&mut self, slot: Slot, value: Ipv6Addr) {
        self.values.push((slot, Stored::Ip(value)));
    }

    /// Keeps bytes; a document is far smaller than 4 GiB, and what is past that is left out.
    fn keep(&mut self, bytes: &[u8]) -> (u32, u32) {
        let from = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(bytes);
        (from, u32::try_from(self.bytes.len()).unwrap_or(u32::MAX))
    }

    fn slice(&self, from: u32, to: u32) -> &[u8] {
        self.bytes.get(from as usize..to as usize).unwrap_or_default()
    }
}

impl Document for Record {
    type Value<'a> = RecordValue<'a>;
    type FieldsValuesIter<'a> = RecordIter<'a>;

    fn iter_fields_and_values(&self) -> RecordIter<'_> {
        RecordIter { record: self, values: self.values.iter() }
    }
}

pub(super) struct RecordIter<'a> {
    record: &'a Record,
    values: std::slice::Iter<'a, (Slot, Stored)>,
}

impl<'a> Iterator for RecordIter<'a> {
    type Item = (Slot, RecordValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (slot, stored) = self.values.next()?;
        Some((*slot, RecordValue { record: self.record, stored: *stored }))
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RecordValue<'a> {
    record: &'a Record,
    stored: Stored,
}

impl<'a> Value<'a> for RecordValue<'a> {
    type ArrayIter = std::iter::Empty<Self>;
    type ObjectIter = std::iter::Empty<(&'a str, Self)>;

    fn as_value(&self) -> ReferenceValue<'a, Self> {
        ReferenceValue::Leaf(match self.stored {
            // The bytes were a `str` when they were kept.
            Stored::Text { from, to } => ReferenceValueLeaf::Str(
                std::str::from_utf8(self.record.slice(from, to)).unwrap_or_default(),
            ),
            Stored::Bytes { from, to } => ReferenceValueLeaf::Bytes(self.record.slice(from, to)),
            Stored::I64(value) => ReferenceValueLeaf::I64(value),
            Stored::U64(value) => ReferenceValueLeaf::U64(value),
            Stored::F64(value) => ReferenceValueLeaf::F64(value),
            Stored::Ip(value) => ReferenceValueLeaf::IpAddr(value),
        })
    }
}
