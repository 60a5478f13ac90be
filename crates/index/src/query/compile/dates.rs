//! Dates in queries: date maths, formats, time zones, and what a date that leaves something open
//! means at either end of a range.

use plimsoll_stdx::units;
use serde_json::Value;

use super::context::Context;
use super::fields::Resolved;
use crate::error::Error;
use crate::mapping::date::{DateFormat, Zone, parse_math_moment};
use crate::query::parse::as_text;

/// Reads dates as one query has them.
pub(super) struct DateReader {
    format: DateFormat,
    zone: Zone,
    nanos: bool,
    now_ms: u64,
}

impl DateReader {
    pub(super) fn new(
        context: &Context<'_>,
        resolved: Resolved<'_>,
        nanos: bool,
        format: Option<&str>,
        zone: Option<&str>,
    ) -> Result<Self, Error> {
        let format = match (format, resolved.field.date_format()) {
            (Some(format), _) => DateFormat::parse_pattern(format)?,
            (None, Some(format)) => format.as_ref().clone(),
            (None, None) => DateFormat::default_date(),
        };
        let zone = zone.map_or(Ok(Zone::utc()), Zone::parse)?;
        Ok(Self { format, zone, nanos, now_ms: context.now_ms })
    }

    /// The date in the column's unit; `round_up`: its last instant, where it leaves some open.
    pub(super) fn read(&self, value: &Value, round_up: bool) -> Result<i64, Error> {
        let text = as_text(value);
        let moment = parse_math_moment(&text, &self.format, &self.zone, round_up, self.now_ms)
            .map_err(|error| explained(error, &text, self.format.pattern()))?;
        if !self.nanos {
            return Ok(moment.millis);
        }
        Ok(moment.as_nanos().unwrap_or(if moment.millis < 0 { 0 } else { i64::MAX }))
    }
}

/// The causes that Elasticsearch names for a date that is none.
fn explained(error: Error, text: &str, format: &str) -> Error {
    if error.kind != "parse_exception" || error.caused_by.is_some() {
        return error;
    }
    let plain = format!("failed to parse date field [{text}] with format [{format}]");
    if !error.reason.starts_with(&plain) {
        return error;
    }
    let deepest =
        Error::invalid("date_time_parse_exception", "Failed to parse with all enclosed parsers");
    Error::invalid("parse_exception", format!("{plain}: [{plain}]"))
        .caused_by(Error::illegal_argument(plain).caused_by(deepest))
}

/// Reads a duration such as `10d`, `2h`, `500ms` in milliseconds, as decay functions have them.
///
/// # Errors
/// 400, as Elasticsearch words it.
pub(super) fn duration_ms(text: &str, setting: &str) -> Result<f64, Error> {
    let time = units::duration(text).map_err(|_| Error::no_duration(setting, text))?;
    Ok(time.as_nanos() as f64 / 1e6)
}
