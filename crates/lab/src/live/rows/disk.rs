//! A disk that is slower than this machine's: what a process writes is held to so many bytes a second by
//! control groups. Writes that the process waits for (synced and direct ones) are held; what the kernel
//! writes back by itself is not, so that nodes have to sync what they write piece by piece.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::live::guardian::Guardian;
use crate::live::shares::{Version, hierarchy};

/// The name of the lab's group, before the number of its process.
const FOLDER: &str = "plimsoll-lab-disk-";

/// A group of processes whose writes are held.
pub(super) struct SlowDisk {
    version: Version,
    folder: PathBuf,
    /// Major and minor number of the disk.
    device: (u64, u64),
}

impl SlowDisk {
    /// Makes the group for the disk that `data` is on; none where this process may not.
    pub(super) fn make(data: &Path, guardian: &Guardian) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/mounts").ok()?;
        let (version, root) = hierarchy(&mounts, "blkio")?;
        let folder = root.join(format!("{FOLDER}{}", std::process::id()));
        let disk = Self { version, folder, device: device(data)? };
        if version == Version::Two {
            fs::write(root.join("cgroup.subtree_control"), "+io").ok()?;
        }
        fs::create_dir(&disk.folder).ok()?;
        let told = guardian.folder(&disk.folder.to_string_lossy());
        // What can be made can still be refused its limit: try it.
        (told.is_ok() && disk.limit(Some(1 << 30)).is_ok()).then_some(disk)
    }

    /// Holds writes to so many bytes a second; none is no limit.
    pub(super) fn limit(&self, bytes_s: Option<u64>) -> io::Result<()> {
        let (major, minor) = self.device;
        let (file, text) = match (self.version, bytes_s) {
            (Version::One, bytes_s) => (
                "blkio.throttle.write_bps_device",
                format!("{major}:{minor} {}", bytes_s.unwrap_or(0)),
            ),
            (Version::Two, Some(bytes_s)) => ("io.max", format!("{major}:{minor} wbps={bytes_s}")),
            (Version::Two, None) => ("io.max", format!("{major}:{minor} wbps=max")),
        };
        fs::write(self.folder.join(file), text)
    }

    /// Bytes that the group wrote to the disk so far; none where nobody says.
    pub(super) fn written_bytes(&self) -> Option<u64> {
        let file = match self.version {
            Version::One => "blkio.throttle.io_service_bytes",
            Version::Two => "io.stat",
        };
        let text = fs::read_to_string(self.folder.join(file)).ok()?;
        let (major, minor) = self.device;
        written(&text, &format!("{major}:{minor}"))
    }

    /// Puts a process into the group, with all its threads.
    pub(super) fn hold(&self, process: u32) -> io::Result<()> {
        fs::write(self.folder.join("cgroup.procs"), process.to_string())
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The disk that a folder is on, not the partition of it: limits are of whole disks.
fn device(folder: &Path) -> Option<(u64, u64)> {
    let number = fs::metadata(folder).ok()?.dev();
    // As the kernel packs them for programs.
    let major = (number >> 8) & 0xfff;
    let minor = (number & 0xff) | ((number >> 12) & 0xfff_ff00);
    let of_sys = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let of_sys = fs::canonicalize(of_sys).ok()?;
    let whole = match of_sys.join("partition").exists() {
        true => of_sys.parent()?.to_owned(),
        false => of_sys,
    };
    let text = fs::read_to_string(whole.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// What was written to a device, of either version's table; nothing where it does not stand there.
fn written(table: &str, device: &str) -> Option<u64> {
    let mut rows = table.lines().filter_map(|line| line.strip_prefix(device)?.strip_prefix(' '));
    let of_row = |row: &str| {
        let bytes = row.strip_prefix("Write ").map(str::to_owned);
        let of_two = || row.split(' ').find_map(|it| it.strip_prefix("wbytes=").map(str::to_owned));
        bytes.or_else(of_two)?.parse().ok()
    };
    if table.trim().is_empty() { Some(0) } else { rows.find_map(of_row) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_both_versions_are_read() {
        let one = "8:0 Read 5\n8:0 Write 7\n252:0 Read 1\n252:0 Write 3\nTotal 16\n";
        assert_eq!(
            (written(one, "252:0"), written(one, "8:0"), written(one, "9:0")),
            (Some(3), Some(7), None)
        );
        let two = "252:0 rbytes=1 wbytes=42 rios=1 wios=2\n";
        assert_eq!((written(two, "252:0"), written("", "252:0")), (Some(42), Some(0)));
    }

    #[test]
    fn the_disk_of_a_folder_is_a_disk() {
        // In memory there is none.
        let Some((major, minor)) = device(Path::new(".")) else { return };
        let of_sys = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        assert!(of_sys.exists() && !of_sys.join("partition").exists());
    }
}
