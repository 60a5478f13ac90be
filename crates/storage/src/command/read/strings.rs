//! How the arguments of reading string commands are read.

use super::super::args::{Given, choose, not_integer, parse_integer, syntax_error};
use super::super::body::Body;
use super::{BitPart, Lcs, LcsForm, Range, Read};
use crate::ErrorReply;
use crate::command::args::STRING_BYTES_MAX;

type Parsed<'a> = Result<Body<'a>, ErrorReply>;

pub(in crate::command) fn get(given: Given<'_>) -> Parsed<'_> {
    Ok(Body::Read(Read::Get(given.arg(1))))
}

pub(in crate::command) fn mget(given: Given<'_>) -> Parsed<'_> {
    Ok(Body::Read(Read::GetMany(given.args_from(1, 1))))
}

pub(in crate::command) fn strlen(given: Given<'_>) -> Parsed<'_> {
    Ok(Body::Read(Read::Length(given.arg(1))))
}

pub(in crate::command) fn getrange(given: Given<'_>) -> Parsed<'_> {
    let (start, end) = (given.integer(2)?, given.integer(3)?);
    Ok(Body::Read(Read::GetRange(Range { key: given.arg(1), start, end })))
}

pub(in crate::command) fn getbit(given: Given<'_>) -> Parsed<'_> {
    Ok(Body::Read(Read::GetBit { key: given.arg(1), offset: bit_offset(given.arg(2))? }))
}

/// Which bit of a string; never beyond what a string may have.
pub(in crate::command) fn bit_offset(text: &[u8]) -> Result<u64, ErrorReply> {
    let offset = parse_integer(text).and_then(|offset| u64::try_from(offset).ok());
    offset
        .filter(|offset| offset / 8 < STRING_BYTES_MAX as u64)
        .ok_or_else(|| ErrorReply::err("bit offset is not an integer or out of range"))
}

pub(in crate::command) fn bitcount(given: Given<'_>) -> Parsed<'_> {
    let part = match given.argv.len() {
        2 => None,
        4 | 5 => {
            let (start, end) = (given.integer(2)?, given.integer(3)?);
            let units = [("BYTE", false), ("BIT", true)];
            let bits = match given.argv.get(4) {
                Some(unit) => choose(unit, &units).ok_or_else(syntax_error)?,
                None => false,
            };
            Some(BitPart { start, end, bits })
        }
        _ => return Err(syntax_error()),
    };
    Ok(Body::Read(Read::BitCount { key: given.arg(1), part }))
}

pub(in crate::command) fn bitpos(given: Given<'_>) -> Parsed<'_> {
    let bit = match given.integer(2)? {
        0 => false,
        1 => true,
        _ => return Err(ErrorReply::err("The bit argument must be 1 or 0.")),
    };
    Ok(Body::Read(Read::BitPosition { key: given.arg(1), bit, part: given.args_from(3, 1) }))
}

pub(in crate::command) fn lcs(given: Given<'_>) -> Parsed<'_> {
    let (mut matches, mut length, mut lengths, mut length_min) = (false, false, false, 0);
    let mut options = given.options_from(3);
    while let Some(option) = options.next() {
        match choose(option, &[("IDX", 0), ("LEN", 1), ("WITHMATCHLEN", 2), ("MINMATCHLEN", 3)]) {
            Some(0) => matches = true,
            Some(1) => length = true,
            Some(2) => lengths = true,
            Some(_) => {
                let given = parse_integer(options.value()?).ok_or_else(not_integer)?;
                length_min = usize::try_from(given).unwrap_or(0);
            }
            None => return Err(syntax_error()),
        }
    }
    let form = match (matches, length) {
        (true, true) => {
            return Err(ErrorReply::err(
                "If you want both the length and indexes, please just use IDX.",
            ));
        }
        (true, false) => LcsForm::Matches { length_min, lengths },
        (false, true) => LcsForm::Length,
        (false, false) => LcsForm::Text,
    };
    Ok(Body::Read(Read::Lcs(Lcs { keys: [given.arg(1), given.arg(2)], form })))
}

pub(in crate::command) fn digest(given: Given<'_>) -> Parsed<'_> {
    Ok(Body::Read(Read::Digest(given.arg(1))))
}
