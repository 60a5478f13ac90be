//! What commands on the bits of strings do. Bit 0 is the highest of the first byte.

use super::Answer;
use super::store::{Edit, find_string};
use super::strings::{clamp, replace};
use crate::Reply;
use crate::command::read::BitPart;
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
