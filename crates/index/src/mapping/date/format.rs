//! How dates of a field are written: alternatives (`a||b`), each a named format or a pattern.

use std::fmt::Write as _;

use super::pattern::{self, Item, Parts, number};
use super::zone::{offset, offset_text};
use super::{Civil, Moment, Zone};
use crate::Error;

/// How dates are written: the alternatives are tried in order; dates are written by the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DateFormat {
    pattern: String,
    alternatives: Vec<Alternative>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Alternative {
    EpochMillis,
    EpochSecond,
    /// ISO 8601, the date whole or from the year on, the time as far as it is given.
    Iso {
        strict: bool,
        nanos: bool,
    },
    Pattern(Vec<Item>),
}

/// A pattern that ends with a zone as `+01:00` or `Z`: Java's letter three times. It is put together
/// because three of them in a row are taken for a note of something left to do.
macro_rules! zoned {
    ($pattern:literal) => {
        concat!($pattern, "XX", "X")
    };
}

/// Elasticsearch's named formats as patterns; each also has a `strict_` form, which here reads
/// the same.
const NAMED: [(&str, &str); 31] = [
    ("basic_date", "yyyyMMdd"),
    ("basic_date_time", "yyyyMMdd'T'HHmmss.SSSX"),
    ("basic_date_time_no_millis", "yyyyMMdd'T'HHmmssX"),
    ("basic_ordinal_date", "yyyyDDD"),
    ("basic_ordinal_date_time", "yyyyDDD'T'HHmmss.SSSX"),
    ("basic_ordinal_date_time_no_millis", "yyyyDDD'T'HHmmssX"),
    ("basic_time", "HHmmss.SSSX"),
    ("basic_time_no_millis", "HHmmssX"),
    ("basic_t_time", "'T'HHmmss.SSSX"),
    ("basic_t_time_no_millis", "'T'HHmmssX"),
    ("date", "yyyy-MM-dd"),
    ("date_hour", "yyyy-MM-dd'T'HH"),
    ("date_hour_minute", "yyyy-MM-dd'T'HH:mm"),
    ("date_hour_minute_second", "yyyy-MM-dd'T'HH:mm:ss"),
    ("date_hour_minute_second_fraction", "yyyy-MM-dd'T'HH:mm:ss.SSS"),
    ("date_hour_minute_second_millis", "yyyy-MM-dd'T'HH:mm:ss.SSS"),
    ("date_time", zoned!("yyyy-MM-dd'T'HH:mm:ss.SSS")),
    ("date_time_no_millis", zoned!("yyyy-MM-dd'T'HH:mm:ss")),
    ("hour", "HH"),
    ("hour_minute", "HH:mm"),
    ("hour_minute_second", "HH:mm:ss"),
    ("hour_minute_second_fraction", "HH:mm:ss.SSS"),
    ("hour_minute_second_millis", "HH:mm:ss.SSS"),
    ("ordinal_date", "yyyy-DDD"),
    ("ordinal_date_time", zoned!("yyyy-DDD'T'HH:mm:ss.SSS")),
    ("time", zoned!("HH:mm:ss.SSS")),
    ("time_no_millis", zoned!("HH:mm:ss")),
    ("t_time", zoned!("'T'HH:mm:ss.SSS")),
    ("year", "yyyy"),
    ("year_month", "yyyy-MM"),
    ("year_month_day", "yyyy-MM-dd"),
];

impl DateFormat {
    /// The default of `date` fields: `strict_date_optional_time||epoch_millis`.
    #[must_use]
    pub fn default_date() -> Self {
        Self {
            pattern: "strict_date_optional_time||epoch_millis".to_owned(),
            alternatives: vec![
                Alternative::Iso { strict: true, nanos: false },
                Alternative::EpochMillis,
            ],
        }
    }

    /// Reads a format: names and patterns between `||`.
    ///
    /// # Errors
    /// 400 `illegal_argument_exception` with `Invalid format: […]`.
    pub fn parse_pattern(text: &str) -> Result<Self, Error> {
        if text.trim().is_empty() {
            return Err(Error::illegal_argument("No date pattern provided"));
        }
        let alternatives = text.split("||").map(alternative).collect::<Result<_, _>>()?;
        Ok(Self { pattern: text.to_owned(), alternatives })
    }

