//! Processor shares of the lab's processes: control groups (version 1 or 2) with a period of 5 ms
//! where they can be written, because at the usual 100 ms the pauses are the tail that is measured.
//! Without them the lab falls back to stopping and continuing processes by turns (`throttle.rs`).
//!
//! A place is a group with a quota and two groups in it: `server`, and `stress` for what is to
//! disturb it, which share the quota by weight.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use plimsoll_control::average::whole;

/// The period of quotas, µs.
pub(crate) const PERIOD_US: u64 = 5_000;
/// The least quota that the kernel takes, µs.
const QUOTA_US_MIN: u64 = 1_000;
/// The folder of all of the lab's groups, before the number of its process.
const FOLDER: &str = "plimsoll-lab-";
/// The weight of a server; that of its disturbance is relative to it.
const WEIGHT: f64 = 1_024.0;

/// Which groups this machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// One hierarchy for each controller.
    One,
    /// One for all.
    Two,
}

/// The lab's folder of groups.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    version: Version,
    folder: PathBuf,
}

/// One place.
#[derive(Clone, Debug)]
pub(crate) struct Cgroup {
    version: Version,
    folder: PathBuf,
}

/// How often and for how long a place had used up its quota, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Throttled {
    /// Periods in which something wanted to run.
    pub(crate) periods: u64,
    /// Those of them in which the quota ran out.
    pub(crate) throttled: u64,
}

impl Shares {
    /// Makes the lab's folder where this process may write groups; none where it may not.
    pub(crate) fn make() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/mounts").ok()?;
        let (version, root) = hierarchy(&mounts, "cpu")?;
        let folder = root.join(format!("{FOLDER}{}", std::process::id()));
        let shares = Self { version, folder };
        clear_left_over(&root);
        fs::create_dir(&shares.folder).ok()?;
        // What can be made can still be refused its quota: try it.
        let tried = (version == Version::One || shares.enable(&root).is_ok())
            .then(|| shares.place("probe").and_then(|place| place.quota(0.5).map(|()| place)));
        match tried {
            Some(Ok(place)) => {
                place.remove();
                Some(shares)
            }
            _ => {
                let _ = fs::remove_dir(shares.folder.join("probe"));
                let _ = fs::remove_dir(&shares.folder);
                None
            }
        }
    }

    /// Version 2 hands the controller down level by level.
    fn enable(&self, root: &Path) -> io::Result<()> {
        for folder in [root, &self.folder] {
            write(folder, "cgroup.subtree_control", "+cpu")?;
        }
        Ok(())
    }

    /// What limits processes, in words.
    pub(crate) fn about(&self) -> String {
        let version = if self.version == Version::One { 1 } else { 2 };
        format!("control groups, version {version}, with a period of {} ms", PERIOD_US / 1_000)
    }

    /// The folder, to be removed at the end.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes a place.
    pub(crate) fn place(&self, name: &str) -> io::Result<Cgroup> {
        let place = Cgroup { version: self.version, folder: self.folder.join(name) };
        fs::create_dir(&place.folder)?;
        if self.version == Version::Two {
            write(&place.folder, "cgroup.subtree_control", "+cpu")?;
        }
        for inner in place.inner() {
            fs::create_dir(inner)?;
        }
        Ok(place)
    }
}

impl Drop for Shares {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

impl Cgroup {
    fn inner(&self) -> [PathBuf; 2] {
        ["server", "stress"].map(|name| self.folder.join(name))
    }

    /// Folders to be removed at the end, the innermost last.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        std::iter::once(self.folder.clone()).chain(self.inner()).collect()
    }

    /// The file that a process writes its number to in order to be in this place as a server.
    pub(crate) fn server_file(&self) -> PathBuf {
        self.folder.join("server/cgroup.procs")
    }

    /// The same for a disturbance.
    pub(crate) fn stress_file(&self) -> PathBuf {
        self.folder.join("stress/cgroup.procs")
    }

