//! What commands on hashes do, but for the expiry of fields and scans.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::answer::{Answer, Fault, held, held_copy, held_if_any};
use super::context::ReadContext;
use super::hash_edit::HashEdit;
use super::store::{Edit, count_live, find_hash, integer_bytes};
use super::strings::{number, overflow};
use super::{float, random};
use crate::command::args::{Args, Pairs, not_float, parse_integer};
use crate::command::read::{OneField, Parts};
use crate::rows::field::{Field, FieldHead};
use crate::rows::key::{KeyRows, RowKey};
use crate::rows::meta::Fields;
use crate::rows::{ANSWER_BYTES, RowsRead, RowsWrite, StoreError};
use crate::{ErrorReply, Reply};

/// What is asked for each field that is drawn.
const PLACE_BYTES: usize = 8;

/// A field that is there.
pub(super) fn find_field<R: RowsRead + ?Sized>(
    rows: &R,
    key: &mut KeyRows,
    fields: &Fields,
    field: &[u8],
    now_ms: u64,
) -> Result<Option<Field>, StoreError> {
    let found = rows.get(key.field(fields.generation, field))?.map(Field::new).transpose()?;
    Ok(found.filter(|found| found.head.is_live(now_ms)))
}

/// What is known of a field that is there, and how long its value is: the value itself is not taken.
pub(super) fn find_field_head<R: RowsRead + ?Sized>(
    rows: &R,
    key: &mut KeyRows,
    fields: &Fields,
    field: &[u8],
    now_ms: u64,
) -> Result<Option<(FieldHead, usize)>, StoreError> {
    let mut decoded = None;
    rows.with_value(key.field(fields.generation, field), &mut |row| {
        decoded = Some(FieldHead::decode(row).map(|(head, value)| (head, value.len())));
    })?;
    Ok(decoded.transpose()?.filter(|(head, _)| head.is_live(now_ms)))
}

fn find_one_head<R: RowsRead + ?Sized>(
    rows: &R,
    wanted: OneField<'_>,
    now_ms: u64,
) -> Result<Option<(FieldHead, usize)>, Fault> {
    let mut key = KeyRows::new(wanted.key);
    let Some(fields) = find_hash(rows, &mut key, now_ms)? else { return Ok(None) };
    Ok(find_field_head(rows, &mut key, &fields, wanted.field, now_ms)?)
}

fn find_one<R: RowsRead + ?Sized>(
    rows: &R,
    wanted: OneField<'_>,
    now_ms: u64,
) -> Result<Option<Field>, Fault> {
    let mut key = KeyRows::new(wanted.key);
    let Some(fields) = find_hash(rows, &mut key, now_ms)? else { return Ok(None) };
    Ok(find_field(rows, &mut key, &fields, wanted.field, now_ms)?)
}

pub(super) fn get<R: RowsRead + ?Sized>(rows: &R, field: OneField<'_>, now_ms: u64) -> Answer {
    let found = find_one(rows, field, now_ms)?;
    Ok(held_if_any(rows, found.map(Field::into_value))?)
}

pub(super) fn exists<R: RowsRead + ?Sized>(rows: &R, field: OneField<'_>, now_ms: u64) -> Answer {
    Ok(Reply::Integer(i64::from(find_one_head(rows, field, now_ms)?.is_some())))
}

pub(super) fn value_length<R: RowsRead + ?Sized>(
    rows: &R,
    field: OneField<'_>,
    now_ms: u64,
) -> Answer {
    Ok(number(find_one_head(rows, field, now_ms)?.map_or(0, |(_, length)| length)))
}

pub(super) fn get_many<R: RowsRead + ?Sized>(
    rows: &R,
    key: &[u8],
    wanted: Args<'_>,
    now_ms: u64,
) -> Answer {
    let mut key = KeyRows::new(key);
    let hash = find_hash(rows, &mut key, now_ms)?;
    let mut values = Vec::with_capacity(wanted.len());
    for field in wanted.iter() {
        let found = match &hash {
            Some(fields) => find_field(rows, &mut key, fields, field, now_ms)?,
            None => None,
        };
        values.push(held_if_any(rows, found.map(Field::into_value))?);
    }
    Ok(Reply::Array(values))
}

