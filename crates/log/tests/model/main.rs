//! The rules of the log, explored: every interleaving of a small world, up to the limits below,
//! is driven through the real rules and checked in every state. Then the apply is broken on
//! purpose, once for each rule, and the same properties must say so.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and report")]

mod carried;
mod difference;
#[allow(dead_code, reason = "the property tests ask more of it")]
#[path = "../rules/replica.rs"]
mod replica;
mod world;

use plimsoll_log::SessionId;
use plimsoll_log::rules::is_too_old;
use plimsoll_log::rules::sessions::Outcome;
use stateright::{Checker, HasDiscoveries, Model, Property};

use replica::Mutation;
use world::{Action, Known, Limits, World};

const ONCE: &str = "no operation runs twice";
const AGREE: &str = "replicas at the same position agree";
const ANSWERED: &str = "an answer is true for good";
const ORDER: &str = "an operation runs after those before it are settled";
const HEALTHY: &str = "no fault in a healthy log";

struct Exploration {
    limits: Limits,
    mutation: Mutation,
    /// What the exploration must come across, so that its silence means something.
    sometimes: Vec<Property<Self>>,
}

impl Model for Exploration {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.limits, self.mutation)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        world.actions(&self.limits, actions);
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut next = last.clone();
        next.step(&action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(ONCE, |_, world: &World| runs_once(world)),
            Property::always(AGREE, |_, world| agree(world)),
            Property::always(ANSWERED, |_, world| answers_hold(world)),
            Property::always(ORDER, |_, world| in_order(world)),
            Property::always(HEALTHY, |_, world: &World| {
                world.nodes.iter().all(|node| node.fault.is_none())
            }),
        ];
        properties.extend(self.sometimes.iter().cloned());
        properties
    }
}

fn runs_once(world: &World) -> bool {
    let once = |replica: &replica::Replica| replica.rows.runs.values().all(|runs| *runs == 1);
    once(world.whole()) && world.nodes.iter().all(|node| once(&node.replica))
}

fn agree(world: &World) -> bool {
    let same = |node: &world::Node| node.replica.digest() == world.straight(node.applied).digest();
    world.nodes.iter().all(same)
}

/// All operations, by session and number.
fn operations(world: &World) -> impl Iterator<Item = ((SessionId, u64), &world::Operation)> {
    world.coordinators.iter().zip(0..).flat_map(|(coordinator, session)| {
        let numbered = (1..).zip(&coordinator.operations);
        numbered.map(move |(number, operation)| ((SessionId(session), number), operation))
    })
}

/// What was answered is what happened, as far as the log now goes; an operation said never to
/// run does not run.
fn answers_hold(world: &World) -> bool {
    let whole = world.whole();
    operations(world).all(|((session, number), operation)| {
        let ran = whole.rows.runs.contains_key(&(session, number));
        let kept = whole.sessions.get(&session).and_then(|state| {
            let mut outcomes = state.outcomes().iter();
            outcomes.find(|(at, _)| *at == number).map(|(_, outcome)| outcome)
        });
        match &operation.known {
            Known::Done(result) => {
                ran && kept.is_none_or(|kept| *kept == Outcome::Ran(result.clone()))
            }
            Known::Never => !ran,
            Known::Waiting | Known::Lost => true,
        }
    })
}

/// Where an operation ran, the one before it ran, or was fenced, or came too late.
fn in_order(world: &World) -> bool {
    let whole = world.whole();
    let runs = &whole.rows.runs;
    operations(world).all(|((session, number), operation)| {
        let settled = || {
            let state = whole.sessions.get(&session);
            let fenced = state.is_some_and(|state| {
                state.floor >= number || state.outcomes().contains(&(number, Outcome::Fenced))
            });
            fenced || is_too_old(operation.stamp_ms, whole.log_time_ms())
        };
        !runs.contains_key(&(session, number + 1))
            || runs.contains_key(&(session, number))
            || settled()
    })
}

