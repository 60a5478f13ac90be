//! Chunks become files: written in order, so that a file's length says how much of it is there,
//! and given their names once they are whole, right and durable.
//!
//! A part is named by what it is to become and by that file's identity at its source, so that it is
//! never gone on with as another file of the same name. What it should be is known with its last
//! chunk.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use plimsoll_base::Disk;
use plimsoll_base::disk::DiskFile;
use plimsoll_base::tasks::Spawned;
use plimsoll_storage::partition::Checksum;

use super::folders::Folders;
use super::progress::Recovery;
use crate::wire::CopyFile;

/// What a part's name ends in.
const PART: &str = ".part";

/// A file of which not all is there.
pub(super) struct Part {
    disk: Disk,
    path: PathBuf,
    file: DiskFile,
    checksum: Checksum,
    bytes: u64,
}

/// The name of a file's part.
pub(super) fn part_name(file: &CopyFile) -> String {
    format!("{}-{:016x}{PART}", file.name, file.identity)
}

impl Part {
    /// Opens it where it is, or makes an empty one, and reads what is there. Blocks.
    pub(super) fn open(disk: &Disk, dir: &Path, file: &CopyFile) -> io::Result<Self> {
        let path = dir.join(part_name(file));
        let opened = disk.open_to_write(&path)?;
        let mut checksum = Checksum::default();
        let bytes = checksum.read(&opened)?;
        Ok(Self { disk: disk.clone(), path, file: opened, checksum, bytes })
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.bytes)?;
        self.checksum.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Makes it the file where it is whole and has this checksum, durable but for its name. Where it
    /// is wrong, or nothing says what is right, it is deleted. Says which. Blocks.
    pub(super) fn finish(
        self,
        dir: &Path,
        file: &CopyFile,
        checksum: Option<u64>,
    ) -> io::Result<bool> {
        let is_right = self.bytes == file.bytes && Some(self.checksum.value()) == checksum;
        if is_right {
            self.file.sync()?;
            self.disk.rename(&self.path, &dir.join(&file.name))?;
        } else {
            self.disk.remove(&self.path)?;
        }
        Ok(is_right)
    }
}

/// The files of one transfer.
pub(super) struct Intake {
    folders: Folders,
    files: Vec<Receiving>,
    writes: FuturesUnordered<Spawned<(usize, io::Result<Written>)>>,
    recovery: Arc<Recovery>,
}

struct Receiving {
    file: Arc<CopyFile>,
    /// What all of it should have: known from the listing, or with the last chunk.
    checksum: Option<u64>,
    state: PartState,
    /// How much was written, or is being.
    given: u64,
    /// Chunks that are here before those that they follow, by offset.
    early: BTreeMap<u64, Vec<u8>>,
}

enum PartState {
    /// Not opened since the transfer began.
    Closed,
    Open(Box<Part>),
    Writing,
    Whole,
}

/// What a thread has done.
struct Written {
    bytes: u64,
    chunks: usize,
    outcome: Outcome,
}

enum Outcome {
    More(Box<Part>),
    Whole,
    Wrong,
}

/// Bytes have been written.
pub(super) struct Stored {
    /// Which file, by its place in the listing.
    pub index: usize,
    pub bytes: u64,
    /// How many chunks that were.
    pub chunks: usize,
    /// All of the file was there and was wrong: it begins anew.
    pub is_wrong: bool,
}

impl Intake {
    /// Files to be gathered in the incoming folder, each with how much of it is there.
    pub(super) fn new(
        folders: &Folders,
        files: impl Iterator<Item = (CopyFile, u64)>,
        recovery: &Arc<Recovery>,
    ) -> Self {
        let receiving = |(file, there): (CopyFile, u64)| {
            let state = if there == file.bytes { PartState::Whole } else { PartState::Closed };
            let (checksum, early) = (file.checksum, BTreeMap::new());
            Receiving { file: Arc::new(file), checksum, state, given: there, early }
        };
        Self {
            folders: folders.clone(),
            files: files.map(receiving).collect(),
            writes: FuturesUnordered::new(),
            recovery: Arc::clone(recovery),
        }
    }

