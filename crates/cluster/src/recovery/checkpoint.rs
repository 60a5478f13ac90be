//! One checkpoint: hard links to the files of a partition in a folder of its own, of its rows and of
//! the index over them, and their bytes.
//!
//! | folder | what |
//! |---|---|
//! | `out-<number>` | all of it |
//! | `out-<number>/rows` | the store's checkpoint |
//! | `out-<number>/index` | the index as it was persisted just before, where there is one |
//! | `out-<number>/kept.json` | for whom it is kept over a restart ([`super::kept`]) |
//!
//! For whom it is made, and for how long it is kept, is `source.rs`'s.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_base::disk::{DiskFile, Found};
use plimsoll_base::time::Instant;
use plimsoll_base::{Disk, World};
use plimsoll_storage::partition::{Store, position_of};
use plimsoll_storage::rows::StoreError;

use super::hashing::{Hashing, Known, identity};
use super::packing;
use crate::replication::index::DocumentsIndex;
use crate::wire::{CheckpointFile, CheckpointListing, CopyFile, CopyListing, FileKind};

/// What the folders of checkpoints are called before their numbers.
pub(super) const PREFIX: &str = "out-";

/// What a checkpoint is made of.
pub(crate) struct Subject {
    pub store: Store,
    /// Of a table of documents.
    pub index: Option<Arc<dyn DocumentsIndex>>,
}

/// Why a checkpoint is not made.
#[derive(Debug, thiserror::Error)]
pub(super) enum CheckpointError {
    /// The rows cannot be read, flushed or linked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The folder cannot be made, or the files in it cannot be listed.
    #[error(transparent)]
    Disk(#[from] io::Error),
    /// The rows bear no stamp.
    #[error("nothing says yet where its rows are in the log")]
    Unplaced,
    /// The index did not ask for the rows, which is a fault of ours.
    #[error("the index had no checkpoint made of its rows")]
    NoRows,
    /// Whoever made it ended halfway.
    #[error("its making was given up")]
    GivenUp,
}

/// A checkpoint that is kept for as long as somebody reads in it.
pub(super) struct Checkpoint {
    folder: Folder,
    pub made_at: Instant,
    pub listing: CopyListing,
    /// Of each file.
    hashing: Vec<Hashing>,
    /// What is known of how its files shrink.
    pub shrinking: packing::Known,
}

/// A folder that is deleted with the last who reads in it, unless it is to outlive this run.
struct Folder {
    disk: Disk,
    path: PathBuf,
    outlives: AtomicBool,
}

impl Folder {
    fn new(disk: &Disk, path: PathBuf) -> Self {
        Self { disk: disk.clone(), path, outlives: AtomicBool::new(false) }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.outlives.load(Ordering::Relaxed)
            && let Err(error) = self.disk.remove_dir(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            let folder = self.path.display();
            tracing::warn!(%folder, %error, "a checkpoint cannot be deleted");
        }
    }
}

/// Where the files of a kind are in a checkpoint's folder.
fn folder_of(folder: &Path, kind: FileKind) -> PathBuf {
    folder.join(match kind {
        FileKind::Rows => "rows",
        FileKind::Index => "index",
    })
}

/// Where a file of a checkpoint is; none where its name is no file's in there.
pub(super) fn path_of(folder: &Path, file: &CopyFile) -> Option<PathBuf> {
    let is_name = Path::new(&file.name).file_name().is_some_and(|name| name == file.name.as_str());
    is_name.then(|| folder_of(folder, file.kind).join(&file.name))
}

impl Checkpoint {
    /// One that an earlier run made and kept.
    pub(super) fn kept(
        world: &World,
        folder: PathBuf,
        listing: CopyListing,
        known: &Arc<Known>,
    ) -> Self {
        let hashing = |file: &CopyFile| Hashing::new(file.bytes, file.identity, known);
        let hashing = listing.files.iter().map(hashing).collect();
        let (folder, shrinking) = (Folder::new(&world.disk, folder), packing::unknown());
        Self { folder, made_at: world.time.now(), listing, hashing, shrinking }
    }

    /// Where it is.
    pub(super) fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// Has its files stay when this run of the node ends.
    pub(super) fn outlive(&self) {
        self.folder.outlives.store(true, Ordering::Relaxed);
    }