    /// The processes that disturb.
    pub(crate) fn stress_processes(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.stress_file()).unwrap_or_default();
        text.lines().filter_map(|line| line.trim().parse().ok()).collect()
    }

    /// Lets the place use so many processors together, at least 0.01. The period is longer where a
    /// part of it would be less than the kernel takes.
    pub(crate) fn quota(&self, processors: f64) -> io::Result<()> {
        let processors = processors.max(0.01);
        let period_us = PERIOD_US.max(whole(QUOTA_US_MIN as f64 / processors));
        let quota_us = whole(processors * period_us as f64).max(QUOTA_US_MIN);
        match self.version {
            Version::One => {
                // The quota first goes away: the kernel refuses a pair that does not fit.
                write(&self.folder, "cpu.cfs_quota_us", "-1")?;
                write(&self.folder, "cpu.cfs_period_us", &period_us.to_string())?;
                write(&self.folder, "cpu.cfs_quota_us", &quota_us.to_string())
            }
            Version::Two => write(&self.folder, "cpu.max", &format!("{quota_us} {period_us}")),
        }
    }

    /// Takes the quota away.
    pub(crate) fn free(&self) -> io::Result<()> {
        match self.version {
            Version::One => write(&self.folder, "cpu.cfs_quota_us", "-1"),
            Version::Two => write(&self.folder, "cpu.max", "max"),
        }
    }

    /// Leaves the server this part of the quota while a disturbance wants all of it; from 0 to 1.
    pub(crate) fn keep(&self, part: f64) -> io::Result<()> {
        let part = part.clamp(0.005, 0.995);
        let [server, stress] = self.inner();
        match self.version {
            Version::One => {
                let other = whole(WEIGHT * (1.0 - part) / part).clamp(2, 262_144);
                write(&server, "cpu.shares", &whole(WEIGHT).to_string())?;
                write(&stress, "cpu.shares", &other.to_string())
            }
            Version::Two => {
                // From 1 to 10,000: the larger of both gets that.
                let (own, other) = (part, 1.0 - part);
                let scale = 10_000.0 / own.max(other);
                let weight = |of: f64| whole(of * scale).clamp(1, 10_000).to_string();
                write(&server, "cpu.weight", &weight(own))?;
                write(&stress, "cpu.weight", &weight(other))
            }
        }
    }

    /// How often the quota ran out.
    pub(crate) fn throttled(&self) -> Throttled {
        let text = fs::read_to_string(self.folder.join("cpu.stat")).unwrap_or_default();
        throttled(&text)
    }

    fn remove(&self) {
        for folder in self.folders().iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

impl Throttled {
    /// What was added since an earlier look.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            periods: self.periods.saturating_sub(before.periods),
            throttled: self.throttled.saturating_sub(before.throttled),
        }
    }
}

fn write(folder: &Path, file: &str, text: &str) -> io::Result<()> {
    fs::write(folder.join(file), text)
}

/// The hierarchy of a controller, by the table of mounts.
pub(crate) fn hierarchy(mounts: &str, controller: &str) -> Option<(Version, PathBuf)> {
    let rows = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let rows: Vec<Vec<&str>> = rows.filter(|row| row.len() >= 4).collect();
    let has = |row: &&Vec<&str>| row[3].split(',').any(|option| option == controller);
    let one = rows.iter().find(|row| row[2] == "cgroup" && has(row));
    if let Some(row) = one {
        return Some((Version::One, PathBuf::from(row[1])));
    }
    let two = rows.iter().find(|row| row[2] == "cgroup2")?;
    Some((Version::Two, PathBuf::from(two[1])))
}

/// Folders of labs that are gone are in nobody's way, but would stay until the next start.
fn clear_left_over(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(process) = name.strip_prefix(FOLDER) else { continue };
        if Path::new("/proc").join(process).exists() {
            continue;
        }
        let places = fs::read_dir(entry.path()).into_iter().flatten().flatten();
        for place in places.filter(|place| place.path().is_dir()) {
            Cgroup { version: Version::One, folder: place.path() }.remove();
        }
        let _ = fs::remove_dir(entry.path());
    }
}

fn throttled(text: &str) -> Throttled {
    let of = |name: &str| {
        let row = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        row.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    };
    Throttled { periods: of("nr_periods"), throttled: of("nr_throttled") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_is_found_by_the_table_of_mounts() {
        let one = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                   cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n\
                   cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
                   cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let found = hierarchy(one, "cpu");
        assert_eq!(found, Some((Version::One, PathBuf::from("/sys/fs/cgroup/cpu,cpuacct"))));
        let two = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
        assert_eq!(hierarchy(two, "cpu"), Some((Version::Two, PathBuf::from("/sys/fs/cgroup"))));
        assert_eq!(hierarchy("proc /proc proc rw 0 0\n", "cpu"), None);
    }

    #[test]
    fn what_is_written_is_what_the_kernel_takes() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        for (version, files) in [
            (Version::One, ["cpu.cfs_quota_us", "server/cpu.shares", "stress/cpu.shares"]),
            (Version::Two, ["cpu.max", "server/cpu.weight", "stress/cpu.weight"]),
        ] {
            let place = Cgroup { version, folder: folder.path().to_owned() };
            for inner in place.inner() {
                fs::create_dir_all(inner).unwrap();
            }
            place.quota(0.24).unwrap();
            place.keep(0.2).unwrap();
            let expected = match version {
                Version::One => ["1200", "1024", "4096"],
                Version::Two => ["1200 5000", "2500", "10000"],
            };
            assert_eq!(files.map(read), expected, "{version:?}");
            // Less than a millisecond the kernel refuses: a longer period.
            place.quota(0.1).unwrap();
            assert!(read(files[0]).starts_with("1000"));
            place.free().unwrap();
            assert!(["-1", "max"].contains(&read(files[0]).as_str()));
        }
    }

    #[test]
    fn throttling_is_counted_since_a_moment() {
        let before = throttled("nr_periods 10\nnr_throttled 4\nthrottled_time 5\n");
        let after = throttled("usage_usec 1\nnr_periods 30\nnr_throttled 9\n");
        assert_eq!(after.since(before), Throttled { periods: 20, throttled: 5 });
        assert_eq!(throttled(""), Throttled::default());
    }
}
