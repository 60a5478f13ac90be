//! Our admission: by time instead of by number, with nothing to set.
//!
//! ```text
//! bound     = run * (1 + 4 / workers)            how long a queue is worth having, per class
//! patience  = limit / 25, at most 1 s, at least the bound   limit: from arrival to deadline
//! overload  = the queue grows (`growth.rs`) and its oldest has waited longer than its patience;
//!             until nothing had to be given up for 8 intervals
//! interval  = 4 runs (20 ms to 100 ms)
//! ```
//!
//! * A request that cannot be answered by its deadline is refused when it arrives, and given up
//!   if that turns out while it waits (ScyllaDB's shedding by remaining time, with the predicted
//!   run instead of a fixed fraction). A predicted wait is believed as far as the queue has stood:
//!   of longer ones nothing has been learnt yet, and the first runs are not like the later.
//! * Where nothing waits, a prediction refuses nobody: nothing is lost by a run, and it corrects
//!   a wrong one.
//! * While a queue stands, a request that has another copy to go to is sent there once the wait
//!   exceeds the bound.
//! * A queue alone is not overload: the parts of a search arrive together, and a closed loop's
//!   clients wait for their answers; refusing them would only make them ask again. The one does not
//!   last, the other does not grow, and what makes both at first, clients that come one after the
//!   other, is over before anybody's patience. The part of the limit is `DAGOR`'s, which calls it
//!   overload when requests wait 20 ms of their 500 (Zhou and others, `SoCC` 2018).
//! * In overload the highest rank goes first, among equals the newest, and what has waited beyond
//!   its patience is refused: those served have waited little, and those refused learn it soon
//!   (adaptive LIFO and queue time-outs, Maurer, Fail at Scale, ACM Queue 2015). The rank is the
//!   whole request's, drawn once by its coordinator, so that nodes that know nothing of each other
//!   refuse all parts of the same requests (user priorities of DAGOR): parts dropped by chance, a
//!   sixth at each of five nodes, would spoil 60 % of the requests and the work of their other parts.
//! * A fetch is not shed: its query has been paid for, and no other node has what it found.
//! * A refused client is told to come back when what waits is gone at the pace of the latest runs,
//!   which is believed no further either.
//! * Classes take turns by the run time they have used, so that gets do not wait for every
//!   aggregation before them. Requests eight times dearer than the average have a lane of their own
//!   and leave an eighth of the workers to the others.
//!
//! The bound's second term is for few workers, where a queue as short as one run would leave the
//! worker idle (M/M/1 at 1.4 times its capacity needs five waiting to stay 95 % busy).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::growth::Growth;
use super::littles_law::Frame;
use super::request::{Arrival, Reason, Refusal, Started, Tier};
use super::state::AdmissionState;
use super::state::WAITING_PER_WORKER_MAX;
use crate::average::{FadingMean, whole};
use crate::load_line::Class;

const SPAN_NS: u64 = 1_000_000_000;
/// The run time assumed before anything has run.
const RUN_NS: f64 = 1_000_000.0;
const INTERVAL_RUNS: f64 = 4.0;
const INTERVAL_MIN_NS: u64 = 20_000_000;
const INTERVAL_MAX_NS: u64 = 100_000_000;
/// How many runs a queue must last to be one that stands, and the least and most of that.
const STANDS_RUNS: f64 = 8.0;
const STANDS_MIN_NS: u64 = 40_000_000;
const STANDS_MAX_NS: u64 = 2_000_000_000;
/// The part of its limit that a request may wait before that is called late, and the most of it.
const PATIENCE: u64 = 25;
const PATIENCE_MAX_NS: u64 = 1_000_000_000;
/// Intervals without a refusal that end an overload.
const CALM: u64 = 8;
/// From how many average runs on a request is heavy, and the part of the workers kept from such.
const HEAVY: f64 = 8.0;
const KEPT: usize = 8;
/// One lane for each class, one for the heavy of all, one for background work, one for the
/// cluster's own.
const LANES: usize = Class::COUNT + 3;
const FETCH: usize = Class::Fetch.slot();
const DEAR: usize = Class::COUNT;
const BACKGROUND: usize = Class::COUNT + 1;
const CONTROL: usize = Class::COUNT + 2;

