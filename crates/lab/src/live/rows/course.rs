//! A lap of rows as it goes on: how late the answers of each second were, the longest time without one,
//! what was written to the disk, and how much the store put off.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::store::Figures;
use crate::live::load::{Watch, histogram};
use crate::live::measure::wait_until;
use crate::result::RowsCourse;

/// How often the store is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Watches the answers of a lap.
pub(super) struct Answers {
    began: Instant,
    warm_up: Duration,
    stop: Arc<AtomicBool>,
    /// When the last answer came, ns from the beginning.
    last_ns: AtomicU64,
    gap_ns: AtomicU64,
    of_second: Mutex<Histogram<u64>>,
}

impl Answers {
    /// Of a lap that begins now.
    pub(super) fn new(warm_up: Duration, stop: Arc<AtomicBool>) -> Self {
        Self {
            began: Instant::now(),
            warm_up,
            stop,
            last_ns: AtomicU64::new(0),
            gap_ns: AtomicU64::new(0),
            of_second: Mutex::new(histogram()),
        }
    }

    /// The longest time without an answer while somebody waited for one.
    pub(super) fn longest_gap(&self) -> Duration {
        Duration::from_nanos(self.gap_ns.load(Ordering::Relaxed))
    }

    /// The 99th percentile of answers since this was asked last, ms.
    fn take_p99_ms(&self) -> f64 {
        let mut of_second = self.of_second.lock().unwrap_or_else(PoisonError::into_inner);
        let p99_us = if of_second.is_empty() { 0 } else { of_second.value_at_quantile(0.99) };
        of_second.reset();
        p99_us as f64 / 1e3
    }

    fn note(&self, now_ns: u64, latency_us: u64) {
        let last_ns = self.last_ns.fetch_max(now_ns, Ordering::Relaxed);
        if now_ns < u64::try_from(self.warm_up.as_nanos()).unwrap_or(0) {
            return;
        }
        // Whoever is answered now has waited all that time; others may have waited longer.
        let gap_ns = now_ns.saturating_sub(last_ns).min(latency_us.saturating_mul(1_000));
        self.gap_ns.fetch_max(gap_ns, Ordering::Relaxed);
    }
}

impl Watch for Answers {
    fn answered(&self, latency_us: u64) {
        self.note(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(0), latency_us);
        let mut of_second = self.of_second.lock().unwrap_or_else(PoisonError::into_inner);
        of_second.saturating_record(latency_us);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Looks at a store once a second from the end of the warm-up to the end of the window; the course, with
/// the figures at both ends.
pub(super) fn watch(
    answers: &Answers,
    window: Duration,
    look: &dyn Fn() -> Figures,
) -> (RowsCourse, Figures, Figures) {
    let begin = answers.began + answers.warm_up;
    wait_until(begin, answers);
    answers.take_p99_ms();
    let (first, mut course) = (look(), RowsCourse::default());
    let mut before = first;
    let seconds = u32::try_from(window.as_secs()).unwrap_or(u32::MAX);
    for second in 1..=seconds {
        wait_until(begin + LOOK * second, answers);
        if answers.is_stopped() {
            break;
        }
        let now = look();
        course.at_s.push(f64::from(second));
        course.written_bytes.push(now.written_bytes.saturating_sub(before.written_bytes));
        course.p99_ms.push(answers.take_p99_ms());
        course.debt.push(now.debt.unwrap_or(0.0));
        course.space_bytes.push(now.rows_bytes);
        before = now;
    }
    (course, first, before)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_gap_is_time_without_answers_that_somebody_waited_in() {
        let answers = Answers::new(Duration::ZERO, Arc::default());
        answers.note(100 * MS, 1_000);
        assert_eq!(answers.longest_gap(), Duration::from_millis(1), "nobody asked before");
        answers.note(400 * MS, 350_000);
        assert_eq!(answers.longest_gap(), Duration::from_millis(300));
        // Answered out of turn: the others were answered meanwhile.
        answers.note(401 * MS, 401_000);
        assert_eq!(answers.longest_gap(), Duration::from_millis(300));
    }
}
