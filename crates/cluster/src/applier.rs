//! The applier: one thread that reads its groups' log in order, keeps each group's chain, and
//! brings the replicas forward. It answers the clients whose records it applies.
//!
//! A replica that cannot go on (a full disk) holds its thread at that record, named in its
//! fault, and is tried again; a chain fault stops the group for good.

mod replies;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use plimsoll_log::record::{self, Record};
use plimsoll_log::rules::chain::{Chain, Position};
use plimsoll_log::{Entry, GroupId, Log, LogError, Lsn, PartitionId, Reader};
use plimsoll_storage::partition::{Applied, ApplyError, OverBudget, Replica};
use tokio::sync::oneshot;

use crate::catch_up::{CatchUp, CatchUpError};
use crate::digest::Digest;
use crate::fell_behind::FellBehind;
use crate::lead::Submission;
use crate::partition::{Fault, Partition};
use crate::tail::{GroupTail, Tail};
use crate::trimming::LastRecords;
use crate::version::ClusterVersion;
use crate::write_error::WriteError;
use replies::{Replies, answer, deliver};

/// Bytes read from the log at once.
const READ_BYTES_MAX: usize = 8 << 20;
/// How long the thread waits for the log before it looks for commands.
const READ_TIMEOUT: Duration = Duration::from_millis(50);
/// How long a replica that could not apply rests before it is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// How many positions a new replica may lack for its applier to make up for them itself.
const GAP_RECORDS_MAX: u64 = 1024;
/// Commands that may wait for the thread.
const COMMANDS_MAX: usize = 64;

/// What is asked of an applier beside the log.
enum Command {
    Add(Box<Replica>, Arc<Partition>, GroupId, oneshot::Sender<Added>),
    Remove(PartitionId, GroupId, oneshot::Sender<()>),
    NoteDocuments(PartitionId, GroupId, oneshot::Sender<()>),
    Digest(PartitionId, GroupId, oneshot::Sender<Result<Digest, String>>),
    Mark(GroupId, SyncSender<Option<Mark>>),
    Stop,
}

/// What became of a replica that was handed to an applier.
pub(crate) enum Added {
    /// It is served.
    Served,
    /// It is too far behind the group to be brought forward in passing.
    Behind(Box<Replica>),
    /// It cannot be served; says why.
    Refused(String),
}

/// How far one group is: what may be trimmed once the stores are flushed.
pub(crate) struct Mark {
    /// The position of the group's chain.
    pub position: Position,
    /// Each replica's partition and the position that its stamp names.
    pub replicas: Vec<(Arc<Partition>, Position)>,
    /// Where the last records up to the position are.
    pub last: LastRecords,
}

/// The handle of an applier's thread.
pub(crate) struct Applier {
    commands: SyncSender<Command>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A group as its applier begins with it.
pub(crate) struct GroupStart {
    pub group: GroupId,
    pub chain: Chain,
    pub tail: Arc<GroupTail>,
    pub replicas: Vec<(Replica, Arc<Partition>)>,
    /// What was seen of the group before, or that nothing was.
    pub last: LastRecords,
}

impl Applier {
    /// Starts the thread; it reads each group from after its chain on.
    pub(crate) fn start(
        log: &Arc<dyn Log>,
        groups: Vec<GroupStart>,
        applied_bytes: &Arc<AtomicU64>,
        version: &Arc<ClusterVersion>,
        fell_behind: &FellBehind,
    ) -> Result<Self, LogError> {
        let positions: Vec<(GroupId, Lsn)> =
            groups.iter().map(|start| (start.group, start.chain.position().lsn.next())).collect();
        let reader = log.read(&positions)?;
        let (commands, received) = sync_channel(COMMANDS_MAX);
        let groups = groups.into_iter().map(|start| (start.group, Group::new(start))).collect();
        let checks = Vec::new();
        let worker = Worker {
            log: Arc::clone(log),
            reader,
            groups,
            checks,
            commands: received,
            applied_bytes: Arc::clone(applied_bytes),
            version: Arc::clone(version),
            fell_behind: fell_behind.clone(),
            is_stopping: false,
        };
        let run = move || worker.run_until_stopped();
        let thread = std::thread::Builder::new().name("apply".to_owned()).spawn(run);
        let thread = thread.map_err(|error| LogError::Failed(error.to_string()))?;
        Ok(Self { commands, thread: Mutex::new(Some(thread)) })
    }

