//! What a node says of the files that another copies from it: their names, lengths and checksums.
//! Their bytes go in chunks (`messages.rs`).
//!
//! There are two forms. A [`CopyListing`] is given at once: the checksum of a file comes with its
//! last chunk, and a listing may hold files of the index too. A [`CheckpointListing`] is what nodes
//! ask for that know no other: every file is read before it is given, and it has rows alone.

use plimsoll_storage::partition::Checksum;
use serde::{Deserialize, Serialize};

/// A file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct CheckpointFile {
    /// Its name in the checkpoint, which has no folders.
    pub name: String,
    pub bytes: u64,
    /// XXH3-64 of all its bytes.
    pub checksum: u64,
}

/// What a checkpoint is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckpointListing {
    /// What it is asked for by.
    pub number: u64,
    /// What its rows are written in: a store's format.
    pub format: u8,
    /// It contains the log at least up to here.
    pub lsn: u64,
    pub files: Vec<CheckpointFile>,
}

impl CheckpointListing {
    /// XXH3-64 of its bytes in a message.
    pub(crate) fn checksum(&self) -> u64 {
        checksum_of(self)
    }
}

/// What a file is part of: where the copying node puts it. The order is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum FileKind {
    /// The rows.
    Rows,
    /// The index over them.
    Index,
}

/// A file that is copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CopyFile {
    pub kind: FileKind,
    /// Its name among the files of its kind, which has no folders.
    pub name: String,
    pub bytes: u64,
    /// Another for every file that the source ever wrote, and the same in every checkpoint that the
    /// file is in: a part of it is gone on with only where this is the same.
    pub identity: u64,
    /// XXH3-64 of all its bytes, where the source knows it already.
    pub checksum: Option<u64>,
}

/// What is copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CopyListing {
    /// What it is asked for by.
    pub number: u64,
    /// What its rows are written in: a store's format.
    pub format: u8,
    /// It contains the log at least up to here.
    pub lsn: u64,
    /// Up to where the index has the rows' documents, where files of it are listed; what was touched
    /// later is noted in the rows.
    pub indexed: Option<u64>,
    /// By kind and name.
    pub files: Vec<CopyFile>,
}

impl CopyListing {
    /// XXH3-64 of its bytes in a message.
    pub(crate) fn checksum(&self) -> u64 {
        checksum_of(self)
    }
}

/// How a chunk may be compressed. The order is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Packing {
    /// By zstd where that pays, at the level that the source chooses.
    Measured {
        /// What the way between the two carries now.
        link_bytes_s: u64,
    },
    /// Always, by deflate.
    Deflate,
}

/// What the bytes of a chunk are. The order is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Encoding {
    /// Those of the file.
    Plain,
    /// One frame of zstd (RFC 8878).
    Zstd,
    /// Deflate (RFC 1951).
    Deflate,
}

impl From<CheckpointListing> for CopyListing {
    fn from(listing: CheckpointListing) -> Self {
        let CheckpointListing { number, format, lsn, files } = listing;
        let files = files.into_iter().map(|CheckpointFile { name, bytes, checksum }| CopyFile {
            kind: FileKind::Rows,
            name,
            bytes,
            // Equal files are as good as one file.
            identity: checksum,
            checksum: Some(checksum),
        });
        Self { number, format, lsn, indexed: None, files: files.collect() }
    }
}

/// XXH3-64 of a chunk and of the checksum that goes with it: none of the two is taken where either
/// was damaged on the way.
pub(crate) fn chunk_checksum(bytes: &[u8], file_checksum: Option<u64>) -> u64 {
    let mut checksum = Checksum::default();
    checksum.update(bytes);
    if let Some(file_checksum) = file_checksum {
        checksum.update(&file_checksum.to_le_bytes());
    }
    checksum.value()
}

/// XXH3-64 of what has a form in messages.
pub(crate) fn checksum_of(value: &impl Serialize) -> u64 {
    Checksum::of(&postcard::to_allocvec(value).expect("messages are plain data"))
}
