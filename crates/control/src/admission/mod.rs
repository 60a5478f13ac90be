//! Admission: who waits for a worker, who starts next, who is refused. This file owns the words
//! and the one interface that all rules have; the rules stand in their own files. A rule owns its
//! queue, because the order of leaving it is part of the rule.

mod counted;
mod growth;
mod littles_law;
mod load_aware;
mod shadow;

pub use shadow::WouldRefuse;

pub use littles_law::{Frame, LittlesLawForm, LittlesLawSettings, QueueSizer, SETTING_NAMES};

use crate::load_line::Class;

/// Requests that may wait for each worker, whatever the rule: the bound on memory, not the policy.
pub const WAITING_PER_WORKER_MAX: usize = 1_000;

/// Whose work it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// The cluster's own: never refused and served first.
    Control,
    /// Someone waits for it.
    Interactive,
    /// Nobody waits for it; it gets a quarter of an interactive class's turn.
    Background,
}

/// A request that asks to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The caller's name for it.
    pub id: u64,
    /// Its kind of work.
    pub class: Class,
    /// Whose it is.
    pub tier: Tier,
    /// Predicted run time; where none is given, the class's average.
    pub cost_ns: Option<u64>,
    /// The moment at which its answer is worth nothing any more.
    pub deadline_ns: u64,
    /// Copies that its coordinator could still try elsewhere. A busy node sends such a request
    /// away earlier than one that has nowhere to go.
    pub alternatives: u32,
    /// A number that the coordinator draws at random for the whole request and gives to each part
    /// of it. In overload the higher goes first, so that all nodes refuse the same requests. Parts
    /// with the same are taken for one request.
    pub rank: u32,
}

/// Why a request was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The queue holds all that it may.
    Full,
    /// It could not have been answered by its deadline.
    Hopeless,
    /// More arrives than can be served, and this is part of the excess.
    Overload,
    /// There is a queue here and another copy could serve it.
    Elsewhere,
}

/// A refusal and when to come back (429 and Retry-After; `-TRYAGAIN`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// When there may be room.
    pub retry_after_ns: u64,
}

/// A request that leaves the queue to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// The request.
    pub arrival: Arrival,
    /// How long it waited.
    pub waited_ns: u64,
    /// Whether it is heavy among its like, so that others should not wait for it; only the rule that
    /// tells them apart says so.
    pub heavy: bool,
}

/// The rules of admission.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum AdmissionRule {
    /// By time, deadline and cost; nothing to set.
    #[default]
    LoadAware,
    /// First come, first served, up to a number that wait.
    Fixed {
        /// The number.
        capacity: usize,
    },
    /// First come, first served, up to a number that Little's law sets.
    LittlesLaw {
        /// Its settings.
        settings: LittlesLawSettings,
        /// Which reading of the law.
        form: LittlesLawForm,
    },
}

impl AdmissionRule {
    /// The rules that have a name, by it, with their default settings.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let settings = LittlesLawSettings::default();
        let law = |form| Some(Self::LittlesLaw { settings, form });
        match crate::rule_of_today(name) {
            "load_aware" => Some(Self::LoadAware),
            "fixed" => Some(Self::Fixed { capacity: 1_000 }),
            "littles_law" => law(LittlesLawForm::Target),
            "littles_law_es7" => law(LittlesLawForm::TaskTime),
            "littles_law_measured" => law(LittlesLawForm::Measured),
            "max_minus_l" => law(LittlesLawForm::MaxMinus),
            _ => None,
        }
    }
}

/// A rule's state and queue.
trait AdmissionState: Send {
    fn offer(&mut self, now_ns: u64, arrival: Arrival) -> Result<(), Refusal>;
    fn next(&mut self, now_ns: u64, dropped: &mut Vec<(Arrival, Refusal)>) -> Option<Started>;
    /// Gives up what has to be given up now; `next` does so as well.
    fn shed(&mut self, _now_ns: u64, _dropped: &mut Vec<(Arrival, Refusal)>) {}
    fn on_finish(&mut self, now_ns: u64, done: &Started, run_ns: u64) -> Option<Frame>;
    fn cancel(&mut self, id: u64) -> Option<Arrival>;
    fn waiting(&self) -> usize;
    fn oldest_arrived_ns(&self) -> Option<u64>;
    fn would_refuse(&self) -> WouldRefuse {
        WouldRefuse::default()
    }
}

