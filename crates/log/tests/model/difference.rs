//! Levelling by difference, explored: two nodes work out ranges against whatever replica they look at,
//! from snapshots of different age; what they append comes to stand in any order, twice, or not at all,
//! beside carried records; replicas crash and go back to what they had flushed.

use bytes::Bytes;
use plimsoll_log::rules::carried::{LeaderPosition, Link};
use plimsoll_log::rules::difference::{Counters, Difference, End, Levelling, Standing};
use plimsoll_log::{Incarnation, Lsn};
use stateright::{Checker, HasDiscoveries, Model, Property};

const LOG: Incarnation = Incarnation(1);
const KEYS: [&str; 2] = ["a", "b"];
/// What the leader has at each position. A row goes back to what it was: that nothing was changed is
/// not seen by looking at it.
const CONTENTS: [[u8; KEYS.len()]; 3] = [[0, 0], [1, 1], [2, 0]];

const EQUAL: &str = "a replica that is not being levelled has what the leader has where it stands";
const AGREE: &str = "replicas at the same place of the follower's log agree";

/// A way in which a careless apply would differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    None,
    /// Goes by the position alone.
    IgnoreRounds,
    /// Goes by position and key, whatever the round.
    IgnoreRoundsButNotKeys,
    /// Takes a carried record while it is levelled.
    CarryMeanwhile,
    /// Flushes its rows without the round.
    ForgetRound,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    replicas: usize,
    /// Entries that are ever made, and that stand in the follower's log.
    made: usize,
    entries: usize,
    crashes: u8,
}

