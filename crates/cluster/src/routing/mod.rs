//! Which copy is asked, and the next one where that gives no answer. The copies are those on this
//! node and on others alike; which of them is best is selection's to say. What is asked is not
//! looked at.
//!
//! | | |
//! |---|---|
//! | [`selection`], [`load`] | which copy is best; what this node says of its load |
//! | [`read_rows`], [`submit`] | reads of rows, and writes on their way to a lead |
//! | [`file_reads`] | reads here of what is not in memory |
//! | [`admission`] | writes are held back once the stores here have put off much |
//! | [`serving`] | the copies here, for another node that asks |
//! | [`changes`], [`default_expiry`] | tables made, changed and deleted |
//! | [`current`] | whether it is known here which tables there are |

pub(crate) mod admission;
pub(crate) mod changes;
mod current;
mod default_expiry;
pub(crate) mod file_reads;
pub(crate) mod load;
pub(crate) mod read_rows;
pub(crate) mod selection;
pub(crate) mod serving;
pub(crate) mod submit;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use parking_lot::Mutex;
use plimsoll_base::random::Draws;
use plimsoll_base::time::Instant;
use plimsoll_base::{Time, World};
use plimsoll_control::pacing::debt;
use plimsoll_control::selection::{Ask, Candidate, FailureKind, NodeId};
use plimsoll_control::{Class, LoadLine};
use plimsoll_index::{Error, ErrorClass};
use plimsoll_log::Lsn;
use plimsoll_storage::{ErrorKind, ErrorReply};
use tokio::sync::{Notify, watch};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::metadata;
use crate::metadata::error::MetadataError;
use crate::metadata::members::{Member, Members};
use crate::replication::Replication;
use crate::replication::partition::Partition;
use crate::replication::tables::{Copies, Table, Tables};
use crate::routing::admission::Admission;
use crate::routing::file_reads::FileReads;
use crate::routing::load::Load;
use crate::routing::selection::{Selection, Sent};
use crate::settings::work::SelectionSettings;
use crate::wire::request::Preference;
use crate::wire::{CIRCUIT_BREAKING, CallError, Problem, Question, Reply, Terms, Told, rest_error};

/// How long one copy has to answer a read of rows before the next is asked.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_millis(1_000);
/// How long a read of rows waits for a copy that can answer it, in all: longer than the log takes
/// to elect another leader (4 to 9 s in JetStream), so that a read meanwhile is late and not lost.
pub(crate) const READ_DEADLINE: Duration = Duration::from_secs(15);
/// How long a change of the metadata waits for other nodes to serve it.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(2);
/// By how much a copy on this node may answer a read of rows later than another's, us: reading it
/// costs a few us of processor time, and asking another node a hundred times that on both sides.
const READ_AWAY_US: u32 = 1_000;
/// How soon copies are asked again where none could answer.
const PAUSE: Duration = Duration::from_millis(20);
/// The same where more retries would only be more load.
const LONG_PAUSE: Duration = Duration::from_millis(200);
/// After how long without an answer a node is asked whether it is there at all, again and again.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long it has to say so.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);

/// Why a node gave no answer of use.
#[derive(Clone, Debug)]
pub(crate) enum NoAnswer {
    /// It was not carried out there.
    Elsewhere(String),
    /// It may have been carried out there.
    Unknown(String),
    /// The node refused it, for now.
    Refused(Error),
}

/// Where a copy is.
#[derive(Clone)]
pub(crate) enum CopyLocation {
    Here(Arc<Partition>),
    There(Arc<Member>),
}

/// Why a copy did not answer.
#[derive(Debug)]
pub(crate) enum Failed {
    /// Another would not either.
    Here(Error),
    /// Another may.
    Elsewhere(FailureKind, Error),
}

impl Failed {
    /// What the request deserves is the same everywhere; what the node lacks is not. A search that
    /// a breaker stopped is not to take another node's memory next.
    pub(crate) fn of(error: Error) -> Self {
        match error.class {
            _ if error.kind == CIRCUIT_BREAKING => Self::Here(error),
            ErrorClass::Overloaded => Self::Elsewhere(FailureKind::Refused, error),
            class if class.is_the_nodes() => Self::Elsewhere(FailureKind::Error, error),
            _ => Self::Here(error),
        }
    }

