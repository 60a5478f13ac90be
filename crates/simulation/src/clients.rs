//! Clients of rows: each is connected to one node at a time, asks for one thing after the other, and notes what
//! it was told and when. A connection dies with its node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::random::Stream;
use plimsoll_base::tasks::Spawned;
use plimsoll_base::time::Instant;
use plimsoll_base::{Random, Time};
use plimsoll_cluster::Request;
use plimsoll_storage::{Argv, ErrorKind, Reply};
use tokio::sync::{mpsc, oneshot};

use crate::linearizable::{Action, Answer, Operation};
use crate::network::Network;

/// Keys that are used at a time; one that had so many operations is followed by a new one, as the search for
/// an order grows with them.
const SLOTS: u64 = 6;
const OPERATIONS_OF_KEY: usize = 40;
/// How long an answer is waited for: longer than a node takes to say that it has none.
const PATIENCE: Duration = Duration::from_secs(40);
/// How long a client that finds no node rests.
const PAUSE: Duration = Duration::from_millis(300);
/// Values that are set are so far from each other: no increments lead from one to the next.
const VALUES: u64 = 1_000;
/// One time in so many it goes to another node.
const MOVES: u64 = 50;

/// What clients saw, by key.
#[derive(Clone, Default)]
pub struct History {
    seen: Arc<Mutex<Seen>>,
    kind: Kind,
}

/// What is asked of keys.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Rows,
    Documents,
}

#[derive(Default)]
struct Seen {
    operations: BTreeMap<String, Vec<Operation>>,
    /// How often the key of each slot was a new one.
    generations: BTreeMap<u64, u64>,
    /// The last value that was set: no two are the same.
    value: u64,
    refused: u64,
    unknown: u64,
    /// What should not be, whatever the operations.
    wrong: Vec<String>,
}

/// How much was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Operations that were answered.
    pub answered: u64,
    /// Those that were refused, and did not run.
    pub refused: u64,
    /// Those of which nobody knows.
    pub unknown: u64,
}

impl Counts {
    /// Both together.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            answered: self.answered + other.answered,
            refused: self.refused + other.refused,
            unknown: self.unknown + other.unknown,
        }
    }
}

impl History {
    /// Of documents, whose ids are the keys.
    #[must_use]
    pub fn of_documents() -> Self {
        Self { kind: Kind::Documents, ..Self::default() }
    }

    /// Notes what should not be.
    pub fn note(&self, what: String) {
        self.seen.lock().wrong.push(what);
    }

    /// What should not be, beside operations that cannot have happened.
    #[must_use]
    pub fn wrong(&self) -> Vec<String> {
        self.seen.lock().wrong.clone()
    }

    /// The operations on each key.
    #[must_use]
    pub fn operations(&self) -> BTreeMap<String, Vec<Operation>> {
        self.seen.lock().operations.clone()
    }

