//! Whether the clock of a node may be believed that has no other to compare it with. A step is not
//! believed before it has lasted: a clock that is wrong for a moment would move log time ahead for
//! good, and nothing would expire until real time has caught up.
//!
//! Pure: both of the node's clocks are handed in, the one that may step and the one that does not.

use super::skew::SKEW_MAX_MS;

/// For how long a step has to last before the clock is believed again, ms.
pub(super) const LASTS_MS: u64 = 10_000;
/// By how much a clock may be slewed against the steady one: one in so many.
const SLEW: u64 = 1_000;

/// What is known of the clock.
#[derive(Debug, Default)]
pub(super) struct LoneClock {
    /// The clock less the steady one, where it is believed, ms, and when that was seen last.
    believed: Option<Seen>,
    /// Where it stands after a step, since when.
    stepped: Option<(Seen, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    offset_ms: i64,
    steady_ms: u64,
}

impl Seen {
    fn is_close(&self, to: &Self) -> bool {
        let passed = to.steady_ms.saturating_sub(self.steady_ms);
        let allowed = SKEW_MAX_MS.saturating_add_unsigned(passed / SLEW);
        (to.offset_ms - self.offset_ms).abs() <= allowed
    }
}

/// What a look at the clocks found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Believed,
    /// It stepped by so much, ms, and is not believed yet.
    Stepped(i64),
    /// A step of so much, ms, has lasted: the clock is believed from now on.
    Lasted(i64),
}

impl LoneClock {
    /// Looks at both clocks, ms.
    pub(super) fn observe(&mut self, clock_ms: u64, steady_ms: u64) -> Look {
        let now = Seen { offset_ms: clock_ms.wrapping_sub(steady_ms).cast_signed(), steady_ms };
        let Some(believed) = self.believed else {
            self.believed = Some(now);
            return Look::Believed;
        };
        if believed.is_close(&now) {
            // A clock that is slewed is followed.
            self.believed = Some(now);
            self.stepped = None;
            return Look::Believed;
        }
        let step = now.offset_ms - believed.offset_ms;
        let since = match &self.stepped {
            Some((seen, since)) if seen.is_close(&now) => *since,
            _ => steady_ms,
        };
        if steady_ms - since >= LASTS_MS {
            self.believed = Some(now);
            self.stepped = None;
            return Look::Lasted(step);
        }
        self.stepped = Some((now, since));
        Look::Stepped(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000;
    const HALF_A_DAY: u64 = 12 * 3_600_000;

    #[test]
    fn a_clock_that_is_wrong_for_a_moment_is_never_believed() {
        let mut clock = LoneClock::default();
        assert_eq!(clock.observe(NOW, 0), Look::Believed);
        for steady in [1_000, 1_500, 2_500] {
            let wrong = NOW + steady + HALF_A_DAY;
            assert_eq!(clock.observe(wrong, steady), Look::Stepped(HALF_A_DAY.cast_signed()));
        }
        assert_eq!(clock.observe(NOW + 3_000, 3_000), Look::Believed);
        // A second step begins its time anew.
        let wrong = |steady| NOW + steady + HALF_A_DAY;
        assert!(matches!(clock.observe(wrong(4_000), 4_000), Look::Stepped(_)));
        assert!(matches!(
            clock.observe(wrong(LASTS_MS + 3_999), LASTS_MS + 3_999),
            Look::Stepped(_)
        ));
    }

    #[test]
    fn a_step_that_lasts_is_believed() {
        let mut clock = LoneClock::default();
        clock.observe(NOW, 0);
        let set = |steady: u64| NOW + steady - 5_000;
        assert_eq!(clock.observe(set(6_000), 6_000), Look::Stepped(-5_000));
        assert_eq!(clock.observe(set(6_000 + LASTS_MS), 6_000 + LASTS_MS), Look::Lasted(-5_000));
        assert_eq!(clock.observe(set(30_000), 30_000), Look::Believed);
    }

    #[test]
    fn a_clock_that_wanders_among_steps_is_not_believed() {
        let mut clock = LoneClock::default();
        clock.observe(NOW, 0);
        for second in 1..100 {
            let wrong = NOW + second * 1_000 + second * 10_000;
            assert!(matches!(clock.observe(wrong, second * 1_000), Look::Stepped(_)));
        }
    }

    #[test]
    fn a_clock_that_is_slewed_is_followed() {
        let mut clock = LoneClock::default();
        for hour in 0..100_u64 {
            let steady = hour * 3_600_000;
            // 500 in a million: what ntpd slews by.
            assert_eq!(clock.observe(NOW + steady + steady / 2_000, steady), Look::Believed);
        }
    }
}
