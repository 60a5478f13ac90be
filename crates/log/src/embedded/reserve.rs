//! Space kept free for a full disk: a log that can write no trims, and move no records out of files
//! that are garbage otherwise, could never give space back. The file is deleted when a write finds
//! the disk full, and made again afterwards; until then no append takes what it leaves.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use plimsoll_base::Disk;
use rustix::fs::{FallocateFlags, fallocate};

/// What the underlying engine begins a file with.
const FIRST_BYTES: u64 = 2 << 20;
/// A file for trims, one for records that are moved, and what is small; of a small disk an eighth.
const RESERVE_BYTES: u64 = 3 * FIRST_BYTES;
const RESERVE_PART: u64 = 8;
/// How long after a full disk the reserve is made again, and how often that is tried.
const RESTORE_INTERVAL: Duration = Duration::from_secs(10);

/// The reserve of one log.
pub(super) struct Reserve {
    path: PathBuf,
    bytes: u64,
    /// Since when it has been missing.
    missing: Mutex<Option<Instant>>,
}

impl Reserve {
    /// Makes the reserve where there is room.
    pub fn new(dir: &Path) -> Self {
        let space = Disk::of_the_machine().space(dir);
        let bytes = space.map_or(u64::MAX, |it| it.total_bytes) / RESERVE_PART;
        let bytes = bytes.min(RESERVE_BYTES);
        let reserve = Self { path: dir.join("reserve"), bytes, missing: Mutex::new(None) };
        reserve.make();
        reserve
    }

    /// Frees the space.
    pub fn release(&self) {
        // Where it cannot be deleted it never was, or the disk has failed altogether.
        let _ = fs::remove_file(&self.path);
        *self.missing.lock() = Some(Instant::now());
    }

    /// Whether appends of so many bytes would take what the reserve left.
    pub fn would_be_taken(&self, bytes: usize) -> bool {
        let dir = self.path.parent();
        self.missing.lock().is_some()
            && dir.is_some_and(|dir| free_bytes(dir) < self.bytes + FIRST_BYTES + bytes as u64)
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
                fallocate(&file, FallocateFlags::empty(), 0, self.bytes)
                    .map_err(|error| error.to_string())
            });
        let mut missing = self.missing.lock();
        *missing = match made {
            Ok(()) => None,
            Err(reason) => {
                if missing.is_none() {
                    let file = self.path.display();
                    tracing::warn!(%reason, %file, "no reserve for a full disk");
                }
                let _ = fs::remove_file(&self.path);
                Some(Instant::now())
            }
        };
    }
}

/// What is free on the disk of a folder; one that says nothing has room.
pub(super) fn free_bytes(dir: &Path) -> u64 {
    Disk::of_the_machine().space(dir).map_or(u64::MAX, |it| it.available_bytes)
}