    /// How much was done.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let seen = self.seen.lock();
        let all: usize = seen.operations.values().map(Vec::len).sum();
        let (refused, unknown) = (seen.refused, seen.unknown);
        Counts { answered: all as u64 - unknown - refused, refused, unknown }
    }

    /// What to do next, with which key; it counts as called.
    pub(crate) fn begin(&self, chance: &mut Stream, now: Instant) -> Begun {
        let mut seen = self.seen.lock();
        let slot = chance.below(SLOTS);
        let generation = seen.generations.get(&slot).copied().unwrap_or(0);
        let key = |generation| format!("k{slot}-{generation}");
        let is_full = |seen: &Seen, key: &str| {
            seen.operations.get(key).is_some_and(|it| it.len() >= OPERATIONS_OF_KEY)
        };
        let is_old = is_full(&seen, &key(generation));
        let generation = generation + u64::from(is_old);
        seen.generations.insert(slot, generation);
        let key = key(generation);
        let action = match chance.below(10) {
            0..4 => Action::Get,
            number @ 4..9 => {
                seen.value += 1;
                // Increments between do not come to it.
                let value = seen.value * VALUES;
                match self.kind {
                    Kind::Documents => Action::Add(value),
                    Kind::Rows if number < 7 => Action::Set(value),
                    Kind::Rows => Action::Increment,
                }
            }
            _ => Action::Delete,
        };
        seen.call(key, action, now)
    }

    /// All keys that are used now are read.
    pub(crate) fn begin_reads(&self, now: Instant) -> Vec<Begun> {
        let mut seen = self.seen.lock();
        let generations = seen.generations.clone();
        let keys = generations.iter().map(|(slot, generation)| format!("k{slot}-{generation}"));
        keys.map(|key| seen.call(key, Action::Get, now)).collect()
    }

    /// One of the keys that are used now.
    pub(crate) fn any_key(&self, chance: &mut Stream) -> String {
        let slot = chance.below(SLOTS);
        let generation = self.seen.lock().generations.get(&slot).copied().unwrap_or(0);
        format!("k{slot}-{generation}")
    }

    /// Whether a row can have this value by what was asked for so far: it was set, and so many increments were
    /// asked for since.
    pub(crate) fn was_given(&self, key: &str, value: u64) -> bool {
        let seen = self.seen.lock();
        let operations = seen.operations.get(key).map(Vec::as_slice).unwrap_or_default();
        let (set, added) = (value - value % VALUES, value % VALUES);
        let is_increment = |it: &&Operation| it.action == Action::Increment;
        let increments = operations.iter().filter(is_increment).count() as u64;
        let was_set = set == 0 || operations.iter().any(|it| it.action == Action::Set(set));
        was_set && added <= increments
    }

    /// A key is read.
    fn begin_read(&self, key: &str, now: Instant) -> Begun {
        self.seen.lock().call(key.to_owned(), Action::Get, now)
    }

    pub(crate) fn end(&self, begun: &Begun, now: Instant, told: &Told) {
        let mut held = self.seen.lock();
        let seen = &mut *held;
        let Some(operation) =
            seen.operations.get_mut(&begun.key).and_then(|it| it.get_mut(begun.at))
        else {
            return;
        };
        match told {
            Told::Answer(answer) => operation.answered = Some((now.0, *answer)),
            Told::Unknown => seen.unknown += 1,
            // A read without an answer says nothing: it is as if it had never been asked for.
            Told::Refused => {
                operation.action = Action::Get;
                seen.refused += 1;
            }
        }
    }
}

impl Seen {
    /// It counts as called.
    fn call(&mut self, key: String, action: Action, now: Instant) -> Begun {
        let operations = self.operations.entry(key.clone()).or_default();
        operations.push(Operation { action: action.clone(), called: now.0, answered: None });
        Begun { at: operations.len() - 1, key, action }
    }
}

/// An operation that was called for.
pub(crate) struct Begun {
    pub key: String,
    at: usize,
    pub action: Action,
}

/// What came of it.
pub(crate) enum Told {
    Answer(Answer),
    /// It did not run, and never will.
    Refused,
    Unknown,
}

/// One client.
#[derive(Clone)]
pub struct Client {
    /// Where nodes are found.
    pub network: Arc<Network>,
    /// Its time.
    pub time: Time,
    /// The addresses of all nodes.
    pub addresses: Vec<String>,
    /// Where it notes what it saw.
    pub history: History,
    /// It asks for nothing more from then on.
    pub until: Instant,
    /// How long it rests between two operations, at most.
    pub rest: Duration,
    /// The database that it asks.
    pub database: u32,
}

/// What became of a question.
pub(crate) enum Sent {
    Answered(Reply),
    /// It did not reach the node.
    Refused,
    Unknown,
}

/// A question on its way through a connection.
pub(crate) type Asked = (Argv, oneshot::Sender<Reply>);

impl Client {
    /// Asks until it is over.
    pub async fn run(self, random: Random) {
        let mut chance = random.of("client");
        let mut connection = None;
        while self.time.now() < self.until {
            self.rest(&mut chance, 1).await;
            if connection.is_none() || chance.once_in(MOVES) {
                connection = self.connect(&mut chance);
            }
            let Some(asked) = &connection else {
                self.time.sleep(PAUSE).await;
                continue;
            };
            let begun = self.history.begin(&mut chance, self.time.now());
            let told = self.ask(asked, &begun).await;
            self.history.end(&begun, self.time.now(), &told);
            if !matches!(told, Told::Answer(_)) {
                connection = None;
            }
        }
    }

