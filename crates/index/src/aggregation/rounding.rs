//! Where the bucket of an instant begins: calendar units and fixed spans, in a time zone.
//!
//! Dates are those of `plimsoll_stdx::civil`; how one is printed or read is the mapping's.

use std::cell::RefCell;

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use plimsoll_stdx::civil::Date;
use plimsoll_stdx::units;

use crate::Error;

const SECOND_MS: i64 = 1_000;
const MINUTE_MS: i64 = 60 * SECOND_MS;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// How many stretches of equal offset one zone remembers.
const STRETCHES_MAX: usize = 1_024;

/// A unit of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

impl Unit {
    /// Reads `month` or `1M`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "second" | "1s" => Self::Second,
            "minute" | "1m" => Self::Minute,
            "hour" | "1h" => Self::Hour,
            "day" | "1d" => Self::Day,
            "week" | "1w" => Self::Week,
            "month" | "1M" => Self::Month,
            "quarter" | "1q" => Self::Quarter,
            "year" | "1y" => Self::Year,
            _ => return None,
        })
    }

    /// How long the unit is, roughly where its length varies.
    pub(crate) fn typical_ms(self) -> i64 {
        match self {
            Self::Second => SECOND_MS,
            Self::Minute => MINUTE_MS,
            Self::Hour => HOUR_MS,
            Self::Day => DAY_MS,
            Self::Week => 7 * DAY_MS,
            Self::Month => 30 * DAY_MS,
            Self::Quarter => 91 * DAY_MS,
            Self::Year => 365 * DAY_MS,
        }
    }

    /// The short name, as in the `interval` of an automatic histogram.
    pub(crate) fn letter(self) -> char {
        match self {
            Self::Second => 's',
            Self::Minute => 'm',
            Self::Hour => 'h',
            Self::Day => 'd',
            Self::Week => 'w',
            Self::Month => 'M',
            Self::Quarter => 'q',
            Self::Year => 'y',
        }
    }

    /// How many months the unit has, where it is made of months.
    fn months(self) -> Option<i64> {
        match self {
            Self::Month => Some(1),
            Self::Quarter => Some(3),
            Self::Year => Some(12),
            _ => None,
        }
    }
}

/// Reads a span such as `90m`; milliseconds.
pub(crate) fn parse_duration_ms(text: &str) -> Option<i64> {
    i64::try_from(units::duration(text).ok()?.as_millis()).ok()
}

/// Offsets from UTC at any instant; remembers the stretches of time it was asked about.
#[derive(Debug)]
pub(crate) struct Zone {
    zone: TimeZone,
    fixed_ms: Option<i64>,
    /// (from, until, offset), milliseconds, sorted.
    stretches: RefCell<Vec<(i64, i64, i64)>>,
}

impl Zone {
    /// Reads `Europe/Berlin`, `+01:00`, `Z`; UTC where nothing is said.
    ///
    /// # Errors
    /// 400 where there is no such zone.
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, Error> {
        let zone = match text {
            None | Some("UTC" | "Z" | "GMT" | "utc" | "") => TimeZone::UTC,
            Some(text) => match fixed_offset(text) {
                Some(offset) => TimeZone::fixed(offset),
                None => TimeZone::get(text).map_err(|_| {
                    Error::illegal_argument(format!("Unknown time-zone ID: {text}"))
                })?,
            },
        };
        let fixed_ms =
            zone.to_fixed_offset().ok().map(|offset| i64::from(offset.seconds()) * SECOND_MS);
        Ok(Self { zone, fixed_ms, stretches: RefCell::new(Vec::new()) })
    }

    /// UTC.
    pub(crate) fn utc() -> Self {
        Self { zone: TimeZone::UTC, fixed_ms: Some(0), stretches: RefCell::new(Vec::new()) }
    }

    /// Milliseconds that local time is ahead of UTC at `ms`.
    pub(crate) fn offset_ms(&self, ms: i64) -> i64 {
        if let Some(fixed) = self.fixed_ms {
            return fixed;
        }
        let mut stretches = self.stretches.borrow_mut();
        let position = stretches.partition_point(|(from, _, _)| *from <= ms);
        if let Some((_, until, offset)) =
            position.checked_sub(1).and_then(|before| stretches.get(before))
            && ms < *until
        {
            return *offset;
        }
        let Ok(instant) = Timestamp::from_millisecond(ms) else { return 0 };
        let offset = i64::from(self.zone.to_offset(instant).seconds()) * SECOND_MS;
        // `preceding` excludes its argument, hence the nanosecond.
        let from = instant
            .checked_add(jiff::SignedDuration::from_nanos(1))
            .ok()
            .and_then(|after| self.zone.preceding(after).next())
            .map_or(i64::MIN, |transition| transition.timestamp().as_millisecond());
        let until = self
            .zone
            .following(instant)
            .next()
            .map_or(i64::MAX, |t| t.timestamp().as_millisecond());
        if stretches.len() < STRETCHES_MAX {
            stretches.insert(position, (from, until, offset));
        }
        offset
    }

