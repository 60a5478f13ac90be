//! One value of a document as its field wants it: numbers in range, dates read, addresses and
//! points taken apart; and what is said where it cannot be.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

use serde_json::Value;

use crate::Error;
use crate::mapping::date::Moment;
use crate::mapping::{Field, FieldType};

/// The longest term that a keyword may be, in bytes: Lucene's limit.
const TERM_BYTES_MAX: usize = 32_766;

/// A value of JSON that is neither list nor object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scalar<'a> {
    Text(&'a str),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Bool(bool),
}

impl<'a> Scalar<'a> {
    /// The value as text, as `_source` has it but for the digits of numbers with a fraction.
    pub fn text(&self) -> Cow<'a, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Signed(value) => Cow::Owned(value.to_string()),
            Self::Unsigned(value) => Cow::Owned(value.to_string()),
            Self::Float(value) => Cow::Owned(Value::from(*value).to_string()),
            Self::Bool(value) => Cow::Borrowed(if *value { "true" } else { "false" }),
        }
    }

    /// The value as JSON.
    pub fn value(&self) -> Value {
        match self {
            Self::Text(text) => Value::from(*text),
            Self::Signed(value) => Value::from(*value),
            Self::Unsigned(value) => Value::from(*value),
            Self::Float(value) => Value::from(*value),
            Self::Bool(value) => Value::from(*value),
        }
    }

    /// A scalar of a JSON value; none for null, lists and objects.
    pub fn of(value: &'a Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::Text(text)),
            Value::Bool(value) => Some(Self::Bool(*value)),
            Value::Number(number) => number
                .as_i64()
                .map(Self::Signed)
                .or_else(|| number.as_u64().map(Self::Unsigned))
                .or_else(|| number.as_f64().map(Self::Float)),
            _ => None,
        }
    }
}

/// A value as it is indexed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Leaf<'a> {
    /// Text, or a keyword as it is after its normalizer.
    Text(Cow<'a, str>),
    Long(i64),
    /// Also a boolean: 0 or 1.
    Unsigned(u64),
    Double(f64),
    Ip(Ipv6Addr),
    Point {
        latitude: f64,
        longitude: f64,
    },
    /// There is a value, of which nothing is indexed.
    Present,
    /// The value is longer than `ignore_above`.
    TooLong,
}

/// Makes of a value what its field indexes.
pub(crate) fn leaf<'a>(field: &Field, scalar: Scalar<'a>) -> Result<Leaf<'a>, Error> {
    match field.field_type() {
        FieldType::Text | FieldType::MatchOnlyText => Ok(Leaf::Text(scalar.text())),
        FieldType::Keyword | FieldType::Wildcard | FieldType::Flattened => keyword(field, scalar),
        FieldType::ConstantKeyword => constant(field, scalar),
        FieldType::Long => whole(field, scalar, i64::MIN, i64::MAX).map(Leaf::Long),
        FieldType::Integer => {
            whole(field, scalar, i64::from(i32::MIN), i64::from(i32::MAX)).map(Leaf::Long)
        }
        FieldType::Short => {
            whole(field, scalar, i64::from(i16::MIN), i64::from(i16::MAX)).map(Leaf::Long)
        }
        FieldType::Byte => {
            whole(field, scalar, i64::from(i8::MIN), i64::from(i8::MAX)).map(Leaf::Long)
        }
        FieldType::UnsignedLong => unsigned(field, scalar).map(Leaf::Unsigned),
        FieldType::Double | FieldType::Float | FieldType::HalfFloat | FieldType::ScaledFloat => {
            fraction(field, scalar).map(Leaf::Double)
        }
        FieldType::Boolean => boolean(scalar),
        FieldType::Date => date(field, scalar).map(|moment| Leaf::Long(moment.millis)),
        FieldType::DateNanos => {
            let moment = date(field, scalar)?;
            moment.as_nanos().map(Leaf::Long).ok_or_else(|| {
                let text = scalar.text();
                let side = if moment.millis < 0 {
                    "before the epoch in 1970 and cannot be stored in nanosecond resolution"
                } else {
                    "after 2262-04-11T23:47:16.854775807 and cannot be stored in nanosecond resolution"
                };
                Error::illegal_argument(format!("date[{text}] is {side}"))
            })
        }
        FieldType::Ip => ip(scalar),
        FieldType::Binary => Ok(Leaf::Present),
        FieldType::Alias => Err(Error::illegal_argument(format!(
            "Cannot write to a field alias [{}].",
            field.path()
        ))),
        FieldType::GeoPoint => Err(Error::invalid("parse_exception", "geo_point expected")),
    }
}

