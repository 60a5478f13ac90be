//! The role of an applier: it waits for the log and for commands, and applies record by record.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use plimsoll_base::tasks::Stopping;
use plimsoll_base::time::Instant;
use plimsoll_log::record::Record;
use plimsoll_log::rules::chain::Position;
use plimsoll_log::{Entry, LogError, PartitionId, Reader};
use plimsoll_storage::partition::{Applied, ApplyError, Replica};
use plimsoll_storage::rows::StoreError;
use tokio::sync::mpsc::Receiver;

use super::commands::{Added, ApplierContext, Command, NotAdded};
use super::group::Group;
use super::replies::{Replies, answer, deliver};
use crate::replication::advance::advance;
use crate::replication::lead::Submission;
use crate::replication::partition::{Fault, Partition};
use crate::wire::write_error::WriteError;

/// Bytes read from the log at once: each group that is read may hold so many.
const READ_BYTES_MAX: usize = 2 << 20;
/// How long a replica that could not apply rests before it is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Why a record is not applied to a replica. The partition shows it as its fault.
#[derive(Debug, thiserror::Error)]
enum NotApplied {
    /// It stood still before: the words of its fault.
    #[error("{0}")]
    Faulty(String),
    /// The store failed until the copy was given up, or its applier was told to stop.
    #[error("partition {0} waits: {1}")]
    Waits(PartitionId, #[source] StoreError),
    /// It can go no further.
    #[error("partition {0} stopped: {1}")]
    Stopped(PartitionId, #[source] ApplyError),
}

/// What it is at when it looks for commands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Activity {
    BetweenRecords,
    InRecord,
    /// At nothing any more: the group has stopped.
    Stopped,
}

pub(super) struct Worker {
    context: ApplierContext,
    reader: Box<dyn Reader>,
    group: Group,
    /// Partitions whose lead is to be looked at, and when: it waits for clients to return.
    checks: Vec<(Instant, Arc<Partition>)>,
    commands: Receiver<Command>,
    /// See [`super::Applier::has_left`].
    has_left: Arc<AtomicBool>,
    stopping: Stopping,
}

impl Worker {
    pub(super) fn new(
        context: ApplierContext,
        reader: Box<dyn Reader>,
        group: Group,
        commands: Receiver<Command>,
        has_left: Arc<AtomicBool>,
        stopping: Stopping,
    ) -> Self {
        Self { context, reader, group, checks: Vec::new(), commands, has_left, stopping }
    }

    /// Runs; after a panic, which is a fault of ours, nothing of the group is applied any more, and
    /// that is said.
    pub(super) async fn run_until_stopped(mut self) {
        let run = std::panic::AssertUnwindSafe(self.run());
        if run.catch_unwind().await.is_err() {
            self.halt("apply panicked; the log has what was said").await;
        }
    }

    /// Stops the group; commands are still answered: the node serves reads and can be stopped.
    async fn halt(&mut self, fault: &str) {
        self.group.stop(fault);
        self.obey_until_stopped().await;
    }

    /// Whether it was told to stop, or its owner let go of it.
    fn is_over(&self) -> bool {
        self.stopping.is_told() || self.commands.is_closed()
    }

    async fn obey_until_stopped(&mut self) {
        while let Some(command) = self.command().await {
            self.obey(command, Activity::Stopped).await;
        }
    }

    /// The next command; none once it is to stop.
    async fn command(&mut self) -> Option<Command> {
        tokio::select! {
            biased;
            () = self.stopping.told() => None,
            command = self.commands.recv() => command,
        }
    }

    async fn run(&mut self) {
        let mut entries = Vec::new();
        while !self.is_over() {
            self.obey_waiting(Activity::BetweenRecords).await;
            let check_at = self.check_leads();
            if let Err(error) = self.reader.take(&mut entries, READ_BYTES_MAX) {
                self.cannot_read(&error).await;
            }
            if entries.is_empty() {
                self.rest(check_at).await;
            }
            for entry in entries.drain(..) {
                self.apply(&entry).await;
            }
        }
    }

