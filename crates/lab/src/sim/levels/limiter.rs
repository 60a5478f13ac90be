//! RocksDB's rate limiter, fixed and tuned by itself, as `util/rate_limiter.cc` has it (facebook/rocksdb
//! 1dfa729, `GenericRateLimiter`): every tenth of a second it hands out a tenth of the rate, flushes before
//! compactions, and nothing that was not used is kept. Tuned by itself it begins at half of the most and
//! looks every 100 such periods at the part of them in which somebody had to wait for the next:
//!
//! ```text
//! none       -> a twentieth of the most
//! below 50 % -> the rate / 1.05
//! over 90 %  -> the rate * 1.05
//! ```
//!
//! Left out: the draw of one in ten that lets compactions go before flushes (`fairness`).

use std::collections::VecDeque;

pub(super) const REFILL_NS: u64 = 100_000_000;
const TUNED_AFTER: u32 = 100;
const STEP: f64 = 1.05;
const LEAST: f64 = 0.05;
const DRAINED: (f64, f64) = (0.5, 0.9);

/// Who waits, and for how much more.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    work: usize,
    bytes: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Limiter {
    bytes_s_max: f64,
    bytes_s: f64,
    is_auto: bool,
    left: f64,
    flushes: VecDeque<Waiting>,
    compactions: VecDeque<Waiting>,
    periods: u32,
    drains: u32,
}

impl Limiter {
    pub(super) fn new(bytes_s: u64, is_auto: bool) -> Self {
        let bytes_s_max = bytes_s as f64;
        let bytes_s = if is_auto { bytes_s_max / 2.0 } else { bytes_s_max };
        Self {
            bytes_s_max,
            bytes_s,
            is_auto,
            left: 0.0,
            flushes: VecDeque::new(),
            compactions: VecDeque::new(),
            periods: 0,
            drains: 0,
        }
    }

    #[cfg(test)]
    fn bytes_s(&self) -> f64 {
        self.bytes_s
    }

    /// Whether so many bytes may be written now; where not, [`Self::refill`] names the work later.
    pub(super) fn ask(&mut self, work: usize, bytes: f64, is_flush: bool) -> bool {
        let is_free = self.flushes.is_empty() && self.compactions.is_empty();
        if is_free && self.left >= bytes {
            self.left -= bytes;
            return true;
        }
        // The first who waits for the next refill counts, once a period.
        self.drains += u32::from(is_free);
        let queue = if is_flush { &mut self.flushes } else { &mut self.compactions };
        queue.push_back(Waiting { work, bytes });
        false
    }

    /// A tenth of a second is over: who may go on now.
    pub(super) fn refill(&mut self) -> Vec<usize> {
        self.periods += 1;
        if self.is_auto && self.periods >= TUNED_AFTER {
            self.tune();
        }
        self.left = self.bytes_s * REFILL_NS as f64 / 1e9;
        let mut served = Vec::new();
        for queue in [&mut self.flushes, &mut self.compactions] {
            while let Some(first) = queue.front_mut() {
                let given = first.bytes.min(self.left);
                self.left -= given;
                first.bytes -= given;
                if first.bytes > 0.0 {
                    break;
                }
                served.push(first.work);
                queue.pop_front();
            }
        }
        // Who could not be served waits for the next one, which is a drain of this period too.
        self.drains += u32::from(!(self.flushes.is_empty() && self.compactions.is_empty()));
        served
    }

    fn tune(&mut self) {
        let drained = f64::from(self.drains) / f64::from(self.periods);
        (self.periods, self.drains) = (0, 0);
        let rate = match drained {
            none if none <= 0.0 => 0.0,
            few if few < DRAINED.0 => self.bytes_s / STEP,
            many if many > DRAINED.1 => self.bytes_s * STEP,
            _ => self.bytes_s,
        };
        self.bytes_s = rate.clamp(LEAST * self.bytes_s_max, self.bytes_s_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_go_first_and_what_is_not_used_is_not_kept() {
        let mut limiter = Limiter::new(1_000_000, false);
        assert!(!limiter.ask(1, 150_000.0, false), "nothing was handed out yet");
        assert!(!limiter.ask(2, 50_000.0, true));
        assert_eq!(limiter.refill(), [2]);
        assert_eq!(limiter.refill(), [1]);
        (0..10).for_each(|_| assert!(limiter.refill().is_empty()));
        assert!(!limiter.ask(3, 150_000.0, false), "a tenth of a second's is there, no more");
    }

    #[test]
    fn a_quiet_time_leaves_a_twentieth_and_a_burst_then_waits_for_minutes() {
        let mut limiter = Limiter::new(100_000_000, true);
        assert!((limiter.bytes_s() - 5e7).abs() < 1.0);
        (0..100).for_each(|_| assert!(limiter.refill().is_empty()));
        assert!((limiter.bytes_s() - 5e6).abs() < 1.0);
        limiter.ask(0, 1e12, false);
        (0..600).for_each(|_| assert!(limiter.refill().is_empty()));
        assert!(limiter.bytes_s() < 7e6, "a minute later: {}", limiter.bytes_s());
        (0..6_000).for_each(|_| assert!(limiter.refill().is_empty()));
        assert!((limiter.bytes_s() - 1e8).abs() < 1.0, "eleven minutes: {}", limiter.bytes_s());
    }
}
