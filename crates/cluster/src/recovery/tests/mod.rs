//! Tests of copies between real folders. Only the network between the two nodes is made here: it
//! hands bytes to the source and loses, delays, cuts and damages them as it is told.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]

mod away;
mod copies;
mod faults;
mod indexed;
mod killed;
mod packed;
mod serving;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use plimsoll_base::{Disk, Time, World};
use plimsoll_control::Random;
use plimsoll_log::record::{self, Item, LeadStamp, Record};
use plimsoll_log::rules::chain::{Chain, Position};
use plimsoll_log::{Incarnation, LeadId, PartitionId, SessionId};
use plimsoll_storage::operation::Operation;
use plimsoll_storage::partition::{Checksum, OverBudget, Replica, Resources, Store, StoreOptions};
use plimsoll_storage::{Argv, ErrorKind};

use super::*;
use crate::wire::{Call, CallError, Envelope, Link, Peers, Problem, Question, Reply};

const ID: PartitionId = PartitionId { table: 7, ordinal: 2 };
const LOG: Incarnation = Incarnation(1);

fn resources() -> Resources {
    Resources::new(StoreOptions::default(), Arc::new(|| ()))
}

fn open(dir: &Path) -> Replica {
    Replica::open(ID, dir, &resources(), LOG, Chain::new(LOG).position()).unwrap()
}

/// A replica and the log that it was brought forward from.
struct Source {
    replica: Replica,
    chain: Chain,
    log: Vec<(Position, Record)>,
    random: Random,
}

impl Source {
    fn new(dir: &Path, seed: u64) -> Self {
        let replica = open(dir);
        let chain = Chain::resume(LOG, replica.stamp().position);
        Self { replica, chain, log: Vec::new(), random: Random::new(seed) }
    }

    /// Sets so many rows of so many random bytes, in one record, and flushes where told to.
    fn grow(&mut self, rows: usize, bytes: usize, flushes: bool) {
        let n = self.chain.position().lsn.next().0;
        let value = |random: &mut Random| -> Vec<u8> {
            (0..bytes).map(|_| random.next_u64().to_le_bytes()[0]).collect()
        };
        let set = |random: &mut Random| {
            let key = format!("key-{}", random.below(10_000));
            let parts = [b"SET".to_vec(), key.into_bytes(), value(random)];
            Operation::Command(Argv::of(&parts)).encode()
        };
        let item = Item::Operations {
            session: SessionId(n),
            first: 1,
            acked: 0,
            stamp_ms: 1_700_000_000_000 + n,
            payloads: (0..rows).map(|_| set(&mut self.random)).collect(),
        };
        let record = Record {
            partition: ID,
            version: 1,
            lead: LeadStamp { lead: LeadId(5), epoch: 1, n },
            stamp_ms: 1_700_000_000_000 + n,
            anchor: self.chain.anchor(),
            items: vec![item],
        };
        let checksum = record::checksum(&record.encode()).unwrap();
        let lsn = self.chain.position().lsn.next();
        let position = self.chain.advance(lsn, checksum, record.stamp_ms, &record.anchor).unwrap();
        self.replica.apply(position, &record, OverBudget::Refuse, &mut ()).unwrap();
        self.log.push((position, record));
        if flushes {
            self.replica.store().flush().unwrap();
        }
    }

    fn digest(&self) -> u64 {
        self.replica.digest().unwrap()
    }
}

/// How often something happens to a question or its answer, each of 0 to 1.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    /// The question never arrives.
    unreachable: f64,
    /// It is carried out, and the answer is lost.
    lost: f64,
    /// The answer ends early.
    cut: f64,
    /// A bit of the answer is another.
    damaged: f64,
    /// A bit of the question is another.
    garbled: f64,
    /// The answer takes longer than others.
    late: f64,
    /// The source is started anew before it answers.
    restarted: f64,
}

/// What the network has seen.
#[derive(Default)]
struct Seen {
    /// Questions for chunks.
    asked: AtomicUsize,
    /// Bytes of chunks in whole answers.
    bytes: AtomicU64,
    under_way: AtomicUsize,
    under_way_max: AtomicUsize,
    /// Chunks under way of each file, and the most that ever were of one.
    of_file: Mutex<HashMap<u32, usize>>,
    of_file_max: AtomicUsize,
    opened: AtomicUsize,
    /// Questions for checksums.
    checksums: AtomicUsize,
    /// All questions.
    calls: AtomicUsize,
}

/// Changes an answer, and says whether it did.
type Alter = fn(&mut Reply) -> bool;

