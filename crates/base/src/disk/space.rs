//! How much room a disk has.

use std::io;
use std::path::Path;

use rustix::fs::statvfs;

/// Bytes of the disk that a folder is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All.
    pub total_bytes: u64,
    /// Those that nobody uses.
    pub free_bytes: u64,
    /// Those of them that this process may use.
    pub available_bytes: u64,
}

impl Space {
    pub(super) fn of_the_machine(dir: &Path) -> io::Result<Self> {
        let disk = statvfs(dir)?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        Ok(Self {
            total_bytes: bytes(disk.f_blocks),
            free_bytes: bytes(disk.f_bfree),
            available_bytes: bytes(disk.f_bavail),
        })
    }
}
