//! The file system that the underlying engine works on: plain files, watched. It syncs when the
//! engine in front says so, keeps the first failed sync instead of letting the underlying engine
//! panic over it, counts bytes, and asks the judge of damage before recovery cuts a file. It begins
//! a file only while the process may open one more besides, and lets go of that right before the
//! underlying engine needs it: another thread has a moment to take it, in which case the log stops.
//!
//! It knows nothing of what the files hold.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use raft_engine::env::{FileSystem, Handle, Permission, WriteExt};
use rustix::fs::{FallocateFlags, fallocate};

/// Where a sync covers no more than this, room in a file is written with zeros beforehand. Each
/// block that was only reserved costs its first sync a second write, of the file system's own, and
/// a wait for it; the zeros cost the disk as many bytes as the records do.
const FILL_SYNC_BYTES_MAX: u64 = 64 * 1024;
/// Zeros written at once.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Decides whether recovery may cut a file at a position.
pub(super) type Judge = Box<dyn FnMut(&Path, u64) -> io::Result<()> + Send>;

/// A sync of a file failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("sync of {} failed: {error}", path.display())]
pub(super) struct SyncFailed {
    path: PathBuf,
    #[source]
    error: Arc<io::Error>,
}

/// What all files of one log share.
#[derive(Default)]
pub(super) struct Watch {
    /// Files with bytes that no sync has covered. Held while syncing: who finds the list empty
    /// must not return before the sync that emptied it.
    dirty: Mutex<Vec<Arc<LogFile>>>,
    /// The first sync that failed. After it nothing that the system says of these files can be
    /// trusted (a second sync would report success for pages that were dropped).
    failed: Mutex<Option<SyncFailed>>,
    judge: Mutex<Option<Judge>>,
    bytes_written: AtomicU64,
    syncs: AtomicU64,
    /// The two figures above when a file was last made longer.
    seen: [AtomicU64; 2],
}

impl Watch {
    /// Makes everything written so far durable.
    pub fn sync(&self) -> Result<(), SyncFailed> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let mut dirty = self.dirty.lock();
        for file in dirty.drain(..) {
            file.dirty.store(false, Ordering::SeqCst);
            self.note(&file.path, file.file.sync_data());
        }
        self.failure().map_or(Ok(()), Err)
    }

    /// The first sync that failed, if one did.
    pub fn failure(&self) -> Option<SyncFailed> {
        self.failed.lock().clone()
    }

    /// Bytes handed to the system, preallocation not counted.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Relaxed)
    }

    /// Whether little was written for each sync since this was last asked.
    fn is_finely_synced(&self) -> bool {
        let since = |figure: &AtomicU64, seen: &AtomicU64| {
            let now = figure.load(Ordering::Relaxed);
            now.saturating_sub(seen.swap(now, Ordering::Relaxed))
        };
        let bytes = since(&self.bytes_written, &self.seen[0]);
        let syncs = since(&self.syncs, &self.seen[1]);
        syncs > 0 && bytes / syncs <= FILL_SYNC_BYTES_MAX
    }

    /// Installs the judge for the length of a recovery.
    pub fn judge_with(&self, judge: Option<Judge>) {
        *self.judge.lock() = judge;
    }

    /// Keeps the first failure of a sync.
    pub fn note(&self, path: &Path, result: io::Result<()>) {
        if let Err(error) = result {
            let failed = SyncFailed { path: path.to_owned(), error: Arc::new(error) };
            self.failed.lock().get_or_insert(failed);
        }
    }
}

/// The file system.
pub(super) struct Files(pub Arc<Watch>);

/// One open file.
pub(super) struct LogFile {
    file: File,
    path: PathBuf,
    dirty: AtomicBool,
    /// Of a file that was begun, until its first sync: the folder. The underlying engine opens it
    /// then, and panics where the process has as many files open as it may.
    folder: Mutex<Option<File>>,
    watch: Arc<Watch>,
}

/// A position in an open file, for reading or writing.
pub(super) struct Cursor {
    file: Arc<LogFile>,
    position: u64,
}

impl FileSystem for Files {
    type Handle = LogFile;
    type Reader = Cursor;
    type Writer = Cursor;

    fn create<P: AsRef<Path>>(&self, path: P) -> io::Result<LogFile> {
        let path = path.as_ref();
        let folder = path.parent().map(File::open).transpose()?;
        let mut options = OpenOptions::new();
        let file =
            self.open_with(options.read(true).write(true).create(true).truncate(false), path)?;
        *file.folder.lock() = folder;
        Ok(file)
    }

    fn open<P: AsRef<Path>>(&self, path: P, permission: Permission) -> io::Result<LogFile> {
        let mut options = OpenOptions::new();
        self.open_with(options.read(true).write(permission == Permission::ReadWrite), path.as_ref())
    }

