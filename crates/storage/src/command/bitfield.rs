//! What BITFIELD and its like ask for: integers of any width among the bits of a string.

use super::args::{
    Args, Given, STRING_BYTES_MAX, choose, not_integer, parse_integer, syntax_error,
};
use super::body::Body;
use super::read::Read;
use super::write::Write;
use crate::ErrorReply;

/// An integer's width, and whether it has a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    /// Whether its highest bit is a sign.
    pub is_signed: bool,
    /// 1 to 64, of one without a sign to 63.
    pub bits: u32,
}

/// What becomes of a result that its width does not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// The lowest bits are kept.
    #[default]
    Wrap,
    /// The nearest that it holds.
    Saturate,
    /// Nothing is done.
    Fail,
}

/// What to do with an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Show it.
    Get,
    /// Set it; shows what it was.
    Set(i64),
    /// Add to it; shows what it is.
    Add(i64),
}

/// One step of a BITFIELD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldStep {
    /// The integer's width.
    pub width: Width,
    /// Its first bit, the highest of the first byte being 0.
    pub offset: u64,
    /// What to do with it.
    pub change: Change,
    /// What becomes of too large a result.
    pub overflow: Overflow,
}

impl FieldStep {
    /// The bit after its last.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.width.bits)
    }
}

/// The steps in arguments that were checked; what cannot be read ends them.
pub(crate) fn steps(args: Args<'_>) -> impl Iterator<Item = FieldStep> + use<'_> {
    let mut reader = Reader { args: args.iter(), overflow: Overflow::Wrap };
    std::iter::from_fn(move || reader.next().ok().flatten())
}

struct Reader<I> {
    args: I,
    overflow: Overflow,
}

impl<'a, I: Iterator<Item = &'a [u8]>> Reader<I> {
    fn next(&mut self) -> Result<Option<FieldStep>, ErrorReply> {
        let kinds = [("GET", 0), ("SET", 1), ("INCRBY", 2), ("OVERFLOW", 3)];
        loop {
            let Some(word) = self.args.next() else { return Ok(None) };
            let kind = choose(word, &kinds).ok_or_else(syntax_error)?;
            let first = self.args.next().ok_or_else(syntax_error)?;
            if kind == 3 {
                let modes = [
                    ("WRAP", Overflow::Wrap),
                    ("SAT", Overflow::Saturate),
                    ("FAIL", Overflow::Fail),
                ];
                let mode = choose(first, &modes);
                self.overflow =
                    mode.ok_or_else(|| ErrorReply::err("Invalid OVERFLOW type specified"))?;
                continue;
            }
            let second = self.args.next().ok_or_else(syntax_error)?;
            let third =
                if kind == 0 { None } else { Some(self.args.next().ok_or_else(syntax_error)?) };
            let width = parse_width(first)?;
            let offset = parse_offset(second, width.bits)?;
            let by = third.map(|text| parse_integer(text).ok_or_else(not_integer)).transpose()?;
            let change = match by {
                None => Change::Get,
                Some(value) if kind == 1 => Change::Set(value),
                Some(by) => Change::Add(by),
            };
            return Ok(Some(FieldStep { width, offset, change, overflow: self.overflow }));
        }
    }
}

fn parse_width(text: &[u8]) -> Result<Width, ErrorReply> {
    let parsed = text.split_first().and_then(|(sign, bits)| {
        let is_signed = match sign {
            b'i' => true,
            b'u' => false,
            _ => return None,
        };
        let bits = u32::try_from(parse_integer(bits)?).ok()?;
        let is_fit = (1..=63).contains(&bits) || (bits == 64 && is_signed);
        is_fit.then_some(Width { is_signed, bits })
    });
    parsed.ok_or_else(|| {
        ErrorReply::err(
            "Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported \
             but i64 is.",
        )
    })
}

/// Which bit, or after `#` which integer of the same width.
fn parse_offset(text: &[u8], bits: u32) -> Result<u64, ErrorReply> {
    let (digits, scale) = match text.strip_prefix(b"#") {
        Some(digits) => (digits, i64::from(bits)),
        None => (text, 1),
    };
    let offset = parse_integer(digits).and_then(|number| number.checked_mul(scale));
    let offset = offset.and_then(|offset| u64::try_from(offset).ok());
    offset
        .filter(|offset| offset / 8 < STRING_BYTES_MAX as u64)
        .ok_or_else(|| ErrorReply::err("bit offset is not an integer or out of range"))
}

fn field(given: Given<'_>, is_read_only: bool) -> Result<Body<'_>, ErrorReply> {
    let (key, args) = (given.arg(1), given.args_from(2, 1));
    let mut reader = Reader { args: args.iter(), overflow: Overflow::Wrap };
    let mut writes = false;
    while let Some(step) = reader.next()? {
        writes |= step.change != Change::Get;
        if writes && is_read_only {
            return Err(ErrorReply::err("BITFIELD_RO only supports the GET subcommand"));
        }
    }
    Ok(match writes {
        true => Body::Write(Write::BitField { key, steps: args }),
        false => Body::Read(Read::BitField { key, steps: args }),
    })
}

pub(super) fn bitfield(given: Given<'_>) -> Result<Body<'_>, ErrorReply> {
    field(given, false)
}

pub(super) fn bitfield_ro(given: Given<'_>) -> Result<Body<'_>, ErrorReply> {
    field(given, true)
}
