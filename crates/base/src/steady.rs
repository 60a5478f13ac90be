//! The clock that does not step, which the one that may is held against. It goes on while the machine
//! sleeps: beside one that stands still meanwhile, the right time after it would look like a step.

use std::time::Duration;

/// Time since the machine was started, its sleep included.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(now).unwrap_or_default()
}

/// Time since this was first asked for. Whether the machine's sleep is included is the system's choice.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn now() -> Duration {
    static STARTED: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    STARTED.elapsed()
}

/// The time by this clock, ms since any moment before.
pub(crate) fn now_ms() -> u64 {
    u64::try_from(now().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    /// What the kernel says of the time since the start, sleep included, ms; it says hundredths.
    fn uptime_ms() -> u64 {
        let text = std::fs::read_to_string("/proc/uptime").unwrap();
        let seconds = text.split(' ').next().unwrap().replace('.', "");
        seconds.parse::<u64>().unwrap() * 10
    }

    /// Where the machine never slept, `unshare --time --boottime 100000` makes it look as if it had.
    #[test]
    fn it_includes_the_time_that_the_machine_slept() {
        let before = uptime_ms();
        let now = now_ms();
        let after = uptime_ms() + 10;
        assert!((before..=after).contains(&now), "{before} {now} {after}");
    }
}
