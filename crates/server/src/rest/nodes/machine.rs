//! What the kernel says of the machine, from `/proc` and the file system: nothing is estimated.
//! Where a file is not there (another system), figures are 0.

use std::fs;
use std::path::Path;
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::process;

/// Bytes in a sector, as `/proc/diskstats` counts them on every device.
const SECTOR_BYTES: u64 = 512;

/// Memory of the machine, bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// All.
    pub total: u64,
    /// That can be given away without swapping.
    pub free: u64,
    /// Swap.
    pub swap_total: u64,
    /// Swap that is not used.
    pub swap_free: u64,
}

impl Memory {
    /// As it is now.
    #[must_use]
    pub fn read() -> Self {
        let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let bytes = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let kilobytes =
                line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
            kilobytes.unwrap_or(0) * 1024
        };
        Self {
            total: bytes("MemTotal"),
            free: bytes("MemAvailable"),
            swap_total: bytes("SwapTotal"),
            swap_free: bytes("SwapFree"),
        }
    }

    /// Bytes in use.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.total.saturating_sub(self.free)
    }

    /// As clients read it.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "total_in_bytes": self.total,
            "free_in_bytes": self.free,
            "used_in_bytes": self.used(),
            "free_percent": percent(self.free, self.total),
            "used_percent": percent(self.used(), self.total),
        })
    }
}

/// A part of a whole in whole percent; 0 of nothing.
#[must_use]
pub fn percent(part: u64, whole: u64) -> u64 {
    (part.saturating_mul(100) + whole / 2).checked_div(whole).unwrap_or(0)
}

/// Averages over 1, 5 and 15 minutes of the threads that run or wait to.
#[must_use]
pub fn load_averages() -> [f64; 3] {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut numbers = text.split(' ').map(|text| text.parse().unwrap_or(0.0));
    std::array::from_fn(|_| numbers.next().unwrap_or(0.0))
}

/// Processor time between two looks.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    machine_busy: u64,
    machine_all: u64,
    process_ms: u64,
}

static LAST_LOOK: Mutex<Option<(Look, [u64; 2])>> = Mutex::new(None);
/// Looks that are nearer than this say the same: in between, too little time passes to measure.
const LOOK_MS: u128 = 500;

/// How much of the processors is in use since the last look, in percent: by the machine and by
/// this process. The first look has none before it: it tells the machine's since it was started,
/// and 0.
#[must_use]
pub fn processors_percent() -> [u64; 2] {
    let mut last = LAST_LOOK.lock();
    if let Some((look, found)) = *last
        && look.at.elapsed().as_millis() < LOOK_MS
    {
        return found;
    }
    let now = sample();
    let found = match *last {
        None => [percent(now.machine_busy, now.machine_all), 0],
        Some((before, _)) => {
            let millis = u64::try_from(before.at.elapsed().as_millis()).unwrap_or(u64::MAX);
            let whole = millis.saturating_mul(processors());
            [
                percent(
                    now.machine_busy.saturating_sub(before.machine_busy),
                    now.machine_all.saturating_sub(before.machine_all),
                ),
                percent(now.process_ms.saturating_sub(before.process_ms), whole).min(100),
            ]
        }
    };
    *last = Some((now, found));
    found
}

fn sample() -> Look {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let times: Vec<u64> =
        line.split_whitespace().skip(1).take(8).map(|text| text.parse().unwrap_or(0)).collect();
    let all: u64 = times.iter().sum();
    // The fourth and fifth are idle, and idle while a disk is waited for.
    let idle: u64 = times.iter().skip(3).take(2).sum();
    Look {
        at: Instant::now(),
        machine_busy: all.saturating_sub(idle),
        machine_all: all,
        process_ms: process_ms(),
    }
}

/// Processor time of the process, ms.
#[must_use]
pub fn process_ms() -> u64 {
    let (own, kernel) = process::cpu_time();
    u64::try_from((own + kernel).as_millis()).unwrap_or(u64::MAX)
}

/// Processors that the process may use.
#[must_use]
pub fn processors() -> u64 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u64)
}