    /// Hands a replica to the thread, and waits until it is served or given back.
    pub(crate) async fn add(
        &self,
        replica: Box<Replica>,
        partition: Arc<Partition>,
        group: GroupId,
    ) -> Added {
        let (done, added) = oneshot::channel();
        let stopping = || Added::Refused("the node is stopping".to_owned());
        match self.commands.try_send(Command::Add(replica, partition, group, done)) {
            Ok(()) => added.await.unwrap_or_else(|_| stopping()),
            Err(TrySendError::Full(Command::Add(replica, ..))) => Added::Behind(replica),
            Err(_) => stopping(),
        }
    }

    /// Takes a replica out: what the log still holds for it is passed over.
    pub(crate) async fn remove(&self, id: PartitionId, group: GroupId) -> bool {
        let (done, removed) = oneshot::channel();
        self.commands.try_send(Command::Remove(id, group, done)).is_ok() && removed.await.is_ok()
    }

    /// Has a replica note which documents change from now on.
    pub(crate) async fn note_documents(&self, id: PartitionId, group: GroupId) -> bool {
        let (done, noting) = oneshot::channel();
        let command = Command::NoteDocuments(id, group, done);
        self.commands.try_send(command).is_ok() && noting.await.is_ok()
    }

    /// What a replica contains at the position that its group has then.
    pub(crate) async fn digest(&self, id: PartitionId, group: GroupId) -> Result<Digest, String> {
        let (done, told) = oneshot::channel();
        self.commands
            .try_send(Command::Digest(id, group, done))
            .map_err(|_| "the apply thread has no time for it".to_owned())?;
        told.await.unwrap_or_else(|_| Err("apply waits".to_owned()))
    }

    /// Stamps every replica of a group, and says where they stand; none where that cannot be said now.
    /// Blocks.
    pub(crate) fn mark(&self, group: GroupId) -> Option<Mark> {
        let (done, marked) = sync_channel(1);
        self.commands.send(Command::Mark(group, done)).ok()?;
        marked.recv().ok()?
    }

    /// Ends the thread after what it is doing. Blocks.
    pub(crate) fn stop(&self) {
        // A thread that is gone has stopped.
        let _ = self.commands.send(Command::Stop);
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("an apply thread panicked");
        }
    }
}

struct Group {
    group: GroupId,
    chain: Chain,
    tail: Arc<GroupTail>,
    replicas: HashMap<PartitionId, (Replica, Arc<Partition>)>,
    /// The partitions of all replicas, also of one that is out of its place for apply.
    partitions: Vec<Arc<Partition>>,
    last: LastRecords,
    fault: Option<String>,
}

impl Group {
    fn new(start: GroupStart) -> Self {
        let partitions =
            start.replicas.iter().map(|(_, partition)| Arc::clone(partition)).collect();
        let replicas = start
            .replicas
            .into_iter()
            .map(|(replica, partition)| (replica.id(), (replica, partition)));
        let group = Self {
            group: start.group,
            chain: start.chain,
            tail: start.tail,
            replicas: replicas.collect(),
            partitions,
            last: start.last,
            fault: None,
        };
        group.publish();
        group
    }

    /// Takes a replica in: from here on every mark includes it. What it lacks of the log is made
    /// up for now, where that is little.
    fn add(
        &mut self,
        log: &dyn Log,
        mut replica: Box<Replica>,
        partition: Arc<Partition>,
        over: OverBudget,
    ) -> Added {
        let (held, position) = (replica.stamp().position, self.chain.position());
        if position.lsn.0.saturating_sub(held.lsn.0) > GAP_RECORDS_MAX {
            return Added::Behind(replica);
        }
        if held.lsn < position.lsn {
            let id = self.group;
            let caught_up = CatchUp::begin(log, id, &replica)
                .and_then(|mut it| it.run(&mut replica, position.lsn, over, &|| false));
            match caught_up {
                Ok(()) => {}
                // Whoever brings it forward finds that out and has it copied.
                Err(CatchUpError::Trimmed(_)) => return Added::Behind(replica),
                Err(error) => return Added::Refused(error.to_string()),
            }
        }
        if let Err(error) = replica.mark() {
            return Added::Refused(format!("it cannot be stamped: {error}"));
        }
        partition.counted(&replica.stamp(), replica.log_time_ms());
        if let Some(fault) = &self.fault {
            partition.halt(fault);
        }
        self.partitions.push(Arc::clone(&partition));
        self.replicas.insert(replica.id(), (*replica, partition));
        Added::Served
    }

