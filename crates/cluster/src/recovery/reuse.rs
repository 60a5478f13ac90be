//! What of a checkpoint need not be asked for: files and parts of files that an earlier attempt
//! has left, and files of the replica and index that the copy is to take the place of.
//!
//! A file is reused after all of it was read and compared, whatever it is called: a replica that
//! was copied once shares most of its files with the one that it was copied from. The source tells
//! the checksums of those files alone that something is here to be compared with, so that a copy
//! into an empty folder begins at once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use plimsoll_base::Disk;
use plimsoll_base::disk::{Found, FoundKind};
use plimsoll_storage::partition::Checksum;

use super::folders::{Folders, INDEX};
use super::intake::{Part, part_name};
use crate::wire::{CopyFile, FileKind};

/// What the store writes once and never again: such a file may have two names.
const WRITTEN_ONCE: &str = ".sst";
/// What of an index is not written once; its other files are.
const INDEX_META: &str = "meta.json";

/// Files that this attempt has compared, or copied whole.
#[derive(Clone, Default)]
pub(super) struct Verified(HashSet<(FileKind, String, u64)>);

impl Verified {
    pub(super) fn add(&mut self, file: &CopyFile) {
        self.0.insert((file.kind, file.name.clone(), file.identity));
    }

    fn has(&self, file: &CopyFile) -> bool {
        self.0.contains(&(file.kind, file.name.clone(), file.identity))
    }
}

/// The places in the listing of files whose checksum is not known, and that something is here to be
/// compared with. Blocks.
pub(super) fn in_question(
    folders: &Folders,
    files: &[CopyFile],
    verified: &Verified,
) -> io::Result<Vec<usize>> {
    let disk = &folders.disk;
    let mut lengths: HashMap<FileKind, HashSet<u64>> = HashMap::new();
    for kind in [FileKind::Rows, FileKind::Index] {
        let found = lengths.entry(kind).or_default();
        let files = entries(disk, folders.old(kind))?.into_iter();
        found.extend(files.filter_map(|entry| entry.file_bytes()));
    }
    let is_in_question = |file: &CopyFile| {
        if file.checksum.is_some() || file.bytes == 0 {
            return false;
        }
        let dir = folders.incoming_of(file.kind);
        let is_long =
            |name: &str| disk.find(&dir.join(name)).is_ok_and(|found| found.bytes == file.bytes);
        if is_long(&file.name) {
            return !verified.has(file);
        }
        is_long(&part_name(file)) || lengths[&file.kind].contains(&file.bytes)
    };
    let places = files.iter().enumerate().filter(|(_, file)| is_in_question(file));
    Ok(places.map(|(at, _)| at).collect())
}

/// Readies the incoming folder for these files, and says of each how much is there: all of it
/// where it is whole, compared and durable but for its name. What belongs to none is deleted.
/// Blocks.
pub(super) fn prepare(
    folders: &Folders,
    files: &[CopyFile],
    verified: &Verified,
) -> io::Result<Vec<u64>> {
    let disk = &folders.disk;
    disk.create_dir(&folders.incoming)?;
    if let Some(parent) = folders.incoming.parent() {
        disk.sync_dir(parent)?;
    }
    let mut there = vec![None; files.len()];
    for kind in [FileKind::Rows, FileKind::Index] {
        let of_kind: Vec<usize> = (0..files.len()).filter(|at| files[*at].kind == kind).collect();
        let dir = &folders.incoming_of(kind);
        if !of_kind.is_empty() {
            disk.create_dir(dir)?;
        }
        sort_out((disk, dir), files, &of_kind, verified, &mut there)?;
        reuse(folders.old(kind), (disk, dir), files, &of_kind, &mut there)?;
    }
    for (file, there) in files.iter().zip(&mut there) {
        let dir = folders.incoming_of(file.kind);
        // A part of full length may be left where nothing was to follow; an empty file is one.
        if there.unwrap_or(0) == file.bytes && !is_there(disk, &dir.join(&file.name))? {
            let checksum = file.checksum.or((file.bytes == 0).then(|| Checksum::of(b"")));
            let is_right = Part::open(disk, &dir, file)?.finish(&dir, file, checksum)?;
            *there = is_right.then_some(file.bytes);
        }
    }
    Ok(there.into_iter().map(|there| there.unwrap_or(0)).collect())
}

/// Sees to it that the incoming folder holds these files and no other, and makes their names
/// durable. Blocks.
pub(super) fn complete(folders: &Folders, files: &[CopyFile]) -> io::Result<()> {
    let disk = &folders.disk;
    // The index' folder first: its name is in that of the rows.
    for kind in [FileKind::Index, FileKind::Rows] {
        let dir = folders.incoming_of(kind);
        let of_kind = files.iter().filter(|file| file.kind == kind);
        let mut missing: BTreeMap<&str, u64> =
            of_kind.map(|file| (file.name.as_str(), file.bytes)).collect();
        if missing.is_empty() {
            continue;
        }
        let keeps_index = files.iter().any(|file| file.kind == FileKind::Index);
        for entry in entries(disk, &dir)? {
            if kind == FileKind::Rows && keeps_index && entry.name() == INDEX {
                continue;
            }
            let expected = missing.remove(entry.name());
            if expected.is_none() {
                entry.remove(disk)?;
            } else if expected != entry.file_bytes() {
                return Err(io::Error::other(format!("{} has changed", entry.path.display())));
            }
        }
        if let Some(name) = missing.keys().next() {
            return Err(io::Error::other(format!("{} is gone", dir.join(name).display())));
        }
        disk.sync_dir(&dir)?;
    }
    Ok(())
}

