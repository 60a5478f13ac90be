//! What makes a checkpoint outlive a restart of its node: beside its files stands for whom it was made and
//! what is in it. One that is not whole any more is none. And what checkpoints keep on disk that
//! nothing else does.
//!
//! For whom this is done, and how much may be kept, is `source.rs`'s.

use std::io;
use std::path::Path;

use plimsoll_base::Disk;
use plimsoll_log::PartitionId;
use serde::{Deserialize, Serialize};

use super::checkpoint::path_of;
use crate::wire::{CopyListing, PartitionName};

/// The file's name.
const NAME: &str = "kept.json";
/// The longest that is read, bytes: a hundred thousand files take less.
const BYTES_MAX: u64 = 32 << 20;

/// For whom a checkpoint was made, and what is in it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub from: String,
    partition: PartitionName,
    pub listing: CopyListing,
}

impl Kept {
    pub(super) fn new(from: String, partition: PartitionId, listing: CopyListing) -> Self {
        Self { from, partition: partition.into(), listing }
    }

    pub(super) fn partition(&self) -> PartitionId {
        self.partition.into()
    }

    /// Writes it into a checkpoint's folder. Blocks.
    pub(super) fn write(&self, disk: &Disk, folder: &Path) -> io::Result<()> {
        let unfinished = folder.join("kept.new");
        disk.write_new(&unfinished, &serde_json::to_vec(self).map_err(io::Error::other)?)?;
        disk.sync(&unfinished)?;
        disk.rename(&unfinished, &folder.join(NAME))?;
        disk.sync_dir(folder)
    }

    /// What stands in a checkpoint's folder, if all of its files are there. Blocks.
    pub(super) fn read(disk: &Disk, folder: &Path) -> Option<Self> {
        let path = folder.join(NAME);
        if disk.find(&path).ok()?.bytes > BYTES_MAX {
            return None;
        }
        let kept: Self = serde_json::from_slice(&disk.read(&path).ok()?).ok()?;
        let is_there = kept.listing.files.iter().all(|file| {
            let found = path_of(folder, file).and_then(|path| disk.find(&path).ok());
            found.is_some_and(|it| it.is_file() && it.bytes == file.bytes)
        });
        is_there.then_some(kept)
    }
}

/// The bytes of a checkpoint's files that no other name on this disk holds. Blocks.
pub(super) fn own_bytes(disk: &Disk, folder: &Path, listing: &CopyListing) -> u64 {
    let own = |file| {
        let found = disk.find(&path_of(folder, file)?).ok()?;
        (found.names == 1).then_some(found.bytes)
    };
    listing.files.iter().filter_map(own).sum()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::wire::{CopyFile, FileKind};

    #[test]
    fn what_is_whole_is_read_again_and_what_is_not_is_none() {
        let (dir, disk) = (tempfile::tempdir().unwrap(), Disk::of_the_machine());
        let folder = dir.path();
        fs::create_dir(folder.join("rows")).unwrap();
        let file = folder.join("rows").join("1.sst");
        fs::write(&file, b"rows").unwrap();
        let of = |name: &str, bytes| CopyFile {
            kind: FileKind::Rows,
            name: name.to_owned(),
            bytes,
            identity: 7,
            checksum: None,
        };
        let listing = |files| CopyListing { number: 3, format: 1, lsn: 9, indexed: None, files };
        let id = PartitionId { table: 5, ordinal: 1 };
        let kept = |files| Kept::new("them:n".to_owned(), id, listing(files));
        assert_eq!(Kept::read(&disk, folder), None);
        kept(vec![of("1.sst", 4)]).write(&disk, folder).unwrap();
        assert_eq!(Kept::read(&disk, folder), Some(kept(vec![of("1.sst", 4)])));
        assert_eq!(Kept::read(&disk, folder).unwrap().partition(), id);
        let whole = listing(vec![of("1.sst", 4)]);
        assert_eq!(own_bytes(&disk, folder, &whole), 4);
        fs::hard_link(&file, folder.join("other")).unwrap();
        assert_eq!(own_bytes(&disk, folder, &whole), 0, "the store has it too");
        for wrong in [of("1.sst", 5), of("2.sst", 4), of("../rows/1.sst", 4), of("", 4)] {
            kept(vec![of("1.sst", 4), wrong]).write(&disk, folder).unwrap();
            assert_eq!(Kept::read(&disk, folder), None);
        }
        fs::write(folder.join(NAME), b"{").unwrap();
        assert_eq!(Kept::read(&disk, folder), None);
    }
}
