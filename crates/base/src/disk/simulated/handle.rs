//! What a process calls of a simulation's disk, by name or through files that it has open.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::state::{DirChange, SimulatedFiles};
use crate::disk::found::Found;
use crate::disk::space::Space;

/// What one process reads and writes by.
#[derive(Clone)]
pub(in crate::disk) struct Handle {
    state: Arc<Mutex<SimulatedFiles>>,
    process: u64,
}

/// A file that a process has open.
pub(in crate::disk) struct OpenFile {
    handle: Handle,
    file: u64,
}

impl Handle {
    pub(super) fn new(state: &Arc<Mutex<SimulatedFiles>>, process: u64) -> Self {
        Self { state: Arc::clone(state), process }
    }

    fn state(&self) -> io::Result<MutexGuard<'_, SimulatedFiles>> {
        let state = self.state.lock();
        if state.process != self.process {
            return Err(io::Error::other("the process is gone"));
        }
        Ok(state)
    }

    /// The same, where there is such a folder.
    fn state_of(&self, dir: &Path) -> io::Result<MutexGuard<'_, SimulatedFiles>> {
        let state = self.state()?;
        if state.dirs.contains(dir) { Ok(state) } else { Err(ErrorKind::NotFound.into()) }
    }

    pub(in crate::disk) fn create_new(&self, path: &Path) -> io::Result<OpenFile> {
        let mut state = self.state()?;
        let file = state.make(path)?;
        self.opened(&mut state, file)
    }

    pub(in crate::disk) fn open(&self, path: &Path) -> io::Result<OpenFile> {
        let mut state = self.state()?;
        let file = state.file(path)?;
        self.opened(&mut state, file)
    }

    pub(in crate::disk) fn open_to_write(&self, path: &Path) -> io::Result<OpenFile> {
        let mut state = self.state()?;
        let file = match state.file(path) {
            Ok(file) => file,
            Err(_) => state.make(path)?,
        };
        self.opened(&mut state, file)
    }

    fn opened(&self, state: &mut SimulatedFiles, file: u64) -> io::Result<OpenFile> {
        state.content(file)?.opened += 1;
        Ok(OpenFile { handle: self.clone(), file })
    }

    pub(in crate::disk) fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        let bytes = self.read(from)?;
        let copy = self.open_to_write(to)?;
        copy.set_length(0)?;
        copy.write_all_at(&bytes, 0)
    }

    pub(in crate::disk) fn space(&self, dir: &Path) -> io::Result<Space> {
        let state = self.state_of(dir)?;
        let free_bytes = state.bytes_max.saturating_sub(state.bytes());
        Ok(Space { total_bytes: state.bytes_max, free_bytes, available_bytes: free_bytes })
    }

    pub(in crate::disk) fn find(&self, path: &Path) -> io::Result<Found> {
        self.state()?.found(path).ok_or_else(|| ErrorKind::NotFound.into())
    }

    pub(in crate::disk) fn find_in(&self, dir: &Path) -> io::Result<Vec<(PathBuf, Found)>> {
        let state = self.state_of(dir)?;
        let paths = state.names.keys().chain(&state.dirs);
        let here: BTreeSet<&PathBuf> = paths.filter(|path| path.parent() == Some(dir)).collect();
        let found = |path: &PathBuf| Some((path.file_name()?.into(), state.found(path)?));
        Ok(here.into_iter().filter_map(found).collect())
    }

    pub(in crate::disk) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Ok(self.state()?.find(path)?.bytes.clone())
    }

    pub(in crate::disk) fn has(&self, path: &Path) -> bool {
        self.state().is_ok_and(|state| state.names.contains_key(path))
    }

    pub(in crate::disk) fn sync(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state()?;
        let file = state.file(path)?;
        state.sync(file)
    }

    pub(in crate::disk) fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut held = self.state()?;
        let state = &mut *held;
        if state.does_sync_fail(dir) {
            return Err(io::Error::other("the disk fails"));
        }
        if !state.dirs.contains(dir) {
            return Err(ErrorKind::NotFound.into());
        }
        let last = state.unsynced.iter().rposition(|change| change.is_synced_by(dir));
        state.keep_changes(last.map_or(0, |at| at + 1));
        state.durable_names.retain(|name, _| name.parent() != Some(dir));
        let here = state.names.iter().filter(|(name, _)| name.parent() == Some(dir));
        state.durable_names.extend(here.map(|(name, file)| (name.clone(), *file)));
        state.forget_unnamed();
        state.called()
    }

    pub(in crate::disk) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state()?;
        if from == to {
            return state.find(from).map(drop);
        }
        let file = *state.names.get(from).ok_or(ErrorKind::NotFound)?;
        let replaced = state.names.remove(to);
        if let Err(error) = state.name(to, file) {
            if let Some(replaced) = replaced {
                state.names.insert(to.to_owned(), replaced);
            }
            return Err(error);
        }
        state.names.remove(from);
        state.called()
    }

    pub(in crate::disk) fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state()?;
        let file = *state.names.get(from).ok_or(ErrorKind::NotFound)?;
        state.name(to, file)?;
        state.called()
    }

    pub(in crate::disk) fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state()?;
        state.names.remove(path).ok_or(ErrorKind::NotFound)?;
        state.forget_unnamed();
        state.called()
    }

    pub(in crate::disk) fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state()?;
        let missing: Vec<PathBuf> =
            dir.ancestors().filter(|it| !state.dirs.contains(*it)).map(Path::to_owned).collect();
        state.dirs.extend(missing.iter().cloned());
        // Of one that is made again where another was, what became of that holds as well.
        let is_again = |it: &DirChange| missing.iter().any(|dir| it.from.starts_with(dir));
        let known = state.unsynced.iter().rposition(is_again).map_or(0, |at| at + 1);
        state.keep_changes(known);
        state.durable_dirs.extend(missing);
        Ok(())
    }

    pub(in crate::disk) fn rename_dir(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state_of(from)?;
        if state.dirs.contains(to) {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        state.change_dir(DirChange { from: from.to_owned(), to: Some(to.to_owned()) });
        state.called()
    }

    pub(in crate::disk) fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state_of(dir)?;
        state.change_dir(DirChange { from: dir.to_owned(), to: None });
        state.forget_unnamed();
        state.called()
    }
}

impl OpenFile {
    pub(in crate::disk) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.handle.state()?;
        let bytes = &state.content(self.file)?.bytes;
        let at = usize::try_from(offset).map_or(bytes.len(), |at| at.min(bytes.len()));
        let read = buffer.len().min(bytes.len() - at);
        buffer[..read].copy_from_slice(&bytes[at..at + read]);
        Ok(read)
    }

    pub(in crate::disk) fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.handle.state()?.write(self.file, bytes, offset)
    }

    pub(in crate::disk) fn length(&self) -> io::Result<u64> {
        Ok(self.handle.state()?.content(self.file)?.bytes.len() as u64)
    }

    pub(in crate::disk) fn set_length(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.handle.state()?;
        let content = state.content(self.file)?;
        content.changes += 1;
        content.bytes.resize(usize::try_from(bytes).map_err(io::Error::other)?, 0);
        state.called()
    }

    pub(in crate::disk) fn sync(&self) -> io::Result<()> {
        self.handle.state()?.sync(self.file)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // Also where the process is gone.
        let mut state = self.handle.state.lock();
        if let Some(content) = state.contents.get_mut(&self.file) {
            content.opened -= 1;
        }
        state.forget_unnamed();
    }
}
