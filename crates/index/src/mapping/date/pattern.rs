//! Patterns of dates in the letters of Java's `DateTimeFormatter`: reading and writing by them.

use plimsoll_stdx::civil::{Date, days_in_month, is_leap};

use super::zone::{offset, offset_text};
use super::{Civil, Moment, Zone};
use crate::Error;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// One part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Literal(String),
    /// A letter so many times.
    Letter(char, usize),
    /// A part that may be missing.
    Optional(Vec<Item>),
}

/// What reading a text has found.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    pub year: Option<i64>,
    pub month: Option<i64>,
    pub day: Option<i64>,
    pub day_of_year: Option<i64>,
    pub hour: Option<i64>,
    pub minute: Option<i64>,
    pub second: Option<i64>,
    pub nanos: Option<i64>,
    pub afternoon: Option<bool>,
    pub zone: Option<Zone>,
}

impl Parts {
    /// The instant; what was not read is the start of 1970 and midnight, or with `round_up` the
    /// last nanosecond of the day, hour, minute or second that was read. None where the numbers
    /// are no date.
    pub fn moment(&self, zone: &Zone, round_up: bool) -> Option<Moment> {
        let year = self.year.unwrap_or(1970);
        let (month, day) = match self.day_of_year {
            Some(of_year) => month_and_day(year, of_year)?,
            None => (self.month.unwrap_or(1), self.day.unwrap_or(1)),
        };
        if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
            return None;
        }
        let or = |last: i64| if round_up { last } else { 0 };
        let mut hour = self.hour.unwrap_or_else(|| or(23));
        if let Some(afternoon) = self.afternoon {
            hour = hour % 12 + if afternoon { 12 } else { 0 };
        }
        let minute = self.minute.unwrap_or_else(|| or(59));
        let second = self.second.unwrap_or_else(|| or(59));
        let nanos = self.nanos.unwrap_or_else(|| or(999_999_999));
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let millis_of_day = ((hour * 60 + minute) * 60 + second) * 1000 + nanos / 1_000_000;
        let civil = Civil { date: Date { year, month, day }, millis_of_day };
        let within = u32::try_from(nanos % 1_000_000).ok()?;
        Some(Moment { millis: civil.instant(self.zone.as_ref().unwrap_or(zone)), nanos: within })
    }
}

fn month_and_day(year: i64, of_year: i64) -> Option<(i64, i64)> {
    if of_year < 1 || of_year > 365 + i64::from(is_leap(year)) {
        return None;
    }
    let mut rest = of_year;
    for month in 1..=12 {
        let days = days_in_month(year, month);
        if rest <= days {
            return Some((month, rest));
        }
        rest -= days;
    }
    None
}

/// Takes a pattern apart.
///
/// # Errors
/// 400 where it has a letter that is not known, or a bracket or quote that is not closed.
pub(super) fn compile(pattern: &str) -> Result<Vec<Item>, Error> {
    let wrong =
        |why: String| Error::illegal_argument(format!("Invalid format: [{pattern}]: {why}"));
    let mut levels: Vec<Vec<Item>> = vec![Vec::new()];
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        let item = match c {
            '[' => {
                levels.push(Vec::new());
                continue;
            }
            ']' => {
                let inner = levels.pop().filter(|_| !levels.is_empty());
                Item::Optional(inner.ok_or_else(|| {
                    wrong("Pattern invalid as it contains ] without previous [".to_owned())
                })?)
            }
            '\'' => {
                let mut literal = String::new();
                loop {
                    match chars.next() {
                        None => {
                            return Err(wrong(format!(
                                "Pattern ends with an incomplete string literal: {pattern}"
                            )));
                        }
                        Some('\'') if chars.peek() == Some(&'\'') => {
                            chars.next();
                            literal.push('\'');
                        }
                        Some('\'') => break,
                        Some(c) => literal.push(c),
                    }
                }
                Item::Literal(if literal.is_empty() { "'".to_owned() } else { literal })
            }
            c if c.is_ascii_alphabetic() => {
                if !"yuMLdDHhkKmsSnaEeXxZzVO".contains(c) {
                    return Err(wrong(format!("Unknown pattern letter: {c}")));
                }
                let mut count = 1;
                while chars.peek() == Some(&c) {
                    chars.next();
                    count += 1;
                }
                Item::Letter(c, count)
            }
            c => Item::Literal(c.to_string()),
        };
        if let Some(level) = levels.last_mut() {
            level.push(item);
        }
    }
    if levels.len() > 1 {
        return Err(wrong("Pattern has an unclosed [".to_owned()));
    }
    Ok(levels.pop().unwrap_or_default())
}

/// Reads `text` by `items`; gives what is left.
pub(super) fn read<'a>(items: &[Item], text: &'a str, parts: &mut Parts) -> Option<&'a str> {
    let mut rest = text;
    for item in items {
        rest = match item {
            Item::Literal(literal) => rest.strip_prefix(literal.as_str())?,
            Item::Optional(inner) => {
                let mut tried = parts.clone();
                match read(inner, rest, &mut tried) {
                    Some(left) => {
                        *parts = tried;
                        left
                    }
                    None => rest,
                }
            }
            Item::Letter(letter, count) => read_letter(*letter, *count, rest, parts)?,
        };
    }
    Some(rest)
}

