//! A rate, kept: what is done fills a bucket that empties at the rate, and nothing more is begun while there
//! is something in it. The rate may be another at each look, and counts from then on for what is in the
//! bucket too. Time is handed in.

use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::time::Instant;

/// Whoever waits comes late to the bucket's end: so much of it may be begun before.
const EARLY_S: f64 = 0.05;
/// The most that is in it, as the time in which that empties: one large piece is not paid for longer.
const FULL_S: f64 = 10.0;
/// How soon it is looked again, as the rate may be another then.
pub(super) const WAIT_MAX: Duration = Duration::from_millis(100);

/// One bucket, shared by all who have to keep to the rate together.
#[derive(Default)]
pub(crate) struct Bucket(Mutex<BucketLevel>);

#[derive(Default)]
struct BucketLevel {
    bytes: f64,
    at: Option<Instant>,
}

impl Bucket {
    /// How long to wait before more is begun at this rate, after which it is asked again; zero where it may
    /// be now. No rate is no limit.
    pub(crate) fn wait(&self, bytes_s: Option<u64>, now: Instant) -> Duration {
        let mut state = self.0.lock();
        let before = state.at.replace(now);
        let Some(bytes_s) = bytes_s.map(|it| it.max(1) as f64) else {
            state.bytes = 0.0;
            return Duration::ZERO;
        };
        let passed = before.map_or(Duration::ZERO, |at| now - at);
        let emptied = state.bytes.min(FULL_S * bytes_s) - bytes_s * passed.as_secs_f64();
        state.bytes = emptied.max(-EARLY_S * bytes_s);
        if state.bytes <= 0.0 {
            return Duration::ZERO;
        }
        Duration::from_secs_f64(state.bytes / bytes_s).min(WAIT_MAX)
    }

    /// So many bytes are begun.
    pub(crate) fn add(&self, bytes: u64) {
        self.0.lock().bytes += bytes as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// What is begun within so many milliseconds by pieces of so many bytes.
    fn begun(bucket: &Bucket, rate: impl Fn(u32) -> Option<u64>, bytes: u64, ms: u32) -> u64 {
        let began = Instant(7_000);
        let mut all = 0;
        for ms in 0..ms {
            while bucket.wait(rate(ms), began + ms * MS).is_zero() && all < 1 << 30 {
                bucket.add(bytes);
                all += bytes;
            }
        }
        all
    }

    #[test]
    fn the_rate_is_kept_whatever_the_pieces() {
        for bytes in [1_000, 64_000, 1_000_000] {
            let all = begun(&Bucket::default(), |_| Some(1_000_000), bytes, 10_000);
            let most = 10_050_000 + bytes;
            assert!((9_900_000..=most).contains(&all), "{bytes}: {all}");
        }
    }

    #[test]
    fn another_rate_holds_from_then_on() {
        let rate = |ms| Some(if ms < 1_000 { 100_000 } else { 10_000_000 });
        let all = begun(&Bucket::default(), rate, 1_000_000, 2_000);
        assert!(all >= 9_000_000, "what waited for ten seconds goes on at once: {all}");
        let free = |ms| (ms < 5).then_some(1);
        assert!(begun(&Bucket::default(), free, 1_000_000, 10) >= 1 << 30);
    }

    #[test]
    fn a_wait_is_short_and_one_large_piece_is_soon_paid_for() {
        let (bucket, now) = (Bucket::default(), Instant(7_000));
        assert_eq!(bucket.wait(Some(1_000), now), Duration::ZERO);
        bucket.add(1 << 40);
        assert_eq!(bucket.wait(Some(1_000), now), WAIT_MAX);
        assert!(!bucket.wait(Some(1_000), now + Duration::from_secs(9)).is_zero());
        assert!(bucket.wait(Some(1_000), now + Duration::from_secs(20)).is_zero());
    }
}