    /// Of a node that gave no answer.
    pub(crate) fn there(member: &Member, why: NoAnswer) -> Self {
        let named = |why| no_shard(format!("node [{}]: {why}", member.record.name));
        match why {
            NoAnswer::Elsewhere(why) => Self::Elsewhere(FailureKind::Unreachable, named(why)),
            NoAnswer::Unknown(why) => Self::Elsewhere(FailureKind::Timeout, named(why)),
            NoAnswer::Refused(error) => Self::of(error),
        }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::of(error)
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Here(error) | Failed::Elsewhere(_, error) => error,
        }
    }
}

/// Sends what clients ask to copies, here and on other nodes.
pub(crate) struct Router {
    pub world: World,
    /// What has to be spread only, and nothing is guarded by.
    pub chance: Arc<Draws>,
    /// Names of what must be nobody else's, and seeds.
    pub names: Draws,
    pub replication: Arc<Replication>,
    pub metadata: Arc<Partition>,
    pub members: Arc<Members>,
    pub tables: Arc<Tables>,
    /// Chooses which copies are asked.
    pub selection: Arc<Selection>,
    /// What this node says of its load.
    pub load: Load,
    /// Holds writes back once the stores here have put off much.
    pub admission: Admission,
    /// Reads what is not in memory.
    pub file_reads: FileReads,
    /// Has what the metadata says looked at soon.
    pub look: Arc<Notify>,
    /// Up to where of the metadata's log this node serves what it says.
    pub reconciled: watch::Sender<u64>,
    pub current: Current,
    /// The position of the metadata that the members were taken over at. One does that at a time.
    following_members: Mutex<Option<Lsn>>,
}

/// Up to when this node knows what was acknowledged of the metadata. Moments are ns of the node's time; 0 where
/// there was none yet.
#[derive(Default)]
pub(crate) struct Current {
    /// When the last beat was sent that came back: who changes the metadata waits for this node.
    beat: AtomicU64,
    /// The same of the last beat, whether or not what it brought is served already.
    heard: AtomicU64,
    /// From when on the others know that this node is there, after they may have taken it for away.
    heard_from: AtomicU64,
    /// When the log was asked last, and answered.
    asked: AtomicU64,
    /// One asks for all; when that was in vain last.
    asking: tokio::sync::Mutex<Option<Instant>>,
}

/// Something to be had of any one copy.
#[derive(Clone, Copy)]
pub(crate) struct Errand<'a> {
    pub copies: &'a Copies,
    pub class: Class,
    /// How long one copy has.
    pub timeout: Duration,
    /// How long copies that cannot answer now are waited for; where it is zero, each is asked once.
    pub patience: Duration,
    /// Drawn once for a client's request: see [`Terms::rank`].
    pub rank: u32,
    pub preference: Preference,
}

impl Router {
    /// Sends to the copies of this replication and of its members; `load` is what the node says of itself.
    pub(crate) fn new(
        replication: &Arc<Replication>,
        (chance, names): (Arc<Draws>, Draws),
        selection: SelectionSettings,
        load: Load,
    ) -> Self {
        let world = &replication.world;
        Self {
            world: world.clone(),
            chance,
            names,
            metadata: Arc::clone(&replication.metadata),
            members: Arc::clone(&replication.members),
            tables: Arc::clone(&replication.tables),
            selection: Arc::new(Selection::new(selection, &world.random)),
            load,
            admission: Admission::default(),
            file_reads: FileReads::new(&world.tasks, &world.time),
            look: Arc::default(),
            reconciled: watch::Sender::new(0),
            current: Current::default(),
            following_members: Mutex::default(),
            replication: Arc::clone(replication),
        }
    }

    /// The time, for the controllers.
    pub(crate) fn now_ns(&self) -> u64 {
        self.world.time.now().0
    }

