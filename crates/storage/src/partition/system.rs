//! The rows that a replica keeps for itself, first byte 0x00, each with a format number:
//!
//! | key | value |
//! |---|---|
//! | 0x00 `A` | 1, log time: what the replica does goes by no earlier one, see [`FLOOR_KEY`] |
//! | 0x00 `D` | 1: changes of documents are noted; the node's own |
//! | 0x00 `F` | 1, or 2 while it is levelled, see [`Leader`]: the replica follows a leader's in another cluster |
//! | 0x00 `G` group (2, BE) | 1, LSN, chain hash (8), log time, the caller's note: the node's own, not the table's |
//! | 0x00 `K` lead id (8, BE) | as `L`: of this cluster's own leads, where `L` are the leader's |
//! | 0x00 `L` lead id (8, BE) | 1, epoch, last n, seen |
//! | 0x00 `N` table (8, BE), ordinal (4, BE) | empty: the node holds this replica |
//! | 0x00 `P` | 1, log incarnation (8), LSN, chain hash (8), log time, sequence, keys, expires, swept |
//! | 0x00 `S` session id (8, BE) | 1, last, floor, seen, then (number, kind, result) each |
//! | 0x00 `T` LSN (8, BE) | the touches of the record there, see `rows::touch`; the node's own |
//!
//! Numbers not sized here are varints; kinds are 0 ran (with length and bytes), 1 ran but not
//! kept, 2 fenced: stable.

use std::collections::VecDeque;

use bytes::{Buf, BufMut, Bytes};
use plimsoll_log::record::{RecordError, get_varint, put_varint};
use plimsoll_log::rules::carried::{LeaderPosition, Link};
use plimsoll_log::rules::chain::Position;
use plimsoll_log::rules::difference::{Levelling, Reached};
use plimsoll_log::rules::leads::LeadState;
use plimsoll_log::rules::sessions::{Outcome, SessionState};
use plimsoll_log::{GroupId, Incarnation, LeadId, Lsn, PartitionId, SessionId};

const FORMAT: u8 = 1;
/// Of the row of the leader, where a round of levelling is behind the rest.
const FORMAT_LEVELLING: u8 = 2;
const KIND_RAN: u8 = 0;
const KIND_RAN_UNKEPT: u8 = 1;
const KIND_FENCED: u8 = 2;

/// The key of the log time that a leader had when its following ended: clocks of clusters differ, and
/// what has expired must not come back. It goes once this cluster's log time has passed it.
pub(super) const FLOOR_KEY: &[u8] = b"\x00A";
/// The key of the note that changes of documents are noted.
pub(super) const DOCUMENTS_KEY: &[u8] = b"\x00D";
/// The key of the stamp.
pub(super) const STAMP_KEY: &[u8] = b"\x00P";
/// The key of what is known of the leader.
pub(super) const LEADER_KEY: &[u8] = b"\x00F";
/// Where the rows of this cluster's own leads begin, in a replica that follows.
pub(super) const OWN_LEADS_FROM: &[u8] = b"\x00K";
/// Where they end.
pub(super) const OWN_LEADS_TO: &[u8] = b"\x00L";
/// Where the rows of groups begin: positions that the node keeps beside a partition.
pub(super) const GROUPS_FROM: &[u8] = b"\x00G";
/// Where the rows of groups end.
pub(super) const GROUPS_TO: &[u8] = b"\x00H";
/// Where lead rows begin; they end before [`STAMP_KEY`].
pub(super) const LEADS_FROM: &[u8] = b"\x00L";
/// Where lead rows end.
pub(super) const LEADS_TO: &[u8] = b"\x00M";
/// Where session rows begin.
pub(super) const SESSIONS_FROM: &[u8] = b"\x00S";
/// Where session rows end.
pub(super) const SESSIONS_TO: &[u8] = b"\x00T";
/// Where the touches of records begin.
pub(super) const TOUCHES_FROM: &[u8] = b"\x00T";
/// Where the touches of records end.
pub(super) const TOUCHES_TO: &[u8] = b"\x00U";

/// Where the rows that are the node's own begin and end.
pub(super) const OF_THE_NODE: [[&[u8]; 2]; 4] = [
    [DOCUMENTS_KEY, b"\x00E"],
    [GROUPS_FROM, GROUPS_TO],
    [b"\x00N", b"\x00O"],
    [TOUCHES_FROM, TOUCHES_TO],
];

/// What of the log a replica contains, and what it has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The log that it was brought forward from.
    pub incarnation: Incarnation,
    /// How far.
    pub position: Position,
    /// Changes of rows so far: the sequence number of the last.
    pub sequence: u64,
    /// Keys, those expired but not swept included.
    pub keys: u64,
    /// Keys with an expiry.
    pub expires: u64,
    /// Log time when forgotten sessions and leads were last removed, ms.
    pub swept_ms: u64,
}

