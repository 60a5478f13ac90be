//! What the log carries for a partition's rows: one command, a transaction, a sweep or a write of
//! a document; its bytes and how it runs. The log itself knows nothing of it.
//!
//! | operation | bytes |
//! |---|---|
//! | command | `01`, the command |
//! | transaction | `02`, number of watched keys, for each its length, the key and its last change; number of commands, each command |
//! | sweep | `03`, limit |
//! | write of a document | `04`, as [`document`] says |
//! | step of a hash's copy | `05`, as [`copy`] says |
//! | end of following | `06`; since the cluster's version `CARRIED_SINCE` |
//! | write to a table with a default expiry | `07`, the expiry in ms, a command, transaction or write of a document; since the cluster's version [`DEFAULT_EXPIRY_SINCE`] |
//!
//! A command is its number of arguments, then each with its length. All numbers are varints. The
//! first byte is stable; a change of meaning takes another.

pub mod copy;
pub mod cost;
mod decoding;
pub mod document;
pub mod reply_codec;

pub use copy::{COPY_GENERATIONS_FROM, CopyEnd, CopyStep, HashCopy};
pub use document::{
    Action, Condition, DocumentOutcome, DocumentResult, DocumentWrite, PRIMARY_TERM, Present,
};
pub use reply_codec::{
    decode as decode_reply, encode as encode_reply, encode_within as encode_reply_within,
};

use bytes::{BufMut, Bytes, BytesMut};
use plimsoll_log::record::{RecordError, put_varint};

use decoding::{take_bytes, take_count, take_varint};

use crate::command;
use crate::execute::{self, WriteContext};
use crate::rows::{REPLY_BYTES, RowsWrite, StoreError};
use crate::{Argv, Reply};

const KIND_COMMAND: u8 = 1;
const KIND_TRANSACTION: u8 = 2;
const KIND_SWEEP: u8 = 3;
const KIND_DOCUMENT: u8 = 4;
const KIND_COPY: u8 = 5;
const KIND_UNFOLLOW: u8 = 6;
const KIND_DEFAULT_EXPIRY: u8 = 7;
/// The version of the cluster since which an operation may carry its table's default expiry.
pub const DEFAULT_EXPIRY_SINCE: u32 = 5;
/// A sweep with a form number before its limit. Its first byte is far from those that are given.
#[cfg(feature = "next-version")]
const KIND_SWEEP_NEXT: u8 = 0xf0;
#[cfg(feature = "next-version")]
const SWEEP_NEXT_FORM: u64 = 1;

/// What the log carries for a partition's rows.
#[derive(Clone, Debug)]
pub enum Operation {
    /// One command.
    Command(Argv),
    /// Commands with no other between them.
    Transaction {
        /// Keys and the number of each one's last change as it was seen
        /// ([`execute::last_change`]); nothing runs where one is another.
        watched: Vec<(Bytes, u64)>,
        /// In order.
        commands: Vec<Argv>,
    },
    /// Takes away what has expired.
    Sweep {
        /// How many keys and fields at most.
        limit: u64,
    },
    /// Writes a document where its condition holds; answers a [`DocumentOutcome`].
    Document(DocumentWrite),
    /// A step of the copy of a large hash.
    CopyHash(HashCopy),
    /// Ends the following of a leader in another cluster: from here on the replica takes writes of its
    /// own. Answers OK, also where nobody is followed. Appended only from the cluster's version
    /// [`CARRIED_SINCE`](plimsoll_log::record::CARRIED_SINCE) on.
    Unfollow,
    /// A write to a table whose keys have an expiry where nobody gives them another.
    WithDefaultExpiry {
        /// How long after the operation's stamp a key expires that the operation makes, ms.
        after_ms: u64,
        /// A command, a transaction or the write of a document.
        operation: Box<Self>,
    },
}