    /// Takes over what the metadata says of the nodes and their copies.
    pub(crate) fn follow_members(&self) -> Result<(), MetadataError> {
        // Who read before others does not take over after them.
        let mut followed = self.following_members.lock();
        // Before what is read: rows are there once their position is.
        let applied = self.metadata.applied();
        if *followed != Some(applied) {
            self.members.set(metadata::nodes(&self.metadata, &self.members.all())?);
            *followed = Some(applied);
        }
        Ok(())
    }

    /// The same for what can do with what was taken over last.
    pub(crate) fn follow_members_or_warn(&self) {
        if let Err(error) = self.follow_members() {
            tracing::warn!(%error, "the nodes' reports cannot be read");
        }
    }

    /// The nodes that serve a copy, this one excepted, in the order in which they should be
    /// asked; those that left last, as they may be back.
    pub(crate) fn others_with(&self, copies: &Copies, class: Class) -> Vec<Arc<Member>> {
        let (there, away): (Vec<_>, Vec<_>) =
            self.members_with(copies).into_iter().partition(|it| it.is_alive());
        let candidates: Vec<Candidate> =
            there.iter().map(|it| Candidate::near(it.number)).collect();
        let order = self.selection.rank(self.now_ns(), copies.ask(class), &candidates);
        let there = order.into_iter().filter_map(|at| there.get(at).cloned());
        there.chain(away).collect()
    }

    /// How many copies of a partition are wanted, and how many serve.
    pub(crate) fn counts(&self, table: &Table, ordinal: usize, wanted: u32) -> (u32, u32) {
        if self.replication.is_alone {
            return (wanted, 1);
        }
        let members = self.members.all();
        let serves =
            |node: &str, copies: &Copies| members.get(node).is_some_and(|it| it.serves(copies.id));
        let serving = table.copies().get(ordinal).map_or(0, |copies| {
            let definition = copies.definition();
            u32::try_from(definition.serving().filter(|it| serves(it, copies)).count()).unwrap_or(1)
        });
        // The one that took the write serves, whatever is known of it here.
        (wanted.max(serving), serving.max(1))
    }

    /// Whether another copy of a partition is known to serve.
    pub(crate) fn is_served_elsewhere(&self, copies: &Copies) -> bool {
        let members = self.members.all();
        let definition = copies.definition();
        let mut others = definition.serving().filter(|node| *node != self.members.own);
        others.any(|node| members.get(node).is_some_and(|it| it.serves(copies.id)))
    }

    /// The other nodes whose copy serves, as far as is known here.
    pub(crate) fn members_with(&self, copies: &Copies) -> Vec<Arc<Member>> {
        let definition = copies.definition();
        definition
            .serving()
            .filter(|node| **node != *self.members.own)
            .filter_map(|node| self.members.get(node))
            .filter(|member| member.may_serve(copies.id))
            .collect()
    }

