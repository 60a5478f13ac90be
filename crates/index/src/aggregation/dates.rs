//! Dates as requests write them and answers print them, by the mapping's formats.

use serde_json::Value;

use crate::Error;
use crate::mapping::date::{DateFormat, Zone, parse_math};

/// The format of `date` where the mapping says nothing.
pub(crate) const FORMAT_DEFAULT: &str = "strict_date_optional_time||epoch_millis";

fn zone_of(zone: Option<&str>) -> Result<Zone, Error> {
    zone.map_or_else(|| Ok(Zone::utc()), Zone::parse)
}

/// Reads a bound: milliseconds, a date, or date maths.
///
/// # Errors
/// 400 where it is none of these.
pub(crate) fn parse_bound(
    value: &Value,
    format: Option<&str>,
    zone: Option<&str>,
    now_ms: u64,
    round_up: bool,
) -> Result<i64, Error> {
    let format = DateFormat::parse_pattern(format.unwrap_or(FORMAT_DEFAULT))?;
    match value {
        Value::String(text) => parse_math(text, &format, &zone_of(zone)?, round_up, now_ms),
        Value::Number(number) => {
            number.as_i64().or_else(|| whole(number.as_f64()?)).ok_or_else(|| {
                Error::illegal_argument(format!("failed to parse date field [{number}]"))
            })
        }
        other => Err(Error::illegal_argument(format!("failed to parse date field [{other}]"))),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn whole(value: f64) -> Option<i64> {
    (value.abs() < 9e18).then_some(value as i64)
}

/// Prints instants by a format that was read once.
pub(crate) struct Printer {
    format: DateFormat,
    zone: Zone,
}

impl Printer {
    /// A format or zone that cannot be read here was refused where it was collected; the default
    /// stands in for it.
    pub(crate) fn new(format: &str, zone: Option<&str>) -> Self {
        let format =
            DateFormat::parse_pattern(format).unwrap_or_else(|_| DateFormat::default_date());
        Self { format, zone: zone_of(zone).unwrap_or_else(|_| Zone::utc()) }
    }

    pub(crate) fn print(&self, ms: i64) -> String {
        self.format.format_millis(ms, &self.zone)
    }
}

/// Refuses a format or zone that cannot be read.
///
/// # Errors
/// 400.
pub(crate) fn check(format: Option<&str>, zone: Option<&str>) -> Result<(), Error> {
    if let Some(format) = format {
        DateFormat::parse_pattern(format)?;
    }
    zone_of(zone).map(drop)
}
