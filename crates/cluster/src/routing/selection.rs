//! Selection at work: the one rule that this coordinator follows, told of everything that it
//! sends, with the budgets of hedges and retries beside it, and what is shown of each node. The
//! rules are in `plimsoll_control`; whom to ask about what is in `routing.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_control::average::{FadingMean, whole};
use plimsoll_control::retry::{Retry, RetryBudget};
use plimsoll_control::selection::{
    Ask, Candidate, Failure, FailureKind, Flight, Hedger, NodeId, Rule, Selector, ShadowPicks,
};
use plimsoll_control::{Class, LoadLine, Mode, Switch};

use crate::settings::work::SelectionSettings;
use plimsoll_base::Random;
use plimsoll_base::random::Draws;

/// A debt that was heard of longer ago says nothing any more, ns.
const DEBT_NS_MAX: u64 = 5_000_000_000;
/// Within which time what is shown of a node fades by e.
const SHOWN_SPAN_NS: u64 = 5_000_000_000;
/// Probes under way at once; more are taken for lost.
const PROBES_MAX: usize = 256;

/// The coordinator's selection.
pub(crate) struct Selection {
    state: Mutex<SelectionState>,
}

struct SelectionState {
    /// What selectors draw from is drawn from this.
    seeds: Draws,
    settings: SelectionSettings,
    selector: Selector,
    /// One more with each new rule: what was sent under an earlier one is not told to the next.
    generation: u64,
    hedger: Hedger,
    hedging: Switch,
    retries: RetryBudget,
    retried: u64,
    probes: usize,
    nodes: BTreeMap<NodeId, Shown>,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    flight: Flight,
    generation: u64,
}

/// What is shown of a node, whatever the rule.
#[derive(Clone, Copy)]
struct Shown {
    outstanding: u32,
    picks: u64,
    failures: u64,
    response_ns: FadingMean,
    service_ns: FadingMean,
    queued: FadingMean,
    heard: Option<(u64, LoadLine)>,
}

impl Shown {
    fn new() -> Self {
        let mean = FadingMean::new(SHOWN_SPAN_NS);
        Self {
            outstanding: 0,
            picks: 0,
            failures: 0,
            response_ns: mean,
            service_ns: mean,
            queued: mean,
            heard: None,
        }
    }

    fn hear(&mut self, now_ns: u64, line: &LoadLine) {
        self.queued.add(now_ns, f64::from(line.queued));
        self.heard = Some((now_ns, *line));
    }
}

/// What this coordinator believes about a node.
#[derive(Clone, Debug)]
pub struct NodeSelection {
    /// Requests sent there and not answered.
    pub outstanding: u32,
    /// How often it was chosen.
    pub picks: u64,
    /// Requests that failed there.
    pub failures: u64,
    /// Average time to the answer, ns; 0 before the first.
    pub response_ns: u64,
    /// Average part of it that the node had the request, ns.
    pub service_ns: u64,
    /// Average number of requests that waited there, as it says.
    pub queued: u64,
    /// How bad the rule finds it for a search: under `load_aware` the expected time, ns.
    pub rank: f64,
    /// Its last load line, and how old that is, ns.
    pub line: Option<(LoadLine, u64)>,
}

/// What selection does as a whole.
#[derive(Clone, Copy, Debug)]
pub struct SelectionStatistics {
    /// The name of the rule that is followed.
    pub rule: &'static str,
    /// The name of the rule in the shadow, and what it would have chosen otherwise.
    pub shadow: Option<(&'static str, ShadowPicks)>,
    /// Whether late requests are hedged: `off`, `shadow` or `on`.
    pub hedging: &'static str,
    /// Hedges that were wanted, and that were sent.
    pub hedges: (u64, u64),
    /// Retries on another copy, and those that the budget did not allow.
    pub retries: (u64, u64),
}

fn selector(settings: &SelectionSettings, seeds: &Draws) -> Selector {
    match settings.shadow {
        Some(shadow) => Selector::with_shadow(settings.followed(), shadow, seeds.next_u64()),
        None => Selector::new(settings.followed(), seeds.next_u64()),
    }
}

fn name_of(rule: Rule) -> &'static str {
    Rule::NAMED.iter().find(|(_, known)| *known == rule).map_or("", |(name, _)| name)
}

fn mode_name(mode: Mode) -> &'static str {
    Mode::NAMED.iter().find(|(_, known)| *known == mode).map_or("", |(name, _)| name)
}

