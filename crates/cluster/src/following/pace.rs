//! How fast a node takes first copies from other clusters, where that is limited: a bucket that fills at the
//! rate, shared by all copies. Pure but for its lock; time is handed in.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// When the next bytes may be asked for.
#[derive(Default)]
pub(super) struct Limiter(Mutex<Option<Instant>>);

impl Limiter {
    /// How long to wait before so many bytes are asked for, which are counted.
    pub(super) fn wait(&self, bytes: u64, bytes_s: u64, now: Instant) -> Duration {
        let mut free_at = self.0.lock();
        let begin = free_at.filter(|at| *at > now).unwrap_or(now);
        // A setting is at least a kilobyte a second.
        let takes = Duration::from_secs_f64(bytes as f64 / bytes_s.max(1) as f64);
        *free_at = Some(begin + takes);
        begin.duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_the_rate() {
        let (limiter, now) = (Limiter::default(), Instant::now());
        assert_eq!(limiter.wait(1000, 1000, now), Duration::ZERO);
        assert_eq!(limiter.wait(500, 1000, now), Duration::from_secs(1));
        assert_eq!(limiter.wait(500, 1000, now), Duration::from_millis(1500));
        let later = now + Duration::from_secs(10);
        assert_eq!(limiter.wait(500, 1000, later), Duration::ZERO, "nothing is saved up");
    }
}
