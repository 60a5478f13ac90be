//! What BITFIELD does: integers of any width read, set and added to among the bits of a string.

use super::answer::Answer;
use super::store::{Edit, find_string};
use super::strings::replace;
use crate::command::args::{Args, STRING_BYTES_MAX, too_long};
use crate::command::bitfield::{Change, FieldStep, Overflow, Width, steps};
use crate::rows::key::KeyRows;
use crate::rows::meta::Found;
use crate::rows::{REPLY_BYTES, RowsRead, RowsWrite};
use crate::{ErrorReply, Reply};

pub(super) fn get<R: RowsRead + ?Sized>(
    rows: &R,
    key: &[u8],
    args: Args<'_>,
    now_ms: u64,
) -> Answer {
    let found = find_string(rows, key, now_ms)?;
    let value = found.as_ref().map_or(&[][..], Found::value);
    let mut answers = Vec::new();
    for step in steps(args) {
        rows.hold(REPLY_BYTES)?;
        answers.push(integer(read(value, &step)));
    }
    Ok(Reply::Array(answers))
}

pub(super) fn change<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    key: &[u8],
    args: Args<'_>,
) -> Answer {
    let mut key = KeyRows::new(key);
    let old = edit.open_string(&mut key)?;
    let held = old.as_ref().map_or(&[][..], Found::value);
    let writes = |step: &FieldStep| step.change != Change::Get;
    let end = steps(args).filter(writes).map(|step| step.end()).max().unwrap_or(0);
    let length = usize::try_from(end.div_ceil(8)).unwrap_or(usize::MAX).max(held.len());
    if length > STRING_BYTES_MAX {
        return Err(too_long().into());
    }
    // It reaches as far as the last that is written to, also where that then fails.
    let mut is_changed = length > held.len();
    let mut value = Vec::with_capacity(length);
    value.extend_from_slice(held);
    value.resize(length, 0);
    let mut answers = Vec::new();
    for step in steps(args) {
        edit.rows.hold(REPLY_BYTES)?;
        let before = read(&value, &step);
        let (wanted, shown) = match step.change {
            Change::Get => {
                answers.push(integer(before));
                continue;
            }
            Change::Set(to) if step.width.is_signed => (i128::from(to), Some(before)),
            // What has no sign is taken for the bits that it has.
            Change::Set(to) => (i128::from(to.cast_unsigned()), Some(before)),
            Change::Add(by) => (before + i128::from(by), None),
        };
        let Some(now) = fit(wanted, step.width, step.overflow) else {
            answers.push(Reply::Nil);
            continue;
        };
        write(&mut value, &step, now);
        is_changed = true;
        answers.push(integer(shown.unwrap_or(now)));
    }
    if is_changed {
        replace(edit, &mut key, old.as_ref(), &value)?;
    }
    Ok(Reply::Array(answers))
}

/// A number of a width; all of them are of 64 bits.
fn integer(number: i128) -> Reply {
    match i64::try_from(number) {
        Ok(number) => Reply::Integer(number),
        Err(_) => Reply::Error(ErrorReply::err("value is out of range")),
    }
}

/// The number that a width holds in the place of `wanted`; `None` where there is to be none.
fn fit(wanted: i128, width: Width, overflow: Overflow) -> Option<i128> {
    let (least, most) = match width.is_signed {
        true => (-(1i128 << (width.bits - 1)), (1i128 << (width.bits - 1)) - 1),
        false => (0, (1i128 << width.bits) - 1),
    };
    if (least..=most).contains(&wanted) {
        return Some(wanted);
    }
    match overflow {
        Overflow::Wrap => Some(signed(wanted & ((1i128 << width.bits) - 1), width)),
        Overflow::Saturate => Some(wanted.clamp(least, most)),
        Overflow::Fail => None,
    }
}

/// The number that bits are.
fn signed(bits: i128, width: Width) -> i128 {
    let is_negative = width.is_signed && bits >> (width.bits - 1) != 0;
    if is_negative { bits - (1i128 << width.bits) } else { bits }
}

/// The integer as it is; what lies beyond the string is 0.
fn read(value: &[u8], step: &FieldStep) -> i128 {
    let mut bits = 0;
    for at in step.offset..step.end() {
        let byte = usize::try_from(at / 8).ok().and_then(|byte| value.get(byte));
        let bit = byte.map_or(0, |byte| (byte >> (7 - at % 8)) & 1);
        bits = bits << 1 | i128::from(bit);
    }
    signed(bits, step.width)
}

/// Puts an integer into a string that reaches far enough.
fn write(value: &mut [u8], step: &FieldStep, number: i128) {
    for (at, shift) in (step.offset..step.end()).zip((0..step.width.bits).rev()) {
        let byte = usize::try_from(at / 8).ok().and_then(|byte| value.get_mut(byte));
        if let Some(byte) = byte {
            let mask = 0x80u8 >> (at % 8);
            if number >> shift & 1 == 1 {
                *byte |= mask;
            } else {
                *byte &= !mask;
            }
        }
    }
}
