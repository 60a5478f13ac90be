//! Carried records, explored: two nodes of a follower carry batches of a leader's log into the
//! follower's own, where they come to stand in any order, twice, or not at all; its replicas apply
//! them record by record, crash and go back to what they had flushed; the leader's log may fork.

use plimsoll_log::rules::carried::{Batch, CarriedFault, LeaderPosition, Link, Verdict};
use plimsoll_log::{Incarnation, Lsn};
use stateright::{Checker, HasDiscoveries, Model, Property};

const LOG: Incarnation = Incarnation(1);
/// Which positions of the leader's log belong to the partition that is followed.
const OURS: [bool; 3] = [true, false, true];
const REPLICAS: usize = 2;

const PREFIX: &str = "a replica has every record of one log up to where it stands, once";
const AGREE: &str = "replicas at the same place of the follower's log agree";
const UNDISTURBED: &str = "nothing is refused while the leader's log is whole";

/// A way in which a careless apply would differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    None,
    /// Takes a batch although something before it is missing.
    TakeGaps,
    /// Takes all of a batch of which a part was taken before.
    TakeAgain,
    /// Does not compare hashes.
    IgnoreHashes,
    /// Flushes its rows without the leader's position.
    ForgetPosition,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Batches that are ever made, and entries of the follower's log.
    batches: usize,
    entries: usize,
    crashes: u8,
    forks: bool,
}

struct Exploration {
    limits: Limits,
    mutation: Mutation,
    sometimes: Vec<Property<Self>>,
}

/// What a replica has, as one atomic state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Rows {
    /// How much of the follower's log it has applied.
    applied: usize,
    held: LeaderPosition,
    /// The records that it took, by the hash of their links.
    taken: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Replica {
    rows: Rows,
    flushed: Rows,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    /// Whether the leader's log is the forked one.
    is_forked: bool,
    batches: Vec<Batch>,
    /// The follower's log: which batch each entry is.
    log: Vec<usize>,
    replicas: [Replica; REPLICAS],
    crashes: u8,
    has_gap: bool,
    has_fork: bool,
    /// A replica took nothing of a batch because it was of another log.
    has_refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// A node asks from where a replica stands, or the batch before will bring it; the leader answers
    /// with so many positions.
    Carry(Link, usize),
    /// A batch comes to stand in the follower's log.
    Land(usize),
    Apply(usize),
    Flush(usize),
    Crash(usize),
    Fork,
}

/// Positions of a log of the leader and the chain's hashes, from 0. The forked one has other records.
fn links(is_forked: bool) -> Vec<Link> {
    let mut links = vec![Link { lsn: Lsn(0), hash: 1, log_time_ms: 0 }];
    for at in 0..OURS.len() {
        let before = links[at].hash;
        let content = if is_forked { 50 } else { 10 };
        let hash = before * 31 + content + at as u64;
        links.push(Link { lsn: Lsn(at as u64 + 1), hash, log_time_ms: 0 });
    }
    links
}

/// The records of the partition in (after, to].
fn ours(links: &[Link], after: usize, to: usize) -> Vec<Link> {
    (after..to).filter(|at| OURS[*at]).map(|at| links[at + 1]).collect()
}

impl World {
    fn new() -> Self {
        let held = LeaderPosition { incarnation: LOG, link: links(false)[0] };
        let rows = Rows { applied: 0, held, taken: Vec::new() };
        let replica = Replica { flushed: rows.clone(), rows };
        let replicas = [replica.clone(), replica];
        let (batches, log) = (Vec::new(), Vec::new());
        Self {
            is_forked: false,
            batches,
            log,
            replicas,
            crashes: 0,
            has_gap: false,
            has_fork: false,
            has_refused: false,
        }
    }

    /// The leader runs its chain from where the follower stands; it says nothing to one that its log
    /// does not contain.
    fn carry(&mut self, after: Link, positions: usize) -> Option<()> {
        let links = links(self.is_forked);
        let from = usize::try_from(after.lsn.0).ok()?;
        if links[from] != after {
            self.has_fork = true;
            return Some(());
        }
        let to = from + positions;
        let end = *links.get(to)?;
        let batch = Batch { incarnation: LOG, after, records: ours(&links, from, to), to: end };
        assert!(batch.is_ordered());
        if self.batches.contains(&batch) {
            return None;
        }
        self.batches.push(batch);
        Some(())
    }

    /// Applies one record of the next entry, or passes it over.
    fn apply(&mut self, at: usize, mutation: Mutation) -> Option<()> {
        let replica = &mut self.replicas[at];
        let batch = &self.batches[*self.log.get(replica.rows.applied)?];
        let held = replica.rows.held;
        let mut verdict = batch.admit(&held);
        if mutation == Mutation::IgnoreHashes && matches!(verdict, Err(CarriedFault::Forked { .. }))
        {
            let shared = batch.records.iter().filter(|link| link.lsn <= held.link.lsn);
            verdict = match held.link.lsn >= batch.to.lsn {
                true => Ok(Verdict::Duplicate),
                false => Ok(Verdict::Take { from: shared.count() }),
            };
        }
        let rows = &mut replica.rows;
        match verdict {
            Ok(Verdict::Take { from }) => {
                let from = if mutation == Mutation::TakeAgain { 0 } else { from };
                rows.take(batch, from, mutation == Mutation::TakeAgain);
            }
            Ok(Verdict::Gap) if mutation == Mutation::TakeGaps => rows.take(batch, 0, false),
            Ok(verdict) => {
                self.has_gap |= verdict == Verdict::Gap;
                rows.applied += 1;
            }
            Err(_) => {
                rows.applied += 1;
                self.has_refused = true;
                self.has_fork = true;
            }
        }
        Some(())
    }