    fn remove(&mut self, id: PartitionId) {
        self.replicas.remove(&id);
        self.partitions.retain(|partition| partition.id != id);
    }

    fn note_documents(&mut self, id: PartitionId) -> bool {
        let Some((replica, _)) = self.replicas.get_mut(&id) else { return false };
        let noted = replica.set_documents(true);
        noted.inspect_err(|error| tracing::error!(partition = %id, %error, "not indexed")).is_ok()
    }

    fn digest(&mut self, id: PartitionId) -> Result<Digest, String> {
        let position = self.chain.position();
        let (replica, partition) = self
            .replicas
            .get_mut(&id)
            .ok_or_else(|| "the node does not serve the partition".to_owned())?;
        if let Some(fault) = partition.fault() {
            return Err(fault);
        }
        // Nothing of it is between its last record and here: all copies can say so.
        replica.pass(position);
        let digests = replica.digests().map_err(|error| error.to_string())?;
        let (digest, content) = (digests.of_all, Some(digests.of_content));
        Ok(Digest { lsn: position.lsn.0, hash: position.hash, digest, content })
    }

    fn publish(&self) {
        let log_time_ms = self.chain.position().log_time_ms;
        self.tail.publish(Tail { anchor: self.chain.anchor(), log_time_ms });
    }

    fn stop(&mut self, fault: &str) {
        tracing::error!(fault, "apply of a log group stops");
        for partition in &self.partitions {
            partition.halt(fault);
        }
        self.fault = Some(fault.to_owned());
        self.tail.stop();
    }
}

/// What the thread is at when it looks for commands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Activity {
    BetweenRecords,
    InRecord,
}

struct Worker {
    log: Arc<dyn Log>,
    reader: Box<dyn Reader>,
    groups: HashMap<GroupId, Group>,
    /// Partitions whose lead is to be looked at, and when: it waits for clients to return.
    checks: Vec<(Instant, Arc<Partition>)>,
    commands: Receiver<Command>,
    /// Bytes of records that all appliers of the node have taken.
    applied_bytes: Arc<AtomicU64>,
    version: Arc<ClusterVersion>,
    fell_behind: FellBehind,
    is_stopping: bool,
}

impl Worker {
    /// Runs; after a panic, which is a fault of ours, nothing of the thread's groups is applied
    /// any more, and that is said.
    fn run_until_stopped(mut self) {
        let run = std::panic::AssertUnwindSafe(|| self.run());
        if std::panic::catch_unwind(run).is_err() {
            self.stop_all("apply panicked; the log has what was said");
        }
    }

    /// Stops all groups; commands are still answered: the node serves reads and can be stopped.
    fn stop_all(&mut self, fault: &str) {
        self.groups.values_mut().for_each(|group| group.stop(fault));
        while !self.is_stopping {
            self.obey(Activity::InRecord);
            std::thread::sleep(READ_TIMEOUT);
        }
    }

    fn run(&mut self) {
        let mut entries = Vec::new();
        while !self.is_stopping {
            self.obey(Activity::BetweenRecords);
            let timeout = self.check_leads();
            if let Err(error) = self.reader.next(&mut entries, READ_BYTES_MAX, timeout) {
                if let LogError::Trimmed { group, asked, .. } = &error
                    && self.log.bounds(*group).is_ok_and(|bounds| bounds.first > *asked)
                {
                    // Not a hole, which every node would meet again.
                    self.fell_behind.tell(&error.to_string());
                }
                self.stop_all(&format!("the log cannot be read: {error}"));
            }
            for entry in entries.drain(..) {
                self.apply(&entry);
            }
        }
    }

