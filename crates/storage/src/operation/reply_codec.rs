//! A reply's bytes: what the window of results keeps, so that a second copy of an operation is
//! answered as the first was.
//!
//! | reply | bytes |
//! |---|---|
//! | status | `01`, its position in [`STATUSES`] (varint) |
//! | number | `02`, 8 big-endian |
//! | any bytes | `03`, length (varint), bytes |
//! | no value | `04` |
//! | no array | `05` |
//! | list | `06`, length (varint), the items |
//! | pairs | `07`, number of pairs (varint), the items |
//! | distinct items | `08`, length (varint), the items |
//! | text | `09`, length (varint), UTF-8 |
//! | refusal | `0a`, its kind's name and the message, each with its length (varint), UTF-8 |
//!
//! First bytes and positions are stable.

use bytes::{BufMut, Bytes, BytesMut};
use plimsoll_log::record::{RecordError, put_varint};

use super::decoding::{take_bytes, take_count, take_varint};
use crate::execute::keys::OBJECT_HELP;
use crate::{ErrorKind, ErrorReply, Reply};

/// The words that a status may be; those of OBJECT HELP follow. A new one goes to the end.
const STATUSES: &[&str] = &["OK", "none", "string", "hash", "QUEUED", "PONG"];
/// Where the lines of OBJECT HELP begin.
const HELP_FROM: usize = 64;
/// The names of the kinds of refusals, here and in messages between nodes.
const KINDS: &[(ErrorKind, &str)] = &[
    (ErrorKind::General, "ERR"),
    (ErrorKind::WrongType, "WRONGTYPE"),
    (ErrorKind::ReadOnly, "READONLY"),
    (ErrorKind::TryAgain, "TRYAGAIN"),
    (ErrorKind::DiskFull, "MISCONF"),
    (ErrorKind::OutOfMemory, "OOM"),
    (ErrorKind::CrossesPartitions, "CROSSSLOT"),
    (ErrorKind::OutcomeUnknown, "TIMEOUT"),
];
/// How deep lists may stand in lists.
const DEPTH_MAX: usize = 8;

impl ErrorKind {
    /// Its name where it is kept or sent to another node. Stable.
    #[must_use]
    pub fn stored_name(&self) -> &str {
        match self {
            Self::Named(name) => name,
            known => KINDS.iter().find(|(kind, _)| kind == known).map_or("ERR", |(_, name)| name),
        }
    }

    /// The kind that was kept or sent by this name.
    #[must_use]
    pub fn of_stored_name(name: &str) -> Self {
        let known = KINDS.iter().find(|(_, known)| *known == name);
        known.map_or_else(|| Self::Named(name.to_owned().into()), |(kind, _)| kind.clone())
    }
}

/// The reply's bytes. A status that is none of the known words becomes plain bytes.
#[must_use]
pub fn encode(reply: &Reply) -> Bytes {
    encode_within(reply, usize::MAX)
}

/// The reply's bytes, or more than `limit` bytes of no meaning where they would be longer: little
/// more is written than that.
#[must_use]
pub fn encode_within(reply: &Reply, limit: usize) -> Bytes {
    let mut out = BytesMut::new();
    put(&mut out, reply, limit);
    out.freeze()
}

fn put(out: &mut BytesMut, reply: &Reply, limit: usize) {
    if out.len() > limit {
        return;
    }
    match reply {
        Reply::Status(word) => match status_position(word) {
            Some(position) => {
                out.put_u8(1);
                put_varint(out, position as u64);
            }
            None => put_bytes(out, 3, word.as_bytes()),
        },
        Reply::Integer(number) => {
            out.put_u8(2);
            out.put_i64(*number);
        }
        Reply::Bulk(bytes) => {
            // One byte more than the limit says that it is too long.
            let shown = bytes.len().min(limit.saturating_add(1));
            put_bytes(out, 3, bytes.get(..shown).unwrap_or_default());
        }
        Reply::Nil => out.put_u8(4),
        Reply::NilArray => out.put_u8(5),
        Reply::Array(items) => put_list(out, 6, items, limit),
        Reply::Map(pairs) => {
            out.put_u8(7);
            put_varint(out, pairs.len() as u64);
            for (name, value) in pairs {
                if out.len() > limit {
                    return;
                }
                put(out, name, limit);
                put(out, value, limit);
            }
        }
        Reply::Set(items) => put_list(out, 8, items, limit),
        Reply::Verbatim(text) => put_bytes(out, 9, text.as_bytes()),
        Reply::Error(error) => {
            put_bytes(out, 10, error.kind.stored_name().as_bytes());
            put_varint(out, error.message.len() as u64);
            out.put_slice(error.message.as_bytes());
        }
    }
}

