//! Takes away what has expired by log time, as the expiry index says it.

use std::ops::ControlFlow;

use super::context::WriteContext;
use super::copy;
use super::hash_edit::HashEdit;
use super::store::Edit;
use crate::rows::key::{self, KeyRows, RowKey, StoreKey};
use crate::rows::meta::{Found, Kind};
use crate::rows::swept;
use crate::rows::tombstone::Tombstone;
use crate::rows::{RowsRead, RowsWrite, StoreError};

/// Since when something is due that a sweep at this time would take away, ms since 1970; none where nothing
/// is.
///
/// # Errors
/// Where the store fails.
pub fn due_since<R: RowsRead + ?Sized>(rows: &R, now_ms: u64) -> Result<Option<u64>, StoreError> {
    let mut since_ms = None;
    rows.scan(&swept::due_from(rows)?, &key::expiry_after(now_ms), &mut |entry, _| {
        since_ms = key::parse_expiry(entry).map(|(expiry_ms, _)| expiry_ms).or(Some(0));
        ControlFlow::Break(())
    })?;
    Ok(since_ms)
}

/// Takes away keys and fields that have expired, the earliest first, up to `limit` entries of
/// the expiry index, or fewer where they take much. A hash without fields goes too. How far it came
/// is noted.
///
/// Returns how many keys and fields went, not counting the fields of keys that went. What was kept
/// of deleted documents goes too, and is not counted.
///
/// # Errors
/// Where the store fails: the rows are then half changed and must not be kept.
pub fn sweep<W: RowsWrite + ?Sized>(
    rows: &mut W,
    context: &mut WriteContext,
    limit: usize,
) -> Result<u64, StoreError> {
    let mut due: Vec<StoreKey> = Vec::new();
    let to = key::expiry_after(context.now_ms);
    let mut is_cut = false;
    rows.scan(&swept::due_from(rows)?, &to, &mut |entry, _| {
        is_cut = due.len() == limit || (!due.is_empty() && rows.is_pressed());
        if is_cut {
            return ControlFlow::Break(());
        }
        due.push(StoreKey::from_slice(entry));
        ControlFlow::Continue(())
    })?;
    let (mut removed, mut last) = (0, None);
    let mut edit = Edit::new(rows, context);
    for entry in due {
        if last.is_some() && edit.rows.is_pressed() {
            is_cut = true;
            break;
        }
        removed += take(&mut edit, &entry)?;
        last = Some(entry);
    }
    let next = match (is_cut, last) {
        (false, _) => to,
        (true, Some(mut last)) => {
            last.push(0);
            last
        }
        (true, None) => return Ok(removed),
    };
    if edit.context.is_bounded {
        edit.rows.put(key::SWEPT, &swept::encode(&next));
    }
    Ok(removed)
}

/// Takes away what an entry of the expiry index names; the entry in any case, so that one that
/// nothing stands behind does not stay in the way.
fn take<W: RowsWrite + ?Sized>(edit: &mut Edit<'_, W>, entry: &[u8]) -> Result<u64, StoreError> {
    let expiry = key::parse_expiry(entry);
    if let Some((expiry_ms, row)) = expiry
        && row.starts_with(key::TOMBSTONES_FROM)
        && let Some(found) = edit.rows.get(row)?
        && Tombstone::decode(&found)?.expiry_ms == expiry_ms
    {
        edit.rows.delete(row);
    }
    let parsed = expiry.and_then(|(expiry_ms, row)| Some((expiry_ms, RowKey::parse(row)?)));
    let mut removed = 0;
    if let Some((expiry_ms, row)) = parsed {
        copy::sweep_unfinished(edit, &row)?;
        let mut key = KeyRows::new(row.key);
        if let Some(meta) = edit.rows.get(key.meta())? {
            let meta = Found::new(meta)?.meta;
            match (row.field, meta.kind) {
                (None, _) if meta.expiry_ms == Some(expiry_ms) => {
                    edit.remove(&mut key, &meta)?;
                    removed = 1;
                }
                (Some((generation, field)), Kind::Hash(fields))
                    if generation == fields.generation =>
                {
                    let mut hash = HashEdit::of(key, meta, fields);
                    if let Some(found) = hash.get(edit, field)?
                        && found.head.expiry_ms == Some(expiry_ms)
                    {
                        hash.delete(edit, field, &found.head);
                        hash.finish(edit)?;
                        removed = 1;
                    }
                }
                _ => {}
            }
        }
    }
    edit.rows.delete(entry);
    Ok(removed)
}
