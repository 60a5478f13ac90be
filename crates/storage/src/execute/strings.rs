//! What commands on strings do.

use bytes::Bytes;

use super::answer::{Answer, Fault, held, held_if_any};
use super::float;
use super::store::{Edit, find, find_meta, find_string, integer_bytes, wrong_type};
use crate::command::args::{
    Args, Pairs, STRING_BYTES_MAX, not_float, not_integer, parse_integer, too_long,
};
use crate::command::condition::{self, Condition};
use crate::command::read::Range;
use crate::command::write::{GetExpiry, NewExpiry, Set, SetAnswer};
use crate::rows::key::KeyRows;
use crate::rows::meta::{Found, Kind};
use crate::rows::{ANSWER_BYTES, RowsRead, RowsWrite};
use crate::{ErrorReply, Reply};

pub(super) fn get<R: RowsRead + ?Sized>(rows: &R, key: &[u8], now_ms: u64) -> Answer {
    let found = find_string(rows, key, now_ms)?;
    Ok(held_if_any(rows, found.map(Found::into_value))?)
}

pub(super) fn get_many<R: RowsRead + ?Sized>(rows: &R, keys: Args<'_>, now_ms: u64) -> Answer {
    let one = |key: &[u8]| {
        let found = find(rows, &mut KeyRows::new(key), now_ms)?;
        let string = found.filter(|found| found.meta.kind == Kind::String);
        Ok(held_if_any(rows, string.map(Found::into_value))?)
    };
    Ok(Reply::Array(keys.iter().map(one).collect::<Result<_, Fault>>()?))
}

pub(super) fn length<R: RowsRead + ?Sized>(rows: &R, key: &[u8], now_ms: u64) -> Answer {
    match find_meta(rows, &mut KeyRows::new(key), now_ms)? {
        Some((meta, _)) if meta.kind != Kind::String => Err(wrong_type().into()),
        found => Ok(number(found.map_or(0, |(_, length)| length))),
    }
}

pub(super) fn digest<R: RowsRead + ?Sized>(rows: &R, key: &[u8], now_ms: u64) -> Answer {
    let found = find_string(rows, key, now_ms)?;
    Ok(held_if_any(rows, found.map(|found| condition::digest(found.value()).into()))?)
}

pub(super) fn get_range<R: RowsRead + ?Sized>(rows: &R, range: Range<'_>, now_ms: u64) -> Answer {
    let value = find_string(rows, range.key, now_ms)?.map(Found::into_value).unwrap_or_default();
    let part = clamp(range.start, range.end, value.len());
    // The part keeps the whole.
    rows.hold(value.len() + ANSWER_BYTES)?;
    Ok(Reply::Bulk(part.map_or_else(Bytes::new, |part| value.slice(part))))
}

/// The part that two included ends, counted from the end where below 0, name of `len` items.
pub(super) fn clamp(start: i64, end: i64, len: usize) -> Option<std::ops::RangeInclusive<usize>> {
    if len == 0 || (start < 0 && end < 0 && start > end) {
        return None;
    }
    let absolute = |at: i64| {
        let distance = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
        if at < 0 { len.saturating_sub(distance) } else { distance }
    };
    let (start, end) = (absolute(start), absolute(end).min(len - 1));
    (start <= end).then_some(start..=end)
}

/// A length as an answer.
pub(super) fn number(length: usize) -> Reply {
    Reply::Integer(i64::try_from(length).unwrap_or(i64::MAX))
}

pub(super) fn set<W: RowsWrite + ?Sized>(edit: &mut Edit<'_, W>, set: Set<'_>) -> Answer {
    let mut expiry_ms = match set.expiry {
        NewExpiry::At(moment) => Some(moment.resolve(edit.context.stamp_ms)),
        NewExpiry::Clear | NewExpiry::Keep => edit.context.default_expiry_ms,
    };
    let mut key = KeyRows::new(set.key);
    let old = edit.open(&mut key)?;
    if set.answer == SetAnswer::Old && old.as_ref().is_some_and(|old| old.meta.kind != Kind::String)
    {
        return Err(wrong_type().into());
    }
    let mut is_wanted = set.present.is_none_or(|present| present == old.is_some());
    if let Some(condition) = &set.condition {
        is_wanted = match &old {
            Some(old) if old.meta.kind != Kind::String => return Err(wrong_type().into()),
            Some(old) => condition.holds(old.value())?,
            None => condition.holds_of_nothing(),
        };
    }
    if is_wanted {
        let meta = old.as_ref().map(|old| &old.meta);
        if set.expiry == NewExpiry::Keep {
            expiry_ms = edit.kept_expiry_ms(meta);
        }
        edit.put_string(&mut key, meta, expiry_ms, &[set.value])?;
    }
    Ok(match set.answer {
        SetAnswer::Ok if is_wanted => Reply::OK,
        SetAnswer::Ok => Reply::Nil,
        SetAnswer::Old => held_if_any(edit.rows, old.map(Found::into_value))?,
        SetAnswer::Number => Reply::Integer(i64::from(is_wanted)),
    })
}

