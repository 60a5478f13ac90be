//! Values of a field for a batch of documents, read from columns many at a time.

use serde_json::Value;
use tantivy::SegmentReader;
use tantivy::columnar::{Column, ColumnIndex, ColumnType};

use super::collector::Batch;
use super::collector::Env;
use super::context::index_error;
use super::encoding::{f64_of_key, i64_of_key};
use crate::Error;
use crate::aggregation::dates;
use crate::aggregation::fields::{Field, FieldKind};
use crate::aggregation::partial::Print;
use crate::aggregation::request::Source;

/// What a numeric column's values were before they became keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberForm {
    I64,
    U64,
    F64,
}

/// A numeric column of one segment, read as keys of 64 bits in the order of the numbers: so
/// Tantivy stores all numbers, and so it reads them fastest.
#[derive(Clone)]
pub(super) struct NumberColumn {
    pub(super) form: NumberForm,
    pub(super) column: Column<u64>,
}

impl NumberColumn {
    /// The number of a key.
    #[inline]
    pub(super) fn number(&self, key: u64) -> f64 {
        match self.form {
            NumberForm::I64 => i64_of_key(key) as f64,
            NumberForm::U64 => key as f64,
            NumberForm::F64 => f64_of_key(key),
        }
    }

    /// The least and greatest key, where there are any.
    pub(super) fn range(&self) -> Option<(u64, u64)> {
        (self.column.values.num_vals() > 0)
            .then(|| (self.column.min_value(), self.column.max_value()))
    }
}

/// Positions in a batch with the rows of a column that they have values in.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) positions: Vec<u32>,
    rows: Vec<u32>,
    /// The first row, where rows are without gaps and not listed.
    first: Option<u32>,
}

impl Rows {
    /// Finds the rows of all documents of a batch, in the batch's order.
    pub(super) fn find(&mut self, index: &ColumnIndex, docs: &[u32]) {
        self.positions.clear();
        self.rows.clear();
        self.first = None;
        match index {
            ColumnIndex::Empty { .. } => {}
            ColumnIndex::Full => {
                self.positions.extend((0u32..).take(docs.len()));
                // Documents come in order, some of them repeatedly.
                let without_gaps = docs.windows(2).all(|pair| pair[1] == pair[0] + 1);
                if without_gaps {
                    self.first = docs.first().copied();
                } else {
                    self.rows.extend_from_slice(docs);
                }
            }
            ColumnIndex::Optional(_) | ColumnIndex::Multivalued(_) => {
                for (position, doc) in (0u32..).zip(docs) {
                    for row in index.value_row_ids(*doc) {
                        self.positions.push(position);
                        self.rows.push(row);
                    }
                }
            }
        }
    }

    /// The values in those rows; `values` has a place for each.
    pub(super) fn read_into<T>(&self, column: &Column<T>, values: &mut [T])
    where
        T: PartialOrd + Copy + std::fmt::Debug + Send + Sync + 'static,
    {
        match self.first {
            Some(first) => column.values.get_range(u64::from(first), values),
            None => column.values.get_vals(&self.rows, values),
        }
    }

    /// The values in those rows.
    pub(super) fn read<T>(&self, column: &Column<T>, values: &mut Vec<T>)
    where
        T: PartialOrd + Copy + Default + std::fmt::Debug + Send + Sync + 'static,
    {
        values.clear();
        values.resize(self.positions.len(), T::default());
        self.read_into(column, values);
    }
}

/// Calls `each` with every position of a batch that has no value.
pub(super) fn each_missing(positions: &[u32], docs: usize, mut each: impl FnMut(u32)) {
    let mut having = positions.iter().copied().peekable();
    for position in (0u32..).take(docs) {
        let mut found = false;
        while having.next_if(|next| *next == position).is_some() {
            found = true;
        }
        if !found {
            each(position);
        }
    }
}

/// Whether an aggregation takes numbers for dates.
fn is_of_dates(kind: &str) -> bool {
    matches!(kind, "date_range" | "date_histogram" | "auto_date_histogram")
}

/// Reads a field's values as doubles.
pub(super) struct Numbers {
    field: Option<Field>,
    column: Option<NumberColumn>,
    /// What a stored value is multiplied by: nanoseconds become milliseconds.
    nanos: bool,
    missing: Option<f64>,
    print: Print,
    rows: Rows,
    keys: Vec<u64>,
    /// Of the last batch: positions, and as many values.
    pub(super) positions: Vec<u32>,
    pub(super) values: Vec<f64>,
}

impl Numbers {
    /// # Errors
    /// 400 where the field is not numeric; a field that is not mapped has no values.
    pub(super) fn new(env: &Env<'_>, source: &Source, kind: &str) -> Result<Self, Error> {
        let field = env.fields.field(&source.field);
        let mut print = Print::Unmapped;
        let mut nanos = false;
        if let Some(field) = &field {
            field.column()?;
            match &field.kind {
                FieldKind::Long
                | FieldKind::UnsignedLong
                | FieldKind::Double
                | FieldKind::Boolean => {}
                FieldKind::Date { nanos: is_nanos, .. } => nanos = *is_nanos,
                _ => return Err(wrong_type(field, kind)),
            }
            print = field.print(source);
        }
        let missing = match &source.missing {
            None => None,
            // What stands for a date is one also where no document of the partition has the field.
            Some(Value::String(text)) if field.is_none() && is_of_dates(kind) => {
                let (format, zone) = (source.format.as_deref(), source.zone.as_deref());
                let text = Value::from(text.as_str());
                Some(dates::parse_bound(&text, format, zone, env.context.now_ms, false)? as f64)
            }
            Some(value) => Some(missing_number(env, field.as_ref(), value)?),
        };
        Ok(Self {
            field,
            column: None,
            nanos,
            missing,
            print,
            rows: Rows::default(),
            keys: Vec::new(),
            positions: Vec::new(),
            values: Vec::new(),
        })
    }

