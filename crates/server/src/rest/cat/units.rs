//! Amounts as `_cat` writes them for people: `5.6kb`, `15ms`, one decimal and the largest unit
//! that leaves a whole part.

const BYTES: [(&str, u64); 6] =
    [("pb", 1 << 50), ("tb", 1 << 40), ("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10), ("b", 1)];
const TIMES: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Bytes for people.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    scaled(bytes, &BYTES)
}

/// Milliseconds for people.
#[must_use]
pub fn millis(millis: u64) -> String {
    scaled(millis, &TIMES)
}

fn scaled(amount: u64, units: &[(&str, u64)]) -> String {
    let last = units.last().copied().unwrap_or(("", 1));
    let (name, size) = units.iter().copied().find(|(_, size)| amount >= *size).unwrap_or(last);
    // Tenths are cut off, not rounded, and not shown where there are none.
    let tenths = u128::from(amount) * 10 / u128::from(size);
    match tenths % 10 {
        0 => format!("{}{name}", tenths / 10),
        tenth => format!("{}.{tenth}{name}", tenths / 10),
    }
}

/// Bytes in one unit that was asked for, whole; none for a unit that there is none of.
#[must_use]
pub fn bytes_in(bytes: u64, unit: &str) -> Option<String> {
    let short = if unit.len() == 1 && unit != "b" { format!("{unit}b") } else { unit.to_owned() };
    let (_, size) = BYTES.iter().find(|(name, _)| *name == short)?;
    Some((bytes / size).to_string())
}

/// A time in one unit that was asked for, whole; none for a unit that there is none of.
#[must_use]
pub fn millis_in(millis: u64, unit: &str) -> Option<String> {
    match unit {
        "nanos" => Some(millis.saturating_mul(1_000_000).to_string()),
        "micros" => Some(millis.saturating_mul(1000).to_string()),
        _ => {
            let (_, size) = TIMES.iter().find(|(name, _)| *name == unit)?;
            Some((millis / size).to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        for (amount, expected) in
            [(0, "0b"), (1023, "1023b"), (1024, "1kb"), (5812, "5.6kb"), (1 << 30, "1gb")]
        {
            assert_eq!(bytes(amount), expected);
        }
        assert_eq!((millis(15).as_str(), millis(90_000).as_str()), ("15ms", "1.5m"));
        assert_eq!(bytes_in(5812, "k").as_deref(), Some("5"));
        assert_eq!(bytes_in(5812, "b").as_deref(), Some("5812"));
        assert_eq!(millis_in(1500, "s").as_deref(), Some("1"));
        assert_eq!((bytes_in(1, "x"), millis_in(1, "x")), (None, None));
    }
}
