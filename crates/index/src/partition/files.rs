//! The files of one index, as Tantivy's `Directory`: written without waiting for the disk, made
//! durable together when the index is persisted.
//!
//! Tantivy's `meta.json` and `.managed.json` live in memory; the `meta.json` on disk is the one
//! persisted last. A file that it names, or that the refresh names which is persisted next, is
//! not deleted before another is persisted. Each opening of the index (its schema grows) and each
//! writer has a *generation*; what threads of an older one still write is refused.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};
use plimsoll_base::Disk;
use plimsoll_base::disk::DiskFile;
use tantivy::Directory;
use tantivy::directory::error::{DeleteError, LockError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    AntiCallToken, DirectoryLock, FileHandle, Lock, META_LOCK, MmapDirectory, OwnedBytes,
    TerminatingWrite, WatchCallback, WatchHandle, WritePtr,
};

use super::IndexError;
use super::names::Names;
use super::{checksum, meta, order};

/// The name of Tantivy's table of segments.
const META: &str = "meta.json";
/// What the table is written as before it takes its place.
const META_NEW: &str = "meta.json.new";

/// The files of one index.
#[derive(Clone)]
pub(super) struct Files(Arc<Shared>);

struct Shared {
    disk: Disk,
    root: PathBuf,
    generation: AtomicU64,
    meta_lock: MetaLock,
    state: Mutex<FileTable>,
}

impl Shared {
    /// Where a file is, for who has the state locked.
    fn path(&self, state: &FileTable, name: &Path) -> PathBuf {
        self.root.join(state.on_disk(name))
    }
}

#[derive(Default)]
struct FileTable {
    /// Files that Tantivy writes whole and reads whole, by name.
    small: HashMap<PathBuf, Vec<u8>>,
    /// How often `meta.json` was written.
    meta_writes: u64,
    /// The files that are there, with the generation that made them.
    created: BTreeMap<PathBuf, u64>,
    /// The files that are on disk for sure.
    synced: HashSet<PathBuf>,
    /// What the `meta.json` on disk names.
    persisted: BTreeSet<PathBuf>,
    /// What the refresh names that is persisted next.
    captured: BTreeSet<PathBuf>,
    /// Deleted by Tantivy, but named by one of the two above.
    doomed: BTreeSet<PathBuf>,
    /// Files that are being written, by generation.
    writing: BTreeMap<u64, usize>,
    /// What the files are called on the disk, where that is another name than Tantivy's.
    names: Option<Names>,
}

impl FileTable {
    fn is_held(&self, path: &Path) -> bool {
        self.persisted.contains(path) || self.captured.contains(path)
    }

    fn on_disk(&self, path: &Path) -> PathBuf {
        self.names.as_ref().map_or_else(|| path.to_owned(), |names| names.on_disk(path))
    }
}

