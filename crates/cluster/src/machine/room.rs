//! Whether the disk has room left for what this node has to write by itself: rows that are in
//! memory, the log's own files, the removal of what is no longer wanted. Before that room is used
//! up, what makes the store larger is refused; reads, removals and flushes go on, so that space can
//! be made. How the log answers to a disk that is full all the same is the log's.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plimsoll_base::Disk;
use plimsoll_storage::{ErrorKind, ErrorReply};

/// What is kept free beside what is not in files yet, bytes; of a small disk an eighth at most.
const KEPT_FREE_BYTES: u64 = 32 << 20;
const KEPT_FREE_PART: u64 = 8;

/// The room on the disk of a node's folder, as it was when it was looked at last.
pub(crate) struct Room {
    disk: Disk,
    dir: PathBuf,
    is_low: AtomicBool,
    free_bytes: AtomicU64,
    wanted_bytes: AtomicU64,
    /// Bytes of records that had been applied when it was looked at.
    looked_at: AtomicU64,
}

/// The file that is written to see whether the disk takes it, and its bytes.
const TRIED: &str = "room.tried";
const TRIED_BYTES: usize = 4096;
/// It is looked at again after so many bytes of records.
const LOOK_BYTES: u64 = 2 << 20;

impl Room {
    /// Of the disk that a folder is on; as much as is needed until it is looked at.
    pub(crate) fn new(disk: &Disk, dir: &Path) -> Self {
        let (disk, dir) = (disk.clone(), dir.to_owned());
        let (is_low, free_bytes) = (AtomicBool::new(false), AtomicU64::new(u64::MAX));
        let (wanted_bytes, looked_at) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { disk, dir, is_low, free_bytes, wanted_bytes, looked_at }
    }

    /// Looks how much is free, so many bytes being still to be written to files. A disk that says
    /// nothing has room.
    pub(crate) fn measure(&self, unflushed_bytes: u64) {
        let Ok(space) = self.disk.space(&self.dir) else { return };
        let free_bytes = space.available_bytes;
        let wanted_bytes = wanted(space.total_bytes, unflushed_bytes);
        self.free_bytes.store(free_bytes, Ordering::Relaxed);
        self.wanted_bytes.store(wanted_bytes, Ordering::Relaxed);
        let is_low = free_bytes < wanted_bytes;
        if self.is_low.swap(is_low, Ordering::Relaxed) != is_low {
            let dir = self.dir.display();
            match is_low {
                true => tracing::warn!(%dir, free_bytes, wanted_bytes, "the disk is nearly full"),
                false => tracing::info!(%dir, free_bytes, "the disk has room again"),
            }
        }
    }

    /// Writes a file there and takes it away again.
    ///
    /// # Errors
    /// Whatever the disk says.
    pub(crate) fn try_write(&self) -> io::Result<()> {
        let path = self.dir.join(TRIED);
        // One that was left behind.
        let _ = self.disk.remove(&path);
        self.disk.write_new(&path, &[0; TRIED_BYTES])?;
        self.disk.sync(&path)?;
        self.disk.remove(&path)
    }

    /// Whether it is to be looked at, so many bytes of records having been applied; says so once.
    pub(crate) fn is_look_due(&self, applied_bytes: u64) -> bool {
        let looked_at = self.looked_at.load(Ordering::Relaxed);
        if applied_bytes.saturating_sub(looked_at) < LOOK_BYTES {
            return false;
        }
        self.looked_at.fetch_max(applied_bytes, Ordering::Relaxed);
        true
    }

    /// Whether there is too little.
    pub(crate) fn is_low(&self) -> bool {
        self.is_low.load(Ordering::Relaxed)
    }

    /// Whether so many bytes can be written with something left over.
    pub(crate) fn has(&self, bytes: u64) -> bool {
        self.free_bytes.load(Ordering::Relaxed) / 5 * 4 >= bytes
    }

    /// Refuses what makes the store larger, as it was looked at last.
    ///
    /// # Errors
    /// Where there is too little room, in words that say how much there is to be.
    pub(crate) fn check(&self) -> Result<(), ErrorReply> {
        if !self.is_low() {
            return Ok(());
        }
        let [free, wanted] = [&self.free_bytes, &self.wanted_bytes]
            .map(|bytes| bytes.load(Ordering::Relaxed).div_ceil(1 << 20));
        Err(ErrorReply::new(
            ErrorKind::DiskFull,
            format!(
                "the disk of {} is nearly full: {free} MB are free, and what makes the store \
                 larger is refused below {wanted} MB; reads and removals are not",
                self.dir.display()
            ),
        ))
    }
}

fn wanted(all_bytes: u64, unflushed_bytes: u64) -> u64 {
    KEPT_FREE_BYTES.min(all_bytes / KEPT_FREE_PART) + unflushed_bytes / 4 * 5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_in_files_needs_room_too() {
        assert_eq!(wanted(1 << 40, 0), 32 << 20);
        assert_eq!(wanted(1 << 40, 100 << 20), 157 << 20);
        assert_eq!(wanted(96 << 20, 0), 12 << 20);
    }

    #[test]
    fn a_disk_with_room_refuses_nothing() {
        let room = Room::new(&Disk::of_the_machine(), &std::env::temp_dir());
        assert!(!room.is_look_due(LOOK_BYTES - 1) && room.is_look_due(LOOK_BYTES));
        assert!(!room.is_look_due(LOOK_BYTES + 1));
        room.measure(0);
        assert_eq!(room.check().is_err(), room.is_low());
        room.measure(u64::MAX / 4);
        assert!(room.is_low() && !room.has(u64::MAX / 2));
        let refused = room.check().unwrap_err();
        assert_eq!(refused.kind, ErrorKind::DiskFull);
        assert!(refused.message.contains("MB"), "{refused}");
    }
}
