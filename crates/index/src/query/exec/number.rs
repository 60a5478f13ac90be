//! Filters on columns of numbers: ranges, sets of values, and whether there is a value.

use std::fmt::Debug;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use tantivy::columnar::ColumnIndex;
use tantivy::fastfield::Column;
use tantivy::{DocId, SegmentReader};

use super::filter::{Filter, Matches, SegmentFilter};

/// A type of values that a column may have.
pub(crate) trait Value: Copy + PartialOrd + Debug + Default + Send + Sync + 'static {
    fn open(reader: &SegmentReader, name: &str) -> tantivy::Result<Option<Column<Self>>>;

    /// A whole number that is equal for equal values.
    fn key(self) -> u64;
}

impl Value for i64 {
    fn open(reader: &SegmentReader, name: &str) -> tantivy::Result<Option<Column<Self>>> {
        reader.fast_fields().column_opt(name)
    }

    fn key(self) -> u64 {
        self.cast_unsigned()
    }
}

impl Value for u64 {
    fn open(reader: &SegmentReader, name: &str) -> tantivy::Result<Option<Column<Self>>> {
        reader.fast_fields().column_opt(name)
    }

    fn key(self) -> u64 {
        self
    }
}

impl Value for f64 {
    fn open(reader: &SegmentReader, name: &str) -> tantivy::Result<Option<Column<Self>>> {
        reader.fast_fields().column_opt(name)
    }

    fn key(self) -> u64 {
        // The two zeros are equal.
        if self == 0.0 { 0 } else { self.to_bits() }
    }
}

/// Values from one to another, both included.
#[derive(Clone, Debug)]
pub(crate) struct InRange<T> {
    pub column: String,
    pub range: RangeInclusive<T>,
}

impl<T: Value> Filter for InRange<T> {
    fn segment(&self, reader: &SegmentReader) -> tantivy::Result<Matches> {
        let Some(column) = T::open(reader, &self.column)? else { return Ok(Matches::None) };
        Ok(range_of(column, self.range.clone(), reader.max_doc()))
    }
}

/// The matches of a range, most cheaply: the ends of a column are known without reading it.
pub(crate) fn range_of<T: Value>(
    column: Column<T>,
    range: RangeInclusive<T>,
    max_doc: u32,
) -> Matches {
    if column.values.num_vals() == 0 || range.is_empty() {
        return Matches::None;
    }
    let (least, most) = (column.min_value(), column.max_value());
    if least > *range.end() || most < *range.start() {
        return Matches::None;
    }
    let is_full = matches!(column.index, ColumnIndex::Full) && column.num_docs() == max_doc;
    if is_full && *range.start() <= least && most <= *range.end() {
        return Matches::All;
    }
    Matches::Filter(Box::new(SegmentRange { column, range }))
}

struct SegmentRange<T> {
    column: Column<T>,
    range: RangeInclusive<T>,
}

impl<T: Value> SegmentFilter for SegmentRange<T> {
    fn matches(&mut self, doc: DocId) -> bool {
        self.column.values_for_doc(doc).any(|value| self.range.contains(&value))
    }

    fn collect(&mut self, window: Range<DocId>, out: &mut Vec<DocId>) {
        self.column.get_docids_for_value_range(self.range.clone(), window, out);
    }

    fn cost(&self) -> u64 {
        2
    }
}

/// A set of numbers that is asked often.
#[derive(Debug)]
pub(crate) enum Set {
    /// A bit for every number from `least` on.
    Bits { least: u64, bits: Vec<u64> },
    /// Slots of a power of two, half of them free; 0 marks a free one.
    Slots { slots: Vec<u64>, shift: u32, has_zero: bool },
}

impl Set {
    /// A set of the keys of values.
    pub(crate) fn new(keys: &[u64]) -> Self {
        let least = keys.iter().copied().min().unwrap_or(0);
        let most = keys.iter().copied().max().unwrap_or(0);
        let span = most - least;
        let room = (keys.len() as u64).saturating_mul(256).max(1 << 16);
        if span < room {
            let words = usize::try_from(span / 64 + 1).unwrap_or(1);
            let mut bits = vec![0u64; words];
            for key in keys {
                let offset = key - least;
                if let Some(word) = bits.get_mut(usize::try_from(offset / 64).unwrap_or(0)) {
                    *word |= 1 << (offset % 64);
                }
            }
            return Self::Bits { least, bits };
        }
        let size = (keys.len() * 2).next_power_of_two().max(16);
        let shift = 64 - size.trailing_zeros();
        let mut slots = vec![0u64; size];
        let mut has_zero = false;
        for key in keys {
            if *key == 0 {
                has_zero = true;
                continue;
            }
            let mut at = slot(*key, shift);
            while slots[at] != 0 && slots[at] != *key {
                at = (at + 1) & (size - 1);
            }
            slots[at] = *key;
        }
        Self::Slots { slots, shift, has_zero }
    }

