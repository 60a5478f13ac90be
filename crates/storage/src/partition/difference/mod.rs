//! Levelling a replica that follows with a snapshot of its leader's, where the log between the two is
//! gone ([`plimsoll_log::rules::difference`] says how it comes through the follower's own log).
//!
//! What is compared is all that makes up the contents: leads, sessions, and every row behind them. The
//! leader sends the rows whose sequence is newer than the follower's in full; of all others it says
//! count and hash alone. So nothing rests on sequences: where a row went, or changed without one, the
//! hash differs, and what differs is found by the hashes of single rows. In the end both are equal
//! because they were compared.
//!
//! - `range.rs`: what a leader says of a range of its rows. It may be asked by anybody who has a key:
//!   how much it reads and says is bounded.
//! - `compare.rs`: what is to be changed here for it.
//! - this file: which rows are compared and how, and what apply does with the changes.
//!
//! Hashes have a seed that the follower draws, so that nobody can make two rows beforehand that are
//! taken for the same.

mod compare;
mod range;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use bytes::Bytes;
use plimsoll_log::record::RecordError;
use plimsoll_log::rules::difference::{Change, Counters, Difference, End};
use plimsoll_log::{LeadId, SessionId};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64_with_seed};

use super::application::Application;
use super::effect::ApplyError;
use super::system::{self, Leader};
use crate::rows::field::FieldHead;
use crate::rows::key::{self, RowKey, StoreKey};
use crate::rows::meta::{Kind, Meta};
use crate::rows::tombstone::Tombstone;
use crate::rows::touch::Touch;
use crate::rows::{RowsRead, RowsWrite, StoreError, Visit, removal};

pub use compare::{CHANGES_BYTES_MAX, Compared, Comparison};
pub use range::{
    HASHES_MAX, Limits, PIECE_BYTES_MAX, Range, RangeError, Rest, Rows, Span, hashes, range, rows,
};

/// The ranges of keys that contents lie in, in order. Between them are a replica's own rows.
const CONTENTS: [[&[u8]; 2]; 3] = [
    [system::LEADS_FROM, system::LEADS_TO],
    [system::SESSIONS_FROM, system::SESSIONS_TO],
    [&[key::KIND_ROW], &[0xff]],
];

/// Whether a row is one of those that are compared.
fn is_content(key: &[u8]) -> bool {
    CONTENTS.iter().any(|[from, to]| *from <= key && key < *to)
}

/// Shows every row of the contents in `[from, to)`, in the order of keys, until told to stop.
fn scan<R: RowsRead + ?Sized>(
    rows: &R,
    from: &[u8],
    to: Option<&[u8]>,
    visit: Visit<'_>,
) -> Result<(), StoreError> {
    let mut is_over = false;
    for [first, end] in CONTENTS {
        let from = from.max(first);
        let end = to.map_or(end, |to| to.min(end));
        if is_over || from >= end {
            continue;
        }
        rows.scan(from, end, &mut |key, value| {
            let flow = visit(key, value);
            is_over = flow.is_break();
            flow
        })?;
    }
    Ok(())
}

/// The shortest key that parts two neighbours: behind the one, and not behind the other.
fn boundary(last: &[u8], next: &[u8]) -> Bytes {
    let same = last.iter().zip(next).take_while(|(one, other)| one == other).count();
    Bytes::copy_from_slice(&next[..next.len().min(same + 1)])
}

/// What a row is known by.
fn hash_of(key: &[u8], value: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(value, xxh3_64_with_seed(key, seed))
}

/// Rows that are compared by count and hash.
#[derive(Default)]
struct RestHash {
    count: u64,
    hash: Xxh3Default,
}

impl RestHash {
    fn add(&mut self, row: u64) {
        self.count += 1;
        self.hash.update(&row.to_le_bytes());
    }

    fn finish(&self) -> Rest {
        Rest { count: self.count, hash: self.hash.digest() }
    }
}

/// The leader's sequence at a row's last change; `None` where the row does not say.
fn sequence_of(key: &[u8], value: &[u8]) -> Result<Option<u64>, StoreError> {
    Ok(match key.first() {
        Some(&key::KIND_ROW) => Some(match row_of(key)?.field {
            None => Meta::decode(value)?.0.last_change,
            Some(_) => FieldHead::decode(value)?.0.sequence,
        }),
        Some(&key::KIND_TOMBSTONE) => Some(Tombstone::decode(value)?.sequence),
        Some(&key::KIND_REMOVAL) => Some(removal::decode(value)?),
        _ => None,
    })
}

/// When a row of a key or a field expires.
fn expiry_of(key: &[u8], value: &[u8]) -> Result<Option<u64>, StoreError> {
    Ok(match row_of(key)?.field {
        None => Meta::decode(value)?.0.expiry_ms,
        Some(_) => FieldHead::decode(value)?.0.expiry_ms,
    })
}

fn row_of(key: &[u8]) -> Result<RowKey<'_>, StoreError> {
    RowKey::parse(key).ok_or_else(|| StoreError::Damaged("the key of a row".into()))
}

