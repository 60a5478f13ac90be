//! What of a checkpoint need not be asked for: files and parts of files that an earlier attempt
//! has left, and files of the replica that the copy is to take the place of.
//!
//! A file is reused after all of it was read and compared, whatever it is called: a replica that
//! was copied once shares most of its files with the one that it was copied from.

use std::collections::{HashMap, HashSet};
use std::fs::{DirEntry, File};
use std::io;
use std::path::Path;

use plimsoll_storage::partition::Checksum;

use super::folders::Folders;
use super::intake::{Part, part_name};
use crate::node::sync_dir;
use crate::rpc::CheckpointFile;

/// What the store writes once and never again: such a file may have two names.
const WRITTEN_ONCE: &str = ".sst";

/// Readies the incoming folder for these files, and says of each how much is there: all of it
/// where it is whole, compared and durable but for its name. What belongs to none is deleted.
/// `verified` were compared by this attempt before. Blocks.
pub(super) fn prepare(
    folders: &Folders,
    files: &[CheckpointFile],
    verified: &HashSet<CheckpointFile>,
) -> io::Result<Vec<u64>> {
    let dir = &folders.incoming;
    std::fs::create_dir_all(dir)?;
    if let Some(parent) = dir.parent() {
        sync_dir(parent)?;
    }
    let mut there = vec![None; files.len()];
    sort_out(dir, files, verified, &mut there)?;
    reuse(&folders.replica, dir, files, &mut there)?;
    for (file, there) in files.iter().zip(&mut there) {
        // A part of full length may be left where nothing was to follow; an empty file is one.
        if there.unwrap_or(0) == file.bytes && !dir.join(&file.name).try_exists()? {
            *there = Part::open(dir, file)?.finish(dir, file)?.then_some(file.bytes);
        }
    }
    Ok(there.into_iter().map(|there| there.unwrap_or(0)).collect())
}

/// Sees to it that the incoming folder holds these files and no other, and makes their names
/// durable. Blocks.
pub(super) fn complete(folders: &Folders, files: &[CheckpointFile]) -> io::Result<()> {
    let dir = &folders.incoming;
    let mut missing: HashMap<&str, u64> =
        files.iter().map(|file| (file.name.as_str(), file.bytes)).collect();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let bytes = length(&entry)?;
        let expected = entry.file_name().to_str().and_then(|name| missing.remove(name));
        if expected.is_none() {
            remove(&entry)?;
        } else if expected != bytes {
            return Err(io::Error::other(format!("{} has changed", entry.path().display())));
        }
    }
    if let Some(name) = missing.keys().next() {
        return Err(io::Error::other(format!("{} is gone", dir.join(name).display())));
    }
    sync_dir(dir)
}

/// Goes through what is in the incoming folder.
fn sort_out(
    dir: &Path,
    files: &[CheckpointFile],
    verified: &HashSet<CheckpointFile>,
    there: &mut [Option<u64>],
) -> io::Result<()> {
    let by_name: HashMap<&str, usize> = files.iter().map(|it| it.name.as_str()).zip(0..).collect();
    let parts: HashMap<String, usize> = files.iter().map(part_name).zip(0..).collect();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().unwrap_or("");
        let bytes = length(&entry)?;
        let is_kept = if let (Some(index), Some(bytes)) = (by_name.get(name), bytes) {
            let file = &files[*index];
            let is_right = bytes == file.bytes
                && (verified.contains(file)
                    || Checksum::of_file(&entry.path())?.0 == file.checksum);
            if is_right {
                // Whoever broke off may have done so before it was durable.
                File::open(entry.path())?.sync_all()?;
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
            false
        };
        if !is_kept {
            remove(&entry)?;
        }
    }
    Ok(())
}

/// Takes what the old replica has of what is missing.
fn reuse(
    old: &Path,
    dir: &Path,
    files: &[CheckpointFile],
    there: &mut [Option<u64>],
) -> io::Result<()> {
    let mut missing: HashMap<(u64, u64), Vec<usize>> = HashMap::new();
    for (index, file) in files.iter().enumerate() {
        if file.bytes > 0 && there[index] != Some(file.bytes) {
            missing.entry((file.bytes, file.checksum)).or_default().push(index);
        }
    }
    let lengths: HashSet<u64> = missing.keys().map(|(bytes, _)| *bytes).collect();
    let entries = match std::fs::read_dir(old) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        // What cannot be read, or is deleted by a store that is still open there, is no help.
        let Ok(Some(bytes)) = length(&entry) else { continue };
        if !lengths.contains(&bytes) {
            continue;
        }
        let Ok((checksum, bytes)) = Checksum::of_file(&entry.path()) else { continue };
        for index in missing.remove(&(bytes, checksum)).unwrap_or_default() {
            let file = &files[index];
            let is_there = bring(&entry, dir, file)?;
            there[index] = is_there.then_some(file.bytes);
        }
    }
    Ok(())
}

/// Gives a file of the old replica its place in the incoming folder, and says whether it has it.
fn bring(entry: &DirEntry, dir: &Path, file: &CheckpointFile) -> io::Result<bool> {
    let (from, to) = (entry.path(), dir.join(&file.name));
    let part = dir.join(part_name(file));
    if entry.file_name().to_str().is_some_and(|name| name.ends_with(WRITTEN_ONCE))
        && std::fs::hard_link(&from, &to).is_ok()
    {
        // Another part of it may have been copied before.
        return match std::fs::remove_file(&part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(true),
        };
    }
    // The file may be gone or have changed since; what came of it is compared.
    if std::fs::copy(&from, &part).is_err() {
        File::create(&part)?;
    }
    Part::open(dir, file)?.finish(dir, file)
}

/// The length of a file; `None` of what is none.
fn length(entry: &DirEntry) -> io::Result<Option<u64>> {
    let metadata = entry.metadata()?;
    Ok(metadata.is_file().then_some(metadata.len()))
}

fn remove(entry: &DirEntry) -> io::Result<()> {
    if entry.file_type()?.is_dir() {
        std::fs::remove_dir_all(entry.path())
    } else {
        std::fs::remove_file(entry.path())
    }
}