    /// Waits for the log, a command, or the time at which a lead is to be looked at.
    async fn rest(&mut self, check_at: Option<Instant>) {
        let time = &self.context.world.time;
        let is_due = async {
            match check_at {
                Some(at) => time.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let command = tokio::select! {
            biased;
            () = self.stopping.told() => return,
            command = self.commands.recv() => command,
            () = poll_fn(|context| self.reader.poll_ready(context)) => return,
            () = is_due => return,
        };
        if let Some(command) = command {
            self.obey(command, Activity::BetweenRecords).await;
        }
    }

    async fn cannot_read(&mut self, error: &LogError) {
        if let LogError::Trimmed { group, asked, .. } = error
            && self.context.log.bounds(*group).is_ok_and(|bounds| bounds.first > *asked)
        {
            // It brings nothing forward: whoever wants the group read begins where the log does.
            if self.group.partitions.is_empty() {
                tracing::info!(%error, "the log went on while nothing was applied of it here");
                self.has_left.store(true, Ordering::Relaxed);
                return self.obey_until_stopped().await;
            }
            // Not a hole, which every node would meet again.
            self.context.reopening.tell(&error.to_string());
        }
        self.halt(&format!("the log cannot be read: {error}")).await;
    }

    /// Has leads that waited long enough begin their next record; says when to look again, if at all.
    fn check_leads(&mut self) -> Option<Instant> {
        if self.checks.is_empty() {
            return None;
        }
        let now = self.context.world.time.now();
        self.checks.retain_mut(|(at, partition)| {
            let again = if *at <= now { partition.lead.check(now) } else { Some(*at) };
            *at = again.unwrap_or(*at);
            again.is_some()
        });
        self.checks.iter().map(|(at, _)| *at).min()
    }

    fn check_lead(&mut self, at: Instant, partition: &Arc<Partition>) {
        let same = self.checks.iter_mut().find(|(_, it)| Arc::ptr_eq(it, partition));
        match same {
            Some((found, _)) => *found = at,
            None => self.checks.push((at, Arc::clone(partition))),
        }
    }

    async fn obey_waiting(&mut self, activity: Activity) {
        while !self.is_over()
            && let Ok(command) = self.commands.try_recv()
        {
            self.obey(command, activity).await;
        }
    }

    async fn obey(&mut self, command: Command, activity: Activity) {
        match command {
            Command::Add(_, _, done) if self.has_left.load(Ordering::Relaxed) => {
                let _ = done.send(Added::Refused(NotAdded::GroupLeft));
            }
            // The group may be in the middle of a record.
            Command::Add(replica, _, done) if activity != Activity::BetweenRecords => {
                let _ = done.send(Added::Behind(replica));
            }
            Command::Add(replica, partition, done) => {
                let over = self.context.version.over_budget();
                let by = (&*self.context.log, &self.context.world.time);
                let added = self.group.add(by, replica, partition, over).await;
                // Who asked may be gone; the replica is served all the same.
                let _ = done.send(added);
            }
            // The replica is out of its place: whoever asked tries again.
            Command::Remove(id, _) if activity == Activity::InRecord && self.is_applied(id) => {}
            Command::NoteDocuments(..) | Command::Digest(..)
                if activity != Activity::BetweenRecords => {}
            Command::Remove(id, done) => {
                self.group.remove(id);
                let _ = done.send(());
            }
            Command::NoteDocuments(id, done) => {
                if self.group.note_documents(id) {
                    let _ = done.send(());
                }
            }
            Command::Digest(id, done) => {
                let _ = done.send(self.group.digest(id));
            }
            // A replica is out of its place, so nothing can be said of the group.
            Command::Mark(done) if activity != Activity::BetweenRecords => {
                let _ = done.send(None);
            }
            Command::Mark(done) => {
                let _ = done.send(Some(self.group.mark()));
            }
            Command::Leave(done) => {
                let is_empty = self.group.partitions.is_empty();
                self.has_left.store(is_empty, Ordering::Relaxed);
                let _ = done.send(is_empty.then(|| self.group.mark()));
            }
        }
    }

    /// Whether a record is being applied to this replica.
    fn is_applied(&self, id: PartitionId) -> bool {
        let group = &self.group;
        group.partitions.iter().any(|it| it.id == id) && !group.replicas.contains_key(&id)
    }

    async fn apply(&mut self, entry: &Entry) {
        let group = &mut self.group;
        if group.fault.is_some() {
            return;
        }
        let (record, position) = match advance(&mut group.chain, entry) {
            Ok(advanced) => advanced,
            Err(fault) => return group.stop(&format!("log group {}: {fault}", group.id)),
        };
        group.last.saw(record.partition, position.lsn);
        if let Some((mut replica, partition)) = group.replicas.remove(&record.partition) {
            group.tail.begin(position.lsn);
            let submissions = partition.lead.take(&record.lead).unwrap_or_default();
            let done =
                self.apply_until_done(&mut replica, &partition, position, &record, submissions);
            if let Err(fault) = done.await
                && !self.is_over()
            {
                partition.halt(&fault.to_string());
            }
            self.group.replicas.insert(record.partition, (replica, partition));
        }
        self.context.applied_bytes.fetch_add(entry.record.len() as u64, Ordering::Relaxed);
        self.group.publish();
    }

    fn partitions_that_are_well(&self) -> Vec<Arc<Partition>> {
        let partitions = self.group.partitions.iter();
        partitions.filter(|partition| partition.fault().is_none()).cloned().collect()
    }

    /// Applies, trying again while the store fails; commands are obeyed meanwhile.
    async fn apply_until_done(
        &mut self,
        replica: &mut Replica,
        partition: &Arc<Partition>,
        position: Position,
        record: &Record,
        submissions: Vec<Submission>,
    ) -> Result<(), NotApplied> {
        if let Some(fault) = partition.fault() {
            submissions.into_iter().for_each(|it| answer(it, Err(WriteError::Unknown)));
            return Err(NotApplied::Faulty(fault));
        }
        // Those that were well and wait with this one, because they are in its group.
        let mut waiting: Vec<Arc<Partition>> = Vec::new();
        loop {
            let chance = &self.context.chance;
            let mut replies = Replies::new(&submissions, position.log_time_ms, chance);
            match replica.apply(position, record, self.context.version.over_budget(), &mut replies)
            {
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
                    let fault = NotApplied::Waits(replica.id(), error);
                    if waiting.is_empty() {
                        tracing::error!(%fault, "apply is stopped");
                        waiting = self.partitions_that_are_well();
                        let waits = Fault::Waits(fault.to_string());
                        waiting.iter().for_each(|it| it.set_fault(Some(waits.clone())));
                    }
                    drop(replies);
                    self.obey_waiting(Activity::InRecord).await;
                    // What waits stays so: the record is not applied, and nothing after it may be.
                    if self.is_over() {
                        return Err(fault);
                    }
                    // The copy is given up meanwhile, and with its files there may be room for the others.
                    if partition.has_ended() {
                        waiting.iter().for_each(|it| it.set_fault(None));
                        return Err(fault);
                    }
                    self.context.world.time.sleep(RETRY_INTERVAL).await;
                }
                Err(error) => {
                    match &error {
                        ApplyError::OverBudget(_) => self.context.version.stopped_a_partition(),
                        ApplyError::Store(error) => partition.note(error),
                        _ => {}
                    }
                    let fault = NotApplied::Stopped(replica.id(), error);
                    tracing::error!(%fault, "apply stops");
                    submissions.into_iter().for_each(|it| answer(it, Err(WriteError::Unknown)));
                    return Err(fault);
                }
            }
        }
    }
}
