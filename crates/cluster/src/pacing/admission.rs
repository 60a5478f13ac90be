//! How many bytes of writes a node lets in, once its stores have put off much: each write takes its place
//! behind those before it, waits until it is its turn, and is refused at once where that would be too late.
//! The law (`plimsoll_control::pacing::disk`) says how many a second. Time is handed in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A write that would wait longer is refused.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// A rate that was set longer ago than this holds nobody back any more: whoever sets it is late itself.
const STALE: Duration = Duration::from_secs(3);

/// The writes of a node that are let in.
#[derive(Default)]
pub(crate) struct Admission {
    state: Mutex<State>,
    refused: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Bytes a second, and since when; none is no limit.
    rate: Option<(u64, Instant)>,
    /// Bytes of writes whose turn has not come.
    ahead: f64,
    at: Option<Instant>,
}

impl Admission {
    /// Lets in so many bytes a second from `now` on; none is no limit.
    pub(super) fn set(&self, bytes_s: Option<u64>, now: Instant) {
        self.state.lock().rate = bytes_s.map(|bytes_s| (bytes_s, now));
    }

    /// How long a write of so many bytes has to wait; none where it is refused.
    pub(crate) fn take(&self, bytes: u64, now: Instant) -> Option<Duration> {
        let mut state = self.state.lock();
        let is_fresh = |at: Instant| now.saturating_duration_since(at) <= STALE;
        let Some((bytes_s, _)) = state.rate.filter(|(_, at)| is_fresh(*at)) else {
            state.ahead = 0.0;
            state.at = None;
            return Some(Duration::ZERO);
        };
        let passed = state.at.replace(now).map(|at| now.saturating_duration_since(at));
        let passed_s = passed.unwrap_or_default().as_secs_f64();
        state.ahead = (state.ahead - bytes_s as f64 * passed_s).max(0.0);
        if state.ahead > bytes_s as f64 * WAIT_MAX.as_secs_f64() || bytes_s == 0 {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let wait = Duration::from_secs_f64(state.ahead / bytes_s as f64);
        state.ahead += bytes as f64;
        Some(wait)
    }

    /// Writes that were refused so far.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn what_comes_in_is_what_was_said_and_the_rest_is_refused_at_once() {
        let (admission, began) = (Admission::default(), Instant::now());
        let mut let_in = 0;
        for ms in 0..10_000 {
            let now = began + ms * MS;
            if ms % 1_000 == 0 {
                admission.set(Some(1_000_000), now);
            }
            // Twice of what may come.
            if let Some(wait) = admission.take(2_000, now) {
                assert!(wait <= WAIT_MAX, "{wait:?}");
                let_in += 2_000;
            }
        }
        assert!((10_900_000..=11_100_000).contains(&let_in), "{let_in}");
        assert!(admission.refused() > 4_000);
    }

    #[test]
    fn without_a_rate_or_with_an_old_one_nobody_waits_and_at_none_nobody_comes_in() {
        let (admission, began) = (Admission::default(), Instant::now());
        assert_eq!(admission.take(1 << 40, began), Some(Duration::ZERO));
        admission.set(Some(0), began);
        assert_eq!(admission.take(1, began), None);
        assert_eq!(admission.take(1, began + 2 * STALE), Some(Duration::ZERO));
        admission.set(None, began);
        assert_eq!(admission.take(1, began), Some(Duration::ZERO));
    }
}
