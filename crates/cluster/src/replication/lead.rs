//! The lead of a partition: many clients' operations become one record. One record at a time is
//! in the log's hands; what arrives meanwhile waits and goes together into the next, so a slow
//! sync makes larger records and not a longer queue. When the next begins is [`Gather`]'s to say.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use plimsoll_base::Time;
use plimsoll_base::time::Instant;
use plimsoll_log::record::{
    Anchor, CARRIED_ITEM_BYTES, CARRIED_RECORD_BYTES, DIFFERENCE_ITEM_BYTES, Item, LeadStamp,
    Record,
};
use plimsoll_log::rules::WINDOW_MS;
use plimsoll_log::rules::chain::Chain;
use plimsoll_log::{AppendError, GroupId, LeadId, Log, Lsn, PartitionId, SessionId};
use plimsoll_storage::operation::cost;
use plimsoll_storage::partition::RECORD_BYTES_MAX;
use plimsoll_storage::{Argv, Reply};
use tokio::sync::oneshot;

use crate::metadata::version::ClusterVersion;
use crate::replication::gather::Gather;
use crate::replication::tail::GroupTail;
use crate::wire::write_error::WriteError;

/// What may wait at one lead for the log and for apply, bytes; beyond it, work is refused.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// What a record takes beside its operations' payloads, at most.
const RECORD_OVERHEAD_BYTES: usize = 1024;
/// What a submission takes in a record beside its payloads.
const SUBMISSION_OVERHEAD_BYTES: usize = 64;
/// What each payload takes beside itself.
const PAYLOAD_OVERHEAD_BYTES: usize = 4;
/// After how long without a record a lead begins a new epoch, ms: replicas forget it after a
/// window.
const IDLE_MS_MAX: u64 = WINDOW_MS / 2;
/// How soon a lead is looked at again at the earliest whose record was applied before the log answered for it:
/// how long appends take is not known at first.
const LATE_MIN: Duration = Duration::from_micros(50);
/// The largest submission, bytes as [`Submission::bytes`] counts them.
pub(crate) const SUBMISSION_BYTES_MAX: usize =
    plimsoll_log::RECORD_BYTES_MAX - RECORD_OVERHEAD_BYTES;

/// What a record takes beside its items, at most.
const RECORD_FIELDS_BYTES: usize = 100;

// The largest record of a leader goes into a record of a follower.
const _: () = assert!(
    2 * RECORD_FIELDS_BYTES + SUBMISSION_OVERHEAD_BYTES + CARRIED_ITEM_BYTES + CARRIED_RECORD_BYTES
        <= RECORD_OVERHEAD_BYTES
);

// So do the most changes of a difference.
const _: () = assert!(
    RECORD_FIELDS_BYTES
        + SUBMISSION_OVERHEAD_BYTES
        + DIFFERENCE_ITEM_BYTES
        + plimsoll_storage::partition::difference::CHANGES_BYTES_MAX
        <= SUBMISSION_BYTES_MAX
);

/// What a submission is answered: one reply for each step, or why none of it can be said to have run.
pub(crate) type Answer = Result<Vec<Reply>, WriteError>;

/// A step of a submission, answered by one reply.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// An operation, encoded.
    Write(Bytes),
    /// A read that is to see the operations before it and none after.
    Read(Argv),
    /// Settles the operation of this number and stamp; answered as `settle.rs` says. It stands
    /// with its like alone.
    Fence { number: u64, stamp_ms: u64 },
    /// A leader's records, as they came, or a difference; answered by the position in the leader's log where the
    /// replica stands then. It stands with its like alone.
    Carry(Item),
}

/// What one client wants done in order, without anything of it seen half done.
pub(crate) struct Submission {
    pub session: SessionId,
    /// The number of the first operation.
    pub first: u64,
    pub acked: u64,
    /// When the coordinator sent it, by its clock, ms since 1970: a fence for it carries the same.
    pub stamp_ms: u64,
    /// The first step is a write; or all are fences, or carry.
    pub steps: Vec<Step>,
    /// Gets one reply for each step, or an error for all of them.
    pub done: oneshot::Sender<Answer>,
}

