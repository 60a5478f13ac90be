//! How fast expired rows are taken away beside the foreground: in small bites and one at a time while they
//! are due since a moment, in large ones and all stores at once where they have waited for long. Nobody sees
//! a row that has expired, so there is no hurry; but who writes rows that expire for ever has to see them go
//! as fast as they come.
//!
//! ```text
//! urgency = lag / 30 s, at most 1          lag: since when the row is due that has waited longest
//! rows    = 30 + 170 * urgency             in one bite: what comes after it in its group waits for it
//! pause   = 2 * took * (1 - urgency)       after a bite that took so long
//! ```
//!
//! It keeps nothing, and knows neither stores nor clocks.

/// Rows that have waited so long are taken away as fast as it goes, ms.
const LAG_MS_MAX: u64 = 30_000;
const ROWS_MIN: u64 = 30;
/// So many times as long as a bite took nothing is taken away after it, where there is no hurry.
const PAUSES: f64 = 2.0;
/// The most rows of one bite.
pub const ROWS_MAX: u64 = 200;

/// How the next rows are taken away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sweeping {
    urgency: f64,
}

impl Sweeping {
    /// Where the row that has waited longest is due since `lag_ms`.
    #[must_use]
    pub fn of(lag_ms: u64) -> Self {
        Self { urgency: lag_ms.min(LAG_MS_MAX) as f64 / LAG_MS_MAX as f64 }
    }

    /// How many rows one bite takes, [`ROWS_MAX`] at most.
    #[must_use]
    pub fn rows(self) -> u64 {
        ROWS_MIN + crate::average::whole((ROWS_MAX - ROWS_MIN) as f64 * self.urgency)
    }

    /// How long nothing is taken away after a bite that took so long.
    #[must_use]
    pub fn pause_ns(self, took_ns: u64) -> u64 {
        crate::average::whole(PAUSES * took_ns as f64 * (1.0 - self.urgency))
    }

    /// Whether all stores are swept at once, not one after the other.
    #[must_use]
    pub fn is_at_once(self) -> bool {
        self.urgency >= 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_wait_for_long_go_as_fast_as_it_goes() {
        let soon = Sweeping::of(0);
        assert_eq!((soon.rows(), soon.pause_ns(2_000), soon.is_at_once()), (30, 4_000, false));
        let later = Sweeping::of(15_000);
        assert_eq!((later.rows(), later.pause_ns(2_000), later.is_at_once()), (115, 2_000, false));
        let late = Sweeping::of(90_000);
        assert_eq!((late.rows(), late.pause_ns(2_000), late.is_at_once()), (ROWS_MAX, 0, true));
    }
}