fn put_bytes(out: &mut BytesMut, kind: u8, bytes: &[u8]) {
    out.put_u8(kind);
    put_varint(out, bytes.len() as u64);
    out.put_slice(bytes);
}

fn put_list(out: &mut BytesMut, kind: u8, items: &[Reply], limit: usize) {
    out.put_u8(kind);
    put_varint(out, items.len() as u64);
    for item in items {
        if out.len() > limit {
            return;
        }
        put(out, item, limit);
    }
}

fn status_position(word: &str) -> Option<usize> {
    let help = || OBJECT_HELP.iter().position(|known| *known == word).map(|at| at + HELP_FROM);
    STATUSES.iter().position(|known| *known == word).or_else(help)
}

fn status(position: usize) -> Option<&'static str> {
    let help = || OBJECT_HELP.get(position.checked_sub(HELP_FROM)?);
    STATUSES.get(position).or_else(help).copied()
}

/// The reply in `bytes`, sharing them.
///
/// # Errors
/// Where the bytes are not exactly one reply.
pub fn decode(bytes: &Bytes) -> Result<Reply, RecordError> {
    let mut at = 0;
    let reply = take(bytes, &mut at, 0)?;
    if at == bytes.len() { Ok(reply) } else { Err(RecordError::Malformed("bytes after the reply")) }
}

fn take(bytes: &Bytes, at: &mut usize, depth: usize) -> Result<Reply, RecordError> {
    if depth > DEPTH_MAX {
        return Err(RecordError::Malformed("a reply too deep"));
    }
    let kind = *bytes.get(*at).ok_or(RecordError::Truncated)?;
    *at += 1;
    Ok(match kind {
        1 => {
            let position = usize::try_from(take_varint(bytes, at)?).unwrap_or(usize::MAX);
            Reply::Status(status(position).ok_or(RecordError::Malformed("unknown status"))?)
        }
        2 => {
            let number = bytes.get(*at..).and_then(|rest| rest.first_chunk());
            *at += 8;
            Reply::Integer(i64::from_be_bytes(*number.ok_or(RecordError::Truncated)?))
        }
        3 => Reply::Bulk(take_bytes(bytes, at)?),
        4 => Reply::Nil,
        5 => Reply::NilArray,
        6 => Reply::Array(take_list(bytes, at, depth)?),
        7 => {
            let mut pairs = Vec::new();
            for _ in 0..take_count(bytes, at)? {
                pairs.push((take(bytes, at, depth + 1)?, take(bytes, at, depth + 1)?));
            }
            Reply::Map(pairs)
        }
        8 => Reply::Set(take_list(bytes, at, depth)?),
        9 => Reply::Verbatim(take_text(bytes, at)?),
        10 => Reply::Error(ErrorReply {
            kind: ErrorKind::of_stored_name(&take_text(bytes, at)?),
            message: take_text(bytes, at)?.into(),
        }),
        _ => return Err(RecordError::Malformed("unknown kind of reply")),
    })
}

fn take_list(bytes: &Bytes, at: &mut usize, depth: usize) -> Result<Vec<Reply>, RecordError> {
    let mut items = Vec::new();
    for _ in 0..take_count(bytes, at)? {
        items.push(take(bytes, at, depth + 1)?);
    }
    Ok(items)
}

fn take_text(bytes: &Bytes, at: &mut usize) -> Result<String, RecordError> {
    let text = take_bytes(bytes, at)?;
    String::from_utf8(text.into()).map_err(|_| RecordError::Malformed("text is not UTF-8"))
}
