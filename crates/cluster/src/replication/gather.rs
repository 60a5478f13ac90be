//! When a lead begins its next record. Clients that were just answered are about to send their
//! next writes: a record that waits for them carries many more, and a sync costs the same for
//! one write as for fifty. So after an append the lead waits for most of those that were
//! answered before it, but never longer than an append takes. Clients that come one at a time
//! are never waited for.
//!
//! Pure: events and a time in, decisions out. What is queued is the lead's business.

use std::time::Duration;

use plimsoll_base::time::Instant;

/// The weight of a new sample in the average: the last eight or so matter.
const AVERAGE_WEIGHT: u32 = 8;
/// The longest wait, however slow the log is.
const HOLD_MAX: Duration = Duration::from_millis(2);

/// What one lead knows of its clients' return.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    phase: Phase,
    /// Submissions answered whose clients have not sent another since.
    awaited: usize,
    answered_at: Option<Instant>,
    /// How long an append takes.
    append_average: Duration,
}

#[derive(Debug, Default)]
enum Phase {
    /// The next submission begins a record.
    #[default]
    Idle,
    Appending {
        since: Instant,
    },
    /// The next record waits for so many submissions more.
    Holding {
        until: Instant,
        missing: usize,
    },
}

impl Gather {
    /// A submission came. Says whether a record may begin.
    pub(crate) fn submitted(&mut self, now: Instant) -> bool {
        self.awaited = self.awaited.saturating_sub(1);
        match &mut self.phase {
            Phase::Idle => true,
            Phase::Appending { .. } => false,
            Phase::Holding { until, missing } => {
                *missing = missing.saturating_sub(1);
                *missing == 0 || now >= *until
            }
        }
    }

    /// A record went to the log.
    pub(crate) fn begun(&mut self, now: Instant) {
        self.phase = Phase::Appending { since: now };
    }

    /// The log has the record. Says whether the next may begin.
    pub(crate) fn appended(&mut self, now: Instant) -> bool {
        if let Phase::Appending { since } = self.phase {
            let took = now - since;
            self.append_average = if self.append_average.is_zero() {
                took
            } else {
                (self.append_average * (AVERAGE_WEIGHT - 1) + took) / AVERAGE_WEIGHT
            };
        }
        // Who has not returned by now is not coming soon.
        if self.answered_at.is_none_or(|at| now - at > self.hold() * 2) {
            self.awaited = 0;
        }
        let missing = self.awaited * 3 / 4;
        self.phase = match missing {
            0 => Phase::Idle,
            _ => Phase::Holding { until: now + self.hold(), missing },
        };
        missing == 0
    }

    /// Nothing is in the log's hands, and nobody is waited for.
    pub(crate) fn idle(&mut self) {
        self.phase = Phase::Idle;
    }

    /// Submissions are about to be answered.
    pub(crate) fn answered(&mut self, count: usize, now: Instant) {
        self.awaited += count;
        self.answered_at = Some(now);
    }

    /// Whether a record was waiting and has waited long enough.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = matches!(self.phase, Phase::Holding { until, .. } if now >= until);
        if is_due {
            self.awaited = 0;
            self.phase = Phase::Idle;
        }
        is_due
    }

    /// Until when the next record waits at most, if it does.
    pub(crate) fn until(&self) -> Option<Instant> {
        match self.phase {
            Phase::Holding { until, .. } => Some(until),
            Phase::Idle | Phase::Appending { .. } => None,
        }
    }

    /// How long a record waits at most.
    pub(crate) fn hold(&self) -> Duration {
        self.append_average.min(HOLD_MAX)
    }
}

#[cfg(test)]
mod tests {
    //! Tests by script: what comes when, and whether a record begins.

    use super::*;

    const APPEND: Duration = Duration::from_micros(400);
    const BEGUN: Instant = Instant(1_000_000_000);

    /// A lead whose appends take [`APPEND`], with a record in the log's hands.
    fn appending(now: Instant) -> Gather {
        let mut gather = Gather::default();
        assert!(gather.submitted(now), "the first waits for nobody");
        gather.begun(now);
        assert!(gather.appended(now + APPEND));
        gather.idle();
        gather.begun(now + APPEND);
        gather
    }

    #[test]
    fn one_client_never_waits() {
        let mut now = BEGUN;
        let mut gather = Gather::default();
        for _ in 0..100 {
            assert!(gather.submitted(now));
            gather.begun(now);
            now = now + APPEND;
            assert!(gather.appended(now));
            gather.answered(1, now);
            now = now + Duration::from_micros(20);
        }
    }

    #[test]
    fn waits_for_most_of_those_answered() {
        let now = BEGUN;
        let mut gather = appending(now);
        gather.answered(20, now + APPEND);
        for _ in 0..4 {
            assert!(!gather.submitted(now + APPEND), "one record is in the log's hands");
        }
        let now = now + 2 * APPEND;
        assert!(!gather.appended(now), "16 have not returned");
        // Those of the record that has just been appended are not waited for.
        gather.answered(20, now);
        for returned in 1..=12 {
            assert_eq!(gather.submitted(now), returned == 12);
        }
    }

    #[test]
    fn waits_no_longer_than_an_append_takes() {
        let now = BEGUN;
        let mut gather = appending(now);
        gather.answered(20, now + APPEND);
        let now = now + 2 * APPEND;
        assert!(!gather.appended(now));
        let until = gather.until().unwrap();
        assert_eq!(until, now + APPEND);
        assert!(!gather.is_due(Instant(until.0 - 1_000)));
        assert!(gather.is_due(until));
        assert!(!gather.is_due(until), "said once");
        assert!(gather.submitted(until), "who did not come is not waited for again");
        gather.begun(until);
        assert!(gather.appended(until + APPEND));
    }

    #[test]
    fn a_submission_after_the_wait_begins_the_record() {
        let now = BEGUN;
        let mut gather = appending(now);
        gather.answered(20, now + APPEND);
        assert!(!gather.appended(now + 2 * APPEND));
        assert!(gather.submitted(now + 3 * APPEND));
    }

    #[test]
    fn forgets_who_was_answered_long_ago() {
        let now = BEGUN;
        let mut gather = appending(now);
        gather.answered(20, now);
        assert!(gather.appended(now + 3 * APPEND));
    }

    #[test]
    fn a_slow_log_is_not_made_slower() {
        let mut gather = Gather::default();
        let now = BEGUN;
        gather.begun(now);
        assert!(gather.appended(now + Duration::from_secs(1)));
        assert_eq!(gather.hold(), HOLD_MAX);
    }
}
