//! Numbers, options and times among a command's arguments, read as strictly as Redis reads
//! them, and refused in its words.

use crate::{Argv, ErrorReply};

/// The largest string, in bytes: a record of the log has to hold it. (Redis: 512 MB.)
pub const STRING_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Stamps are before this, ms since 1970 (the year 4199): a relative time that fits up to here
/// fits.
const STAMP_MS_MAX: i64 = 1 << 46;

/// A command whose number of arguments was checked.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// Its name, as [`super::spec::Spec::name`] has it.
    pub name: &'static str,
    /// Its arguments.
    pub argv: &'a Argv,
}

impl<'a> Given<'a> {
    /// An argument; empty where there is none.
    #[must_use]
    pub fn arg(&self, at: usize) -> &'a [u8] {
        self.argv.get(at).unwrap_or_default()
    }

    /// A whole number.
    ///
    /// # Errors
    /// Where it is not one of 64 bits.
    pub fn integer(&self, at: usize) -> Result<i64, ErrorReply> {
        parse_integer(self.arg(at)).ok_or_else(not_integer)
    }

    /// Every `step`th argument from a position on.
    #[must_use]
    pub fn args_from(&self, from: usize, step: usize) -> Args<'a> {
        Args { argv: self.argv, from, to: self.argv.len(), step }
    }

    /// The arguments from a position on, in pairs.
    ///
    /// # Errors
    /// Where one is left over.
    pub fn pairs_from(&self, from: usize) -> Result<Pairs<'a>, ErrorReply> {
        if (self.argv.len() - from).is_multiple_of(2) {
            Ok(Pairs { argv: self.argv, from })
        } else {
            Err(wrong_arity(self.name))
        }
    }

    /// The arguments from a position on, to be read one after the other.
    #[must_use]
    pub fn options_from(&self, at: usize) -> Options<'a> {
        Options { argv: self.argv, at }
    }

    /// The refusal of a time that cannot be.
    #[must_use]
    pub fn invalid_expiry(&self) -> ErrorReply {
        invalid_expiry(self.name)
    }
}

/// Some of a command's arguments.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    argv: &'a Argv,
    from: usize,
    to: usize,
    step: usize,
}

impl<'a> Args<'a> {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        (self.to - self.from).div_ceil(self.step)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Each in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let argv = self.argv;
        (self.from..self.to).step_by(self.step).filter_map(move |at| argv.get(at))
    }
}

/// A command's last arguments, in pairs.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a> {
    argv: &'a Argv,
    from: usize,
}

impl<'a> Pairs<'a> {
    /// Each pair in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let argv = self.argv;
        (self.from..argv.len())
            .step_by(2)
            .filter_map(move |at| Some((argv.get(at)?, argv.get(at + 1)?)))
    }
}

/// Arguments read one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    argv: &'a Argv,
    at: usize,
}

impl<'a> Options<'a> {
    /// The position of the next one.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Takes the one after an option that needs it.
    ///
    /// # Errors
    /// A syntax error where it is missing.
    pub fn value(&mut self) -> Result<&'a [u8], ErrorReply> {
        self.next().ok_or_else(syntax_error)
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let arg = self.argv.get(self.at)?;
        self.at += 1;
        Some(arg)
    }
}

/// The first of `names` that an option is, in any case.
pub fn choose<T: Copy>(option: &[u8], names: &[(&str, T)]) -> Option<T> {
    let found = names.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(option));
    found.map(|(_, value)| *value)
}

/// A whole number of 64 bits as Redis writes it: no sign but a minus, no leading zero, no space.
#[must_use]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut value = 0i64;
    for digit in digits {
        let digit = i64::from(digit.checked_sub(b'0').filter(|digit| *digit <= 9)?);
        value = value.checked_mul(10)?;
        // Downwards for a negative one, as the least number has no opposite.
        value = if negative { value.checked_sub(digit)? } else { value.checked_add(digit)? };
    }
    Some(value)
}

/// A cursor: a whole number from 0, which no text is too.
///
/// # Errors
/// Where it is not one.
pub fn parse_cursor(text: &[u8]) -> Result<u64, ErrorReply> {
    if text.is_empty() {
        return Ok(0);
    }
    let text = std::str::from_utf8(text).ok();
    text.and_then(|text| text.parse().ok()).ok_or_else(invalid_cursor)
}

/// A point in time, ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// So long after the operation's stamp.
    After(i64),
    /// Since 1970.
    At(i64),
}

/// How a time is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeForm {
    /// Since 1970, rather than from now on.
    pub absolute: bool,
    /// In seconds, rather than milliseconds.
    pub seconds: bool,
}

