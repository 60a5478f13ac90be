//! Whether what clients saw of one key can have happened: an order of the operations, each between its call and
//! its answer, in which every answer is what a key says that is alone. The search of Wing and Gong ("Testing
//! and Verifying Concurrent Objects", JPDC 1993) with the memory of Lowe ("Testing for linearizability",
//! Concurrency and Computation 2017). Pure.

use std::collections::HashSet;

/// What is done with a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Sets a value.
    Set(u64),
    /// Sets it, and says whether there was none before.
    Add(u64),
    /// Reads it.
    Get,
    /// Adds one to it; what is not there counts as 0.
    Increment,
    /// Takes it away.
    Delete,
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// It is done.
    Done,
    /// It is done; whether nothing was there before.
    Made(bool),
    /// A value, or that there is none.
    Value(Option<u64>),
    /// So many were taken away.
    Count(u64),
}

/// One operation on a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What was asked for.
    pub action: Action,
    /// When, ns.
    pub called: u64,
    /// When and what was answered; nothing where it may have run at any time since, or never.
    pub answered: Option<(u64, Answer)>,
}

/// What the search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is such an order.
    Linearizable,
    /// There is none.
    Violated,
    /// It was not found out: the search gave up.
    Undecided,
}

/// After so many states the search gives up.
const STATES_MAX: usize = 1_000_000;

impl Action {
    /// What it makes of a value, and what it answers.
    fn apply(&self, value: Option<u64>) -> (Option<u64>, Answer) {
        match self {
            Self::Set(to) => (Some(*to), Answer::Done),
            Self::Add(to) => (Some(*to), Answer::Made(value.is_none())),
            Self::Get => (value, Answer::Value(value)),
            Self::Increment => {
                let next = value.unwrap_or(0).wrapping_add(1);
                (Some(next), Answer::Value(Some(next)))
            }
            Self::Delete => (None, Answer::Count(u64::from(value.is_some()))),
        }
    }
}

/// Judges the operations on one key, which is not there at first.
#[must_use]
pub fn judge(operations: &[Operation]) -> Verdict {
    let mut order: Vec<&Operation> = operations.iter().collect();
    order.sort_by_key(|it| it.called);
    let is_twin = |a: &Operation, b: &Operation| {
        a.answered.is_none() && b.answered.is_none() && a.action == b.action
    };
    let twin_of = |at: usize| order[..at].iter().rposition(|it| is_twin(it, order[at]));
    let twins = (0..order.len()).map(twin_of).collect();
    let mut search = Search { operations: order, twins, seen: HashSet::new() };
    let open = search.operations.iter().filter(|it| it.answered.is_some()).count();
    let mut taken = vec![0; search.operations.len().div_ceil(64)];
    match search.find(&mut taken, None, open) {
        Some(true) => Verdict::Linearizable,
        Some(false) => Verdict::Violated,
        None => Verdict::Undecided,
    }
}

struct Search<'a> {
    /// In the order of their calls.
    operations: Vec<&'a Operation>,
    /// The one called last before each that asks for the same, both without an answer. An order that has the later one
    /// before or without the other is an order still where they change places: only the others are tried.
    twins: Vec<Option<usize>>,
    /// What was tried: the operations taken, and the value then.
    seen: HashSet<(Vec<u64>, Option<u64>)>,
}

