//! Walks over a range of a hash's fields, and what is done on them: fields shown, fields taken away.
//! How a range is written is [`crate::command::range`]'s.
//!
//! A walk looks at so many rows and bytes at most, whatever it finds: an answer says where to go on.
//! It is then the first field that was not shown or taken away, or one before that; where nothing is
//! left, nothing.
//!
//! Backwards, and in a transaction, a walk first gathers the whole range, which counts as work and as
//! memory: what is too much for that is refused.

use std::ops::ControlFlow;

use super::answer::{Answer, Fault, held, held_copy};
use super::glob::Glob;
use super::hash_edit::HashEdit;
use super::store::{Edit, find_hash};
use crate::Reply;
use crate::command::range::{End, FieldRange, Filter, RangePage};
use crate::rows::field::FieldHead;
use crate::rows::key::{KeyRows, RowKey, StoreKey};
use crate::rows::meta::Fields;
use crate::rows::{ANSWER_BYTES, REPLY_BYTES, RowsRead, RowsWrite, StoreError};

/// Rows that one walk looks at, at most.
pub(super) const LOOKED_ROWS_MAX: usize = 65_536;
/// Bytes of rows after which a walk ends.
const LOOKED_BYTES_MAX: usize = 64 << 20;

/// Fields that one command takes away at most, and the bytes of their rows' keys: what that writes, twice
/// where fields expire, is less than what an operation may take.
pub(super) const DELETED_ROWS_MAX: usize = 16_384;
const DELETED_BYTES_MAX: usize = 8 << 20;

/// The rows of a range: from the first, and up to the second without it.
fn bounds(key: &KeyRows, fields: &Fields, range: &FieldRange<'_>) -> Option<(StoreKey, StoreKey)> {
    let first = key.fields_from(fields.generation);
    let from = (range.from, range.is_from_excluded);
    let to = (range.to, range.is_to_excluded);
    let (low, high) = if range.is_reversed { (to, from) } else { (from, to) };
    let row_of = |field: &[u8], is_after: bool| {
        let mut row = first.clone();
        row.extend_from_slice(field);
        if is_after {
            // The next one that there may be.
            row.push(0);
        }
        row
    };
    let mut low = match low {
        (End::Lowest, _) => first.clone(),
        (End::Field(field), is_excluded) => row_of(field, is_excluded),
        (End::Highest, _) => return None,
    };
    let mut high = match high {
        (End::Lowest, _) => return None,
        (End::Field(field), is_excluded) => row_of(field, !is_excluded),
        (End::Highest, _) => key.fields_to(fields.generation),
    };
    if let Filter::Prefix(prefix) = range.filter {
        let begin = row_of(prefix, false);
        // Bytes of the generation follow those of the prefix: there is always a next one.
        high = high.min(next_of(&begin));
        low = low.max(begin);
    }
    (low < high).then_some((low, high))
}

/// The first key after all that begin with these bytes.
fn next_of(begin: &[u8]) -> StoreKey {
    let mut next = StoreKey::from_slice(begin);
    while let Some(last) = next.pop() {
        if let Some(raised) = last.checked_add(1) {
            next.push(raised);
            break;
        }
    }
    next
}

/// Is shown the row's key, the head and the value of a field; [`ControlFlow::Break`] says that it is
/// one too many.
type Take<'a> =
    &'a mut dyn FnMut(&[u8], &[u8], &FieldHead, &[u8]) -> Result<ControlFlow<()>, StoreError>;

/// One walk.
struct Walk<'a, R: ?Sized> {
    rows: &'a R,
    pattern: Option<Glob>,
    suffix: &'a [u8],
    now_ms: u64,
    looked_rows: usize,
    looked_bytes: usize,
    /// The field to go on from.
    next: Option<Vec<u8>>,
}

impl<R: RowsRead + ?Sized> Walk<'_, R> {
    fn is_over(&self) -> bool {
        self.looked_rows >= LOOKED_ROWS_MAX
            || self.looked_bytes >= LOOKED_BYTES_MAX
            || (self.looked_rows > 0 && self.rows.is_pressed())
    }

    fn is_meant(&mut self, field: &[u8]) -> Result<bool, StoreError> {
        let Some(pattern) = &self.pattern else { return Ok(field.ends_with(self.suffix)) };
        let (is_match, steps) = pattern.matches(field);
        self.rows.work(steps)?;
        // A pattern may take much longer than its text.
        self.looked_bytes =
            self.looked_bytes.saturating_add(usize::try_from(steps).unwrap_or(usize::MAX));
        Ok(is_match)
    }

    fn visit(
        &mut self,
        row: &[u8],
        bytes: &[u8],
        take: Take<'_>,
    ) -> Result<ControlFlow<()>, StoreError> {
        let Some(RowKey { field: Some((_, field)), .. }) = RowKey::parse(row) else {
            return Err(StoreError::Damaged("a field row's key".into()));
        };
        let is_over = self.is_over();
        self.looked_rows += 1;
        self.looked_bytes += row.len() + bytes.len();
        if !is_over {
            let (head, value) = FieldHead::decode(bytes)?;
            if !head.is_live(self.now_ms) || !self.is_meant(field)? {
                return Ok(ControlFlow::Continue(()));
            }
            if take(row, field, &head, value)?.is_continue() {
                return Ok(ControlFlow::Continue(()));
            }
        }
        self.next = Some(End::name(field));
        Ok(ControlFlow::Break(()))
    }
}