#[derive(Clone, Copy, Debug)]
struct Waiting {
    arrival: Arrival,
    arrived_ns: u64,
    /// The predicted run time, where it was known or decided the lane.
    told_ns: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Lane {
    /// By a number that grows with each arrival.
    waiting: BTreeMap<u64, Waiting>,
    /// The same by rank, then number.
    ranked: BTreeSet<(u32, u64)>,
    /// Predicted run time of those waiting that have one.
    told_ns: u64,
    /// How many wait without a prediction; they count with the average of now.
    untold: u64,
    /// Run time used, by which lanes take turns.
    used: f64,
}

#[derive(Clone, Debug)]
pub(super) struct LoadAware {
    workers: usize,
    lanes: [Lane; LANES],
    /// Arrivals so far.
    arrivals: u64,
    run: [FadingMean; Class::COUNT],
    run_all: FadingMean,
    heavy_running: usize,
    /// How many parts of each request wait, by its rank.
    requests: BTreeMap<u32, usize>,
    growth: Growth,
    overload: bool,
    /// When something had to be given up last.
    given_up_ns: u64,
}

impl Lane {
    fn push(&mut self, number: u64, waiting: Waiting) {
        self.told_ns = self.told_ns.saturating_add(waiting.told_ns.unwrap_or(0));
        self.untold += u64::from(waiting.told_ns.is_none());
        self.ranked.insert((waiting.arrival.rank, number));
        self.waiting.insert(number, waiting);
    }

    /// The one whose turn it is, with its number.
    fn first(&self, by_rank: bool) -> Option<(u64, &Waiting)> {
        let number = match by_rank {
            true => self.ranked.last().map(|(_, number)| *number),
            false => self.waiting.first_key_value().map(|(number, _)| *number),
        }?;
        self.waiting.get(&number).map(|waiting| (number, waiting))
    }

    fn remove(&mut self, number: u64) -> Option<Waiting> {
        let removed = self.waiting.remove(&number)?;
        self.ranked.remove(&(removed.arrival.rank, number));
        self.told_ns = self.told_ns.saturating_sub(removed.told_ns.unwrap_or(0));
        self.untold -= u64::from(removed.told_ns.is_none());
        Some(removed)
    }
}

impl LoadAware {
    pub(super) fn new(workers: usize, now_ns: u64) -> Self {
        Self {
            workers,
            lanes: std::array::from_fn(|_| Lane::default()),
            arrivals: 0,
            run: [FadingMean::new(SPAN_NS); Class::COUNT],
            run_all: FadingMean::new(SPAN_NS),
            heavy_running: 0,
            requests: BTreeMap::new(),
            growth: Growth::new(now_ns),
            overload: false,
            given_up_ns: now_ns,
        }
    }

    /// Takes one out of its lane.
    fn take(&mut self, at: usize, number: u64) -> Option<Waiting> {
        let taken = self.lanes[at].remove(number)?;
        if let Entry::Occupied(mut parts) = self.requests.entry(taken.arrival.rank) {
            *parts.get_mut() -= 1;
            if *parts.get() == 0 {
                parts.remove();
            }
        }
        Some(taken)
    }

    fn run_ns(&self, class: Class) -> f64 {
        self.run[class.slot()].mean().unwrap_or(RUN_NS)
    }

    fn cost_ns(&self, arrival: &Arrival) -> u64 {
        arrival.cost_ns.unwrap_or_else(|| whole(self.run_ns(arrival.class)))
    }

    /// How long a queue is worth having.
    fn bound_ns(&self, class: Class) -> u64 {
        whole(self.run_ns(class) * (1.0 + 4.0 / self.workers as f64))
    }

    fn is_late(&self, now_ns: u64, waiting: &Waiting) -> bool {
        let limit_ns = waiting.arrival.deadline_ns.saturating_sub(waiting.arrived_ns);
        let patience_ns = (limit_ns / PATIENCE).min(PATIENCE_MAX_NS);
        let age_ns = now_ns.saturating_sub(waiting.arrived_ns);
        age_ns > patience_ns.max(self.bound_ns(waiting.arrival.class))
    }

    /// How many workers the lane may have.
    fn workers_of(&self, lane: usize) -> usize {
        match lane {
            DEAR => self.workers - self.workers.div_ceil(KEPT).min(self.workers - 1),
            _ => self.workers,
        }
    }