    #[inline]
    pub(crate) fn contains(&self, key: u64) -> bool {
        match self {
            Self::Bits { least, bits } => {
                let offset = key.wrapping_sub(*least);
                usize::try_from(offset / 64)
                    .ok()
                    .and_then(|word| bits.get(word))
                    .is_some_and(|word| word >> (offset % 64) & 1 == 1)
            }
            Self::Slots { slots, shift, has_zero } => {
                if key == 0 {
                    return *has_zero;
                }
                let mut at = slot(key, *shift);
                loop {
                    let found = slots[at];
                    if found == key {
                        return true;
                    }
                    if found == 0 {
                        return false;
                    }
                    at = (at + 1) & (slots.len() - 1);
                }
            }
        }
    }
}

/// Fibonacci hashing: the high bits of a product.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the shift leaves few bits")]
fn slot(key: u64, shift: u32) -> usize {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift) as usize
}

/// One of many values.
#[derive(Clone, Debug)]
pub(crate) struct OneOf<T> {
    pub column: String,
    pub set: Arc<Set>,
    pub least: T,
    pub most: T,
    pub count: usize,
}

impl<T: Value> OneOf<T> {
    pub(crate) fn new(column: String, values: &[T]) -> Option<Self> {
        let mut least = *values.first()?;
        let mut most = least;
        for value in values {
            if *value < least {
                least = *value;
            }
            if *value > most {
                most = *value;
            }
        }
        let keys: Vec<u64> = values.iter().map(|value| value.key()).collect();
        let set = Arc::new(Set::new(&keys));
        Some(Self { column, set, least, most, count: values.len() })
    }
}

impl<T: Value> Filter for OneOf<T> {
    fn segment(&self, reader: &SegmentReader) -> tantivy::Result<Matches> {
        let Some(column) = T::open(reader, &self.column)? else { return Ok(Matches::None) };
        let is_outside = column.values.num_vals() == 0
            || column.min_value() > self.most
            || column.max_value() < self.least;
        if is_outside {
            return Ok(Matches::None);
        }
        let scratch = vec![T::default(); SCRATCH];
        let set = Arc::clone(&self.set);
        Ok(Matches::Filter(Box::new(SegmentOneOf { column, set, scratch, count: self.count })))
    }
}

const SCRATCH: usize = 512;

struct SegmentOneOf<T> {
    column: Column<T>,
    set: Arc<Set>,
    scratch: Vec<T>,
    count: usize,
}

impl<T: Value> SegmentFilter for SegmentOneOf<T> {
    fn matches(&mut self, doc: DocId) -> bool {
        self.column.values_for_doc(doc).any(|value| self.set.contains(value.key()))
    }

    fn collect(&mut self, window: Range<DocId>, out: &mut Vec<DocId>) {
        let start = window.start;
        let mut row = self.column.index.docid_range_to_rowids(window);
        // The window's documents alone are turned from rows into documents.
        let mut rows = std::mem::take(out);
        let before = rows.len();
        debug_assert_eq!(before, 0, "a window is collected into an empty list");
        while row.start < row.end {
            let length = usize::try_from(row.end - row.start).unwrap_or(SCRATCH).min(SCRATCH);
            let values = &mut self.scratch[..length];
            self.column.values.get_range(u64::from(row.start), values);
            for (at, value) in (row.start..).zip(values.iter()) {
                if self.set.contains(value.key()) {
                    rows.push(at);
                }
            }
            row.start += u32::try_from(length).unwrap_or(u32::MAX);
        }
        self.column.index.select_batch_in_place(start, &mut rows);
        *out = rows;
    }

    fn cost(&self) -> u64 {
        3
    }

    fn estimate(&self, max_doc: u32) -> u32 {
        max_doc.min(u32::try_from(self.count).unwrap_or(u32::MAX))
    }
}

/// The documents that have a value in a column.
pub(crate) fn having<T: Value>(column: &Column<T>, max_doc: u32) -> Matches {
    present(column.index.clone(), max_doc)
}

/// The documents that a column's index has a value of.
pub(crate) fn present(index: ColumnIndex, max_doc: u32) -> Matches {
    match index {
        ColumnIndex::Empty { .. } => Matches::None,
        ColumnIndex::Full => Matches::All,
        index => Matches::Filter(Box::new(Present { index, max_doc })),
    }
}

struct Present {
    index: ColumnIndex,
    max_doc: u32,
}

impl SegmentFilter for Present {
    fn matches(&mut self, doc: DocId) -> bool {
        doc < self.max_doc && self.index.has_value(doc)
    }

    fn collect(&mut self, window: Range<DocId>, out: &mut Vec<DocId>) {
        out.extend(window.filter(|doc| self.index.has_value(*doc)));
    }
}
