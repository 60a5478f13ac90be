//! What commands on keys of any type do, but for scans.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;

use super::answer::{Answer, Fault};
use super::context::ReadContext;
use super::hash_edit::HashEdit;
use super::scan::visit_stored_keys;
use super::store::{Edit, find, find_meta, is_live};
use crate::command::args::{Args, ExpiryCondition, Moment, TimeForm, parse_integer};
use crate::command::read::ObjectQuestion;
use crate::rows::field::FieldHead;
use crate::rows::key::{self, KeyRows, RowKey};
use crate::rows::meta::{Fields, Found, Kind, Meta};
use crate::rows::touch::Touch;
use crate::rows::{ANSWER_BYTES, removal, swept};
use crate::rows::{RowsRead, RowsWrite, StoreError};
use crate::{ErrorReply, Reply};

/// Redis keeps a string up to this many bytes beside its header.
const EMBEDDED_BYTES_MAX: usize = 44;
/// Redis keeps a hash of up to this many fields, each of up to 64 bytes, in one list.
const LISTED_FIELDS_MAX: u64 = 128;
const LISTED_BYTES_MAX: usize = 64;
/// Of so many keys it is noted which were there when all are taken away.
const NOTED_KEYS_MAX: u64 = 1024;
/// How many field rows are moved at once, and how many bytes of them, about.
const CHUNK_ROWS: usize = 1024;
const CHUNK_BYTES: usize = 1 << 20;

pub(super) fn exists<R: RowsRead + ?Sized>(rows: &R, keys: Args<'_>, now_ms: u64) -> Answer {
    // A key may be named any number of times, and whether a hash of expiring fields is there takes
    // long to say.
    let remembers = keys.len() > 1 && !rows.is_budgeted();
    let mut known = HashMap::new();
    let mut count = 0;
    for key in keys.iter() {
        let is_there = match known.get(key) {
            Some(is_there) => *is_there,
            None => find_meta(rows, &mut KeyRows::new(key), now_ms)?.is_some(),
        };
        if remembers {
            known.insert(key, is_there);
        }
        count += i64::from(is_there);
    }
    Ok(Reply::Integer(count))
}

pub(super) fn kind<R: RowsRead + ?Sized>(rows: &R, key: &[u8], now_ms: u64) -> Answer {
    let found = find_meta(rows, &mut KeyRows::new(key), now_ms)?;
    Ok(Reply::Status(found.map_or("none", |(meta, _)| meta.kind.name())))
}

pub(super) fn expiry<R: RowsRead + ?Sized>(
    rows: &R,
    key: &[u8],
    form: TimeForm,
    now_ms: u64,
) -> Answer {
    let found = find_meta(rows, &mut KeyRows::new(key), now_ms)?;
    Ok(Reply::Integer(match found.map(|(meta, _)| meta.expiry_ms) {
        None => -2,
        Some(None) => -1,
        Some(Some(expiry_ms)) => remaining(expiry_ms, form, now_ms, 500),
    }))
}

