//! A large hash copied in many operations, so that nobody waits for all of it: its fields are put
//! under a generation that nothing names yet, and the last operation gives them to the key. The
//! operation's bytes, after its first:
//!
//! | field | bytes |
//! |---|---|
//! | step: 0 a slice from the start, 1 a slice after a field, 2 the end, 3 the end without a copy | 1 |
//! | length and source, length and target | varint, bytes |
//! | generation, last change of the source, until when it must end (ms) | varints |
//! | of a slice: how many fields; after which: length and field | varint, varint, bytes |
//! | of the end: 1 the source goes, 2 only where the target is not there, 4 also answers a number | 1 |
//!
//! A slice answers the last field that it copied, or OK after the last of the hash; each step but the
//! last answers nil where the copy cannot go on, because the source changed or it is too late.

use bytes::{BufMut, Bytes, BytesMut};
use plimsoll_log::record::{RecordError, put_varint};

use super::decoding::{take_bytes, take_varint};

/// Generations from here on belong to copies: those of hashes made at once are sequence numbers, and
/// far below.
pub const COPY_GENERATIONS_FROM: u64 = 1 << 63;

const RENAMES: u8 = 1;
const ABSENT: u8 = 2;
const NUMBER: u8 = 4;

/// A step of the copy of a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashCopy {
    /// The source.
    pub from: Bytes,
    /// The target.
    pub to: Bytes,
    /// What the target's fields stand under, from [`COPY_GENERATIONS_FROM`] on; of no other copy.
    pub generation: u64,
    /// The source's last change; after another it is not copied any further.
    pub last_change: u64,
    /// The log time at which what was copied is swept if the copy has not ended, ms since 1970.
    pub until_ms: u64,
    /// What is done.
    pub step: CopyStep,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyStep {
    /// Copies some fields.
    Slice {
        /// From the one after this on; `None` from the first on.
        after: Option<Bytes>,
        /// How many at most.
        fields: u64,
    },
    /// Gives the fields to the target, in the place of what it holds.
    End(CopyEnd),
    /// Gives the copy up.
    Drop,
}

/// How a copy ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyEnd {
    /// The source goes: RENAME.
    pub renames: bool,
    /// Only where the target is not there.
    pub absent: bool,
    /// Answers 1 or 0 rather than OK.
    pub number: bool,
}

impl HashCopy {
    pub(super) fn bytes_estimate(&self) -> usize {
        let after = match &self.step {
            CopyStep::Slice { after: Some(after), .. } => after.len(),
            _ => 0,
        };
        64 + self.from.len() + self.to.len() + after
    }

    pub(super) fn encode(&self, out: &mut BytesMut) {
        out.put_u8(match self.step {
            CopyStep::Slice { after: None, .. } => 0,
            CopyStep::Slice { after: Some(_), .. } => 1,
            CopyStep::End(_) => 2,
            CopyStep::Drop => 3,
        });
        for key in [&self.from, &self.to] {
            put_varint(out, key.len() as u64);
            out.put_slice(key);
        }
        put_varint(out, self.generation);
        put_varint(out, self.last_change);
        put_varint(out, self.until_ms);
        match &self.step {
            CopyStep::Slice { after, fields } => {
                put_varint(out, *fields);
                if let Some(after) = after {
                    put_varint(out, after.len() as u64);
                    out.put_slice(after);
                }
            }
            CopyStep::End(end) => {
                let flag = |is_set, flag| if is_set { flag } else { 0 };
                out.put_u8(
                    flag(end.renames, RENAMES)
                        | flag(end.absent, ABSENT)
                        | flag(end.number, NUMBER),
                );
            }
            CopyStep::Drop => {}
        }
    }

    pub(super) fn decode(bytes: &Bytes, at: &mut usize) -> Result<Self, RecordError> {
        let step = take_byte(bytes, at)?;
        let (from, to) = (take_bytes(bytes, at)?, take_bytes(bytes, at)?);
        let generation = take_varint(bytes, at)?;
        let last_change = take_varint(bytes, at)?;
        let until_ms = take_varint(bytes, at)?;
        if generation < COPY_GENERATIONS_FROM || generation == u64::MAX {
            return Err(RecordError::Malformed("a generation that is no copy's"));
        }
        let step = match step {
            0 | 1 => {
                let fields = take_varint(bytes, at)?;
                let after = if step == 1 { Some(take_bytes(bytes, at)?) } else { None };
                CopyStep::Slice { after, fields }
            }
            2 => match take_byte(bytes, at)? {
                flags if flags < NUMBER << 1 => CopyStep::End(CopyEnd {
                    renames: flags & RENAMES != 0,
                    absent: flags & ABSENT != 0,
                    number: flags & NUMBER != 0,
                }),
                _ => return Err(RecordError::Malformed("unknown flags of a copy")),
            },
            3 => CopyStep::Drop,
            _ => return Err(RecordError::Malformed("unknown step of a copy")),
        };
        Ok(Self { from, to, generation, last_change, until_ms, step })
    }
}

fn take_byte(bytes: &Bytes, at: &mut usize) -> Result<u8, RecordError> {
    let byte = *bytes.get(*at).ok_or(RecordError::Truncated)?;
    *at += 1;
    Ok(byte)
}
