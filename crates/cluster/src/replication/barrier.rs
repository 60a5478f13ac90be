//! What a strong read waits for: the position of an append that was issued after the read
//! arrived. Everything acknowledged before stands before it, whoever led it; so a replica that
//! has applied it answers no older state. Reads that wait together share one append.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use plimsoll_base::Time;
use plimsoll_base::time::Instant;
use plimsoll_log::record::{LeadStamp, Record};
use plimsoll_log::{AppendError, GroupId, LeadId, Log, Lsn, PartitionId};
use tokio::sync::watch;

use crate::replication::tail::GroupTail;

/// The partition that markers name: nobody's.
pub(crate) const NOBODY: PartitionId = PartitionId { table: u64::MAX, ordinal: u32::MAX };

/// After how long without an answer from the log another marker is issued beside the first: what
/// was sent to a leader that is gone is answered late, and its successor may be there by then.
const STUCK_AFTER: Duration = Duration::from_millis(500);
/// The most markers at once.
const APPENDING_MAX: usize = 32;

/// How an append of a marker ended: where it stands, or nothing.
type Outcome = Option<Option<Lsn>>;

/// The markers of one group.
pub(crate) struct Barrier {
    inner: Arc<Inner>,
}

struct Inner {
    group: GroupId,
    log: Arc<dyn Log>,
    tail: Arc<GroupTail>,
    lead: LeadId,
    time: Time,
    /// Markers appended so far.
    appended: AtomicU64,
    state: Mutex<BarrierState>,
}

#[derive(Default)]
struct BarrierState {
    /// Markers that the log has still to answer for, and when the last of them was issued.
    appending: usize,
    issued: Option<Instant>,
    /// Who arrived since it was issued.
    next: Option<watch::Sender<Outcome>>,
}

/// Why a read cannot be strong here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotReached;

impl Barrier {
    pub(crate) fn new(
        group: GroupId,
        log: Arc<dyn Log>,
        tail: Arc<GroupTail>,
        lead: LeadId,
        time: Time,
    ) -> Self {
        let (appended, state) = (AtomicU64::new(0), Mutex::default());
        Self { inner: Arc::new(Inner { group, log, tail, lead, time, appended, state }) }
    }

    /// Waits until this node has applied everything that was acknowledged before this call.
    ///
    /// # Errors
    /// Where the log does not take the marker, or apply does not come to it, in time.
    pub(crate) async fn pass(&self, timeout: Duration) -> Result<(), NotReached> {
        let passed = self.inner.time.timeout(timeout, async {
            let lsn = self.inner.append().await?;
            self.inner.tail.reached(lsn).await;
            Some(())
        });
        passed.await.ok().flatten().ok_or(NotReached)
    }

    /// A position that everything acknowledged before this call stands before, for a node that does not read
    /// the group: whoever has applied it has all that.
    ///
    /// # Errors
    /// Where the log does not take the marker in time.
    pub(crate) async fn position(&self, timeout: Duration) -> Result<Lsn, NotReached> {
        let placed = self.inner.time.timeout(timeout, self.inner.append()).await;
        placed.ok().flatten().ok_or(NotReached)
    }
}

impl Inner {
    /// The position of a marker issued after this call.
    async fn append(self: &Arc<Self>) -> Option<Lsn> {
        let mut outcome = self.join();
        let told = outcome.wait_for(Option::is_some).await.ok()?;
        (*told).flatten()
    }

    /// Waits with those who arrived since the last marker was issued; issues the next where none
    /// is under way, or the log does not answer.
    fn join(self: &Arc<Self>) -> watch::Receiver<Outcome> {
        let mut state = self.state.lock();
        let outcome = match &state.next {
            Some(next) => next.subscribe(),
            None => {
                let (next, outcome) = watch::channel(None);
                state.next = Some(next);
                outcome
            }
        };
        let is_stuck = state.issued.is_some_and(|at| self.time.now() - at >= STUCK_AFTER);
        if state.appending == 0 || (is_stuck && state.appending < APPENDING_MAX) {
            self.issue(state);
        }
        outcome
    }

    /// Appends a marker for all who wait. The log may answer before this returns.
    fn issue(self: &Arc<Self>, mut state: MutexGuard<'_, BarrierState>) {
        let Some(waiting) = state.next.take() else { return };
        state.appending += 1;
        state.issued = Some(self.time.now());
        drop(state);
        let n = self.appended.fetch_add(1, Ordering::Relaxed) + 1;
        let tail = self.tail.get();
        let marker = Record {
            partition: NOBODY,
            version: 1,
            lead: LeadStamp { lead: self.lead, epoch: 1, n },
            stamp_ms: self.time.wall_ms().max(tail.log_time_ms),
            anchor: tail.anchor,
            items: Vec::new(),
        };
        let inner = Arc::clone(self);
        let done = move |outcome: Result<Lsn, AppendError>| {
            // Who waited may have given up.
            waiting.send_replace(Some(outcome.ok()));
            let mut state = inner.state.lock();
            state.appending -= 1;
            if state.appending == 0 && state.next.is_some() {
                inner.issue(state);
            }
        };
        self.log.append(self.group, marker.encode(), Box::new(done));
    }
}
