//! What commands on the expiry of fields do.

use super::answer::{Answer, Fault, held_if_any};
use super::hash_edit::HashEdit;
use super::hashes::find_field_head;
use super::keys::remaining;
use super::store::{Edit, find_hash};
use crate::Reply;
use crate::command::args::{Args, ExpiryCondition, Moment, Pairs, TimeForm, invalid_expiry};
use crate::command::write::NewExpiry;
use crate::command::write::fields::FIELD_EXPIRY_MS_MAX;
use crate::rows::field::Field;
use crate::rows::key::KeyRows;
use crate::rows::{RowsRead, RowsWrite};

/// Said of a field that is not there.
const NO_FIELD: i64 = -2;
/// Said of a field without an expiry.
const NO_EXPIRY: i64 = -1;

pub(super) fn expiry<R: RowsRead + ?Sized>(
    rows: &R,
    key: &[u8],
    form: TimeForm,
    fields: Args<'_>,
    now_ms: u64,
) -> Answer {
    let mut key = KeyRows::new(key);
    let hash = find_hash(rows, &mut key, now_ms)?;
    let mut answers = Vec::with_capacity(fields.len());
    for field in fields.iter() {
        let found = match &hash {
            Some(hash) => find_field_head(rows, &mut key, hash, field, now_ms)?,
            None => None,
        };
        answers.push(Reply::Integer(match found.map(|(head, _)| head.expiry_ms) {
            None => NO_FIELD,
            Some(None) => NO_EXPIRY,
            // Redis rounds what is left of a field up, and what is left of a key to the nearest.
            Some(Some(expiry_ms)) => remaining(expiry_ms, form, now_ms, 999),
        }));
    }
    Ok(Reply::Array(answers))
}

/// A field's new expiry as ms since 1970.
fn field_expiry(moment: Moment, stamp_ms: u64, name: &str) -> Result<u64, Fault> {
    let expiry_ms = moment.resolve(stamp_ms);
    if expiry_ms > FIELD_EXPIRY_MS_MAX {
        return Err(invalid_expiry(name).into());
    }
    Ok(expiry_ms)
}

pub(super) fn expire<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    key: &[u8],
    moment: Moment,
    condition: ExpiryCondition,
    fields: Args<'_>,
) -> Answer {
    let expiry_ms = field_expiry(moment, edit.context.stamp_ms, "hexpire")?;
    each_field(edit, key, fields, |hash, edit, field| {
        let Some(found) = hash.get(edit, field)? else { return Ok(NO_FIELD) };
        if !condition.allows(found.head.expiry_ms, expiry_ms) {
            return Ok(0);
        }
        hash.set_expiry(edit, field, &found, Some(expiry_ms));
        Ok(if expiry_ms <= edit.context.now_ms { 2 } else { 1 })
    })
}

pub(super) fn persist<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    key: &[u8],
    fields: Args<'_>,
) -> Answer {
    each_field(edit, key, fields, |hash, edit, field| {
        let Some(found) = hash.get(edit, field)? else { return Ok(NO_FIELD) };
        if found.head.expiry_ms.is_none() {
            return Ok(NO_EXPIRY);
        }
        hash.set_expiry(edit, field, &found, None);
        Ok(1)
    })
}

/// A number for each field; all are absent where the hash is.
fn each_field<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    key: &[u8],
    fields: Args<'_>,
    one: impl Fn(&mut HashEdit, &mut Edit<'_, W>, &[u8]) -> Result<i64, Fault>,
) -> Answer {
    let Some(mut hash) = HashEdit::open(edit, key)? else {
        return Ok(Reply::Array(fields.iter().map(|_| Reply::Integer(NO_FIELD)).collect()));
    };
    let mut answers = Vec::with_capacity(fields.len());
    for field in fields.iter() {
        answers.push(Reply::Integer(one(&mut hash, edit, field)?));
    }
    hash.finish(edit)?;
    Ok(Reply::Array(answers))
}

pub(super) fn get_expire<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    key: &[u8],
    expiry: NewExpiry,
    fields: Args<'_>,
) -> Answer {
    let new_ms = match expiry {
        NewExpiry::At(moment) => Some(field_expiry(moment, edit.context.stamp_ms, "hgetex")?),
        NewExpiry::Clear | NewExpiry::Keep => None,
    };
    let mut hash = HashEdit::open(edit, key)?;
    let mut values = Vec::with_capacity(fields.len());
    for field in fields.iter() {
        let found = match &mut hash {
            Some(hash) => hash.get(edit, field)?,
            None => None,
        };
        if let (Some(hash), Some(found)) = (&mut hash, &found)
            && expiry != NewExpiry::Keep
            && found.head.expiry_ms != new_ms
        {
            hash.set_expiry(edit, field, found, new_ms);
        }
        values.push(held_if_any(edit.rows, found.map(Field::into_value))?);
    }
    if let Some(hash) = hash {
        hash.finish(edit)?;
    }
    Ok(Reply::Array(values))
}

pub(super) fn set_expire<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    key: &[u8],
    present: Option<bool>,
    expiry: NewExpiry,
    pairs: Pairs<'_>,
) -> Answer {
    let new_ms = match expiry {
        NewExpiry::At(moment) => Some(field_expiry(moment, edit.context.stamp_ms, "hsetex")?),
        NewExpiry::Clear | NewExpiry::Keep => None,
    };
    let mut hash = HashEdit::open_or_new(edit, key)?;
    if let Some(present) = present {
        for (field, _) in pairs.iter() {
            if hash.get(edit, field)?.is_some() != present {
                return Ok(Reply::Integer(0));
            }
        }
    }
    for (field, value) in pairs.iter() {
        let old = hash.get(edit, field)?.map(|old| old.head);
        let expiry_ms = match expiry {
            NewExpiry::Keep => old.and_then(|old| old.expiry_ms),
            NewExpiry::Clear | NewExpiry::At(_) => new_ms,
        };
        hash.set(edit, field, value, old.as_ref(), expiry_ms);
    }
    hash.finish(edit)?;
    Ok(Reply::Integer(1))
}