impl Operation {
    /// The operation's bytes.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.bytes_estimate());
        match self {
            Self::Command(argv) => {
                out.put_u8(KIND_COMMAND);
                argv.encode(&mut out);
            }
            Self::Transaction { watched, commands } => {
                out.put_u8(KIND_TRANSACTION);
                put_varint(&mut out, watched.len() as u64);
                for (key, last_change) in watched {
                    put_varint(&mut out, key.len() as u64);
                    out.put_slice(key);
                    put_varint(&mut out, *last_change);
                }
                put_varint(&mut out, commands.len() as u64);
                for argv in commands {
                    argv.encode(&mut out);
                }
            }
            Self::Sweep { limit } => {
                out.put_u8(KIND_SWEEP);
                put_varint(&mut out, *limit);
            }
            Self::Document(write) => {
                out.put_u8(KIND_DOCUMENT);
                write.encode(&mut out);
            }
            Self::CopyHash(copy) => {
                out.put_u8(KIND_COPY);
                copy.encode(&mut out);
            }
            Self::Unfollow => out.put_u8(KIND_UNFOLLOW),
            Self::WithDefaultExpiry { after_ms, operation } => {
                return with_default_expiry(&operation.encode(), *after_ms);
            }
        }
        out.freeze()
    }

    /// Whether the bytes are an [`Operation::Unfollow`].
    pub fn is_unfollow(bytes: &[u8]) -> bool {
        bytes == [KIND_UNFOLLOW]
    }

    /// The bytes of a sweep in the form that the next version brings.
    #[cfg(feature = "next-version")]
    #[must_use]
    pub fn encode_next_sweep(limit: u64) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u8(KIND_SWEEP_NEXT);
        put_varint(&mut out, SWEEP_NEXT_FORM);
        put_varint(&mut out, limit);
        out.freeze()
    }

    fn bytes_estimate(&self) -> usize {
        let command = |argv: &Argv| 4 + argv.bytes_len() + 4 * argv.len();
        match self {
            Self::Command(argv) => 1 + command(argv),
            Self::Transaction { watched, commands } => {
                let keys: usize = watched.iter().map(|(key, _)| key.len() + 15).sum();
                16 + keys + commands.iter().map(command).sum::<usize>()
            }
            Self::Sweep { .. } => 11,
            Self::Document(write) => 1 + write.bytes_estimate(),
            Self::CopyHash(copy) => 1 + copy.bytes_estimate(),
            Self::Unfollow => 1,
            Self::WithDefaultExpiry { operation, .. } => 11 + operation.bytes_estimate(),
        }
    }

    /// Whether apply can carry the bytes out on every node of a cluster: what another one sent is checked
    /// before it is appended. `allows` says whether all nodes know what came with a version of the cluster.
    ///
    /// # Errors
    /// As [`Self::decode`], and where a command, or an option of one, is not known.
    pub fn check(bytes: &Bytes, allows: impl Fn(u32) -> bool) -> Result<(), RecordError> {
        if Self::decode(bytes)?.is_known(&allows) {
            Ok(())
        } else {
            Err(RecordError::Malformed("an unknown command"))
        }
    }

    fn is_known(&self, allows: &impl Fn(u32) -> bool) -> bool {
        let is_known = |argv: &Argv| command::since(argv).is_some_and(allows);
        match self {
            Self::Command(argv) => is_known(argv),
            Self::Transaction { commands, .. } => commands.iter().all(is_known),
            Self::WithDefaultExpiry { operation, .. } => {
                allows(DEFAULT_EXPIRY_SINCE) && operation.is_known(allows)
            }
            Self::Sweep { .. } | Self::Document(_) | Self::CopyHash(_) | Self::Unfollow => true,
        }
    }

    /// The write of a document that it is.
    #[must_use]
    pub fn document(&self) -> Option<&DocumentWrite> {
        match self {
            Self::Document(write) => Some(write),
            Self::WithDefaultExpiry { operation, .. } => operation.document(),
            _ => None,
        }
    }

    /// The operation in `bytes`, its arguments being slices of them.
    ///
    /// # Errors
    /// Where the bytes are not exactly one operation of a known kind.
    pub fn decode(bytes: &Bytes) -> Result<Self, RecordError> {
        let kind = *bytes.first().ok_or(RecordError::Truncated)?;
        let mut at = 1;
        let operation = match kind {
            KIND_COMMAND => Self::Command(Argv::decode(bytes, &mut at)?),
            KIND_TRANSACTION => {
                let mut watched = Vec::new();
                for _ in 0..take_count(bytes, &mut at)? {
                    let key = take_bytes(bytes, &mut at)?;
                    watched.push((key, take_varint(bytes, &mut at)?));
                }
                let mut commands = Vec::new();
                for _ in 0..take_count(bytes, &mut at)? {
                    commands.push(Argv::decode(bytes, &mut at)?);
                }
                Self::Transaction { watched, commands }
            }
            KIND_SWEEP => Self::Sweep { limit: take_varint(bytes, &mut at)? },
            #[cfg(feature = "next-version")]
            KIND_SWEEP_NEXT => match take_varint(bytes, &mut at)? {
                SWEEP_NEXT_FORM => Self::Sweep { limit: take_varint(bytes, &mut at)? },
                _ => return Err(RecordError::Malformed("an unknown form of sweep")),
            },
            KIND_DOCUMENT => Self::Document(DocumentWrite::decode(bytes, &mut at)?),
            KIND_COPY => Self::CopyHash(HashCopy::decode(bytes, &mut at)?),
            KIND_UNFOLLOW => Self::Unfollow,
            KIND_DEFAULT_EXPIRY => {
                let after_ms = take_varint(bytes, &mut at)?;
                let within = bytes.slice(at..);
                if !within.first().is_some_and(|kind| TAKES_DEFAULT_EXPIRY.contains(kind)) {
                    return Err(RecordError::Malformed("an operation that makes no key"));
                }
                let operation = Box::new(Self::decode(&within)?);
                return Ok(Self::WithDefaultExpiry { after_ms, operation });
            }
            other => return Err(RecordError::UnknownFormat(other)),
        };
        if at == bytes.len() {
            Ok(operation)
        } else {
            Err(RecordError::Malformed("bytes after the operation"))
        }
    }
}

