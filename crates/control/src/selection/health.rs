//! What one coordinator believes about one node's health, apart from its speed: whether it
//! answers, whether it may be trusted with its full share, and when a real request may try it
//! again. All of it is forgotten by time.

use super::request::FailureKind;
use crate::average::FadingMean;
use crate::load_line::Class;

/// Outcomes fade by e in this time.
pub(super) const OUTCOMES_NS: u64 = 1_000_000_000;
/// So many failures in a row make a node sick.
const SICK_IN_A_ROW: u32 = 3;
/// The first wait before a sick node is tried, and the longest.
const SICK_RETRY_NS: u64 = 500_000_000;
const SICK_RETRY_MAX_NS: u64 = 4_000_000_000;
/// The same for a node that is well but that nobody chooses because it was slow.
const STALE_RETRY_NS: u64 = 1_000_000_000;
const STALE_RETRY_MAX_NS: u64 = 4_000_000_000;
/// Answers after which a young node is chosen by rank instead of by turn.
pub(super) const INFANT_ANSWERS: u32 = 8;
/// Answers and age after which it is no longer young.
const YOUNG_ANSWERS: u32 = 32;
const YOUNG_NS: u64 = 5_000_000_000;
/// What a young node may get, in fair shares.
const YOUNG_SHARE: f64 = 1.8;
const YOUNG_TOKENS_MAX: f64 = 4.0;
/// What it gets at least while it warms up, in fair shares, and how many of these it may save up.
const WARMING_SHARE: f64 = 0.2;
const WARMING_OWED_MAX: f64 = 2.0;
/// It warms up as long as its run time falls by so much within so long; a copy that is slow for
/// another reason does not, and is left to the ranking.
const WARMER: f64 = 0.95;
const WARMER_RUNS: u32 = 24;
const WARMING_NS: u64 = 3_000_000_000;
/// Beyond this age nothing is young.
const YOUNG_MAX_NS: u64 = 120_000_000_000;
/// The deadline assumed before one has been seen.
const DEADLINE_NS: u64 = 1_000_000_000;

/// A node that joined, restarted or recovered: it has to earn its share, and is not left alone
/// while its caches fill, because only requests fill them.
#[derive(Clone, Copy, Debug)]
struct Young {
    since_ns: u64,
    answers: u32,
    tokens: f64,
    /// Choices that it is owed however it ranks.
    owed: f64,
    /// The least run time of each class so far, and when one fell last.
    best: [f64; Class::COUNT],
    best_ns: u64,
}

impl Young {
    fn new(now_ns: u64, answers: u32) -> Self {
        let (tokens, owed, best) = (0.0, 0.0, [f64::INFINITY; Class::COUNT]);
        Self { since_ns: now_ns, answers, tokens, owed, best, best_ns: now_ns }
    }

    fn is_warming(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.best_ns) < WARMING_NS
    }

    fn is_grown(&self, now_ns: u64) -> bool {
        let age_ns = now_ns.saturating_sub(self.since_ns);
        let proven = self.answers >= YOUNG_ANSWERS && age_ns >= YOUNG_NS;
        age_ns >= YOUNG_MAX_NS || proven && !self.is_warming(now_ns)
    }
}

/// The part of the outcomes that were bad, with one good one more than there were.
pub(super) fn share(outcomes: &FadingMean, now_ns: u64) -> f64 {
    outcomes.sum(now_ns) / (outcomes.weight(now_ns) + 1.0)
}

#[derive(Clone, Debug)]
pub(super) struct Health {
    failed: FadingMean,
    /// Refusals are kept apart, because in overload all refuse, and alike.
    refused: FadingMean,
    in_a_row: u32,
    /// Hedges in a row that were answered elsewhere while this node said nothing.
    unheard: u32,
    pub(super) deadline_ns: u64,
    sick: bool,
    retry_every_ns: u64,
    last_used_ns: u64,
    held_until_ns: u64,
    /// Since when the node owes an answer and has given none.
    silent_from_ns: Option<u64>,
    young: Option<Young>,
}