/// Is shown a field and its value, and says whether to go on.
pub(super) type VisitField<'a> =
    &'a mut dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, StoreError>;

/// Shows each field that is there and its value, from a field on (included), in the order of
/// fields, until told to stop.
pub(super) fn visit_fields<R: RowsRead + ?Sized>(
    rows: &R,
    key: &KeyRows,
    fields: &Fields,
    from: &[u8],
    now_ms: u64,
    visit: VisitField<'_>,
) -> Result<(), StoreError> {
    let mut start = key.fields_from(fields.generation);
    start.extend_from_slice(from);
    let mut failed = Ok(());
    rows.scan(&start, &key.fields_to(fields.generation), &mut |row, bytes| {
        let Some(RowKey { field: Some((_, field)), .. }) = RowKey::parse(row) else {
            failed = Err(StoreError::Damaged("a field row's key".into()));
            return ControlFlow::Break(());
        };
        let shown = match FieldHead::decode(bytes) {
            Ok((head, value)) if head.is_live(now_ms) => visit(field, value),
            Ok(_) => Ok(ControlFlow::Continue(())),
            Err(error) => Err(error),
        };
        shown.unwrap_or_else(|error| {
            failed = Err(error);
            ControlFlow::Break(())
        })
    })?;
    failed
}

pub(super) fn all<R: RowsRead + ?Sized>(rows: &R, key: &[u8], parts: Parts, now_ms: u64) -> Answer {
    let mut key = KeyRows::new(key);
    let (mut items, mut pairs) = (Vec::new(), Vec::new());
    if let Some(fields) = find_hash(rows, &mut key, now_ms)? {
        visit_fields(rows, &key, &fields, &[], now_ms, &mut |field, value| {
            match parts {
                Parts::Fields => items.push(held_copy(rows, field)?),
                Parts::Values => items.push(held_copy(rows, value)?),
                Parts::Pairs => pairs.push((held_copy(rows, field)?, held_copy(rows, value)?)),
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(if parts == Parts::Pairs { Reply::Map(pairs) } else { Reply::Array(items) })
}

pub(super) fn length<R: RowsRead + ?Sized>(rows: &R, key: &[u8], now_ms: u64) -> Answer {
    let mut key = KeyRows::new(key);
    let live = match find_hash(rows, &mut key, now_ms)? {
        Some(fields) => count_live(rows, &key, &fields, now_ms)?,
        None => 0,
    };
    Ok(Reply::Integer(i64::try_from(live).unwrap_or(i64::MAX)))
}

/// Pairs are a flat list, as in RESP2; who speaks RESP3 nests them.
pub(super) fn random<R: RowsRead + ?Sized>(
    rows: &R,
    key: &[u8],
    count: Option<i64>,
    values: bool,
    context: &ReadContext<'_>,
) -> Answer {
    let now_ms = context.now_ms;
    let mut key = KeyRows::new(key);
    let mut pairs: Vec<(Bytes, Bytes)> = Vec::new();
    if let Some(fields) = find_hash(rows, &mut key, now_ms)? {
        visit_fields(rows, &key, &fields, &[], now_ms, &mut |field, value| {
            let value = if values { value } else { &[] };
            rows.hold(field.len() + value.len() + ANSWER_BYTES)?;
            pairs.push((Bytes::copy_from_slice(field), Bytes::copy_from_slice(value)));
            Ok(ControlFlow::Continue(()))
        })?;
    }
    let mut seed = context.seed.get();
    let Some(count) = count else {
        let drawn = random::below(&mut seed, pairs.len()).map(|at| pairs[at].0.clone());
        return Ok(drawn.map_or(Reply::Nil, Reply::Bulk));
    };
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    rows.hold(PLACE_BYTES * if count < 0 { wanted } else { pairs.len() })?;
    let drawn: Vec<usize> = if count < 0 {
        (0..wanted).map_while(|_| random::below(&mut seed, pairs.len())).collect()
    } else {
        random::distinct(&mut seed, pairs.len(), wanted)
    };
    let mut items = Vec::with_capacity(drawn.len());
    for at in drawn {
        items.push(held(rows, pairs[at].0.clone())?);
        if values {
            items.push(held(rows, pairs[at].1.clone())?);
        }
    }
    Ok(Reply::Array(items))
}

pub(super) fn set<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    key: &[u8],
    pairs: Pairs<'_>,
    ok: bool,
) -> Answer {
    let mut hash = HashEdit::open_or_new(edit, key)?;
    let mut added = 0;
    for (field, value) in pairs.iter() {
        let old = hash.get(edit, field)?;
        added += i64::from(old.is_none());
        hash.set(edit, field, value, old.as_ref().map(|old| &old.head), None);
    }
    hash.finish(edit)?;
    Ok(if ok { Reply::OK } else { Reply::Integer(added) })
}

pub(super) fn set_new<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    key: &[u8],
    field: &[u8],
    value: &[u8],
) -> Answer {
    let mut hash = HashEdit::open_or_new(edit, key)?;
    if hash.get(edit, field)?.is_some() {
        return Ok(Reply::Integer(0));
    }
    hash.set(edit, field, value, None, None);
    hash.finish(edit)?;
    Ok(Reply::Integer(1))
}

pub(super) fn delete<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    key: &[u8],
    fields: Args<'_>,
    get: bool,
) -> Answer {
    let mut hash = HashEdit::open(edit, key)?;
    let (mut removed, mut values) = (0, Vec::new());
    for field in fields.iter() {
        let found = match &mut hash {
            Some(hash) => hash.get(edit, field)?,
            None => None,
        };
        if let (Some(hash), Some(found)) = (&mut hash, &found) {
            hash.delete(edit, field, &found.head);
            removed += 1;
        }
        if get {
            values.push(held_if_any(edit.rows, found.map(Field::into_value))?);
        }
    }
    if let Some(hash) = hash {
        hash.finish(edit)?;
    }
    Ok(if get { Reply::Array(values) } else { Reply::Integer(removed) })
}

pub(super) fn increment<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    key: &[u8],
    field: &[u8],
    by: i64,
) -> Answer {
    let mut hash = HashEdit::open_or_new(edit, key)?;
    let old = hash.get(edit, field)?;
    let value = match &old {
        Some(old) => parse_integer(old.value())
            .ok_or_else(|| ErrorReply::err("hash value is not an integer"))?,
        None => 0,
    };
    let sum = value.checked_add(by).ok_or_else(overflow)?;
    put_kept(edit, hash, field, old.as_ref(), &integer_bytes(sum))?;
    Ok(Reply::Integer(sum))
}

pub(super) fn increment_float<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    key: &[u8],
    field: &[u8],
    by: &[u8],
) -> Answer {
    let by = float::parse(by).ok_or_else(not_float)?;
    if matches!(by, float::Number::Infinite { .. }) {
        return Err(ErrorReply::err("value is NaN or Infinity").into());
    }
    let mut hash = HashEdit::open_or_new(edit, key)?;
    let old = hash.get(edit, field)?;
    let value = old.as_ref().map_or(&b"0"[..], Field::value);
    let value = float::parse(value).ok_or_else(|| ErrorReply::err("hash value is not a float"))?;
    let sum = float::add(&value, &by)
        .ok_or_else(|| ErrorReply::err("increment would produce NaN or Infinity"))?;
    let text = float::format(&sum);
    put_kept(edit, hash, field, old.as_ref(), text.as_bytes())?;
    Ok(Reply::bulk(text))
}

/// Sets a field whose expiry stays.
fn put_kept<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    mut hash: HashEdit,
    field: &[u8],
    old: Option<&Field>,
    value: &[u8],
) -> Result<(), Fault> {
    let old = old.map(|old| &old.head);
    hash.set(edit, field, value, old, old.and_then(|old| old.expiry_ms));
    Ok(hash.finish(edit)?)
}
