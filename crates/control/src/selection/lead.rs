//! Whether a coordinator writes through the copy on its own node, which costs least, or through another
//! node's for a while, because its own answers late: its disk is sick, or its apply waits. This file
//! decides; what became of a write that was not answered, the caller settles.
//!
//! The own copy is tried again after a while, which doubles each time that it is late again: what a
//! trial may cost is then rare.

use crate::average::FadingMean;

/// An answer takes so long at least to be late, ns.
const LATE_NS: u64 = 50_000_000;
/// And so many times as long as usual.
const LATE_TIMES: f64 = 8.0;
/// What is late whatever is usual, ns: also where no answer has come yet.
pub const TOO_LATE_NS: u64 = 250_000_000;
/// What is usual is learned over this time.
const USUAL_NS: u64 = 60_000_000_000;
/// For how long the own copy is left at first, and at most, ns.
const AWAY_MIN_NS: u64 = 2_000_000_000;
const AWAY_MAX_NS: u64 = 60_000_000_000;

/// From this debt of its node's stores on the own copy gives way, before admission begins (0.7), to one whose
/// node owes so much less at least. Both are parts of the debt at which nothing is taken any more.
const OWES_MUCH: f64 = 0.5;
const OWES_LESS: f64 = 0.2;

/// A trial of which nothing was heard for so long is no trial any more, ns.
const TRIAL_NS: u64 = 10_000_000_000;

/// How the copy of one partition on the coordinator's own node does as a lead.
#[derive(Clone, Debug)]
pub struct OwnLead {
    usual: FadingMean,
    state: LeadHealth,
    /// For how long it is left when it is late next.
    away_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeadHealth {
    /// All writes go through it.
    Well,
    /// None do.
    Away { until_ns: u64 },
    /// One does, to see how it is.
    Trial { since_ns: u64 },
}

impl Default for OwnLead {
    fn default() -> Self {
        Self { usual: FadingMean::new(USUAL_NS), state: LeadHealth::Well, away_ns: AWAY_MIN_NS }
    }
}

impl OwnLead {
    /// Whether a write that begins now goes through it first.
    pub fn leads(&mut self, now_ns: u64) -> bool {
        let ended_ns = match self.state {
            LeadHealth::Well => return true,
            LeadHealth::Away { until_ns } => until_ns,
            LeadHealth::Trial { since_ns } => since_ns.saturating_add(TRIAL_NS),
        };
        let tries = now_ns >= ended_ns;
        if tries {
            self.state = LeadHealth::Trial { since_ns: now_ns };
        }
        tries
    }

    /// It answered a write.
    pub fn on_answer(&mut self, now_ns: u64, took_ns: u64) {
        let usual = self.usual.mean().unwrap_or(f64::INFINITY);
        let is_late = took_ns >= LATE_NS && took_ns as f64 > LATE_TIMES * usual;
        if took_ns >= TOO_LATE_NS || is_late {
            return self.on_late(now_ns);
        }
        self.usual.add(now_ns, took_ns as f64);
        match self.state {
            LeadHealth::Well => self.away_ns = AWAY_MIN_NS,
            LeadHealth::Trial { .. } => self.state = LeadHealth::Well,
            // It was sent before.
            LeadHealth::Away { .. } => {}
        }
    }

    /// It has not answered for [`TOO_LATE_NS`], or cannot.
    pub fn on_late(&mut self, now_ns: u64) {
        if matches!(self.state, LeadHealth::Away { .. }) {
            // Others that were under way meanwhile.
            return;
        }
        self.state = LeadHealth::Away { until_ns: now_ns.saturating_add(self.away_ns) };
        self.away_ns = (self.away_ns * 2).min(AWAY_MAX_NS);
    }
}

/// Whether a write goes to another copy first because of what the nodes' stores have put off: both debts are
/// parts of the one at which nothing is taken any more.
#[must_use]
pub fn gives_way(own_debt: f64, other_debt: impl FnOnce() -> f64) -> bool {
    own_debt >= OWES_MUCH && other_debt() <= own_debt - OWES_LESS
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MS;

    #[test]
    fn one_that_is_late_is_left_and_tried_again_with_one_write_ever_more_rarely() {
        let mut lead = OwnLead::default();
        let (mut now_ns, mut tried) = (0, Vec::new());
        while now_ns < 600 * SECOND {
            if lead.leads(now_ns) {
                tried.push(now_ns / SECOND);
                let begun = (1..10).filter(|at| lead.leads(now_ns + at * MS)).count();
                assert_eq!(
                    begun,
                    if now_ns == 0 { 9 } else { 0 },
                    "those beside a trial go elsewhere"
                );
                // Those that were sent before are late too.
                (0..3).for_each(|at| lead.on_late(now_ns + 250 * MS + at));
            }
            now_ns += 500 * MS;
        }
        assert_eq!(tried[..5], [0, 2, 7, 15, 32]);
        assert!(tried.len() < 16, "{tried:?}");
        now_ns += 60 * SECOND;
        assert!(lead.leads(now_ns));
        lead.on_answer(now_ns, 5 * MS);
        assert!(lead.leads(now_ns) && lead.leads(now_ns), "it is well");
        lead.on_answer(now_ns, 5 * MS);
        lead.on_late(now_ns);
        assert!(!lead.leads(now_ns + SECOND) && lead.leads(now_ns + 2 * SECOND), "as at first");
        assert!(!lead.leads(now_ns + 3 * SECOND), "one trial");
        assert!(lead.leads(now_ns + 12 * SECOND), "of which nothing was heard");
    }

    #[test]
    fn one_that_owes_much_gives_way_to_one_that_owes_less() {
        for (own, other, gives) in [
            (0.4, 0.0, false),
            (0.5, 0.25, true),
            (0.5, 0.4, false),
            (0.9, 0.8, false),
            (1.2, 0.9, true),
        ] {
            assert_eq!(gives_way(own, || other), gives, "{own} {other}");
        }
    }

    #[test]
    fn late_is_by_what_is_usual_for_it() {
        let mut lead = OwnLead::default();
        for at in 0..100 {
            lead.on_answer(at * 10 * MS, 20 * MS);
        }
        lead.on_answer(SECOND, 150 * MS);
        assert!(lead.leads(SECOND), "a log over an ocean");
        lead.on_answer(SECOND, 200 * MS);
        assert!(!lead.leads(SECOND + 1));
        let mut fast = OwnLead::default();
        fast.on_answer(0, 49 * MS);
        (0..100).for_each(|at| fast.on_answer(at * MS, MS));
        fast.on_answer(SECOND, 49 * MS);
        assert!(fast.leads(SECOND), "nobody notices");
        fast.on_answer(SECOND, 51 * MS);
        assert!(!fast.leads(SECOND));
        let mut new = OwnLead::default();
        new.on_answer(0, TOO_LATE_NS);
        assert!(!new.leads(1));
    }
}