    /// Has one copy after the other visited until one answers, the best first; for what may be
    /// done more than once.
    pub(crate) async fn visit<T, F>(
        &self,
        errand: Errand<'_>,
        visit: impl Fn(CopyLocation, Terms) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        if let Some(why) = errand.copies.stopped() {
            return Err(no_shard(why.to_owned()));
        }
        let end = self.world.time.now() + errand.patience.max(errand.timeout);
        let hedge_after =
            if self.replication.is_alone { None } else { self.selection.begins(errand.class) };
        let mut last = no_shard("no copy of the partition can be asked".to_owned());
        loop {
            let mut pause = PAUSE;
            'round: for mut left in self.places(&errand) {
                while let Some(place) = self.take_best(&errand, &mut left) {
                    let asked = self.ask_late(&errand, end, place, &mut left, hedge_after, &visit);
                    match asked.await {
                        Ok(answer) => return Ok(answer),
                        Err(Failed::Here(error)) => return Err(error),
                        Err(Failed::Elsewhere(kind, error)) => {
                            // A copy that cannot answer has cost nobody anything.
                            let is_free = error.kind == NO_SHARD;
                            last = error;
                            let time = end - self.world.time.now();
                            let left = left.len();
                            if left > 0
                                && !is_free
                                && !self.selection.may_retry(self.now_ns(), kind, left, time)
                            {
                                pause = LONG_PAUSE;
                                break 'round;
                            }
                        }
                    }
                }
            }
            if errand.patience.is_zero() || self.world.time.now() + pause >= end {
                return Err(last);
            }
            self.world.time.sleep(pause).await;
        }
    }

    /// Where copies serve, in the order in which they are asked: on nodes that are there; then those that are
    /// poor for what is asked, which is, of searches, where the index is being built anew, and of rows, where
    /// the stores take no more, so that the copy falls behind; and on nodes that left, as they may be back.
    fn places(&self, errand: &Errand<'_>) -> [Vec<CopyLocation>; 3] {
        let (copies, now_ns) = (errand.copies, self.now_ns());
        let needs_index = errand.class == Class::Search;
        let [mut there, mut poor, mut away] = [Vec::new(), Vec::new(), Vec::new()];
        // Of a node that is alone, what is left of a copy that has stopped can still be read.
        if let Some(local) =
            copies.local().filter(|it| self.replication.is_alone || it.fault().is_none())
        {
            let is_rebuilding = || local.index().is_some_and(|it| it.rebuilding().is_some());
            let is_poor = match needs_index {
                true => is_rebuilding(),
                false => !self.replication.is_alone && self.write_debt() >= debt::REFUSED_FROM,
            };
            let places = if is_poor { &mut poor } else { &mut there };
            places.push(CopyLocation::Here(local));
        }
        if !self.replication.is_alone {
            for member in self.members_with(copies) {
                let owed = || self.selection.write_debt(now_ns, member.number);
                let is_poor = || match needs_index {
                    true => member.is_reindexing(copies.id),
                    false => owed().is_some_and(|debt| debt >= debt::REFUSED_FROM),
                };
                let places = if !member.is_alive() {
                    &mut away
                } else if is_poor() {
                    &mut poor
                } else {
                    &mut there
                };
                places.push(CopyLocation::There(member));
            }
        }
        [there, poor, away]
    }

    /// Visits a copy, and where it is late perhaps a second one of those that are left.
    async fn ask_late<T, F>(
        &self,
        errand: &Errand<'_>,
        end: Instant,
        place: CopyLocation,
        left: &mut Vec<CopyLocation>,
        hedge_after: Option<Duration>,
        visit: &impl Fn(CopyLocation, Terms) -> F,
    ) -> Result<T, Failed>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        let began = self.world.time.now();
        let terms = |left: &[CopyLocation]| Terms {
            timeout: errand.timeout.min(end - self.world.time.now()),
            alternatives: u32::try_from(left.len()).unwrap_or(u32::MAX),
            rank: errand.rank,
        };
        let first = visit(place, terms(left));
        let Some(after) = hedge_after.filter(|_| !left.is_empty()) else { return first.await };
        let mut first = Box::pin(first);
        if let Ok(answer) = self.world.time.timeout(after, &mut first).await {
            return answer;
        }
        let candidates = self.candidates(left, errand.class);
        let ask = errand.copies.ask(errand.class);
        let hedge =
            self.selection.hedge(self.now_ns(), ask, self.world.time.now() - began, &candidates);
        let Some(at) = hedge else { return first.await };
        let second = left.swap_remove(at);
        let second = Box::pin(visit(second, terms(left)));
        match select(first, second).await {
            Either::Left((Err(Failed::Elsewhere(..)), second)) => second.await,
            Either::Right((Err(Failed::Elsewhere(..)), first)) => first.await,
            Either::Left((answer, _)) | Either::Right((answer, _)) => answer,
        }
    }

    fn candidates(&self, places: &[CopyLocation], class: Class) -> Vec<Candidate> {
        let is_short = matches!(class, Class::Get | Class::Scan);
        let has_own = places.iter().any(|place| matches!(place, CopyLocation::Here(_)));
        let away_us = if is_short && has_own { READ_AWAY_US } else { 0 };
        let candidate = |place: &CopyLocation| match place {
            CopyLocation::Here(_) => Candidate::near(self.members.own_number),
            CopyLocation::There(member) => {
                Candidate { node: member.number, zone_penalty_us: away_us }
            }
        };
        places.iter().map(candidate).collect()
    }

    /// Takes the copy that should be asked now out of `places`.
    fn take_best(
        &self,
        errand: &Errand<'_>,
        places: &mut Vec<CopyLocation>,
    ) -> Option<CopyLocation> {
        if self.replication.is_alone {
            return places.pop();
        }
        let ask = errand.copies.ask(errand.class);
        let candidates = self.candidates(places, errand.class);
        let wished = self.wished(errand.preference, places);
        let at = wished.or_else(|| self.selection.pick(self.now_ns(), ask, &candidates))?;
        for wanted in self.selection.probes(self.now_ns(), ask, &candidates) {
            self.probe(wanted, places);
        }
        (at < places.len()).then(|| places.swap_remove(at))
    }

    /// The copy that the client wants to be asked, if it does not leave that to selection.
    fn wished(&self, preference: Preference, places: &[CopyLocation]) -> Option<usize> {
        match preference {
            Preference::Best => None,
            Preference::Local => places.iter().position(|it| matches!(it, CopyLocation::Here(_))),
            Preference::Same(number) => {
                let rank = |place: &CopyLocation| {
                    let id = match place {
                        CopyLocation::Here(_) => &self.members.own,
                        CopyLocation::There(member) => &member.id,
                    };
                    xxh3_64_with_seed(id.as_bytes(), number)
                };
                (0..places.len()).max_by_key(|at| rank(&places[*at]))
            }
        }
    }

    /// Asks a node for its load line, beside all else.
    fn probe(&self, node: NodeId, places: &[CopyLocation]) {
        let found = places.iter().find_map(|place| match place {
            CopyLocation::There(member) if member.number == node => Some(member),
            _ => None,
        });
        let Some(member) = found else {
            let line = self.line();
            self.selection.probed(self.now_ns(), node, Some(&line));
            return;
        };
        let (selection, time) = (Arc::clone(&self.selection), self.world.time.clone());
        let probing = Probing { selection, node, time, line: None };
        let link = member.link.clone();
        self.world.tasks.spawn("probe", async move {
            let mut probing = probing;
            let answer = link.ask_on(Question::Probe, Terms::within(PROBE_TIMEOUT), 0).await;
            probing.line = answer.ok().and_then(|(_, told)| told.line);
        });
    }

    /// Work of a request on this node's own copy, of which selection is told as of any other.
    /// `work` says how long the copy had it, where that is not all of the time.
    pub(crate) async fn visit_here<T>(
        &self,
        ask: Ask,
        terms: Terms,
        work: impl Future<Output = Result<(T, Option<u64>), Failed>>,
    ) -> Result<T, Failed> {
        if self.replication.is_alone {
            return work.await.map(|(answer, _)| answer);
        }
        let flying = Flying::begin(self, ask, self.members.own_number, terms.timeout);
        let began_ns = self.now_ns();
        match work.await {
            Ok((answer, server_ns)) => {
                let server_ns = server_ns.unwrap_or_else(|| self.now_ns() - began_ns);
                flying.answered(Some(server_ns), Some(&self.line()));
                Ok(answer)
            }
            // A breaker picks the request that holds most: that it did says nothing of how the node
            // serves others. How near it is to its limits is in the load line.
            Err(Failed::Here(error)) if error.kind == CIRCUIT_BREAKING => Err(Failed::Here(error)),
            Err(Failed::Here(error)) => {
                flying.answered(None, Some(&self.line()));
                Err(Failed::Here(error))
            }
            Err(Failed::Elsewhere(kind, error)) => {
                flying.failed(kind, Some(&self.line()));
                Err(Failed::Elsewhere(kind, error))
            }
        }
    }

    /// Asks one node, and tells selection how it went. One that is silent to all for long is asked
    /// whether it is there; where it does not say so either, its answer is not waited for.
    pub(crate) async fn ask(
        &self,
        member: &Member,
        ask: Ask,
        question: Question,
        terms: Terms,
    ) -> Result<Reply, NoAnswer> {
        let flying = Flying::begin(self, ask, member.number, terms.timeout);
        let mut answer = Box::pin(member.link.ask_on(question, terms, 0));
        let answer = loop {
            if let Ok(answer) = self.world.time.timeout(PATIENCE, &mut answer).await {
                break answer;
            }
            // It answers others: it has much to do, or this node comes late to what it says.
            if member.link.was_heard_within(PATIENCE) {
                continue;
            }
            let probe = member.link.ask_on(Question::Probe, Terms::within(PROBE_TIMEOUT), 0);
            match select(answer, Box::pin(probe)).await {
                Either::Left((answer, _)) => break answer,
                Either::Right((Ok(_), waiting)) => answer = waiting,
                Either::Right((Err(_), waiting)) if member.link.was_heard_within(PROBE_TIMEOUT) => {
                    answer = waiting;
                }
                Either::Right((Err(_), _)) => break Err(CallError::TimedOut),
            }
        };
        let elsewhere = |why: &str| Err(NoAnswer::Elsewhere(why.to_owned()));
        match answer {
            Ok((Reply::Problem(problem), Told { line, .. })) => match problem {
                // It says nothing of how the node does.
                Problem::NotHere(why) => elsewhere(&why),
                Problem::Behind(why) => {
                    flying.failed(FailureKind::Timeout, line.as_ref());
                    elsewhere(&why)
                }
                Problem::OtherCluster => {
                    flying.failed(FailureKind::Error, None);
                    elsewhere("the node belongs to another cluster")
                }
                Problem::Format(format) => {
                    flying.failed(FailureKind::Error, None);
                    elsewhere(&format!("the node speaks format {format} of the nodes' messages"))
                }
                Problem::Refused(json) => {
                    let error = rest_error(&json);
                    // As in `visit_here`.
                    if error.kind != CIRCUIT_BREAKING {
                        flying.failed(FailureKind::Refused, line.as_ref());
                    }
                    Err(NoAnswer::Refused(error))
                }
                problem => {
                    flying.answered(None, line.as_ref());
                    Ok(Reply::Problem(problem))
                }
            },
            Ok((reply, Told { server_ns, line })) => {
                flying.answered(server_ns, line.as_ref());
                Ok(reply)
            }
            Err(CallError::Unreachable(why)) => {
                flying.failed(FailureKind::Unreachable, None);
                Err(NoAnswer::Elsewhere(why))
            }
            Err(CallError::Lost(why)) => {
                flying.failed(FailureKind::Unreachable, None);
                Err(NoAnswer::Unknown(why))
            }
            Err(CallError::TimedOut) => {
                flying.failed(FailureKind::Timeout, None);
                Err(NoAnswer::Unknown("the node did not answer in time".to_owned()))
            }
        }
    }

    /// Waits until this node serves what the metadata says now: a table that it does not know may
    /// have been created elsewhere.
    pub(crate) async fn pass_metadata(&self, timeout: Duration) -> bool {
        if self.replication.is_alone {
            return true;
        }
        if !self.replication.pass_barrier(metadata::GROUP, timeout).await {
            return false;
        }
        self.reconciled_to(self.metadata.applied().0, timeout).await
    }

    /// Waits for a while until the other nodes that are there serve what the metadata says now, or may no
    /// longer take themselves for current (`current.rs`), so that who changed it finds it so wherever he
    /// asks next. The lock of changes must be free: what others change at the same time needs it here.
    pub(crate) async fn tell_others(&self) {
        if self.replication.is_alone {
            return;
        }
        let metadata = self.metadata.applied().0;
        // One that came back a moment ago may take itself for current already.
        self.follow_members_or_warn();
        let others = self.members.others();
        let end = self.world.time.now() + ACKNOWLEDGE_TIMEOUT;
        let asked = others.iter().map(|member| async move {
            let question = Question::Await { metadata };
            match member.link.ask(question, ACKNOWLEDGE_TIMEOUT, 0).await {
                Ok(Reply::Done) => {}
                // It follows by itself, or finds out that it does not.
                other => {
                    tracing::debug!(node = member.record.name, ?other, "it is behind");
                    self.world.time.sleep_until(end).await;
                }
            }
        });
        join_all(asked).await;
    }

    /// Waits for a while until the copies of a table that is new serve, those on nodes that are there:
    /// who made it finds it whole.
    pub(crate) async fn await_copies(&self, table: &str) {
        let Some(table) = self.tables.by_name(table).filter(|_| !self.replication.is_alone) else {
            return;
        };
        let end = self.world.time.now() + ACKNOWLEDGE_TIMEOUT;
        while self.world.time.now() < end {
            let members = self.members.all();
            let is_there = |copies: &Arc<Copies>| {
                let definition = copies.definition();
                let there = definition.serving().filter_map(|node| members.get(node));
                there.filter(|it| it.is_alive()).all(|it| it.serves(copies.id))
            };
            if table.copies().iter().all(is_there) {
                return;
            }
            self.world.time.sleep(PAUSE).await;
            self.follow_members_or_warn();
        }
    }

    /// Waits until this node serves what the metadata said at a position of its log.
    pub(crate) async fn reconciled_to(&self, position: u64, timeout: Duration) -> bool {
        let mut reconciled = self.reconciled.subscribe();
        self.look.notify_one();
        let waited = reconciled.wait_for(|at| *at >= position);
        matches!(self.world.time.timeout(timeout, waited).await, Ok(Ok(_)))
    }
}