    /// The instant of a local time, near to an instant whose offset is known. A local time that
    /// the clocks skip is taken for the moment at which they skip it.
    fn to_utc(&self, local_ms: i64, near_offset_ms: i64) -> i64 {
        let first = local_ms.saturating_sub(near_offset_ms);
        let there = self.offset_ms(first);
        if there == near_offset_ms {
            return first;
        }
        let second = local_ms.saturating_sub(there);
        if self.offset_ms(second) == there {
            return second;
        }
        let Ok(earlier) = Timestamp::from_millisecond(first.min(second)) else { return second };
        self.zone.following(earlier).next().map_or(second, |t| t.timestamp().as_millisecond())
    }
}

fn fixed_offset(text: &str) -> Option<Offset> {
    let text = text.strip_prefix("UTC").or_else(|| text.strip_prefix("GMT")).unwrap_or(text);
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1, text.get(1..)?),
        b'-' => (-1, text.get(1..)?),
        _ => return None,
    };
    let (hours, minutes) = match rest.split_once(':') {
        Some((hours, minutes)) => (hours, minutes),
        None if rest.len() == 4 && rest.is_ascii() => rest.split_at(2),
        None => (rest, "0"),
    };
    let hours: i32 = hours.parse().ok().filter(|hours| (0..=18).contains(hours))?;
    let minutes: i32 = minutes.parse().ok().filter(|minutes| (0..60).contains(minutes))?;
    Offset::from_seconds(sign * (hours * 3_600 + minutes * 60)).ok()
}

/// How far apart buckets of dates begin: as the calendar has it, or a fixed span.
#[derive(Clone, Debug)]
pub(crate) enum Interval {
    Calendar(Unit),
    /// Milliseconds.
    Fixed(i64),
}

/// Maps an instant to the begin of its bucket.
#[derive(Debug)]
pub(crate) struct Rounding {
    interval: Interval,
    pub(crate) zone: Zone,
    offset_ms: i64,
}

impl Rounding {
    pub(crate) fn new(interval: Interval, zone: Zone, offset_ms: i64) -> Self {
        Self { interval, zone, offset_ms }
    }

    /// The begin of the bucket that holds `ms`.
    pub(crate) fn round(&self, ms: i64) -> i64 {
        let ms = ms.saturating_sub(self.offset_ms);
        let offset = self.zone.offset_ms(ms);
        let local = self.round_local(ms.saturating_add(offset));
        self.zone.to_utc(local, offset).min(ms).saturating_add(self.offset_ms)
    }

    /// The begin of the bucket after the one that begins at `start`; greater than `start`.
    pub(crate) fn next(&self, start: i64) -> i64 {
        let plain = start.saturating_sub(self.offset_ms);
        let offset = self.zone.offset_ms(plain);
        // A bucket that begins late, because the clocks skipped its begin, still ends in time.
        let local = self.round_local(plain.saturating_add(offset));
        let mut after = self.next_local(local);
        loop {
            let next = self.zone.to_utc(after, offset).saturating_add(self.offset_ms);
            if next > start || after == i64::MAX {
                return next.max(start.saturating_add(1));
            }
            after = self.next_local(after);
        }
    }

    fn round_local(&self, ms: i64) -> i64 {
        let floor = |span: i64| ms.saturating_sub(ms.rem_euclid(span));
        match self.interval {
            Interval::Fixed(span) => floor(span),
            Interval::Calendar(Unit::Week) => {
                // 1970-01-01 was a Thursday, weeks begin on Monday.
                let days = ms.div_euclid(DAY_MS);
                (days - (days + 3).rem_euclid(7)) * DAY_MS
            }
            Interval::Calendar(unit) => match unit.months() {
                None => floor(unit.typical_ms()),
                Some(months) => {
                    let Date { year, month, .. } = Date::of_day(ms.div_euclid(DAY_MS));
                    let month = month - (month - 1) % months;
                    Date { year, month, day: 1 }.days().saturating_mul(DAY_MS)
                }
            },
        }
    }

    fn next_local(&self, start: i64) -> i64 {
        match self.interval {
            Interval::Fixed(span) => start.saturating_add(span),
            Interval::Calendar(unit) => match unit.months() {
                None => start.saturating_add(unit.typical_ms()),
                Some(months) => {
                    let first = Date { day: 1, ..Date::of_day(start.div_euclid(DAY_MS)) };
                    first.plus_months(months).days().saturating_mul(DAY_MS)
                }
            },
        }
    }

