//! A plan that breaks a promise is cut down: faults, what the log does all the time, clients and time are left
//! out one after the other for as long as it still breaks one. What is left out is said on the command line, and
//! each actor draws from a stream of its own, so that the rest stays what it was. Pure.

use std::fmt;
use std::time::Duration;

use crate::following::LinkTroubles;
use crate::log::Troubles;
use crate::plan::Plan;

/// The most runs that are made to cut a plan down.
const RUNS_MAX: usize = 80;
/// The shortest run that is tried.
const SHORTEST: Duration = Duration::from_secs(5);

/// What is left out of the plan of a seed; nothing by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The faults that are kept, by their places in the plan; all where not said.
    pub faults: Option<Vec<usize>>,
    /// How many clients of rows there are.
    pub clients: Option<usize>,
    /// How many clients of documents.
    pub searchers: Option<usize>,
    /// For how long they ask, s.
    pub duration_s: Option<u64>,
    /// Whether the log does nothing but what it is told to.
    pub is_log_calm: bool,
    /// Whether the way between two clusters does.
    pub is_link_calm: bool,
    /// Whether there is no second cluster.
    pub is_alone: bool,
}

impl fmt::Display for Cut {
    /// As `simulate` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(faults) = &self.faults {
            let faults: Vec<String> = faults.iter().map(usize::to_string).collect();
            write!(f, " --faults '{}'", faults.join(","))?;
        }
        if let Some(clients) = self.clients {
            write!(f, " --clients {clients}")?;
        }
        if let Some(searchers) = self.searchers {
            write!(f, " --searchers {searchers}")?;
        }
        if let Some(duration_s) = self.duration_s {
            write!(f, " --duration-s {duration_s}")?;
        }
        if self.is_log_calm {
            write!(f, " --calm-log")?;
        }
        if self.is_link_calm {
            write!(f, " --calm-link")?;
        }
        if self.is_alone { write!(f, " --alone") } else { Ok(()) }
    }
}

impl Cut {
    /// The plan without what is left out.
    #[must_use]
    pub fn of(&self, plan: &Plan) -> Plan {
        let mut cut = plan.clone();
        if let Some(kept) = &self.faults {
            let faults = plan.faults.due.iter().enumerate();
            cut.faults.due =
                faults.filter(|(at, _)| kept.contains(at)).map(|(_, it)| *it).collect();
        }
        cut.clients = self.clients.unwrap_or(plan.clients);
        cut.searchers = self.searchers.unwrap_or(plan.searchers);
        cut.duration = self.duration_s.map_or(plan.duration, Duration::from_secs);
        if self.is_log_calm {
            cut.faults.troubles = Troubles::default();
            cut.faults.follower_troubles = Troubles::default();
        }
        if self.is_link_calm {
            cut.faults.link = LinkTroubles::default();
        }
        if self.is_alone { cut.alone() } else { cut }
    }
}

/// The most that can be left out of a broken plan, beside what is left out already, so that it is broken still.
#[must_use]
pub fn shrink(plan: &Plan, begin: Cut, is_broken: impl FnMut(&Plan) -> bool) -> Cut {
    let mut shrinking = Shrinking { plan, cut: begin, runs: 0, is_broken };
    if plan.follower.is_some() {
        shrinking.attempt(Cut { is_alone: true, ..shrinking.cut.clone() });
    }
    shrinking.leave_out_faults();
    let troubles = [plan.faults.troubles, plan.faults.follower_troubles];
    if troubles != [Troubles::default(); 2] {
        shrinking.attempt(Cut { is_log_calm: true, ..shrinking.cut.clone() });
    }
    if plan.faults.link != LinkTroubles::default() {
        shrinking.attempt(Cut { is_link_calm: true, ..shrinking.cut.clone() });
    }
    for searchers in 0..plan.searchers {
        let cut = Cut { searchers: Some(searchers), ..shrinking.cut.clone() };
        if shrinking.attempt(cut) {
            break;
        }
    }
    for clients in 0..plan.clients {
        let cut = Cut { clients: Some(clients), ..shrinking.cut.clone() };
        if shrinking.attempt(cut) {
            break;
        }
    }
    loop {
        let half = shrinking.cut.of(plan).duration / 2;
        let cut = Cut { duration_s: Some(half.as_secs()), ..shrinking.cut.clone() };
        if half < SHORTEST || !shrinking.attempt(cut) {
            break;
        }
    }
    // Faster and with fewer clients, more may be of no use.
    shrinking.leave_out_faults();
    shrinking.cut
}

struct Shrinking<'p, F> {
    plan: &'p Plan,
    cut: Cut,
    runs: usize,
    is_broken: F,
}

impl<F: FnMut(&Plan) -> bool> Shrinking<'_, F> {
    /// Goes on from this where it is broken too.
    fn attempt(&mut self, cut: Cut) -> bool {
        if self.runs >= RUNS_MAX || cut == self.cut {
            return false;
        }
        self.runs += 1;
        let is_broken = (self.is_broken)(&cut.of(self.plan));
        if is_broken {
            self.cut = cut;
        }
        is_broken
    }

    /// Half of them at once first, then ever fewer (Zeller and Hildebrandt, "Simplifying and Isolating
    /// Failure-Inducing Input", IEEE TSE 2002).
    fn leave_out_faults(&mut self) {
        let all = || (0..self.plan.faults.due.len()).collect();
        let mut kept: Vec<usize> = self.cut.faults.clone().unwrap_or_else(all);
        let mut together = kept.len();
        while together > 0 {
            let mut at = 0;
            while at < kept.len() {
                let mut fewer = kept.clone();
                fewer.drain(at..(at + together).min(fewer.len()));
                if self.attempt(Cut { faults: Some(fewer.clone()), ..self.cut.clone() }) {
                    kept = fewer;
                } else {
                    at += together;
                }
            }
            together /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_takes_to_be_broken_is_what_is_left() {
        let plan = (1..)
            .map(Plan::of)
            .find(|plan| plan.faults.due.len() > 7 && plan.searchers > 0)
            .unwrap();
        let needed = [plan.faults.due[2], plan.faults.due[6]];
        let cut = shrink(&plan, Cut::default(), |plan| {
            let has_all = needed.iter().all(|fault| plan.faults.due.contains(fault));
            has_all && plan.searchers >= 2 && plan.duration >= Duration::from_secs(11)
        });
        assert_eq!(cut.faults, Some(vec![2, 6]));
        assert_eq!((cut.clients, cut.searchers), (Some(0), Some(2)));
        let shrunk = cut.of(&plan);
        assert!(shrunk.duration < Duration::from_secs(22), "{shrunk:?}");
        assert!(cut.to_string().starts_with(" --faults '2,6' --clients 0 --searchers 2"));
        assert_eq!(Cut::default().to_string(), "");
    }

    #[test]
    fn a_plan_that_needs_all_stays_what_it_is() {
        let plan = Plan::of(1);
        let cut = shrink(&plan, Cut::default(), |other| *other == plan);
        assert_eq!(cut.of(&plan), plan);
    }
}
