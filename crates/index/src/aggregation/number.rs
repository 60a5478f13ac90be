//! How numbers are written where they become strings: keys of ranges, keyed buckets, formats.

use std::fmt::Write;

/// A double as the JVM writes it: `2.0`, `1.0E10`. Clients compare keys of buckets as strings.
pub(crate) fn double_string(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() };
    }
    let magnitude = value.abs();
    if value == 0.0 || (1e-3..1e7).contains(&magnitude) {
        return format!("{value:?}");
    }
    // Rust's shortest digits, with the JVM's exponent.
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let point = if digits.contains('.') { "" } else { ".0" };
    format!("{digits}{point}E{exponent}")
}

/// Writes a number by a pattern such as `#,##0.00` or `$0.0`; as [`double_string`] where the
/// pattern has no digits.
pub(crate) fn decimal_format(value: f64, pattern: &str) -> String {
    let is_digit = |c: char| matches!(c, '#' | '0' | ',' | '.');
    let (Some(start), Some(end)) = (pattern.find(is_digit), pattern.rfind(is_digit)) else {
        return double_string(value);
    };
    let (Some(prefix), Some(body), Some(suffix)) =
        (pattern.get(..start), pattern.get(start..=end), pattern.get(end + 1..))
    else {
        return double_string(value);
    };
    let (whole, fraction) = body.split_once('.').unwrap_or((body, ""));
    let digits_min = whole.chars().filter(|c| *c == '0').count();
    let places_min = fraction.chars().filter(|c| *c == '0').count();
    let places_max = fraction.chars().filter(|c| matches!(c, '0' | '#')).count().min(17);
    let group = whole.rfind(',').map(|comma| whole.len() - comma - 1).filter(|group| *group > 0);
    let text = format!("{:.places_max$}", value.abs());
    let (integer, decimals) = text.split_once('.').unwrap_or((&text, ""));
    let mut decimals = decimals.to_owned();
    while decimals.len() > places_min && decimals.ends_with('0') {
        decimals.pop();
    }
    let integer = if integer == "0" && digits_min == 0 { "" } else { integer };
    let integer = format!("{integer:0>digits_min$}");
    let mut out = String::new();
    if value < 0.0 {
        out.push('-');
    }
    out.push_str(prefix);
    for (position, digit) in integer.chars().enumerate() {
        let left = integer.len() - position;
        if position > 0 && group.is_some_and(|group| left.is_multiple_of(group)) {
            out.push(',');
        }
        out.push(digit);
    }
    if !decimals.is_empty() {
        // Writing into a string does not fail.
        let _ = write!(out, ".{decimals}");
    }
    out.push_str(suffix);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_the_jvm_writes_them() {
        for (value, text) in [
            (2.0, "2.0"),
            (-0.5, "-0.5"),
            (1e7, "1.0E7"),
            (1.25e-4, "1.25E-4"),
            (9_999_999.0, "9999999.0"),
            (0.0, "0.0"),
            (0.001, "0.001"),
            (1.234_567_89e8, "1.23456789E8"),
        ] {
            assert_eq!(double_string(value), text);
        }
    }

    #[test]
    fn patterns_give_digits_groups_and_signs() {
        for (value, pattern, text) in [
            (1234.5, "#,##0.00", "1,234.50"),
            (2.0, "0.0", "2.0"),
            (7.0, "$000.0#", "$007.0"),
            (-1.5, "0", "-2"),
            (0.25, "#.##", ".25"),
            (3.0, "##.##", "3"),
            (12.0, "nothing", "12.0"),
            (5.0, "0.0%", "5.0%"),
        ] {
            assert_eq!(decimal_format(value, pattern), text, "{pattern}");
        }
    }
}
