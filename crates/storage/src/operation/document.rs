//! A write of one document, its bytes in the log, and the bytes of what became of it.
//!
//! The write, after the operation's first byte:
//!
//! | field | bytes |
//! |---|---|
//! | action: 0 index, 1 create, 2 delete; plus 4 x condition: 0 none, 1 sequence, 2 external, 3 external or equal; plus 16 where the id is the key | 1 |
//! | length and key | varint, bytes |
//! | unless it is the key: length and id | varint, bytes |
//! | of a condition: sequence number and primary term, or version | varints |
//! | mapping version | varint |
//! | but of a delete: length and source | varint, bytes |
//!
//! The outcome, as the bytes of a reply: 1 created, 2 updated, 3 deleted, 4 not found, 5 no-op,
//! 6 conflict with a document, 7 conflict with a deleted one, each followed by version and
//! sequence number (varints); 8 conflict with nothing. All of this is stable.

use bytes::{BufMut, Bytes, BytesMut};
use plimsoll_log::record::{RecordError, get_varint, put_varint};

use super::decoding::{take_bytes, take_varint};
use crate::Reply;

const CONDITION_SHIFT: u32 = 2;
const FLAG_ID_IS_KEY: u8 = 16;

/// The primary term of every document.
pub const PRIMARY_TERM: u64 = 1;

/// A write of one document. Its source was checked before it came here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentWrite {
    /// The hash key: the routing, or the id where there is none.
    pub key: Bytes,
    /// The id.
    pub id: Bytes,
    /// What to do.
    pub action: Action,
    /// What must hold of the document.
    pub condition: Condition,
    /// The version of the mapping that it was checked against; 0 where there is none.
    pub mapping_version: u64,
}

/// What to do with a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put it in the place of what is there.
    Index(Bytes),
    /// Put it where none is.
    Create(Bytes),
    /// Take it away.
    Delete,
}

/// What must hold of a document for a write of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    #[default]
    None,
    /// It is there, and its last change had this number.
    IfSequence {
        /// As clients see it: the first is 0.
        seq_no: u64,
        /// [`PRIMARY_TERM`], or nothing matches.
        primary_term: u64,
    },
    /// Its version, also as a deleted one, is below this, which it then takes.
    External(u64),
    /// Its version, also as a deleted one, is not above this, which it then takes.
    ExternalGte(u64),
}

impl DocumentWrite {
    pub(super) fn bytes_estimate(&self) -> usize {
        let source = match &self.action {
            Action::Index(source) | Action::Create(source) => source.len(),
            Action::Delete => 0,
        };
        48 + self.key.len() + self.id.len() + source
    }

    pub(super) fn encode(&self, out: &mut BytesMut) {
        let action = match self.action {
            Action::Index(_) => 0,
            Action::Create(_) => 1,
            Action::Delete => 2,
        };
        let condition = match self.condition {
            Condition::None => 0,
            Condition::IfSequence { .. } => 1,
            Condition::External(_) => 2,
            Condition::ExternalGte(_) => 3,
        };
        let flag = if self.id == self.key { FLAG_ID_IS_KEY } else { 0 };
        out.put_u8(action | condition << CONDITION_SHIFT | flag);
        put_bytes(out, &self.key);
        if flag == 0 {
            put_bytes(out, &self.id);
        }
        match self.condition {
            Condition::None => {}
            Condition::IfSequence { seq_no, primary_term } => {
                put_varint(out, seq_no);
                put_varint(out, primary_term);
            }
            Condition::External(version) | Condition::ExternalGte(version) => {
                put_varint(out, version);
            }
        }
        put_varint(out, self.mapping_version);
        if let Action::Index(source) | Action::Create(source) = &self.action {
            put_bytes(out, source);
        }
    }

