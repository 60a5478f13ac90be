//! Two rates, kept: what compactions pass, and what writes come in. Both count how far what was done is
//! ahead of its rate. What waits, and how, is the caller's; so is the clock, whose times never go back.

use std::time::Duration;

/// A rate that was set longer ago than this holds nobody back any more: whoever sets it is late itself.
pub const STALE_NS: u64 = 3_000_000_000;
/// A compaction looks at the rate after so many bytes of rows.
pub const LOOK_BYTES: u64 = 32 * 1024;
/// It sleeps no longer than this at a time: the rate may be another by then, or the node be stopping.
pub const SLEEP_MAX: Duration = Duration::from_millis(5);
/// It may be ahead of the rate by what goes in this time; of level 0, in this one, so that deep ones make
/// way for it.
pub const AHEAD_S: f64 = 0.005;
/// See [`AHEAD_S`].
pub const AHEAD_OF_LEVEL_0_S: f64 = 0.05;
/// What others did beyond the rate holds a compaction back for no longer than this.
const OWED_S: f64 = 0.1;
/// A write that would wait longer is refused.
const WAIT_MAX_S: f64 = 1.0;

/// What compactions passed ahead of the rate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passed {
    bytes: f64,
    at_ns: u64,
}

impl Passed {
    /// How long whoever added so many bytes is to wait, where it may be ahead by what goes in `ahead_s`
    /// seconds. `bytes_s` is none where nothing is held, or where the rate is stale. About [`LOOK_BYTES`]
    /// are added at a time.
    pub fn add(&mut self, now_ns: u64, bytes_s: Option<u64>, bytes: u64, ahead_s: f64) -> Duration {
        let passed_s = now_ns.saturating_sub(self.at_ns) as f64 / 1e9;
        self.at_ns = self.at_ns.max(now_ns);
        let Some(bytes_s) = bytes_s else {
            self.bytes = 0.0;
            return Duration::ZERO;
        };
        // At no rate at all it is looked for one now and then.
        let bytes_s = bytes_s.max(1) as f64;
        let ahead = (self.bytes - bytes_s * passed_s).max(0.0) + bytes as f64;
        self.bytes = ahead.min((OWED_S * bytes_s).max(LOOK_BYTES as f64));
        let beyond = self.bytes - ahead_s * bytes_s;
        if beyond <= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(beyond / bytes_s) }
    }
}

/// The writes of a node that are let in: each takes its place behind those before it, waits until it is its
/// turn, and is refused at once where that would be too late.
#[derive(Clone, Copy, Debug, Default)]
pub struct Admitted {
    /// Bytes a second, and since when; none is no limit.
    rate: Option<(u64, u64)>,
    /// Bytes of writes whose turn has not come.
    ahead: f64,
    at_ns: Option<u64>,
}

impl Admitted {
    /// Lets in so many bytes a second from `now_ns` on; none is no limit.
    pub fn set(&mut self, now_ns: u64, bytes_s: Option<u64>) {
        self.rate = bytes_s.map(|bytes_s| (bytes_s, now_ns));
    }

    /// How long a write of so many bytes has to wait; none where it is refused.
    pub fn take(&mut self, now_ns: u64, bytes: u64) -> Option<Duration> {
        let is_fresh = |at_ns: u64| now_ns.saturating_sub(at_ns) <= STALE_NS;
        let Some((bytes_s, _)) = self.rate.filter(|(_, at_ns)| is_fresh(*at_ns)) else {
            (self.ahead, self.at_ns) = (0.0, None);
            return Some(Duration::ZERO);
        };
        let passed_ns = self.at_ns.replace(now_ns).map_or(0, |at_ns| now_ns.saturating_sub(at_ns));
        self.ahead = (self.ahead - bytes_s as f64 * passed_ns as f64 / 1e9).max(0.0);
        if self.ahead > bytes_s as f64 * WAIT_MAX_S || bytes_s == 0 {
            return None;
        }
        let wait = Duration::from_secs_f64(self.ahead / bytes_s as f64);
        self.ahead += bytes as f64;
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn what_passes_keeps_to_the_rate() {
        let (mut passed, mut now_ns, mut all) = (Passed::default(), 0, 0u64);
        while now_ns < 2_000 * MS {
            let wait = passed.add(now_ns, Some(10_000_000), LOOK_BYTES, AHEAD_S);
            all += LOOK_BYTES;
            now_ns += u64::try_from(wait.as_nanos()).expect("short");
        }
        assert!((20_000_000..20_200_000).contains(&all), "{all}");
        assert_eq!(passed.add(now_ns, None, 1 << 40, AHEAD_S), Duration::ZERO);
    }

    #[test]
    fn what_comes_in_is_what_was_said_and_the_rest_is_refused_at_once() {
        let (mut admitted, mut let_in) = (Admitted::default(), 0);
        for ms in 0..10_000 {
            if ms % 1_000 == 0 {
                admitted.set(ms * MS, Some(1_000_000));
            }
            // Twice of what may come.
            if let Some(wait) = admitted.take(ms * MS, 2_000) {
                assert!(wait <= Duration::from_secs(1), "{wait:?}");
                let_in += 2_000;
            }
        }
        assert!((10_900_000..=11_100_000).contains(&let_in), "{let_in}");
    }

    #[test]
    fn without_a_rate_or_with_an_old_one_nobody_waits_and_at_none_nobody_comes_in() {
        let mut admitted = Admitted::default();
        assert_eq!(admitted.take(0, 1 << 40), Some(Duration::ZERO));
        admitted.set(0, Some(0));
        assert_eq!(admitted.take(0, 1), None);
        assert_eq!(admitted.take(2 * STALE_NS, 1), Some(Duration::ZERO));
        admitted.set(0, None);
        assert_eq!(admitted.take(0, 1), Some(Duration::ZERO));
    }
}