fn read_letter<'a>(
    letter: char,
    count: usize,
    text: &'a str,
    parts: &mut Parts,
) -> Option<&'a str> {
    let width = |most: usize| if count == 1 { (1, most) } else { (count, count) };
    let (slot, (least, most)) = match letter {
        'y' | 'u' => {
            let negative = text.starts_with('-') && count != 2;
            let digits = if negative { &text[1..] } else { text };
            let (value, rest) = number(digits, width(9))?;
            let value = if count == 2 { value + 2000 } else { value };
            parts.year = Some(if negative { -value } else { value });
            return Some(rest);
        }
        'M' | 'L' if count > 2 => {
            let (at, rest) = name(text, &MONTHS, count == 3)?;
            parts.month = Some(at + 1);
            return Some(rest);
        }
        'E' => return name(text, &DAYS, count <= 3).map(|(_, rest)| rest),
        'a' => {
            let half = text.get(..2)?;
            parts.afternoon = Some(match half.to_ascii_lowercase().as_str() {
                "am" => false,
                "pm" => true,
                _ => return None,
            });
            return Some(&text[2..]);
        }
        'S' => {
            let (value, rest) = number(text, (count.min(9), count.min(9)))?;
            let digits = u32::try_from(count.min(9)).ok()?;
            parts.nanos = Some(value * 10_i64.pow(9 - digits));
            return Some(rest);
        }
        'X' | 'x' | 'Z' | 'O' => {
            if letter != 'X' && letter != 'Z' && text.starts_with('Z') {
                return None;
            }
            let (seconds, rest) = offset(text.strip_prefix("GMT").unwrap_or(text))?;
            parts.zone = Some(Zone::Fixed(seconds));
            return Some(rest);
        }
        'z' | 'V' => {
            let end = text.find(|c: char| !(c.is_alphanumeric() || "/_+-:".contains(c)));
            let (name, rest) = text.split_at(end.unwrap_or(text.len()));
            parts.zone = Some(Zone::parse(name).ok()?);
            return Some(rest);
        }
        'M' | 'L' => (&mut parts.month, width(2)),
        'd' => (&mut parts.day, width(2)),
        'D' => (&mut parts.day_of_year, width(3)),
        'H' | 'h' | 'k' | 'K' => (&mut parts.hour, width(2)),
        'm' => (&mut parts.minute, width(2)),
        's' => (&mut parts.second, width(2)),
        'n' => (&mut parts.nanos, (1, 9)),
        'e' => return number(text, width(1)).map(|(_, rest)| rest),
        _ => return None,
    };
    let (value, rest) = number(text, (least, most))?;
    *slot = Some(if letter == 'k' && value == 24 { 0 } else { value });
    Some(rest)
}

/// Reads as many digits as there are, at least and at most so many.
pub(super) fn number(text: &str, (least, most): (usize, usize)) -> Option<(i64, &str)> {
    let digits = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    if digits < least || digits == 0 {
        return None;
    }
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

fn name<'a>(text: &'a str, names: &[&str], short: bool) -> Option<(i64, &'a str)> {
    names.iter().zip(0..).find_map(|(name, at)| {
        let name = if short { &name[..3] } else { name };
        let start = text.get(..name.len())?;
        start.eq_ignore_ascii_case(name).then(|| (at, &text[name.len()..]))
    })
}

/// Writes an instant by `items`.
pub(super) fn write(items: &[Item], moment: Moment, zone: &Zone, out: &mut String) {
    let civil = Civil::at(moment.millis, zone);
    let ms = civil.millis_of_day;
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    let nanos = ms % 1000 * 1_000_000 + i64::from(moment.nanos);
    let named = |names: &[&str], at: i64, short: bool| {
        let name = usize::try_from(at).ok().and_then(|at| names.get(at)).copied().unwrap_or("");
        if short { name[..3].to_owned() } else { name.to_owned() }
    };
    for item in items {
        let (letter, count) = match item {
            Item::Literal(literal) => {
                out.push_str(literal);
                continue;
            }
            Item::Optional(inner) => {
                write(inner, moment, zone, out);
                continue;
            }
            Item::Letter(letter, count) => (*letter, *count),
        };
        let padded = |value: i64| format!("{value:0count$}");
        out.push_str(&match letter {
            'y' | 'u' if count == 2 => format!("{:02}", civil.date.year.rem_euclid(100)),
            'y' | 'u' => padded(civil.date.year),
            'M' | 'L' if count > 2 => named(&MONTHS, civil.date.month - 1, count == 3),
            'M' | 'L' => padded(civil.date.month),
            'd' => padded(civil.date.day),
            'D' => {
                let new_year = Date { month: 1, day: 1, ..civil.date };
                padded(civil.date.days() - new_year.days() + 1)
            }
            'E' => named(&DAYS, civil.weekday() - 1, count <= 3),
            'e' => padded(civil.weekday()),
            'H' => padded(hour),
            'k' => padded(if hour == 0 { 24 } else { hour }),
            'h' => padded(if hour % 12 == 0 { 12 } else { hour % 12 }),
            'K' => padded(hour % 12),
            'm' => padded(minute),
            's' => padded(second),
            'S' => format!("{nanos:09}")[..count.min(9)].to_owned(),
            'n' => padded(nanos),
            'a' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            'z' | 'V' => zone.to_string(),
            _ => write_offset(letter, count, moment.millis, zone),
        });
    }
}

fn write_offset(letter: char, count: usize, millis: i64, zone: &Zone) -> String {
    let seconds = i32::try_from(zone.offset_ms(millis) / 1000).unwrap_or_default();
    match letter {
        'X' if seconds == 0 => "Z".to_owned(),
        'X' | 'x' if count == 1 && seconds % 3600 == 0 => {
            offset_text(seconds, false).chars().take(3).collect()
        }
        'X' | 'x' => offset_text(seconds, count == 3 || count == 5),
        'Z' if count == 5 && seconds == 0 => "Z".to_owned(),
        'Z' => offset_text(seconds, count == 5),
        _ => format!("GMT{}", offset_text(seconds, true)),
    }
}