/// An expiry in a form; what is left in seconds is rounded by adding `round_ms` first.
pub(super) fn remaining(expiry_ms: u64, form: TimeForm, now_ms: u64, round_ms: u64) -> i64 {
    let ms = if form.absolute { expiry_ms } else { expiry_ms.saturating_sub(now_ms) };
    let number = if form.seconds { ms.saturating_add(round_ms) / 1000 } else { ms };
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Keys that are there: those stored but for those that are due to be swept.
pub(super) fn size<R: RowsRead + ?Sized>(rows: &R, context: &ReadContext<'_>) -> Answer {
    let now_ms = context.now_ms;
    let mut live = context.keys;
    let mut hashes: BTreeSet<Vec<u8>> = BTreeSet::new();
    let mut refused = Ok(());
    rows.scan(&swept::due_from(rows)?, &key::expiry_after(now_ms), &mut |entry, _| {
        match key::parse_expiry(entry).and_then(|(_, row)| RowKey::parse(row)) {
            // A key's own entry goes and comes with its expiry.
            Some(RowKey { field: None, .. }) => live = live.saturating_sub(1),
            Some(row) if !hashes.contains(row.key) => {
                refused = rows.hold(row.key.len() + ANSWER_BYTES);
                if refused.is_err() {
                    return ControlFlow::Break(());
                }
                hashes.insert(row.key.to_vec());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    refused?;
    // Of fields that are due the hash may be gone, made anew, or have others.
    for key in hashes {
        let mut key = KeyRows::new(&key);
        if let Some(row) = rows.get(key.meta())? {
            let (meta, _) = Meta::decode(&row)?;
            let is_due = meta.expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms);
            if !is_due && !is_live(rows, &key, &meta, now_ms)? {
                live = live.saturating_sub(1);
            }
        }
    }
    Ok(Reply::Integer(i64::try_from(live).unwrap_or(i64::MAX)))
}

pub(super) fn object<R: RowsRead + ?Sized>(
    rows: &R,
    key: &[u8],
    question: ObjectQuestion,
    now_ms: u64,
) -> Answer {
    let mut key = KeyRows::new(key);
    let Some(found) = find(rows, &mut key, now_ms)? else { return Ok(Reply::Nil) };
    Ok(match question {
        ObjectQuestion::Encoding => Reply::bulk(encoding(rows, &key, &found)?),
        ObjectQuestion::References => Reply::Integer(1),
        ObjectQuestion::IdleTime => Reply::Integer(0),
        ObjectQuestion::Frequency => Reply::Error(ErrorReply::err(
            "An LFU maxmemory policy is not selected, access frequency not tracked. Please note \
             that when switching between policies at runtime LRU and LFU data will take some time \
             to adjust.",
        )),
    })
}

/// What Redis would call the encoding of such a value, set anew.
fn encoding<R: RowsRead + ?Sized>(
    rows: &R,
    key: &KeyRows,
    found: &Found,
) -> Result<&'static str, StoreError> {
    let fields = match &found.meta.kind {
        Kind::String if parse_integer(found.value()).is_some() => return Ok("int"),
        Kind::String if found.value().len() <= EMBEDDED_BYTES_MAX => return Ok("embstr"),
        Kind::String => return Ok("raw"),
        Kind::Hash(fields) if fields.total > LISTED_FIELDS_MAX => return Ok("hashtable"),
        Kind::Hash(fields) => fields,
    };
    let mut is_listed = true;
    super::hashes::visit_fields(rows, key, fields, &[], 0, &mut |field, value| {
        is_listed = field.len().max(value.len()) <= LISTED_BYTES_MAX;
        Ok(if is_listed { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(if is_listed { "listpack" } else { "hashtable" })
}

pub(super) fn object_help() -> Reply {
    Reply::Array(OBJECT_HELP.iter().copied().map(Reply::Status).collect())
}

/// The lines that OBJECT HELP answers: those of Redis, which clients may show.
pub(crate) const OBJECT_HELP: &[&str] = &[
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    Return the kind of internal representation used in order to store the value",
    "    associated with a <key>.",
    "FREQ <key>",
    "    Return the access frequency index of the <key>. The returned integer is",
    "    proportional to the logarithm of the recent access frequency of the key.",
    "IDLETIME <key>",
    "    Return the idle time of the <key>, that is the approximated number of",
    "    seconds elapsed since the last access to the key.",
    "REFCOUNT <key>",
    "    Return the number of references of the value associated with the specified",
    "    <key>.",
    "HELP",
    "    Prints this help.",
];

/// The bytes of all of a key's rows, before compression.
pub(super) fn memory_usage<R: RowsRead + ?Sized>(rows: &R, key: &[u8], now_ms: u64) -> Answer {
    let mut key = KeyRows::new(key);
    if find_meta(rows, &mut key, now_ms)?.is_none() {
        return Ok(Reply::Nil);
    }
    let mut bytes = 0;
    let from = key.meta().to_vec();
    rows.scan(&from, &key.end(), &mut |row, value| {
        bytes += row.len() + value.len();
        ControlFlow::Continue(())
    })?;
    Ok(super::strings::number(bytes))
}

pub(super) fn delete<W: RowsWrite + ?Sized>(edit: &mut Edit<'_, W>, keys: Args<'_>) -> Answer {
    let mut removed = 0;
    for key in keys.iter() {
        let mut key = KeyRows::new(key);
        if let Some(found) = edit.open(&mut key)? {
            edit.remove(&mut key, &found.meta)?;
            removed += 1;
        }
    }
    Ok(Reply::Integer(removed))
}

pub(super) fn expire<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    key: &[u8],
    moment: Moment,
    condition: ExpiryCondition,
) -> Answer {
    let expiry_ms = moment.resolve(edit.context.stamp_ms);
    let mut key = KeyRows::new(key);
    let Some(found) = edit.open(&mut key)? else { return Ok(Reply::Integer(0)) };
    if !condition.allows(found.meta.expiry_ms, expiry_ms) {
        return Ok(Reply::Integer(0));
    }
    edit.set_expiry(&mut key, &found, Some(expiry_ms))?;
    Ok(Reply::Integer(1))
}

pub(super) fn persist<W: RowsWrite + ?Sized>(edit: &mut Edit<'_, W>, key: &[u8]) -> Answer {
    let mut key = KeyRows::new(key);
    match edit.open(&mut key)? {
        Some(found) if found.meta.expiry_ms.is_some() => {
            edit.set_expiry(&mut key, &found, None)?;
            Ok(Reply::Integer(1))
        }
        _ => Ok(Reply::Integer(0)),
    }
}

pub(super) fn rename<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    from: &[u8],
    to: &[u8],
    absent: bool,
) -> Answer {
    let mut source = KeyRows::new(from);
    let Some(found) = edit.open(&mut source)? else {
        return Err(ErrorReply::err("no such key").into());
    };
    if from == to {
        return Ok(if absent { Reply::Integer(0) } else { Reply::OK });
    }
    let mut target = KeyRows::new(to);
    let old = edit.open(&mut target)?;
    if absent && old.is_some() {
        return Ok(Reply::Integer(0));
    }
    put_copy(edit, &source, &found, target, old.as_ref())?;
    edit.remove(&mut source, &found.meta)?;
    Ok(if absent { Reply::Integer(1) } else { Reply::OK })
}

pub(super) fn copy<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    from: &[u8],
    to: &[u8],
    replace: bool,
) -> Answer {
    let source_rows = &mut KeyRows::new(from);
    let Some(found) = edit.open(source_rows)? else { return Ok(Reply::Integer(0)) };
    let mut target = KeyRows::new(to);
    let old = edit.open(&mut target)?;
    if old.is_some() && !replace {
        return Ok(Reply::Integer(0));
    }
    put_copy(edit, source_rows, &found, target, old.as_ref())?;
    Ok(Reply::Integer(1))
}

/// Puts what one key holds, its expiry included, under another key, in the place of `old`.
fn put_copy<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    source: &KeyRows,
    found: &Found,
    mut target: KeyRows,
    old: Option<&Found>,
) -> Result<(), Fault> {
    let expiry_ms = found.meta.expiry_ms;
    let old = old.map(|old| &old.meta);
    let Kind::Hash(fields) = &found.meta.kind else {
        return Ok(edit.put_string(&mut target, old, expiry_ms, &[found.value()])?);
    };
    if let Some(old) = old {
        edit.remove(&mut target, old)?;
    }
    let mut hash = HashEdit::new_in_bulk(edit, target);
    let mut from = source.fields_from(fields.generation).to_vec();
    loop {
        let chunk = field_rows(edit.rows, source, fields, &from)?;
        let Some((last, _)) = chunk.last() else { break };
        from.clone_from(last);
        from.push(0);
        for (row, bytes) in &chunk {
            let Some(RowKey { field: Some((_, field)), .. }) = RowKey::parse(row) else {
                return Err(StoreError::Damaged("a field row's key".into()).into());
            };
            let (head, value) = FieldHead::decode(bytes)?;
            hash.set(edit, field, value, None, head.expiry_ms);
        }
    }
    Ok(hash.finish_with_expiry(edit, expiry_ms)?)
}

type Row = (Vec<u8>, Vec<u8>);

/// The next few field rows of a hash from a row key on.
fn field_rows<R: RowsRead + ?Sized>(
    rows: &R,
    key: &KeyRows,
    fields: &Fields,
    from: &[u8],
) -> Result<Vec<Row>, StoreError> {
    let (mut chunk, mut chunk_bytes) = (Vec::new(), 0);
    rows.scan(from, &key.fields_to(fields.generation), &mut |row, bytes| {
        chunk_bytes += row.len() + bytes.len();
        chunk.push((row.to_vec(), bytes.to_vec()));
        let has_room = chunk.len() < CHUNK_ROWS && chunk_bytes < CHUNK_BYTES;
        if has_room { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(chunk)
}

/// Takes all keys away. Where they are few, it is noted of each that it was there, so that who
/// watches one that was not goes on; else of all.
pub(super) fn flush<W: RowsWrite + ?Sized>(edit: &mut Edit<'_, W>) -> Answer {
    let change = edit.change();
    let removals = match edit.context.is_bounded && edit.context.keys <= NOTED_KEYS_MAX {
        true => Some(removals(edit.rows, edit.context.now_ms, change)?),
        false => None,
    };
    edit.rows.delete_range(&key::rows_from(0), key::ROWS_END);
    edit.rows.delete_range(&key::expiry_from(0), key::EXPIRY_END);
    edit.rows.delete_range(key::TOMBSTONES_FROM, key::TOMBSTONES_END);
    edit.rows.touch(Touch::All);
    match removals {
        Some(removals) => {
            for (row, last) in removals {
                edit.rows.put(&row, &removal::encode(last));
            }
        }
        None => {
            edit.rows.delete_range(key::REMOVALS_FROM, key::REMOVALS_END);
            edit.rows.put(key::REMOVALS_FROM, &removal::encode(change));
        }
    }
    edit.context.keys = 0;
    edit.context.expires = 0;
    Ok(Reply::OK)
}

/// What is to be noted of the removal of all keys, by the row that it is noted in. One that has
/// expired was gone before.
fn removals<R: RowsRead + ?Sized>(
    rows: &R,
    now_ms: u64,
    change: u64,
) -> Result<BTreeMap<[u8; 3], u64>, StoreError> {
    let mut removals = BTreeMap::new();
    visit_stored_keys(rows, 0, &mut |row, meta| {
        let last = if is_live(rows, &KeyRows::new(row.key), meta, now_ms)? {
            change
        } else {
            removal::last(rows, row.key)?.max(meta.last_change)
        };
        let noted = removals.entry(key::removal(row.key)).or_insert(last);
        *noted = last.max(*noted);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(removals)
}
