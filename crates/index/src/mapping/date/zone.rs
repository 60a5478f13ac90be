//! Time zones: fixed offsets and the zones of the time zone database.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::Error;

/// A time zone.
#[derive(Clone, PartialEq)]
pub enum Zone {
    /// So many seconds east of UTC, -64,800 to 64,800.
    Fixed(i32),
    /// A zone of the time zone database, with its name.
    Named(TimeZone, String),
}

impl Zone {
    /// UTC.
    #[must_use]
    pub fn utc() -> Self {
        Self::Fixed(0)
    }

    /// Reads `Z`, `UTC`, `+01:00`, `-0530`, `+2` or a name such as `Europe/Berlin`.
    ///
    /// # Errors
    /// 400 where there is no such zone.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if matches!(text, "Z" | "z" | "UTC" | "GMT" | "UT") {
            return Ok(Self::utc());
        }
        let plain = text.trim_start_matches("UTC").trim_start_matches("GMT");
        if let Some((offset, "")) = offset(plain) {
            return Ok(Self::Fixed(offset));
        }
        TimeZone::get(text)
            .map(|zone| Self::Named(zone, text.to_owned()))
            .map_err(|_| Error::illegal_argument(format!("Unknown time-zone ID: {text}")))
    }

    /// How far east of UTC it is at an instant, in milliseconds.
    #[must_use]
    pub fn offset_ms(&self, millis: i64) -> i64 {
        match self {
            Self::Fixed(seconds) => i64::from(*seconds) * 1000,
            Self::Named(zone, _) => Timestamp::from_millisecond(millis)
                .map_or(0, |at| i64::from(zone.to_offset(at).seconds()) * 1000),
        }
    }

    /// The instant of local milliseconds; see [`super::Civil::instant`].
    #[must_use]
    pub fn to_utc(&self, local_ms: i64) -> i64 {
        if let Self::Fixed(seconds) = self {
            return local_ms.saturating_sub(i64::from(*seconds) * 1000);
        }
        // A zone's offset never changes twice in two days: the offsets a day before and a day
        // after are the two that can hold.
        const DAY_MS: i64 = 86_400_000;
        let before = self.offset_ms(local_ms.saturating_sub(DAY_MS));
        let after = self.offset_ms(local_ms.saturating_add(DAY_MS));
        let first = local_ms.saturating_sub(before);
        let second = local_ms.saturating_sub(after);
        if self.offset_ms(first) == before {
            return first;
        }
        if self.offset_ms(second) == after {
            return second;
        }
        // The clock skips this time: what it skips is added, which the older offset does.
        first
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(0) => f.write_str("Z"),
            Self::Fixed(seconds) => f.write_str(&offset_text(*seconds, true)),
            Self::Named(_, name) => f.write_str(name),
        }
    }
}

/// `+01:00` or `+0100`, with seconds where there are some.
pub(super) fn offset_text(seconds: i32, colons: bool) -> String {
    let sign = if seconds < 0 { '-' } else { '+' };
    let all = seconds.abs();
    let (hours, minutes, rest) = (all / 3600, all / 60 % 60, all % 60);
    let colon = if colons { ":" } else { "" };
    let mut text = format!("{sign}{hours:02}{colon}{minutes:02}");
    if rest != 0 {
        text.push_str(&format!("{colon}{rest:02}"));
    }
    text
}

/// Reads `Z`, `+1`, `+01`, `+0100`, `+01:00` or `+01:00:00` at the start; gives the seconds and
/// what is left.
pub(super) fn offset(text: &str) -> Option<(i32, &str)> {
    if let Some(rest) = text.strip_prefix(['Z', 'z']) {
        return Some((0, rest));
    }
    let sign = match text.chars().next()? {
        '+' => 1,
        '-' => -1,
        _ => return None,
    };
    let mut rest = &text[1..];
    let mut two = |colon: bool, least: usize| -> Option<i32> {
        let from = if colon { rest.strip_prefix(':').unwrap_or(rest) } else { rest };
        let digits = from.bytes().take(2).take_while(u8::is_ascii_digit).count();
        if digits < least {
            return None;
        }
        let value = from[..digits].parse().ok()?;
        rest = &from[digits..];
        Some(value)
    };
    let hours = two(false, 1)?;
    let minutes = two(true, 2).unwrap_or(0);
    let seconds = two(true, 2).unwrap_or(0);
    if hours > 18 || minutes > 59 || seconds > 59 {
        return None;
    }
    Some((sign * (hours * 3600 + minutes * 60 + seconds), rest))
}
