//! What is told of a file or a folder without reading it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// What stands under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundKind {
    /// A file.
    File,
    /// A folder.
    Dir,
    /// What is neither.
    Other,
}

/// What is told of a file or a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub kind: FoundKind,
    /// How long a file is.
    pub bytes: u64,
    /// How many names a file has.
    pub names: u64,
    /// Tells a file as it is now from every other that was ever written on the machine, and from what it was
    /// before it was written to. All of its names share it.
    pub identity: [u64; 5],
}

impl Found {
    /// Whether it is a file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.kind == FoundKind::File
    }

    pub(super) fn of_the_machine(found: &Metadata) -> Self {
        let modified = [found.mtime().cast_unsigned(), found.mtime_nsec().cast_unsigned()];
        let kind = match () {
            () if found.is_file() => FoundKind::File,
            () if found.is_dir() => FoundKind::Dir,
            () => FoundKind::Other,
        };
        Self {
            kind,
            bytes: found.len(),
            names: found.nlink(),
            identity: [found.dev(), found.ino(), found.len(), modified[0], modified[1]],
        }
    }
}
