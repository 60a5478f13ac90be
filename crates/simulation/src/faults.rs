//! What goes wrong in a run, and when: drawn from the seed before it begins. A swarm: each seed leaves some kinds
//! out, so that none hides another (Groce and others, "Swarm Testing", ISSTA 2012).

use std::collections::BTreeSet;
use std::time::Duration;

use plimsoll_base::Random;
use plimsoll_base::random::Stream;

use crate::following::link::LinkTroubles;
use crate::log::Troubles;

/// Which cluster something befalls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// The first, which the other follows where there is another.
    #[default]
    Leader,
    /// The other.
    Follower,
}

/// Something that befalls a cluster, for a while. Machines are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A node is killed; with a loss of power what it did not sync is gone, or torn.
    Kill {
        /// Whose.
        machine: usize,
        /// Whether the power goes with it.
        with_power: bool,
        /// Whether a bit of its files turns until it is started again.
        rots: bool,
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
    /// A disk has room for nothing more.
    Full {
        /// Whose.
        machine: usize,
    },
    /// A disk fails where something is to be made durable. Its node is started anew on it once it is well.
    Failing {
        /// Whose.
        machine: usize,
        /// One time in so many.
        one_in: u64,
    },
    /// The same of all that rows are made durable in, each time, while the metadata is.
    RowsFailing {
        /// Whose.
        machine: usize,
    },
    /// Nothing comes through from one cluster to the other.
    NoLink,
    /// Somebody has the leader forget who follows it.
    Forgotten,
}

impl Fault {
    /// Whether it is of what is between two clusters.
    #[must_use]
    pub fn is_of_link(&self) -> bool {
        matches!(self, Self::NoLink | Self::Forgotten)
    }

    /// The same without a bit that turns.
    pub fn spare_files(&mut self) {
        if let Self::Kill { rots, .. } = self {
            *rots = false;
        }
    }
}

/// A fault, from when and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Since the run began.
    pub at: Duration,
    /// How long it lasts.
    pub lasts: Duration,
    /// Whom it befalls.
    pub side: Side,
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
    /// What that of the other cluster does.
    pub follower_troubles: Troubles,
    /// What the way between the clusters does.
    pub link: LinkTroubles,
}

/// How many kinds of faults there are.
const KINDS: u64 = 8;
/// The most that happens in a run.
const COUNT_MAX: u64 = 12;
/// The most absences of minutes in a run.
const ABSENCES_MAX: u64 = 3;
/// A disk that fails does so one time in so many at the least.
const FAILS_ONE_IN_MAX: u64 = 4;
/// So long after a clock is right again, all nodes know it.
const CLOCK_SETTLES: Duration = Duration::from_secs(5);
/// How often the way between two clusters is cut at the most.
const LINK_CUTS_MAX: u64 = 4;

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
        Self { due, troubles, ..Self::default() }
    }

    /// The same, and what goes wrong in a second cluster and on the way to it; where the run `is_long` nodes of it
    /// are away for minutes too.
    #[must_use]
    pub fn with_follower(
        mut self,
        random: &Random,
        machines: usize,
        (duration, is_long): (Duration, bool),
    ) -> Self {
        let part = random.part("follower");
        let mut others = Self::drawn(&part, machines, duration);
        if is_long {
            others = others.with_absences(&part, machines);
        }
        let others_due = others.due.into_iter();
        self.due.extend(others_due.map(|due| Due { side: Side::Follower, ..due }));
        self.due.extend(link_cuts(&mut random.of("link cuts"), duration));
        self.due.sort_by_key(|it| it.at);
        self.follower_troubles = others.troubles;
        self.link = LinkTroubles::drawn(&mut random.of("link troubles"));
        self
    }

    /// Whether a clock is wrong while nobody can say which: no other is there that is right, or more are wrong than
    /// right. One that is wrong stepped, and is in doubt beside one that did not; in the beginning all are in doubt.
    #[must_use]
    pub fn leave_clocks_undecided(&self, machines: usize) -> bool {
        let is_beside = |due: &Due, other: &Due| {
            other.at < due.at + due.lasts + CLOCK_SETTLES
                && due.at < other.at + other.lasts + CLOCK_SETTLES
        };
        self.due.iter().any(|due| {
            let Fault::Clock { machine: first, .. } = due.fault else { return false };
            let beside = || self.due.iter().filter(|other| is_beside(due, other));
            let of = |machine: fn(&Fault) -> Option<usize>| -> BTreeSet<usize> {
                beside().filter_map(|other| machine(&other.fault)).collect()
            };
            let wrong = of(|fault| match fault {
                Fault::Clock { machine, .. } => Some(*machine),
                _ => None,
            });
            let missing = of(|fault| match fault {
                // Whoever has just begun is in doubt, after a disk that failed too.
                Fault::Kill { machine, .. }
                | Fault::Freeze { machine }
                | Fault::Failing { machine, .. }
                | Fault::RowsFailing { machine } => Some(*machine),
                _ => None,
            });
            debug_assert!(wrong.contains(&first));
            let right = machines - wrong.union(&missing).count();
            let all_doubt = due.at < CLOCK_SETTLES;
            right < wrong.len() || right == 0 || (all_doubt && right == wrong.len())
        })
    }

    /// The same, and an outage of all nodes.
    #[must_use]
    pub fn with_outage(mut self, random: &Random, machines: usize, duration: Duration) -> Self {
        self.due.extend(outage(&mut random.of("outage"), machines, duration));
        self.due.sort_by_key(|it| it.at);
        self
    }

    /// The same, and nodes that are away for longer than the log is kept for them.
    #[must_use]
    pub fn with_absences(mut self, random: &Random, machines: usize) -> Self {
        self.due.extend(absences(&mut random.of("absences"), machines));
        self.due.sort_by_key(|it| it.at);
        self
    }
}

