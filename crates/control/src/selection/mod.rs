//! Selection: which replica serves a request. This file owns the vocabulary and the shell that
//! every rule shares ([`Selector`]): it numbers requests, keeps the book of those not answered,
//! and hands events to the rule. What is best is each rule's own affair and stands in its file:
//! [`Rule::LoadAware`] and five published ones to compare it with.

mod book;
mod by_node;
mod c3;
mod estimate;
mod health;
mod hedge;
mod lead;
mod least_outstanding;
mod load_aware;
mod p2c_peak_ewma;
mod prequal;
mod round_robin;

pub use book::{Book, Flight};
pub use c3::C3Form;
pub use estimate::{Estimate, cost_ns};
pub use hedge::Hedger;
pub use lead::{OwnLead, TOO_LATE_NS, gives_way};

use by_node::ByNode;

use crate::load_line::{Class, LoadLine};
use crate::random::Random;

/// A node, by a small number that the caller gives out densely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// The largest node number accepted.
pub const NODE_ID_MAX: u32 = 65_535;

impl NodeId {
    pub(crate) fn slot(self) -> usize {
        assert!(self.0 <= NODE_ID_MAX, "node numbers are dense");
        usize::try_from(self.0).unwrap_or(0)
    }
}

/// One copy that could serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Where it is.
    pub node: NodeId,
    /// What choosing it costs beyond time, such as traffic between zones, as microseconds of
    /// latency that would be accepted to avoid it. 0 within the zone.
    pub zone_penalty_us: u32,
}

impl Candidate {
    /// A candidate without a penalty.
    #[must_use]
    pub const fn near(node: NodeId) -> Self {
        Self { node, zone_penalty_us: 0 }
    }
}

/// What is to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The kind of work.
    pub class: Class,
    /// The partition; rotation goes round each one's copies separately.
    pub partition: u64,
}

/// Why a request got no answer of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The node said that it is too busy.
    Refused,
    /// The node answered with an error of its own (not one that the request deserves).
    Error,
    /// No answer within the deadline.
    Timeout,
    /// No connection, or it broke.
    Unreachable,
}

/// A request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How.
    pub kind: FailureKind,
    /// The time that the request had been given; it counts as if it had taken at least this long.
    pub deadline_ns: u64,
    /// The load line on the refusal, where there was one.
    pub line: Option<LoadLine>,
}

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

/// What a rule sees when it decides.
struct Scene<'a> {
    now_ns: u64,
    ask: Ask,
    candidates: &'a [Candidate],
    book: &'a Book,
}

/// A rule's state. Every call comes with the time of the receiver's clock, which does not go back.
trait RuleState: Send {
    /// The index of the candidate to use; there is at least one.
    fn pick(&mut self, scene: &Scene<'_>, random: &mut Random) -> usize;

    /// How bad a candidate looks, to order those after the picked one.
    fn cost(&self, scene: &Scene<'_>, candidate: Candidate) -> f64;

    /// A request went out.
    fn on_send(&mut self, _now_ns: u64, _flight: &Flight) {}

    /// A request was answered; `book` no longer holds it. `server_ns` is the part of the time
    /// that the node reports to have spent on it.
    fn on_reply(&mut self, _now_ns: u64, _reply: &Reply<'_>, _book: &Book) {}

    /// A request failed.
    fn on_failure(&mut self, _now_ns: u64, _flight: &Flight, _failure: &Failure, _book: &Book) {}

    /// A request was given up because another copy had answered.
    fn on_cancel(&mut self, _now_ns: u64, _flight: &Flight, _book: &Book) {}

    /// A probe was answered.
    fn on_probe(&mut self, _now_ns: u64, _node: NodeId, _line: &LoadLine, _book: &Book) {}

    /// A probe was not.
    fn on_probe_lost(&mut self, _now_ns: u64, _node: NodeId) {}

    /// Whom to probe after a pick; appends to `out`.
    fn probes(&mut self, _scene: &Scene<'_>, _random: &mut Random, _out: &mut Vec<NodeId>) {}

    /// A node left; forget it.
    fn forget(&mut self, _node: NodeId) {}
}

/// An answer as the rules see it.
struct Reply<'a> {
    flight: &'a Flight,
    response_ns: u64,
    server_ns: Option<u64>,
    line: Option<&'a LoadLine>,
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
