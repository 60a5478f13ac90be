//! The bytes of a record, and nothing of what they mean.
//!
//! | field | bytes |
//! |---|---|
//! | format: 2, or 1 without the next field | 1 |
//! | version of the cluster | 4 |
//! | partition: table incarnation, ordinal | 8, 4 |
//! | lead: id, epoch, n | 8, 4, 8 |
//! | stamp, ms since 1970 by the lead's clock | 8 |
//! | anchor: log incarnation, LSN, chain hash | 8, 8, 8 |
//! | number of items | varint |
//! | each item: kind 0 (operations): session 8, first number, acked, stamp, count, then each payload with its length | varints |
//! | each item: kind 1 (fence): session 8, number, stamp | varints |
//! | each item: kind 2 (carried): leader's log incarnation 8, links where it begins and ends, count, then each record with its link and length | varints |
//! | each item: kind 3 (difference): leader's log incarnation 8, flags 1, the replica's link, round and key, the snapshot's link and sequence, mapping version, where it ends, count, then each change: kind 1, key with its length, value with its length where the kind is 1 | varints |
//! | flags: 1 where a round begins, 2 where it is over; it ends at a key with its length, or with sequence, keys, expires and swept | varints |
//! | each link: LSN, chain hash 8, log time | varints |
//! | checksum: XXH3-64 of all before it | 8 |
//!
//! Integers are little-endian, varints LEB128. The format number is stable: a change of
//! meaning takes the next one.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use xxhash_rust::xxh3::xxh3_64;

pub use crate::rules::chain::Anchor;

use crate::rules::carried::batch::{Batch, Link};
use crate::rules::difference::{BOUNDARY_BYTES_MAX, Change, Counters, Difference, End, Standing};
use crate::{Incarnation, LeadId, Lsn, PartitionId, SessionId};

/// The cluster's version since which items may be of kinds 2 and 3.
pub const CARRIED_SINCE: u32 = 3;
/// What a carried item takes at most beside its records and what each of them takes.
pub const CARRIED_ITEM_BYTES: usize = 1 + 8 + 2 * LINK_BYTES + 10;
/// What a carried record takes at most beside its own bytes.
pub const CARRIED_RECORD_BYTES: usize = LINK_BYTES + 4;
/// What a difference takes at most beside its changes.
pub const DIFFERENCE_ITEM_BYTES: usize =
    1 + 8 + 1 + 2 * LINK_BYTES + 2 * (3 + BOUNDARY_BYTES_MAX) + 7 * 10 + 10;
/// What a change of it takes at most beside its key and value.
pub const DIFFERENCE_CHANGE_BYTES: usize = 1 + 4 + 4;
/// A link at most, and at least with the length behind it.
const LINK_BYTES: usize = 10 + 8 + 10;
const LINK_BYTES_MIN: u64 = 1 + 8 + 1 + 1;

const FORMAT: u8 = 2;
/// The one of clusters of version 1, in which it is not said.
const FORMAT_UNVERSIONED: u8 = 1;
const KIND_OPERATIONS: u8 = 0;
const KIND_FENCE: u8 = 1;
const KIND_CARRIED: u8 = 2;
const KIND_DIFFERENCE: u8 = 3;
const FLAG_BEGINS: u8 = 1;
const FLAG_LAST: u8 = 2;
const CHANGE_DELETES: u8 = 0;
const CHANGE_PUTS: u8 = 1;
/// Fixed fields before the items.
const HEADER_BYTES: usize = 1 + 12 + 20 + 8 + 24;
const CHECKSUM_BYTES: usize = 8;

/// Where a record stands in its lead's sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LeadStamp {
    /// The lead's session.
    pub lead: LeadId,
    /// Raised by the lead when it gives up a sequence.
    pub epoch: u32,
    /// 1 for the epoch's first record, then one more each.
    pub n: u64,
}