impl Health {
    pub(super) fn new(now_ns: u64) -> Self {
        Self {
            failed: FadingMean::new(OUTCOMES_NS),
            refused: FadingMean::new(OUTCOMES_NS),
            in_a_row: 0,
            unheard: 0,
            deadline_ns: DEADLINE_NS,
            sick: false,
            retry_every_ns: STALE_RETRY_NS,
            last_used_ns: now_ns,
            held_until_ns: 0,
            silent_from_ns: None,
            young: Some(Young::new(now_ns, 0)),
        }
    }

    pub(super) fn is_sick(&self) -> bool {
        self.sick
    }

    /// The share of requests that fail or are refused; what is not known counts as good. Of the
    /// refusals only what tells this node from its peers is its own: a difference within twice the
    /// standard error is taken for chance, or chance would choose among nodes that are all full.
    pub(super) fn failing(&self, now_ns: u64, peers_refusing: f64) -> f64 {
        let refusing = share(&self.refused, now_ns);
        let doubt = peers_refusing * (1.0 - peers_refusing) / (self.refused.weight(now_ns) + 1.0);
        let chance = 2.0 * doubt.max(0.0).sqrt();
        let refusing = match refusing > peers_refusing {
            true => (refusing - chance).max(peers_refusing),
            false => (refusing + chance).min(peers_refusing),
        };
        (share(&self.failed, now_ns) + refusing).min(1.0)
    }

    /// How long the node has owed an answer without giving any.
    pub(super) fn silence_ns(&self, now_ns: u64) -> u64 {
        self.silent_from_ns.map_or(0, |from| now_ns.saturating_sub(from))
    }

    pub(super) fn on_send(&mut self, now_ns: u64) {
        self.silent_from_ns.get_or_insert(now_ns);
        self.last_used_ns = now_ns;
    }

    /// An answer of use. `still_out` is how many requests are left unanswered, `slow` says that
    /// it came much later than its peers' answers do.
    pub(super) fn on_answer(&mut self, now_ns: u64, still_out: u32, slow: bool) {
        self.silent_from_ns = (still_out > 0).then_some(now_ns);
        (self.in_a_row, self.unheard) = (0, 0);
        self.failed.add(now_ns, 0.0);
        self.refused.add(now_ns, 0.0);
        if self.sick {
            self.sick = false;
            // What it did before it fell sick is no longer news; it earns its share again.
            self.failed = FadingMean::new(OUTCOMES_NS);
            self.young = Some(Young::new(now_ns, INFANT_ANSWERS));
            self.retry_every_ns = STALE_RETRY_NS;
        }
        self.retry_every_ns = match slow {
            true => self.retry_every_ns.max(STALE_RETRY_NS),
            false => STALE_RETRY_NS,
        };
        let grown = self.young.as_mut().is_some_and(|young| {
            young.answers += 1;
            young.is_grown(now_ns)
        });
        if grown {
            self.young = None;
        }
    }

    pub(super) fn on_failure(&mut self, now_ns: u64, sent_ns: u64, kind: FailureKind, out: u32) {
        let refused = kind == FailureKind::Refused;
        self.failed.add(now_ns, if refused { 0.0 } else { 1.0 });
        self.refused.add(now_ns, if refused { 1.0 } else { 0.0 });
        self.in_a_row += 1;
        let silent = self.silent_from_ns.is_some_and(|from| from <= sent_ns);
        if out == 0 {
            self.silent_from_ns = None;
        }
        let gone = match kind {
            // A refusal is an answer: the node lives, and its share falls by the failing rate.
            FailureKind::Refused => {
                self.silent_from_ns = (out > 0).then_some(now_ns);
                return;
            }
            FailureKind::Error => false,
            FailureKind::Timeout | FailureKind::Unreachable => silent,
        };
        let often = self.failed.weight(now_ns) >= 5.0 && share(&self.failed, now_ns) > 0.5;
        if gone || often || self.in_a_row >= SICK_IN_A_ROW {
            self.fall_sick();
        }
    }