/// Goes through what is in the incoming folder of a kind.
fn sort_out(
    (disk, dir): (&Disk, &Path),
    files: &[CopyFile],
    of_kind: &[usize],
    verified: &Verified,
    there: &mut [Option<u64>],
) -> io::Result<()> {
    let kind = of_kind.first().map(|at| files[*at].kind);
    let keeps_index = files.iter().any(|file| file.kind == FileKind::Index);
    let by_name: HashMap<&str, usize> =
        of_kind.iter().map(|at| (files[*at].name.as_str(), *at)).collect();
    let parts: HashMap<String, usize> =
        of_kind.iter().map(|at| (part_name(&files[*at]), *at)).collect();
    for entry in entries(disk, dir)? {
        let (name, bytes) = (entry.name(), entry.file_bytes());
        let is_kept = if let (Some(index), Some(bytes)) = (by_name.get(name), bytes) {
            let file = &files[*index];
            let is_right = bytes == file.bytes
                && (verified.has(file) || has_checksum(disk, &entry.path, file)?);
            if is_right {
                // Whoever broke off may have done so before it was durable.
                disk.sync(&entry.path)?;
                there[*index] = Some(bytes);
            }
            is_right
        } else if let (Some(index), Some(bytes)) = (parts.get(name), bytes) {
            let fits = bytes <= files[*index].bytes && there[*index].is_none();
            if fits {
                there[*index] = Some(bytes);
            }
            fits
        } else {
            kind == Some(FileKind::Rows) && keeps_index && name == INDEX
        };
        if !is_kept {
            entry.remove(disk)?;
        }
    }
    Ok(())
}

/// Whether a file has the checksum that the listed one should have, where that is known.
fn has_checksum(disk: &Disk, path: &Path, file: &CopyFile) -> io::Result<bool> {
    match file.checksum {
        Some(checksum) => Ok(Checksum::of_file(&disk.open(path)?)?.0 == checksum),
        None => Ok(file.bytes == 0),
    }
}

/// Takes what the old replica or index has of what is missing.
fn reuse(
    old: &Path,
    (disk, dir): (&Disk, &Path),
    files: &[CopyFile],
    of_kind: &[usize],
    there: &mut [Option<u64>],
) -> io::Result<()> {
    let mut missing: HashMap<(u64, u64), Vec<usize>> = HashMap::new();
    for index in of_kind {
        let file = &files[*index];
        if let Some(checksum) = file.checksum
            && file.bytes > 0
            && there[*index] != Some(file.bytes)
        {
            missing.entry((file.bytes, checksum)).or_default().push(*index);
        }
    }
    let lengths: HashSet<u64> = missing.keys().map(|(bytes, _)| *bytes).collect();
    for entry in entries(disk, old)? {
        if !entry.file_bytes().is_some_and(|bytes| lengths.contains(&bytes)) {
            continue;
        }
        // What cannot be read, or is deleted by a store that is still open there, is no help.
        let of_file = disk.open(&entry.path).and_then(|file| Checksum::of_file(&file));
        let Ok((checksum, bytes)) = of_file else { continue };
        for index in missing.remove(&(bytes, checksum)).unwrap_or_default() {
            let file = &files[index];
            let is_there = bring(disk, &entry, dir, file)?;
            there[index] = is_there.then_some(file.bytes);
        }
    }
    Ok(())
}

/// Gives a file of the old replica its place in the incoming folder, and says whether it has it.
fn bring(disk: &Disk, entry: &Entry, dir: &Path, file: &CopyFile) -> io::Result<bool> {
    let (from, to) = (&entry.path, dir.join(&file.name));
    let part = dir.join(part_name(file));
    let is_written_once = |name: &str| match file.kind {
        FileKind::Rows => name.ends_with(WRITTEN_ONCE),
        FileKind::Index => name != INDEX_META,
    };
    if is_written_once(entry.name()) && disk.link(from, &to).is_ok() {
        // Another part of it may have been copied before.
        return match disk.remove(&part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(true),
        };
    }
    // The file may be gone or have changed since; what came of it is compared.
    if disk.copy(from, &part).is_err() {
        disk.open_to_write(&part)?.set_length(0)?;
    }
    Part::open(disk, dir, file)?.finish(dir, file, file.checksum)
}

/// What is in a folder.
struct Entry {
    path: PathBuf,
    found: Found,
}

impl Entry {
    /// What it is called; nothing where that is no text, as no file of a listing is called so.
    fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// The length of a file; none of what is none.
    fn file_bytes(&self) -> Option<u64> {
        self.found.is_file().then_some(self.found.bytes)
    }

    fn remove(&self, disk: &Disk) -> io::Result<()> {
        match self.found.kind {
            FoundKind::Dir => disk.remove_dir(&self.path),
            FoundKind::File | FoundKind::Other => disk.remove(&self.path),
        }
    }
}

/// What is in a folder, by name; nothing where it is not there.
fn entries(disk: &Disk, dir: &Path) -> io::Result<Vec<Entry>> {
    match disk.find_in(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => {
            let entry = |(name, found)| Entry { path: dir.join::<PathBuf>(name), found };
            Ok(entries?.into_iter().map(entry).collect())
        }
    }
}

/// Whether anything has that name.
fn is_there(disk: &Disk, path: &Path) -> io::Result<bool> {
    match disk.find(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        found => found.map(|_| true),
    }
}
