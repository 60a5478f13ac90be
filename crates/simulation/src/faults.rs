//! What goes wrong in a run, and when: drawn from the seed before it begins. A swarm: each seed leaves some kinds
//! out, so that none hides another (Groce and others, "Swarm Testing", ISSTA 2012).

use std::time::Duration;

use plimsoll_base::Random;
use plimsoll_base::random::Stream;

use crate::log::Troubles;

/// Something that befalls a cluster, for a while. Machines are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A node is killed; with a loss of power what it did not sync is gone, or torn.
    Kill {
        /// Whose.
        machine: usize,
        /// Whether the power goes with it.
        with_power: bool,
    },
    /// A node stands still.
    Freeze {
        /// Whose.
        machine: usize,
    },
    /// Nothing comes through from one node to another.
    Cut {
        /// From whom.
        from: usize,
        /// To whom.
        to: usize,
    },
    /// A wall clock is set by so much, ms.
    Clock {
        /// Whose.
        machine: usize,
        /// Forward, or back.
        by_ms: i64,
    },
    /// The log's groups have no leader.
    NoLeader,
    /// A node sees nothing of what comes to stand in the log.
    Blind {
        /// Whose.
        machine: usize,
    },
}

/// A fault, from when and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Since the run began.
    pub at: Duration,
    /// How long it lasts.
    pub lasts: Duration,
    /// What it is.
    pub fault: Fault,
}

/// All that goes wrong in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// In the order of their times.
    pub due: Vec<Due>,
    /// What the log does all the time.
    pub troubles: Troubles,
}

/// How many kinds of faults there are.
const KINDS: u64 = 6;
/// The most that happens in a run.
const COUNT_MAX: u64 = 12;

impl Faults {
    /// Those of a seed, over a run of `duration` with so many machines.
    #[must_use]
    pub fn drawn(random: &Random, machines: usize, duration: Duration) -> Self {
        let mut chance = random.of("faults");
        let kinds: Vec<u64> = (0..KINDS).filter(|_| chance.once_in(2)).collect();
        let rate = |chance: &mut Stream| if chance.once_in(2) { 20 + chance.below(400) } else { 0 };
        let troubles = Troubles {
            unanswered: rate(&mut chance),
            lost: rate(&mut chance),
            late: rate(&mut chance),
            twice: rate(&mut chance),
        };
        let count = if kinds.is_empty() { 0 } else { chance.below(COUNT_MAX + 1) };
        let mut due: Vec<Due> = (0..count)
            .map(|_| {
                let kind = kinds[index(&mut chance, kinds.len())];
                one(&mut chance, kind, machines, duration)
            })
            .collect();
        due.sort_by_key(|it| it.at);
        Self { due, troubles }
    }
}

fn one(chance: &mut Stream, kind: u64, machines: usize, duration: Duration) -> Due {
    let ms = |chance: &mut Stream, least: u64, most: u64| {
        Duration::from_millis(least + chance.below(most - least))
    };
    let end_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(2);
    let at = ms(chance, 1, end_ms);
    let machine = index(chance, machines);
    let (fault, lasts) = match kind {
        0 => {
            let with_power = chance.once_in(2);
            (Fault::Kill { machine, with_power }, ms(chance, 10, 15_000))
        }
        1 => (Fault::Freeze { machine }, ms(chance, 10, 20_000)),
        2 => {
            let to = (machine + 1 + index(chance, machines - 1)) % machines;
            (Fault::Cut { from: machine, to }, ms(chance, 10, 15_000))
        }
        3 => {
            let by_ms = chance.below(20_000).cast_signed() - 10_000;
            (Fault::Clock { machine, by_ms }, ms(chance, 100, 15_000))
        }
        4 => (Fault::NoLeader, ms(chance, 1_000, 9_000)),
        _ => (Fault::Blind { machine }, ms(chance, 100, 4_000)),
    };
    Due { at, lasts, fault }
}

fn index(chance: &mut Stream, end: usize) -> usize {
    usize::try_from(chance.below(end as u64)).unwrap_or_default()
}