/// A request on its way: selection learns of its end, whatever that is.
struct Flying<'a> {
    router: &'a Router,
    sent: Option<Sent>,
    deadline: Duration,
}

impl<'a> Flying<'a> {
    fn begin(router: &'a Router, ask: Ask, node: NodeId, deadline: Duration) -> Self {
        let sent = router.selection.sent(router.now_ns(), ask, node);
        Self { router, sent: Some(sent), deadline }
    }

    fn answered(mut self, server_ns: Option<u64>, line: Option<&LoadLine>) {
        if let Some(sent) = self.sent.take() {
            self.router.selection.answered(self.router.now_ns(), sent, server_ns, line);
        }
    }

    fn failed(mut self, kind: FailureKind, line: Option<&LoadLine>) {
        if let Some(sent) = self.sent.take() {
            let (now_ns, deadline) = (self.router.now_ns(), self.deadline);
            self.router.selection.failed(now_ns, sent, kind, deadline, line);
        }
    }
}

impl Drop for Flying<'_> {
    fn drop(&mut self) {
        if let Some(sent) = self.sent.take() {
            self.router.selection.cancelled(self.router.now_ns(), sent);
        }
    }
}

/// A probe on its way; its end is told, also where the task is cut off.
struct Probing {
    selection: Arc<Selection>,
    node: NodeId,
    time: Time,
    line: Option<LoadLine>,
}

