//! What the steps of a large hash's copy do ([`crate::operation::HashCopy`]). Until its end nobody
//! sees anything of it: no meta row names its generation. What a copy leaves behind that never ends
//! is found by sweeps, through one entry of the expiry index.

use std::ops::ControlFlow;

use super::context::WriteContext;
use super::hashes::visit_fields;
use super::store::{Edit, find};
use crate::Reply;
use crate::operation::copy::{COPY_GENERATIONS_FROM, CopyEnd, CopyStep, HashCopy};
use crate::rows::field::FieldHead;
use crate::rows::key::{self, KeyRows, RowKey};
use crate::rows::meta::{Fields, Found, Kind, Meta, RowBytes};
use crate::rows::touch::Touch;
use crate::rows::{RowsRead, RowsWrite, StoreError};

/// A hash of fewer fields is copied at once.
const LARGE_FIELDS: u64 = 4096;
/// A slice ends beyond so many bytes.
const SLICE_BYTES: usize = 1 << 20;

/// The last change of a hash that is to be copied in slices; `None` where a key holds none: what is
/// small, or has fields that expire, is copied at once.
///
/// # Errors
/// Where the store fails.
pub fn large_hash<R: RowsRead + ?Sized>(
    rows: &R,
    key: &[u8],
    now_ms: u64,
) -> Result<Option<u64>, StoreError> {
    let found = find(rows, &mut KeyRows::new(key), now_ms)?;
    Ok(found.and_then(|found| match found.meta.kind {
        Kind::Hash(fields) if fields.total > LARGE_FIELDS && fields.expiring == 0 => {
            Some(found.meta.last_change)
        }
        _ => None,
    }))
}

/// Whether a key is there.
///
/// # Errors
/// Where the store fails.
pub fn is_there<R: RowsRead + ?Sized>(
    rows: &R,
    key: &[u8],
    now_ms: u64,
) -> Result<bool, StoreError> {
    Ok(find(rows, &mut KeyRows::new(key), now_ms)?.is_some())
}

/// Carries out a step of a copy.
///
/// # Errors
/// Where the store fails: the rows are then half changed and must not be kept.
pub fn copy_hash<W: RowsWrite + ?Sized>(
    copy: &HashCopy,
    rows: &mut W,
    context: &mut WriteContext,
) -> Result<Reply, StoreError> {
    let mut edit = Edit::new(rows, context);
    let mut target = KeyRows::new(&copy.to);
    if copy.step == CopyStep::Drop {
        remove_unfinished(&mut edit, &mut target, copy.generation)?;
        let marker = key::expiry_entry(copy.until_ms, target.field(copy.generation, b""));
        edit.rows.delete(&marker);
        return Ok(Reply::OK);
    }
    let now_ms = edit.context.now_ms;
    let mut source = KeyRows::new(&copy.from);
    let Some(found) = find(&*edit.rows, &mut source, now_ms)? else { return Ok(Reply::Nil) };
    let Kind::Hash(fields) = found.meta.kind else { return Ok(Reply::Nil) };
    let is_same = found.meta.last_change == copy.last_change && fields.expiring == 0;
    if !is_same || copy.until_ms <= now_ms || copy.from == copy.to {
        return Ok(Reply::Nil);
    }
    let marker = key::expiry_entry(copy.until_ms, target.field(copy.generation, b""));
    let is_first = matches!(copy.step, CopyStep::Slice { after: None, .. });
    // A step that the log brings after the copy was given up would find nothing of it.
    if !is_first && edit.rows.get(&marker)?.is_none() {
        return Ok(Reply::Nil);
    }
    match &copy.step {
        CopyStep::Slice { after, fields: limit } => {
            if is_first {
                edit.rows.put(&marker, &[]);
            }
            let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
            let start = after.as_ref().map(|after| [after, &[0][..]].concat()).unwrap_or_default();
            slice(&mut edit, (&source, &fields), &start, limit, (&mut target, copy.generation))
        }
        CopyStep::End(how) => end(&mut edit, copy, *how, (source, &found, &fields), target),
        CopyStep::Drop => Ok(Reply::OK),
    }
}

/// Copies fields from one on.
fn slice<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    (source, fields): (&KeyRows, &Fields),
    start: &[u8],
    limit: usize,
    (target, generation): (&mut KeyRows, u64),
) -> Result<Reply, StoreError> {
    let (mut chunk, mut bytes) = (Vec::new(), 0);
    let mut is_cut = false;
    visit_fields(&*edit.rows, source, fields, start, 0, &mut |field, value| {
        is_cut = !chunk.is_empty() && (chunk.len() >= limit || bytes >= SLICE_BYTES);
        if is_cut {
            return Ok(ControlFlow::Break(()));
        }
        bytes += field.len() + value.len();
        chunk.push((field.to_vec(), value.to_vec()));
        Ok(ControlFlow::Continue(()))
    })?;
    for (field, value) in &chunk {
        let head = FieldHead { version: 1, sequence: edit.change(), expiry_ms: None };
        let mut head_bytes = RowBytes::new();
        head.encode(&mut head_bytes);
        edit.rows.put_parts(target.field(generation, field), &[&head_bytes, value]);
    }
    Ok(match chunk.pop() {
        Some((last, _)) if is_cut => Reply::bulk(last),
        _ => Reply::OK,
    })
}

/// Gives what was copied to the target.
fn end<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    copy: &HashCopy,
    how: CopyEnd,
    (mut source, found, fields): (KeyRows, &Found, &Fields),
    mut target: KeyRows,
) -> Result<Reply, StoreError> {
    let old = edit.open(&mut target)?;
    if old.is_some() && how.absent {
        return Ok(Reply::Integer(0));
    }
    if let Some(old) = old {
        edit.remove(&mut target, &old.meta)?;
    }
    let marker = key::expiry_entry(copy.until_ms, target.field(copy.generation, b""));
    edit.rows.delete(&marker);
    edit.rows.touch(Touch::Key(target.key()));
    let kind = Kind::Hash(Fields {
        generation: copy.generation,
        total: fields.total,
        ..Fields::default()
    });
    let expiry_ms = found.meta.expiry_ms;
    let meta = Meta { kind, last_change: edit.change(), version: 0, expiry_ms };
    edit.put_hash(&mut target, None, &meta);
    if how.renames {
        edit.remove(&mut source, &found.meta)?;
    }
    Ok(if how.number { Reply::Integer(1) } else { Reply::OK })
}

/// Takes away what an entry of the expiry index says that a copy left behind.
pub(super) fn sweep_unfinished<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    row: &RowKey<'_>,
) -> Result<(), StoreError> {
    match row.field {
        Some((generation, b"")) if generation >= COPY_GENERATIONS_FROM => {
            remove_unfinished(edit, &mut KeyRows::new(row.key), generation)
        }
        _ => Ok(()),
    }
}

/// Removes the fields of a generation, unless a key has them.
fn remove_unfinished<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    target: &mut KeyRows,
    generation: u64,
) -> Result<(), StoreError> {
    let held = edit.rows.get(target.meta())?.map(Found::new).transpose()?;
    let is_held = held.is_some_and(
        |found| matches!(found.meta.kind, Kind::Hash(fields) if fields.generation == generation),
    );
    if !is_held {
        edit.rows.delete_range(&target.fields_from(generation), &target.fields_to(generation));
    }
    Ok(())
}
