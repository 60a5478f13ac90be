//! Dates in names of indices: `<logs-{now/d}>` and `<logs-{now-1M/M{yyyy.MM|Europe/Berlin}}>`, in UTC or the zone
//! that is named. What dates, patterns and date math are is [`plimsoll_index::mapping::date`]'s.

use plimsoll_index::Error;
use plimsoll_index::mapping::date::{DateFormat, Zone, parse_math};

/// The pattern where none is given.
const PATTERN: &str = "yyyy.MM.dd";
/// Dates are kept to the years that four digits can write.
const RANGE_MS: std::ops::Range<i64> = -62_135_596_800_000..253_402_300_800_000;

/// A name with its dates filled in; one without angle brackets is itself.
///
/// # Errors
/// 400 `parse_exception` where brackets or dates are broken.
pub fn resolve(text: &str, now_ms: u64) -> Result<String, Error> {
    let Some(inner) = text.strip_prefix('<').and_then(|text| text.strip_suffix('>')) else {
        return Ok(text.to_owned());
    };
    let broken = |why: &str| {
        Error::invalid(
            "parse_exception",
            format!("invalid dynamic name expression [{inner}]. {why}"),
        )
    };
    let mut name = String::new();
    let mut rest = inner;
    while let Some(open) = rest.find(['{', '}']) {
        if rest.as_bytes()[open] == b'}' {
            return Err(broken(
                "invalid character at position [0]. `{` and `}` are reserved characters and \
                 should be escaped when used as part of the index name using `\\`",
            ));
        }
        name.push_str(&rest[..open]);
        let end =
            closing(&rest[open..]).ok_or_else(|| broken("date math placeholder is open ended"))?;
        let placeholder = &rest[open + 1..open + end];
        let filled = fill(placeholder, now_ms);
        name.push_str(&filled.map_err(|error| broken(&error.reason))?);
        rest = &rest[open + end + 1..];
    }
    name.push_str(rest);
    Ok(name)
}

/// Where the bracket that begins here is closed.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return Some(at),
            b'}' => depth -= 1,
            _ => (),
        }
    }
    None
}

/// `now-1d/d{yyyy.MM.dd|+02:00}` as a date.
fn fill(placeholder: &str, now_ms: u64) -> Result<String, Error> {
    let (math, format) = match placeholder.split_once('{') {
        Some((math, format)) => (math, format.strip_suffix('}').unwrap_or(format)),
        None => (placeholder, PATTERN),
    };
    let (pattern, zone) = match format.split_once('|') {
        Some((pattern, zone)) => (pattern, Zone::parse(zone)?),
        None => (format, Zone::utc()),
    };
    let pattern = DateFormat::parse_pattern(pattern)?;
    let moment = parse_math(math, &DateFormat::default_date(), &zone, false, now_ms)?;
    if !RANGE_MS.contains(&moment) {
        return Err(Error::illegal_argument("the date is before the year 1 or after 9999"));
    }
    Ok(pattern.format_millis(moment, &zone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_filled_in() {
        // 2024-03-22T11:45:30Z
        let now = 1_711_107_930_000;
        for (text, expected) in [
            ("logs", "logs"),
            ("<logs-{now/d}>", "logs-2024.03.22"),
            ("<logs-{now/M}>", "logs-2024.03.01"),
            ("<logs-{now/M{yyyy.MM}}>", "logs-2024.03"),
            ("<logs-{now/M-1M{yyyy.MM}}>", "logs-2024.02"),
            ("<logs-{now/d{yyyy.MM.dd|+12:00}}>", "logs-2024.03.22"),
            ("<logs-{now/d{yyyy.MM.dd|+13:00}}-x>", "logs-2024.03.23-x"),
            ("<{now/w}-{now-1y{yy}}>", "2024.03.18-23"),
            ("<{now-1M-2d{yyyy-MM-dd HH:mm:ss}}>", "2024-02-20 11:45:30"),
            ("<a-{now/d{HH:mm|Europe/Berlin}}>", "a-00:00"),
            ("<a-{2024-01-31||+1M/d}>", "a-2024.02.29"),
        ] {
            assert_eq!(resolve(text, now).unwrap(), expected, "{text}");
        }
        for broken in [
            "<a{now>",
            "<a}>",
            "<{then}>",
            "<{now+1}>",
            "<{now/q}>",
            "<{now{jj}}>",
            "<{now{yyyy|X}}>",
        ] {
            assert_eq!(resolve(broken, now).unwrap_err().kind, "parse_exception", "{broken}");
        }
    }
}
