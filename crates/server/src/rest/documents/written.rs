//! How the outcome of a write is answered, written straight into the bytes of the answer.

use std::io::Write;

use plimsoll_cluster::{IndexMetadata, WriteResult, Written};

use crate::rest::types::Types;

/// What an update came to: like a write, or nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was written.
    Written(Written),
    /// The document was already so.
    Noop {
        /// Its version.
        version: u64,
        /// Its last change.
        seq_no: u64,
    },
}

impl Outcome {
    /// Elasticsearch's word for it.
    #[must_use]
    pub fn result(&self) -> &'static str {
        match self {
            Self::Noop { .. } => "noop",
            Self::Written(written) => match written.result {
                WriteResult::Created => "created",
                WriteResult::Updated => "updated",
                WriteResult::Deleted => "deleted",
                WriteResult::NotFound => "not_found",
            },
        }
    }

    /// The status of its answer.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self.result() {
            "created" => 201,
            "not_found" => 404,
            _ => 200,
        }
    }
}

/// Writes the fields of an outcome, from `_index` to `_primary_term`, without brackets.
pub fn fields(
    out: &mut Vec<u8>,
    types: Types,
    index: &IndexMetadata,
    id: &str,
    outcome: &Outcome,
    was_refreshed: bool,
) {
    let (version, seq_no) = match outcome {
        Outcome::Written(written) => (written.version, written.seq_no),
        Outcome::Noop { version, seq_no } => (*version, *seq_no),
    };
    address(out, types, &index.name, Some(id));
    let result = outcome.result();
    // Nothing below can fail: the bytes are in memory.
    let _ = write!(out, ",\"_version\":{version},\"result\":\"{result}\"");
    let is_noop = matches!(outcome, Outcome::Noop { .. });
    let (total, successful) = written_copies(outcome);
    if was_refreshed && !is_noop {
        out.extend_from_slice(b",\"forced_refresh\":true");
    }
    let _ = write!(
        out,
        ",\"_shards\":{{\"total\":{total},\"successful\":{successful},\"failed\":0}},\
         \"_seq_no\":{seq_no},\"_primary_term\":1"
    );
}

/// Writes which document is meant: `_index`, `_type` and `_id`, without brackets.
pub fn address(out: &mut Vec<u8>, types: Types, index: &str, id: Option<&str>) {
    out.extend_from_slice(b"\"_index\":");
    text(out, index);
    out.push(b',');
    out.extend_from_slice(types.field().as_bytes());
    out.extend_from_slice(b"\"_id\":");
    match id {
        Some(id) => text(out, id),
        None => out.extend_from_slice(b"null"),
    }
}

/// The copies that a write is for, and those that serve and so have it, or will.
fn written_copies(outcome: &Outcome) -> (u32, u32) {
    match outcome {
        Outcome::Written(written) => written.copies,
        Outcome::Noop { .. } => (0, 0),
    }
}

/// Writes a string as JSON.
pub fn text(out: &mut Vec<u8>, text: &str) {
    let is_plain = |byte: &u8| (0x20..0x7f).contains(byte) && *byte != b'"' && *byte != b'\\';
    if text.as_bytes().iter().all(is_plain) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        let _ = serde_json::to_writer(out, text);
    }
}