impl Submission {
    /// The bytes that it will take in a record.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |step: &Step| match step {
            Step::Write(payload) => payload.len() + PAYLOAD_OVERHEAD_BYTES,
            Step::Read(_) => 0,
            Step::Fence { .. } => SUBMISSION_OVERHEAD_BYTES,
            Step::Carry(item) => item.bytes_max(),
        };
        SUBMISSION_OVERHEAD_BYTES + self.steps.iter().map(bytes).sum::<usize>()
    }

    /// The bytes that it will change at least, which may be many more than it takes in a record.
    fn least_bytes(&self) -> u64 {
        let bytes = |step: &Step| match step {
            Step::Write(payload) => cost::least_bytes(payload),
            Step::Read(_) | Step::Fence { .. } | Step::Carry(_) => 0,
        };
        self.steps.iter().map(bytes).fold(0, u64::saturating_add)
    }

    /// How many items of a record it becomes.
    pub(crate) fn items_len(&self) -> usize {
        let is_several = matches!(self.steps.first(), Some(Step::Fence { .. } | Step::Carry(_)));
        if is_several { self.steps.len() } else { 1 }
    }

    fn put_items(&self, items: &mut Vec<Item>) {
        let mut payloads = Vec::new();
        for step in &self.steps {
            match step {
                Step::Write(payload) => payloads.push(payload.clone()),
                Step::Read(_) => {}
                Step::Fence { number, stamp_ms } => items.push(Item::Fence {
                    session: self.session,
                    number: *number,
                    stamp_ms: *stamp_ms,
                }),
                Step::Carry(item) => items.push(item.clone()),
            }
        }
        if !payloads.is_empty() {
            items.push(Item::Operations {
                session: self.session,
                first: self.first,
                acked: self.acked,
                stamp_ms: self.stamp_ms,
                payloads,
            });
        }
    }

    /// Answers that none of it will run.
    fn refuse(self, error: WriteError) {
        // Nobody waits where the client has hung up.
        let _ = self.done.send(Err(error));
    }
}

/// Submissions of a lead, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeadFigures {
    pub waiting: usize,
    pub in_log: usize,
    pub refused: u64,
    pub applied: u64,
}

/// A partition's lead on this node.
pub(crate) struct Lead {
    inner: Arc<Inner>,
}

struct Inner {
    partition: PartitionId,
    group: GroupId,
    id: LeadId,
    log: Arc<dyn Log>,
    version: Arc<ClusterVersion>,
    tail: Arc<GroupTail>,
    time: Time,
    state: Mutex<LeadQueue>,
}

#[derive(Default)]
struct LeadQueue {
    queue: VecDeque<Submission>,
    /// Bytes of what was submitted and not applied yet, in the queue or in `records`.
    waiting_bytes: usize,
    epoch: u32,
    /// The n of the last record made in this epoch.
    n: u64,
    /// The stamp of the last record, ms since 1970.
    stamp_ms: u64,
    /// Whether the log still has to answer for the last record.
    is_appending: bool,
    gather: Gather,
    /// Records that were not applied yet, in their order.
    records: VecDeque<(LeadStamp, Vec<Submission>)>,
    /// Why nothing more is appended: the log is not the one that was read.
    fault: Option<String>,
    /// How many operations the next record takes at most: fewer while the last were heavier than
    /// their bytes say.
    operations_max: usize,
    /// Submissions refused because too much waited, and those whose record was applied.
    refused: u64,
    applied: u64,
}

impl LeadQueue {
    /// Takes a record's submissions out.
    fn remove(&mut self, stamp: &LeadStamp) -> Option<Vec<Submission>> {
        let at = self.records.iter().position(|(at, _)| at == stamp)?;
        let (_, submissions) = self.records.remove(at)?;
        self.waiting_bytes -= submissions.iter().map(Submission::bytes).sum::<usize>();
        self.applied += submissions.len() as u64;
        Some(submissions)
    }

    /// When someone must look whether the next record has waited long enough.
    fn check_at(&self, now: Instant) -> Option<Instant> {
        // Applied already, and the log has not answered yet: the wait is about to begin.
        let is_late = self.is_appending && self.records.is_empty();
        self.gather.until().or_else(|| is_late.then(|| now + self.gather.hold().max(LATE_MIN)))
    }

    /// The next record begins a sequence anew.
    fn begin_epoch(&mut self) {
        self.epoch += 1;
        self.n = 0;
    }
}

impl Lead {
    pub(crate) fn new(
        partition: PartitionId,
        group: GroupId,
        id: LeadId,
        (log, version): (Arc<dyn Log>, Arc<ClusterVersion>),
        tail: Arc<GroupTail>,
        time: Time,
    ) -> Self {
        let operations_max = usize::MAX;
        let state = Mutex::new(LeadQueue { epoch: 1, operations_max, ..LeadQueue::default() });
        Self { inner: Arc::new(Inner { partition, group, id, log, version, tail, time, state }) }
    }

