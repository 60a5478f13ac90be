//! Tantivy's `meta.json` as far as it is read and changed here, and what each commit carries:
//! the position and the slots.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tantivy::schema::Schema;
use xxhash_rust::xxh3::xxh3_64;

use super::IndexError;
use super::layout::SlotEntry;

/// The files that every segment has.
const PARTS: [&str; 6] = ["fieldnorm", "term", "idx", "pos", "fast", "store"];
/// The version of [`Payload`] and of how documents become fields.
const VERSION: u32 = 1;

/// The length of what [`sealed`] adds: a line break and a checksum in hexadecimal digits.
const SEAL_BYTES: usize = 17;

/// A `meta.json` as it is written to the disk: with a checksum of it after a line break.
pub(super) fn sealed(meta: &[u8]) -> Vec<u8> {
    let mut sealed = meta.to_vec();
    sealed.extend_from_slice(format!("\n{:016x}", xxh3_64(meta)).as_bytes());
    sealed
}

/// The `meta.json` of what was read from the disk. One that has no checksum is of a time before
/// there was one.
pub(super) fn unsealed(read: &[u8]) -> Result<Vec<u8>, IndexError> {
    if read.last() == Some(&b'}') {
        return Ok(read.to_vec());
    }
    let at = read.len().saturating_sub(SEAL_BYTES);
    let meta = read.get(..at).unwrap_or_default();
    if sealed(meta) == read {
        return Ok(meta.to_vec());
    }
    Err(IndexError::Corrupt("meta.json: its checksum is wrong".to_owned()))
}

/// What a commit carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Payload {
    version: u32,
    /// What the owner gave to the refresh.
    pub position: u64,
    /// Whether there ever was a document whose key is not its id.
    pub routed: bool,
    pub slots: Vec<SlotEntry>,
}

impl Payload {
    pub fn new(position: u64, routed: bool, slots: &[SlotEntry]) -> Self {
        Self { version: VERSION, position, routed, slots: slots.to_vec() }
    }

    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The payload of a `meta.json`.
    pub fn of(meta: &[u8]) -> Result<Self, IndexError> {
        let meta = parse(meta)?;
        let text = meta.get("payload").and_then(Value::as_str).unwrap_or_default();
        let payload: Self = serde_json::from_str(text)
            .map_err(|error| IndexError::Corrupt(format!("payload: {error}")))?;
        if payload.version != VERSION {
            return Err(IndexError::NeedsRebuild);
        }
        Ok(payload)
    }
}

/// A segment that a `meta.json` names.
pub(super) struct Segment {
    /// The start of its files' names.
    pub name: String,
    /// How many documents it has, the deleted ones too.
    pub docs: u64,
    deleted_at: Option<u64>,
}

/// The segments that a `meta.json` names.
pub(super) fn segments(meta: &[u8]) -> Result<Vec<Segment>, IndexError> {
    let meta = parse(meta)?;
    let segments = meta.get("segments").and_then(Value::as_array);
    let segments = segments.ok_or_else(|| IndexError::Corrupt("no segments".to_owned()))?;
    segments
        .iter()
        .map(|segment| {
            let name = segment.get("segment_id").and_then(Value::as_str);
            let docs = segment.get("max_doc").and_then(Value::as_u64);
            let deleted_at = segment.pointer("/deletes/opstamp").and_then(Value::as_u64);
            match (name, docs) {
                (Some(name), Some(docs)) => {
                    Ok(Segment { name: name.replace('-', ""), docs, deleted_at })
                }
                _ => Err(IndexError::Corrupt("a segment has no id".to_owned())),
            }
        })
        .collect()
}

/// The number of the last operation that a `meta.json` has.
pub(super) fn operations(meta: &[u8]) -> Result<Option<u64>, IndexError> {
    Ok(parse(meta)?.get("opstamp").and_then(Value::as_u64))
}

/// The files that a `meta.json` names.
pub(super) fn files(meta: &[u8]) -> Result<BTreeSet<PathBuf>, IndexError> {
    let mut files = BTreeSet::new();
    for segment in segments(meta)? {
        for part in PARTS {
            files.insert(PathBuf::from(format!("{}.{part}", segment.name)));
        }
        if let Some(deleted_at) = segment.deleted_at {
            files.insert(PathBuf::from(format!("{}.{deleted_at}.del", segment.name)));
        }
    }
    Ok(files)
}

/// A `meta.json` with another payload, and another schema where one is given.
pub(super) fn changed(
    meta: &[u8],
    payload: &Payload,
    schema: Option<&Schema>,
) -> Result<Vec<u8>, IndexError> {
    let mut meta = parse(meta)?;
    if let Value::Object(meta) = &mut meta {
        meta.insert("payload".to_owned(), Value::from(payload.to_text()));
        if let Some(schema) = schema {
            let schema = serde_json::to_value(schema)
                .map_err(|error| IndexError::Corrupt(format!("schema: {error}")))?;
            meta.insert("schema".to_owned(), schema);
        }
    }
    serde_json::to_vec(&meta).map_err(|error| IndexError::Corrupt(error.to_string()))
}

/// A `meta.json` with its segments in another order: for each place, where the segment is now.
pub(super) fn reordered(meta: &[u8], order: &[usize]) -> Result<Vec<u8>, IndexError> {
    let mut meta = parse(meta)?;
    if let Some(segments) = meta.get_mut("segments").and_then(Value::as_array_mut) {
        let ordered = order.iter().filter_map(|&at| segments.get(at).cloned()).collect();
        *segments = ordered;
    }
    serde_json::to_vec(&meta).map_err(|error| IndexError::Corrupt(error.to_string()))
}

fn parse(meta: &[u8]) -> Result<Value, IndexError> {
    serde_json::from_slice(meta).map_err(|error| IndexError::Corrupt(format!("meta.json: {error}")))
}