    fn crash(&mut self, at: usize, mutation: Mutation) {
        let replica = &mut self.replicas[at];
        let held = replica.rows.held;
        replica.rows = replica.flushed.clone();
        if mutation == Mutation::ForgetPosition {
            replica.rows.held = held;
        }
        self.crashes += 1;
    }
}

impl Rows {
    fn take(&mut self, batch: &Batch, from: usize, is_whole: bool) {
        let until =
            if is_whole { batch.records.len() } else { (from + 1).min(batch.records.len()) };
        self.taken.extend(batch.records[from..until].iter().map(|link| link.hash));
        self.held = batch.position(until);
        if until == batch.records.len() {
            self.applied += 1;
        }
    }
}

impl Model for Exploration {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.batches.len() < self.limits.batches {
            let mut from: Vec<Link> = world.replicas.iter().map(|it| it.rows.held.link).collect();
            from.extend(world.batches.iter().map(|batch| batch.to));
            from.sort_unstable_by_key(|link| (link.lsn, link.hash));
            from.dedup();
            let positions = 1..=OURS.len();
            actions.extend(from.into_iter().flat_map(|after| {
                positions.clone().map(move |positions| Action::Carry(after, positions))
            }));
        }
        if world.log.len() < self.limits.entries {
            actions.extend((0..world.batches.len()).map(Action::Land));
        }
        for at in 0..REPLICAS {
            actions.push(Action::Apply(at));
            if world.replicas[at].flushed != world.replicas[at].rows {
                actions.push(Action::Flush(at));
                if world.crashes < self.limits.crashes {
                    actions.push(Action::Crash(at));
                }
            }
        }
        if self.limits.forks && !world.is_forked {
            actions.push(Action::Fork);
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut next = last.clone();
        match action {
            Action::Carry(after, positions) => next.carry(after, positions)?,
            Action::Land(batch) => next.log.push(batch),
            Action::Apply(at) => next.apply(at, self.mutation)?,
            Action::Flush(at) => next.replicas[at].flushed = next.replicas[at].rows.clone(),
            Action::Crash(at) => next.crash(at, self.mutation),
            Action::Fork => next.is_forked = true,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(PREFIX, |_, world: &World| {
                world.replicas.iter().all(|replica| is_prefix(&replica.rows))
            }),
            Property::always(AGREE, |_, world: &World| agree(world)),
            Property::always(UNDISTURBED, |_, world: &World| world.is_forked || !world.has_refused),
        ];
        properties.extend(self.sometimes.iter().cloned());
        properties
    }
}

fn is_prefix(rows: &Rows) -> bool {
    [false, true].into_iter().any(|is_forked| {
        let links = links(is_forked);
        let at = usize::try_from(rows.held.link.lsn.0).unwrap();
        let records = ours(&links, 0, at);
        links[at] == rows.held.link
            && records.iter().map(|link| link.hash).eq(rows.taken.iter().copied())
    })
}

/// In the middle of a batch one has taken more than the other.
fn agree(world: &World) -> bool {
    let [one, other] = &world.replicas;
    let between = |rows: &Rows| {
        let next = world.log.get(rows.applied).map(|batch| &world.batches[*batch]);
        next.is_none_or(|batch| !batch.records.contains(&rows.held.link))
    };
    one.rows.applied != other.rows.applied
        || !between(&one.rows)
        || !between(&other.rows)
        || one.rows == other.rows
}

fn is_level(world: &World) -> bool {
    world.replicas.iter().all(|replica| replica.rows.held.link.lsn.0 == OURS.len() as u64)
}

const WHOLE: Limits = Limits { batches: 3, entries: 3, crashes: 1, forks: false };
const FORKED: Limits = Limits { batches: 2, entries: 3, crashes: 1, forks: true };

#[test]
fn carried_records_are_taken_once_and_in_order() {
    for limits in [WHOLE, FORKED] {
        let mut sometimes = vec![
            Property::sometimes("level", |_, world: &World| is_level(world)),
            Property::sometimes("a gap", |_, world: &World| world.has_gap),
        ];
        if limits.forks {
            sometimes.push(Property::sometimes("a fork", |_, world: &World| world.has_fork));
        }
        let exploration = Exploration { limits, mutation: Mutation::None, sometimes };
        let checker = exploration.checker().threads(1).spawn_dfs().join();
        checker.assert_properties();
        let (all, unique) = (checker.state_count(), checker.unique_state_count());
        println!("{limits:?}: {unique} states, {all} steps");
    }
}

#[test]
fn a_careless_follower_is_found_out() {
    let cases = [
        (Mutation::TakeGaps, WHOLE, PREFIX),
        (Mutation::TakeAgain, WHOLE, PREFIX),
        (Mutation::IgnoreHashes, FORKED, PREFIX),
        (Mutation::ForgetPosition, WHOLE, PREFIX),
    ];
    for (mutation, limits, broken) in cases {
        let exploration = Exploration { limits, mutation, sometimes: Vec::new() };
        let finish = HasDiscoveries::AnyOf([broken].into());
        let checker = exploration.checker().threads(1).finish_when(finish).spawn_bfs().join();
        let path = checker.discovery(broken).expect(broken);
        println!("{mutation:?} breaks \"{broken}\": {:?}", path.into_actions());
    }
}