struct Inner {
    data: tempfile::TempDir,
    store: Store,
    checkpoints: Mutex<Arc<Checkpoints>>,
    starts: AtomicU64,
    random: Mutex<Random>,
    faults: Mutex<Faults>,
    /// Chunks that are answered before no answer comes any more.
    answers_left: AtomicUsize,
    delay: Mutex<Duration>,
    /// Alters one answer.
    alter: Mutex<Option<Alter>>,
    /// The source knows no questions that came later than those of its version.
    is_old: Mutex<bool>,
    /// The source is of another cluster than the target.
    is_abroad: Mutex<bool>,
    /// The source has no partition open yet.
    is_starting: Mutex<bool>,
    seen: Seen,
}

fn is_new(question: &Question) -> bool {
    use Question::{CopyChunk, FileChecksums, OpenCopy, PackedChunk};
    matches!(
        question,
        OpenCopy { .. } | CopyChunk { .. } | FileChecksums { .. } | PackedChunk { .. }
    )
}

/// The file that a chunk is asked of.
fn file_of(question: &Bytes) -> Option<u32> {
    match crate::wire::decode::<Envelope>(question).ok()?.question {
        Question::CopyChunk { file, .. } | Question::PackedChunk { file, .. } => Some(file),
        _ => None,
    }
}

/// A network with one node in it, the source.
#[derive(Clone)]
struct Network(Arc<Inner>);

impl Network {
    fn new(store: &Store, seed: u64) -> Self {
        let data = tempfile::tempdir().unwrap();
        let checkpoints =
            Arc::new(Checkpoints::new(&World::of_the_machine(), data.path()).unwrap());
        Self(Arc::new(Inner {
            data,
            store: store.clone(),
            checkpoints: Mutex::new(checkpoints),
            starts: AtomicU64::new(0),
            random: Mutex::new(Random::new(seed)),
            faults: Mutex::default(),
            answers_left: AtomicUsize::new(usize::MAX),
            delay: Mutex::default(),
            alter: Mutex::default(),
            is_old: Mutex::default(),
            is_abroad: Mutex::default(),
            is_starting: Mutex::default(),
            seen: Seen::default(),
        }))
    }

    fn link(&self) -> Link {
        let peers: Arc<dyn Peers> = Arc::new(self.clone());
        Link::new(peers, ("target", "source:1"), LOG, Time::of_the_machine())
    }

    /// Starts the source anew: it knows nothing of its checkpoints.
    fn restart(&self) {
        let run = self.0.starts.fetch_add(1, Ordering::Relaxed);
        let dir = self.0.data.path().join(format!("run-{run}"));
        std::fs::create_dir(&dir).unwrap();
        *self.0.checkpoints.lock() =
            Arc::new(Checkpoints::new(&World::of_the_machine(), &dir).unwrap());
    }

    fn seen(&self) -> &Seen {
        &self.0.seen
    }

    /// Bytes of chunks that were answered since the last call.
    fn take_bytes(&self) -> u64 {
        self.0.seen.bytes.swap(0, Ordering::Relaxed)
    }

    fn happens(&self, part: f64) -> bool {
        self.0.random.lock().unit() < part
    }

    fn damage(&self, bytes: Bytes) -> Bytes {
        let mut bytes = bytes.to_vec();
        let mut random = self.0.random.lock();
        let at = random.below(bytes.len());
        // One that was cut may be empty.
        bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8));
        bytes.into()
    }

    async fn carry(&self, mut question: Bytes) -> Result<Bytes, CallError> {
        let faults = *self.0.faults.lock();
        self.seen().calls.fetch_add(1, Ordering::Relaxed);
        if self.happens(faults.unreachable) {
            return Err(CallError::Unreachable("refused".to_owned()));
        }
        if self.happens(faults.garbled) {
            question = self.damage(question);
        }
        let asked = crate::wire::decode::<Envelope>(&question);
        let is_chunk = asked.as_ref().is_ok_and(|it| {
            use Question::{Chunk, CopyChunk, PackedChunk};
            matches!(it.question, Chunk { .. } | CopyChunk { .. } | PackedChunk { .. })
        });
        if is_chunk {
            self.0.seen.asked.fetch_add(1, Ordering::Relaxed);
            let left = |left: usize| Some(left.saturating_sub(1));
            let before =
                self.0.answers_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
            if before == Ok(0) {
                std::future::pending::<()>().await;
            }
        }
        if self.happens(faults.restarted) {
            self.restart();
        }
        let mut reply = match asked {
            Ok(envelope) if *self.0.is_old.lock() && is_new(&envelope.question) => {
                let message = "a node's message cannot be read: of a later version".to_owned();
                Reply::Problem(Problem::Row { kind: ErrorKind::General, message })
            }
            Ok(envelope) => {
                let question = &envelope.question;
                if matches!(question, Question::OpenCheckpoint { .. } | Question::OpenCopy { .. }) {
                    self.0.seen.opened.fetch_add(1, Ordering::Relaxed);
                }
                if matches!(question, Question::FileChecksums { .. }) {
                    self.0.seen.checksums.fetch_add(1, Ordering::Relaxed);
                }
                let checkpoints = Arc::clone(&self.0.checkpoints.lock());
                let is_starting = *self.0.is_starting.lock();
                let find = |id| (id == ID && !is_starting).then(|| rows_of(&self.0.store));
                let from = envelope.from.as_str();
                let is_abroad = *self.0.is_abroad.lock();
                let answer = match is_abroad {
                    true => checkpoints.answer_follower(from, question, 1_000, find).await,
                    false => checkpoints.answer(from, question, find).await,
                };
                answer.unwrap_or(Reply::Done)
            }
            Err(problem) => Reply::Problem(problem),
        };
        if let Reply::Chunk { bytes, .. }
        | Reply::CopyChunk { bytes, .. }
        | Reply::PackedChunk { bytes, .. } = &reply
        {
            self.0.seen.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        self.0.alter.lock().take_if(|alter| alter(&mut reply));
        let mut answer = crate::wire::encode_answer(reply, crate::wire::Told::default());
        let delay = *self.0.delay.lock();
        if self.happens(faults.late) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        } else if delay > Duration::ZERO {
            tokio::time::sleep(delay).await;
        }
        if self.happens(faults.lost) {
            return Err(CallError::TimedOut);
        }
        if self.happens(faults.cut) {
            answer.truncate(self.0.random.lock().below(answer.len()));
        }
        Ok(if self.happens(faults.damaged) { self.damage(answer) } else { answer })
    }
}

