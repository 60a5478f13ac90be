//! Walks over keys and over the fields of a large hash, some at a time.
//!
//! A cursor over keys is the upper 52 bits of the order hash to go on from: nothing is
//! remembered, and a key that is there all the while is shown, as its place never changes. Keys
//! that share the 52 bits come together, so COUNT is a floor. Above the 52 bits a coordinator
//! may put what it needs; it is not looked at here.

use std::ops::ControlFlow;

use super::answer::{Answer, held_copy};
use super::context::ReadContext;
use super::cursors::{HashPlace, cursor_of};
use super::glob::Glob;
use super::hashes::visit_fields;
use super::random;
use super::store::{find_hash, is_live};
use crate::Reply;
use crate::command::read::Scan;
use crate::rows::key::{self, KeyRows, RowKey};
use crate::rows::meta::{Fields, Meta};
use crate::rows::{RowsRead, StoreError};

/// Bits of a cursor over keys.
const CURSOR_BITS: u32 = 52;
/// A hash of up to this many fields is shown whole, whatever COUNT says.
const WHOLE_FIELDS_MAX: u64 = 512;
/// After so many field rows of one hash the walk over keys leaps over the rest.
const LEAP_AFTER_ROWS: usize = 64;

/// Is shown a key and its meta row, and says whether to go on.
pub(super) type VisitKey<'a> =
    &'a mut dyn FnMut(&RowKey<'_>, &Meta) -> Result<ControlFlow<()>, StoreError>;

/// Shows the key, order hash and meta row of each key that is there, from an order hash on,
/// until told to stop.
pub(super) fn visit_keys<R: RowsRead + ?Sized>(
    rows: &R,
    from_hash: u64,
    now_ms: u64,
    visit: VisitKey<'_>,
) -> Result<(), StoreError> {
    visit_stored_keys(rows, from_hash, &mut |row, meta| match is_live(
        rows,
        &KeyRows::new(row.key),
        meta,
        now_ms,
    )? {
        true => visit(row, meta),
        false => Ok(ControlFlow::Continue(())),
    })
}

/// The same of every key that is stored, also of one that has expired.
pub(super) fn visit_stored_keys<R: RowsRead + ?Sized>(
    rows: &R,
    from_hash: u64,
    visit: VisitKey<'_>,
) -> Result<(), StoreError> {
    let mut from = key::rows_from(from_hash);
    loop {
        let (mut passed, mut leap, mut failed) = (0, None, None);
        rows.scan(&from, key::ROWS_END, &mut |row, value| {
            let Some(parsed) = RowKey::parse(row) else {
                failed = Some(StoreError::Damaged("a row's key".into()));
                return ControlFlow::Break(());
            };
            if parsed.field.is_some() {
                passed += 1;
                if passed < LEAP_AFTER_ROWS {
                    return ControlFlow::Continue(());
                }
                leap = Some(key::end_of(parsed.stem));
                return ControlFlow::Break(());
            }
            passed = 0;
            let shown = Meta::decode(value).and_then(|(meta, _)| visit(&parsed, &meta));
            shown.unwrap_or_else(|error| {
                failed = Some(error);
                ControlFlow::Break(())
            })
        })?;
        match (failed, leap) {
            (Some(error), _) => return Err(error),
            (None, Some(leap)) => from = leap,
            (None, None) => return Ok(()),
        }
    }
}

fn page(cursor: u64, items: Vec<Reply>) -> Reply {
    Reply::Array(vec![Reply::bulk(cursor.to_string()), Reply::Array(items)])
}

fn is_shown<R: RowsRead + ?Sized>(
    rows: &R,
    pattern: Option<&Glob>,
    name: &[u8],
) -> Result<bool, StoreError> {
    let Some(pattern) = pattern else { return Ok(true) };
    let (is_match, steps) = pattern.matches(name);
    rows.work(steps)?;
    Ok(is_match)
}