fn keyword<'a>(field: &Field, scalar: Scalar<'a>) -> Result<Leaf<'a>, Error> {
    let text = scalar.text();
    if let Some(limit) = field.ignore_above()
        && text.len() > limit
        && text.encode_utf16().count() > limit
    {
        return Ok(Leaf::TooLong);
    }
    let text = match field.normalizer() {
        Some(normalizer) => Cow::Owned(normalizer.normalize(&text)),
        None => text,
    };
    if text.len() > TERM_BYTES_MAX {
        return Err(Error::illegal_argument(format!(
            "Document contains at least one immense term in field=\"{}\" (whose UTF8 encoding is \
             longer than the max length {TERM_BYTES_MAX}), all of which were skipped. Please correct \
             the analyzer to not produce such terms. original message: bytes can be at most \
             {TERM_BYTES_MAX} in length; got {}",
            field.path(),
            text.len()
        )));
    }
    Ok(Leaf::Text(text))
}

fn constant<'a>(field: &Field, scalar: Scalar<'a>) -> Result<Leaf<'a>, Error> {
    let text = scalar.text();
    match field.constant() {
        Some(constant) if constant != text => Err(Error::illegal_argument(format!(
            "[constant_keyword] field [{}] only accepts values that are equal to the value defined \
             in the mappings [{constant}], but got [{text}]",
            field.path()
        ))),
        // Every document has the value, whether it brings it or not.
        _ => Ok(Leaf::Present),
    }
}

/// The names of whole numbers in messages, with their article.
fn article(kind: FieldType) -> &'static str {
    match kind {
        FieldType::Integer => "an integer",
        FieldType::Short => "a short",
        FieldType::Byte => "a byte",
        FieldType::UnsignedLong => "an unsigned long",
        _ => "a long",
    }
}

/// A number of Java's name, for messages.
fn java_name(kind: FieldType) -> &'static str {
    match kind {
        FieldType::Integer => "Integer",
        FieldType::Short => "Short",
        FieldType::Byte => "Byte",
        _ => "Long",
    }
}

fn out_of_range(field: &Field, text: &str) -> Error {
    Error::illegal_argument(format!(
        "Value [{text}] is out of range for {}",
        article(field.field_type())
    ))
}

fn not_numeric(token: &str) -> Error {
    Error::invalid(
        "json_parse_exception",
        format!("Current token ({token}) not numeric, can not use numeric value accessors"),
    )
}

fn for_input(text: &str) -> Error {
    Error::invalid("number_format_exception", format!("For input string: \"{text}\""))
}