impl Peers for Network {
    fn call(&self, _: &str, question: Bytes, _: Duration) -> Call {
        /// A call that is over, answered or given up.
        struct Over(Network, Option<u32>);
        impl Drop for Over {
            fn drop(&mut self) {
                self.0.seen().under_way.fetch_sub(1, Ordering::Relaxed);
                if let Some(file) = self.1 {
                    *self.0.seen().of_file.lock().entry(file).or_default() -= 1;
                }
            }
        }
        let (network, file) = (self.clone(), file_of(&question));
        Box::pin(async move {
            if let Some(file) = file {
                let mut of_file = network.seen().of_file.lock();
                let count = of_file.entry(file).or_default();
                *count += 1;
                network.seen().of_file_max.fetch_max(*count, Ordering::Relaxed);
            }
            let under_way = network.seen().under_way.fetch_add(1, Ordering::Relaxed) + 1;
            network.seen().under_way_max.fetch_max(under_way, Ordering::Relaxed);
            let _over = Over(network.clone(), file);
            network.carry(question).await
        })
    }
}

/// The node that is copied to.
struct Target {
    dir: tempfile::TempDir,
    folders: Folders,
    recoveries: Recoveries,
}

impl Target {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folders = Folders::of(&Disk::of_the_machine(), dir.path(), ID);
        Self { dir, folders, recoveries: Recoveries::new("target", &World::of_the_machine()) }
    }

    /// Begins a copy, once what an earlier one had under way has ended.
    async fn begin(&self) -> Arc<Recovery> {
        loop {
            match self.recoveries.begin(ID, "source") {
                Ok(recovery) => return recovery,
                Err(AlreadyRunning(ID)) => tokio::task::yield_now().await,
                Err(other) => panic!("{other}"),
            }
        }
    }

    async fn copy(&self, network: &Network, options: &CopyOptions) -> Result<Copied, CopyError> {
        let recovery = self.begin().await;
        copy(&network.link(), ID, &self.folders, options, &recovery).await
    }

    /// Copies and puts the copy in its place.
    async fn recover(&self, network: &Network, options: &CopyOptions) -> Replica {
        let copied = self.copy(network, options).await.unwrap();
        copied.install(&resources(), LOG, false).unwrap();
        open(&self.folders.replica)
    }

    /// What is told about the last copy.
    fn status(&self) -> RecoveryStatus {
        self.recoveries.all().pop().unwrap()
    }

    /// Bytes in files and parts that are not whole.
    fn incoming_bytes(&self) -> u64 {
        files(&self.folders.incoming).values().map(|(bytes, _)| *bytes).sum()
    }
}

/// Length and checksum of each file in a folder, where there is one.
fn files(dir: &Path) -> HashMap<PathBuf, (u64, u64)> {
    let Ok(entries) = std::fs::read_dir(dir) else { return HashMap::new() };
    let entries = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let described = entries.map(|path| {
        let (checksum, bytes) =
            Checksum::of_file(&Disk::of_the_machine().open(&path).unwrap()).unwrap();
        (path, (bytes, checksum))
    });
    described.collect()
}

/// Rows without an index.
fn rows_of(store: &Store) -> Subject {
    Subject { store: store.clone(), index: None }
}

/// Small chunks and short pauses.
fn small() -> CopyOptions {
    CopyOptions {
        chunk_bytes_max: 2000,
        chunks_max: 8,
        attempts_max: 6,
        away_max: Duration::ZERO,
        pause_min: Duration::from_micros(100),
        pause_max: Duration::from_millis(1),
        ..CopyOptions::default()
    }
}