    /// Has leads that waited long enough begin their next record; says for how long the log may
    /// be waited for.
    fn check_leads(&mut self) -> Duration {
        if self.checks.is_empty() {
            return READ_TIMEOUT;
        }
        let now = Instant::now();
        self.checks.retain_mut(|(at, partition)| {
            let again = if *at <= now { partition.lead.check(now) } else { Some(*at) };
            *at = again.unwrap_or(*at);
            again.is_some()
        });
        let next = self.checks.iter().map(|(at, _)| *at - now).min();
        next.map_or(READ_TIMEOUT, |wait| wait.min(READ_TIMEOUT))
    }

    fn check_lead(&mut self, at: Instant, partition: &Arc<Partition>) {
        let same = self.checks.iter_mut().find(|(_, it)| Arc::ptr_eq(it, partition));
        match same {
            Some((found, _)) => *found = at,
            None => self.checks.push((at, Arc::clone(partition))),
        }
    }

    fn obey(&mut self, activity: Activity) {
        loop {
            match self.commands.try_recv() {
                // Its group may be in the middle of a record.
                Ok(Command::Add(replica, _, _, done)) if activity == Activity::InRecord => {
                    let _ = done.send(Added::Behind(replica));
                }
                Ok(Command::Add(replica, partition, group, done)) => {
                    let added = match self.groups.get_mut(&group) {
                        Some(group) => {
                            group.add(&*self.log, replica, partition, self.version.over_budget())
                        }
                        None => Added::Refused(format!("the log has no group {group}")),
                    };
                    // Who asked may be gone; the replica is served all the same.
                    let _ = done.send(added);
                }
                // The replica may be out of its place: whoever asked tries again.
                Ok(Command::Remove(..) | Command::NoteDocuments(..) | Command::Digest(..))
                    if activity == Activity::InRecord => {}
                Ok(Command::Remove(id, group, done)) => {
                    if let Some(group) = self.groups.get_mut(&group) {
                        group.remove(id);
                        let _ = done.send(());
                    }
                }
                Ok(Command::NoteDocuments(id, group, done)) => {
                    if let Some(group) = self.groups.get_mut(&group)
                        && group.note_documents(id)
                    {
                        let _ = done.send(());
                    }
                }
                Ok(Command::Digest(id, group, done)) => {
                    let digest = match self.groups.get_mut(&group) {
                        Some(group) => group.digest(id),
                        None => Err(format!("the log has no group {group}")),
                    };
                    let _ = done.send(digest);
                }
                // A replica is out of its place, so nothing can be said of its group.
                Ok(Command::Mark(_, done)) if activity == Activity::InRecord => {
                    let _ = done.send(None);
                }
                Ok(Command::Mark(id, done)) => {
                    let _ = done.send(self.groups.get_mut(&id).map(mark));
                }
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => {
                    self.is_stopping = true;
                    return;
                }
                Err(TryRecvError::Empty) => return,
            }
        }
    }

    fn apply(&mut self, entry: &Entry) {
        let Some(group) = self.groups.get_mut(&entry.group) else { return };
        if group.fault.is_some() {
            return;
        }
        let (record, position) = match advance(&mut group.chain, entry) {
            Ok(advanced) => advanced,
            Err(fault) => return group.stop(&format!("log group {}: {fault}", entry.group)),
        };
        group.last.saw(record.partition, position.lsn);
        if let Some((mut replica, partition)) = group.replicas.remove(&record.partition) {
            group.tail.begin(position.lsn);
            let submissions = partition.lead.take(&record.lead).unwrap_or_default();
            let done =
                self.apply_until_done(&mut replica, &partition, position, &record, submissions);
            if let Err(fault) = done
                && !self.is_stopping
            {
                partition.halt(&fault);
            }
            if let Some(group) = self.groups.get_mut(&entry.group) {
                group.replicas.insert(record.partition, (replica, partition));
            }
        }
        self.applied_bytes.fetch_add(entry.record.len() as u64, Ordering::Relaxed);
        if let Some(group) = self.groups.get(&entry.group) {
            group.publish();
        }
    }