    /// Reads every key that was asked for, each until it is answered.
    pub async fn read_all(self) {
        let keys: Vec<String> = self.history.operations().into_keys().collect();
        for (key, address) in keys.iter().zip(self.addresses.iter().cycle()) {
            loop {
                if let Some(asked) = self.connect_to(address) {
                    let begun = self.history.begin_read(key, self.time.now());
                    let told = self.ask(&asked, &begun).await;
                    self.history.end(&begun, self.time.now(), &told);
                    if matches!(told, Told::Answer(_)) {
                        break;
                    }
                }
                self.time.sleep(PAUSE).await;
            }
        }
    }

    /// Rests before the next operation, so many times as long as a client of rows does.
    pub(crate) async fn rest(&self, chance: &mut Stream, times: u64) {
        let rest = u64::try_from(self.rest.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.time.sleep(Duration::from_nanos(chance.below(rest) * times)).await;
    }

    pub(crate) fn connect(&self, chance: &mut Stream) -> Option<mpsc::Sender<Asked>> {
        self.connect_to(self.any(chance))
    }

    /// The address of one of the nodes.
    pub(crate) fn any(&self, chance: &mut Stream) -> &str {
        let at = usize::try_from(chance.below(self.addresses.len() as u64)).unwrap_or_default();
        &self.addresses[at]
    }

    fn connect_to(&self, address: &str) -> Option<mpsc::Sender<Asked>> {
        let (coordinator, tasks) = self.network.coordinator(address)?;
        let (sender, mut asked) = mpsc::channel::<Asked>(1);
        let database = self.database;
        tasks.spawn("connection", async move {
            let mut session = coordinator.session();
            while let Some((argv, answer)) = asked.recv().await {
                let (requests, mut replies) = ([Request::Command(argv)], Vec::new());
                coordinator.execute(&mut session, database, &requests, &mut replies).await;
                session.answers_written();
                // Who asked may have given up.
                let _ = replies.pop().map(|reply| answer.send(reply));
            }
        });
        Some(sender)
    }

    async fn ask(&self, connection: &mpsc::Sender<Asked>, begun: &Begun) -> Told {
        let key = begun.key.as_bytes();
        let argv = match &begun.action {
            Action::Set(value) | Action::Add(value) => {
                Argv::of(&[b"SET", key, value.to_string().as_bytes()])
            }
            Action::Get => Argv::of(&[b"GET", key]),
            Action::Increment => Argv::of(&[b"INCR", key]),
            Action::Delete => Argv::of(&[b"DEL", key]),
        };
        match self.send(connection, argv).await {
            Sent::Answered(reply) => read(&begun.action, reply),
            Sent::Refused => Told::Refused,
            Sent::Unknown => Told::Unknown,
        }
    }

    /// Rests after what failed.
    pub(crate) async fn pause(&self) {
        self.time.sleep(PAUSE).await;
    }

    /// What a task in another process comes to; none where it is gone, or takes too long.
    pub(crate) async fn within_patience<T>(&self, asked: Spawned<T>) -> Option<T> {
        self.time.timeout(PATIENCE, asked).await.ok()?.ok()
    }

    /// Sends a question through a connection.
    pub(crate) async fn send(&self, connection: &mpsc::Sender<Asked>, argv: Argv) -> Sent {
        let (answer, told) = oneshot::channel();
        self.time.sleep(self.network.way()).await;
        if connection.send((argv, answer)).await.is_err() {
            return Sent::Refused;
        }
        let told = self.time.timeout(PATIENCE, told).await;
        self.time.sleep(self.network.way()).await;
        match told {
            Ok(Ok(reply)) => Sent::Answered(reply),
            _ => Sent::Unknown,
        }
    }
}

fn read(action: &Action, reply: Reply) -> Told {
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok().and_then(|it| it.parse().ok());
    let answer = match (action, reply) {
        (Action::Set(_), Reply::Status("OK")) => Answer::Done,
        (Action::Get, Reply::Nil) => Answer::Value(None),
        (Action::Get, Reply::Bulk(value)) => Answer::Value(number(&value)),
        (Action::Increment, Reply::Integer(value)) => Answer::Value(u64::try_from(value).ok()),
        (Action::Delete, Reply::Integer(count)) => {
            Answer::Count(u64::try_from(count).unwrap_or(u64::MAX))
        }
        (_, Reply::Error(error)) if error.kind == ErrorKind::OutcomeUnknown => {
            return Told::Unknown;
        }
        _ => return Told::Refused,
    };
    Told::Answer(answer)
}