    /// Span and offset where all buckets are of one length and UTC decides: milliseconds.
    pub(crate) fn uniform_ms(&self) -> Option<(i64, i64)> {
        if self.zone.fixed_ms != Some(0) {
            return None;
        }
        match self.interval {
            Interval::Fixed(span) => Some((span, self.offset_ms)),
            Interval::Calendar(unit) if unit <= Unit::Day => {
                Some((unit.typical_ms(), self.offset_ms))
            }
            Interval::Calendar(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    fn check(unit: &str, zone: &str, offset_ms: i64, instant: &str, start: &str, next: &str) {
        let interval = match Unit::parse(unit) {
            Some(unit) => Interval::Calendar(unit),
            None => Interval::Fixed(parse_duration_ms(unit).unwrap()),
        };
        let rounding = Rounding::new(interval, Zone::parse(Some(zone)).unwrap(), offset_ms);
        assert_eq!(rounding.round(ms(instant)), ms(start), "{unit} {zone} {instant}");
        assert_eq!(rounding.next(ms(start)), ms(next), "{unit} {zone} after {start}");
    }

    #[test]
    fn buckets_begin_where_the_calendar_says() {
        check(
            "month",
            "UTC",
            0,
            "2024-02-29T13:00:00Z",
            "2024-02-01T00:00:00Z",
            "2024-03-01T00:00:00Z",
        );
        check(
            "1M",
            "UTC",
            0,
            "1969-12-31T23:59:59Z",
            "1969-12-01T00:00:00Z",
            "1970-01-01T00:00:00Z",
        );
        check(
            "quarter",
            "UTC",
            0,
            "2023-12-31T00:00:00Z",
            "2023-10-01T00:00:00Z",
            "2024-01-01T00:00:00Z",
        );
        check(
            "year",
            "UTC",
            0,
            "2000-03-01T00:00:00Z",
            "2000-01-01T00:00:00Z",
            "2001-01-01T00:00:00Z",
        );
        check(
            "week",
            "UTC",
            0,
            "2024-01-07T23:00:00Z",
            "2024-01-01T00:00:00Z",
            "2024-01-08T00:00:00Z",
        );
        check(
            "90m",
            "UTC",
            0,
            "1970-01-01T02:59:59Z",
            "1970-01-01T01:30:00Z",
            "1970-01-01T03:00:00Z",
        );
        check(
            "day",
            "UTC",
            6 * HOUR_MS,
            "2024-01-02T05:00:00Z",
            "2024-01-01T06:00:00Z",
            "2024-01-02T06:00:00Z",
        );
    }

    #[test]
    fn zones_shift_buckets_and_days_may_have_23_or_25_hours() {
        let berlin = "Europe/Berlin";
        check(
            "day",
            berlin,
            0,
            "2024-03-31T12:00:00Z",
            "2024-03-30T23:00:00Z",
            "2024-03-31T22:00:00Z",
        );
        check(
            "day",
            berlin,
            0,
            "2024-10-27T12:00:00Z",
            "2024-10-26T22:00:00Z",
            "2024-10-27T23:00:00Z",
        );
        check(
            "hour",
            berlin,
            0,
            "2024-10-27T01:30:00Z",
            "2024-10-27T01:00:00Z",
            "2024-10-27T02:00:00Z",
        );
        check(
            "month",
            "-01:00",
            0,
            "2024-01-01T00:30:00Z",
            "2023-12-01T01:00:00Z",
            "2024-01-01T01:00:00Z",
        );
        // Midnight of this day does not exist in this zone.
        check(
            "day",
            "America/Sao_Paulo",
            0,
            "2018-11-04T12:00:00Z",
            "2018-11-04T03:00:00Z",
            "2018-11-05T02:00:00Z",
        );
        assert!(Zone::parse(Some("Mars/Olympus")).is_err());
    }

    proptest::proptest! {
        #[test]
        fn an_instant_lies_in_its_bucket(instant in -4_000_000_000_000i64..8_000_000_000_000, unit in 0usize..9, zone in 0usize..4) {
            let unit = ["second", "minute", "hour", "day", "week", "month", "quarter", "year", "7h"][unit];
            let interval = Unit::parse(unit).map_or(Interval::Fixed(7 * HOUR_MS), Interval::Calendar);
            let zone = ["UTC", "Europe/Berlin", "America/Sao_Paulo", "+05:30"][zone];
            let rounding = Rounding::new(interval, Zone::parse(Some(zone)).unwrap(), 0);
            let start = rounding.round(instant);
            proptest::prop_assert!(start <= instant);
            proptest::prop_assert!(rounding.next(start) > start);
            proptest::prop_assert_eq!(rounding.round(start), start);
            if unit != "7h" {
                proptest::prop_assert!(instant < rounding.next(start), "{} {} {}", unit, zone, instant);
            }
        }

        #[test]
        fn nothing_panics(instant: i64, span in 1i64..i64::MAX) {
            let rounding = Rounding::new(Interval::Fixed(span), Zone::parse(Some("Europe/Berlin")).unwrap(), 0);
            rounding.next(rounding.round(instant));
            let rounding = Rounding::new(Interval::Calendar(Unit::Quarter), Zone::parse(None).unwrap(), i64::MAX);
            rounding.next(rounding.round(instant));
        }
    }
}