/// A condition that nobody knows is said of strings alone, as Redis does.
pub(super) fn delete_if<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    key: &[u8],
    condition: Option<Condition<'_>>,
) -> Answer {
    let mut key = KeyRows::new(key);
    let Some(found) = edit.open(&mut key)? else { return Ok(Reply::Integer(0)) };
    if found.meta.kind != Kind::String {
        let words = "Key should be of string type if conditions are specified";
        return Err(ErrorReply::err(words).into());
    }
    let unknown = || ErrorReply::err("Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE");
    let holds = condition.ok_or_else(unknown)?.holds(found.value())?;
    if holds {
        edit.remove(&mut key, &found.meta)?;
    }
    Ok(Reply::Integer(i64::from(holds)))
}

pub(super) fn get_delete<W: RowsWrite + ?Sized>(edit: &mut Edit<'_, W>, key: &[u8]) -> Answer {
    let mut key = KeyRows::new(key);
    let Some(found) = edit.open_string(&mut key)? else { return Ok(Reply::Nil) };
    edit.remove(&mut key, &found.meta)?;
    Ok(held(edit.rows, found.into_value())?)
}

pub(super) fn get_expire<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    key: &[u8],
    expiry: GetExpiry<'_>,
) -> Answer {
    let mut key = KeyRows::new(key);
    let Some(found) = edit.open_string(&mut key)? else { return Ok(Reply::Nil) };
    let expiry_ms = match expiry {
        GetExpiry::Keep => found.meta.expiry_ms,
        GetExpiry::Clear => None,
        GetExpiry::At(form, text) => {
            Some(form.positive(text, "getex")?.resolve(edit.context.stamp_ms))
        }
    };
    if expiry_ms != found.meta.expiry_ms {
        edit.set_expiry(&mut key, &found, expiry_ms)?;
    }
    Ok(held(edit.rows, found.into_value())?)
}

pub(super) fn set_many<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    pairs: Pairs<'_>,
    absent: bool,
) -> Answer {
    if absent {
        for (key, _) in pairs.iter() {
            if edit.open(&mut KeyRows::new(key))?.is_some() {
                return Ok(Reply::Integer(0));
            }
        }
    }
    for (key, value) in pairs.iter() {
        let mut key = KeyRows::new(key);
        let old = edit.open(&mut key)?;
        let expiry_ms = edit.context.default_expiry_ms;
        edit.put_string(&mut key, old.as_ref().map(|old| &old.meta), expiry_ms, &[value])?;
    }
    Ok(if absent { Reply::Integer(1) } else { Reply::OK })
}

pub(super) fn append<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    key: &[u8],
    value: &[u8],
) -> Answer {
    let mut key = KeyRows::new(key);
    let old = edit.open_string(&mut key)?;
    let head = old.as_ref().map_or(&[][..], Found::value);
    let length = head.len() + value.len();
    if length > STRING_BYTES_MAX {
        return Err(too_long().into());
    }
    let meta = old.as_ref().map(|old| &old.meta);
    let expiry_ms = edit.kept_expiry_ms(meta);
    edit.put_string(&mut key, meta, expiry_ms, &[head, value])?;
    Ok(number(length))
}

pub(super) fn set_range<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    key: &[u8],
    offset: usize,
    value: &[u8],
) -> Answer {
    let mut key = KeyRows::new(key);
    let old = edit.open_string(&mut key)?;
    let held = old.as_ref().map_or(&[][..], Found::value);
    if value.is_empty() {
        return Ok(number(held.len()));
    }
    let end = offset.checked_add(value.len()).filter(|end| *end <= STRING_BYTES_MAX);
    let end = end.ok_or_else(too_long)?;
    let mut bytes = Vec::with_capacity(held.len().max(end));
    bytes.extend_from_slice(held);
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(value);
    replace(edit, &mut key, old.as_ref(), &bytes)?;
    Ok(number(bytes.len()))
}

/// Puts another value in the place of one, or of none; its expiry stays.
pub(super) fn replace<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    key: &mut KeyRows,
    old: Option<&Found>,
    value: &[u8],
) -> Result<(), Fault> {
    let meta = old.map(|old| &old.meta);
    let expiry_ms = edit.kept_expiry_ms(meta);
    Ok(edit.put_string(key, meta, expiry_ms, &[value])?)
}

/// The refusal of a sum over 64 bits.
pub(super) fn overflow() -> ErrorReply {
    ErrorReply::err("increment or decrement would overflow")
}

pub(super) fn increment<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    key: &[u8],
    by: i64,
) -> Answer {
    let mut key = KeyRows::new(key);
    let old = edit.open_string(&mut key)?;
    let value = match &old {
        Some(old) => parse_integer(old.value()).ok_or_else(not_integer)?,
        None => 0,
    };
    let sum = value.checked_add(by).ok_or_else(overflow)?;
    replace(edit, &mut key, old.as_ref(), &integer_bytes(sum))?;
    Ok(Reply::Integer(sum))
}

pub(super) fn increment_float<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    key: &[u8],
    by: &[u8],
) -> Answer {
    let mut key = KeyRows::new(key);
    let old = edit.open_string(&mut key)?;
    let value = old.as_ref().map_or(&b"0"[..], Found::value);
    let value = float::parse(value).ok_or_else(not_float)?;
    let by = float::parse(by).ok_or_else(not_float)?;
    let sum = float::add(&value, &by)
        .ok_or_else(|| ErrorReply::err("increment would produce NaN or Infinity"))?;
    let text = float::format(&sum);
    replace(edit, &mut key, old.as_ref(), text.as_bytes())?;
    Ok(Reply::bulk(text))
}