    /// Makes one in a folder of its own. No file is read. Blocks.
    pub(super) fn make(
        world: &World,
        dir: &Path,
        number: u64,
        subject: &Subject,
        known: &Arc<Known>,
    ) -> Result<Self, CheckpointError> {
        let disk = &world.disk;
        let folder = Folder::new(disk, dir.join(format!("{PREFIX}{number}")));
        // Read before: what is applied meanwhile may be in the checkpoint as well.
        let store = &subject.store;
        let position = store.snapshot().and_then(|rows| position_of(&rows))?;
        let lsn = position.ok_or(CheckpointError::Unplaced)?.lsn.0;
        disk.create_dir(&folder.path)?;
        let rows = folder_of(&folder.path, FileKind::Rows);
        let index = folder_of(&folder.path, FileKind::Index);
        let (indexed, made) = match &subject.index {
            Some(own) => {
                // So that little is left for the checkpoint, during which nobody refreshes.
                store.flush()?;
                let mut made = None;
                let indexed = own.checkpoint(&index, &mut || made = Some(store.checkpoint(&rows)));
                (indexed, made.ok_or(CheckpointError::NoRows)?)
            }
            None => (None, store.checkpoint(&rows)),
        };
        made?;
        let mut files = list(disk, &rows, FileKind::Rows)?;
        if indexed.is_some() {
            files.extend(list(disk, &index, FileKind::Index)?);
        }
        let hashing = |file: &CopyFile| Hashing::new(file.bytes, file.identity, known);
        let hashing: Vec<Hashing> = files.iter().map(hashing).collect();
        for (file, hashing) in files.iter_mut().zip(&hashing) {
            file.checksum = hashing.ready();
        }
        let indexed = indexed.map(|position| position.0);
        // After the files were made, as it only rises.
        let format = store.format();
        let listing = CopyListing { number, format, lsn, indexed, files };
        let shrinking = packing::unknown();
        Ok(Self { folder, made_at: world.time.now(), listing, hashing, shrinking })
    }

    /// How long the file is that has this place in the listing; `None` where there is none.
    pub(super) fn bytes(&self, file: usize) -> Option<u64> {
        self.listing.files.get(file).map(|file| file.bytes)
    }

    /// The place of a file of the rows in the listing.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        let files = &self.listing.files;
        let key = (FileKind::Rows, name);
        files.binary_search_by(|file| (file.kind, file.name.as_str()).cmp(&key)).ok()
    }

    /// Bytes of a file, with the checksum of all of it where they are its last. Blocks.
    pub(super) fn read(
        &self,
        file: usize,
        offset: u64,
        bytes: u64,
    ) -> io::Result<(Vec<u8>, Option<u64>)> {
        let opened = self.open(file)?;
        let mut buffer = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
        opened.read_exact_at(&mut buffer, offset)?;
        let hashing = &self.hashing[file];
        hashing.take(&opened, offset, &buffer)?;
        let is_last = offset + bytes == self.listing.files[file].bytes;
        let checksum = is_last.then(|| hashing.finish(&opened)).transpose()?;
        Ok((buffer, checksum))
    }

    /// The checksum of a file, which is read where no chunk of it was. Blocks.
    pub(super) fn checksum(&self, file: usize) -> io::Result<u64> {
        match self.hashing[file].ready() {
            Some(checksum) => Ok(checksum),
            None => self.hashing[file].finish(&self.open(file)?),
        }
    }

    /// What a node is given that knows no other form: the rows, with all checksums. Reads every
    /// file; blocks.
    pub(super) fn plain(&self) -> io::Result<CheckpointListing> {
        let CopyListing { number, format, lsn, .. } = self.listing;
        let rows = self.listing.files.iter().enumerate();
        let rows = rows.filter(|(_, file)| file.kind == FileKind::Rows);
        let plain = rows.map(|(at, CopyFile { name, bytes, .. })| {
            let checksum = self.checksum(at)?;
            Ok(CheckpointFile { name: name.clone(), bytes: *bytes, checksum })
        });
        Ok(CheckpointListing { number, format, lsn, files: plain.collect::<io::Result<_>>()? })
    }

    fn open(&self, file: usize) -> io::Result<DiskFile> {
        let CopyFile { kind, name, .. } = &self.listing.files[file];
        self.folder.disk.open(&folder_of(&self.folder.path, *kind).join(name))
    }
}

/// The files in a folder, by name.
fn list(disk: &Disk, dir: &Path, kind: FileKind) -> io::Result<Vec<CopyFile>> {
    let file = |(name, found): (PathBuf, Found)| {
        let name = name.into_os_string().into_string();
        let name = name.map_err(|_| io::Error::other("a file's name is not text"))?;
        let (bytes, identity) = (found.bytes, identity(&found));
        Ok(CopyFile { kind, name, bytes, identity, checksum: None })
    };
    disk.find_in(dir)?.into_iter().map(file).collect()
}