/// Whether a row that came from a leader is one that can be read here.
fn check(key: &[u8], value: &[u8]) -> Result<(), StoreError> {
    let damaged = |what: &str| Err(StoreError::Damaged(what.to_owned()));
    let unreadable = |_: RecordError| StoreError::Damaged("a session or lead".to_owned());
    match key {
        _ if !is_content(key) => damaged("a row that is no content"),
        [0, b'S', ..] if system::id_of(key).is_some() => {
            system::decode_session(value).map(drop).map_err(unreadable)
        }
        [0, ..] if system::id_of(key).is_some() => {
            system::decode_lead(value).map(drop).map_err(unreadable)
        }
        [0, ..] => damaged("a session or lead"),
        // What no version here has written is compared and kept, and read by nobody.
        [key::KIND_EXPIRY, _, ..] if key::parse_expiry(key).is_none() => {
            damaged("an entry of the expiry index")
        }
        _ => sequence_of(key, value).map(drop),
    }
}

/// Carries out a difference, where the replica stands where it was worked out.
///
/// # Errors
/// Where it changes what is no content: whoever appended it has looked at that.
pub(super) fn level(
    application: &mut Application<'_>,
    leader: &mut Leader,
    difference: &Difference,
    changes: &[Change],
) -> Result<(), ApplyError> {
    if !difference.admits(&leader.position, leader.levelling.as_ref()) {
        return Ok(());
    }
    for Change { key, value } in changes {
        if !is_content(key) {
            let error = RecordError::Malformed("it changes what is no content");
            return Err(ApplyError::Unreadable("a difference", error));
        }
        match key[..] {
            [0, ..] => change_state(application, key, value.as_deref())?,
            [key::KIND_ROW, ..] => note_change(application, key, value.as_deref())?,
            _ => {}
        }
        match value {
            Some(value) => application.overlay.put_owned(key, value.to_vec()),
            None => application.overlay.delete(key),
        }
    }
    application.overlay.note_mapping(difference.mapping_version);
    if let End::Last(counters) = difference.end {
        let Counters { sequence, keys, expires, swept_ms } = counters;
        let stamp = &mut application.stamp;
        (stamp.sequence, stamp.keys) = (sequence, keys);
        (stamp.expires, stamp.swept_ms) = (expires, swept_ms);
    }
    (leader.position, leader.levelling) = difference.outcome(leader.levelling.as_ref());
    Ok(())
}

/// Leads and sessions are known beside their rows.
fn change_state(
    application: &mut Application<'_>,
    key: &[u8],
    value: Option<&[u8]>,
) -> Result<(), ApplyError> {
    let unreadable = |error| ApplyError::Unreadable("a session or lead of a difference", error);
    let id = system::id_of(key).ok_or(RecordError::Malformed("a key without an id"));
    let id = id.map_err(unreadable)?;
    if key.starts_with(system::SESSIONS_FROM) {
        let state = value.map(system::decode_session).transpose().map_err(unreadable)?;
        application.sessions.set(SessionId(id), state);
    } else {
        let state = value.map(system::decode_lead).transpose().map_err(unreadable)?;
        application.leads.set(LeadId(id), state);
    }
    Ok(())
}

/// Counts keys as they are, and has an index follow.
fn note_change(
    application: &mut Application<'_>,
    key: &[u8],
    value: Option<&[u8]>,
) -> Result<(), ApplyError> {
    let row = row_of(key)?;
    if let Some((_, id)) = row.field {
        application.overlay.touch(Touch::Document { key: row.key, id, is_new: false });
        return Ok(());
    }
    let before = application.overlay.get(key)?;
    let meta = |row: &[u8]| Meta::decode(row).map(|(meta, _)| meta);
    let before = before.as_deref().map(meta).transpose()?;
    let now = value.map(meta).transpose()?;
    let stamp = &mut application.stamp;
    let expires = |meta: &Option<Meta>| u64::from(meta.is_some_and(|it| it.expiry_ms.is_some()));
    stamp.keys =
        (stamp.keys + u64::from(now.is_some())).saturating_sub(u64::from(before.is_some()));
    stamp.expires = (stamp.expires + expires(&now)).saturating_sub(expires(&before));
    let fields = |meta: &Option<Meta>| match meta {
        Some(Meta { kind: Kind::Hash(fields), expiry_ms, .. }) => {
            Some((fields.generation, *expiry_ms))
        }
        _ => None,
    };
    // Of a hash that stays, each field that changed is a row of its own.
    let is_same_hash = fields(&before).is_some() && fields(&before) == fields(&now);
    if !is_same_hash {
        application.overlay.touch(Touch::Key(row.key));
    }
    Ok(())
}

/// The entry of the expiry index of a row, where it has one.
fn entry_of(key: &[u8], value: &[u8]) -> Result<Option<StoreKey>, StoreError> {
    Ok(expiry_of(key, value)?.map(|expiry_ms| key::expiry_entry(expiry_ms, key)))
}

/// Stops a walk.
const BREAK: ControlFlow<()> = ControlFlow::Break(());
/// Has it go on.
const NEXT: ControlFlow<()> = ControlFlow::Continue(());