impl Selection {
    pub(crate) fn new(settings: SelectionSettings, random: &Random) -> Self {
        let seeds = random.draws("selection");
        let state = SelectionState {
            selector: selector(&settings, &seeds),
            seeds,
            generation: 0,
            hedger: Hedger::default(),
            hedging: Switch::new(settings.hedging),
            retries: RetryBudget::new(0),
            retried: 0,
            probes: 0,
            nodes: BTreeMap::new(),
            settings,
        };
        Self { state: Mutex::new(state) }
    }

    /// Takes other settings on. Another rule begins without knowledge.
    pub(crate) fn change(&self, settings: &SelectionSettings) {
        let mut state = self.state.lock();
        state.hedging.set(settings.hedging);
        let rules = |it: &SelectionSettings| (it.followed(), it.shadow);
        if rules(&state.settings) != rules(settings) {
            state.selector = selector(settings, &state.seeds);
            state.generation += 1;
            state.nodes.values_mut().for_each(|shown| shown.outstanding = 0);
        }
        state.settings = *settings;
    }

    /// The index of the candidate to ask; none where there are none.
    pub(crate) fn pick(&self, now_ns: u64, ask: Ask, candidates: &[Candidate]) -> Option<usize> {
        self.state.lock().selector.pick(now_ns, ask, candidates)
    }

    /// The indices of all candidates, best first.
    pub(crate) fn rank(&self, now_ns: u64, ask: Ask, candidates: &[Candidate]) -> Vec<usize> {
        let mut order = Vec::new();
        self.state.lock().selector.rank(now_ns, ask, candidates, &mut order);
        order
    }

    /// A request goes out.
    pub(crate) fn sent(&self, now_ns: u64, ask: Ask, node: NodeId) -> Sent {
        let mut state = self.state.lock();
        let shown = state.nodes.entry(node).or_insert_with(Shown::new);
        shown.outstanding += 1;
        shown.picks += 1;
        Sent { flight: state.selector.on_send(now_ns, ask, node), generation: state.generation }
    }

    /// It was answered. `server_ns` is how long the node had it, where it says so.
    pub(crate) fn answered(
        &self,
        now_ns: u64,
        sent: Sent,
        server_ns: Option<u64>,
        line: Option<&LoadLine>,
    ) {
        let mut state = self.state.lock();
        let Sent { flight, .. } = sent;
        let response_ns = now_ns.saturating_sub(flight.sent_ns);
        if state.hedging.mode() != Mode::Off {
            state.hedger.on_reply(now_ns, flight.class, response_ns);
        }
        let is_known = state.ends(&sent);
        let shown = state.nodes.entry(flight.node).or_insert_with(Shown::new);
        shown.response_ns.add(now_ns, response_ns as f64);
        shown.service_ns.add(now_ns, server_ns.unwrap_or(response_ns) as f64);
        if let Some(line) = line {
            shown.hear(now_ns, line);
        }
        if is_known {
            state.selector.on_reply(now_ns, flight, server_ns, line);
        }
    }

    /// It failed; `deadline` is the time that it had been given.
    pub(crate) fn failed(
        &self,
        now_ns: u64,
        sent: Sent,
        kind: FailureKind,
        deadline: Duration,
        line: Option<&LoadLine>,
    ) {
        let mut state = self.state.lock();
        let is_known = state.ends(&sent);
        let shown = state.nodes.entry(sent.flight.node).or_insert_with(Shown::new);
        shown.failures += 1;
        if let Some(line) = line {
            shown.hear(now_ns, line);
        }
        if is_known {
            let deadline_ns = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
            let failure = Failure { kind, deadline_ns, line: line.copied() };
            state.selector.on_failure(now_ns, sent.flight, &failure);
        }
    }

    /// Nobody waits for it any more, or its end says nothing of the node.
    pub(crate) fn cancelled(&self, now_ns: u64, sent: Sent) {
        let mut state = self.state.lock();
        if state.hedging.mode() != Mode::Off {
            let age_ns = now_ns.saturating_sub(sent.flight.sent_ns);
            state.hedger.on_reply(now_ns, sent.flight.class, age_ns);
        }
        if state.ends(&sent) {
            state.selector.on_cancel(now_ns, sent.flight);
        }
    }

    /// The nodes whose load line is wanted after a choice. What becomes of each is told by
    /// [`Self::probed`].
    pub(crate) fn probes(&self, now_ns: u64, ask: Ask, candidates: &[Candidate]) -> Vec<NodeId> {
        let mut state = self.state.lock();
        let mut wanted = Vec::new();
        state.selector.probes(now_ns, ask, candidates, &mut wanted);
        let room = PROBES_MAX.saturating_sub(state.probes);
        for lost in wanted.split_off(room.min(wanted.len())) {
            state.selector.on_probe_lost(now_ns, lost);
        }
        state.probes += wanted.len();
        wanted
    }