    /// Not after a failed sync: what was moved out of the file may not be where it was moved to.
    fn delete<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        match self.0.failure() {
            Some(failed) => Err(io::Error::other(failed)),
            None => std::fs::remove_file(path),
        }
    }

    fn rename<P: AsRef<Path>>(&self, from: P, to: P) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn new_reader(&self, file: Arc<LogFile>) -> io::Result<Cursor> {
        Ok(Cursor { file, position: 0 })
    }

    fn new_writer(&self, file: Arc<LogFile>) -> io::Result<Cursor> {
        Ok(Cursor { file, position: 0 })
    }
}

impl Files {
    fn open_with(&self, options: &OpenOptions, path: &Path) -> io::Result<LogFile> {
        Ok(LogFile {
            file: options.open(path)?,
            path: path.to_path_buf(),
            dirty: AtomicBool::new(false),
            folder: Mutex::new(None),
            watch: Arc::clone(&self.0),
        })
    }
}

impl Handle for LogFile {
    /// Called by recovery alone, at the first bytes of a file that it cannot read.
    fn truncate(&self, offset: usize) -> io::Result<()> {
        if let Some(judge) = self.watch.judge.lock().as_mut() {
            judge(&self.path, offset as u64)?;
        }
        self.file.set_len(offset as u64)
    }

    fn file_size(&self) -> io::Result<usize> {
        usize::try_from(self.file.metadata()?.len()).map_err(io::Error::other)
    }

    /// Called when a file is full or closed. The underlying engine panics over an error here, so
    /// it is kept for the commit loop, which looks before it acknowledges anything. After the first
    /// sync of a file it opens the folder, at once.
    fn sync(&self) -> io::Result<()> {
        self.watch.note(&self.path, self.file.sync_data());
        self.folder.lock().take();
        Ok(())
    }
}

fn fill(file: &File, from: u64, bytes: u64) -> io::Result<()> {
    let mut at = from;
    while at < from + bytes {
        let left = usize::try_from(from + bytes - at).unwrap_or(usize::MAX);
        let zeros = &ZEROS[..left.min(ZEROS.len())];
        file.write_all_at(zeros, at)?;
        at += zeros.len() as u64;
    }
    Ok(())
}

impl Read for Cursor {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.file.read_at(buffer, self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Write for Cursor {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = &self.file;
        let written = file.file.write_at(bytes, self.position);
        // After the write, also a failed one: a sync that runs meanwhile would otherwise take the
        // file off the list without these bytes.
        if !file.dirty.swap(true, Ordering::SeqCst) {
            file.watch.dirty.lock().push(Arc::clone(file));
        }
        let count = written.map_err(|error| match error.kind() {
            // The word by which the underlying engine knows this error: it goes on in a new file.
            io::ErrorKind::StorageFull => io::Error::new(error.kind(), "nospace: the disk is full"),
            _ => error,
        })?;
        file.watch.bytes_written.fetch_add(count as u64, Ordering::Relaxed);
        self.position += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Cursor {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let base = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.file.file.metadata()?.len().checked_add_signed(by),
        };
        self.position = base.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.position)
    }
}

impl WriteExt for Cursor {
    fn truncate(&mut self, offset: usize) -> io::Result<()> {
        self.file.file.set_len(offset as u64)?;
        self.position = offset as u64;
        Ok(())
    }

    fn allocate(&mut self, offset: usize, size: usize) -> io::Result<()> {
        match fallocate(&self.file.file, FallocateFlags::empty(), offset as u64, size as u64) {
            Err(error) if error != rustix::io::Errno::OPNOTSUPP => return Err(error.into()),
            _ => {}
        }
        if self.file.watch.is_finely_synced() {
            // For speed alone: what fails here will fail again where it is written for good.
            let _ = fill(&self.file.file, offset as u64, size as u64);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Tests of when room is filled, and of what that leaves in a file.

    use super::*;

    #[test]
    fn room_is_filled_where_syncs_are_small() {
        let watch = Watch::default();
        assert!(!watch.is_finely_synced(), "nothing is known yet");
        watch.bytes_written.fetch_add(1 << 20, Ordering::Relaxed);
        for _ in 0..16 {
            watch.sync().unwrap();
        }
        assert!(watch.is_finely_synced());
        watch.bytes_written.fetch_add(1 << 20, Ordering::Relaxed);
        assert!(!watch.is_finely_synced(), "no sync since");
        watch.bytes_written.fetch_add(1 << 20, Ordering::Relaxed);
        watch.sync().unwrap();
        assert!(!watch.is_finely_synced(), "one large sync");
    }

    #[test]
    fn filling_touches_what_was_asked_for() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 200_000], 0).unwrap();
        fill(&file, 10, 150_000).unwrap();
        let mut bytes = vec![1; 200_000];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes[..10].iter().all(|byte| *byte == 7));
        assert!(bytes[10..150_010].iter().all(|byte| *byte == 0));
        assert!(bytes[150_010..].iter().all(|byte| *byte == 7));
    }
}
