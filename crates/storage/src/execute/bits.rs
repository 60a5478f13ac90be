//! What commands on the bits of strings do. Bit 0 is the highest of the first byte.

use super::answer::Answer;
use super::store::{Edit, find_string};
use super::strings::{clamp, number, replace};
use crate::Reply;
use crate::command::args::{Args, choose, not_integer, parse_integer, syntax_error};
use crate::command::read::BitPart;
use crate::command::write::BitJoin;
use crate::rows::key::KeyRows;
use crate::rows::meta::Found;
use crate::rows::{RowsRead, RowsWrite};

/// The byte that a bit stands in, and its mask there.
fn place(offset: u64) -> (usize, u8) {
    (usize::try_from(offset / 8).unwrap_or(usize::MAX), 0x80 >> (offset % 8))
}

fn is_set(value: &[u8], offset: u64) -> bool {
    let (byte, mask) = place(offset);
    value.get(byte).is_some_and(|byte| byte & mask != 0)
}

pub(super) fn get<R: RowsRead + ?Sized>(rows: &R, key: &[u8], offset: u64, now_ms: u64) -> Answer {
    let found = find_string(rows, key, now_ms)?;
    let bit = found.is_some_and(|found| is_set(found.value(), offset));
    Ok(Reply::Integer(i64::from(bit)))
}

pub(super) fn set<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    key: &[u8],
    offset: u64,
    bit: bool,
) -> Answer {
    let mut key = KeyRows::new(key);
    let old = edit.open_string(&mut key)?;
    let mut value = old.as_ref().map_or(&[][..], Found::value).to_vec();
    let was_set = is_set(&value, offset);
    let (byte, mask) = place(offset);
    if value.len() <= byte {
        value.resize(byte + 1, 0);
    }
    if bit {
        value[byte] |= mask;
    } else {
        value[byte] &= !mask;
    }
    replace(edit, &mut key, old.as_ref(), &value)?;
    Ok(Reply::Integer(i64::from(was_set)))
}

pub(super) fn count<R: RowsRead + ?Sized>(
    rows: &R,
    key: &[u8],
    part: Option<BitPart>,
    now_ms: u64,
) -> Answer {
    let found = find_string(rows, key, now_ms)?;
    let value = found.as_ref().map_or(&[][..], Found::value);
    let ones = |bytes: &[u8]| bytes.iter().map(|byte| i64::from(byte.count_ones())).sum::<i64>();
    let count = match part {
        None => ones(value),
        Some(part) if !part.bits => {
            clamp(part.start, part.end, value.len()).map_or(0, |part| ones(&value[part]))
        }
        Some(part) => clamp(part.start, part.end, value.len() * 8).map_or(0, |bits| {
            let (first, last) = (*bits.start(), *bits.end());
            // Whole bytes, less the bits of the first and last that are outside.
            let before = value[first / 8] & !(0xff_u8 >> (first % 8));
            let after = value[last / 8] & (0x7f_u8 >> (last % 8));
            ones(&value[first / 8..=last / 8]) - ones(&[before, after])
        }),
    };
    Ok(Reply::Integer(count))
}

/// Where the first bit of a kind stands: -1 where there is none. Beyond the end of a string all bits
/// are 0, unless the part that is looked at has an end.
pub(super) fn position<R: RowsRead + ?Sized>(
    rows: &R,
    key: &[u8],
    bit: bool,
    part: Args<'_>,
    now_ms: u64,
) -> Answer {
    let Some(found) = find_string(rows, key, now_ms)? else {
        return Ok(Reply::Integer(if bit { -1 } else { 0 }));
    };
    let value = found.value();
    let mut part = part.iter();
    let given = [part.next(), part.next(), part.next(), part.next()];
    let integer = |text: &[u8]| parse_integer(text).ok_or_else(not_integer);
    let start = given[0].map(integer).transpose()?;
    let is_bits = match given {
        [.., Some(unit), None] => {
            choose(unit, &[("BYTE", false), ("BIT", true)]).ok_or_else(syntax_error)?
        }
        [.., Some(_)] => return Err(syntax_error().into()),
        _ => false,
    };
    let end = given[1].map(integer).transpose()?;
    let units = if is_bits { value.len() * 8 } else { value.len() };
    let last = i64::try_from(units).unwrap_or(i64::MAX) - 1;
    let absolute = |at: i64| if at < 0 { at.saturating_add(last + 1).max(0) } else { at };
    let (start, to) = (absolute(start.unwrap_or(0)), absolute(end.unwrap_or(-1)).min(last));
    if start > to {
        return Ok(Reply::Integer(-1));
    }
    let [first, last] = [start, to].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
    let (first, last) = if is_bits { (first, last) } else { (first * 8, last * 8 + 7) };
    Ok(match first_bit(value, bit, first, last) {
        Some(at) => number(at),
        None if bit || end.is_some() => Reply::Integer(-1),
        None => number(last + 1),
    })
}

/// The first bit of a kind from one bit to another, both included.
fn first_bit(value: &[u8], bit: bool, first: usize, last: usize) -> Option<usize> {
    let none = if bit { 0x00 } else { 0xff };
    let mut at = first;
    while at <= last {
        let byte = *value.get(at / 8)?;
        if at.is_multiple_of(8) && byte == none {
            at += 8;
            continue;
        }
        if (byte & (0x80 >> (at % 8)) != 0) == bit {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// Sets a string to what others are joined to, and says how long it is; one of no bytes is none.
pub(super) fn join<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    how: BitJoin,
    to: &[u8],
    from: Args<'_>,
) -> Answer {
    let mut joined: Option<Vec<u8>> = None;
    for key in from.iter() {
        let found = find_string(&*edit.rows, key, edit.context.now_ms)?;
        let value = found.as_ref().map_or(&[][..], Found::value);
        edit.rows.hold(value.len())?;
        joined = Some(match joined {
            None if how == BitJoin::Not => value.iter().map(|byte| !byte).collect(),
            None => value.to_vec(),
            Some(so_far) => joined_with(so_far, how, value),
        });
    }
    let joined = joined.unwrap_or_default();
    let mut target = KeyRows::new(to);
    let old = edit.open(&mut target)?;
    let old = old.as_ref().map(|old| &old.meta);
    if !joined.is_empty() {
        let expiry_ms = edit.context.default_expiry_ms;
        edit.put_string(&mut target, old, expiry_ms, &[&joined])?;
    } else if let Some(old) = old {
        edit.remove(&mut target, old)?;
    }
    Ok(number(joined.len()))
}

fn joined_with(mut so_far: Vec<u8>, how: BitJoin, value: &[u8]) -> Vec<u8> {
    if so_far.len() < value.len() {
        so_far.resize(value.len(), 0);
    }
    let values = value.iter().copied().chain(std::iter::repeat(0));
    for (byte, other) in so_far.iter_mut().zip(values) {
        match how {
            BitJoin::And => *byte &= other,
            BitJoin::Or => *byte |= other,
            BitJoin::Xor | BitJoin::Not => *byte ^= other,
        }
    }
    so_far
}