    /// A file, by its place in the listing.
    pub(super) fn file(&self, index: usize) -> &Arc<CopyFile> {
        &self.files[index].file
    }

    /// Takes a chunk in, which was asked for once, with the file's checksum where it is the last.
    pub(super) fn take(
        &mut self,
        index: usize,
        offset: u64,
        bytes: Vec<u8>,
        checksum: Option<u64>,
    ) {
        let receiving = &mut self.files[index];
        receiving.checksum = checksum.or(receiving.checksum);
        receiving.early.insert(offset, bytes);
        self.write(index);
    }

    /// Whether anything is being written.
    pub(super) fn is_writing(&self) -> bool {
        !self.writes.is_empty()
    }

    /// The files that are whole.
    pub(super) fn whole(&self) -> impl Iterator<Item = &Arc<CopyFile>> {
        let whole = self.files.iter().filter(|it| matches!(it.state, PartState::Whole));
        whole.map(|it| &it.file)
    }

    /// Waits for the next write to end; `None` where there is none.
    pub(super) async fn next(&mut self) -> Option<io::Result<Stored>> {
        let (index, written) = match self.writes.next().await? {
            Ok((index, Ok(written))) => (index, written),
            Ok((_, Err(error))) => return Some(Err(error)),
            Err(error) => return Some(Err(io::Error::other(error))),
        };
        let receiving = &mut self.files[index];
        let Written { bytes, chunks, .. } = written;
        self.recovery.stored(bytes, matches!(written.outcome, Outcome::Whole));
        let is_wrong = matches!(written.outcome, Outcome::Wrong);
        match written.outcome {
            Outcome::More(part) => {
                receiving.state = PartState::Open(part);
                self.write(index);
            }
            Outcome::Whole => receiving.state = PartState::Whole,
            Outcome::Wrong => {
                (receiving.state, receiving.given) = (PartState::Closed, 0);
                receiving.checksum = receiving.file.checksum;
                self.recovery.undone(&receiving.file);
            }
        }
        Some(Ok(Stored { index, bytes, chunks, is_wrong }))
    }

    /// Has what follows the end of a file written, unless something is.
    fn write(&mut self, index: usize) {
        let receiving = &mut self.files[index];
        let mut chunks = Vec::new();
        if matches!(receiving.state, PartState::Closed | PartState::Open(_)) {
            while let Some(bytes) = receiving.early.remove(&receiving.given) {
                receiving.given += bytes.len() as u64;
                chunks.push(bytes);
            }
        }
        if chunks.is_empty() {
            return;
        }
        let state = std::mem::replace(&mut receiving.state, PartState::Writing);
        let dir = self.folders.incoming_of(receiving.file.kind);
        let (file, checksum) = (Arc::clone(&receiving.file), receiving.checksum);
        // Held until it has ended, whoever waits: nobody else may write there before.
        let (recovery, disk) = (Arc::clone(&self.recovery), self.folders.disk.clone());
        self.writes.push(self.recovery.world.tasks.begin_blocking("write chunks", move || {
            let part = match state {
                PartState::Open(part) => Ok(part),
                _ => Part::open(&disk, &dir, &file).map(Box::new),
            };
            let written = part.and_then(|part| store(part, &dir, &file, checksum, &chunks));
            drop(recovery);
            (index, written)
        }));
    }
}

fn store(
    mut part: Box<Part>,
    dir: &Path,
    file: &CopyFile,
    checksum: Option<u64>,
    chunks: &[Vec<u8>],
) -> io::Result<Written> {
    let mut bytes = 0;
    for chunk in chunks {
        part.append(chunk)?;
        bytes += chunk.len() as u64;
    }
    let outcome = if part.bytes < file.bytes {
        Outcome::More(part)
    } else if part.finish(dir, file, checksum)? {
        Outcome::Whole
    } else {
        Outcome::Wrong
    };
    Ok(Written { bytes, chunks: chunks.len(), outcome })
}