/// Shows the fields of a range that are there and meant, until one is too many. Says where to go on.
fn walk<R: RowsRead + ?Sized>(
    rows: &R,
    key: &KeyRows,
    fields: &Fields,
    range: &FieldRange<'_>,
    now_ms: u64,
    take: Take<'_>,
) -> Result<Option<Vec<u8>>, Fault> {
    let pattern = match range.filter {
        Filter::Match(pattern) => Some(Glob::new(pattern)?),
        _ => None,
    };
    let suffix = if let Filter::Suffix(suffix) = range.filter { suffix } else { &[] };
    let Some((low, high)) = bounds(key, fields, range) else { return Ok(None) };
    let (looked_rows, looked_bytes, next) = (0, 0, None);
    let mut walk = Walk { rows, pattern, suffix, now_ms, looked_rows, looked_bytes, next };
    let mut failed = Ok(());
    let mut visit = |row: &[u8], bytes: &[u8]| {
        walk.visit(row, bytes, take).unwrap_or_else(|error| {
            failed = Err(error);
            ControlFlow::Break(())
        })
    };
    if range.is_reversed {
        rows.scan_back(&low, &high, &mut visit)?;
    } else {
        rows.scan(&low, &high, &mut visit)?;
    }
    failed?;
    Ok(walk.next)
}

/// Where to go on, as a part of an answer.
fn next_reply<R: RowsRead + ?Sized>(rows: &R, next: Option<Vec<u8>>) -> Result<Reply, StoreError> {
    match next {
        Some(field) => held(rows, field.into()),
        None => rows.hold(REPLY_BYTES).map(|()| Reply::Nil),
    }
}

pub(super) fn page<R: RowsRead + ?Sized>(rows: &R, page: &RangePage<'_>, now_ms: u64) -> Answer {
    let mut key = KeyRows::new(page.key);
    let (mut items, mut next) = (Vec::new(), None);
    if let Some(fields) = find_hash(rows, &mut key, now_ms)? {
        let count_max = page.range.count.unwrap_or(usize::MAX);
        let (mut count, mut bytes) = (0, 0usize);
        next = walk(rows, &key, &fields, &page.range, now_ms, &mut |_, field, _, value| {
            let value = page.values.then_some(value);
            bytes = bytes.saturating_add(field.len() + value.map_or(0, <[u8]>::len));
            if count == count_max || (count > 0 && bytes > page.bytes) {
                return Ok(ControlFlow::Break(()));
            }
            count += 1;
            items.push(held_copy(rows, field)?);
            if let Some(value) = value {
                items.push(held_copy(rows, value)?);
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(Reply::Array(vec![next_reply(rows, next)?, Reply::Array(items)]))
}

pub(super) fn delete<W: RowsWrite + ?Sized>(
    edit: &mut Edit<'_, W>,
    name: &[u8],
    range: &FieldRange<'_>,
) -> Answer {
    let (mut removed, mut next) = (0, None);
    if let Some(mut hash) = HashEdit::open(edit, name)? {
        let rows = &*edit.rows;
        let count_max = range.count.map_or(DELETED_ROWS_MAX, |count| count.min(DELETED_ROWS_MAX));
        let (key, now_ms) = (KeyRows::new(name), edit.context.now_ms);
        let (mut doomed, mut bytes) = (Vec::new(), 0);
        next = walk(rows, &key, &hash.fields, range, now_ms, &mut |row, field, head, _| {
            bytes += row.len();
            if doomed.len() == count_max || (!doomed.is_empty() && bytes > DELETED_BYTES_MAX) {
                return Ok(ControlFlow::Break(()));
            }
            rows.hold(field.len() + ANSWER_BYTES)?;
            doomed.push((field.to_vec(), *head));
            Ok(ControlFlow::Continue(()))
        })?;
        for (field, head) in &doomed {
            // Others of the record may have left little: so much is done, and said.
            if removed > 0 && edit.rows.is_pressed() {
                next = Some(End::name(field));
                break;
            }
            hash.delete(edit, field, head);
            removed += 1;
        }
        hash.finish(edit)?;
    }
    Ok(Reply::Array(vec![Reply::Integer(removed), next_reply(edit.rows, next)?]))
}
