//! A value that is made of files, and made anew when they change: certificates, keys, credentials.
//!
//! It owns the rule when files are looked at again and which value holds meanwhile. What the files
//! mean is its maker's to say, and the time is handed in. It starts no thread: whoever needs the value
//! looks, which costs a few calls of `stat` at most once a second.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use plimsoll_base::Time;
use plimsoll_base::time::Instant;

/// How often files are looked at, at the most.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often files that did not do are read again although they did not change: what was wrong may
/// have been the reading.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// The largest file that is read. Lists of authorities of whole systems have a quarter of it.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why a file does not do. What stands in the file is never part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", .path.display())]
pub struct FileError {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

impl FileError {
    /// For this file.
    #[must_use]
    pub fn new(path: &Path, why: impl Into<String>) -> Self {
        // Relative to what, the reader of a log does not know.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self { path, why: why.into() }
    }
}

/// Reads a file, as far as it is not too large to be what it is taken for.
///
/// # Errors
/// Where it cannot be read, or is larger than 1 MiB.
pub fn read_file(path: &Path) -> Result<Vec<u8>, FileError> {
    let failed = |error: std::io::Error| FileError::new(path, error.to_string());
    // A device or a pipe has no end, and opening one may wait for ever.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(FileError::new(path, "is no file"));
    }
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(FileError::new(path, format!("is larger than {FILE_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// Makes the value of the files as they are now.
type Make<T> = Box<dyn Fn() -> Result<T, FileError> + Send + Sync>;

/// The value.
pub struct Watched<T> {
    /// As the log names it.
    used_for: &'static str,
    files: Vec<PathBuf>,
    time: Time,
    make: Make<T>,
    current: RwLock<Arc<T>>,
    state: Mutex<LastRead>,
}

struct LastRead {
    /// How the files were when they were read last, also where that failed: a file that does not do
    /// is named once.
    seen: Vec<Option<Stamp>>,
    looked: Instant,
    /// When they were read last, where they did not do then.
    failed: Option<Instant>,
}

/// What changes when a file does: a rename brings another number, a write another time or size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl Stamp {
    /// None where there is no file that can be seen.
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Some(Self { inode: metadata.ino(), bytes: metadata.len(), modified })
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Option<Stamp>> {
    files.iter().map(|path| Stamp::of(path)).collect()
}

impl<T> Watched<T> {
    /// Reads the files for the first time. `used_for` is what they are for, as the log names it.
    ///
    /// # Errors
    /// What `make` says.
    pub fn new(
        used_for: &'static str,
        files: Vec<PathBuf>,
        time: &Time,
        make: impl Fn() -> Result<T, FileError> + Send + Sync + 'static,
    ) -> Result<Self, FileError> {
        // Before they are read: a change in between is seen at the next look.
        let seen = stamps(&files);
        let current = RwLock::new(Arc::new(make()?));
        let state = Mutex::new(LastRead { seen, looked: time.now(), failed: None });
        Ok(Self { used_for, files, time: time.clone(), make: Box::new(make), current, state })
    }

    /// The time that it looks at its files by.
    #[must_use]
    pub fn time(&self) -> &Time {
        &self.time
    }

    /// The value of the files as they were at the last look, which is now where the one before is a
    /// second old. Files that do not do leave the value as it is; that is logged once. While one looks, which
    /// may take long where files are not on this machine, others have the value that there was.
    pub fn get(&self) -> Arc<T> {
        let now = self.time.now();
        if let Some(mut state) = self.state.try_lock()
            && now - state.looked >= LOOK_INTERVAL
        {
            self.look(&mut state, now);
        }
        Arc::clone(&self.current.read())
    }

    fn look(&self, state: &mut LastRead, now: Instant) {
        state.looked = now;
        let found = stamps(&self.files);
        let is_changed = found != state.seen;
        let is_retried = |at| now - at >= RETRY_INTERVAL;
        if is_changed || state.failed.is_some_and(is_retried) {
            state.seen = found;
            let files: Vec<_> = self.files.iter().map(|path| path.display().to_string()).collect();
            match (self.make)() {
                Ok(made) => {
                    tracing::info!(self.used_for, ?files, "changed files were taken over");
                    *self.current.write() = Arc::new(made);
                    state.failed = None;
                }
                Err(error) => {
                    state.failed = Some(now);
                    if is_changed {
                        tracing::warn!(self.used_for, ?files, %error, "changed files do not do: what they held before holds on");
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(path: &Path) -> Result<String, FileError> {
        let text = String::from_utf8(read_file(path)?);
        let text = text.map_err(|_| FileError::new(path, "is no text"))?;
        if text.starts_with("bad") { Err(FileError::new(path, "is bad")) } else { Ok(text) }
    }

    #[test]
    fn changes_are_taken_over_and_faults_leave_what_there_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let (time, passing) = Time::simulated(0);
        let watch = || {
            let read = path.clone();
            Watched::new("test", vec![path.clone()], &time, move || text_of(&read))
        };
        assert!(watch().is_err(), "there is no file yet");
        fs::write(&path, "one").unwrap();
        let watched = watch().unwrap();
        let at = |millis| {
            passing.pass_until(Instant::default() + Duration::from_millis(millis));
            watched.get().as_ref().clone()
        };
        fs::write(&path, "three").unwrap();
        assert_eq!(at(999), "one", "not looked at yet");
        assert_eq!(at(1000), "three");
        for (millis, change, expected) in [
            (2000, Some("bad"), "three"),
            (3000, None, "three"),
            (4000, Some("four"), "four"),
            (5000, Some("\u{0}bad no more"), "\u{0}bad no more"),
        ] {
            match change {
                Some(text) => fs::write(&path, text).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            assert_eq!(at(millis), expected);
        }
        // As certificates are replaced: written beside, and moved there.
        let beside = folder.path().join("beside");
        fs::write(&beside, "\u{0}bad no less").unwrap();
        fs::rename(&beside, &path).unwrap();
        assert_eq!(at(6000), "\u{0}bad no less");
    }

    #[test]
    fn only_files_of_a_decent_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let bytes = usize::try_from(FILE_BYTES_MAX).unwrap();
        fs::write(&path, vec![b'x'; bytes]).unwrap();
        assert_eq!(read_file(&path).map(|it| it.len()), Ok(bytes));
        fs::write(&path, vec![b'x'; bytes + 1]).unwrap();
        assert!(read_file(&path).unwrap_err().to_string().contains("larger"));
        assert!(read_file(Path::new("/dev/zero")).unwrap_err().to_string().contains("is no file"));
        assert!(read_file(folder.path()).is_err());
        // Nobody writes into it: whoever opened it would wait.
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(read_file(&pipe).unwrap_err().to_string().contains("is no file"));
    }

    #[test]
    fn what_could_not_be_read_once_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "one").unwrap();
        let is_failing = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (fails, read) = (Arc::clone(&is_failing), path.clone());
        let (time, passing) = Time::simulated(0);
        let make = move || match fails.load(std::sync::atomic::Ordering::Relaxed) {
            true => Err(FileError::new(&read, "too many open files")),
            false => text_of(&read),
        };
        let watched = Watched::new("test", vec![path.clone()], &time, make).unwrap();
        let at = |seconds| {
            passing.pass_until(Instant::default() + Duration::from_secs(seconds));
            watched.get().as_ref().clone()
        };
        fs::write(&path, "three").unwrap();
        is_failing.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(at(1), "one");
        is_failing.store(false, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(at(10), "one", "not tried again yet");
        assert_eq!(at(11), "three");
    }
}
