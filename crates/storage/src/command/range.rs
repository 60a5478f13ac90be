//! Ranges of a hash's fields, in the order of their bytes, and how the arguments that name them are
//! read. Which fields lie in a range, and where a walk over it stops, is `execute::range`'s.
//!
//! A field stands for itself as an end of a range. `-` is before all fields and `+` after all, as in
//! Redis' ranges of members. The fields of those two names are written `[-` and `[+`, and so one `[`
//! more stands before any field that is `[`s and then a `-` or `+` alone. Answers that say where to go
//! on are written the same way.

use super::args::{Given, Options, choose, not_integer, parse_integer, syntax_error};
use crate::ErrorReply;

/// What one answer shows of a range at most, bytes, also where more is asked for.
pub const PAGE_BYTES_MAX: usize = 16 << 20;

/// An end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End<'a> {
    /// Before all fields.
    Lowest,
    /// A field, whether it is there or not.
    Field(&'a [u8]),
    /// After all fields.
    Highest,
}

impl<'a> End<'a> {
    /// Reads an end.
    #[must_use]
    pub fn parse(text: &'a [u8]) -> Self {
        match text {
            b"-" => Self::Lowest,
            b"+" => Self::Highest,
            _ if is_quoted(text) => Self::Field(&text[1..]),
            _ => Self::Field(text),
        }
    }

    /// A field as [`Self::parse`] reads it.
    #[must_use]
    pub fn name(field: &[u8]) -> Vec<u8> {
        let mut name = Vec::with_capacity(field.len() + 1);
        if matches!(field, b"-" | b"+") || is_quoted(field) {
            name.push(b'[');
        }
        name.extend_from_slice(field);
        name
    }
}

/// Whether it is one `[` or more, and then a `-` or `+` alone.
fn is_quoted(text: &[u8]) -> bool {
    match text.split_last() {
        Some((b'-' | b'+', quotes)) => {
            !quotes.is_empty() && quotes.iter().all(|byte| *byte == b'[')
        }
        _ => false,
    }
}

/// Which fields of a range are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter<'a> {
    /// All.
    All,
    /// Those that begin so.
    Prefix(&'a [u8]),
    /// Those that end so.
    Suffix(&'a [u8]),
    /// Those that match the pattern.
    Match(&'a [u8]),
}

/// Fields of a hash from one end to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldRange<'a> {
    /// The end to begin at.
    pub from: End<'a>,
    /// The other.
    pub to: End<'a>,
    /// The field at `from` is not meant.
    pub is_from_excluded: bool,
    /// The field at `to` is not meant.
    pub is_to_excluded: bool,
    /// From the highest down: `from` is the upper end then.
    pub is_reversed: bool,
    /// Which of them.
    pub filter: Filter<'a>,
    /// How many at most; as many as one answer may have by default.
    pub count: Option<usize>,
}

/// What is shown of a range of fields.
#[derive(Clone, Copy, Debug)]
pub struct RangePage<'a> {
    /// The hash.
    pub key: &'a [u8],
    /// The fields.
    pub range: FieldRange<'a>,
    /// How many bytes of fields and values at most, but for the first.
    pub bytes: usize,
    /// With their values.
    pub values: bool,
}

impl<'a> FieldRange<'a> {
    /// The ends at the second and third position, and nothing else said.
    fn of(given: Given<'a>) -> Self {
        Self {
            from: End::parse(given.arg(2)),
            to: End::parse(given.arg(3)),
            is_from_excluded: false,
            is_to_excluded: false,
            is_reversed: false,
            filter: Filter::All,
            count: None,
        }
    }

    /// Reads a range with the options that all commands on ranges have.
    pub(super) fn parse(given: Given<'a>) -> Result<Self, ErrorReply> {
        let mut range = Self::of(given);
        let mut options = given.options_from(4);
        while let Some(option) = options.next() {
            range.option(option, &mut options)?;
        }
        Ok(range)
    }

    /// Takes an option in that all commands on ranges have.
    fn option(&mut self, option: &[u8], options: &mut Options<'a>) -> Result<(), ErrorReply> {
        let names = [
            ("EXCLFROM", 0),
            ("EXCLTO", 1),
            ("COUNT", 2),
            ("PREFIX", 3),
            ("SUFFIX", 4),
            ("MATCH", 5),
        ];
        match choose(option, &names).ok_or_else(syntax_error)? {
            0 => self.is_from_excluded = true,
            1 => self.is_to_excluded = true,
            2 => self.count = Some(positive(options)?),
            _ if self.filter != Filter::All => return Err(syntax_error()),
            3 => self.filter = Filter::Prefix(options.value()?),
            4 => self.filter = Filter::Suffix(options.value()?),
            _ => self.filter = Filter::Match(options.value()?),
        }
        Ok(())
    }
}

/// A number from 1, as COUNT of SCAN takes it.
fn positive(options: &mut Options<'_>) -> Result<usize, ErrorReply> {
    let number = parse_integer(options.value()?).ok_or_else(not_integer)?;
    usize::try_from(number).ok().filter(|number| *number > 0).ok_or_else(syntax_error)
}

impl<'a> RangePage<'a> {
    /// Reads the arguments of `PLIMSOLL.HRANGE`.
    pub(super) fn parse(given: Given<'a>) -> Result<Self, ErrorReply> {
        let mut range = FieldRange::of(given);
        let (mut bytes, mut values) = (PAGE_BYTES_MAX, true);
        let mut options = given.options_from(4);
        while let Some(option) = options.next() {
            match choose(option, &[("REV", 0), ("BYTES", 1), ("NOVALUES", 2)]) {
                Some(0) => range.is_reversed = true,
                Some(1) => bytes = positive(&mut options)?.min(PAGE_BYTES_MAX),
                Some(_) => values = false,
                None => range.option(option, &mut options)?,
            }
        }
        Ok(Self { key: given.arg(1), range, bytes, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_can_be_an_end() {
        assert_eq!((End::parse(b"-"), End::parse(b"+")), (End::Lowest, End::Highest));
        for field in ["", "a", "-", "+", "[", "[-", "[[+", "[a", "[-x", "--", "a-", "(a"] {
            let name = End::name(field.as_bytes());
            assert_eq!(End::parse(&name), End::Field(field.as_bytes()), "{field}");
            let is_plain = !matches!(field, "-" | "+" | "[-" | "[[+");
            assert_eq!(name == field.as_bytes(), is_plain, "{field}");
        }
    }
}
