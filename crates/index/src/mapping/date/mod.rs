//! Dates: how they are written ([`DateFormat`]), what the calendar and time zones do with them
//! ([`Zone`], [`Unit`]), and date math (`now-1d/d`, `2024-01-01||+1M/d`).
//!
//! An instant is milliseconds since 1970 in UTC, and within the millisecond nanoseconds.

mod calendar;
mod format;
mod math;
mod pattern;
mod zone;

#[cfg(test)]
mod tests;

pub use calendar::{Civil, Unit, add, floor, next};
pub use format::DateFormat;
pub use math::{parse_math, parse_math_moment};
pub use zone::Zone;

/// An instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub millis: i64,
    /// Nanoseconds within the millisecond: 0 to 999,999.
    pub nanos: u32,
}

impl Moment {
    /// An instant of whole milliseconds.
    #[must_use]
    pub fn from_millis(millis: i64) -> Self {
        Self { millis, nanos: 0 }
    }

    /// An instant of nanoseconds since 1970.
    #[must_use]
    pub fn from_nanos(nanos: i64) -> Self {
        let within = u32::try_from(nanos.rem_euclid(1_000_000)).unwrap_or_default();
        Self { millis: nanos.div_euclid(1_000_000), nanos: within }
    }

    /// Nanoseconds since 1970; none before 1970 and after 2262, as Elasticsearch has it.
    #[must_use]
    pub fn as_nanos(self) -> Option<i64> {
        self.as_nanos_signed().filter(|nanos| *nanos >= 0)
    }

    /// As [`Self::as_nanos`], and before 1970 too. No document has such a date; it stands for one
    /// that has none, where those come last in descending order.
    #[must_use]
    pub fn as_nanos_signed(self) -> Option<i64> {
        let nanos = i128::from(self.millis) * 1_000_000 + i128::from(self.nanos);
        i64::try_from(nanos).ok()
    }
}