fn both_done(world: &World) -> bool {
    let done = |operation: &world::Operation| matches!(operation.known, Known::Done(_));
    let mut all = operations(world);
    world.coordinators.iter().all(|coordinator| !coordinator.operations.is_empty())
        && all.by_ref().count() >= 2
        && operations(world).all(|(_, operation)| done(operation))
}

fn some_never(world: &World) -> bool {
    operations(world).any(|(_, operation)| operation.known == Known::Never)
}

fn some_lost(world: &World) -> bool {
    operations(world).any(|(_, operation)| operation.known == Known::Lost)
}

/// Explores all there is within the limits, and prints how much that was.
fn explore(limits: Limits, mutation: Mutation, sometimes: Vec<Property<Exploration>>) {
    let exploration = Exploration { limits, mutation, sometimes };
    let checker = exploration.checker().threads(1).spawn_dfs().join();
    checker.assert_properties();
    let (all, unique) = (checker.state_count(), checker.unique_state_count());
    println!("{limits:?}: {unique} states, {all} steps");
}

const SMALL: Limits = Limits {
    sessions: 1,
    operations: 2,
    records: 3,
    entries: 4,
    landings: 2,
    ticks: 1,
    timeouts: 1,
    restarts: 1,
    give_ups: 1,
};

const WINDOW: Limits = Limits { operations: 1, ticks: 2, timeouts: 2, restarts: 0, ..SMALL };

/// One session with two operations, and everything that can go wrong.
#[test]
fn one_session_with_two_operations() {
    let sometimes = vec![
        Property::sometimes("both operations done", |_, world: &World| both_done(world)),
        Property::sometimes("one never to run", |_, world: &World| some_never(world)),
        Property::sometimes("a gap", |_, world: &World| world.seen.gap),
        Property::sometimes("a stale epoch", |_, world: &World| world.seen.stale),
        Property::sometimes("a record too old", |_, world: &World| world.seen.too_old),
    ];
    explore(SMALL, Mutation::None, sometimes);
}

/// Two sessions with two operations each, through leads of their own at first.
#[test]
fn two_sessions_with_two_operations_each() {
    let limits =
        Limits { sessions: 2, records: 4, entries: 4, landings: 1, ticks: 0, give_ups: 0, ..SMALL };
    let sometimes = vec![Property::sometimes("four done", |_, world: &World| {
        both_done(world) && operations(world).count() == 4
    })];
    explore(limits, Mutation::None, sometimes);
}

/// One operation, asked for again and again while the window passes, and passes once more.
#[test]
fn one_operation_and_the_window() {
    let sometimes = vec![
        Property::sometimes("one never to run", |_, world: &World| some_never(world)),
        Property::sometimes("too late to tell", |_, world: &World| some_lost(world)),
    ];
    explore(WINDOW, Mutation::None, sometimes);
}

/// The same exploration must find each way in which a careless apply would go wrong.
#[test]
fn a_careless_apply_is_found_out() {
    let cases = [
        (Mutation::SkipLeads, SMALL, ORDER),
        (Mutation::SkipSessions, SMALL, ONCE),
        (Mutation::ForgetFences, SMALL, ANSWERED),
        (Mutation::RestartWithoutSessions, SMALL, AGREE),
        (Mutation::RestartWithoutSessions, SMALL, ONCE),
        (Mutation::ForgetEarly, WINDOW, ONCE),
    ];
    for (mutation, limits, broken) in cases {
        let exploration = Exploration { limits, mutation, sometimes: Vec::new() };
        let finish = HasDiscoveries::AnyOf([broken].into());
        let checker = exploration.checker().threads(1).finish_when(finish).spawn_bfs().join();
        let path = checker.discovery(broken).expect(broken);
        println!("{mutation:?} breaks \"{broken}\": {:?}", path.into_actions());
    }
}