impl Search<'_> {
    /// Whether the rest can be ordered, `open` of it with answers; none where that is too much.
    fn find(&mut self, taken: &mut Vec<u64>, value: Option<u64>, open: usize) -> Option<bool> {
        if open == 0 {
            return Some(true);
        }
        if !self.seen.insert((taken.clone(), value)) {
            return Some(false);
        }
        if self.seen.len() > STATES_MAX {
            return None;
        }
        let is_taken = |taken: &[u64], at: usize| taken[at / 64] & (1 << (at % 64)) != 0;
        // Whoever was called after another was answered comes after it.
        let ends = self.operations.iter().enumerate().filter(|(at, _)| !is_taken(taken, *at));
        let end = ends.filter_map(|(_, it)| it.answered.map(|(at, _)| at)).min();
        for at in 0..self.operations.len() {
            let operation = self.operations[at];
            if end.is_some_and(|end| operation.called > end) {
                break;
            }
            if is_taken(taken, at) || self.twins[at].is_some_and(|twin| !is_taken(taken, twin)) {
                continue;
            }
            let (next, answer) = operation.action.apply(value);
            if operation.answered.is_some_and(|(_, told)| told != answer) {
                continue;
            }
            // One without an answer that changes nothing need not have run.
            if operation.answered.is_none() && next == value {
                continue;
            }
            taken[at / 64] |= 1 << (at % 64);
            let left = open - usize::from(operation.answered.is_some());
            let found = self.find(taken, next, left);
            taken[at / 64] &= !(1 << (at % 64));
            if found != Some(false) {
                return found;
            }
        }
        Some(false)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn operation(action: Action, called: u64, answered: Option<(u64, Answer)>) -> Operation {
        Operation { action, called, answered }
    }

    fn set(value: u64, called: u64, answered: u64) -> Operation {
        operation(Action::Set(value), called, Some((answered, Answer::Done)))
    }

    fn get(value: Option<u64>, called: u64, answered: u64) -> Operation {
        operation(Action::Get, called, Some((answered, Answer::Value(value))))
    }

    #[test]
    fn what_was_answered_before_is_seen_after() {
        assert_eq!(judge(&[set(1, 0, 1), get(Some(1), 2, 3)]), Verdict::Linearizable);
        assert_eq!(judge(&[set(1, 0, 1), get(None, 2, 3)]), Verdict::Violated);
        assert_eq!(judge(&[set(1, 0, 3), get(None, 1, 2)]), Verdict::Linearizable);
        let back = [set(1, 0, 9), get(Some(1), 1, 2), get(None, 3, 4)];
        assert_eq!(judge(&back), Verdict::Violated);
    }

    #[test]
    fn what_has_no_answer_may_have_run_at_any_time_or_never() {
        let lost = operation(Action::Set(1), 0, None);
        for seen in [None, Some(1)] {
            assert_eq!(judge(&[lost.clone(), get(seen, 5, 6)]), Verdict::Linearizable);
        }
        let twice = [lost.clone(), get(Some(1), 5, 6), set(2, 7, 8), get(Some(1), 9, 10)];
        assert_eq!(judge(&twice), Verdict::Violated);
        let late = [lost, get(None, 1, 2), set(2, 3, 4), get(Some(1), 9, 10)];
        assert_eq!(judge(&late), Verdict::Linearizable);
    }

    #[test]
    fn many_without_an_answer_that_ask_for_the_same_are_decided() {
        let lost = (0..40).map(|at| match at % 2 {
            0 => operation(Action::Increment, at, None),
            _ => operation(Action::Delete, at, None),
        });
        let seen = |value| lost.clone().chain([get(value, 50, 51)]).collect::<Vec<_>>();
        assert_eq!(judge(&seen(Some(20))), Verdict::Linearizable);
        assert_eq!(judge(&seen(Some(21))), Verdict::Violated);
        let early = lost.clone().chain([get(Some(6), 10, 11), get(Some(21), 50, 51)]);
        assert_eq!(judge(&early.collect::<Vec<_>>()), Verdict::Violated);
    }

    #[test]
    fn nothing_runs_twice() {
        let increment =
            |to, at| operation(Action::Increment, at, Some((at + 1, Answer::Value(Some(to)))));
        assert_eq!(judge(&[increment(1, 0), increment(2, 2)]), Verdict::Linearizable);
        assert_eq!(judge(&[increment(1, 0), increment(3, 2)]), Verdict::Violated);
        let delete =
            |count, at| operation(Action::Delete, at, Some((at + 1, Answer::Count(count))));
        assert_eq!(judge(&[set(7, 0, 1), delete(1, 2), delete(1, 4)]), Verdict::Violated);
    }

    proptest! {
        /// What one after the other did, told with answers that come late, is an order.
        #[test]
        fn what_happened_is_found(
            steps in prop::collection::vec((0u8..4, 0u64..5, 0u64..30, prop::bool::weighted(0.9)), 1..40)
        ) {
            let (mut value, mut operations) = (None, Vec::new());
            for (at, (kind, number, spread, is_told)) in (0u64..).zip(steps) {
                let action = match kind {
                    0 => Action::Set(number),
                    1 => Action::Get,
                    2 => Action::Increment,
                    _ => Action::Delete,
                };
                let (next, answer) = action.apply(value);
                value = next;
                let moment = at * 10;
                let answered = is_told.then_some((moment + 1 + spread, answer));
                operations.push(operation(action, moment.saturating_sub(spread), answered));
            }
            prop_assert_eq!(judge(&operations), Verdict::Linearizable);
        }
    }
}