/// The `meta.json` on the disk of the index in a folder; `None` where there is no index.
pub(super) fn read_meta(disk: &Disk, root: &Path) -> Result<Option<Vec<u8>>, IndexError> {
    match disk.read(&root.join(META)) {
        Ok(bytes) => meta::unsealed(&bytes).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Makes `bytes` the `meta.json` on the disk of the index in a folder, durably. Another file takes the
/// old one's place: that may have a second name elsewhere.
pub(super) fn write_meta(disk: &Disk, root: &Path, bytes: &[u8]) -> Result<(), IndexError> {
    let new = root.join(META_NEW);
    let file = disk.open_to_write(&new)?;
    file.set_length(0)?;
    file.write_all_at(&meta::sealed(bytes), 0)?;
    file.sync()?;
    disk.rename(&new, &root.join(META))?;
    disk.sync_dir(root)?;
    Ok(())
}

impl Files {
    /// The files in a folder, which is made where it is missing. What the persisted `meta.json`
    /// does not name is deleted.
    pub fn open(disk: &Disk, root: &Path) -> Result<Self, IndexError> {
        disk.create_dir(root)?;
        let mut state = FileTable::default();
        if let Some(bytes) = read_meta(disk, root)? {
            state.persisted = meta::files(&bytes)?;
            state.captured = state.persisted.clone();
            state.small.insert(PathBuf::from(META), bytes);
        }
        state.names = (!disk.is_the_machines()).then(|| Names::new(&state.persisted));
        for (name, _) in disk.find_in(root)? {
            if state.persisted.contains(&name) {
                state.synced.insert(name.clone());
                state.created.insert(name, 0);
            } else if name != Path::new(META) {
                disk.remove(&root.join(&name))?;
            }
        }
        if let Some(missing) =
            state.persisted.iter().find(|name| !state.created.contains_key(*name))
        {
            return Err(IndexError::Corrupt(format!("{} is missing", missing.display())));
        }
        // Tantivy then knows the files that are there, and deletes them when they are not needed.
        let managed: Vec<&PathBuf> = state.persisted.iter().collect();
        let managed = serde_json::to_vec(&managed).unwrap_or_default();
        state.small.insert(PathBuf::from(".managed.json"), managed);
        let files = Self(Arc::new(Shared {
            disk: disk.clone(),
            root: root.to_owned(),
            generation: AtomicU64::new(0),
            meta_lock: MetaLock::default(),
            state: Mutex::new(state),
        }));
        for name in files.persisted() {
            files.check(&name, &mut |_| true)?;
        }
        Ok(files)
    }

    /// The files that the `meta.json` on disk names.
    pub fn persisted(&self) -> Vec<PathBuf> {
        self.0.state.lock().persisted.iter().cloned().collect()
    }

    /// Compares a file with the checksum at its end ([`checksum::check`]). One that is no longer
    /// persisted is passed over.
    pub fn check(
        &self,
        name: &Path,
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool, IndexError> {
        match checksum::check(&self.0.disk, &self.path(name), pace) {
            Err(_) if !self.0.state.lock().persisted.contains(name) => Ok(true),
            checked => checked,
        }
    }

    /// Whether these are the files of the same opening, and not later ones of the same folder.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A handle for a new opening or writer; handles from before read on, and can write no more.
    pub fn next_generation(&self) -> Result<FilesHandle, IndexError> {
        let generation = self.0.generation.fetch_add(1, Ordering::SeqCst) + 1;
        let open = || MmapDirectory::open(&self.0.root).map_err(tantivy::TantivyError::from);
        let mmap = self.0.disk.is_the_machines().then(open).transpose()?;
        Ok(FilesHandle { files: self.clone(), mmap, generation })
    }

    /// Lets the handles there are write and delete no more.
    pub fn end_generation(&self) {
        let _state = self.0.state.lock();
        self.0.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// The `meta.json` that Tantivy works with; none before there is an index.
    pub fn meta(&self) -> Option<Vec<u8>> {
        self.0.state.lock().small.get(Path::new(META)).cloned()
    }

    /// Replaces the `meta.json` that Tantivy works with.
    pub fn set_meta(&self, bytes: Vec<u8>) {
        self.0.state.lock().small.insert(PathBuf::from(META), bytes);
    }

    /// How often Tantivy wrote `meta.json`: for each commit, and for each merge.
    pub fn meta_writes(&self) -> u64 {
        self.0.state.lock().meta_writes
    }

    /// Whether files are being written: documents being indexed, or a merge.
    pub fn is_writing(&self) -> bool {
        let generation = self.0.generation.load(Ordering::SeqCst);
        self.0.state.lock().writing.contains_key(&generation)
    }

    /// The `meta.json` that Tantivy works with, whose files are held until another is captured:
    /// at one moment, because a merge that ends between the two deletes files that it names.
    pub fn capture(&self) -> Result<Vec<u8>, IndexError> {
        let mut state = self.0.state.lock();
        let bytes = state.small.get(Path::new(META)).cloned();
        let bytes = bytes.ok_or_else(|| IndexError::Corrupt("no meta.json".to_owned()))?;
        state.captured = meta::files(&bytes)?;
        drop(state);
        self.sweep(false);
        Ok(bytes)
    }

    /// Makes `bytes` the `meta.json` on disk, and all files that it names durable before.
    pub fn persist(&self, bytes: &[u8]) -> Result<(), IndexError> {
        let files = meta::files(bytes)?;
        let unsynced: Vec<PathBuf> = {
            let state = self.0.state.lock();
            files.difference(&state.synced.iter().cloned().collect()).cloned().collect()
        };
        for name in &unsynced {
            self.0.disk.sync(&self.path(name))?;
        }
        if !unsynced.is_empty() {
            self.0.disk.sync_dir(&self.0.root)?;
        }
        let named = self.0.state.lock().names.as_ref().map(|names| names.in_meta(bytes));
        write_meta(&self.0.disk, &self.0.root, named.as_deref().unwrap_or(bytes))?;
        let mut state = self.0.state.lock();
        state.synced.extend(unsynced);
        state.persisted = files;
        drop(state);
        self.sweep(false);
        Ok(())
    }

    /// Gives what is durable a second name each in the folder `dir`, which is made: no file is written
    /// again, and none that is persisted is deleted before another is.
    pub fn link(&self, dir: &Path) -> io::Result<()> {
        let disk = &self.0.disk;
        if disk.has_dir(dir)? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        disk.create_dir(dir)?;
        for name in self.persisted().iter().map(PathBuf::as_path).chain([Path::new(META)]) {
            let name = self.0.state.lock().on_disk(name);
            let (from, to) = (self.0.root.join(&name), dir.join(&name));
            // Where names cannot be shared, as with another disk.
            disk.link(&from, &to).or_else(|_| disk.copy(&from, &to))?;
        }
        Ok(())
    }

    /// Puts the file `from` in the place of `to`, durably.
    pub fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (disk, new) = (&self.0.disk, self.path(from));
        disk.sync(&new)?;
        disk.rename(&new, &self.path(to))?;
        self.0.state.lock().created.remove(from);
        disk.sync_dir(&self.0.root)
    }

    /// The bytes of the files that are there, by what comes after the last dot of the name.
    pub fn bytes_by_part(&self) -> BTreeMap<String, u64> {
        let names: Vec<PathBuf> = self.0.state.lock().created.keys().cloned().collect();
        let mut parts = BTreeMap::new();
        for name in names {
            let part = name.extension().map(|part| part.to_string_lossy().into_owned());
            let bytes = self.0.disk.find(&self.path(&name)).map_or(0, |file| file.bytes);
            *parts.entry(part.unwrap_or_default()).or_insert(0) += bytes;
        }
        parts
    }

    /// Deletes what nothing holds any more, and what generations that are over have left. With
    /// `is_quiet` nobody writes: then also what Tantivy has forgotten to delete, or could not
    /// because a reader was just being opened.
    pub fn sweep(&self, is_quiet: bool) {
        let live = self.0.generation.load(Ordering::SeqCst);
        let mut state = self.0.state.lock();
        let named = state.small.get(Path::new(META)).and_then(|bytes| meta::files(bytes).ok());
        let named = named.unwrap_or_default();
        let over: Vec<PathBuf> = state
            .created
            .iter()
            .filter(|(name, generation)| {
                let left = (is_quiet || **generation < live) && !named.contains(*name);
                (left || state.doomed.contains(*name)) && !state.is_held(name)
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in over {
            // A file that cannot be deleted now is deleted when the index is opened next.
            let _ = self.0.disk.remove(&self.0.path(&state, &name));
            state.created.remove(&name);
            state.doomed.remove(&name);
            state.synced.remove(&name);
        }
    }

    /// Where a file is.
    fn path(&self, name: &Path) -> PathBuf {
        self.0.path(&self.0.state.lock(), name)
    }
}

/// What one opening of the index reads and writes by.
#[derive(Clone)]
pub(super) struct FilesHandle {
    files: Files,
    /// Reads the machine's files; those of a simulation are read whole.
    mmap: Option<MmapDirectory>,
    generation: u64,
}

impl std::fmt::Debug for FilesHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FilesHandle({})", self.files.0.root.display())
    }
}

impl FilesHandle {
    fn shared(&self) -> &Shared {
        &self.files.0
    }

    fn check_live(&self) -> io::Result<()> {
        if self.shared().generation.load(Ordering::SeqCst) == self.generation {
            Ok(())
        } else {
            Err(io::Error::other("the index was opened again"))
        }
    }
}

impl Directory for FilesHandle {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        if let Some(mmap) = &self.mmap {
            return mmap.get_file_handle(path);
        }
        let found = self.shared().disk.read(&self.files.path(path));
        let bytes = found.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => OpenReadError::FileDoesNotExist(path.to_owned()),
            _ => OpenReadError::wrap_io_error(error, path.to_owned()),
        })?;
        Ok(Arc::new(OwnedBytes::new(bytes)))
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        let mut state = self.shared().state.lock();
        if self.check_live().is_err() {
            // What is over is swept.
            return Ok(());
        }
        if state.small.remove(path).is_some() {
            return Ok(());
        }
        if state.is_held(path) {
            state.doomed.insert(path.to_owned());
            return Ok(());
        }
        state.created.remove(path);
        state.synced.remove(path);
        let on_disk = self.shared().path(&state, path);
        drop(state);
        self.shared().disk.remove(&on_disk).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => DeleteError::FileDoesNotExist(path.to_owned()),
            _ => DeleteError::IoError { io_error: Arc::new(error), filepath: path.to_owned() },
        })
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        let state = self.shared().state.lock();
        let on_disk = self.shared().path(&state, path);
        Ok(state.small.contains_key(path) || self.shared().disk.has(&on_disk))
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        let wrong = |error| OpenWriteError::wrap_io_error(error, path.to_owned());
        // Under the lock that ends a generation: after its end, no file comes into a folder that
        // may be being deleted.
        let mut state = self.shared().state.lock();
        self.check_live().map_err(wrong)?;
        if let Some(names) = &mut state.names {
            names.add(path);
        }
        let on_disk = self.shared().path(&state, path);
        let file = self.shared().disk.create_new(&on_disk);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => OpenWriteError::FileAlreadyExists(path.to_owned()),
            _ => wrong(error),
        })?;
        state.created.insert(path.to_owned(), self.generation);
        *state.writing.entry(self.generation).or_insert(0) += 1;
        drop(state);
        let writer = FileWriter { file, written: 0, handle: self.clone() };
        Ok(BufWriter::new(Box::new(writer)))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        let small = self.shared().state.lock().small.get(path).cloned();
        small.ok_or_else(|| OpenReadError::FileDoesNotExist(path.to_owned()))
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        let mut state = self.shared().state.lock();
        self.check_live()?;
        let mut data = data.to_vec();
        if path == Path::new(META) {
            state.meta_writes += 1;
            if let Some(last) = state.small.get(path)
                && let Some(order) = order::by_age(last, &data).map_err(io::Error::other)?
            {
                data = meta::reordered(&data, &order).map_err(io::Error::other)?;
            }
        }
        state.small.insert(path.to_owned(), data);
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        // Nothing is durable before `persist`, which syncs the folder itself.
        Ok(())
    }

    fn acquire_lock(&self, lock: &Lock) -> Result<DirectoryLock, LockError> {
        // The other lock keeps two writers apart; the owner of the index has only one.
        if lock.filepath == META_LOCK.filepath {
            self.shared().meta_lock.lock();
            return Ok(DirectoryLock::from(Box::new(MetaGuard(self.files.clone()))));
        }
        Ok(DirectoryLock::from(Box::new(())))
    }

    fn watch(&self, _: WatchCallback) -> tantivy::Result<WatchHandle> {
        Ok(WatchHandle::empty())
    }
}

