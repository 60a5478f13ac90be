//! Numbers as Redis adds them: with the 64-bit mantissa of the x87's extended format (a C
//! `long double`), written with 17 digits after the point at most and never with an exponent.
//! Done in whole numbers, so that every machine gets the same digits.

use num_bigint::BigUint;

/// Bits of the mantissa.
const MANTISSA_BITS: u64 = 64;
/// Largest power of two that the highest bit of the mantissa may stand for.
const EXPONENT_MAX: i64 = 16_383;
/// Smallest power of two above 0.
const EXPONENT_MIN: i64 = -16_445;
/// A longer text is no number, as in Redis.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;
/// Digits kept after the point.
const PLACES: u32 = 17;

/// A number of the extended format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// Over all numbers, or under all where negative.
    Infinite { negative: bool },
    /// The mantissa times two to the exponent.
    Finite { negative: bool, mantissa: u64, exponent: i64 },
}

/// Reads a decimal number; `None` where it is none, or too large, or too close to 0.
pub(super) fn parse(text: &[u8]) -> Option<Number> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") {
        return Some(Number::Infinite { negative });
    }
    let (digits, power) = match rest.iter().position(|byte| byte.eq_ignore_ascii_case(&b'e')) {
        Some(at) => (&rest[..at], parse_power(&rest[at + 1..])?),
        None => (rest, 0),
    };
    let (whole, part) = match digits.iter().position(|byte| *byte == b'.') {
        Some(at) => (&digits[..at], &digits[at + 1..]),
        None => (digits, &[][..]),
    };
    let all = [whole, part].concat();
    if all.is_empty() || !all.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let significant = BigUint::parse_bytes(&all, 10)?;
    let power = power.checked_sub(i64::try_from(part.len()).ok()?)?;
    if significant == BigUint::ZERO {
        return Some(Number::Finite { negative, mantissa: 0, exponent: 0 });
    }
    // Beyond these the number is out of range whatever its digits are; the work is bounded.
    if !(-10_500..=5_000).contains(&power) {
        return None;
    }
    let scale = BigUint::from(10u32).pow(u32::try_from(power.unsigned_abs()).ok()?);
    let rounded = if power >= 0 {
        round(negative, &(significant * scale), 0, false)
    } else {
        // Two bits beyond the mantissa, and whether anything is left, are enough to round.
        let shift = (scale.bits() + MANTISSA_BITS + 2).saturating_sub(significant.bits());
        let shifted = significant << shift;
        let quotient = &shifted / &scale;
        let is_inexact = &quotient * &scale != shifted;
        round(negative, &quotient, -i64::try_from(shift).ok()?, is_inexact)
    };
    rounded.filter(|number| matches!(number, Number::Finite { .. }))
}

fn parse_power(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let size = std::str::from_utf8(digits).ok()?.parse().unwrap_or(i64::from(i32::MAX));
    Some(if text.starts_with(b"-") { -size } else { size })
}

/// The number nearest to `value` times two to the exponent, the even one of two; `is_inexact`
/// says that the value is a little more. `None` where it is too close to 0.
fn round(negative: bool, value: &BigUint, exponent: i64, is_inexact: bool) -> Option<Number> {
    let excess = value.bits().saturating_sub(MANTISSA_BITS);
    let mut mantissa = u64::try_from(&(value >> excess)).ok()?;
    let mut exponent = exponent + i64::try_from(excess).ok()?;
    if excess > 0 && value.bit(excess - 1) {
        let is_half = !is_inexact && value.trailing_zeros() == Some(excess - 1);
        if !is_half || mantissa % 2 == 1 {
            mantissa = mantissa.checked_add(1).unwrap_or_else(|| {
                exponent += 1;
                1 << (MANTISSA_BITS - 1)
            });
        }
    }
    let top = exponent + i64::from(u64::BITS - mantissa.leading_zeros()) - 1;
    if mantissa != 0 && top < EXPONENT_MIN {
        return None;
    }
    if top > EXPONENT_MAX {
        return Some(Number::Infinite { negative });
    }
    Some(Number::Finite { negative, mantissa, exponent })
}