fn whole(field: &Field, scalar: Scalar<'_>, least: i64, most: i64) -> Result<i64, Error> {
    let kind = field.field_type();
    let value = match scalar {
        Scalar::Signed(value) => value,
        Scalar::Unsigned(_) => return Err(out_of_range(field, &scalar.text())),
        Scalar::Float(value) => truncated(field, value, &scalar.text())?,
        Scalar::Bool(value) => {
            return Err(not_numeric(if value { "VALUE_TRUE" } else { "VALUE_FALSE" }));
        }
        Scalar::Text(_) if !field.coerces() => {
            return Err(Error::illegal_argument(format!(
                "{} value passed as String",
                java_name(kind)
            )));
        }
        Scalar::Text(text) => match text.parse::<i64>() {
            Ok(value) => value,
            Err(_) => match text.trim().parse::<f64>() {
                Ok(value) if value.is_finite() && !text.is_empty() => {
                    truncated(field, value, text)?
                }
                _ => return Err(Error::illegal_argument(format!("For input string: \"{text}\""))),
            },
        },
    };
    if value < least || value > most {
        return Err(out_of_range(field, &scalar.text()));
    }
    Ok(value)
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked before")]
fn truncated(field: &Field, value: f64, text: &str) -> Result<i64, Error> {
    // -2^63 and 2^63 are exact in f64.
    if !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) {
        return Err(out_of_range(field, text));
    }
    if !field.coerces() && value.fract() != 0.0 {
        return Err(Error::illegal_argument(format!(
            "{text} cannot be converted to {} without data loss",
            java_name(field.field_type())
        )));
    }
    Ok(value.trunc() as i64)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked before"
)]
fn unsigned(field: &Field, scalar: Scalar<'_>) -> Result<u64, Error> {
    let text = scalar.text();
    let wrong = || out_of_range(field, &text);
    match scalar {
        Scalar::Signed(value) => u64::try_from(value).map_err(|_| wrong()),
        Scalar::Unsigned(value) => Ok(value),
        Scalar::Bool(value) => Err(not_numeric(if value { "VALUE_TRUE" } else { "VALUE_FALSE" })),
        Scalar::Float(_) | Scalar::Text(_) => {
            if let Ok(value) = text.parse::<u64>() {
                return Ok(value);
            }
            let value: f64 = text
                .parse()
                .map_err(|_| Error::illegal_argument(format!("For input string: \"{text}\"")))?;
            // 2^64 is exact in f64.
            if value.fract() != 0.0 || !(0.0..18_446_744_073_709_551_616.0).contains(&value) {
                return Err(wrong());
            }
            Ok(value as u64)
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a float field keeps what a float can"
)]
fn fraction(field: &Field, scalar: Scalar<'_>) -> Result<f64, Error> {
    let kind = field.field_type();
    let value = match scalar {
        Scalar::Signed(value) => value as f64,
        Scalar::Unsigned(value) => value as f64,
        Scalar::Float(value) => value,
        Scalar::Bool(value) => {
            return Err(not_numeric(if value { "VALUE_TRUE" } else { "VALUE_FALSE" }));
        }
        Scalar::Text(_) if !field.coerces() => {
            return Err(Error::illegal_argument("Double value passed as String"));
        }
        Scalar::Text("") => return Err(Error::invalid("number_format_exception", "empty String")),
        Scalar::Text(text) => text.trim().parse().map_err(|_| for_input(text))?,
    };
    let kept = match kind {
        FieldType::Float => f64::from(value as f32),
        FieldType::HalfFloat => half(value),
        FieldType::ScaledFloat => {
            let factor = field.scaling_factor();
            (value * factor).round() / factor
        }
        _ => value,
    };
    if !kept.is_finite() {
        let shown = if value.is_nan() {
            "NaN"
        } else if value < 0.0 {
            "-Infinity"
        } else {
            "Infinity"
        };
        return Err(Error::illegal_argument(format!(
            "[{}] supports only finite values, but got [{shown}]",
            kind.name()
        )));
    }
    Ok(kept)
}

/// Rounds to what 16 bits of IEEE 754 hold: 11 bits of significand, exponents from -14 to 15.
pub(crate) fn half(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let exponent = value.abs().log2().floor().max(-14.0);
    let step = (exponent - 10.0).exp2();
    let rounded = (value / step).round_ties_even() * step;
    if rounded.abs() > 65_504.0 { f64::INFINITY.copysign(value) } else { rounded }
}

fn boolean(scalar: Scalar<'_>) -> Result<Leaf<'static>, Error> {
    match scalar {
        Scalar::Bool(value) => Ok(Leaf::Unsigned(u64::from(value))),
        Scalar::Text("true") => Ok(Leaf::Unsigned(1)),
        Scalar::Text("false" | "") => Ok(Leaf::Unsigned(0)),
        Scalar::Text(text) => Err(Error::illegal_argument(format!(
            "Failed to parse value [{text}] as only [true] or [false] are allowed."
        ))),
        Scalar::Float(_) => Err(not_boolean("VALUE_NUMBER_FLOAT")),
        Scalar::Signed(_) | Scalar::Unsigned(_) => Err(not_boolean("VALUE_NUMBER_INT")),
    }
}

fn not_boolean(token: &str) -> Error {
    let reason = format!("Current token ({token}) not of boolean type");
    Error::invalid("json_parse_exception", reason)
}

fn date(field: &Field, scalar: Scalar<'_>) -> Result<Moment, Error> {
    let Some(format) = field.date_format() else {
        return Err(Error::illegal_argument("the field has no date format"));
    };
    if let Scalar::Signed(value) = scalar
        && let Some(moment) = format.try_parse_integer(value)
    {
        return Ok(moment);
    }
    let text = scalar.text();
    format.parse(&text, &crate::mapping::date::Zone::Fixed(0))
}

fn ip(scalar: Scalar<'_>) -> Result<Leaf<'static>, Error> {
    let text = scalar.text();
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => Ok(Leaf::Ip(address.to_ipv6_mapped())),
        Ok(IpAddr::V6(address)) => Ok(Leaf::Ip(address)),
        Err(_) => Err(Error::illegal_argument(format!("'{text}' is not an IP string literal."))),
    }
}
