//! How many bytes of writes a node lets in, once its stores have put off much. The law
//! (`plimsoll_control::pacing::disk`) says how many a second, `plimsoll_control::pacing::ahead` keeps to
//! that; here it is shared by all who write, and refusals are counted. Time is handed in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::time::Instant;
use plimsoll_control::pacing::Admitted;

/// The writes of a node that are let in.
#[derive(Default)]
pub(crate) struct Admission {
    admitted: Mutex<Admitted>,
    refused: AtomicU64,
}

impl Admission {
    /// Lets in so many bytes a second from `now` on; none is no limit.
    pub(crate) fn set(&self, bytes_s: Option<u64>, now: Instant) {
        self.admitted.lock().set(now.0, bytes_s);
    }

    /// How long a write of so many bytes has to wait; none where it is refused.
    pub(crate) fn take(&self, bytes: u64, now: Instant) -> Option<Duration> {
        let wait = self.admitted.lock().take(now.0, bytes);
        if wait.is_none() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        wait
    }

    /// Writes that were refused so far.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_is_counted() {
        let (admission, now) = (Admission::default(), Instant(7_000));
        admission.set(Some(1_000), now);
        assert_eq!(admission.take(2_000, now), Some(Duration::ZERO));
        assert_eq!((admission.take(1, now), admission.refused()), (None, 1));
        admission.set(None, now);
        assert_eq!((admission.take(1, now), admission.refused()), (Some(Duration::ZERO), 1));
    }
}
