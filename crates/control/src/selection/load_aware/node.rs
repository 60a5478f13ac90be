//! What one coordinator believes about one node: its reports, and what they are worth by now.

use crate::average::{FadingMean, fade};
use crate::load_line::{Class, Heard, LoadLine};
use crate::selection::estimate::{stretch, told_apart};
use crate::selection::health::Health;

/// Averages over a node's reports fade by e in this time.
pub(super) const SPAN_NS: u64 = 1_000_000_000;
/// The bounds of the time in which a report goes stale.
const STALE_MIN_NS: u64 = 2_000_000;
const STALE_MAX_NS: u64 = 1_000_000_000;
/// How many coordinators of its own kind one is taken to stand for at most.
const PEERS_MAX: f64 = 16.0;

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) health: Health,
    pub(super) heard: Option<Heard>,
    /// Own requests out when the line was heard; the line's others are its total without them.
    own_when_heard: u32,
    others: FadingMean,
    own: FadingMean,
    backlog: FadingMean,
    /// By how much its processors stretched what ran, at least 1.
    stretch: FadingMean,
    /// Response time less the node's own part of it.
    pub(super) network: FadingMean,
    /// Response times, for nodes that send no line.
    pub(super) response: FadingMean,
    pub(super) probing: bool,
    pub(super) last_heard_ns: u64,
}

impl Node {
    pub(super) fn new(now_ns: u64) -> Self {
        Self {
            health: Health::new(now_ns),
            heard: None,
            own_when_heard: 0,
            others: FadingMean::new(SPAN_NS),
            own: FadingMean::new(SPAN_NS),
            backlog: FadingMean::new(SPAN_NS),
            stretch: FadingMean::new(SPAN_NS),
            network: FadingMean::new(SPAN_NS),
            response: FadingMean::new(SPAN_NS),
            probing: false,
            last_heard_ns: now_ns,
        }
    }

    pub(super) fn hear(&mut self, now_ns: u64, line: &LoadLine, own: u32) {
        if self.heard.is_some_and(|heard| heard.line.boot != line.boot) {
            *self = Self::new(now_ns);
        }
        self.heard = Some(Heard { line: *line, at_ns: now_ns });
        self.own_when_heard = own;
        self.others.add(now_ns, f64::from(line.in_flight.saturating_sub(own)));
        self.own.add(now_ns, f64::from(own));
        self.backlog.add(now_ns, backlog_of(line));
        self.stretch.add(now_ns, stretch(line));
    }

    /// The class's run time with a processor to itself, as far as it differs from the peers'.
    pub(super) fn run_ns(&self, class: Class, peers_ns: f64) -> f64 {
        let Some(Heard { line, .. }) = &self.heard else { return peers_ns };
        match line.run_ns[class.slot()] {
            0 => peers_ns,
            run_ns => {
                let alone_ns = run_ns as f64 / self.stretch.mean().unwrap_or(1.0);
                told_apart(alone_ns, line.runs, peers_ns)
            }
        }
    }

    pub(super) fn backlog_ns(&self, fresh: f64) -> f64 {
        let Some(heard) = self.heard else { return 0.0 };
        let reported = backlog_of(&heard.line);
        reported * fresh + self.backlog.mean().unwrap_or(reported) * (1.0 - fresh)
    }

    /// Requests in flight there, as far as it can be known. What this coordinator did since the
    /// report the others are taken to have done too, each in its proportion.
    pub(super) fn in_flight(&self, own: f64, fresh: f64) -> f64 {
        let Some(heard) = self.heard else { return own };
        let own_then = f64::from(self.own_when_heard);
        let others = f64::from(heard.line.in_flight.saturating_sub(self.own_when_heard));
        let usual = self.others.mean().unwrap_or(others);
        let peers = (usual / self.own.mean().unwrap_or(1.0).max(0.1)).min(PEERS_MAX);
        let since = (own - own_then) * peers;
        own + (others * fresh + usual * (1.0 - fresh) + since).max(0.0)
    }

    /// How much of the report is still news.
    pub(super) fn freshness(&self, now_ns: u64) -> f64 {
        self.heard.map_or(0.0, |heard| {
            let line = &heard.line;
            let drain_ns = line.work_ns / u64::from(line.workers.max(1)) + line.latency_ns;
            fade(heard.age_ns(now_ns), drain_ns.clamp(STALE_MIN_NS, STALE_MAX_NS))
        })
    }
}

fn backlog_of(line: &LoadLine) -> f64 {
    line.work_ns as f64 / f64::from(line.workers.max(1))
}
