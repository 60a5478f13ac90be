//! Admission: who waits for a worker, who starts next, who is refused. This file owns
//! the choice of a rule and the shell that every rule shares ([`Admission`]); the words are
//! `request.rs`'s, the one interface that all rules have is `state.rs`'s, and the rules stand in
//! their own files. A rule owns its queue, because the order of leaving it is part of the rule.

mod counted;
mod growth;
mod littles_law;
mod load_aware;
mod request;
mod shadow;
mod state;

pub use littles_law::{Frame, LittlesLawForm, LittlesLawSettings, QueueSizer, SETTING_NAMES};
pub use request::{Arrival, Reason, Refusal, Started, Tier};
pub use state::{WAITING_PER_WORKER_MAX, WouldRefuse};

use state::AdmissionState;

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
