//! Space kept free for a full disk: a log that cannot write its trims could never give space
//! back. The file is deleted when a write finds the disk full, and made again afterwards.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate};

const RESERVE_BYTES: u64 = 1 << 20;
/// How long after a full disk the reserve is made again, and how often that is tried.
const RESTORE_INTERVAL: Duration = Duration::from_secs(10);

/// The reserve of one log.
pub(super) struct Reserve {
    path: PathBuf,
    /// Since when it has been missing.
    missing: Mutex<Option<Instant>>,
}

impl Reserve {
    /// Makes the reserve where there is room.
    pub fn new(dir: &Path) -> Self {
        let reserve = Self { path: dir.join("reserve"), missing: Mutex::new(None) };
        reserve.make();
        reserve
    }

    /// Frees the space.
    pub fn release(&self) {
        // Where it cannot be deleted it never was, or the disk has failed altogether.
        let _ = fs::remove_file(&self.path);
        *self.missing.lock() = Some(Instant::now());
    }

    /// Makes the reserve again, some time after it was released.
    pub fn restore_if_due(&self, now: Instant) {
        if self.missing.lock().is_some_and(|since| now - since >= RESTORE_INTERVAL) {
            self.make();
        }
    }

    fn make(&self) {
        let made = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&self.path)
            .map_err(|error| error.to_string())
            .and_then(|file| {
                fallocate(&file, FallocateFlags::empty(), 0, RESERVE_BYTES)
                    .map_err(|error| error.to_string())
            });
        *self.missing.lock() = match made {
            Ok(()) => None,
            Err(reason) => {
                tracing::warn!(%reason, file = %self.path.display(), "no reserve for a full disk");
                let _ = fs::remove_file(&self.path);
                Some(Instant::now())
            }
        };
    }
}