    pub(super) fn print(&self) -> Print {
        self.print.clone()
    }

    pub(super) fn segment(&mut self, segment: &SegmentReader) -> Result<(), Error> {
        self.column = match &self.field {
            Some(field) => open_number(segment, field)?,
            None => None,
        };
        Ok(())
    }

    /// Fills `positions` and `values` for a batch.
    pub(super) fn read(&mut self, batch: &Batch) {
        self.values.clear();
        match &self.column {
            None => self.rows.positions.clear(),
            Some(number) => {
                self.rows.find(&number.column.index, &batch.docs);
                self.rows.read(&number.column, &mut self.keys);
                let keys = self.keys.iter();
                // One loop for each form, so that none asks for the form of each value.
                match number.form {
                    NumberForm::I64 if self.nanos => {
                        self.values
                            .extend(keys.map(|key| i64_of_key(*key).div_euclid(1_000_000) as f64));
                    }
                    NumberForm::I64 => self.values.extend(keys.map(|key| i64_of_key(*key) as f64)),
                    NumberForm::U64 => self.values.extend(keys.map(|key| *key as f64)),
                    NumberForm::F64 => self.values.extend(keys.map(|key| f64_of_key(*key))),
                }
            }
        }
        std::mem::swap(&mut self.positions, &mut self.rows.positions);
        if let Some(missing) = self.missing {
            fill_missing(&mut self.positions, &mut self.values, batch.docs.len(), missing);
        }
    }
}

/// Adds a value for every position that has none, keeping the order of positions.
pub(super) fn fill_missing<T: Copy>(
    positions: &mut Vec<u32>,
    values: &mut Vec<T>,
    docs: usize,
    missing: T,
) {
    let mut added = Vec::new();
    each_missing(positions, docs, |position| added.push((position, missing)));
    if added.is_empty() {
        return;
    }
    added.extend(positions.iter().copied().zip(values.iter().copied()));
    added.sort_by_key(|(position, _)| *position);
    positions.clear();
    values.clear();
    for (position, value) in added {
        positions.push(position);
        values.push(value);
    }
}

pub(super) fn wrong_type(field: &Field, kind: &str) -> Error {
    Error::illegal_argument(format!(
        "Field [{}] of type [{}] is not supported for aggregation [{kind}]",
        field.path,
        field.type_name()
    ))
}

/// Opens a field's numeric column; `None` where the segment has no values of it.
pub(super) fn open_number(
    segment: &SegmentReader,
    field: &Field,
) -> Result<Option<NumberColumn>, Error> {
    let name = field.column()?;
    let columns = segment.fast_fields();
    let known = segment.schema().find_field(name).is_some();
    if !known {
        return Ok(None);
    }
    let (form, stored) = match &field.kind {
        FieldKind::Double => (NumberForm::F64, ColumnType::F64),
        FieldKind::UnsignedLong | FieldKind::Boolean => (NumberForm::U64, ColumnType::U64),
        _ => (NumberForm::I64, ColumnType::I64),
    };
    let found = columns.u64_lenient_for_type(Some(&[stored]), name).map_err(index_error)?;
    Ok(found.map(|(column, _)| NumberColumn { form, column }))
}

/// A point's columns: latitudes and longitudes.
pub(super) type PointColumns = (Column<f64>, Column<f64>);

/// Opens a point's columns; `None` where the segment has no values of it.
pub(super) fn open_point(
    segment: &SegmentReader,
    field: &Field,
) -> Result<Option<PointColumns>, Error> {
    let open = |name: &str| {
        if segment.schema().find_field(name).is_none() {
            return Ok(None);
        }
        segment.fast_fields().column_opt::<f64>(name).map_err(index_error)
    };
    let Some(longitude) = &field.longitude else { return Ok(None) };
    Ok(open(field.column()?)?.zip(open(longitude)?))
}

/// The number that `missing` stands for; of a date, also as text.
pub(super) fn missing_number(
    env: &Env<'_>,
    field: Option<&Field>,
    value: &Value,
) -> Result<f64, Error> {
    if let Some(number) = crate::aggregation::request_number(value) {
        return Ok(number);
    }
    match (field.map(|field| &field.kind), value) {
        (Some(FieldKind::Date { format, .. }), Value::String(_)) => {
            let format = Some(format.as_str());
            Ok(crate::aggregation::dates::parse_bound(
                value,
                format,
                None,
                env.context.now_ms,
                false,
            )? as f64)
        }
        (Some(FieldKind::Boolean), Value::Bool(value)) => Ok(f64::from(u8::from(*value))),
        (Some(FieldKind::Boolean), Value::String(text)) if text == "true" || text == "false" => {
            Ok(f64::from(u8::from(text == "true")))
        }
        _ => Err(Error::invalid(
            "number_format_exception",
            format!("For input string: \"{}\"", value.as_str().unwrap_or_default()),
        )),
    }
}