    /// Predicted run time of all that waits in the lane.
    fn work_ns(&self, at: usize) -> u64 {
        let all = || self.run_all.mean().unwrap_or(RUN_NS);
        let run_ns = Class::ALL.get(at).map_or_else(all, |class| self.run_ns(*class));
        let lane = &self.lanes[at];
        lane.told_ns.saturating_add(whole(lane.untold as f64 * run_ns))
    }

    /// How long all that waits keeps the workers busy.
    fn wait_ns(&self) -> u64 {
        let waiting_ns = (0..LANES).map(|at| self.work_ns(at)).fold(0, u64::saturating_add);
        waiting_ns / self.workers as u64
    }

    /// The wait that a newcomer to the lane must expect: its own lane's work at the pace that the
    /// lanes' turns leave it, and never more than all work.
    fn wait_in_ns(&self, lane: usize) -> u64 {
        let active = self.lanes.iter().filter(|lane| !lane.waiting.is_empty()).count().max(1);
        let own_ns = self.work_ns(lane) / self.workers_of(lane) as u64;
        own_ns.saturating_mul(active as u64).min(self.wait_ns())
    }

    fn refusal(&self, now_ns: u64, reason: Reason) -> Refusal {
        let run_ns = self.run_all.mean().unwrap_or(RUN_NS);
        let drained_ns = whole(run_ns * self.waiting() as f64 / self.workers as f64);
        let retry_after_ns = drained_ns.min(self.growth.stood_ns(now_ns)).max(whole(RUN_NS));
        Refusal { reason, retry_after_ns }
    }

    /// Looks at the queue as it has been since the last look, and judges the interval if it is over.
    fn judge(&mut self, now_ns: u64) {
        let run_ns = self.run_all.mean().unwrap_or(RUN_NS);
        let length_ns = whole(run_ns * INTERVAL_RUNS).clamp(INTERVAL_MIN_NS, INTERVAL_MAX_NS);
        let grows = self.growth.see(now_ns, self.requests.len(), length_ns);
        if self.overload {
            self.overload = now_ns.saturating_sub(self.given_up_ns) <= length_ns * CALM;
            if !self.overload {
                self.growth = Growth::new(now_ns);
            }
        } else if grows && self.has_late(now_ns) {
            (self.overload, self.given_up_ns) = (true, now_ns);
        }
    }

    fn stands(&self, now_ns: u64) -> bool {
        let run_ns = self.run_all.mean().unwrap_or(RUN_NS);
        let least_ns = whole(run_ns * STANDS_RUNS).clamp(STANDS_MIN_NS, STANDS_MAX_NS);
        self.growth.stood_ns(now_ns) >= least_ns
    }

    /// Whether one that somebody waits for has waited too long.
    fn has_late(&self, now_ns: u64) -> bool {
        let oldest = self.lanes[..BACKGROUND].iter().filter_map(|lane| lane.first(false));
        oldest.into_iter().any(|(_, oldest)| self.is_late(now_ns, oldest))
    }

    fn is_heavy(&self, cost_ns: u64) -> bool {
        cost_ns as f64 > HEAVY * self.run_all.mean().unwrap_or(RUN_NS)
    }

    fn lane_of(&self, arrival: &Arrival, cost_ns: u64) -> usize {
        match arrival.tier {
            Tier::Control => CONTROL,
            Tier::Background => BACKGROUND,
            Tier::Interactive => match arrival.class {
                // It ends a request that has been paid for.
                Class::Fetch => FETCH,
                _ if self.is_heavy(cost_ns) => DEAR,
                class => class.slot(),
            },
        }
    }

