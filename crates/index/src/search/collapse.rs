//! `collapse`: of the hits that share a field's value, the best one alone.

use tantivy::fastfield::Column;
use tantivy::{DocId, SegmentReader};

use super::failure::internal;
use super::result::SortValue;
use crate::error::Error;
use crate::partition::{Kind, Target};
use crate::query::Context;

/// The field that hits are collapsed by.
pub(super) fn target(context: &Context<'_>, name: &str) -> Result<Target, Error> {
    let refused = || {
        Error::illegal_argument(format!("cannot collapse on field `{name}` without `doc_values`"))
    };
    let Some(resolved) = context.resolve(name) else {
        return Err(Error::illegal_argument(format!(
            "no mapping found for `{name}` in order to collapse on"
        )));
    };
    match resolved.target.kind {
        Kind::Keyword { .. } | Kind::Long | Kind::UnsignedLong | Kind::Date { .. } => {
            if resolved.target.column.is_some() {
                Ok(resolved.target.clone())
            } else {
                Err(refused())
            }
        }
        _ => Err(Error::illegal_argument(format!(
            "unknown type for collapse field `{name}`, only keywords and numbers are accepted"
        ))),
    }
}

/// The groups of one segment's documents.
pub(super) enum SegmentGroups {
    None,
    Text(tantivy::columnar::StrColumn),
    Long(Column<i64>),
    Unsigned(Column<u64>),
}

impl SegmentGroups {
    pub(super) fn open(reader: &SegmentReader, target: &Target) -> Result<Self, Error> {
        let fast = reader.fast_fields();
        let name = target.column.as_deref().unwrap_or("");
        Ok(match target.kind {
            Kind::Keyword { .. } => {
                fast.str(name).map_err(internal)?.map_or(Self::None, Self::Text)
            }
            Kind::UnsignedLong => {
                fast.column_opt(name).map_err(internal)?.map_or(Self::None, Self::Unsigned)
            }
            _ => fast.column_opt(name).map_err(internal)?.map_or(Self::None, Self::Long),
        })
    }

    /// A number that is the group's in this segment; none: the group of documents without value.
    pub(super) fn of(&self, doc: DocId) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Text(column) => column.ords().first(doc),
            Self::Long(column) => column.first(doc).map(i64::cast_unsigned),
            Self::Unsigned(column) => column.first(doc),
        }
    }

    pub(super) fn value(&self, group: Option<u64>) -> Result<SortValue, Error> {
        Ok(match (self, group) {
            (Self::Text(column), Some(ord)) => {
                let mut text = String::new();
                column
                    .ord_to_str(ord, &mut text)
                    .map_err(|error| Error::internal(error.to_string()))?;
                SortValue::Text(text)
            }
            (Self::Long(_), Some(number)) => SortValue::Long(number.cast_signed()),
            (Self::Unsigned(_), Some(number)) => SortValue::Unsigned(number),
            _ => SortValue::Null,
        })
    }
}