impl TimeForm {
    /// Seconds from now on.
    pub const EX: Self = Self { absolute: false, seconds: true };
    /// Milliseconds from now on.
    pub const PX: Self = Self { absolute: false, seconds: false };
    /// Seconds since 1970.
    pub const EXAT: Self = Self { absolute: true, seconds: true };
    /// Milliseconds since 1970.
    pub const PXAT: Self = Self { absolute: true, seconds: false };
    /// The options that name the forms.
    pub const NAMES: &'static [(&'static str, Self)] =
        &[("EX", Self::EX), ("PX", Self::PX), ("EXAT", Self::EXAT), ("PXAT", Self::PXAT)];

    /// A number in this form; `None` where milliseconds since 1970 do not fit in 64 bits.
    #[must_use]
    pub fn moment(self, number: i64) -> Option<Moment> {
        let ms = if self.seconds { number.checked_mul(1000)? } else { number };
        if self.absolute {
            return Some(Moment::At(ms));
        }
        ms.checked_add(STAMP_MS_MAX)?;
        Some(Moment::After(ms))
    }

    /// A number above 0 in this form, as the options of SET take it.
    ///
    /// # Errors
    /// Where it is not a number, or no time that can be.
    pub fn positive(self, text: &[u8], name: &str) -> Result<Moment, ErrorReply> {
        let number = parse_integer(text).ok_or_else(not_integer)?;
        let moment = self.moment(number).filter(|_| number > 0);
        moment.ok_or_else(|| invalid_expiry(name))
    }
}

impl Moment {
    /// Milliseconds since 1970, 0 for all before.
    #[must_use]
    pub fn resolve(self, stamp_ms: u64) -> u64 {
        let ms = match self {
            Self::At(ms) => ms,
            Self::After(ms) => i64::try_from(stamp_ms).unwrap_or(i64::MAX).saturating_add(ms),
        };
        u64::try_from(ms).unwrap_or(0)
    }
}

/// When a new expiry takes the place of the old one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpiryCondition {
    /// Only where there is none.
    pub absent: bool,
    /// Only where there is one.
    pub present: bool,
    /// Only where it is later; none counts as never.
    pub later: bool,
    /// Only where it is earlier; none counts as never.
    pub earlier: bool,
}

impl ExpiryCondition {
    /// Whether the new expiry may take the old one's place.
    #[must_use]
    pub fn allows(&self, old_ms: Option<u64>, new_ms: u64) -> bool {
        !(self.absent && old_ms.is_some()
            || self.present && old_ms.is_none()
            || self.later && old_ms.is_none_or(|old_ms| new_ms <= old_ms)
            || self.earlier && old_ms.is_some_and(|old_ms| new_ms >= old_ms))
    }

    /// Adds what an option says; false where it says nothing of conditions.
    pub fn add(&mut self, option: &[u8]) -> bool {
        match choose(option, &[("NX", 0), ("XX", 1), ("GT", 2), ("LT", 3)]) {
            Some(0) => self.absent = true,
            Some(1) => self.present = true,
            Some(2) => self.later = true,
            Some(_) => self.earlier = true,
            None => return false,
        }
        true
    }
}

/// `ERR syntax error`.
#[must_use]
pub fn syntax_error() -> ErrorReply {
    ErrorReply::err("syntax error")
}

/// The refusal of what should be a whole number.
#[must_use]
pub fn not_integer() -> ErrorReply {
    ErrorReply::err("value is not an integer or out of range")
}

/// The refusal of what should be a number.
#[must_use]
pub fn not_float() -> ErrorReply {
    ErrorReply::err("value is not a valid float")
}

/// The refusal of a time that cannot be.
#[must_use]
pub fn invalid_expiry(name: &str) -> ErrorReply {
    ErrorReply::err(format!("invalid expire time in '{name}' command"))
}

/// The refusal of a cursor.
#[must_use]
pub fn invalid_cursor() -> ErrorReply {
    ErrorReply::err("invalid cursor")
}

/// The refusal of a string over [`STRING_BYTES_MAX`].
#[must_use]
pub fn too_long() -> ErrorReply {
    ErrorReply::err("string exceeds maximum allowed size (proto-max-bulk-len)")
}

/// The refusal of a wrong number of arguments.
#[must_use]
pub fn wrong_arity(name: &str) -> ErrorReply {
    ErrorReply::err(format!("wrong number of arguments for '{name}' command"))
}

/// An argument as one line of an error may carry it.
pub(super) fn show(arg: &[u8], bytes_max: usize) -> String {
    let shown = String::from_utf8_lossy(&arg[..arg.len().min(bytes_max)]);
    shown.replace(['\r', '\n'], " ")
}