    /// The lane whose turn it is.
    fn turn(&self) -> Option<usize> {
        if !self.lanes[CONTROL].waiting.is_empty() {
            return Some(CONTROL);
        }
        let may_start = |at: &usize| {
            let is_free = *at != DEAR || self.heavy_running < self.workers_of(DEAR);
            is_free && !self.lanes[*at].waiting.is_empty()
        };
        let used = |at: &usize| self.lanes[*at].used;
        (0..CONTROL).filter(may_start).min_by(|a, b| used(a).total_cmp(&used(b)))
    }
}

impl AdmissionState for LoadAware {
    fn offer(&mut self, now_ns: u64, arrival: Arrival) -> Result<(), Refusal> {
        self.judge(now_ns);
        let cost_ns = self.cost_ns(&arrival);
        let at = self.lane_of(&arrival, cost_ns);
        if at != CONTROL {
            let wait_ns = if self.overload { 0 } else { self.wait_in_ns(at) };
            let sure_ns = wait_ns.min(self.growth.stood_ns(now_ns));
            let answered_ns = now_ns.saturating_add(sure_ns).saturating_add(cost_ns);
            let busy = self.stands(now_ns) && wait_ns > self.bound_ns(arrival.class);
            if answered_ns > arrival.deadline_ns && self.waiting() > 0 {
                return Err(self.refusal(now_ns, Reason::Hopeless));
            }
            if busy && arrival.alternatives > 0 {
                return Err(self.refusal(now_ns, Reason::Elsewhere));
            }
            if self.waiting() >= self.workers * WAITING_PER_WORKER_MAX {
                return Err(self.refusal(now_ns, Reason::Full));
            }
        }
        if self.lanes[at].waiting.is_empty() {
            // A lane that was idle has saved nothing up: it joins at the least used.
            let busy = self.lanes.iter().filter(|lane| !lane.waiting.is_empty());
            let least = busy.map(|lane| lane.used).fold(f64::INFINITY, f64::min);
            let lane = &mut self.lanes[at];
            lane.used = if least.is_finite() { lane.used.max(least) } else { lane.used };
        }
        self.arrivals += 1;
        *self.requests.entry(arrival.rank).or_default() += 1;
        let told_ns = if at == DEAR { Some(cost_ns) } else { arrival.cost_ns };
        self.lanes[at].push(self.arrivals, Waiting { arrival, arrived_ns: now_ns, told_ns });
        Ok(())
    }

    fn next(&mut self, now_ns: u64, dropped: &mut Vec<(Arrival, Refusal)>) -> Option<Started> {
        self.shed(now_ns, dropped);
        loop {
            let at = self.turn()?;
            let by_rank = self.overload && at != CONTROL;
            let number = self.lanes[at].first(by_rank)?.0;
            let taken = self.take(at, number)?;
            let cost_ns = self.cost_ns(&taken.arrival);
            let left_ns = if self.waiting() > 0 { cost_ns } else { 0 };
            let late = now_ns.saturating_add(left_ns) > taken.arrival.deadline_ns;
            if late && at != CONTROL {
                dropped.push((taken.arrival, self.refusal(now_ns, Reason::Hopeless)));
                continue;
            }
            let weight = if at == BACKGROUND { 4.0 } else { 1.0 };
            self.lanes[at].used += cost_ns.max(1) as f64 * weight;
            let heavy = at == DEAR;
            self.heavy_running += usize::from(heavy);
            let waited_ns = now_ns.saturating_sub(taken.arrived_ns);
            return Some(Started { arrival: taken.arrival, waited_ns, heavy });
        }
    }

    /// Gives up what has waited too long in overload.
    fn shed(&mut self, now_ns: u64, dropped: &mut Vec<(Arrival, Refusal)>) {
        self.judge(now_ns);
        if !self.overload {
            return;
        }
        let refusal = self.refusal(now_ns, Reason::Overload);
        for at in (0..CONTROL).filter(|at| *at != FETCH) {
            while let Some((number, oldest)) = self.lanes[at].first(false) {
                if !self.is_late(now_ns, oldest) {
                    break;
                }
                dropped.push((oldest.arrival, refusal));
                self.take(at, number);
                self.given_up_ns = now_ns;
            }
        }
    }

    fn on_finish(&mut self, now_ns: u64, done: &Started, run_ns: u64) -> Option<Frame> {
        self.run[done.arrival.class.slot()].add(now_ns, run_ns as f64);
        self.run_all.add(now_ns, run_ns as f64);
        self.heavy_running -= usize::from(done.heavy);
        None
    }

    fn cancel(&mut self, id: u64) -> Option<Arrival> {
        let (at, number) = self.lanes.iter().enumerate().find_map(|(at, lane)| {
            let mut all = lane.waiting.iter();
            all.find(|(_, waiting)| waiting.arrival.id == id).map(|(number, _)| (at, *number))
        })?;
        self.take(at, number).map(|waiting| waiting.arrival)
    }

    fn waiting(&self) -> usize {
        self.lanes.iter().map(|lane| lane.waiting.len()).sum()
    }

    fn oldest_arrived_ns(&self) -> Option<u64> {
        let oldest = self.lanes.iter().filter_map(|lane| lane.first(false));
        oldest.map(|(_, waiting)| waiting.arrived_ns).min()
    }
}
