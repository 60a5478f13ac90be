//! How fast compactions of all stores of a node may go, kept: each row that a compaction passes is counted,
//! and a compaction that is ahead of the rate sleeps for some milliseconds. RocksDB's own rate limiter
//! cannot be given another rate while it runs through the bindings, and lets through what it saved for a
//! tenth of a second at once, ahead of the log's syncs on the same disk.
//!
//! Deep compactions make way for those of level 0, which keep reads fast and let flushes go on: they sleep
//! as soon as the rate is reached, those of level 0 only once they alone are beyond it. What sets the rate,
//! and opens it where too much was put off, is `cluster`'s; how far all are ahead of it is counted by
//! `plimsoll_control::pacing::ahead`.

#![expect(
    clippy::disallowed_methods,
    reason = "threads of RocksDB and of apply wait by the machine's time"
)]

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use plimsoll_control::pacing::Passed;
use plimsoll_control::pacing::ahead::{
    AHEAD_OF_LEVEL_0_S, AHEAD_S, LOOK_BYTES, SLEEP_MAX, STALE_NS,
};
use rust_rocksdb::CompactionDecision;
use rust_rocksdb::compaction_filter::CompactionFilter;
use rust_rocksdb::compaction_filter_factory::{CompactionFilterContext, CompactionFilterFactory};

/// What stands for no limit.
const FREE: u64 = u64::MAX;

/// The pace of a node's compactions.
pub struct CompactionPace {
    bytes_s: AtomicU64,
    /// Whether compactions sleep, or only would have.
    acts: AtomicBool,
    /// How many wait for a compaction that they asked for.
    waiting: AtomicUsize,
    /// Bytes of rows that passed so far.
    passed: AtomicU64,
    held_ns: AtomicU64,
    bucket: Mutex<Bucket>,
}

/// What is ahead of the rate.
struct Bucket {
    passed: Passed,
    began: Instant,
    /// When the rate was set.
    set: Instant,
}

impl Default for CompactionPace {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            bytes_s: AtomicU64::new(FREE),
            acts: AtomicBool::new(true),
            waiting: AtomicUsize::new(0),
            passed: AtomicU64::new(0),
            held_ns: AtomicU64::new(0),
            bucket: Mutex::new(Bucket { passed: Passed::default(), began: now, set: now }),
        }
    }
}

impl CompactionPace {
    /// Sets the rate, bytes of rows a second; none is no limit. Without `acts` it is counted when a
    /// compaction would have slept. To be called every second: after three, nothing is held any more.
    pub fn set(&self, bytes_s: Option<u64>, acts: bool) {
        self.bucket.lock().set = Instant::now();
        self.bytes_s.store(bytes_s.unwrap_or(FREE), Ordering::Relaxed);
        self.acts.store(acts, Ordering::Relaxed);
    }

    /// The rate; none is no limit.
    #[must_use]
    pub fn bytes_s(&self) -> Option<u64> {
        Some(self.bytes_s.load(Ordering::Relaxed)).filter(|it| *it != FREE)
    }

    /// Bytes of rows that passed so far.
    #[must_use]
    pub fn passed_bytes(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// Holds no compaction back until what is returned is dropped: somebody waits for one that was asked
    /// for, which may have to wait for others. At the rate of a busy node, some kilobytes a second, they
    /// would wait for hours.
    pub(super) fn free(&self) -> FreeCompactions<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        FreeCompactions(self)
    }

    fn count(&self, bytes: u64) {
        self.passed.fetch_add(bytes, Ordering::Relaxed);
    }

    /// For how long compactions slept so far, or would have, all together.
    #[must_use]
    pub fn held(&self) -> Duration {
        Duration::from_nanos(self.held_ns.load(Ordering::Relaxed))
    }

    /// Counts rows that a compaction passed, and sleeps while it is ahead of the rate by more than what
    /// goes in `ahead_s`.
    fn pass(&self, bytes: u64, ahead_s: f64) {
        self.count(bytes);
        let mut wait = self.add(bytes, ahead_s, Instant::now());
        while !wait.is_zero() {
            let nap = wait.min(SLEEP_MAX);
            self.held_ns.fetch_add(u64::try_from(nap.as_nanos()).unwrap_or(0), Ordering::Relaxed);
            if !self.acts.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(nap);
            wait = self.add(0, ahead_s, Instant::now());
        }
    }

    /// How long whoever added so many bytes is to wait.
    fn add(&self, bytes: u64, ahead_s: f64, now: Instant) -> Duration {
        let mut bucket = self.bucket.lock();
        let ns = |since: Instant| {
            let passed = now.saturating_duration_since(since);
            u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX)
        };
        let is_free = self.waiting.load(Ordering::Relaxed) > 0 || ns(bucket.set) > STALE_NS;
        let (now_ns, bytes_s) = (ns(bucket.began), self.bytes_s().filter(|_| !is_free));
        bucket.passed.add(now_ns, bytes_s, bytes, ahead_s)
    }
}

