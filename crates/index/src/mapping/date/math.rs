//! Date math: `now-1d/d`, `2024-01-01||+1M/d`.

use super::{DateFormat, Moment, Unit, Zone, add, floor};
use crate::Error;

/// Reads a date with date math as milliseconds since 1970.
///
/// `round_up` is for upper bounds that are inside and lower ones that are outside: what is
/// rounded or left open then means its last millisecond.
///
/// # Errors
/// 400 `parse_exception`, as Elasticsearch words it.
pub fn parse_math(
    text: &str,
    format: &DateFormat,
    zone: &Zone,
    round_up: bool,
    now_ms: u64,
) -> Result<i64, Error> {
    parse_math_moment(text, format, zone, round_up, now_ms).map(|moment| moment.millis)
}

/// As [`parse_math`], with the nanoseconds.
///
/// # Errors
/// As [`parse_math`].
pub fn parse_math_moment(
    text: &str,
    format: &DateFormat,
    zone: &Zone,
    round_up: bool,
    now_ms: u64,
) -> Result<Moment, Error> {
    if let Some(math) = text.strip_prefix("now") {
        let now = i64::try_from(now_ms).unwrap_or(i64::MAX);
        return apply(math, Moment::from_millis(now), zone, round_up);
    }
    let refused = |cause: Error| {
        Error::invalid(
            "parse_exception",
            format!(
                "{}: [{}]",
                cause.reason,
                cause.caused_by.as_ref().map_or("", |cause| cause.reason.as_str())
            ),
        )
    };
    match text.split_once("||") {
        None if round_up => format.parse_round_up(text, zone).map_err(refused),
        None => format.parse(text, zone).map_err(refused),
        Some((date, math)) => {
            apply(math, format.parse(date, zone).map_err(refused)?, zone, round_up)
        }
    }
}

fn apply(math: &str, start: Moment, zone: &Zone, round_up: bool) -> Result<Moment, Error> {
    let wrong = |why: String| Error::invalid("parse_exception", format!("{why} [{math}]"));
    let mut moment = start;
    let mut chars = math.chars().peekable();
    while let Some(operator) = chars.next() {
        let sign = match operator {
            '+' => 1,
            '-' => -1,
            '/' => 0,
            _ => return Err(wrong("operator not supported for date math".to_owned())),
        };
        let mut digits = String::new();
        while let Some(digit) = chars.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        if sign == 0 && !digits.is_empty() && digits != "1" {
            return Err(wrong("rounding `/` can only be used on single unit types".to_owned()));
        }
        let count: i64 = if digits.is_empty() {
            1
        } else {
            digits.parse().map_err(|_| wrong("number too large for date math".to_owned()))?
        };
        let letter = chars.next().ok_or_else(|| wrong("truncated date math".to_owned()))?;
        let unit = Unit::parse_math(letter)
            .ok_or_else(|| wrong(format!("unit [{letter}] not supported for date math")))?;
        moment = if sign != 0 {
            Moment { millis: add(moment.millis, sign * count, unit, zone), ..moment }
        } else {
            let start = floor(moment.millis, unit, zone);
            if round_up {
                Moment { millis: add(start, 1, unit, zone) - 1, nanos: 999_999 }
            } else {
                Moment::from_millis(start)
            }
        };
    }
    Ok(moment)
}