/// The disks of all nodes fail now and then, as one that they share, and then the power of all goes.
fn outage(chance: &mut Stream, machines: usize, duration: Duration) -> impl Iterator<Item = Due> {
    let end_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(2);
    let (at, fails) = (ms(chance, 1, end_ms), ms(chance, 1_000, 20_000));
    // Where everything always fails nobody says anything.
    let one_in = (chance.once_in(2)).then(|| 2 + chance.below(FAILS_ONE_IN_MAX - 1));
    let is_dark = ms(chance, 10, 10_000);
    let side = Side::Leader;
    (0..machines).flat_map(move |machine| {
        let failing = match one_in {
            Some(one_in) => Fault::Failing { machine, one_in },
            None => Fault::RowsFailing { machine },
        };
        let kill = Fault::Kill { machine, with_power: true, rots: false };
        [
            Due { at, lasts: fails + is_dark / 2, side, fault: failing },
            Due { at: at + fails, lasts: is_dark, side, fault: kill },
        ]
    })
}

fn one(chance: &mut Stream, kind: u64, machines: usize, duration: Duration) -> Due {
    let end_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(2);
    let at = ms(chance, 1, end_ms);
    let machine = index(chance, machines);
    let (fault, lasts) = match kind {
        0 => {
            let with_power = chance.once_in(2);
            (Fault::Kill { machine, with_power, rots: false }, ms(chance, 10, 15_000))
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
        5 => (Fault::Blind { machine }, ms(chance, 100, 4_000)),
        6 => (Fault::Full { machine }, ms(chance, 100, 20_000)),
        _ => {
            let one_in = 1 + chance.below(FAILS_ONE_IN_MAX);
            (Fault::Failing { machine, one_in }, ms(chance, 100, 10_000))
        }
    };
    Due { at, lasts, side: Side::Leader, fault }
}

/// The way between two clusters is cut, for seconds or for longer than the leader's log is kept.
fn link_cuts(chance: &mut Stream, duration: Duration) -> Vec<Due> {
    let end_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(2);
    let count = chance.below(LINK_CUTS_MAX + 1);
    let is_forgotten = chance.once_in(3);
    let mut due: Vec<Due> = (0..count)
        .map(|_| {
            let lasts = match chance.once_in(2) {
                true => ms(chance, 100, 12_000),
                false => ms(chance, 15_000, 120_000),
            };
            let at = ms(chance, 1, end_ms);
            Due { at, lasts, side: Side::Leader, fault: Fault::NoLink }
        })
        .collect();
    if is_forgotten {
        let at = ms(chance, end_ms / 3, end_ms);
        due.push(Due { at, lasts: Duration::ZERO, side: Side::Leader, fault: Fault::Forgotten });
    }
    due
}

/// Nodes are away for minutes, often at the same time.
fn absences(chance: &mut Stream, machines: usize) -> Vec<Due> {
    let count = 1 + chance.below(ABSENCES_MAX);
    // Of one at the most: what two nodes hold is lost where it rots on both.
    let rots = if chance.once_in(2) { Some(chance.below(count)) } else { None };
    let mut at = ms(chance, 5_000, 60_000);
    let mut due = Vec::new();
    for number in 0..count {
        let (with_power, rots) = (chance.once_in(2), rots == Some(number));
        let machine = index(chance, machines);
        // What is damaged is seen once the node is back, most likely while others are away.
        let lasts = if rots { ms(chance, 1_000, 15_000) } else { ms(chance, 70_000, 180_000) };
        let fault = match chance.below(3) {
            0 if !rots => Fault::Freeze { machine },
            _ => Fault::Kill { machine, with_power, rots },
        };
        due.push(Due { at, lasts, side: Side::Leader, fault });
        at += if chance.once_in(2) { ms(chance, 0, 20_000) } else { ms(chance, 0, 120_000) };
    }
    // Whoever holds what rotted as well is away when that is seen, and for longer than it is waited for. That is late
    // in the run: while the log begins with a partition, its copies are made of the log alone.
    let rotten = due.iter_mut().find_map(|due| match due.fault {
        Fault::Kill { rots: true, machine, .. } => Some((due, machine)),
        _ => None,
    });
    if let Some((rotten, machine)) = rotten
        && chance.once_in(2)
    {
        rotten.at += ms(chance, 60_000, 90_000);
        let away = (machine + 1 + index(chance, machines - 1)) % machines;
        let fault = Fault::Kill { machine: away, with_power: chance.once_in(2), rots: false };
        let before_it_is_seen = u64::try_from(rotten.lasts.as_millis()).unwrap_or(u64::MAX);
        let at = rotten.at + ms(chance, 0, before_it_is_seen);
        due.push(Due { at, lasts: ms(chance, 100_000, 180_000), side: Side::Leader, fault });
    }
    due
}

fn ms(chance: &mut Stream, least: u64, most: u64) -> Duration {
    Duration::from_millis(least + chance.below(most - least))
}

fn index(chance: &mut Stream, end: usize) -> usize {
    usize::try_from(chance.below(end as u64)).unwrap_or_default()
}
