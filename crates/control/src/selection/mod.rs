//! Selection: which replica serves a request. This file owns the choice of a rule and
//! the shell that every rule shares ([`Selector`]): it numbers requests, keeps the book of those
//! not answered, and hands events to the rule. What a rule is handed is `rule_state.rs`'s. What is
//! best is each rule's own affair and stands in its file: [`Rule::LoadAware`] and five published
//! ones to compare it with.

mod book;
mod by_node;
mod c3;
mod estimate;
mod health;
mod hedge;
mod lead;
mod least_outstanding;
mod load_aware;
mod node_id;
mod p2c_peak_ewma;
mod prequal;
mod request;
mod round_robin;
mod rule_state;

pub use book::{Book, Flight};
pub use c3::C3Form;
pub use estimate::{Estimate, cost_ns};
pub use hedge::Hedger;
pub use lead::{OwnLead, TOO_LATE_NS, gives_way};
pub use node_id::{NODE_ID_MAX, NodeId};
pub use request::{Ask, Candidate, Failure, FailureKind};

use rule_state::{Reply, RuleState, Scene};

use crate::load_line::LoadLine;
use crate::random::Random;

/// The rules of selection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// Least expected completion time, with the coordinator's own evidence above any report.
    #[default]
    LoadAware,
    /// Rotation.
    RoundRobin,
    /// Fewest own requests unanswered.
    LeastOutstanding,
    /// Power of two choices over peak-sensitive latency times outstanding.
    P2cPeakEwma,
    /// C3 in Elasticsearch's form.
    C3 {
        /// The exponent of the queue estimate; 3 as shipped, 4 in the first study.
        b: u32,
        /// Which generation of the formula.
        form: C3Form,
    },
    /// Prequal's hot-cold lexicographic rule over asynchronous probes.
    Prequal,
}

impl Rule {
    /// The rules that have a name, by it.
    pub const NAMED: [(&'static str, Self); 8] = [
        ("load_aware", Self::LoadAware),
        ("round_robin", Self::RoundRobin),
        ("least_outstanding", Self::LeastOutstanding),
        ("p2c_peak_ewma", Self::P2cPeakEwma),
        ("c3", Self::C3 { b: 3, form: C3Form::Corrected }),
        ("c3_first", Self::C3 { b: 3, form: C3Form::FirstShipped }),
        ("c3_proposed", Self::C3 { b: 4, form: C3Form::Proposed }),
        ("prequal", Self::Prequal),
    ];

    /// The rule of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name = crate::rule_of_today(name);
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|(_, rule)| *rule)
    }
}

/// One coordinator's selection: a rule, its book of requests and its stream of chance.
///
/// A request is one call of [`pick`](Self::pick), then [`on_send`](Self::on_send), then exactly
/// one of [`on_reply`](Self::on_reply), [`on_failure`](Self::on_failure) and
/// [`on_cancel`](Self::on_cancel). A scatter over partitions sends each before it picks the next,
/// so that its parts see one another.
pub struct Selector {
    rule: Rule,
    state: Box<dyn RuleState>,
    shadow: Option<(Box<dyn RuleState>, Random)>,
    shadow_picks: ShadowPicks,
    book: Book,
    random: Random,
}

/// What a rule in the shadow would have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShadowPicks {
    /// Choices that it was asked for.
    pub picks: u64,
    /// Those in which it would have chosen another copy.
    pub differed: u64,
}

impl Selector {
    /// A selector that knows nothing yet. The same seed and events give the same choices.
    #[must_use]
    pub fn new(rule: Rule, seed: u64) -> Self {
        Self {
            rule,
            state: state_of(rule, seed),
            shadow: None,
            shadow_picks: ShadowPicks::default(),
            book: Book::default(),
            random: Random::new(seed),
        }
    }

    /// A selector that follows `rule`, while `shadow` hears of every request, is asked for each
    /// choice, and changes none ([`shadow_picks`](Self::shadow_picks)).
    #[must_use]
    pub fn with_shadow(rule: Rule, shadow: Rule, seed: u64) -> Self {
        let other = (state_of(shadow, !seed), Random::new(!seed));
        Self { shadow: Some(other), ..Self::new(rule, seed) }
    }

    /// How often the rule in the shadow would have chosen otherwise; nothing where there is none.
    #[must_use]
    pub fn shadow_picks(&self) -> ShadowPicks {
        self.shadow_picks
    }

    fn states(&mut self) -> (impl Iterator<Item = &mut Box<dyn RuleState>>, &Book) {
        let shadow = self.shadow.as_mut().map(|(state, _)| state);
        (std::iter::once(&mut self.state).chain(shadow), &self.book)
    }