impl Drop for Probing {
    fn drop(&mut self) {
        self.selection.probed(self.time.now().0, self.node, self.line.as_ref());
    }
}

/// Nothing was done, and may be tried again.
pub(crate) fn unavailable(why: String) -> ErrorReply {
    ErrorReply::new(ErrorKind::TryAgain, why)
}

/// The kind of the error that no copy answers.
const NO_SHARD: &str = "no_shard_available_action_exception";

/// The same in REST's words.
pub(crate) fn no_shard(why: String) -> Error {
    Error::unavailable(NO_SHARD, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_breaker_stopped_is_asked_of_nobody_else() {
        let failed = |class, kind: &'static str| Failed::of(Error::new(class, kind, "why"));
        assert!(matches!(failed(ErrorClass::Overloaded, CIRCUIT_BREAKING), Failed::Here(_)));
        assert!(matches!(failed(ErrorClass::Invalid, "parsing_exception"), Failed::Here(_)));
        let refused = failed(ErrorClass::Overloaded, "es_rejected_execution_exception");
        assert!(matches!(refused, Failed::Elsewhere(FailureKind::Refused, _)));
        assert!(matches!(
            failed(ErrorClass::Unavailable, "x"),
            Failed::Elsewhere(FailureKind::Error, _)
        ));
    }
}