/// One entry of a record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Item {
    /// Consecutive operations of one session.
    Operations {
        /// The client session.
        session: SessionId,
        /// The number of the first; the others follow without gaps.
        first: u64,
        /// Results up to this number have reached the coordinator and may be forgotten.
        acked: u64,
        /// When the coordinator took them, ms since 1970: relative times count from here.
        /// An operation keeps its stamp whenever it is sent again, and within a session stamps
        /// never decrease as numbers grow: what is forgotten stays too old to run again.
        stamp_ms: u64,
        /// One for each operation; opaque to the log.
        payloads: Vec<Bytes>,
    },
    /// Settles an operation: whichever of the two is applied first wins.
    Fence {
        /// The client session.
        session: SessionId,
        /// The operation that is not to run after this.
        number: u64,
        /// The operation's own stamp, ms since 1970: it tells whether what became of the
        /// operation can still be known.
        stamp_ms: u64,
    },
    /// Records of a leader in another cluster, unchanged: only replicas that follow take them, as
    /// [`crate::rules::carried`] says.
    Carried {
        /// Where they stand in the leader's log.
        batch: Batch,
        /// One for each link of the batch: encoded records; opaque here.
        records: Vec<Bytes>,
    },
    /// What differs between the rows of a replica that follows and a snapshot of its leader's, in a
    /// range of keys, as [`crate::rules::difference`] says.
    Difference {
        /// Which range, and where it may be taken.
        difference: Difference,
        /// In the order of keys; what keys and values are is opaque here.
        changes: Vec<Change>,
    },
}

/// A record: what one lead appends at once for one partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Whose rows it changes.
    pub partition: PartitionId,
    /// The cluster's version as its lead knew it, at least 1. What it says of how operations are
    /// carried out holds for this record on every replica, whenever that applies it.
    pub version: u32,
    /// Its place in the lead's sequence.
    pub lead: LeadStamp,
    /// The lead's clock, ms since 1970.
    pub stamp_ms: u64,
    /// What the lead had applied.
    pub anchor: Anchor,
    /// In the order in which they are applied; empty for a marker.
    pub items: Vec<Item>,
}

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// They end before the record does.
    #[error("the record is truncated")]
    Truncated,
    /// They have a format that this version does not know.
    #[error("the record has the unknown format {0}")]
    UnknownFormat(u8),
    /// They are not what was written.
    #[error("the record's checksum does not match")]
    ChecksumMismatch,
    /// They are well-formed, but not a record.
    #[error("the record is malformed: {0}")]
    Malformed(&'static str),
}

impl Record {
    /// The record's bytes.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(HEADER_BYTES + 64 + self.payload_bytes());
        if self.version <= 1 {
            out.put_u8(FORMAT_UNVERSIONED);
        } else {
            out.put_u8(FORMAT);
            out.put_u32_le(self.version);
        }
        out.put_u64_le(self.partition.table);
        out.put_u32_le(self.partition.ordinal);
        out.put_u64_le(self.lead.lead.0);
        out.put_u32_le(self.lead.epoch);
        out.put_u64_le(self.lead.n);
        out.put_u64_le(self.stamp_ms);
        out.put_u64_le(self.anchor.incarnation.0);
        out.put_u64_le(self.anchor.lsn.0);
        out.put_u64_le(self.anchor.hash);
        put_varint(&mut out, self.items.len() as u64);
        for item in &self.items {
            item.encode(&mut out);
        }
        let checksum = xxh3_64(&out);
        out.put_u64_le(checksum);
        out.freeze()
    }

    /// The record in `bytes`, its payloads being slices of them.
    ///
    /// # Errors
    /// Where the bytes are not exactly one record of a known format.
    pub fn decode(bytes: &Bytes) -> Result<Self, RecordError> {
        let body_len = verified_body(bytes)?.len();
        let mut rest = bytes.slice(..body_len);
        let version = take_version(&mut rest)?;
        let partition = PartitionId { table: rest.get_u64_le(), ordinal: rest.get_u32_le() };
        let lead = LeadStamp {
            lead: LeadId(rest.get_u64_le()),
            epoch: rest.get_u32_le(),
            n: rest.get_u64_le(),
        };
        let stamp_ms = rest.get_u64_le();
        let anchor = Anchor {
            incarnation: Incarnation(rest.get_u64_le()),
            lsn: Lsn(rest.get_u64_le()),
            hash: rest.get_u64_le(),
        };
        let count = get_varint(&mut rest)?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(Item::decode(&mut rest)?);
        }
        if rest.has_remaining() {
            return Err(RecordError::Malformed("bytes after the last item"));
        }
        Ok(Self { partition, version, lead, stamp_ms, anchor, items })
    }

    fn payload_bytes(&self) -> usize {
        self.items.iter().map(Item::bytes_max).sum()
    }
}

