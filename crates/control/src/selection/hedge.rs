//! Hedging (Dean and Barroso, The Tail at Scale, CACM 2013): a second copy is asked when the first
//! is later than nearly all of its class. This file decides when and whether; the caller sends and
//! cancels. It keeps a budget, because where everyone is slow a hedge is only more load.

use crate::average::FadingHistogram;
use crate::load_line::Class;

/// Hedges earned by each request: at most 2 % more of them.
const BUDGET: f64 = 0.02;
/// Hedges that can be saved up for a burst.
const SAVED_MAX: f64 = 10.0;
/// The quantile of the class's response time after which a hedge may go.
const LATE: f64 = 0.95;
/// Answers of a class before its quantile is trusted.
const SAMPLES_MIN: f64 = 50.0;
const HALF_LIFE_NS: u64 = 5_000_000_000;

/// The hedging switch and budget of one coordinator.
#[derive(Clone, Debug)]
pub struct Hedger {
    responses: Vec<FadingHistogram>,
    saved: f64,
}

impl Default for Hedger {
    fn default() -> Self {
        Self { responses: vec![FadingHistogram::new(HALF_LIFE_NS); Class::COUNT], saved: 0.0 }
    }
}

impl Hedger {
    /// A request (not a hedge) goes out. Returns how long to wait for its answer before a hedge is
    /// considered; none while too little is known, and never for a write.
    #[must_use]
    pub fn on_send(&mut self, class: Class) -> Option<u64> {
        self.saved = (self.saved + BUDGET).min(SAVED_MAX);
        let responses = &self.responses[class.slot()];
        if class == Class::Write || responses.weight() < SAMPLES_MIN {
            return None;
        }
        responses.quantile(LATE)
    }

    /// A request was answered after this long, or a loser was cancelled at this age.
    pub fn on_reply(&mut self, now_ns: u64, class: Class, response_ns: u64) {
        self.responses[class.slot()].add(now_ns, response_ns);
    }

    /// Whether to hedge a request of this age on a copy that is expected to answer in
    /// `alternative_ns`; takes it from the budget if so. Not where the copy itself would be late,
    /// which is what it looks like when all are slow.
    #[must_use]
    pub fn hedge(&mut self, class: Class, age_ns: u64, alternative_ns: u64) -> bool {
        let late_ns = self.responses[class.slot()].quantile(LATE).unwrap_or(u64::MAX);
        let helps = age_ns >= late_ns && alternative_ns <= late_ns;
        if class == Class::Write || !helps || self.saved < 1.0 {
            return false;
        }
        self.saved -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn warm() -> Hedger {
        let mut hedger = Hedger::default();
        (0..100).for_each(|_| hedger.on_reply(0, Class::Get, MS));
        hedger
    }

    #[test]
    fn hedges_stay_within_two_percent_even_if_all_requests_are_late() {
        let mut hedger = warm();
        let mut hedges = 0;
        for _ in 0..10_000 {
            let _ = hedger.on_send(Class::Get);
            hedges += u32::from(hedger.hedge(Class::Get, 50 * MS, MS));
        }
        assert!((150..=200).contains(&hedges), "{hedges}");
    }

    #[test]
    fn nothing_is_hedged_early_onto_a_late_copy_or_for_a_write() {
        let mut hedger = warm();
        (0..500).for_each(|_| assert!(hedger.on_send(Class::Get).is_some_and(|ns| ns >= MS)));
        assert!(!hedger.hedge(Class::Get, MS / 2, MS));
        assert!(!hedger.hedge(Class::Get, 50 * MS, 20 * MS));
        assert!(!hedger.hedge(Class::Write, 50 * MS, MS));
        assert!(hedger.hedge(Class::Get, 50 * MS, MS));
    }

    #[test]
    fn it_waits_until_it_knows_the_class() {
        let mut hedger = warm();
        assert_eq!(hedger.on_send(Class::Search), None);
        assert_eq!(hedger.on_send(Class::Write), None);
    }
}
