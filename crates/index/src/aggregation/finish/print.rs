//! How keys and numbers are printed.

use std::net::Ipv6Addr;

use serde_json::{Value, json};

use crate::aggregation::dates::Printer as DatePrinter;
use crate::aggregation::number::{decimal_format, double_string};
use crate::aggregation::partial::{Key, Print};

/// A field's way of printing, read once.
pub(super) enum Printer {
    Plain,
    Double,
    Bool,
    Format(String, bool),
    Date(Box<DatePrinter>),
}

impl Printer {
    pub(super) fn new(print: &Print) -> Self {
        match print {
            Print::Long { format: Some(format) } | Print::UnsignedLong { format: Some(format) } => {
                Self::Format(format.clone(), false)
            }
            Print::Double { format: Some(format) } => Self::Format(format.clone(), true),
            Print::Double { format: None } => Self::Double,
            Print::Bool => Self::Bool,
            Print::Date { format, zone } => {
                Self::Date(Box::new(DatePrinter::new(format, zone.as_deref())))
            }
            _ => Self::Plain,
        }
    }

    /// A number as text, where the field's numbers have one.
    #[expect(clippy::cast_possible_truncation, reason = "a float to integer cast saturates")]
    pub(super) fn number_text(&self, value: f64) -> Option<String> {
        match self {
            Self::Date(printer) => value.is_finite().then(|| printer.print(value as i64)),
            Self::Bool => Some(if value == 0.0 { "false" } else { "true" }.to_owned()),
            Self::Format(format, _) => Some(decimal_format(value, format)),
            Self::Plain | Self::Double => None,
        }
    }

    /// A key as JSON, and as text where it has one besides.
    pub(super) fn key(&self, key: &Key) -> (Value, Option<String>) {
        let number = match key {
            Key::Null => return (Value::Null, None),
            Key::Str(text) => return (json!(text), None),
            Key::Ip(octets) => return (json!(ip_text(octets)), None),
            Key::I64(value) => *value as f64,
            Key::U64(value) => *value as f64,
            Key::F64(value) => *value,
            Key::Tuple(_) | Key::Span(..) | Key::IpSpan(..) => return (Value::Null, None),
        };
        let value = match key {
            Key::I64(value) if !matches!(self, Self::Double | Self::Format(_, true)) => {
                json!(value)
            }
            Key::U64(value) if !matches!(self, Self::Double | Self::Format(_, true)) => {
                json!(value)
            }
            _ if matches!(self, Self::Date(_)) => json!(whole(number)),
            _ => json!(number),
        };
        let text = match (self, key) {
            (Self::Date(printer), Key::I64(ms)) => Some(printer.print(*ms)),
            _ => self.number_text(number),
        };
        (value, text)
    }

    /// A key as text, for names of buckets.
    pub(super) fn key_text(&self, key: &Key) -> String {
        match self.key(key) {
            (_, Some(text)) | (Value::String(text), None) => text,
            (value, None) => match value.as_f64() {
                Some(number) if value.is_f64() => double_string(number),
                _ => value.to_string(),
            },
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a float to integer cast saturates")]
fn whole(value: f64) -> i64 {
    value as i64
}

/// An address as text; IPv4 where it is one.
pub(super) fn ip_text(octets: &[u8; 16]) -> String {
    let address = Ipv6Addr::from(*octets);
    address.to_ipv4_mapped().map_or_else(|| address.to_string(), |address| address.to_string())
}