    /// A hedge was answered first. One that this node had not reacted to counts by half.
    pub(super) fn on_cancel(&mut self, now_ns: u64, sent_ns: u64, out: u32) {
        let silent = self.silent_from_ns.is_some_and(|from| from <= sent_ns);
        if out == 0 {
            self.silent_from_ns = None;
        }
        if silent {
            self.failed.add(now_ns, 0.5);
            self.unheard += 1;
            if self.unheard >= SICK_IN_A_ROW {
                self.fall_sick();
            }
        }
    }

    /// A probe was answered, or not: a sick node that does not answer one is not worth a real
    /// request yet.
    pub(super) fn on_probe(&mut self, now_ns: u64, answered: bool) {
        self.held_until_ns = if answered { 0 } else { now_ns + SICK_RETRY_NS };
    }

    fn fall_sick(&mut self) {
        if !self.sick {
            self.sick = true;
            self.retry_every_ns = SICK_RETRY_NS;
        } else {
            self.retry_every_ns = (self.retry_every_ns * 2).min(SICK_RETRY_MAX_NS);
        }
    }

    /// Whether a real request may try it although it does not rank first: nothing of ours is out
    /// there, and the wait since the last one is over.
    pub(super) fn trial_due(&self, now_ns: u64, out: u32) -> bool {
        let rested_ns = now_ns.saturating_sub(self.last_used_ns);
        // Lost probes hold a trial back, though not for ever: probes may be what is broken.
        let held = now_ns < self.held_until_ns && rested_ns < 2 * SICK_RETRY_MAX_NS;
        let wanted = if self.sick { !held } else { !self.is_infant() };
        out == 0 && wanted && rested_ns >= self.retry_every_ns
    }

    /// A trial of a node that is well goes out; the next one waits twice as long, until an answer
    /// in good time resets the wait.
    pub(super) fn on_trial(&mut self) {
        if !self.sick {
            self.retry_every_ns = (self.retry_every_ns * 2).min(STALE_RETRY_MAX_NS);
        }
    }

    pub(super) fn is_young(&self) -> bool {
        self.young.is_some()
    }

    /// Whether it has answered too little to be ranked.
    pub(super) fn is_infant(&self) -> bool {
        self.young.is_some_and(|young| young.answers < INFANT_ANSWERS)
    }

    /// A choice among `count` candidates is made in which it takes part.
    pub(super) fn grant(&mut self, count: usize) {
        let share = if self.is_infant() { 1.0 } else { YOUNG_SHARE };
        if let Some(young) = self.young.as_mut() {
            let count = count.max(1) as f64;
            young.tokens = (young.tokens + share / count).min(YOUNG_TOKENS_MAX);
            if young.answers >= INFANT_ANSWERS {
                young.owed = (young.owed + WARMING_SHARE / count).min(WARMING_OWED_MAX);
            }
        }
    }

    /// The node reports this run time of a class, from so many runs of all classes.
    pub(super) fn on_run(&mut self, now_ns: u64, class: Class, run_ns: f64, runs: u32) {
        if let Some(young) = self.young.as_mut() {
            let best = &mut young.best[class.slot()];
            // One lucky run at the start would be hard to beat.
            if runs < WARMER_RUNS {
                young.best_ns = now_ns;
            } else if run_ns < *best * WARMER {
                *best = run_ns;
                young.best_ns = now_ns;
            }
        }
    }

    /// Whether it is to be chosen now so that it warms up; what it is owed is paid then.
    pub(super) fn take_owed(&mut self, now_ns: u64) -> bool {
        let Some(young) = self.young.as_mut() else { return false };
        let due = young.owed >= 1.0 && young.is_warming(now_ns);
        young.owed -= if due { 1.0 } else { 0.0 };
        due
    }

    /// Whether its share allows it to be chosen. An infant has no more out than it has answered,
    /// plus one.
    pub(super) fn may_be_chosen(&self, out: u32) -> bool {
        self.young.is_none_or(|young| {
            young.tokens >= 1.0 && (young.answers >= INFANT_ANSWERS || out <= young.answers)
        })
    }

    /// It was chosen on its share.
    pub(super) fn spend(&mut self) {
        if let Some(young) = self.young.as_mut() {
            young.tokens = (young.tokens - 1.0).max(0.0);
        }
    }
}
