//! A node's own path to the disk: a control group in which the node and what disturbs its disk may
//! together move so many bytes a second, so that the other nodes of this machine keep theirs. It
//! knows version 1 (`blkio.throttle`) and version 2 (`io.max`); where neither can be written, or
//! the data is on no block device, there is none, and the caller says so. Processor shares are
//! `shares.rs`.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::generator::own_group;
use super::guardian::Guardian;
use super::shares::{Cgroup, Version, hierarchy};

/// What node and disturbance may read together, and write, bytes a second: a tired disk's.
pub(crate) const BYTES_PER_S: u64 = 8 << 20;
/// The folders of such groups, before the numbers of the lab's process and the node's.
const FOLDER: &str = "plimsoll-lab-disk-";

/// A node in a path of its own; it leaves it when this is dropped.
pub(crate) struct DiskPath {
    /// The group that what disturbs has to enter; none where it is in it by its processor share.
    group: Option<PathBuf>,
    /// What is written where in order to leave.
    leave: (PathBuf, String),
}

impl DiskPath {
    /// Gives a node whose data is in `folder` a path of its own; none where that cannot be done.
    pub(crate) fn make(
        place: &Cgroup,
        folder: &Path,
        server: u32,
        guardian: &Guardian,
    ) -> Option<Self> {
        let device = device(folder)?;
        let mounts = fs::read_to_string("/proc/mounts").ok()?;
        match hierarchy(&mounts, "blkio")? {
            (Version::One, root) => Self::apart(&root, &device, server, guardian).ok(),
            (Version::Two, _) => Self::same(place, &device).ok(),
        }
    }

    /// Version 1 has a hierarchy for each controller.
    fn apart(root: &Path, device: &str, server: u32, guardian: &Guardian) -> io::Result<Self> {
        let own = fs::read_to_string(format!("/proc/{server}/cgroup"))?;
        let back = root.join(own_group(&own, "blkio")).join("cgroup.procs");
        // Without a way back the node would stay there for good.
        fs::metadata(&back)?;
        clear_left_over(root);
        let group = root.join(format!("{FOLDER}{}-{server}", std::process::id()));
        // Its workers may not be gone yet when a stress ends: then it is there still.
        fs::create_dir_all(&group)?;
        // From here on dropping it takes the group away.
        let path = Self { group: Some(group.clone()), leave: (back, server.to_string()) };
        guardian.folder(&group.to_string_lossy())?;
        for kind in ["read", "write"] {
            let file = group.join(format!("blkio.throttle.{kind}_bps_device"));
            fs::write(file, format!("{device} {BYTES_PER_S}"))?;
        }
        fs::write(group.join("cgroup.procs"), server.to_string())?;
        Ok(path)
    }

    /// Version 2 has one for all: the group of the processor share gets this limit too.
    fn same(place: &Cgroup, device: &str) -> io::Result<Self> {
        let folder = place.folders().swap_remove(0);
        // It is handed down level by level.
        let above: Vec<&Path> = folder.ancestors().skip(1).take(2).collect();
        for above in above.into_iter().rev() {
            fs::write(above.join("cgroup.subtree_control"), "+io")?;
        }
        let file = folder.join("io.max");
        fs::write(&file, format!("{device} rbps={BYTES_PER_S} wbps={BYTES_PER_S}"))?;
        Ok(Self { group: None, leave: (file, format!("{device} rbps=max wbps=max")) })
    }

    /// The file that a process which is to disturb writes its number to.
    pub(crate) fn stress_file(&self) -> Option<PathBuf> {
        self.group.as_ref().map(|group| group.join("cgroup.procs"))
    }
}

impl Drop for DiskPath {
    fn drop(&mut self) {
        let (file, text) = &self.leave;
        // The node may have ended.
        let _ = fs::write(file, text);
        if let Some(group) = &self.group {
            let _ = fs::remove_dir(group);
        }
    }
}

/// Groups of labs that are gone, whose workers took longer to end than anybody waited.
fn clear_left_over(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let lab = name.strip_prefix(FOLDER).and_then(|rest| rest.split('-').next());
        if lab.is_some_and(|lab| !Path::new("/proc").join(lab).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The disk that a folder is on, as `major:minor`; of a partition its disk, which is what can be
/// limited.
fn device(folder: &Path) -> Option<String> {
    let number = fs::metadata(folder).ok()?.dev();
    let entry = format!("/sys/dev/block/{}:{}", major_of(number), minor_of(number));
    let entry = PathBuf::from(entry);
    let disk = match entry.join("partition").exists() {
        true => fs::canonicalize(&entry).ok()?.parent()?.to_owned(),
        false => entry,
    };
    let text = fs::read_to_string(disk.join("dev")).ok()?;
    Some(text.trim().to_owned())
}

/// The major number of a device, as Linux packs it.
fn major_of(device: u64) -> u64 {
    ((device >> 32) & 0xffff_f000) | ((device >> 8) & 0xfff)
}

/// The minor number.
fn minor_of(device: u64) -> u64 {
    ((device >> 12) & 0xffff_ff00) | (device & 0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_the_numbers_that_linux_gives_them() {
        // 254:0, and one with a minor beyond a byte (259:300).
        assert_eq!((major_of(0xfe00), minor_of(0xfe00)), (254, 0));
        let device = (300 & 0xff) | (259 << 8) | ((300 & 0xffff_ff00) << 12);
        assert_eq!((major_of(device), minor_of(device)), (259, 300));
        // What is on no block device has no disk.
        assert_eq!(super::device(Path::new("/proc")), None);
    }
}