    /// A probe was answered, or not.
    pub(crate) fn probed(&self, now_ns: u64, node: NodeId, line: Option<&LoadLine>) {
        let mut state = self.state.lock();
        state.probes = state.probes.saturating_sub(1);
        match line {
            Some(line) => {
                state.nodes.entry(node).or_insert_with(Shown::new).hear(now_ns, line);
                state.selector.on_probe(now_ns, node, line);
            }
            None => state.selector.on_probe_lost(now_ns, node),
        }
    }

    /// A request begins. Says after which time without an answer a second copy may be asked.
    pub(crate) fn begins(&self, class: Class) -> Option<Duration> {
        let mut state = self.state.lock();
        state.retries.on_send();
        if state.hedging.mode() == Mode::Off {
            return None;
        }
        state.hedger.on_send(class).map(Duration::from_nanos)
    }

    /// Whether a request of this age is to be sent to a second copy as well, and to which.
    pub(crate) fn hedge(
        &self,
        now_ns: u64,
        ask: Ask,
        age: Duration,
        candidates: &[Candidate],
    ) -> Option<usize> {
        let mut state = self.state.lock();
        let at = state.selector.pick(now_ns, ask, candidates)?;
        let node = candidates.get(at)?.node;
        // Only our own rule's cost is a time.
        let expected_ns = match state.selector.rule() {
            Rule::LoadAware => whole(state.selector.cost(now_ns, ask, candidates[at])),
            _ => state.nodes.get(&node).and_then(|it| it.response_ns.mean()).map_or(0, whole),
        };
        let age_ns = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        let SelectionState { hedging, hedger, .. } = &mut *state;
        hedging.asks(|| hedger.hedge(ask.class, age_ns, expected_ns)).then_some(at)
    }

    /// Whether a request that failed may be tried on another copy, of which so many are left.
    pub(crate) fn may_retry(
        &self,
        now_ns: u64,
        kind: FailureKind,
        left: usize,
        time_left: Duration,
    ) -> bool {
        let mut state = self.state.lock();
        let time_left_ns = u64::try_from(time_left.as_nanos()).unwrap_or(u64::MAX);
        let may = match kind {
            // It has cost nobody anything, and the others have to carry that node's share anyway.
            FailureKind::Unreachable => left > 0,
            kind => state.retries.on_failure(now_ns, kind, left, time_left_ns) == Retry::Elsewhere,
        };
        state.retried += u64::from(may);
        may
    }

    pub(crate) fn statistics(&self) -> SelectionStatistics {
        let state = self.state.lock();
        let shadow = state.settings.shadow;
        SelectionStatistics {
            rule: name_of(state.settings.followed()),
            shadow: shadow.map(|rule| (name_of(rule), state.selector.shadow_picks())),
            hedging: mode_name(state.hedging.mode()),
            hedges: (state.hedging.wanted(), state.hedging.acted()),
            retries: (state.retried, state.retries.refused()),
        }
    }

    /// What a node said last of the debt of its stores, if that was not long ago: 1 is where they take no more.
    pub(crate) fn write_debt(&self, now_ns: u64, node: NodeId) -> Option<f64> {
        let state = self.state.lock();
        let (_, line) = state
            .nodes
            .get(&node)?
            .heard
            .as_ref()
            .filter(|(at_ns, _)| now_ns.saturating_sub(*at_ns) <= DEBT_NS_MAX)?;
        Some(f64::from(line.write_debt_permille) / 1e3)
    }

    /// What is believed about each node that was asked.
    pub(crate) fn nodes(&self, now_ns: u64) -> Vec<(NodeId, NodeSelection)> {
        let state = self.state.lock();
        let ask = Ask { class: Class::Search, partition: 0 };
        let mean = |mean: &FadingMean| mean.mean().map_or(0, whole);
        let shown = |(node, shown): (&NodeId, &Shown)| {
            let selection = NodeSelection {
                outstanding: shown.outstanding,
                picks: shown.picks,
                failures: shown.failures,
                response_ns: mean(&shown.response_ns),
                service_ns: mean(&shown.service_ns),
                queued: mean(&shown.queued),
                rank: state.selector.cost(now_ns, ask, Candidate::near(*node)),
                line: shown.heard.map(|(at, line)| (line, now_ns.saturating_sub(at))),
            };
            (*node, selection)
        };
        state.nodes.iter().map(shown).collect()
    }
}