    /// Which rule it follows.
    #[must_use]
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// The requests that are not answered.
    #[must_use]
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// The index of the candidate that should serve; none where there are no candidates. Never
    /// refuses: where all are sick it names the least bad.
    pub fn pick(&mut self, now_ns: u64, ask: Ask, candidates: &[Candidate]) -> Option<usize> {
        if candidates.is_empty() {
            return None;
        }
        let scene = Scene { now_ns, ask, candidates, book: &self.book };
        let picked = self.state.pick(&scene, &mut self.random);
        if let Some((shadow, random)) = self.shadow.as_mut() {
            self.shadow_picks.picks += 1;
            self.shadow_picks.differed += u64::from(shadow.pick(&scene, random) != picked);
        }
        Some(picked)
    }

    /// All candidates' indices, the picked one first, for retries and hedges. `out` is emptied.
    pub fn rank(&mut self, now_ns: u64, ask: Ask, candidates: &[Candidate], out: &mut Vec<usize>) {
        out.clear();
        let Some(first) = self.pick(now_ns, ask, candidates) else { return };
        let scene = Scene { now_ns, ask, candidates, book: &self.book };
        let mut others: Vec<(f64, usize)> = (0..candidates.len())
            .filter(|at| *at != first)
            .map(|at| (self.state.cost(&scene, candidates[at]), at))
            .collect();
        others.sort_by(|a, b| a.0.total_cmp(&b.0));
        out.push(first);
        out.extend(others.into_iter().map(|(_, at)| at));
    }

    /// How bad a candidate looks now; only the order of two numbers means anything, except under
    /// [`Rule::LoadAware`], where it is ns and not less than the expected time to the answer.
    #[must_use]
    pub fn cost(&self, now_ns: u64, ask: Ask, candidate: Candidate) -> f64 {
        let candidates = [candidate];
        let scene = Scene { now_ns, ask, candidates: &candidates, book: &self.book };
        self.state.cost(&scene, candidate)
    }

    /// A request goes out to `node`. The flight is given back when it ends.
    #[must_use]
    pub fn on_send(&mut self, now_ns: u64, ask: Ask, node: NodeId) -> Flight {
        let flight = self.book.send(now_ns, ask.class, node);
        self.states().0.for_each(|state| state.on_send(now_ns, &flight));
        flight
    }

    /// It was answered. `server_ns` is how long the node says it had it, where it says so.
    pub fn on_reply(
        &mut self,
        now_ns: u64,
        flight: Flight,
        server_ns: Option<u64>,
        line: Option<&LoadLine>,
    ) {
        self.book.end(&flight);
        let response_ns = now_ns.saturating_sub(flight.sent_ns);
        let reply = Reply { flight: &flight, response_ns, server_ns, line };
        let (states, book) = self.states();
        states.for_each(|state| state.on_reply(now_ns, &reply, book));
    }

    /// It failed.
    pub fn on_failure(&mut self, now_ns: u64, flight: Flight, failure: &Failure) {
        self.book.end(&flight);
        let (states, book) = self.states();
        states.for_each(|state| state.on_failure(now_ns, &flight, failure, book));
    }

    /// It is no longer waited for, because a hedge was answered first.
    pub fn on_cancel(&mut self, now_ns: u64, flight: Flight) {
        self.book.end(&flight);
        let (states, book) = self.states();
        states.for_each(|state| state.on_cancel(now_ns, &flight, book));
    }

    /// The nodes that the rule wants to hear from after a pick among `candidates`, appended to
    /// `out`; each is asked for its line off the request's path, and the answer (or its absence
    /// after a time-out of the caller's choice, 1 s at most) is reported.
    pub fn probes(
        &mut self,
        now_ns: u64,
        ask: Ask,
        candidates: &[Candidate],
        out: &mut Vec<NodeId>,
    ) {
        let scene = Scene { now_ns, ask, candidates, book: &self.book };
        self.state.probes(&scene, &mut self.random, out);
    }

    /// A probe was answered with this line.
    pub fn on_probe(&mut self, now_ns: u64, node: NodeId, line: &LoadLine) {
        let (states, book) = self.states();
        states.for_each(|state| state.on_probe(now_ns, node, line, book));
    }

    /// A probe was not answered.
    pub fn on_probe_lost(&mut self, now_ns: u64, node: NodeId) {
        self.states().0.for_each(|state| state.on_probe_lost(now_ns, node));
    }

    /// A node left the cluster; its statistics go.
    pub fn forget(&mut self, node: NodeId) {
        self.states().0.for_each(|state| state.forget(node));
    }
}

fn state_of(rule: Rule, seed: u64) -> Box<dyn RuleState> {
    match rule {
        Rule::LoadAware => Box::new(load_aware::LoadAware::default()),
        Rule::RoundRobin => Box::new(round_robin::RoundRobin::default()),
        Rule::LeastOutstanding => Box::new(least_outstanding::LeastOutstanding),
        Rule::P2cPeakEwma => Box::new(p2c_peak_ewma::P2cPeakEwma::default()),
        Rule::C3 { b, form } => Box::new(c3::C3::new(b, form)),
        Rule::Prequal => Box::new(prequal::Prequal::new(!seed)),
    }
}

#[cfg(test)]
mod tests;
