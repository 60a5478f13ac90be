//! Columns of numbers, read for a block of documents at once.

use tantivy::columnar::{Cardinality, ColumnIndex};
use tantivy::fastfield::Column;
use tantivy::{DocId, SegmentReader};

use super::BLOCK;
use crate::partition::{Kind, Target};
use crate::query::ast::ValueMode;

/// A segment's column as numbers; a segment without it has no values.
#[derive(Clone)]
pub(crate) enum Numbers {
    Empty,
    I64(Column<i64>),
    U64(Column<u64>),
    F64(Column<f64>),
}

/// Runs an expression for whichever column there is.
macro_rules! with_column {
    ($numbers:expr, $column:ident => $body:expr, else $none:expr) => {
        match $numbers {
            Numbers::Empty => $none,
            Numbers::I64($column) => $body,
            Numbers::U64($column) => $body,
            Numbers::F64($column) => $body,
        }
    };
}

/// A number as a double; those beyond 2^53 lose what a double cannot hold.
pub(crate) trait AsF64: Copy {
    fn as_f64(self) -> f64;
}

impl AsF64 for i64 {
    #[expect(clippy::cast_precision_loss, reason = "as documented on the trait")]
    fn as_f64(self) -> f64 {
        self as f64
    }
}

impl AsF64 for u64 {
    #[expect(clippy::cast_precision_loss, reason = "as documented on the trait")]
    fn as_f64(self) -> f64 {
        self as f64
    }
}

impl AsF64 for f64 {
    fn as_f64(self) -> f64 {
        self
    }
}

impl Numbers {
    /// The column of a target, which is [`Numbers::Empty`] where its values are no numbers.
    pub(crate) fn open(reader: &SegmentReader, target: &Target) -> tantivy::Result<Self> {
        let Some(name) = target.column.as_deref() else { return Ok(Self::Empty) };
        let fast = reader.fast_fields();
        Ok(match target.kind {
            Kind::Long | Kind::Date { .. } => {
                fast.column_opt::<i64>(name)?.map_or(Self::Empty, Self::I64)
            }
            Kind::UnsignedLong | Kind::Boolean => {
                fast.column_opt::<u64>(name)?.map_or(Self::Empty, Self::U64)
            }
            Kind::Double => fast.column_opt::<f64>(name)?.map_or(Self::Empty, Self::F64),
            _ => Self::Empty,
        })
    }

    /// Whether no document has more than one value.
    pub(crate) fn is_single(&self) -> bool {
        with_column!(self, column => column.get_cardinality() != Cardinality::Multivalued, else true)
    }

    /// The first value of each document, or `missing`. Of several it is the least: Lucene keeps
    /// them sorted.
    pub(crate) fn first(&self, docs: &[DocId], missing: f64, out: &mut [f64]) {
        if !self.is_single() {
            for (doc, out) in docs.iter().zip(out) {
                let mut least = f64::INFINITY;
                let mut any = false;
                with_column!(self, column => column.values_for_doc(*doc).for_each(|value| {
                    least = least.min(value.as_f64());
                    any = true;
                }), else ());
                *out = if any { least } else { missing };
            }
            return;
        }
        with_column!(self, column => first(column, docs, missing, out), else out.fill(missing));
    }

    /// How many values a document has.
    pub(crate) fn count(&self, doc: DocId) -> usize {
        with_column!(self, column => column.index.value_row_ids(doc).len(), else 0)
    }

    /// All values of a document, after what is in `out`.
    pub(crate) fn values(&self, doc: DocId, out: &mut Vec<f64>) {
        with_column!(self, column => out.extend(column.values_for_doc(doc).map(AsF64::as_f64)), else ());
    }
}

/// Several values as one; none of none.
pub(crate) fn reduce(values: &mut [f64], mode: ValueMode) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let count = values.len().as_f64();
    Some(match mode {
        ValueMode::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
        ValueMode::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        ValueMode::Sum => values.iter().sum(),
        ValueMode::Avg => values.iter().sum::<f64>() / count,
        ValueMode::Median => {
            values.sort_unstable_by(f64::total_cmp);
            let middle = values.len() / 2;
            if values.len() % 2 == 1 {
                values[middle]
            } else {
                f64::midpoint(values[middle - 1], values[middle])
            }
        }
    })
}

impl AsF64 for usize {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    fn as_f64(self) -> f64 {
        self as f64
    }
}

/// The first value of each document of a block, or `missing`.
pub(crate) fn first<T>(column: &Column<T>, docs: &[DocId], missing: f64, out: &mut [f64])
where
    T: AsF64 + PartialOrd + std::fmt::Debug + Send + Sync + Default + 'static,
{
    for (docs, out) in docs.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        if matches!(column.index, ColumnIndex::Full) {
            let mut values = [T::default(); BLOCK];
            let values = &mut values[..docs.len()];
            column.values.get_vals(docs, values);
            for (out, value) in out.iter_mut().zip(values) {
                *out = value.as_f64();
            }
        } else {
            let mut values = [None; BLOCK];
            let values = &mut values[..docs.len()];
            column.first_vals(docs, values);
            for (out, value) in out.iter_mut().zip(values) {
                *out = value.map_or(missing, AsF64::as_f64);
            }
        }
    }
}

/// The two columns of a geo point.
#[derive(Clone)]
pub(crate) struct Points {
    pub latitude: Column<f64>,
    pub longitude: Column<f64>,
}

impl Points {
    /// The columns of a target; none where the segment has no point.
    pub(crate) fn open(reader: &SegmentReader, target: &Target) -> tantivy::Result<Option<Self>> {
        let Kind::GeoPoint { latitude, longitude } = &target.kind else { return Ok(None) };
        let fast = reader.fast_fields();
        let latitude = fast.column_opt::<f64>(latitude)?;
        let longitude = fast.column_opt::<f64>(longitude)?;
        Ok(latitude.zip(longitude).map(|(latitude, longitude)| Self { latitude, longitude }))
    }

    /// The points of a document; they are paired by position.
    pub(crate) fn of(&self, doc: DocId) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.latitude.values_for_doc(doc).zip(self.longitude.values_for_doc(doc))
    }

    pub(crate) fn is_single(&self) -> bool {
        self.latitude.get_cardinality() != Cardinality::Multivalued
    }
}
