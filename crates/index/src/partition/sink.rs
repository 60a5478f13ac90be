//! From the values of a document to the record that is indexed.

use super::layout::{Kind, Layout, ROUTED, Target};
use super::record::Record;
use crate::document::{Leaf, Sink};
use crate::mapping::Field;

/// Fills a record with a document's values.
pub(super) struct RecordSink<'a> {
    layout: &'a Layout,
    pub record: Record,
    /// The fields of this document that have a value and no column.
    exists: Vec<u64>,
}

impl<'a> RecordSink<'a> {
    /// A record of the document `id` of the row key `key`.
    pub fn new(layout: &'a Layout, key: &[u8], id: &str) -> Self {
        let mut record = Record::default();
        record.text(layout.id_field(), id);
        if key != id.as_bytes() {
            record.bytes(layout.key_field(), key);
            record.u64(layout.exists_field(), ROUTED);
        }
        Self { layout, record, exists: Vec::new() }
    }

    fn exists(&mut self, target: &Target) {
        if target.column.is_none() && !self.exists.contains(&target.exists_code) {
            self.exists.push(target.exists_code);
            self.record.u64(self.layout.exists_field(), target.exists_code);
        }
    }

    /// Adds the value of a field that every document has.
    pub fn constant(&mut self, field: &Field) {
        if let (Some(target), Some(value)) =
            (self.layout.planned(field.ordinal()), field.constant())
        {
            self.record.text(target.field, value);
        }
    }
}

impl Sink for RecordSink<'_> {
    fn leaf(&mut self, field: &Field, leaf: Leaf<'_>) {
        let layout = self.layout;
        let Some(target) = layout.planned(field.ordinal()) else { return };
        match (&leaf, &target.kind) {
            (Leaf::Text(text), _) => self.record.text(target.field, text),
            (Leaf::Long(value), _) => self.record.i64(target.field, *value),
            (Leaf::Unsigned(value), _) => self.record.u64(target.field, *value),
            (Leaf::Double(value), _) => self.record.f64(target.field, *value),
            (Leaf::Ip(address), _) => self.record.ip(target.field, *address),
            (Leaf::Point { latitude, longitude }, Kind::GeoPoint { .. }) => {
                self.record.f64(target.field, *latitude);
                self.record.f64(layout.longitude_field(target), *longitude);
                return;
            }
            (Leaf::Point { .. } | Leaf::Present | Leaf::TooLong, _) => {}
        }
        self.exists(target);
    }

    fn ignored(&mut self, path: &str) {
        self.record.text(self.layout.ignored_field(), path);
    }
}