/// The sum; `None` where it is over all numbers.
pub(super) fn add(a: &Number, b: &Number) -> Option<Number> {
    let (
        &Number::Finite { negative: a_negative, mantissa: a, exponent: a_exponent },
        &Number::Finite { negative: b_negative, mantissa: b, exponent: b_exponent },
    ) = (a, b)
    else {
        return None;
    };
    let exponent = match (a, b) {
        (0, _) => b_exponent,
        (_, 0) => a_exponent,
        _ => a_exponent.min(b_exponent),
    };
    let align = |mantissa: u64, from: i64| {
        let shift = u64::try_from(from - exponent).unwrap_or(0);
        BigUint::from(mantissa) << shift
    };
    let (a, b) = (align(a, a_exponent), align(b, b_exponent));
    let (negative, sum) = if a_negative == b_negative {
        (a_negative, a + b)
    } else if a >= b {
        (a_negative, a - b)
    } else {
        (b_negative, b - a)
    };
    if sum == BigUint::ZERO {
        return Some(Number::Finite { negative: false, mantissa: 0, exponent: 0 });
    }
    round(negative, &sum, exponent, false).filter(|sum| matches!(sum, Number::Finite { .. }))
}

/// The number in decimal digits.
pub(super) fn format(number: &Number) -> String {
    let &Number::Finite { negative, mantissa, exponent } = number else {
        // Sums are finite; only what was read may be infinite, and that is not written.
        return "inf".into();
    };
    let scaled = BigUint::from(mantissa) * BigUint::from(10u32).pow(PLACES);
    let scaled = match u64::try_from(exponent) {
        Ok(up) => scaled << up,
        Err(_) => round_shift(&scaled, exponent.unsigned_abs()),
    };
    let digits = format!("{:0>width$}", scaled.to_string(), width = PLACES as usize + 1);
    let (whole, part) = digits.split_at(digits.len() - PLACES as usize);
    let part = part.trim_end_matches('0');
    let sign = if negative && (whole != "0" || !part.is_empty()) { "-" } else { "" };
    let point = if part.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{part}")
}

/// `value` divided by two so many times, to the nearest whole number, the even one of two.
fn round_shift(value: &BigUint, down: u64) -> BigUint {
    let mut whole = value >> down;
    let is_half = value.trailing_zeros() == Some(down - 1);
    if value.bit(down - 1) && (!is_half || whole.bit(0)) {
        whole += 1u32;
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str) -> String {
        let (a, b) = (parse(a.as_bytes()).unwrap(), parse(b.as_bytes()).unwrap());
        add(&a, &b).map_or("none".into(), |sum| format(&sum))
    }

    #[test]
    fn sums_are_written_as_redis_writes_them() {
        for (a, b, expected) in [
            ("10.50", "0.1", "10.6"),
            ("3", "1.1", "4.1"),
            ("5.0e3", "2.0e2", "5200"),
            ("0", "-0", "0"),
            ("-1", "1", "0"),
            ("-0.5", "0.25", "-0.25"),
            ("1e-20", "0", "0"),
            ("-1e-20", "0", "0"),
            ("1e30", "0", "1000000000000000000024696061952"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("18446744073709551616", "1", "18446744073709551616"),
            ("123456789.123456789", "0", "123456789.12345678899873747"),
            ("1e4932", "1e4932", "none"),
        ] {
            assert_eq!(sum(a, b), expected, "{a} + {b}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        let long = "1".repeat(6000);
        for text in
            ["", "-", ".", "e5", "1e", " 1", "1 ", "nan", "0x1", "1e5000", "1e-6000", "1_0", &long]
        {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        for text in ["1.", ".5", "+1", "inf", "-Infinity", "0e99999999", "00012"] {
            assert!(parse(text.as_bytes()).is_some(), "{text}");
        }
    }
}
