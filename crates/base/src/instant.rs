//! A moment of a time that never goes back.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A moment, ns since the time began that tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// How long ago `earlier` was; nothing where it is yet to come.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// As [`Self::since`].
    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