/// One pool's admission.
///
/// The caller offers each arrival, then takes with [`next`](Self::next) until it yields nothing,
/// and again after each end of a run. What `next` drops has waited and is refused late.
pub struct Admission {
    state: Box<dyn AdmissionState>,
    workers: usize,
    running: usize,
}

impl Admission {
    /// Admission for a pool of `workers` (at least 1), from `now_ns` on.
    #[must_use]
    pub fn new(rule: AdmissionRule, workers: usize, now_ns: u64) -> Self {
        let workers = workers.max(1);
        Self { state: state_of(rule, workers, now_ns), workers, running: 0 }
    }

    /// Admission by `acting`, while `shadow` is shown the same requests and counts whom it would
    /// have refused ([`would_refuse`](Self::would_refuse)).
    #[must_use]
    pub fn in_shadow(
        acting: AdmissionRule,
        shadow: AdmissionRule,
        workers: usize,
        now_ns: u64,
    ) -> Self {
        let workers = workers.max(1);
        let state = shadow::Shadowed {
            acting: state_of(acting, workers, now_ns),
            shadow: state_of(shadow, workers, now_ns),
            counts: WouldRefuse::default(),
        };
        Self { state: Box::new(state), workers, running: 0 }
    }

    /// What a rule in the shadow would have refused so far; nothing where there is none.
    #[must_use]
    pub fn would_refuse(&self) -> WouldRefuse {
        self.state.would_refuse()
    }

    /// Whether the request may wait.
    ///
    /// # Errors
    /// The refusal to send back at once.
    pub fn offer(&mut self, now_ns: u64, arrival: Arrival) -> Result<(), Refusal> {
        self.state.offer(now_ns, arrival)
    }

    /// The next request to run, if a worker is free and one waits. Appends to `dropped` those that
    /// are given up instead.
    pub fn next(&mut self, now_ns: u64, dropped: &mut Vec<(Arrival, Refusal)>) -> Option<Started> {
        if self.running >= self.workers {
            return None;
        }
        let started = self.state.next(now_ns, dropped)?;
        self.running += 1;
        Some(started)
    }

    /// A run ended after `run_ns`. Returns the frame that it closed, under Little's law.
    pub fn on_finish(&mut self, now_ns: u64, done: &Started, run_ns: u64) -> Option<Frame> {
        assert!(self.running > 0, "a run ends once");
        self.running -= 1;
        self.state.on_finish(now_ns, done, run_ns)
    }

    /// Nobody waits for the request any more: takes it out of the queue and gives it back; none
    /// where it does not wait here (any more). Costs a look at each that waits.
    pub fn cancel(&mut self, id: u64) -> Option<Arrival> {
        self.state.cancel(id)
    }

    /// How many wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.state.waiting()
    }

    /// How many run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running
    }

    /// When the oldest of those that wait arrived, for the load line.
    #[must_use]
    pub fn oldest_arrived_ns(&self) -> Option<u64> {
        self.state.oldest_arrived_ns()
    }
}

fn state_of(rule: AdmissionRule, workers: usize, now_ns: u64) -> Box<dyn AdmissionState> {
    match rule {
        AdmissionRule::LoadAware => Box::new(load_aware::LoadAware::new(workers, now_ns)),
        AdmissionRule::Fixed { capacity } => Box::new(counted::Counted::fixed(capacity)),
        AdmissionRule::LittlesLaw { settings, form } => {
            Box::new(counted::Counted::sized(QueueSizer::new(settings, form, now_ns)))
        }
    }
}

#[cfg(test)]
mod tests;
