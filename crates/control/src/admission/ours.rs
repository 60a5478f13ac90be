//! Our admission: by time instead of by number, with nothing to set.
//!
//! ```text
//! bound     = run * (1 + 4 / workers)            how long a queue is worth having, per class
//! standing  = the queue was never empty for an interval of 4 runs (20 ms to 1 s)
//! overload  = standing, and the wait, in runs, 1.25 bounds longer than two intervals ago, or one
//!             bound longer than eight intervals ago; until the queue is empty
//! ```
//!
//! * A request that cannot be answered by its deadline is refused when it arrives, and given up
//!   if that turns out while it waits (ScyllaDB's shedding by remaining time, with the predicted
//!   run instead of a fixed fraction).
//! * While a queue stands, a request that has another copy to go to is sent there once the wait
//!   exceeds the bound.
//! * In overload the highest rank goes first, among equals the newest, and what has waited beyond
//!   the bound is refused: those served have waited little, and those refused learn it soon
//!   (adaptive LIFO and queue time-outs, Maurer, Fail at Scale, ACM Queue 2015, with the bound
//!   scaled to the class's run instead of 5 ms). The rank is the whole request's, drawn once by its
//!   coordinator, so that nodes that know nothing of each other refuse all parts of the same
//!   requests (user priorities of DAGOR, Zhou and others, SoCC 2018): parts dropped by chance, a
//!   sixth at each of five nodes, would spoil 60 % of the requests and the work of their other parts.
//! * A fetch is not shed: its query has been paid for, and no other node has what it found.
//! * A queue that stands without growing is a closed loop, not overload: its clients wait for
//!   their answers, and refusing them would only make them ask again.
//! * Classes take turns by the run time they have used, so that gets do not wait for every
//!   aggregation before them; and requests eight times dearer than the average leave an eighth of
//!   the workers to the others.
//!
//! The bound's second term is for few workers, where a queue as short as one run would leave the
//! worker idle (M/M/1 at 1.4 times its capacity needs five waiting to stay 95 % busy).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    AdmissionState, Arrival, Frame, Reason, Refusal, Started, Tier, WAITING_PER_WORKER_MAX,
};
use crate::average::{FadingMean, whole};
use crate::load_line::Class;

const SPAN_NS: u64 = 1_000_000_000;
/// The run time assumed before anything has run.
const RUN_NS: f64 = 1_000_000.0;
const INTERVAL_RUNS: f64 = 4.0;
const INTERVAL_MIN_NS: u64 = 20_000_000;
const INTERVAL_MAX_NS: u64 = 1_000_000_000;
/// Intervals over which slow growth is told.
const TREND: usize = 8;
/// From how many average runs on a request is heavy, and the part of the workers kept from such.
const HEAVY: f64 = 8.0;
const KEPT: usize = 8;
/// One lane for each class, one for background work, one for the cluster's own.
const LANES: usize = Class::COUNT + 2;
const FETCH: usize = Class::Fetch.slot();
const BACKGROUND: usize = Class::COUNT;
const CONTROL: usize = Class::COUNT + 1;