    fn partitions_that_are_well(&self) -> Vec<Arc<Partition>> {
        let partitions = self.groups.values().flat_map(|group| &group.partitions);
        partitions.filter(|partition| partition.fault().is_none()).cloned().collect()
    }

    /// Applies, trying again while the store fails; commands are obeyed meanwhile.
    fn apply_until_done(
        &mut self,
        replica: &mut Replica,
        partition: &Arc<Partition>,
        position: Position,
        record: &Record,
        submissions: Vec<Submission>,
    ) -> Result<(), String> {
        if let Some(fault) = partition.fault() {
            submissions.into_iter().for_each(|it| answer(it, Err(WriteError::Unknown)));
            return Err(fault);
        }
        // Those that were well and wait with this one, because they share its thread.
        let mut waiting: Vec<Arc<Partition>> = Vec::new();
        loop {
            let mut replies = Replies::new(&submissions, position.log_time_ms);
            match replica.apply(position, record, self.version.over_budget(), &mut replies) {
                Ok(applied) => {
                    // Before the answers: who has one may count at once.
                    partition.counted(&replica.stamp(), replica.log_time_ms());
                    if matches!(applied, Applied::Passed(_)) {
                        partition.lead.passed(&record.lead);
                    }
                    let operations = submissions.iter().map(|it| it.steps.len()).sum();
                    partition.lead.learn(operations, replica.shared_permille());
                    let check_at = partition.lead.answering(submissions.len());
                    let (done, unsettled) = replies.into_parts();
                    deliver(applied, submissions, done, unsettled);
                    if let Some(at) = check_at {
                        self.check_lead(at, partition);
                    }
                    for partition in waiting {
                        tracing::info!(partition = %partition.id, "apply goes on");
                        partition.set_fault(None);
                    }
                    return Ok(());
                }
                Err(ApplyError::Store(error)) if !error.is_final() => {
                    let fault = format!("partition {} waits: {error}", replica.id());
                    if waiting.is_empty() {
                        tracing::error!(fault, "apply is stopped");
                        waiting = self.partitions_that_are_well();
                        let waits = Fault::Waits(fault.clone());
                        waiting.iter().for_each(|it| it.set_fault(Some(waits.clone())));
                    }
                    self.obey(Activity::InRecord);
                    if self.is_stopping {
                        return Err(fault);
                    }
                    std::thread::sleep(RETRY_INTERVAL);
                }
                Err(error) => {
                    match &error {
                        ApplyError::OverBudget(_) => self.version.stopped_a_partition(),
                        ApplyError::Store(error) => partition.note(error),
                        _ => {}
                    }
                    let fault = format!("partition {} stopped: {error}", replica.id());
                    tracing::error!(fault, "apply stops");
                    submissions.into_iter().for_each(|it| answer(it, Err(WriteError::Unknown)));
                    return Err(fault);
                }
            }
        }
    }
}

fn mark(group: &mut Group) -> Mark {
    let position = group.chain.position();
    let mut replicas = Vec::new();
    for (replica, partition) in group.replicas.values_mut() {
        // A partition that has stopped stays where it is, and keeps its part of the log.
        if partition.fault().is_none() {
            replica.pass(position);
        }
        match replica.mark() {
            Ok(position) => replicas.push((Arc::clone(partition), position)),
            Err(error) => {
                tracing::warn!(partition = %replica.id(), %error, "a replica cannot be stamped");
                let unmoved = Position { lsn: Lsn(0), hash: 0, log_time_ms: 0 };
                replicas.push((Arc::clone(partition), unmoved));
            }
        }
    }
    Mark { position, replicas, last: group.last.clone() }
}

/// Decodes a record and takes it into the chain.
pub(crate) fn advance(chain: &mut Chain, entry: &Entry) -> Result<(Record, Position), String> {
    let describe = |error: record::RecordError| format!("record {}: {error}", entry.lsn);
    let record = Record::decode(&entry.record).map_err(describe)?;
    let checksum = record::checksum(&entry.record).map_err(describe)?;
    let position = chain
        .advance(entry.lsn, checksum, record.stamp_ms, &record.anchor)
        .map_err(|fault| fault.to_string())?;
    Ok((record, position))
}