    /// Takes a submission, or refuses it at once where too much waits already.
    pub(crate) fn submit(&self, submission: Submission) {
        let bytes = submission.bytes();
        let mut state = self.inner.state.lock();
        if let Some(fault) = &state.fault {
            let fault = fault.clone();
            drop(state);
            submission.refuse(WriteError::NotTaken(fault));
            return;
        }
        if state.waiting_bytes + bytes > WAITING_BYTES_MAX {
            state.refused += 1;
            drop(state);
            submission.refuse(WriteError::not_taken("writes wait for the log"));
            return;
        }
        state.waiting_bytes += bytes;
        state.queue.push_back(submission);
        if state.gather.submitted(self.inner.time.now()) {
            self.inner.append_next(state);
        }
    }

    /// Log time of the group, as far as it was applied here, ms since 1970.
    pub(crate) fn log_time_ms(&self) -> u64 {
        self.inner.tail.get().log_time_ms
    }

    /// What waits, what is in the log's hands, and what was done.
    pub(crate) fn figures(&self) -> LeadFigures {
        let state = self.inner.state.lock();
        LeadFigures {
            waiting: state.queue.len(),
            in_log: state.records.iter().map(|(_, submissions)| submissions.len()).sum(),
            refused: state.refused,
            applied: state.applied,
        }
    }

    /// Learns that so many submissions of a record are about to be answered. Says when to
    /// [`Self::check`], if at all.
    pub(crate) fn answering(&self, count: usize) -> Option<Instant> {
        let now = self.inner.time.now();
        let mut state = self.inner.state.lock();
        state.gather.answered(count, now);
        state.check_at(now)
    }

    /// Learns what a record of so many operations took of what a record's may share, thousandths.
    /// Operations that are heavy by the rows that they meet come fewer to a record then, so that
    /// one does not leave too little for the others.
    pub(crate) fn learn(&self, operations: usize, shared_permille: u64) {
        let mut state = self.inner.state.lock();
        state.operations_max = operations_max(state.operations_max, operations, shared_permille);
    }

    /// Begins the next record if it has waited long enough. Says when to look again, if at all.
    pub(crate) fn check(&self, now: Instant) -> Option<Instant> {
        let mut state = self.inner.state.lock();
        if state.gather.is_due(now) {
            self.inner.append_next(state);
            return None;
        }
        state.check_at(now)
    }

    /// The submissions of a record that is about to be applied; `None` where it is another's.
    pub(crate) fn take(&self, stamp: &LeadStamp) -> Option<Vec<Submission>> {
        if stamp.lead != self.inner.id {
            return None;
        }
        self.inner.state.lock().remove(stamp)
    }

    /// Learns that replicas passed one of its records over: what follows it in the same epoch
    /// would be passed over too.
    pub(crate) fn passed(&self, stamp: &LeadStamp) {
        let mut state = self.inner.state.lock();
        if stamp.lead == self.inner.id && stamp.epoch == state.epoch {
            state.begin_epoch();
        }
    }

    /// Takes nothing any more, and answers all that waits: nobody here applies its records from now on.
    pub(crate) fn abandon(&self, why: &str) {
        let mut state = self.inner.state.lock();
        state.fault.get_or_insert_with(|| why.to_owned());
        let queued = std::mem::take(&mut state.queue);
        let in_log = std::mem::take(&mut state.records);
        state.waiting_bytes = 0;
        drop(state);
        queued.into_iter().for_each(|it| it.refuse(WriteError::not_taken(why)));
        let in_log = in_log.into_iter().flat_map(|(_, submissions)| submissions);
        in_log.for_each(|it| it.refuse(WriteError::Unknown));
    }

    /// Bytes that wait for the log or for apply.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.inner.state.lock().waiting_bytes
    }
}

impl Inner {
    /// Makes the next record of what waits, and hands it to the log without holding the lock.
    fn append_next(self: &Arc<Self>, mut state: parking_lot::MutexGuard<'_, LeadQueue>) {
        let Some(record) = self.next_record(&mut state) else {
            state.is_appending = false;
            state.gather.idle();
            return;
        };
        state.is_appending = true;
        state.gather.begun(self.time.now());
        drop(state);
        let (stamp, anchor) = (record.lead, record.anchor);
        let lead: Weak<Self> = Arc::downgrade(self);
        let done = move |outcome| {
            if let Some(lead) = lead.upgrade() {
                lead.appended(stamp, &anchor, outcome);
            }
        };
        self.log.append(self.group, record.encode(), Box::new(done));
    }

