//! The contents and names of a simulation's files, as its processes see them and as a loss of power leaves them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::disk::found::{Found, FoundKind};
use crate::random::Stream;

pub(super) struct SimulatedFiles {
    pub(super) contents: BTreeMap<u64, Content>,
    /// The files by name, as processes see them.
    pub(super) names: BTreeMap<PathBuf, u64>,
    /// The same as a loss of power leaves them.
    pub(super) durable_names: BTreeMap<PathBuf, u64>,
    pub(super) dirs: BTreeSet<PathBuf>,
    pub(super) durable_dirs: BTreeSet<PathBuf>,
    /// Folders that were renamed or removed, which a loss of power may not know of yet, in their order.
    pub(super) unsynced: Vec<DirChange>,
    pub(super) next: u64,
    /// The process whose handles are good.
    pub(super) process: u64,
    pub(super) bytes_max: u64,
    /// Which syncs fail.
    pub(super) syncs_fail: Option<SyncFault>,
    /// After so many calls that change something the power goes.
    pub(super) calls_left: Option<u64>,
    pub(super) chance: Stream,
}

/// One sync in so many fails, but of what lies in folders of a name.
pub(super) struct SyncFault {
    pub(super) one_in: u64,
    pub(super) spared: Option<String>,
}

impl SyncFault {
    fn spares(&self, path: &Path) -> bool {
        let is_it = |name: &String| path.iter().any(|part| part == name.as_str());
        self.spared.as_ref().is_some_and(is_it)
    }
}

/// What became of a folder.
pub(super) struct DirChange {
    pub(super) from: PathBuf,
    /// None where it was removed.
    pub(super) to: Option<PathBuf>,
}

impl DirChange {
    /// Whether a sync of `dir` makes it hold: it is what it is in, or lies in it, as systems keep the order of
    /// such changes.
    pub(super) fn is_synced_by(&self, dir: &Path) -> bool {
        self.from.parent() == Some(dir) || self.to.as_ref().is_some_and(|to| dir.starts_with(to))
    }

    /// Makes it in names and folders.
    pub(super) fn make(&self, names: &mut BTreeMap<PathBuf, u64>, dirs: &mut BTreeSet<PathBuf>) {
        let is_within = |path: &Path| path.starts_with(&self.from);
        let names_of: Vec<_> = names.extract_if(.., |name, _| is_within(name)).collect();
        let dirs_of: Vec<_> = dirs.extract_if(.., |dir| is_within(dir)).collect();
        let Some(to) = &self.to else { return };
        let moved = |path: &Path| match path.strip_prefix(&self.from) {
            Ok(rest) if rest.as_os_str().is_empty() => to.clone(),
            Ok(rest) => to.join(rest),
            Err(_) => path.to_owned(),
        };
        names.extend(names_of.into_iter().map(|(name, file)| (moved(&name), file)));
        dirs.extend(dirs_of.iter().map(|dir| moved(dir)));
    }

    /// Takes it back: what was removed is there as far as it was durable.
    pub(super) fn undo(
        self,
        names: &mut BTreeMap<PathBuf, u64>,
        dirs: &mut BTreeSet<PathBuf>,
        durable: &BTreeMap<PathBuf, u64>,
    ) {
        match self.to {
            Some(to) => Self { from: to, to: Some(self.from) }.make(names, dirs),
            None => {
                let removed = durable.iter().filter(|(name, _)| name.starts_with(&self.from));
                names.extend(removed.map(|(name, file)| (name.clone(), *file)));
            }
        }
    }
}

#[derive(Default)]
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    /// What a loss of power leaves for sure.
    pub(super) synced: Vec<u8>,
    /// A sync failed: the system has forgotten that it is to be written, and later syncs say nothing of it
    /// (as on Linux; Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020).
    pub(super) is_forgotten: bool,
    /// How often it was written to.
    pub(super) changes: u64,
    /// How many have it open.
    pub(super) opened: u64,
}

impl Content {
    /// Leaves what was synced, or what was written cut off, or that with nothing in the place of what was cut;
    /// never less than what was synced and stands as it was.
    pub(super) fn tear(&mut self, chance: &mut Stream) {
        let same = self.synced.iter().zip(&self.bytes).take_while(|(one, other)| one == other);
        let (same, length) = (same.count(), self.bytes.len());
        let more = chance.below((length - same) as u64 + 1);
        let kept = same + usize::try_from(more).unwrap_or_default();
        match chance.below(3) {
            0 => self.bytes.clone_from(&self.synced),
            1 => self.bytes.truncate(kept),
            _ => self.bytes[kept..].fill(0),
        }
        self.synced.clone_from(&self.bytes);
        self.is_forgotten = false;
    }
}