/// Files and sockets that are open, and the most that may be.
#[must_use]
pub fn file_descriptors() -> (u64, u64) {
    let open = fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let most = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    (open, most.unwrap_or(0))
}

/// A number of `/proc/self/status`: bytes where it is memory.
#[must_use]
pub fn status(field: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let mut words = line.unwrap_or_default().split_whitespace();
    let number: u64 = words.next().and_then(|text| text.parse().ok()).unwrap_or(0);
    if words.next() == Some("kB") { number * 1024 } else { number }
}

/// The name of the system, as people say it.
#[must_use]
pub fn pretty_name() -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    line.map_or_else(|| "Linux".to_owned(), |name| name.trim_matches('"').to_owned())
}

/// The kernel's version.
#[must_use]
pub fn kernel() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

/// The file system of the data folder.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    /// Bytes.
    pub total: u64,
    /// Bytes that nobody uses.
    pub free: u64,
    /// Bytes that this process may use.
    pub available: u64,
    /// Where it is mounted, and from what.
    pub mount: String,
    /// `ext4` and the like.
    pub kind: String,
    /// Its device in `/proc/diskstats`; empty for one that has none.
    pub device: String,
}

impl Disk {
    /// That of a folder.
    #[must_use]
    pub fn of(folder: &Path) -> Self {
        let mut disk = Self::default();
        if let Ok(space) = plimsoll_base::Disk::of_the_machine().space(folder) {
            disk.total = space.total_bytes;
            disk.free = space.free_bytes;
            disk.available = space.available_bytes;
        }
        disk.find_mount(folder);
        disk
    }

    /// Bytes in use.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.total.saturating_sub(self.free)
    }

    /// The mount with the longest path above the folder holds it.
    fn find_mount(&mut self, folder: &Path) {
        let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mut longest = 0;
        for line in text.lines() {
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let left: Vec<&str> = left.split(' ').collect();
            let right: Vec<&str> = right.split(' ').collect();
            let ([_, _, number, _, point, ..], [kind, source, ..]) =
                (left.as_slice(), right.as_slice())
            else {
                continue;
            };
            if point.len() >= longest && folder.starts_with(point) {
                longest = point.len();
                self.mount = format!("{point} ({source})");
                self.kind = (*kind).to_owned();
                self.device = device(number);
            }
        }
    }

    /// What its device has done since the machine was started.
    #[must_use]
    pub fn io(&self) -> Option<Value> {
        let text = fs::read_to_string("/proc/diskstats").unwrap_or_default();
        let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let fields = lines.find(|fields| fields.get(2) == Some(&self.device.as_str()))?;
        let number =
            |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let kilobytes = |at: usize| number(at) * SECTOR_BYTES / 1024;
        let (reads, writes) = (number(3), number(7));
        Some(json!({
            "operations": reads + writes,
            "read_operations": reads,
            "write_operations": writes,
            "read_kilobytes": kilobytes(5),
            "write_kilobytes": kilobytes(9),
            "read_time": number(6),
            "write_time": number(10),
            "queue_size": number(13),
            "io_time_in_millis": number(12),
        }))
    }
}

/// The name of the device with this number, `254:0`.
fn device(number: &str) -> String {
    let text = fs::read_to_string("/proc/diskstats").unwrap_or_default();
    let name = text.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let (major, minor, name) = (fields.next()?, fields.next()?, fields.next()?);
        (format!("{major}:{minor}") == number).then(|| name.to_owned())
    });
    name.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_something_of_everything() {
        let memory = Memory::read();
        assert!(memory.total > memory.free && memory.free > 0);
        let disk = Disk::of(Path::new("/"));
        assert!(disk.total >= disk.free && disk.total > 0 && !disk.kind.is_empty());
        let (open, most) = file_descriptors();
        assert!(open > 2 && open <= most);
        assert!(status("Threads") > 0 && status("VmSize") > status("VmRSS"));
        assert!(processors_percent().iter().all(|percent| *percent <= 100));
        assert!(!kernel().is_empty());
    }

    #[test]
    fn percents_are_rounded() {
        assert_eq!((percent(1, 3), percent(2, 3), percent(1, 0), percent(5, 5)), (33, 67, 0, 100));
    }
}