pub(super) fn keys<R: RowsRead + ?Sized>(rows: &R, scan: Scan<'_>, now_ms: u64) -> Answer {
    // A split's places are the same in every partition.
    let places = 1 << CURSOR_BITS;
    let cursor = scan.cursor & (places - 1);
    let from = scan.split.map_or(0, |split| split.from(places)).max(cursor);
    let to = scan.split.map_or(places, |split| split.to(places));
    if from >= to {
        return Ok(page(0, Vec::new()));
    }
    let from_hash = from << (u64::BITS - CURSOR_BITS);
    let pattern = scan.pattern.map(Glob::new).transpose()?;
    let (mut items, mut seen, mut last, mut next) = (Vec::new(), 0, None, 0);
    visit_keys(rows, from_hash, now_ms, &mut |row, meta| {
        let place = row.hash >> (u64::BITS - CURSOR_BITS);
        if place >= to {
            return Ok(ControlFlow::Break(()));
        }
        if seen >= scan.count && last != Some(place) {
            next = place;
            return Ok(ControlFlow::Break(()));
        }
        seen += 1;
        last = Some(place);
        let kind = meta.kind.name().as_bytes();
        if scan.kind.is_none_or(|wanted| wanted.eq_ignore_ascii_case(kind))
            && is_shown(rows, pattern.as_ref(), row.key)?
        {
            items.push(held_copy(rows, row.key)?);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(page(next, items))
}

pub(super) fn matching_keys<R: RowsRead + ?Sized>(rows: &R, pattern: &[u8], now_ms: u64) -> Answer {
    let pattern = Glob::new(pattern)?;
    let mut items = Vec::new();
    visit_keys(rows, 0, now_ms, &mut |row, _| {
        if is_shown(rows, Some(&pattern), row.key)? {
            items.push(held_copy(rows, row.key)?);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(Reply::Array(items))
}

/// The first key from a random place on. A key after a large gap is drawn more often.
pub(super) fn random_key<R: RowsRead + ?Sized>(rows: &R, context: &ReadContext<'_>) -> Answer {
    let mut seed = context.seed.get();
    let mut drawn = Reply::Nil;
    for from_hash in [random::next(&mut seed), 0] {
        visit_keys(rows, from_hash, context.now_ms, &mut |row, _| {
            drawn = held_copy(rows, row.key)?;
            Ok(ControlFlow::Break(()))
        })?;
        if drawn != Reply::Nil {
            break;
        }
    }
    Ok(drawn)
}

pub(super) fn fields<R: RowsRead + ?Sized>(
    rows: &R,
    name: &[u8],
    scan: Scan<'_>,
    context: &ReadContext<'_>,
) -> Answer {
    let pattern = scan.pattern.map(Glob::new).transpose()?;
    let mut key = KeyRows::new(name);
    let Some(hash) = find_hash(rows, &mut key, context.now_ms)? else {
        return Ok(page(0, Vec::new()));
    };
    let place = context.cursors.and_then(|cursors| cursors.get(scan.cursor, name));
    // A hash made anew since then holds nothing that was there from the start of the scan.
    if place.as_ref().is_some_and(|place| place.generation != hash.generation) {
        return Ok(page(0, Vec::new()));
    }
    let from = match (scan.cursor, place) {
        (0, _) => None,
        (_, Some(place)) => Some(place.field),
        (cursor, None) => find_place(rows, &key, &hash, cursor)?,
    };
    let is_whole = from.is_none() && hash.total <= WHOLE_FIELDS_MAX;
    let count = match context.cursors {
        Some(_) if !is_whole => scan.count,
        _ => usize::MAX,
    };
    let from = from.unwrap_or_default();
    let pattern = pattern.as_ref();
    let (items, next) = field_page(rows, &key, &hash, &from, pattern, count, context.now_ms)?;
    let cursor = match (next, context.cursors) {
        (Some(field), Some(cursors)) => {
            let place = HashPlace { key: name.to_vec(), generation: hash.generation, field };
            cursors.put(place)
        }
        _ => 0,
    };
    Ok(page(cursor, items))
}

/// The field that a scan goes on from whose cursor another node gave out, or this one has forgotten:
/// looks at the fields before it. `None` where it is gone: the scan then begins again, and shows all
/// that is there all the while, some of it twice.
fn find_place<R: RowsRead + ?Sized>(
    rows: &R,
    key: &KeyRows,
    hash: &Fields,
    cursor: u64,
) -> Result<Option<Vec<u8>>, StoreError> {
    let mut found = None;
    visit_fields(rows, key, hash, &[], 0, &mut |field, _| {
        if cursor_of(hash.generation, field) != cursor {
            return Ok(ControlFlow::Continue(()));
        }
        found = Some(field.to_vec());
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

/// Fields and values from a field on, after looking at `count`; and the field to go on from.
fn field_page<R: RowsRead + ?Sized>(
    rows: &R,
    key: &KeyRows,
    hash: &Fields,
    from: &[u8],
    pattern: Option<&Glob>,
    count: usize,
    now_ms: u64,
) -> Result<(Vec<Reply>, Option<Vec<u8>>), StoreError> {
    let (mut items, mut seen, mut next) = (Vec::new(), 0, None);
    visit_fields(rows, key, hash, from, now_ms, &mut |field, value| {
        if seen == count {
            next = Some(field.to_vec());
            return Ok(ControlFlow::Break(()));
        }
        seen += 1;
        if is_shown(rows, pattern, field)? {
            items.push(held_copy(rows, field)?);
            items.push(held_copy(rows, value)?);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((items, next))
}
