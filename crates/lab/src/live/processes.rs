//! What Linux says about processes and the machine, from `/proc`: processor time, memory, bytes
//! read and written, time that the hypervisor took.

use std::fs;
use std::path::Path;

/// Ticks a second of the times in `/proc`: the same on every Linux that runs here.
const TICKS_S: f64 = 100.0;

/// Processor time of a process so far, s; none where it is gone.
pub(crate) fn cpu_s(process: u32) -> Option<f64> {
    stat_cpu_s(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// The name may hold anything, so that fields are counted from the last bracket.
fn stat_cpu_s(text: &str) -> Option<f64> {
    let rest = text.rsplit_once(')')?.1;
    let field = |at: usize| rest.split_whitespace().nth(at)?.parse::<f64>().ok();
    Some((field(11)? + field(12)?) / TICKS_S)
}

/// Whether a process is there and has not ended; one that has ended stays until it is waited for.
pub(crate) fn is_running(process: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    text.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Bytes that a process read from and wrote to disks; none where it is gone or hidden.
pub(crate) fn io_bytes(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/io")).ok()?;
    Some(row(&text, "read_bytes:")? + row(&text, "write_bytes:")?)
}

/// Bytes that a process had written to disks; none where it is gone or hidden.
pub(crate) fn written_bytes(process: u32) -> Option<u64> {
    row(&fs::read_to_string(format!("/proc/{process}/io")).ok()?, "write_bytes:")
}

/// The most memory that a process had since [`reset_peak`], bytes.
pub(crate) fn resident_bytes_peak(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    Some(row(&text, "VmHWM:")? << 10)
}

/// Forgets the peak; where this is not allowed it stays that of the process's whole life.
pub(crate) fn reset_peak(process: u32) {
    let _ = fs::write(format!("/proc/{process}/clear_refs"), "5");
}

fn row(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_whitespace().next()?.parse().ok()
}

/// Times of the whole machine so far, s, all processors together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Machine {
    /// All time.
    pub(crate) all_s: f64,
    /// Working.
    pub(crate) busy_s: f64,
    /// Taken by the hypervisor.
    pub(crate) steal_s: f64,
}

impl Machine {
    /// As it is now.
    pub(crate) fn read() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        Self::parse(text.lines().next().unwrap_or_default())
    }

    fn parse(line: &str) -> Self {
        let fields: Vec<f64> =
            line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
        let of = |at: usize| fields.get(at).copied().unwrap_or(0.0) / TICKS_S;
        // user, nice, system, idle, iowait, irq, softirq, steal; guests are within user.
        let busy_s = of(0) + of(1) + of(2) + of(5) + of(6);
        Self { all_s: busy_s + of(3) + of(4) + of(7), busy_s, steal_s: of(7) }
    }

    /// What was added since an earlier look.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            all_s: self.all_s - before.all_s,
            busy_s: self.busy_s - before.busy_s,
            steal_s: self.steal_s - before.steal_s,
        }
    }
}

/// The machine in a few words: name, processors, memory.
pub(crate) fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let gib = row(&memory, "MemTotal:").unwrap_or(0) >> 20;
    let (name, kernel) = (name.trim(), kernel.trim());
    format!("{name} ({} processors, {gib} GiB, Linux {kernel})", processors())
}

/// How the sockets of this machine are set: congestion control, and the largest window of a receiver.
pub(crate) fn sockets() -> String {
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
    let control = read("tcp_congestion_control").unwrap_or_default();
    let memory = read("tcp_rmem").unwrap_or_default();
    let most = memory.split_whitespace().last().and_then(|text| text.parse::<u64>().ok());
    format!("{}, tcp_rmem up to {} KiB", control.trim(), most.unwrap_or(0) >> 10)
}

/// Processors of the machine. What the standard library says counts the quota of this process,
/// which changes when it goes into its room.
pub(crate) fn processors() -> usize {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let is_one = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    text.lines().filter(is_one).count().max(1)
}

/// Whether a program is on the path.
pub(crate) fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_behind_any_name() {
        let text = "12 (a) b) S 1 1 1 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 1 1 1";
        assert_eq!(stat_cpu_s(text), Some(3.0));
        assert_eq!(stat_cpu_s("nonsense"), None);
        assert!(is_running(std::process::id()) && !is_running(u32::MAX));
        assert!(cpu_s(std::process::id()).is_some() && cpu_s(u32::MAX).is_none());
    }

    #[test]
    fn the_machine_is_the_sum_of_its_times() {
        let one = Machine::parse("cpu  100 0 50 780 20 0 10 20 0 0");
        let expected = [10.0 - 0.2, 1.6, 0.2];
        for (is, should) in [one.all_s, one.busy_s, one.steal_s].into_iter().zip(expected) {
            assert!((is - should).abs() < 1e-9, "{one:?}");
        }
        assert_eq!(one.since(one), Machine::default());
        assert!(Machine::read().all_s > 0.0);
    }

    #[test]
    fn this_process_has_memory() {
        reset_peak(std::process::id());
        assert!(resident_bytes_peak(std::process::id()).is_some_and(|bytes| bytes > 1 << 20));
        assert!(is_program("sh") && !is_program("no-such-program"));
        assert!(host().contains("processors"));
    }
}