    pub(super) fn decode(bytes: &Bytes, at: &mut usize) -> Result<Self, RecordError> {
        let flags = *bytes.get(*at).ok_or(RecordError::Truncated)?;
        *at += 1;
        if flags >= FLAG_ID_IS_KEY << 1 {
            return Err(RecordError::Malformed("unknown flags of a document"));
        }
        let key = take_bytes(bytes, at)?;
        let id = if flags & FLAG_ID_IS_KEY == 0 { take_bytes(bytes, at)? } else { key.clone() };
        let condition = match (flags >> CONDITION_SHIFT) & 3 {
            0 => Condition::None,
            1 => Condition::IfSequence {
                seq_no: take_varint(bytes, at)?,
                primary_term: take_varint(bytes, at)?,
            },
            2 => Condition::External(take_varint(bytes, at)?),
            _ => Condition::ExternalGte(take_varint(bytes, at)?),
        };
        let mapping_version = take_varint(bytes, at)?;
        let action = match flags & 3 {
            0 => Action::Index(take_bytes(bytes, at)?),
            1 => Action::Create(take_bytes(bytes, at)?),
            2 => Action::Delete,
            _ => return Err(RecordError::Malformed("unknown action on a document")),
        };
        Ok(Self { key, id, action, condition, mapping_version })
    }
}

fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.put_slice(bytes);
}

/// What became of a write of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentOutcome {
    /// It was done.
    Done {
        /// What it was.
        result: DocumentResult,
        /// The document's version now, of a deleted one that of its deletion.
        version: u64,
        /// The number of this change, the first being 0.
        seq_no: u64,
    },
    /// Its condition does not hold; nothing changed.
    Conflict {
        /// What is there or was deleted not long ago.
        present: Option<Present>,
    },
}

/// What a write of a document was, in Elasticsearch's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentResult {
    /// It was not there.
    Created,
    /// It was there.
    Updated,
    /// It was there and is gone.
    Deleted,
    /// It was not there to delete.
    NotFound,
    /// An update that changes nothing: answered without an operation, and never by one.
    Noop,
}

/// The document that a condition does not hold of. Its primary term is [`PRIMARY_TERM`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Present {
    /// Whether it is deleted.
    pub is_deleted: bool,
    /// Its version.
    pub version: u64,
    /// The number of its last change, the first being 0.
    pub seq_no: u64,
}

impl DocumentOutcome {
    /// The outcome as a session keeps it.
    #[must_use]
    pub fn to_reply(&self) -> Reply {
        let (kind, numbers) = match *self {
            Self::Done { result, version, seq_no } => {
                let kind = match result {
                    DocumentResult::Created => 1,
                    DocumentResult::Updated => 2,
                    DocumentResult::Deleted => 3,
                    DocumentResult::NotFound => 4,
                    DocumentResult::Noop => 5,
                };
                (kind, Some((version, seq_no)))
            }
            Self::Conflict { present: Some(present) } => {
                let kind = if present.is_deleted { 7 } else { 6 };
                (kind, Some((present.version, present.seq_no)))
            }
            Self::Conflict { present: None } => (8, None),
        };
        let mut out = Vec::with_capacity(12);
        out.push(kind);
        if let Some((version, seq_no)) = numbers {
            put_varint(&mut out, version);
            put_varint(&mut out, seq_no);
        }
        Reply::bulk(out)
    }

    /// The outcome in a document operation's reply; `None` where it is no such reply.
    #[must_use]
    pub fn from_reply(reply: &Reply) -> Option<Self> {
        let Reply::Bulk(bytes) = reply else { return None };
        let (&kind, mut rest) = bytes.split_first()?;
        let outcome = if kind == 8 {
            Self::Conflict { present: None }
        } else {
            let version = get_varint(&mut rest).ok()?;
            let seq_no = get_varint(&mut rest).ok()?;
            let done = |result| Self::Done { result, version, seq_no };
            let conflict = |is_deleted| Self::Conflict {
                present: Some(Present { is_deleted, version, seq_no }),
            };
            match kind {
                1 => done(DocumentResult::Created),
                2 => done(DocumentResult::Updated),
                3 => done(DocumentResult::Deleted),
                4 => done(DocumentResult::NotFound),
                5 => done(DocumentResult::Noop),
                6 => conflict(false),
                7 => conflict(true),
                _ => return None,
            }
        };
        rest.is_empty().then_some(outcome)
    }
}