/// Operations that may make a key.
const TAKES_DEFAULT_EXPIRY: [u8; 3] = [KIND_COMMAND, KIND_TRANSACTION, KIND_DOCUMENT];

/// An operation's bytes with the default expiry of its table, ms after its stamp; those of one that makes no
/// key as they are.
#[must_use]
pub fn with_default_expiry(operation: &Bytes, after_ms: u64) -> Bytes {
    if !operation.first().is_some_and(|kind| TAKES_DEFAULT_EXPIRY.contains(kind)) {
        return operation.clone();
    }
    let mut out = BytesMut::with_capacity(operation.len() + 11);
    out.put_u8(KIND_DEFAULT_EXPIRY);
    put_varint(&mut out, after_ms);
    out.put_slice(operation);
    out.freeze()
}

/// Runs an operation.
///
/// # Errors
/// Where the store fails, or the operation takes more than it may: the rows are then half changed
/// and must not be kept. A refusal of a command is a reply; within a transaction it stands among
/// the replies, and the others still run.
pub fn run<W: RowsWrite + ?Sized>(
    operation: &Operation,
    rows: &mut W,
    context: &mut WriteContext,
) -> Result<Reply, StoreError> {
    match operation {
        Operation::Command(argv) => run_command(argv, rows, context),
        Operation::Transaction { watched, commands } => {
            for (key, last_change) in watched {
                if !execute::is_unchanged(rows, key, *last_change, context.now_ms)? {
                    return Ok(Reply::NilArray);
                }
            }
            rows.hold(commands.len() * REPLY_BYTES)?;
            let mut replies = Vec::with_capacity(commands.len());
            for argv in commands {
                replies.push(run_command(argv, rows, context)?);
            }
            Ok(Reply::Array(replies))
        }
        Operation::Sweep { limit } => {
            let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
            let removed = execute::sweep(rows, context, limit)?;
            Ok(Reply::Integer(i64::try_from(removed).unwrap_or(i64::MAX)))
        }
        Operation::CopyHash(copy) => execute::copy_hash(copy, rows, context),
        Operation::Document(write) => Ok(execute::write_document(write, rows, context)?.to_reply()),
        // What it ends is the replica's to end: here it has ended, or nobody was followed.
        Operation::Unfollow => Ok(Reply::OK),
        Operation::WithDefaultExpiry { after_ms, operation } => {
            context.default_expiry_ms = Some(context.stamp_ms.saturating_add(*after_ms));
            let reply = run(operation, rows, context);
            context.default_expiry_ms = None;
            reply
        }
    }
}

fn run_command<W: RowsWrite + ?Sized>(
    argv: &Argv,
    rows: &mut W,
    context: &mut WriteContext,
) -> Result<Reply, StoreError> {
    match command::parse(argv) {
        Ok(command) => execute::write(&command, rows, context),
        // A newer version appended it: an answer of this one's own would part it from the others.
        Err(_) if command::since(argv).is_none() => {
            let name = String::from_utf8_lossy(argv.name()).into_owned();
            Err(StoreError::UnknownCommand(name))
        }
        Err(refusal) => Ok(Reply::Error(refusal)),
    }
}

#[cfg(test)]
mod tests;