/// While it is there, compactions go as fast as they can.
pub(super) struct FreeCompactions<'a>(&'a CompactionPace);

impl Drop for FreeCompactions<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Makes a filter for each compaction, which keeps every row.
pub(super) struct PacedCompactions(pub Arc<CompactionPace>);

impl CompactionFilterFactory for PacedCompactions {
    type Filter = PacedRows;

    fn create(&mut self, _: CompactionFilterContext) -> PacedRows {
        PacedRows { pace: Arc::clone(&self.0), bytes: 0 }
    }

    fn name(&self) -> &CStr {
        c"paced"
    }
}

/// The rows of one compaction.
pub(super) struct PacedRows {
    pace: Arc<CompactionPace>,
    /// What passed since the rate was looked at.
    bytes: u64,
}

impl CompactionFilter for PacedRows {
    fn filter(&mut self, level: u32, key: &[u8], value: &[u8]) -> CompactionDecision {
        self.bytes += (key.len() + value.len()) as u64;
        if self.bytes >= LOOK_BYTES {
            let ahead_s = if level == 0 { AHEAD_OF_LEVEL_0_S } else { AHEAD_S };
            self.pace.pass(std::mem::take(&mut self.bytes), ahead_s);
        }
        CompactionDecision::Keep
    }

    fn name(&self) -> &CStr {
        c"paced"
    }
}

impl Drop for PacedRows {
    fn drop(&mut self) {
        self.pace.count(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much one compaction passes within so many milliseconds that sleeps as it is told.
    fn passed(pace: &CompactionPace, ms: u64) -> u64 {
        let began = Instant::now();
        let (mut now, mut all) = (began, 0);
        while now < began + Duration::from_millis(ms) && all < 1 << 30 {
            let mut wait = pace.add(LOOK_BYTES, AHEAD_S, now);
            all += LOOK_BYTES;
            while !wait.is_zero() {
                assert!(wait <= Duration::from_secs(40_000), "{wait:?}");
                now += wait.min(SLEEP_MAX);
                wait = pace.add(0, AHEAD_S, now);
            }
        }
        all
    }

    #[test]
    fn the_rate_is_kept_whatever_it_is() {
        for bytes_s in [1_000_000, 10_000_000, 300_000_000] {
            let pace = CompactionPace::default();
            pace.set(Some(bytes_s), true);
            let all = passed(&pace, 2_000);
            let least = 2 * bytes_s - bytes_s / 50;
            assert!(
                (least..2 * bytes_s + bytes_s / 50 + LOOK_BYTES).contains(&all),
                "{bytes_s}: {all}"
            );
        }
        let pace = CompactionPace::default();
        assert!(passed(&pace, 10) >= 1 << 30, "no limit");
    }

    #[test]
    fn deep_compactions_make_way_for_level_0() {
        let pace = CompactionPace::default();
        pace.set(Some(10_000_000), true);
        let (began, mut now) = (Instant::now(), Instant::now());
        let (mut first, mut deep) = (0, 0);
        while now < began + Duration::from_secs(2) {
            // Level 0 has something to do in the first second alone.
            let is_first = now < began + Duration::from_secs(1);
            if is_first && pace.add(0, AHEAD_OF_LEVEL_0_S, now).is_zero() {
                pace.add(LOOK_BYTES, AHEAD_OF_LEVEL_0_S, now);
                first += LOOK_BYTES;
            }
            if pace.add(0, AHEAD_S, now).is_zero() {
                pace.add(LOOK_BYTES, AHEAD_S, now);
                deep += LOOK_BYTES;
            }
            now += Duration::from_millis(1);
        }
        assert!((9_800_000..10_800_000).contains(&first), "{first}");
        assert!((9_000_000..10_500_000).contains(&deep), "{deep}");
    }

    #[test]
    fn a_rate_that_nobody_sets_any_more_holds_nobody() {
        let pace = CompactionPace::default();
        pace.set(Some(1_000), true);
        let now = Instant::now();
        assert!(pace.add(1 << 20, AHEAD_S, now) > Duration::from_millis(50));
        assert_eq!(
            pace.add(1 << 20, AHEAD_S, now + Duration::from_nanos(2 * STALE_NS)),
            Duration::ZERO
        );
    }

    #[test]
    fn while_somebody_waits_for_a_compaction_none_is_held() {
        let pace = CompactionPace::default();
        pace.set(Some(1_000), true);
        let now = Instant::now();
        let waits = || pace.add(1 << 20, AHEAD_S, now) > Duration::from_millis(50);
        assert!(waits());
        let [first, second] = [pace.free(), pace.free()];
        assert!(!waits());
        drop(first);
        assert!(!waits(), "the second still waits");
        drop(second);
        assert!(waits());
    }

    #[test]
    fn in_the_shadow_it_is_counted_alone() {
        let pace = CompactionPace::default();
        pace.set(Some(0), false);
        (0..10).for_each(|_| pace.pass(LOOK_BYTES, AHEAD_S));
        assert!(pace.held() >= Duration::from_millis(45), "{:?}", pace.held());
    }
}
