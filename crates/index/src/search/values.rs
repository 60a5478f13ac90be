//! Values of fields as `fields` and `docvalue_fields` show them.

use std::cmp::Ordering;

use serde_json::Value;
use tantivy::SegmentReader;
use tantivy::columnar::StrColumn;
use tantivy::fastfield::{Column, FastFieldReaders};

use super::failure::internal;
use super::source::values_at;
use crate::error::Error;
use crate::mapping::date::{DateFormat, Zone};
use crate::mapping::{Field, FieldType};
use crate::partition::{Kind, View};
use crate::query::exec::column::Points;
use crate::query::parse::as_text;

/// The values of a field in a document's columns, the least one first.
pub(super) fn of_columns(
    view: &View,
    reader: &SegmentReader,
    doc: u32,
    path: &str,
    format: Option<&DateFormat>,
) -> Result<Vec<Value>, Error> {
    let Some(target) = view.target(path) else { return Ok(Vec::new()) };
    let fast = reader.fast_fields();
    if let Kind::GeoPoint { .. } = target.kind {
        let points = Points::open(reader, target).map_err(internal)?;
        return Ok(points
            .map(|points| {
                points.of(doc).map(|(lat, lon)| Value::from(format!("{lat}, {lon}"))).collect()
            })
            .unwrap_or_default());
    }
    let Some(name) = target.column.as_deref() else { return Ok(Vec::new()) };
    Ok(match target.kind {
        Kind::Long => numbers::<i64>(fast, name, doc, Value::from)?,
        Kind::UnsignedLong => numbers::<u64>(fast, name, doc, Value::from)?,
        Kind::Boolean => numbers::<u64>(fast, name, doc, |value| Value::from(value != 0))?,
        Kind::Double => numbers::<f64>(fast, name, doc, Value::from)?,
        Kind::Date { nanos } => {
            let default = DateFormat::default_date();
            let format = format.unwrap_or(&default);
            numbers::<i64>(fast, name, doc, |value| date(value, nanos, format))?
        }
        Kind::Keyword { .. } => match fast.str(name).map_err(internal)? {
            Some(column) => strings(&column, doc)?,
            None => Vec::new(),
        },
        Kind::Ip => addresses(fast, name, doc)?,
        Kind::Text { .. } | Kind::GeoPoint { .. } | Kind::Binary => Vec::new(),
    })
}

fn numbers<T: Number>(
    fast: &FastFieldReaders,
    name: &str,
    doc: u32,
    shown: impl Fn(T) -> Value,
) -> Result<Vec<Value>, Error> {
    let Some(column) = T::open(fast, name).map_err(internal)? else { return Ok(Vec::new()) };
    let mut values: Vec<T> = column.values_for_doc(doc).collect();
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
    Ok(values.into_iter().map(shown).collect())
}

/// The strings that a document has in a column, sorted.
pub(super) fn strings(column: &StrColumn, doc: u32) -> Result<Vec<Value>, Error> {
    let mut ords: Vec<u64> = column.ords().values_for_doc(doc).collect();
    ords.sort_unstable();
    ords.dedup();
    let mut texts = Vec::with_capacity(ords.len());
    for ord in ords {
        let mut text = String::new();
        column.ord_to_str(ord, &mut text).map_err(|error| Error::internal(error.to_string()))?;
        texts.push(Value::from(text));
    }
    Ok(texts)
}

fn addresses(fast: &FastFieldReaders, name: &str, doc: u32) -> Result<Vec<Value>, Error> {
    let column = fast.column_opt::<std::net::Ipv6Addr>(name).map_err(internal)?;
    let shown = |address: std::net::Ipv6Addr| {
        let mapped = address.to_ipv4_mapped();
        Value::from(mapped.map_or_else(|| address.to_string(), |address| address.to_string()))
    };
    let Some(column) = column else { return Ok(Vec::new()) };
    let mut found: Vec<std::net::Ipv6Addr> = column.values_for_doc(doc).collect();
    found.sort_unstable();
    Ok(found.into_iter().map(shown).collect())
}

/// A type of numbers that columns have.
trait Number: Copy + PartialOrd + std::fmt::Debug + Send + Sync + 'static {
    fn open(fast: &FastFieldReaders, name: &str) -> tantivy::Result<Option<Column<Self>>>;
}

impl Number for i64 {
    fn open(fast: &FastFieldReaders, name: &str) -> tantivy::Result<Option<Column<Self>>> {
        fast.column_opt(name)
    }
}

impl Number for u64 {
    fn open(fast: &FastFieldReaders, name: &str) -> tantivy::Result<Option<Column<Self>>> {
        fast.column_opt(name)
    }
}

impl Number for f64 {
    fn open(fast: &FastFieldReaders, name: &str) -> tantivy::Result<Option<Column<Self>>> {
        fast.column_opt(name)
    }
}

fn date(value: i64, nanos: bool, format: &DateFormat) -> Value {
    let moment = if nanos {
        crate::mapping::date::Moment::from_nanos(value)
    } else {
        crate::mapping::date::Moment::from_millis(value)
    };
    Value::from(format.format(moment, &Zone::utc()))
}

/// The values of a field in a document's source, as the field understands them.
pub(super) fn of_source(
    view: &View,
    source: &Value,
    path: &str,
    format: Option<&DateFormat>,
) -> Vec<Value> {
    let Some(field) = view.mapping().field(path) else { return Vec::new() };
    let mut found = Vec::new();
    values_at(source, field.path(), &mut found);
    if found.is_empty()
        && let Some((parent, _)) = field.path().rsplit_once('.')
        && view.mapping().field(parent).is_some()
    {
        // A multi-field has the values of its parent.
        values_at(source, parent, &mut found);
    }
    found.into_iter().filter_map(|value| shown(field, value, format)).collect()
}

fn shown(field: &Field, value: &Value, format: Option<&DateFormat>) -> Option<Value> {
    let kind = field.field_type();
    if value.is_null() {
        return field.null_value().cloned();
    }
    if kind.is_text() || kind == FieldType::Keyword {
        return Some(Value::from(as_text(value)));
    }
    if matches!(kind, FieldType::Date | FieldType::DateNanos) {
        let own = field.date_format()?;
        let moment = match value.as_i64() {
            Some(number) => own.try_parse_integer(number),
            None => own.try_parse(&as_text(value)),
        }?;
        return Some(Value::from(format.unwrap_or(own).format(moment, &Zone::utc())));
    }
    if let Value::String(text) = value {
        if kind.is_integer() {
            return text.trim().parse::<i64>().ok().map(Value::from);
        }
        if kind.is_float() {
            return text.trim().parse::<f64>().ok().map(Value::from);
        }
        if kind == FieldType::Boolean {
            return Some(Value::from(text == "true"));
        }
    }
    Some(value.clone())
}
