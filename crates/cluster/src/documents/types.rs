//! What documents and indices are made of, as the front ends give and take them.

use std::collections::BTreeMap;

use bytes::Bytes;
use plimsoll_storage::operation::Condition;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What an index is created with.
#[derive(Clone, Debug, Default)]
pub struct IndexBody {
    /// Settings by their full names (`index.number_of_shards`), checked by whoever gives them.
    pub settings: Map<String, Value>,
    /// The mapping's body; `{}` for none.
    pub mappings: Value,
    /// Aliases as in [`IndexMetadata::aliases`].
    pub aliases: BTreeMap<String, Map<String, Value>>,
}

/// A change of aliases; several happen together or not at all.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum AliasAction {
    /// Gives an index another name, or changes what it was given.
    Add {
        /// The index.
        index: String,
        /// The alias.
        alias: String,
        /// What it is given.
        body: Map<String, Value>,
    },
    /// Takes a name away.
    Remove {
        /// The index.
        index: String,
        /// The alias.
        alias: String,
    },
    /// Deletes an index.
    RemoveIndex {
        /// The index.
        index: String,
    },
}

/// A document as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Its bytes as they were sent.
    pub source: Bytes,
    /// 1 for a new document, one more at each change.
    pub version: u64,
    /// The number of its last change within the partition, from 0.
    pub seq_no: u64,
}

/// What is done to a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// Puts it, whether it is there or not.
    Index,
    /// Puts it where it is not there.
    Create,
    /// Takes it away.
    Delete,
}

/// One change of one document.
#[derive(Clone, Debug)]
pub struct WriteRequest {
    /// 1 to 512 bytes.
    pub id: String,
    /// What chooses its partition; the id where none is given.
    pub routing: Option<String>,
    /// What is done.
    pub action: WriteKind,
    /// The document; empty for a deletion.
    pub source: Bytes,
    /// On what it depends.
    pub condition: Condition,
}

/// What became of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// It is new.
    Created,
    /// It was there before.
    Updated,
    /// It is gone.
    Deleted,
    /// There was nothing to delete.
    NotFound,
}

/// The outcome of a write that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// What became of the document.
    pub result: WriteResult,
    /// Its version after the write.
    pub version: u64,
    /// The number of the change within the partition, from 0.
    pub seq_no: u64,
    /// The ordinal of its partition.
    pub partition: u32,
    /// How many copies of the partition are wanted, and how many serve.
    pub copies: (u32, u32),
}