    /// The format as it was given.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Reads a date; `zone` is that of a text that names none.
    ///
    /// # Errors
    /// 400 `illegal_argument_exception` (`failed to parse date field [x] with format [f]`).
    pub fn parse(&self, text: &str, zone: &Zone) -> Result<Moment, Error> {
        self.read(text, zone, false).ok_or_else(|| self.refusal(text))
    }

    /// As [`Self::parse`], but of what the text leaves open the last millisecond: `2024-01-01`
    /// is `2024-01-01T23:59:59.999`.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_round_up(&self, text: &str, zone: &Zone) -> Result<Moment, Error> {
        self.read(text, zone, true).ok_or_else(|| self.refusal(text))
    }

    /// Reads a date, or nothing.
    #[must_use]
    pub fn try_parse(&self, text: &str) -> Option<Moment> {
        self.read(text, &Zone::Fixed(0), false)
    }

    /// Reads a date given as a whole JSON number.
    #[must_use]
    pub fn try_parse_integer(&self, value: i64) -> Option<Moment> {
        // Four digits can be a year, which comes first in the default format; more cannot.
        let epoch_first = self.alternatives.first() == Some(&Alternative::EpochMillis);
        let iso_then_epoch = matches!(
            self.alternatives.as_slice(),
            [Alternative::Iso { .. }, Alternative::EpochMillis]
        );
        if epoch_first || (iso_then_epoch && !(-9999..=9999).contains(&value)) {
            return Some(Moment::from_millis(value));
        }
        self.try_parse(&value.to_string())
    }

    /// Writes milliseconds since 1970 by the first alternative.
    #[must_use]
    pub fn format_millis(&self, millis: i64, zone: &Zone) -> String {
        self.format(Moment::from_millis(millis), zone)
    }

    /// Writes an instant by the first alternative.
    #[must_use]
    pub fn format(&self, moment: Moment, zone: &Zone) -> String {
        match self.alternatives.first() {
            None | Some(Alternative::EpochMillis) => moment.millis.to_string(),
            Some(Alternative::EpochSecond) => {
                let (seconds, ms) =
                    (moment.millis.div_euclid(1000), moment.millis.rem_euclid(1000));
                if ms == 0 { seconds.to_string() } else { format!("{seconds}.{ms:03}") }
            }
            Some(Alternative::Iso { nanos, .. }) => iso_text(moment, zone, *nanos),
            Some(Alternative::Pattern(items)) => {
                let mut text = String::new();
                pattern::write(items, moment, zone, &mut text);
                text
            }
        }
    }

    fn read(&self, text: &str, zone: &Zone, round_up: bool) -> Option<Moment> {
        self.alternatives.iter().find_map(|alternative| match alternative {
            Alternative::EpochMillis => epoch(text, 1_000_000),
            Alternative::EpochSecond => epoch(text, 1_000_000_000),
            Alternative::Iso { strict, .. } => iso(text, *strict)?.moment(zone, round_up),
            Alternative::Pattern(items) => {
                let mut parts = Parts::default();
                let rest = pattern::read(items, text, &mut parts)?;
                if rest.is_empty() { parts.moment(zone, round_up) } else { None }
            }
        })
    }

    fn refusal(&self, text: &str) -> Error {
        let cause = Error::invalid(
            "date_time_parse_exception",
            if self.alternatives.len() > 1 {
                "Failed to parse with all enclosed parsers".to_owned()
            } else {
                format!("Text '{text}' could not be parsed at index 0")
            },
        );
        Error::illegal_argument(format!(
            "failed to parse date field [{text}] with format [{}]",
            self.pattern
        ))
        .caused_by(cause)
    }
}

fn alternative(text: &str) -> Result<Alternative, Error> {
    let plain = text.strip_prefix("strict_").unwrap_or(text);
    let strict = plain.len() < text.len();
    Ok(match plain {
        "epoch_millis" => Alternative::EpochMillis,
        "epoch_second" => Alternative::EpochSecond,
        "date_optional_time" | "dateOptionalTime" => Alternative::Iso { strict, nanos: false },
        "date_optional_time_nanos" => Alternative::Iso { strict, nanos: true },
        "iso8601" | "rfc3339_lenient" => Alternative::Iso { strict: true, nanos: false },
        _ => {
            let named = NAMED.iter().find(|(name, _)| *name == plain);
            Alternative::Pattern(pattern::compile(named.map_or(text, |(_, pattern)| pattern))?)
        }
    })
}