#[derive(Clone, Copy, Debug)]
struct Waiting {
    arrival: Arrival,
    arrived_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct Lane {
    /// By a number that grows with each arrival.
    waiting: BTreeMap<u64, Waiting>,
    /// The same by rank, then number.
    ranked: BTreeSet<(u32, u64)>,
    /// Predicted run time of those waiting whose sender predicted it.
    told_ns: u64,
    /// How many wait without a prediction; they count with the average of now.
    untold: u64,
    /// Run time used, by which lanes take turns.
    used: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Ours {
    workers: usize,
    lanes: [Lane; LANES],
    /// Arrivals so far.
    arrivals: u64,
    run: [FadingMean; Class::COUNT],
    run_all: FadingMean,
    heavy_running: usize,
    interval_from_ns: u64,
    was_empty: bool,
    /// How many runs' time a newcomer had to wait at the ends of the latest intervals in which
    /// the queue stood, the last at the back; emptied with the queue.
    depths: VecDeque<f64>,
    overload: bool,
}

impl Lane {
    fn push(&mut self, number: u64, waiting: Waiting) {
        self.told_ns = self.told_ns.saturating_add(waiting.arrival.cost_ns.unwrap_or(0));
        self.untold += u64::from(waiting.arrival.cost_ns.is_none());
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
        self.told_ns = self.told_ns.saturating_sub(removed.arrival.cost_ns.unwrap_or(0));
        self.untold -= u64::from(removed.arrival.cost_ns.is_none());
        Some(removed)
    }
}

impl Ours {
    pub(super) fn new(workers: usize, now_ns: u64) -> Self {
        Self {
            workers,
            lanes: std::array::from_fn(|_| Lane::default()),
            arrivals: 0,
            run: [FadingMean::new(SPAN_NS); Class::COUNT],
            run_all: FadingMean::new(SPAN_NS),
            heavy_running: 0,
            interval_from_ns: now_ns,
            was_empty: true,
            depths: VecDeque::new(),
            overload: false,
        }
    }

    fn run_ns(&self, class: Class) -> f64 {
        self.run[class.slot()].mean().unwrap_or(RUN_NS)
    }

    fn cost_ns(&self, arrival: &Arrival) -> u64 {
        arrival.cost_ns.unwrap_or_else(|| whole(self.run_ns(arrival.class)))
    }

    /// How many runs' time a queue is worth having.
    fn bound_runs(&self) -> f64 {
        1.0 + 4.0 / self.workers as f64
    }

    fn bound_ns(&self, class: Class) -> u64 {
        whole(self.run_ns(class) * self.bound_runs())
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
        let own_ns = self.work_ns(lane) / self.workers as u64;
        own_ns.saturating_mul(active as u64).min(self.wait_ns())
    }

    fn refusal(&self, reason: Reason) -> Refusal {
        Refusal { reason, retry_after_ns: self.wait_ns().max(whole(RUN_NS)) }
    }

    /// Closes the interval if it is over and judges it.
    fn judge(&mut self, now_ns: u64) {
        if self.waiting() == 0 {
            self.was_empty = true;
        }
        let run_ns = self.run_all.mean().unwrap_or(RUN_NS);
        let length_ns = whole(run_ns * INTERVAL_RUNS).clamp(INTERVAL_MIN_NS, INTERVAL_MAX_NS);
        if now_ns.saturating_sub(self.interval_from_ns) < length_ns {
            return;
        }
        // In runs and not in time, so that a node that turns slow under a steady number of
        // clients is not taken for one to which more are coming.
        let bound = self.bound_runs();
        let depth = self.wait_ns() as f64 / run_ns;
        if self.was_empty {
            self.overload = false;
            self.depths.clear();
        } else {
            let deeper = |than: Option<&f64>, by: f64| than.is_some_and(|t| depth > t + by);
            let before_last = self.depths.len().checked_sub(2).and_then(|at| self.depths.get(at));
            let quickly = deeper(before_last, 1.25 * bound);
            let slowly = self.depths.len() == TREND && deeper(self.depths.front(), bound);
            self.overload |= quickly || slowly;
        }
        if self.depths.len() == TREND {
            self.depths.pop_front();
        }
        self.depths.push_back(depth);
        self.interval_from_ns = now_ns;
        self.was_empty = self.waiting() == 0;
    }

    /// Whether a queue has stood for an interval.
    fn stands(&self) -> bool {
        !self.was_empty && self.depths.len() > 1
    }

    fn is_heavy(&self, cost_ns: u64) -> bool {
        cost_ns as f64 > HEAVY * self.run_all.mean().unwrap_or(RUN_NS)
    }

    /// The lane whose turn it is.
    fn turn(&self) -> Option<usize> {
        if !self.lanes[CONTROL].waiting.is_empty() {
            return Some(CONTROL);
        }
        let heavy_max = self.workers - self.workers.div_ceil(KEPT).min(self.workers - 1);
        let may_start = |at: &usize| {
            self.lanes[*at].first(self.overload).is_some_and(|(_, next)| {
                !self.is_heavy(self.cost_ns(&next.arrival)) || self.heavy_running < heavy_max
            })
        };
        let used = |at: &usize| self.lanes[*at].used;
        (0..CONTROL).filter(may_start).min_by(|a, b| used(a).total_cmp(&used(b)))
    }
}

fn lane_of(arrival: &Arrival) -> usize {
    match arrival.tier {
        Tier::Control => CONTROL,
        Tier::Interactive => arrival.class.slot(),
        Tier::Background => BACKGROUND,
    }
}

impl AdmissionState for Ours {
    fn offer(&mut self, now_ns: u64, arrival: Arrival) -> Result<(), Refusal> {
        self.judge(now_ns);
        let (at, cost_ns) = (lane_of(&arrival), self.cost_ns(&arrival));
        if at != CONTROL {
            let wait_ns = if self.overload { 0 } else { self.wait_in_ns(at) };
            let answered_ns = now_ns.saturating_add(wait_ns).saturating_add(cost_ns);
            let busy = self.stands() && wait_ns > self.bound_ns(arrival.class);
            if answered_ns > arrival.deadline_ns {
                return Err(self.refusal(Reason::Hopeless));
            }
            if busy && arrival.alternatives > 0 {
                return Err(self.refusal(Reason::Elsewhere));
            }
            if self.waiting() >= self.workers * WAITING_PER_WORKER_MAX {
                return Err(self.refusal(Reason::Full));
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
        self.lanes[at].push(self.arrivals, Waiting { arrival, arrived_ns: now_ns });
        Ok(())
    }

    fn next(&mut self, now_ns: u64, dropped: &mut Vec<(Arrival, Refusal)>) -> Option<Started> {
        self.shed(now_ns, dropped);
        loop {
            let at = self.turn()?;
            let by_rank = self.overload && at != CONTROL;
            let number = self.lanes[at].first(by_rank)?.0;
            let taken = self.lanes[at].remove(number)?;
            let cost_ns = self.cost_ns(&taken.arrival);
            let late = now_ns.saturating_add(cost_ns) > taken.arrival.deadline_ns;
            if late && at != CONTROL {
                dropped.push((taken.arrival, self.refusal(Reason::Hopeless)));
                continue;
            }
            let weight = if at == BACKGROUND { 4.0 } else { 1.0 };
            self.lanes[at].used += cost_ns.max(1) as f64 * weight;
            // What counts as heavy when it starts counts so when it ends.
            let heavy = self.is_heavy(cost_ns);
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
        let refusal = self.refusal(Reason::Overload);
        for at in (0..CONTROL).filter(|at| *at != FETCH) {
            while let Some((number, oldest)) = self.lanes[at].first(false) {
                let age_ns = now_ns.saturating_sub(oldest.arrived_ns);
                if age_ns <= self.bound_ns(oldest.arrival.class) {
                    break;
                }
                dropped.push((oldest.arrival, refusal));
                self.lanes[at].remove(number);
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
        self.lanes.iter_mut().find_map(|lane| {
            let mut all = lane.waiting.iter();
            let number = *all.find(|(_, waiting)| waiting.arrival.id == id)?.0;
            lane.remove(number).map(|waiting| waiting.arrival)
        })
    }

    fn waiting(&self) -> usize {
        self.lanes.iter().map(|lane| lane.waiting.len()).sum()
    }

    fn oldest_arrived_ns(&self) -> Option<u64> {
        let oldest = self.lanes.iter().filter_map(|lane| lane.first(false));
        oldest.map(|(_, waiting)| waiting.arrived_ns).min()
    }
}