impl SelectionState {
    /// A request ended; whether the rule of now knows it.
    fn ends(&mut self, sent: &Sent) -> bool {
        let is_known = sent.generation == self.generation;
        if is_known && let Some(shown) = self.nodes.get_mut(&sent.flight.node) {
            shown.outstanding = shown.outstanding.saturating_sub(1);
        }
        is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASK: Ask = Ask { class: Class::Search, partition: 1 };
    const MS: u64 = 1_000_000;

    fn nodes(count: u32) -> Vec<Candidate> {
        (0..count).map(|node| Candidate::near(NodeId(node))).collect()
    }

    #[test]
    fn the_rule_changes_under_way() {
        let selection = Selection::new(SelectionSettings::default(), &Random::seeded(1));
        let before = selection.sent(0, ASK, NodeId(0));
        let rotation = SelectionSettings { is_adaptive: false, ..SelectionSettings::default() };
        selection.change(&rotation);
        assert_eq!(selection.statistics().rule, "round_robin");
        let picked: Vec<_> = (0..4).map(|_| selection.pick(MS, ASK, &nodes(2)).unwrap()).collect();
        assert!(picked[0] != picked[1] && picked[..2] == picked[2..], "{picked:?}");
        let after = selection.sent(MS, ASK, NodeId(1));
        // Neither end is told to a rule that did not see the begin.
        selection.answered(2 * MS, before, None, None);
        selection.failed(2 * MS, after, FailureKind::Timeout, Duration::from_secs(1), None);
        let found = selection.nodes(2 * MS);
        assert!(found.iter().all(|(_, it)| it.outstanding == 0));
        assert_eq!((found[0].1.response_ns, found[1].1.failures), (2 * MS, 1));
    }

    #[test]
    fn what_is_switched_off_is_not_asked() {
        let selection = Selection::new(SelectionSettings::default(), &Random::seeded(1));
        assert_eq!(selection.begins(Class::Search), None);
        let shadow = SelectionSettings {
            hedging: Mode::Shadow,
            shadow: Some(Rule::LoadAware),
            is_adaptive: false,
            ..SelectionSettings::default()
        };
        selection.change(&shadow);
        for at in 0..100 {
            let sent = selection.sent(at * MS, ASK, NodeId(0));
            selection.answered(at * MS + MS, sent, None, None);
        }
        assert!(selection.begins(Class::Search).is_some_and(|after| !after.is_zero()));
        (0..100).for_each(|_| assert!(selection.begins(Class::Search).is_some()));
        let late = Duration::from_millis(50);
        assert_eq!(selection.hedge(100 * MS, ASK, late, &nodes(1)), None, "it only counts");
        let found = selection.statistics();
        assert_eq!((found.hedges, found.hedging), ((1, 0), "shadow"));
        assert_eq!(found.shadow.map(|(name, picks)| (name, picks.picks)), Some(("load_aware", 1)));
    }

    #[test]
    fn retries_of_what_was_carried_out_have_a_budget() {
        let selection = Selection::new(SelectionSettings::default(), &Random::seeded(1));
        let may = |kind, left| selection.may_retry(0, kind, left, Duration::from_secs(1));
        let allowed = (0..1000).filter(|_| may(FailureKind::Timeout, 1)).count();
        assert_eq!(allowed, 100, "what is saved up");
        assert!(may(FailureKind::Unreachable, 1) && !may(FailureKind::Unreachable, 0));
        assert_eq!(selection.statistics().retries, (101, 900));
    }

    #[test]
    fn a_probe_is_told_once_whatever_becomes_of_it() {
        let selection = Selection::new(SelectionSettings::default(), &Random::seeded(1));
        let second = 1_000 * MS;
        let candidates = nodes(2);
        // The rule knows a node once it was asked.
        for candidate in &candidates {
            let sent = selection.sent(0, ASK, candidate.node);
            selection.answered(0, sent, None, Some(&LoadLine::idle(1, 2)));
        }
        let wanted = selection.probes(second, ASK, &candidates);
        assert_eq!(wanted.len(), 1);
        assert!(!selection.probes(second, ASK, &candidates).contains(&wanted[0]), "under way");
        selection.probed(second, wanted[0], None);
        assert!(selection.nodes(second).iter().all(|(_, it)| it.line.is_some()));
    }
}
