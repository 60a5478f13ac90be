//! Sizes and durations as people write them. Elasticsearch's spellings: a kilobyte is 1024
//! bytes, and a number without a unit is refused rather than guessed at.

use std::time::Duration;

/// The units of sizes, in bytes.
const SIZES: [(&str, u64); 5] =
    [("b", 1), ("kb", 1 << 10), ("mb", 1 << 20), ("gb", 1 << 30), ("tb", 1 << 40)];

/// The units of durations, in nanoseconds.
const DURATIONS: [(&str, u64); 7] = [
    ("nanos", 1),
    ("micros", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];
/// What a size looks like.
const SIZE: &str = "a size such as 64kb, 256mb or 2gb";
/// What a duration looks like.
const DURATION: &str = "a duration such as 10ms, 5s or 2m";
const NANOS_PER_SECOND: u128 = 1_000_000_000;
/// What a duration of nothing is shown in.
const ZERO_UNIT: &str = "ms";

/// Why a text is no size or duration; the text itself is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// It is something else than what is named here with an example, or too large.
    #[error("is not {0}")]
    Not(&'static str),
    /// It is a number alone; what is wanted is named here with an example.
    #[error("lacks a unit; write {0}")]
    NoUnit(&'static str),
}

/// A size in bytes: `512b`, `64kb`, `256mb`, `2gb`; upper case is the same, and so is `MiB`.
///
/// # Errors
/// Where it is none.
pub fn bytes(text: &str) -> Result<u64, UnitError> {
    let text = text.trim().to_ascii_lowercase().replace("ib", "b");
    u64::try_from(scaled(&text, &SIZES, SIZE)?).map_err(|_| UnitError::Not(SIZE))
}

/// A duration: `80nanos`, `250micros`, `10ms`, `5s`, `2m`, `1h`, `7d`; upper case is the same, but for `M`, which
/// is a month elsewhere.
///
/// # Errors
/// Where it is none.
pub fn duration(text: &str) -> Result<Duration, UnitError> {
    let text = text.trim();
    if text.ends_with('M') {
        return Err(UnitError::Not(DURATION));
    }
    let nanos = scaled(&text.to_ascii_lowercase(), &DURATIONS, DURATION)?;
    let seconds = u64::try_from(nanos / NANOS_PER_SECOND).map_err(|_| UnitError::Not(DURATION))?;
    let rest = u32::try_from(nanos % NANOS_PER_SECOND).unwrap_or(0);
    Ok(Duration::new(seconds, rest))
}

/// A size as people read it: the largest unit that divides it.
#[must_use]
pub fn show_bytes(bytes: u64) -> String {
    let unit =
        SIZES.iter().rev().find(|(_, scale)| bytes >= *scale && bytes.is_multiple_of(*scale));
    let (name, scale) = unit.unwrap_or(&SIZES[0]);
    format!("{}{name}", bytes / scale)
}

/// A duration as people read it: the largest unit that divides it.
#[must_use]
pub fn show_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let mut units = DURATIONS.iter().rev().map(|(name, scale)| (name, u128::from(*scale)));
    match units.find(|(_, scale)| nanos >= *scale && nanos.is_multiple_of(*scale)) {
        Some((name, scale)) => format!("{}{name}", nanos / scale),
        None => format!("0{ZERO_UNIT}"),
    }
}

fn scaled(text: &str, units: &[(&str, u64)], wanted: &'static str) -> Result<u128, UnitError> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| UnitError::Not(wanted))?;
    let unit = unit.trim();
    if unit.is_empty() {
        return if number == 0 { Ok(0) } else { Err(UnitError::NoUnit(wanted)) };
    }
    let scale = units.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale);
    let scale = scale.ok_or(UnitError::Not(wanted))?;
    Ok(u128::from(number) * u128::from(scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, want) in
            [("0", 0), ("512b", 512), ("64kb", 65_536), ("2 MiB", 2 << 20), ("1GB", 1 << 30)]
        {
            assert_eq!(bytes(text), Ok(want), "{text}");
        }
        for text in ["", "mb", "64", "1.5mb", "-1", "64 parsecs", "99999999999tb"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_and_back() {
        for text in ["80nanos", "250micros", "10ms", "5s", "2m", "1h", "7d", "0ms"] {
            assert_eq!(show_duration(duration(text).unwrap()), text);
        }
        assert_eq!(duration("2H"), duration("2h"));
        assert_eq!(duration("99999999d").map(|it| it.as_secs()), Ok(99_999_999 * 86_400));
        for text in ["2M", "1.5h", "-1s", "1w", "9999999999999999d"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert_eq!(duration("5"), Err(UnitError::NoUnit(DURATION)));
        for text in ["512b", "64kb", "256mb", "2gb"] {
            assert_eq!(show_bytes(bytes(text).unwrap()), text);
        }
    }
}