struct Exploration {
    limits: Limits,
    mutation: Mutation,
    sometimes: Vec<Property<Self>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Entry {
    /// A range, and the rows that differ in it.
    Difference(Difference, Vec<(usize, u8)>),
    /// The leader's record that follows this position.
    Carried(u64),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Rows {
    /// How much of the follower's log it has applied.
    applied: usize,
    held: LeaderPosition,
    levelling: Option<Levelling>,
    rows: [u8; KEYS.len()],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Replica {
    rows: Rows,
    flushed: Rows,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    made: Vec<Entry>,
    /// The follower's log: which of those each entry is.
    log: Vec<usize>,
    replicas: Vec<Replica>,
    crashes: u8,
    has_passed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// A node looks at a replica and works out so many keys of the leader's snapshot at a position.
    Level(usize, u64, usize),
    /// The record after the position of a replica comes by the leader's log.
    Carry(usize),
    Land(usize),
    Apply(usize),
    Flush(usize),
    Crash(usize),
}

fn link(lsn: u64) -> Link {
    Link { lsn: Lsn(lsn), hash: lsn, log_time_ms: lsn }
}

fn position(lsn: u64) -> LeaderPosition {
    LeaderPosition { incarnation: LOG, link: link(lsn) }
}

fn contents(at: Lsn) -> [u8; KEYS.len()] {
    CONTENTS[usize::try_from(at.0).unwrap()]
}

/// The difference of some keys, as a node works it out that sees a replica so.
fn work_out(rows: &Rows, to: u64, keys: usize) -> Option<Entry> {
    if Lsn(to) <= rows.held.link.lsn {
        return None;
    }
    let same = rows.levelling.as_ref().filter(|it| it.to == link(to));
    let place =
        |levelling: &Levelling| KEYS.iter().position(|key| key.as_bytes() == &*levelling.cursor);
    let from = same.map_or(Some(0), place)?;
    let until = from + keys;
    let end = match KEYS.get(until) {
        Some(key) => End::Before(Bytes::from_static(key.as_bytes())),
        None if until == KEYS.len() => End::Last(Counters { sequence: to, ..Counters::default() }),
        None => return None,
    };
    let theirs = contents(Lsn(to));
    let changes = (from..until).filter(|at| rows.rows[*at] != theirs[*at]);
    let changes = changes.map(|at| (at, theirs[at])).collect();
    let difference = Difference {
        incarnation: LOG,
        at: Standing::of(rows.held.link, rows.levelling.as_ref()),
        begins: same.is_none(),
        to: link(to),
        sequence: to,
        mapping_version: 0,
        end,
    };
    assert!(difference.is_ordered(&[]));
    Some(Entry::Difference(difference, changes))
}

impl World {
    fn new(replicas: usize) -> Self {
        let (held, rows) = (position(0), CONTENTS[0]);
        let rows = Rows { applied: 0, held, levelling: None, rows };
        let replica = Replica { flushed: rows.clone(), rows };
        let replicas = vec![replica; replicas];
        Self { made: Vec::new(), log: Vec::new(), replicas, crashes: 0, has_passed: false }
    }

    fn make(&mut self, entry: Entry) -> Option<()> {
        if self.made.contains(&entry) {
            return None;
        }
        self.made.push(entry);
        Some(())
    }

    fn apply(&mut self, at: usize, mutation: Mutation) -> Option<()> {
        let rows = &mut self.replicas[at].rows;
        let entry = &self.made[*self.log.get(rows.applied)?];
        self.has_passed |= !rows.take(entry, mutation);
        rows.applied += 1;
        Some(())
    }
}

impl Rows {
    fn take(&mut self, entry: &Entry, mutation: Mutation) -> bool {
        match entry {
            Entry::Carried(after) => {
                let is_free = self.levelling.is_none() || mutation == Mutation::CarryMeanwhile;
                if self.held != position(*after) || !is_free {
                    return false;
                }
                self.held = position(after + 1);
                self.rows = contents(Lsn(after + 1));
            }
            Entry::Difference(difference, changes) => {
                let own = Standing::of(self.held.link, self.levelling.as_ref());
                let theirs = &difference.at;
                let admits = match mutation {
                    Mutation::IgnoreRounds => own.link == theirs.link,
                    Mutation::IgnoreRoundsButNotKeys => {
                        own.link == theirs.link
                            && (difference.begins || own.cursor == theirs.cursor)
                    }
                    _ => difference.admits(&self.held, self.levelling.as_ref()),
                };
                if !admits {
                    return false;
                }
                changes.iter().for_each(|(at, value)| self.rows[*at] = *value);
                let is_new = difference.begins || self.levelling.is_none();
                let outcome = Difference { begins: is_new, ..difference.clone() };
                (self.held, self.levelling) = outcome.outcome(self.levelling.as_ref());
            }
        }
        true
    }
}

impl Model for Exploration {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.limits.replicas)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.made.len() < self.limits.made {
            for at in 0..self.limits.replicas {
                for to in 1..CONTENTS.len() as u64 {
                    actions.extend((1..=KEYS.len()).map(|keys| Action::Level(at, to, keys)));
                }
                actions.push(Action::Carry(at));
            }
        }
        if world.log.len() < self.limits.entries {
            actions.extend((0..world.made.len()).map(Action::Land));
        }
        for at in 0..self.limits.replicas {
            actions.push(Action::Apply(at));
            if world.replicas[at].flushed != world.replicas[at].rows {
                actions.push(Action::Flush(at));
                if world.crashes < self.limits.crashes {
                    actions.push(Action::Crash(at));
                }
            }
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut next = last.clone();
        match action {
            Action::Level(at, to, keys) => {
                next.make(work_out(&last.replicas[at].rows, to, keys)?)?;
            }
            Action::Carry(at) => {
                let after = last.replicas[at].rows.held.link.lsn.0;
                if after + 1 == CONTENTS.len() as u64 {
                    return None;
                }
                next.make(Entry::Carried(after))?;
            }
            Action::Land(made) => next.log.push(made),
            Action::Apply(at) => next.apply(at, self.mutation)?,
            Action::Flush(at) => next.replicas[at].flushed = next.replicas[at].rows.clone(),
            Action::Crash(at) => {
                let replica = &mut next.replicas[at];
                let levelling = replica.rows.levelling.clone();
                replica.rows = replica.flushed.clone();
                if self.mutation == Mutation::ForgetRound {
                    replica.rows.levelling = levelling;
                }
                next.crashes += 1;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(EQUAL, |_, world: &World| {
                let is_equal = |rows: &Rows| {
                    rows.levelling.is_some() || rows.rows == contents(rows.held.link.lsn)
                };
                world.replicas.iter().all(|replica| is_equal(&replica.rows))
            }),
            Property::always(AGREE, |_, world: &World| {
                let (one, all) = (&world.replicas[0].rows, &world.replicas);
                all.iter().all(|it| it.rows.applied != one.applied || it.rows == *one)
            }),
        ];
        properties.extend(self.sometimes.iter().cloned());
        properties
    }
}

fn is_level(world: &World) -> bool {
    world.replicas.iter().all(|replica| {
        replica.rows.levelling.is_none()
            && replica.rows.held.link.lsn.0 == CONTENTS.len() as u64 - 1
    })
}

fn is_in_second_round(world: &World) -> bool {
    let round = |replica: &Replica| replica.rows.levelling.as_ref().map_or(0, |it| it.round);
    world.replicas.iter().any(|replica| round(replica) > 1)
}

const TWO: Limits = Limits { replicas: 2, made: 3, entries: 3, crashes: 1 };
const ONE: Limits = Limits { replicas: 1, made: 4, entries: 4, crashes: 1 };

#[test]
fn differences_are_taken_once_and_where_they_were_worked_out() {
    for limits in [TWO, ONE] {
        let sometimes = vec![
            Property::sometimes("level", |_, world: &World| is_level(world)),
            Property::sometimes("a second round", |_, world: &World| is_in_second_round(world)),
            Property::sometimes("a no-op", |_, world: &World| world.has_passed),
        ];
        let exploration = Exploration { limits, mutation: Mutation::None, sometimes };
        let checker = exploration.checker().threads(1).spawn_dfs().join();
        checker.assert_properties();
        let (all, unique) = (checker.state_count(), checker.unique_state_count());
        println!("{limits:?}: {unique} states, {all} steps");
    }
}

#[test]
fn a_careless_levelling_is_found_out() {
    for mutation in [
        Mutation::IgnoreRounds,
        Mutation::IgnoreRoundsButNotKeys,
        Mutation::CarryMeanwhile,
        Mutation::ForgetRound,
    ] {
        let exploration = Exploration { limits: ONE, mutation, sometimes: Vec::new() };
        let finish = HasDiscoveries::AnyOf([EQUAL, AGREE].into());
        let checker = exploration.checker().threads(1).finish_when(finish).spawn_bfs().join();
        let found = [EQUAL, AGREE].into_iter().find_map(|it| Some((it, checker.discovery(it)?)));
        let (broken, path) = found.expect("it is found out");
        println!("{mutation:?} breaks \"{broken}\": {:?}", path.into_actions());
    }
}
