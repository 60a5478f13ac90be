//! Retries on another copy, within a budget. Where a few requests fail, each is tried again; where
//! many do, trying all of them again would only be more load (Finagle's retry budget: 20 % of the
//! requests and ten a second, saved for ten seconds).

use crate::selection::FailureKind;

/// Retries earned by each request.
const BUDGET: f64 = 0.2;
/// Retries earned by each second, so that a client of few requests can retry as well.
const A_SECOND: f64 = 10.0;
/// Retries that can be saved up: what ten seconds earn without any request.
const SAVED_MAX: f64 = 10.0 * A_SECOND;

/// What to do about a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Ask another copy at once.
    Elsewhere,
    /// Give up: no copy is left, the request itself is at fault, or the budget is used up. The
    /// client may come again, later.
    GiveUp,
}

/// One coordinator's retry budget.
#[derive(Clone, Copy, Debug)]
pub struct RetryBudget {
    saved: f64,
    at_ns: u64,
    refused: u64,
}

impl RetryBudget {
    /// A full budget at `now_ns`.
    #[must_use]
    pub fn new(now_ns: u64) -> Self {
        Self { saved: SAVED_MAX, at_ns: now_ns, refused: 0 }
    }

    /// A request goes out for the first time; retries and hedges earn nothing.
    pub fn on_send(&mut self) {
        self.saved = (self.saved + BUDGET).min(SAVED_MAX);
    }

    /// Decides about a failure that is worth a second try ([`FailureKind`] has no others: an error
    /// that the request itself deserves is an answer), with `copies_left` not asked yet and
    /// `time_left_ns` until the deadline. A write that may have been appended must not come here.
    pub fn on_failure(
        &mut self,
        now_ns: u64,
        kind: FailureKind,
        copies_left: usize,
        time_left_ns: u64,
    ) -> Retry {
        let passed_s = now_ns.saturating_sub(self.at_ns) as f64 / 1e9;
        self.at_ns = self.at_ns.max(now_ns);
        self.saved = (self.saved + passed_s * A_SECOND).min(SAVED_MAX);
        if copies_left == 0 || time_left_ns == 0 {
            return Retry::GiveUp;
        }
        // A refusal has cost the node nothing, and a silence all that the client had.
        let price = if kind == FailureKind::Refused { 0.5 } else { 1.0 };
        if self.saved < price {
            self.refused += 1;
            return Retry::GiveUp;
        }
        self.saved -= price;
        Retry::Elsewhere
    }

    /// Retries that the budget did not allow.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn where_all_fail_retries_stay_within_a_fifth() {
        let mut budget = RetryBudget::new(0);
        let mut retries = 0;
        for step in 0..100_000u64 {
            budget.on_send();
            let decided = budget.on_failure(step * 100_000, FailureKind::Error, 2, SECOND);
            retries += u32::from(decided == Retry::Elsewhere);
        }
        // A fifth, ten a second for ten seconds, and what was saved.
        assert!((20_000..=20_210).contains(&retries), "{retries}");
        assert_eq!(budget.refused(), 100_000 - u64::from(retries));
    }

    #[test]
    fn a_few_failures_are_all_retried() {
        let mut budget = RetryBudget::new(0);
        for step in 0..10_000u64 {
            (0..10).for_each(|_| budget.on_send());
            let decided = budget.on_failure(step, FailureKind::Timeout, 1, 1);
            assert_eq!(decided, Retry::Elsewhere);
        }
    }

    #[test]
    fn nothing_is_retried_without_a_copy_or_time() {
        let mut budget = RetryBudget::new(0);
        assert_eq!(budget.on_failure(0, FailureKind::Refused, 0, SECOND), Retry::GiveUp);
        assert_eq!(budget.on_failure(0, FailureKind::Refused, 1, 0), Retry::GiveUp);
        assert_eq!(budget.refused(), 0, "the budget had no part in it");
    }

    #[test]
    fn an_idle_client_earns_ten_a_second() {
        let mut budget = RetryBudget::new(0);
        let fail = |budget: &mut RetryBudget, now_ns| {
            budget.on_failure(now_ns, FailureKind::Unreachable, 1, SECOND)
        };
        while fail(&mut budget, 0) == Retry::Elsewhere {}
        let later = (0..50).filter(|_| fail(&mut budget, SECOND) == Retry::Elsewhere);
        assert_eq!(later.count(), 10);
    }
}