/// What a replica that follows knows of its leader. Its rows, counters, sessions and the leads of
/// [`LEADS_FROM`] are the leader's, at this position and by the leader's log time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The partition that is followed, by the leader's name of it.
    pub partition: PartitionId,
    /// What of the leader's log it contains.
    pub position: LeaderPosition,
    /// Log time of this cluster when leads of its own were last forgotten, ms.
    pub swept_ms: u64,
    /// While it is levelled with a snapshot of the leader's: rows before its key are of that, and the
    /// others of the position.
    pub levelling: Option<Levelling>,
}

impl Leader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![if self.levelling.is_some() { FORMAT_LEVELLING } else { FORMAT }];
        out.put_u64_le(self.partition.table);
        out.put_u32_le(self.partition.ordinal);
        out.put_u64_le(self.position.incarnation.0);
        put_link(&mut out, &self.position.link);
        put_varint(&mut out, self.swept_ms);
        if let Some(Levelling { round, to, sequence, cursor, reached }) = &self.levelling {
            put_varint(&mut out, *round);
            put_link(&mut out, to);
            put_varint(&mut out, *sequence);
            put_bytes(&mut out, cursor);
            if let Some(Reached { key, sequence }) = reached {
                put_bytes(&mut out, key);
                put_varint(&mut out, *sequence);
            }
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let is_levelled = bytes.first() == Some(&FORMAT_LEVELLING);
        let mut rest = if is_levelled { &bytes[1..] } else { body(bytes)? };
        let table = take_u64(&mut rest)?;
        if rest.remaining() < 4 {
            return Err(RecordError::Truncated);
        }
        let partition = PartitionId { table, ordinal: rest.get_u32_le() };
        let incarnation = Incarnation(take_u64(&mut rest)?);
        let position = LeaderPosition { incarnation, link: take_link(&mut rest)? };
        let swept_ms = get_varint(&mut rest)?;
        let levelling = if is_levelled { Some(take_levelling(&mut rest)?) } else { None };
        Ok(Self { partition, position, swept_ms, levelling })
    }
}

fn take_levelling(rest: &mut &[u8]) -> Result<Levelling, RecordError> {
    let (round, to) = (get_varint(rest)?, take_link(rest)?);
    let (sequence, cursor) = (get_varint(rest)?, take_bytes(rest)?);
    let reached = if rest.has_remaining() {
        let key = take_bytes(rest)?;
        Some(Reached { key, sequence: get_varint(rest)? })
    } else {
        None
    };
    Ok(Levelling { round, to, sequence, cursor, reached })
}

fn put_link(out: &mut Vec<u8>, link: &Link) {
    let Link { lsn, hash, log_time_ms } = *link;
    put_position(out, &Position { lsn, hash, log_time_ms });
}

fn take_link(rest: &mut &[u8]) -> Result<Link, RecordError> {
    let Position { lsn, hash, log_time_ms } = take_position(rest)?;
    Ok(Link { lsn, hash, log_time_ms })
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.put_slice(bytes);
}

fn take_bytes(rest: &mut &[u8]) -> Result<Bytes, RecordError> {
    let len = usize::try_from(get_varint(rest)?).unwrap_or(usize::MAX);
    let bytes = rest.split_off(..len).ok_or(RecordError::Truncated)?;
    Ok(Bytes::copy_from_slice(bytes))
}

pub(super) fn session_key(session: SessionId) -> [u8; 10] {
    id_key(b'S', session.0)
}

pub(super) fn lead_key(lead: LeadId) -> [u8; 10] {
    id_key(b'L', lead.0)
}

/// The key of one of this cluster's own leads, in a replica that follows.
pub(super) fn own_lead_key(lead: LeadId) -> [u8; 10] {
    id_key(b'K', lead.0)
}

pub(super) fn group_key(group: GroupId) -> [u8; 4] {
    let [high, low] = group.0.to_be_bytes();
    [0, b'G', high, low]
}

/// The group in a group's key.
pub(super) fn group_of(key: &[u8]) -> Option<GroupId> {
    Some(GroupId(u16::from_be_bytes(key.get(2..)?.try_into().ok()?)))
}

pub(super) fn encode_group(position: &Position, note: &[u8]) -> Vec<u8> {
    let mut out = vec![FORMAT];
    put_position(&mut out, position);
    out.put_slice(note);
    out
}

/// The position of a group's row, and what was noted with it.
pub(super) fn decode_group(bytes: &[u8]) -> Result<(Position, &[u8]), RecordError> {
    let mut rest = body(bytes)?;
    Ok((take_position(&mut rest)?, rest))
}

fn put_position(out: &mut Vec<u8>, position: &Position) {
    put_varint(out, position.lsn.0);
    out.put_u64_le(position.hash);
    put_varint(out, position.log_time_ms);
}

fn take_position(rest: &mut &[u8]) -> Result<Position, RecordError> {
    Ok(Position {
        lsn: Lsn(get_varint(rest)?),
        hash: take_u64(rest)?,
        log_time_ms: get_varint(rest)?,
    })
}

/// The key of the note that the node holds a replica.
pub(super) fn held_key(id: PartitionId) -> [u8; 14] {
    let mut key = [0; 14];
    key[1] = b'N';
    key[2..10].copy_from_slice(&id.table.to_be_bytes());
    key[10..].copy_from_slice(&id.ordinal.to_be_bytes());
    key
}