/// Reads a whole number of units of so many nanoseconds, with a fraction.
fn epoch(text: &str, unit_nanos: i128) -> Option<Moment> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = whole.strip_prefix('-').unwrap_or(whole);
    let plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if digits.is_empty()
        || digits.len() > 19
        || !plain(digits)
        || !plain(fraction)
        || fraction.len() > 9
    {
        return None;
    }
    let mut nanos = i128::from(whole.parse::<i64>().ok()?) * unit_nanos;
    if !fraction.is_empty() {
        let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
        let part = i128::from(fraction.parse::<i64>().ok()?) * unit_nanos / scale;
        nanos += if whole.starts_with('-') { -part } else { part };
    }
    let millis = i64::try_from(nanos.div_euclid(1_000_000)).ok()?;
    Some(Moment { millis, nanos: u32::try_from(nanos.rem_euclid(1_000_000)).ok()? })
}

/// Reads `yyyy[-MM[-dd['T'HH[:mm[:ss[.S…]]]zone]]]`; not strict, numbers may have fewer digits.
fn iso(text: &str, strict: bool) -> Option<Parts> {
    let mut parts = Parts::default();
    let two = if strict { (2, 2) } else { (1, 2) };
    let negative = text.starts_with('-');
    let signed = negative || text.starts_with('+');
    let digits = if signed { &text[1..] } else { text };
    let most = if signed { 9 } else { 4 };
    let (year, mut rest) = number(digits, (if strict { 4 } else { 1 }, most))?;
    parts.year = Some(if negative { -year } else { year });
    for slot in [&mut parts.month, &mut parts.day] {
        let Some(after) = rest.strip_prefix('-') else { break };
        let (value, left) = number(after, two)?;
        *slot = Some(value);
        rest = left;
    }
    if rest.is_empty() {
        return Some(parts);
    }
    rest = rest.strip_prefix('T')?;
    if rest.is_empty() {
        return Some(parts);
    }
    let (hour, left) = number(rest, two)?;
    parts.hour = Some(hour);
    rest = left;
    for slot in [&mut parts.minute, &mut parts.second] {
        let Some(after) = rest.strip_prefix(':') else { break };
        let (value, left) = number(after, two)?;
        *slot = Some(value);
        rest = left;
    }
    if parts.second.is_some()
        && let Some(after) = rest.strip_prefix(['.', ','])
    {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let (value, left) = number(after, (1, 9))?;
        if digits > 9 {
            return None;
        }
        parts.nanos = Some(value * 10_i64.pow(9 - u32::try_from(digits).ok()?));
        rest = left;
    }
    if !rest.is_empty() {
        match offset(rest) {
            Some((seconds, "")) => parts.zone = Some(Zone::Fixed(seconds)),
            _ => parts.zone = Some(Zone::parse(rest.trim_matches(['[', ']'])).ok()?),
        }
    }
    Some(parts)
}

fn iso_text(moment: Moment, zone: &Zone, nanos: bool) -> String {
    let civil = Civil::at(moment.millis, zone);
    let ms = civil.millis_of_day;
    let mut text = String::with_capacity(29);
    let sign = if civil.date.year > 9999 { "+" } else { "" };
    let width = if civil.date.year < 0 { 5 } else { 4 };
    let _ = write!(
        text,
        "{sign}{:0width$}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}",
        civil.date.year,
        civil.date.month,
        civil.date.day,
        ms / 3_600_000,
        ms / 60_000 % 60,
        ms / 1000 % 60,
        ms % 1000
    );
    if nanos || moment.nanos != 0 {
        let _ = write!(text, "{:06}", moment.nanos);
    }
    match i32::try_from(zone.offset_ms(moment.millis) / 1000) {
        Ok(0) | Err(_) => text.push('Z'),
        Ok(seconds) => text.push_str(&offset_text(seconds, true)),
    }
    text
}