impl Item {
    /// What it takes in a record at most, bytes.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        match self {
            Self::Operations { payloads, .. } => {
                payloads.iter().map(|payload| payload.len() + 4).sum::<usize>() + 40
            }
            Self::Fence { .. } => 29,
            Self::Carried { records, .. } => {
                let bytes = records.iter().map(|record| record.len() + CARRIED_RECORD_BYTES);
                bytes.sum::<usize>() + CARRIED_ITEM_BYTES
            }
            Self::Difference { changes, .. } => {
                changes.iter().map(Change::bytes_max).sum::<usize>() + DIFFERENCE_ITEM_BYTES
            }
        }
    }

    fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Operations { session, first, acked, stamp_ms, payloads } => {
                out.put_u8(KIND_OPERATIONS);
                out.put_u64_le(session.0);
                put_varint(out, *first);
                put_varint(out, *acked);
                put_varint(out, *stamp_ms);
                put_varint(out, payloads.len() as u64);
                for payload in payloads {
                    put_varint(out, payload.len() as u64);
                    out.put_slice(payload);
                }
            }
            Self::Fence { session, number, stamp_ms } => {
                out.put_u8(KIND_FENCE);
                out.put_u64_le(session.0);
                put_varint(out, *number);
                put_varint(out, *stamp_ms);
            }
            Self::Carried { batch, records } => {
                assert_eq!(batch.records.len(), records.len(), "each carried record has a link");
                out.put_u8(KIND_CARRIED);
                out.put_u64_le(batch.incarnation.0);
                put_link(out, &batch.after);
                put_link(out, &batch.to);
                put_varint(out, records.len() as u64);
                for (link, record) in batch.records.iter().zip(records) {
                    put_link(out, link);
                    put_varint(out, record.len() as u64);
                    out.put_slice(record);
                }
            }
            Self::Difference { difference, changes } => {
                out.put_u8(KIND_DIFFERENCE);
                put_difference(out, difference);
                put_varint(out, changes.len() as u64);
                changes.iter().for_each(|change| put_change(out, change));
            }
        }
    }

    fn decode(rest: &mut Bytes) -> Result<Self, RecordError> {
        if rest.remaining() < 9 {
            return Err(RecordError::Truncated);
        }
        let kind = rest.get_u8();
        let id = rest.get_u64_le();
        let session = SessionId(id);
        match kind {
            KIND_OPERATIONS => {
                let first = get_varint(rest)?;
                let acked = get_varint(rest)?;
                let stamp_ms = get_varint(rest)?;
                let count = get_varint(rest)?;
                // A number may not wrap, and a count may not ask for more than is there.
                if first.checked_add(count).is_none() || count > rest.remaining() as u64 {
                    return Err(RecordError::Malformed("more operations than bytes"));
                }
                let mut payloads = Vec::new();
                for _ in 0..count {
                    payloads.push(take_bytes(rest)?);
                }
                Ok(Self::Operations { session, first, acked, stamp_ms, payloads })
            }
            KIND_FENCE => {
                let number = get_varint(rest)?;
                Ok(Self::Fence { session, number, stamp_ms: get_varint(rest)? })
            }
            KIND_CARRIED => {
                let (after, to) = (take_link(rest)?, take_link(rest)?);
                let count = get_varint(rest)?;
                // Each takes a link and its length at least.
                if count > rest.remaining() as u64 / LINK_BYTES_MIN {
                    return Err(RecordError::Malformed("more carried records than bytes"));
                }
                let (mut links, mut records) = (Vec::new(), Vec::new());
                for _ in 0..count {
                    links.push(take_link(rest)?);
                    records.push(take_bytes(rest)?);
                }
                let batch = Batch { incarnation: Incarnation(id), after, records: links, to };
                if !batch.is_ordered() {
                    return Err(RecordError::Malformed("carried records out of order"));
                }
                Ok(Self::Carried { batch, records })
            }
            KIND_DIFFERENCE => {
                let difference = take_difference(Incarnation(id), rest)?;
                let count = get_varint(rest)?;
                // Each takes its kind and a length at least.
                if count > rest.remaining() as u64 / 2 {
                    return Err(RecordError::Malformed("more changes than bytes"));
                }
                let mut changes = Vec::new();
                for _ in 0..count {
                    changes.push(take_change(rest)?);
                }
                if !difference.is_ordered(&changes) {
                    return Err(RecordError::Malformed("a difference out of order"));
                }
                Ok(Self::Difference { difference, changes })
            }
            _ => Err(RecordError::Malformed("unknown kind of item")),
        }
    }
}

