//! Dates in names of indices: `<logs-{now/d}>` and `<logs-{now-1M/M{yyyy.MM}}>`, in UTC or at a
//! fixed offset.

use plimsoll_index::Error;
use plimsoll_stdx::civil::Date;

const DAY_MS: i64 = 86_400_000;
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
        name.push_str(&filled.ok_or_else(|| broken("the date in it cannot be read"))?);
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
fn fill(placeholder: &str, now_ms: u64) -> Option<String> {
    let (math, format) = match placeholder.split_once('{') {
        Some((math, format)) => (math, format.strip_suffix('}')?),
        None => (placeholder, PATTERN),
    };
    let (pattern, offset_ms) = match format.split_once('|') {
        Some((pattern, zone)) => (pattern, offset(zone)?),
        None => (format, 0),
    };
    let now = i64::try_from(now_ms).ok()?.checked_add(offset_ms)?;
    let moment = calculate(math.strip_prefix("now")?, now)?;
    RANGE_MS.contains(&moment).then(|| show(moment, pattern))?
}

/// `UTC`, `Z`, `+02:00`, in milliseconds.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "UTC" | "Z" | "utc") {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = zone[1..].split_once(':').unwrap_or((&zone[1..], "0"));
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours <= 18 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60_000)
}

/// Adds and rounds: `+1d`, `-2M`, `/d`, one after the other.
fn calculate(mut math: &str, mut moment: i64) -> Option<i64> {
    while !math.is_empty() {
        let (operator, rest) = math.split_at_checked(1)?;
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (count, rest) = rest.split_at(digits);
        let mut letters = rest.chars();
        let unit = letters.next()?;
        moment = match operator {
            "/" if count.is_empty() => rounded(moment, unit)?,
            "+" => moved(moment, if count.is_empty() { 1 } else { count.parse().ok()? }, unit)?,
            "-" => {
                let count: i64 = if count.is_empty() { 1 } else { count.parse().ok()? };
                moved(moment, count.checked_neg()?, unit)?
            }
            _ => return None,
        };
        math = letters.as_str();
    }
    Some(moment)
}

fn moved(moment: i64, count: i64, unit: char) -> Option<i64> {
    let by = |scale: i64| moment.checked_add(count.checked_mul(scale)?);
    let months = |count: i64| {
        // Further is beyond every year that is kept.
        let count = Some(count).filter(|count| count.unsigned_abs() <= 12 * 10_000)?;
        let date = Date::of_day(moment.div_euclid(DAY_MS)).plus_months(count);
        let is_kept = (0..=9999).contains(&date.year);
        is_kept.then(|| date.days() * DAY_MS + moment.rem_euclid(DAY_MS))
    };
    match unit {
        's' => by(1000),
        'm' => by(60_000),
        'h' | 'H' => by(3_600_000),
        'd' => by(DAY_MS),
        'w' => by(7 * DAY_MS),
        'M' => months(count),
        'y' => months(count.checked_mul(12)?),
        _ => None,
    }
}

fn rounded(moment: i64, unit: char) -> Option<i64> {
    let down = |scale: i64| moment - moment.rem_euclid(scale);
    let day = moment.div_euclid(DAY_MS);
    let date = Date::of_day(day);
    Some(match unit {
        's' => down(1000),
        'm' => down(60_000),
        'h' | 'H' => down(3_600_000),
        'd' => down(DAY_MS),
        // 1970-01-01 was a Thursday, and weeks begin on Monday.
        'w' => (day - (day + 3).rem_euclid(7)) * DAY_MS,
        'M' => Date { day: 1, ..date }.days() * DAY_MS,
        'y' => Date { month: 1, day: 1, ..date }.days() * DAY_MS,
        _ => return None,
    })
}

/// A moment by a pattern of runs of letters; anything else stands for itself.
fn show(moment: i64, pattern: &str) -> Option<String> {
    let Date { year, month, day } = Date::of_day(moment.div_euclid(DAY_MS));
    let of_day = moment.rem_euclid(DAY_MS);
    let mut out = String::new();
    let mut rest = pattern;
    while let Some(letter) = rest.chars().next() {
        let end = rest.find(|c| c != letter).unwrap_or(rest.len());
        let shown = match (letter, end) {
            ('y' | 'u' | 'Y', 4) => format!("{year:04}"),
            ('y' | 'u' | 'Y', 2) => format!("{:02}", year % 100),
            ('M', 2) => format!("{month:02}"),
            ('d', 2) => format!("{day:02}"),
            ('H', 2) => format!("{:02}", of_day / 3_600_000),
            ('m', 2) => format!("{:02}", of_day / 60_000 % 60),
            ('s', 2) => format!("{:02}", of_day / 1000 % 60),
            (letter, _) if letter.is_ascii_alphabetic() => return None,
            (_, end) => rest[..end].to_owned(),
        };
        out.push_str(&shown);
        rest = &rest[end..];
    }
    Some(out)
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
        ] {
            assert_eq!(resolve(text, now).unwrap(), expected, "{text}");
        }
        for broken in ["<a{now>", "<a}>", "<{then}>", "<{now+1}>", "<{now/q}>", "<{now{VV}}>"] {
            assert_eq!(resolve(broken, now).unwrap_err().kind, "parse_exception", "{broken}");
        }
    }
}