    fn next_record(&self, state: &mut LeadQueue) -> Option<Record> {
        let (mut bytes, mut changed_bytes, mut operations) = (0, 0u64, 0usize);
        let mut submissions = Vec::new();
        while let Some(submission) = state.queue.front() {
            bytes += submission.bytes();
            changed_bytes = changed_bytes.saturating_add(submission.least_bytes());
            operations += submission.steps.len();
            let is_full = bytes > SUBMISSION_BYTES_MAX
                || changed_bytes > RECORD_BYTES_MAX / 2
                || operations > state.operations_max;
            if is_full && !submissions.is_empty() {
                break;
            }
            submissions.extend(state.queue.pop_front());
        }
        if submissions.is_empty() {
            return None;
        }
        let tail = self.tail.get();
        // Log time may be ahead of a clock that was set back; stamps do not go back with it.
        let stamp_ms = self.time.wall_ms().max(tail.log_time_ms);
        if stamp_ms - state.stamp_ms.min(stamp_ms) > IDLE_MS_MAX {
            state.begin_epoch();
        }
        state.stamp_ms = stamp_ms;
        state.n += 1;
        let lead = LeadStamp { lead: self.id, epoch: state.epoch, n: state.n };
        let mut items = Vec::with_capacity(submissions.len());
        submissions.iter().for_each(|submission| submission.put_items(&mut items));
        state.records.push_back((lead, submissions));
        let anchor = tail.anchor;
        let version = self.version.get();
        Some(Record { partition: self.partition, version, lead, stamp_ms, anchor, items })
    }

    /// The log has answered for a record: the next may go.
    fn appended(
        self: &Arc<Self>,
        stamp: LeadStamp,
        anchor: &Anchor,
        outcome: Result<Lsn, AppendError>,
    ) {
        let mut state = self.state.lock();
        let error = match outcome {
            Ok(lsn) => match Chain::check_appended(anchor, lsn) {
                Ok(()) => {
                    state.is_appending = false;
                    if state.gather.appended(self.time.now()) {
                        self.append_next(state);
                    }
                    return;
                }
                Err(fault) => {
                    tracing::error!(partition = %self.partition, %fault, "the lead stops");
                    state.fault = Some(fault.to_string());
                    WriteError::Unknown
                }
            },
            Err(AppendError::Refused(reason)) => WriteError::NotTaken(reason),
            Err(AppendError::Unknown(_)) => WriteError::Unknown,
        };
        // The sequence has a gap now.
        state.begin_epoch();
        let given_up = state.remove(&stamp).unwrap_or_default();
        // What waits would be refused as well: it is told now, and not one record at a time.
        let queued: Vec<Submission> = state.queue.drain(..).collect();
        state.waiting_bytes -= queued.iter().map(Submission::bytes).sum::<usize>();
        state.is_appending = false;
        state.gather.idle();
        drop(state);
        let behind = WriteError::not_taken("the log did not take the writes before");
        queued.into_iter().for_each(|submission| submission.refuse(behind.clone()));
        given_up.into_iter().for_each(|submission| submission.refuse(error.clone()));
    }
}

/// How many operations a record takes after one of so many took a part, in thousandths, of what they
/// share: as many as would have taken half of it. Twice as many again while that is little.
fn operations_max(before: usize, operations: usize, shared_permille: u64) -> usize {
    const HALF: u64 = 500;
    match usize::try_from(shared_permille) {
        Ok(permille) if shared_permille > HALF => (operations * 500 / permille).max(1),
        _ if shared_permille < HALF / 2 => before.saturating_mul(2),
        _ => before,
    }
}

#[cfg(test)]
mod tests {
    //! Tests of how many operations go together.

    use super::*;

    #[test]
    fn heavy_operations_come_fewer_to_a_record_until_they_are_light_again() {
        let max = operations_max(usize::MAX, 100, 1000);
        assert_eq!(max, 50);
        assert_eq!(operations_max(max, 50, 400), 50);
        assert_eq!(operations_max(max, 1, 1000), 1);
        assert_eq!(operations_max(max, 50, 10), 100);
        assert_eq!(operations_max(usize::MAX, 3, 0), usize::MAX);
    }
}