impl Change {
    /// What it takes in a record at most, bytes.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        let value = self.value.as_ref().map_or(0, Bytes::len);
        self.key.len() + value + DIFFERENCE_CHANGE_BYTES
    }
}

fn put_difference(out: &mut BytesMut, difference: &Difference) {
    let Difference { incarnation, at, begins, to, sequence, mapping_version, end } = difference;
    out.put_u64_le(incarnation.0);
    let begins = if *begins { FLAG_BEGINS } else { 0 };
    let is_last = if matches!(end, End::Last(_)) { FLAG_LAST } else { 0 };
    out.put_u8(begins | is_last);
    put_link(out, &at.link);
    put_varint(out, at.round);
    put_bytes(out, &at.cursor);
    put_link(out, to);
    put_varint(out, *sequence);
    put_varint(out, *mapping_version);
    match end {
        End::Before(key) => put_bytes(out, key),
        End::Last(Counters { sequence, keys, expires, swept_ms }) => {
            [sequence, keys, expires, swept_ms].into_iter().for_each(|it| put_varint(out, *it));
        }
    }
}

fn take_difference(incarnation: Incarnation, rest: &mut Bytes) -> Result<Difference, RecordError> {
    if !rest.has_remaining() {
        return Err(RecordError::Truncated);
    }
    let flags = rest.get_u8();
    if flags & !(FLAG_BEGINS | FLAG_LAST) != 0 {
        return Err(RecordError::Malformed("unknown flags of a difference"));
    }
    let (link, round) = (take_link(rest)?, get_varint(rest)?);
    let at = Standing { link, round, cursor: take_bytes(rest)? };
    let (to, sequence, mapping_version) = (take_link(rest)?, get_varint(rest)?, get_varint(rest)?);
    let end = if flags & FLAG_LAST == 0 {
        End::Before(take_bytes(rest)?)
    } else {
        let mut next = || get_varint(rest);
        let (sequence, keys, expires, swept_ms) = (next()?, next()?, next()?, next()?);
        End::Last(Counters { sequence, keys, expires, swept_ms })
    };
    let begins = flags & FLAG_BEGINS != 0;
    Ok(Difference { incarnation, at, begins, to, sequence, mapping_version, end })
}

fn put_change(out: &mut BytesMut, Change { key, value }: &Change) {
    out.put_u8(if value.is_some() { CHANGE_PUTS } else { CHANGE_DELETES });
    put_bytes(out, key);
    if let Some(value) = value {
        put_bytes(out, value);
    }
}

fn take_change(rest: &mut Bytes) -> Result<Change, RecordError> {
    if !rest.has_remaining() {
        return Err(RecordError::Truncated);
    }
    let kind = rest.get_u8();
    let key = take_bytes(rest)?;
    match kind {
        CHANGE_DELETES => Ok(Change { key, value: None }),
        CHANGE_PUTS => Ok(Change { key, value: Some(take_bytes(rest)?) }),
        _ => Err(RecordError::Malformed("unknown kind of change")),
    }
}

fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.put_slice(bytes);
}

fn put_link(out: &mut BytesMut, link: &Link) {
    put_varint(out, link.lsn.0);
    out.put_u64_le(link.hash);
    put_varint(out, link.log_time_ms);
}

fn take_link(rest: &mut Bytes) -> Result<Link, RecordError> {
    let lsn = Lsn(get_varint(rest)?);
    if rest.remaining() < 8 {
        return Err(RecordError::Truncated);
    }
    Ok(Link { lsn, hash: rest.get_u64_le(), log_time_ms: get_varint(rest)? })
}

/// Takes bytes with their length before them, as a slice.
fn take_bytes(rest: &mut Bytes) -> Result<Bytes, RecordError> {
    let len = usize::try_from(get_varint(rest)?).unwrap_or(usize::MAX);
    if len > rest.remaining() {
        return Err(RecordError::Truncated);
    }
    Ok(rest.split_to(len))
}

/// Takes the format and what it says of the version.
fn take_version(rest: &mut impl Buf) -> Result<u32, RecordError> {
    if rest.get_u8() == FORMAT_UNVERSIONED {
        return Ok(1);
    }
    let version = rest.get_u32_le();
    // Each record has one form only.
    if version <= 1 { Err(RecordError::Malformed("a version of 0 or 1")) } else { Ok(version) }
}

/// All but the checksum, which is that of the rest.
fn verified_body(bytes: &[u8]) -> Result<&[u8], RecordError> {
    let header_bytes = match bytes.first() {
        Some(&FORMAT) => HEADER_BYTES + 4,
        Some(&FORMAT_UNVERSIONED) | None => HEADER_BYTES,
        Some(&unknown) => return Err(RecordError::UnknownFormat(unknown)),
    };
    if bytes.len() < header_bytes + 1 + CHECKSUM_BYTES {
        return Err(RecordError::Truncated);
    }
    let checksum = checksum(bytes)?;
    let body = &bytes[..bytes.len() - CHECKSUM_BYTES];
    if xxh3_64(body) != checksum {
        return Err(RecordError::ChecksumMismatch);
    }
    Ok(body)
}

/// The checksum that an encoded record carries, unchecked: what the chain is made of.
///
/// # Errors
/// [`RecordError::Truncated`] where the bytes are shorter than any record.
pub fn checksum(bytes: &[u8]) -> Result<u64, RecordError> {
    if bytes.len() < HEADER_BYTES + 1 + CHECKSUM_BYTES {
        return Err(RecordError::Truncated);
    }
    let (_, tail) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
    Ok(u64::from_le_bytes(tail.try_into().map_err(|_| RecordError::Truncated)?))
}

/// The partition that an encoded record is for, read without decoding the rest: a node passes
/// over what it does not hold. The whole record is verified first: a damaged byte must not make
/// a node pass over a record of its own.
///
/// # Errors
/// As [`Record::decode`] for damage; what the items hold is not looked at.
pub fn partition(bytes: &[u8]) -> Result<PartitionId, RecordError> {
    let mut rest = verified_body(bytes)?;
    take_version(&mut rest)?;
    Ok(PartitionId { table: rest.get_u64_le(), ordinal: rest.get_u32_le() })
}

/// Appends an unsigned LEB128 number.
pub fn put_varint(out: &mut impl BufMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8((value & 0x7f) as u8);
}

/// Takes an unsigned LEB128 number.
///
/// # Errors
/// [`RecordError::Truncated`], or [`RecordError::Malformed`] where it is over 64 bits.
pub fn get_varint(rest: &mut impl Buf) -> Result<u64, RecordError> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        if !rest.has_remaining() {
            return Err(RecordError::Truncated);
        }
        let byte = rest.get_u8();
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            break;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(RecordError::Malformed("a number over 64 bits"))
}

#[cfg(test)]
mod tests;