impl SimulatedFiles {
    /// As [`SimulatedDisk::lose_power`].
    pub(super) fn lose_power(&mut self) {
        self.process += 1;
        self.calls_left = None;
        let known = self.chance.below(self.unsynced.len() as u64 + 1);
        self.keep_changes(usize::try_from(known).unwrap_or_default());
        while let Some(change) = self.unsynced.pop() {
            change.undo(&mut self.names, &mut self.dirs, &self.durable_names);
        }
        self.dirs.clone_from(&self.durable_dirs);
        let changed: BTreeSet<PathBuf> = self
            .names
            .iter()
            .chain(&self.durable_names)
            .filter(|(name, _)| self.names.get(*name) != self.durable_names.get(*name))
            .map(|(name, _)| name.clone())
            .collect();
        for name in changed {
            if self.chance.once_in(2) {
                match self.names.get(&name) {
                    Some(file) => self.durable_names.insert(name, *file),
                    None => self.durable_names.remove(&name),
                };
            }
        }
        self.names = self.durable_names.clone();
        self.forget_unnamed();
        for content in self.contents.values_mut() {
            if content.bytes != content.synced {
                content.tear(&mut self.chance);
            }
        }
    }

    /// The first so many changes of folders hold from now on.
    pub(super) fn keep_changes(&mut self, count: usize) {
        for change in self.unsynced.drain(..count) {
            change.make(&mut self.durable_names, &mut self.durable_dirs);
        }
    }

    /// Changes folders as the process sees them.
    pub(super) fn change_dir(&mut self, change: DirChange) {
        change.make(&mut self.names, &mut self.dirs);
        self.unsynced.push(change);
    }

    /// A call that changes something is over.
    pub(super) fn called(&mut self) -> io::Result<()> {
        match &mut self.calls_left {
            None => Ok(()),
            Some(left) if *left > 1 => {
                *left -= 1;
                Ok(())
            }
            Some(_) => {
                self.lose_power();
                Err(io::Error::other("the power is gone"))
            }
        }
    }

    /// The number of the file that has this name.
    pub(super) fn file(&self, path: &Path) -> io::Result<u64> {
        self.names.get(path).copied().ok_or_else(|| ErrorKind::NotFound.into())
    }

    pub(super) fn content(&mut self, file: u64) -> io::Result<&mut Content> {
        self.contents.get_mut(&file).ok_or_else(|| ErrorKind::NotFound.into())
    }

    pub(super) fn find(&mut self, path: &Path) -> io::Result<&mut Content> {
        let file = self.file(path)?;
        self.content(file)
    }

    /// Writes into a file as much as there is room for.
    pub(super) fn write(&mut self, file: u64, bytes: &[u8], offset: u64) -> io::Result<()> {
        let room = self.bytes_max.saturating_sub(self.bytes());
        let content = self.content(file)?;
        content.changes += 1;
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        let free = content.bytes.len().saturating_sub(at);
        let room = usize::try_from(room).unwrap_or(usize::MAX).saturating_add(free);
        let fits = room.min(bytes.len());
        let end = at + fits;
        if content.bytes.len() < end {
            content.bytes.resize(end, 0);
        }
        content.bytes[at..end].copy_from_slice(&bytes[..fits]);
        self.called()?;
        if fits < bytes.len() { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    /// Whether the sync of a file or a folder that is asked for now fails.
    pub(super) fn does_sync_fail(&mut self, path: &Path) -> bool {
        let fault = self.syncs_fail.as_ref().filter(|fault| !fault.spares(path));
        fault.is_some_and(|fault| self.chance.once_in(fault.one_in))
    }

    /// The name of a file; none where nothing names it any more.
    fn name_of(&self, file: u64) -> &Path {
        let named = self.names.iter().find(|(_, it)| **it == file);
        named.map_or(Path::new(""), |(name, _)| name)
    }

    /// Makes what a file holds durable.
    pub(super) fn sync(&mut self, file: u64) -> io::Result<()> {
        let do_fail = self.syncs_fail.is_some() && {
            let name = self.name_of(file).to_owned();
            self.does_sync_fail(&name)
        };
        let content = self.content(file)?;
        if do_fail {
            content.is_forgotten = true;
            return Err(io::Error::other("the disk fails"));
        }
        if !content.is_forgotten {
            content.synced.clone_from(&content.bytes);
        }
        self.called()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.contents.values().map(|content| content.bytes.len() as u64).sum()
    }

    pub(super) fn name(&mut self, path: &Path, file: u64) -> io::Result<()> {
        if !path.parent().is_some_and(|dir| self.dirs.contains(dir)) {
            return Err(ErrorKind::NotFound.into());
        }
        if self.names.contains_key(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.names.insert(path.to_owned(), file);
        Ok(())
    }

    /// An empty file of that name, which nothing has yet.
    pub(super) fn make(&mut self, path: &Path) -> io::Result<u64> {
        let file = self.next;
        self.name(path, file)?;
        self.next += 1;
        self.contents.insert(file, Content::default());
        Ok(file)
    }

    /// What is told of a file or a folder.
    pub(super) fn found(&self, path: &Path) -> Option<Found> {
        if self.dirs.contains(path) {
            return Some(Found { kind: FoundKind::Dir, bytes: 0, names: 1, identity: [0; 5] });
        }
        let file = *self.names.get(path)?;
        let content = self.contents.get(&file)?;
        let bytes = content.bytes.len() as u64;
        let names = self.names.values().filter(|it| **it == file).count() as u64;
        let identity = [0, file, bytes, content.changes, 0];
        Some(Found { kind: FoundKind::File, bytes, names, identity })
    }

    pub(super) fn forget_unnamed(&mut self) {
        let named: BTreeSet<u64> =
            self.names.values().chain(self.durable_names.values()).copied().collect();
        self.contents.retain(|file, content| content.opened > 0 || named.contains(file));
    }
}
