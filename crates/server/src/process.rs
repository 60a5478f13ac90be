//! What the kernel says of this process and machine, from `/proc`. Where a file is not there
//! (another system), the answer is 0 or empty.

use std::{fs, time::Duration};

/// Ticks a second of the times in `/proc/self/stat`: fixed on Linux.
const TICKS_PER_SECOND: u64 = 100;

/// Bytes of memory that the process has.
#[must_use]
pub fn resident_bytes() -> u64 {
    status_bytes("VmRSS:")
}

/// The most that it ever had.
#[must_use]
pub fn resident_bytes_peak() -> u64 {
    status_bytes("VmHWM:")
}

fn status_bytes(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    let kilobytes = line.split_whitespace().next().and_then(|text| text.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Processor time of the process: its own, and the kernel's for it.
#[must_use]
pub fn cpu_time() -> (Duration, Duration) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The command's name stands in parentheses and may contain anything.
    let fields = stat.rsplit_once(") ").map(|(_, fields)| fields).unwrap_or_default();
    let mut times = fields.split(' ').skip(11).filter_map(|text| text.parse::<u64>().ok());
    let mut next = || Duration::from_millis(times.next().unwrap_or(0) * 1000 / TICKS_PER_SECOND);
    (next(), next())
}

/// The system's name, version and machine.
#[must_use]
pub fn operating_system() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {} {}", release.trim(), std::env::consts::ARCH)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_says_something() {
        assert!(super::resident_bytes() > 0);
        assert!(super::resident_bytes_peak() >= super::resident_bytes() / 2);
        assert!(super::operating_system().starts_with("Linux "));
    }
}
