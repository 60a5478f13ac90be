//! Values of a query as values of a field.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use super::fields::Resolved;
use crate::document::half;
use crate::error::Error;
use crate::mapping::FieldType;
use crate::query::parse::as_text;

/// A number that does not fit a whole number's field.
pub(super) enum Whole {
    /// It is one.
    Exact(i128),
    /// It lies between two; the lower one.
    Between(i128),
}

/// A whole number, or what lies between two.
///
/// # Errors
/// `number_format_exception` where it is no number.
#[expect(clippy::cast_possible_truncation, reason = "a cast saturates")]
pub(super) fn whole(value: &Value) -> Result<Whole, Error> {
    let wrong = || number_format(value);
    let double = match value {
        Value::Number(number) => {
            if let Some(exact) = number.as_i64() {
                return Ok(Whole::Exact(i128::from(exact)));
            }
            if let Some(exact) = number.as_u64() {
                return Ok(Whole::Exact(i128::from(exact)));
            }
            number.as_f64().ok_or_else(wrong)?
        }
        Value::String(text) => {
            if let Ok(exact) = text.trim().parse::<i128>() {
                return Ok(Whole::Exact(exact));
            }
            text.trim().parse::<f64>().map_err(|_| wrong())?
        }
        Value::Bool(_) | Value::Null | Value::Array(_) | Value::Object(_) => return Err(wrong()),
    };
    if double.is_nan() {
        return Err(wrong());
    }
    let floor = double.floor();
    Ok(if floor == double { Whole::Exact(floor as i128) } else { Whole::Between(floor as i128) })
}

/// A number with a fraction.
///
/// # Errors
/// `number_format_exception` where it is no number.
pub(super) fn double(value: &Value) -> Result<f64, Error> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.filter(|number: &f64| !number.is_nan()).ok_or_else(|| number_format(value))
}

/// A number as a field of its type keeps it.
#[expect(clippy::cast_possible_truncation, reason = "that is what a float field does")]
pub(super) fn rounded(resolved: Resolved<'_>, value: f64) -> f64 {
    match resolved.field.field_type() {
        FieldType::Float => f64::from(value as f32),
        FieldType::HalfFloat => half(value),
        FieldType::ScaledFloat => {
            let factor = resolved.field.scaling_factor();
            (value * factor).round() / factor
        }
        _ => value,
    }
}

/// A boolean.
///
/// # Errors
/// 400 where it is none.
pub(super) fn boolean(value: &Value) -> Result<bool, Error> {
    match value {
        Value::Bool(flag) => Ok(*flag),
        Value::String(text) if text == "true" => Ok(true),
        Value::String(text) if text == "false" || text.is_empty() => Ok(false),
        _ => Err(Error::illegal_argument(format!(
            "Can't parse boolean value [{}], expected [true] or [false]",
            as_text(value)
        ))),
    }
}

/// An address or a block of addresses (`10.0.0.0/8`), as the first and the last one.
///
/// # Errors
/// 400 where it is none.
pub(super) fn addresses(value: &Value) -> Result<(Ipv6Addr, Ipv6Addr), Error> {
    let text = as_text(value);
    let wrong = || Error::illegal_argument(format!("'{text}' is not an IP string literal."));
    let Some((address, length)) = text.split_once('/') else {
        let address = mapped(text.parse().map_err(|_| wrong())?);
        return Ok((address, address));
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let length: u32 =
        length.parse().ok().filter(|length| *length <= width).ok_or_else(|| {
            Error::illegal_argument(format!("Expected [ip/prefix] but was [{text}]"))
        })?;
    let free = width - length;
    let mask = if free >= 128 { u128::MAX } else { (1u128 << free) - 1 };
    let first = u128::from(mapped(address)) & !mask;
    Ok((Ipv6Addr::from(first), Ipv6Addr::from(first | mask)))
}

/// IPv4 addresses are kept as IPv6.
fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::to_ipv6_mapped(&address),
        IpAddr::V6(address) => address,
    }
}

/// `number_format_exception`, as Java words it.
pub(super) fn number_format(value: &Value) -> Error {
    let text = as_text(value);
    let reason = if text.is_empty() {
        "empty String".to_owned()
    } else {
        format!("For input string: \"{text}\"")
    };
    Error::invalid("number_format_exception", reason)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn half_floats_are_rounded_to_eleven_bits() {
        assert!((half(184.4) - 184.375).abs() < 1e-9);
        assert!((half(1.0) - 1.0).abs() < 1e-9);
        assert!(half(1e6).is_infinite());
        assert!((half(65_504.0) - 65_504.0).abs() < 1e-9);
    }

    #[test]
    fn blocks_of_addresses_have_ends() {
        let (from, to) = addresses(&json!("10.0.0.0/8")).unwrap();
        assert_eq!(from.to_string(), "::ffff:10.0.0.0");
        assert_eq!(to.to_string(), "::ffff:10.255.255.255");
        assert!(addresses(&json!("10.0.0.0/33")).is_err());
        assert!(addresses(&json!("x")).is_err());
        assert!(addresses(&json!("::/0")).is_ok());
    }
}