/// The key of the touches of the record at a position.
pub(super) fn touches_key(lsn: Lsn) -> [u8; 10] {
    id_key(b'T', lsn.0)
}

/// Whether a row is the node's own, and not the same on every replica.
pub(super) fn is_of_the_node(key: &[u8]) -> bool {
    OF_THE_NODE.iter().any(|[from, to]| *from <= key && key < *to)
}

/// Whether a row says where a replica stands, in its own log and in its leader's, rather than what it
/// contains: a leader and who follows it differ in these alone.
pub(super) fn is_of_the_place(key: &[u8]) -> bool {
    let is_own_lead = OWN_LEADS_FROM <= key && key < OWN_LEADS_TO;
    [STAMP_KEY, LEADER_KEY, FLOOR_KEY].contains(&key) || is_own_lead || is_of_the_node(key)
}

fn id_key(kind: u8, id: u64) -> [u8; 10] {
    let mut key = [0, kind, 0, 0, 0, 0, 0, 0, 0, 0];
    key[2..].copy_from_slice(&id.to_be_bytes());
    key
}

/// The id in a session's or a lead's key, or the LSN in that of touches.
pub(super) fn id_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(2..)?.try_into().ok()?))
}

impl Stamp {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.put_u64_le(self.incarnation.0);
        put_position(&mut out, &self.position);
        put_varint(&mut out, self.sequence);
        put_varint(&mut out, self.keys);
        put_varint(&mut out, self.expires);
        put_varint(&mut out, self.swept_ms);
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut rest = body(bytes)?;
        Ok(Self {
            incarnation: Incarnation(take_u64(&mut rest)?),
            position: take_position(&mut rest)?,
            sequence: get_varint(&mut rest)?,
            keys: get_varint(&mut rest)?,
            expires: get_varint(&mut rest)?,
            swept_ms: get_varint(&mut rest)?,
        })
    }
}

pub(super) fn encode_floor(log_time_ms: u64) -> Vec<u8> {
    let mut out = vec![FORMAT];
    put_varint(&mut out, log_time_ms);
    out
}

pub(super) fn decode_floor(bytes: &[u8]) -> Result<u64, RecordError> {
    get_varint(&mut body(bytes)?)
}

pub(super) fn encode_lead(state: &LeadState) -> Vec<u8> {
    let mut out = vec![FORMAT];
    put_varint(&mut out, u64::from(state.epoch));
    put_varint(&mut out, state.last);
    put_varint(&mut out, state.seen_ms);
    out
}

pub(super) fn decode_lead(bytes: &[u8]) -> Result<LeadState, RecordError> {
    let mut rest = body(bytes)?;
    let epoch = u32::try_from(get_varint(&mut rest)?);
    Ok(LeadState {
        epoch: epoch.map_err(|_| RecordError::Malformed("an epoch over 32 bits"))?,
        last: get_varint(&mut rest)?,
        seen_ms: get_varint(&mut rest)?,
    })
}

pub(super) fn encode_session(state: &SessionState) -> Vec<u8> {
    let mut out = vec![FORMAT];
    put_varint(&mut out, state.last);
    put_varint(&mut out, state.floor);
    put_varint(&mut out, state.seen_ms);
    for (number, outcome) in state.outcomes() {
        put_varint(&mut out, *number);
        match outcome {
            Outcome::Ran(result) => {
                out.put_u8(KIND_RAN);
                put_varint(&mut out, result.len() as u64);
                out.put_slice(result);
            }
            Outcome::RanUnkept => out.put_u8(KIND_RAN_UNKEPT),
            Outcome::Fenced => out.put_u8(KIND_FENCED),
        }
    }
    out
}

pub(super) fn decode_session(bytes: &[u8]) -> Result<SessionState, RecordError> {
    let mut rest = body(bytes)?;
    let last = get_varint(&mut rest)?;
    let floor = get_varint(&mut rest)?;
    let seen_ms = get_varint(&mut rest)?;
    let mut outcomes = VecDeque::new();
    while rest.has_remaining() {
        let number = get_varint(&mut rest)?;
        let kind = rest.first().copied().ok_or(RecordError::Truncated)?;
        rest.advance(1);
        let outcome = match kind {
            KIND_RAN => Outcome::Ran(take_bytes(&mut rest)?),
            KIND_RAN_UNKEPT => Outcome::RanUnkept,
            KIND_FENCED => Outcome::Fenced,
            _ => return Err(RecordError::Malformed("unknown kind of outcome")),
        };
        outcomes.push_back((number, outcome));
    }
    Ok(SessionState::from_parts(last, floor, seen_ms, outcomes))
}

fn body(bytes: &[u8]) -> Result<&[u8], RecordError> {
    match bytes.split_first() {
        Some((&FORMAT, rest)) => Ok(rest),
        Some((format, _)) => Err(RecordError::UnknownFormat(*format)),
        None => Err(RecordError::Truncated),
    }
}

fn take_u64(rest: &mut &[u8]) -> Result<u64, RecordError> {
    if rest.remaining() < 8 {
        return Err(RecordError::Truncated);
    }
    Ok(rest.get_u64_le())
}