/// Keeps files from being deleted while a reader opens them. Its guard can be sent to another
/// thread, which a mutex's cannot.
#[derive(Default)]
struct MetaLock {
    taken: Mutex<bool>,
    free: Condvar,
}

impl MetaLock {
    fn lock(&self) {
        let mut taken = self.taken.lock();
        while *taken {
            self.free.wait(&mut taken);
        }
        *taken = true;
    }
}

struct MetaGuard(Files);

impl Drop for MetaGuard {
    fn drop(&mut self) {
        let lock = &self.0.0.meta_lock;
        *lock.taken.lock() = false;
        lock.free.notify_one();
    }
}

/// Writes one file; the disk is not waited for.
struct FileWriter {
    file: DiskFile,
    written: u64,
    handle: FilesHandle,
}

impl Write for FileWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.handle.check_live()?;
        self.file.write_all_at(bytes, self.written)?;
        self.written += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TerminatingWrite for FileWriter {
    fn terminate_ref(&mut self, _: AntiCallToken) -> io::Result<()> {
        self.handle.check_live()
    }
}

impl Drop for FileWriter {
    fn drop(&mut self) {
        let mut state = self.handle.shared().state.lock();
        if let Some(writing) = state.writing.get_mut(&self.handle.generation) {
            *writing -= 1;
            if *writing == 0 {
                state.writing.remove(&self.handle.generation);
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a test of the machine's")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_comes_after_the_end_of_a_generation() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::of_the_machine();
        let count = || disk.find_in(dir.path()).unwrap().len();
        for round in 0..200 {
            let files = Files::open(&disk, dir.path()).unwrap();
            let handle = files.next_generation().unwrap();
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let handle = &handle;
                    scope.spawn(move || {
                        (0..)
                            .map(|n| PathBuf::from(format!("{round}-{thread}-{n}")))
                            .take_while(|name| handle.open_write(name).is_ok())
                            .count()
                    });
                }
                std::thread::sleep(std::time::Duration::from_micros(500));
                files.end_generation();
                let there = count();
                std::thread::sleep(std::time::Duration::from_micros(500));
                assert_eq!(count(), there, "round {round}");
            });
        }
    }
}
