//! What the kernel says of memory, from `/proc` and the control group: how much there is for this
//! process, and how much of it is taken by memory that no file backs. Where a file is not there
//! (another system), the answer is 0.

#![expect(unsafe_code, reason = "the kernel is asked for the size of a page")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Where the limit of the process comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Bytes that there are: of the machine, or of the control group, whichever is less.
    pub total_bytes: u64,
    /// The control group's folder, where it is the group that limits.
    group: Option<PathBuf>,
}

static MACHINE: LazyLock<Machine> = LazyLock::new(Machine::find);
static PAGE_BYTES: LazyLock<u64> = LazyLock::new(|| {
    // SAFETY: a question without arguments in memory.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
});

/// The machine on which this process runs, as it was at the first question.
#[must_use]
pub fn machine() -> &'static Machine {
    &MACHINE
}

impl Machine {
    fn find() -> Self {
        let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total = number_after(&text, "MemTotal:") * 1024;
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        match limiting_group(Path::new("/sys/fs/cgroup"), &own) {
            Some((group, limit)) if limit < total => {
                Self { total_bytes: limit, group: Some(group) }
            }
            _ => Self { total_bytes: total, group: None },
        }
    }

    /// Bytes that cannot be had back by dropping caches of files: all but those of the control
    /// group where it is the limit (sockets' buffers count there), else this process' anonymous
    /// memory. Costs some microseconds.
    #[must_use]
    pub fn anonymous_bytes(&self) -> u64 {
        let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let mut pages = text.split(' ').skip(1).filter_map(|it| it.parse::<u64>().ok());
        let (resident, shared) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
        let own = resident.saturating_sub(shared) * *PAGE_BYTES;
        let Some(group) = &self.group else { return own };
        let read = |name| fs::read_to_string(group.join(name)).unwrap_or_default();
        let all = [read("memory.current"), read("memory.usage_in_bytes")];
        let all = all.iter().find_map(|text| text.trim().parse::<u64>().ok()).unwrap_or(0);
        own.max(all.saturating_sub(cached(&read("memory.stat"))))
    }
}

/// Bytes of files that a group has in memory, by its `memory.stat` of either version.
fn cached(text: &str) -> u64 {
    let second = number_after(text, "file ").saturating_sub(number_after(text, "shmem "));
    let first =
        number_after(text, "total_cache ").saturating_sub(number_after(text, "total_shmem "));
    second.max(first)
}

/// The number behind the first line's beginning.
fn number_after(text: &str, beginning: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(beginning));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The group, of the process' own and those above it, that has the lowest limit. `own` is
/// `/proc/self/cgroup`.
fn limiting_group(root: &Path, own: &str) -> Option<(PathBuf, u64)> {
    let mut limits = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let (base, file) = if controllers.is_empty() {
            (root.to_path_buf(), "memory.max")
        } else if controllers.split(',').any(|it| it == "memory") {
            (root.join("memory"), "memory.limit_in_bytes")
        } else {
            continue;
        };
        let mut group = base.join(path.trim_start_matches('/'));
        loop {
            let text = fs::read_to_string(group.join(file)).unwrap_or_default();
            // Without a limit it says `max`, or in the first version a number beyond any machine.
            if let Ok(limit) = text.trim().parse::<u64>() {
                limits.push((group.clone(), limit));
            }
            if group == base || !group.pop() {
                break;
            }
        }
    }
    limits.into_iter().min_by_key(|(_, limit)| *limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_something() {
        let machine = machine();
        assert!(machine.total_bytes > 1 << 20);
        let before = machine.anonymous_bytes();
        let taken = std::hint::black_box(vec![1u8; 64 << 20]);
        assert!(machine.anonymous_bytes() > before + (32 << 20));
        drop(taken);
    }

    #[test]
    fn files_are_told_apart_in_both_versions() {
        assert_eq!(cached("anon 5\nfile 300\nkernel 1\nshmem 100\n"), 200);
        assert_eq!(cached("cache 1\nrss 7\ntotal_cache 40\ntotal_rss 9\ntotal_shmem 4\n"), 36);
        assert_eq!(cached(""), 0);
    }

    #[test]
    fn the_lowest_limit_of_all_groups_above_counts() {
        let root = std::env::temp_dir().join(format!("memory-groups-{}", std::process::id()));
        let inner = root.join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("memory.max"), "max\n").unwrap();
        fs::write(root.join("a/memory.max"), "1000\n").unwrap();
        assert_eq!(limiting_group(&root, "0::/a/b\n"), Some((root.join("a"), 1000)));
        fs::write(inner.join("memory.max"), "900\n").unwrap();
        assert_eq!(limiting_group(&root, "0::/a/b\n"), Some((inner.clone(), 900)));
        fs::create_dir_all(root.join("memory/x")).unwrap();
        fs::write(root.join("memory/x/memory.limit_in_bytes"), "77\n").unwrap();
        let first_version = "9:cpu,memory:/x\n1:name=systemd:/y\n";
        assert_eq!(limiting_group(&root, first_version), Some((root.join("memory/x"), 77)));
        assert_eq!(limiting_group(&root, "0::/none\n"), None);
        fs::remove_dir_all(root).unwrap();
    }
}
