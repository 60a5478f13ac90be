//! Idempotent operations: every mutation carries (session, number), numbers increasing, gaps
//! allowed. Apply keeps each session's last results, so that a second copy of an operation is
//! answered and not run; a fence names an operation that must not run any more.

use std::collections::VecDeque;

use bytes::Bytes;

use super::is_too_old;

/// How many results a session keeps that its coordinator has not acknowledged.
pub const RESULTS_MAX: usize = 4096;
/// A result over this many bytes is not kept: a duplicate learns only that it ran.
pub const RESULT_BYTES_MAX: usize = 1024;
/// How many bytes of results a session keeps.
pub const RESULTS_BYTES_MAX: usize = 64 * 1024;

/// What became of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It ran, and this was its result.
    Ran(Bytes),
    /// It ran; its result was too large to keep.
    RanUnkept,
    /// A fence came first: it never runs.
    Fenced,
}

/// What a replica remembers of one client session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SessionState {
    /// The largest number seen, run or fenced.
    pub last: u64,
    /// Outcomes of numbers up to this one are no longer kept.
    pub floor: u64,
    /// Log time of the last operation, or its stamp where the coordinator's clock was ahead of
    /// log time, ms. Forgotten a window after it, when every copy of it is too old to run.
    pub seen_ms: u64,
    /// Outcomes of the numbers in (floor, last] that came, in order.
    outcomes: VecDeque<(u64, Outcome)>,
    /// Bytes of results in `outcomes`.
    kept_bytes: usize,
}

/// What apply does with an operation, or answers to a fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has not run: run it (or, of a fence: it never will).
    Fresh,
    /// It came before, with this outcome: do not run it.
    Known(Outcome),
    /// It came before or was passed over; which is no longer kept: do not run it.
    Forgotten,
    /// A later number came first: it never ran and never will.
    Superseded,
    /// It was stamped longer ago than sessions are remembered: do not run it.
    TooOld,
}

impl SessionState {
    /// A state as it was kept; `outcomes` in the order of their numbers.
    #[must_use]
    pub fn from_parts(
        last: u64,
        floor: u64,
        seen_ms: u64,
        outcomes: VecDeque<(u64, Outcome)>,
    ) -> Self {
        let kept_bytes = outcomes.iter().map(|(_, outcome)| kept_bytes(outcome)).sum();
        Self { last, floor, seen_ms, outcomes, kept_bytes }
    }

    /// Outcomes of the numbers in (floor, last] that came, in order.
    #[must_use]
    pub fn outcomes(&self) -> &VecDeque<(u64, Outcome)> {
        &self.outcomes
    }

    /// Whether nothing stamped late enough to run can belong to this session any more.
    #[must_use]
    pub fn is_forgotten(&self, log_time_ms: u64) -> bool {
        is_too_old(self.seen_ms, log_time_ms)
    }

    /// Decides on an operation. Where the answer is [`Verdict::Fresh`], the caller runs it and
    /// then calls [`Self::finish`].
    #[must_use]
    pub fn admit(&mut self, number: u64, stamp_ms: u64, log_time_ms: u64) -> Verdict {
        if is_too_old(stamp_ms, log_time_ms) {
            return Verdict::TooOld;
        }
        self.forget_if_due(log_time_ms);
        self.known(number)
    }

    /// Settles an operation, `stamp_ms` being the operation's own: [`Verdict::Fresh`] says that
    /// it did not run and never will, [`Verdict::TooOld`] only that it will not run any more.
    #[must_use]
    pub fn fence(&mut self, number: u64, stamp_ms: u64, log_time_ms: u64) -> Verdict {
        let verdict = self.admit(number, stamp_ms, log_time_ms);
        if verdict == Verdict::Fresh {
            self.push(number, Outcome::Fenced, stamp_ms, log_time_ms);
        }
        verdict
    }

    /// Keeps the result of an operation that was fresh and ran.
    pub fn finish(&mut self, number: u64, result: Bytes, stamp_ms: u64, log_time_ms: u64) {
        let outcome =
            if result.len() > RESULT_BYTES_MAX { Outcome::RanUnkept } else { Outcome::Ran(result) };
        self.push(number, outcome, stamp_ms, log_time_ms);
    }

    /// Forgets the outcomes up to `acked`: the coordinator has them.
    pub fn acknowledge(&mut self, acked: u64, log_time_ms: u64) {
        self.forget_if_due(log_time_ms);
        let acked = acked.min(self.last);
        self.floor = self.floor.max(acked);
        while self.outcomes.front().is_some_and(|(number, _)| *number <= self.floor) {
            self.drop_oldest();
        }
    }

    /// A state that is due to be forgotten answers as one that was: when a replica gets round to
    /// deleting it must not matter.
    fn forget_if_due(&mut self, log_time_ms: u64) {
        if self.is_forgotten(log_time_ms) {
            *self = Self::default();
        }
    }

    fn known(&self, number: u64) -> Verdict {
        if number > self.last {
            return Verdict::Fresh;
        }
        if number <= self.floor {
            return Verdict::Forgotten;
        }
        match self.outcomes.binary_search_by_key(&number, |(at, _)| *at) {
            Ok(at) => Verdict::Known(self.outcomes[at].1.clone()),
            Err(_) => Verdict::Superseded,
        }
    }

    fn push(&mut self, number: u64, outcome: Outcome, stamp_ms: u64, log_time_ms: u64) {
        assert!(number > self.last, "an operation is kept once");
        self.kept_bytes += kept_bytes(&outcome);
        self.outcomes.push_back((number, outcome));
        self.last = number;
        self.seen_ms = self.seen_ms.max(log_time_ms).max(stamp_ms);
        while self.outcomes.len() > RESULTS_MAX || self.kept_bytes > RESULTS_BYTES_MAX {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((number, outcome)) = self.outcomes.pop_front() {
            self.floor = self.floor.max(number);
            self.kept_bytes -= kept_bytes(&outcome);
        }
    }
}

fn kept_bytes(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Ran(result) => result.len(),
        Outcome::RanUnkept | Outcome::Fenced => 0,
    }
}
