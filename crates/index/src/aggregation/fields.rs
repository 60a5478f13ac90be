//! What an aggregation needs to know of a field: its column, and how its values are printed.

use tantivy::schema::Field as SchemaField;

use super::partial::Print;
use super::request::Source;
use crate::Error;

/// What a column holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FieldKind {
    /// Words: no column.
    Text,
    Keyword,
    Long,
    UnsignedLong,
    Double,
    /// Milliseconds, or nanoseconds, since 1970, and how they are printed.
    Date {
        format: String,
        nanos: bool,
    },
    /// 0 and 1.
    Boolean,
    Ip,
    /// Two columns: latitude and longitude.
    GeoPoint,
    /// Nothing that can be aggregated.
    Other(&'static str),
}

/// A field of the index.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) path: String,
    pub(crate) field: SchemaField,
    /// The column's name in Tantivy; of a point that of its latitudes.
    pub(crate) column: Option<String>,
    /// The column of a point's longitudes.
    pub(crate) longitude: Option<String>,
    pub(crate) kind: FieldKind,
}

/// Where fields are looked up by path.
pub(crate) trait Fields {
    /// The field, where the mapping has it.
    fn field(&self, path: &str) -> Option<Field>;
}

impl Field {
    /// The column's name.
    ///
    /// # Errors
    /// 400 in Elasticsearch's words where the field has none.
    pub(crate) fn column(&self) -> Result<&str, Error> {
        match (&self.column, &self.kind) {
            (Some(column), _) => Ok(column),
            (None, FieldKind::Text) => Err(Error::illegal_argument(format!(
                "Text fields are not optimised for operations that require per-document field data like aggregations and sorting, so these operations are disabled by default. Please use a keyword field instead. Alternatively, set fielddata=true on [{}] in order to load field data by uninverting the inverted index. Note that this can use significant memory.",
                self.path
            ))),
            (None, _) => Err(Error::illegal_argument(format!(
                "Can't load fielddata on [{}] because fielddata is unsupported on fields of type [{}]. Use doc values instead.",
                self.path,
                self.type_name()
            ))),
        }
    }

    /// The type's name in the mapping, or that of its family.
    pub(crate) fn type_name(&self) -> &'static str {
        match &self.kind {
            FieldKind::Text => "text",
            FieldKind::Keyword => "keyword",
            FieldKind::Long => "long",
            FieldKind::UnsignedLong => "unsigned_long",
            FieldKind::Double => "double",
            FieldKind::Date { .. } => "date",
            FieldKind::Boolean => "boolean",
            FieldKind::Ip => "ip",
            FieldKind::GeoPoint => "geo_point",
            FieldKind::Other(name) => name,
        }
    }

    /// How values of the field are printed, by the request's format or the mapping's.
    pub(crate) fn print(&self, source: &Source) -> Print {
        let format = source.format.clone();
        match &self.kind {
            FieldKind::Long => Print::Long { format },
            FieldKind::UnsignedLong => Print::UnsignedLong { format },
            FieldKind::Double => Print::Double { format },
            FieldKind::Date { format: own, .. } => Print::Date {
                format: format.unwrap_or_else(|| own.clone()),
                zone: source.zone.clone(),
            },
            FieldKind::Boolean => Print::Bool,
            FieldKind::Ip => Print::Ip,
            _ => Print::Str,
        }
    }
}
