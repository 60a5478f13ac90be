//! Rows of this node that have expired, taken away: which partitions have some, and when the next bite of
//! which one is asked for. How fast that goes is the law's (`plimsoll_control::pacing::sweeps`), what a bite
//! takes away is apply's (`plimsoll_storage::execute`), and the log carries it to all copies.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use plimsoll_base::time::Instant;
use plimsoll_control::pacing::Sweeping;
use plimsoll_log::PartitionId;
use plimsoll_storage::Reply;
use plimsoll_storage::execute;
use plimsoll_storage::operation::Operation;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::metadata::version::ClusterVersion;
use crate::node::shared::Shared;
use crate::replication::lead::{Answer, Step, Submission};
use crate::replication::partition::Partition;
use crate::replication::session::ClientSession;

/// A bite that takes longer holds no other partition up.
const PATIENCE: Duration = Duration::from_millis(250);

/// What is due, and the bites that are under way.
pub(super) struct Sweeps {
    session: ClientSession,
    /// Partitions with rows that are due: since when, ms since 1970.
    due: BTreeMap<PartitionId, u64>,
    running: BTreeMap<PartitionId, Running>,
    rests_until: Instant,
}

struct Running {
    began: Instant,
    answer: oneshot::Receiver<Answer>,
}

impl Sweeps {
    /// Nothing yet.
    pub(super) fn new(session: ClientSession) -> Self {
        let (due, running) = (BTreeMap::new(), BTreeMap::new());
        Self { session, due, running, rests_until: Instant(0) }
    }

    /// Whether there is nothing to sweep, as far as is known.
    pub(super) fn is_idle(&self) -> bool {
        self.due.is_empty() && self.running.is_empty()
    }

    /// Looks what is due in all partitions.
    pub(super) fn check(&mut self, shared: &Shared) {
        self.due.clear();
        // What follows is swept where its leader is.
        for table in shared.tables.all().iter().filter(|table| table.follows().is_none()) {
            for (ordinal, partition) in table.local() {
                // One copy asks for it; the log carries it to all.
                if shared.members.speaks_for(partition.id, &table.copies()[ordinal].definition()) {
                    self.check_partition(&partition);
                }
            }
        }
    }

    fn check_partition(&mut self, partition: &Partition) {
        if partition.fault().is_some() {
            return;
        }
        match execute::due_since(&partition.store, partition.read_time_ms()) {
            Ok(None) => {}
            Ok(Some(since_ms)) => {
                self.due.insert(partition.id, since_ms);
            }
            Err(error) => {
                tracing::warn!(partition = %partition.id, %error, "expired rows cannot be looked for");
            }
        }
    }

    /// Takes note of bites that have ended, and asks for the next where it is time.
    pub(super) fn step(&mut self, shared: &Shared) {
        let now = shared.world.time.now();
        let took = self.take_ended(shared, now);
        let oldest = self.due.iter().map(|(id, since_ms)| (*since_ms, *id)).min();
        let Some((since_ms, oldest)) = oldest else { return };
        let Some(partition) = local(shared, oldest) else {
            self.due.remove(&oldest);
            return;
        };
        let sweeping = Sweeping::of(partition.read_time_ms().saturating_sub(since_ms));
        if let Some(took) = took {
            let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            self.rests_until = now + Duration::from_nanos(sweeping.pause_ns(took_ns));
        }
        let is_busy = || self.running.values().any(|it| now - it.began < PATIENCE);
        if now < self.rests_until || (!sweeping.is_at_once() && is_busy()) {
            return;
        }
        let ready = (self.due.iter())
            .filter(|(id, _)| !self.running.contains_key(id))
            .map(|(id, since_ms)| (*since_ms, *id));
        let ready: Vec<(u64, PartitionId)> = match sweeping.is_at_once() {
            true => ready.collect(),
            false => ready.min().into_iter().collect(),
        };
        for (_, id) in ready {
            match local(shared, id) {
                Some(partition) => self.ask(shared, &partition, sweeping.rows()),
                None => drop(self.due.remove(&id)),
            }
        }
    }

    /// Lets go of bites that have ended; how long the longest took.
    fn take_ended(&mut self, shared: &Shared, now: Instant) -> Option<Duration> {
        let mut ended = Vec::new();
        self.running.retain(|id, running| {
            let answer = running.answer.try_recv();
            let is_running = answer == Err(TryRecvError::Empty);
            if !is_running {
                let is_done = matches!(&answer, Ok(Ok(replies)) if matches!(replies[..], [Reply::Integer(_)]));
                ended.push((*id, now - running.began, is_done));
            }
            is_running
        });
        for (id, _, is_done) in &ended {
            self.due.remove(id);
            // One that was refused, or not carried out, rests until all are looked at again.
            if let Some(partition) = local(shared, *id).filter(|_| *is_done) {
                self.check_partition(&partition);
            }
        }
        ended.into_iter().map(|(_, took, _)| took).max()
    }

    fn ask(&mut self, shared: &Shared, partition: &Partition, rows: u64) {
        let (done, answer) = oneshot::channel();
        self.running.insert(partition.id, Running { began: shared.world.time.now(), answer });
        let first = self.session.take(1);
        let steps = vec![Step::Write(sweep_bytes(&shared.replication.version, rows))];
        let (session, acked) = (self.session.id(), first - 1);
        let stamp_ms = shared.world.time.wall_ms().max(partition.lead.log_time_ms());
        partition.lead.submit(Submission { session, first, acked, stamp_ms, steps, done });
    }
}

/// The node's copy of a partition; none where it is not here any more.
fn local(shared: &Shared, id: PartitionId) -> Option<Arc<Partition>> {
    shared.tables.copies(id)?.local()
}

/// A sweep, in the newest form that the cluster's version allows.
fn sweep_bytes(version: &ClusterVersion, rows: u64) -> Bytes {
    #[cfg(feature = "next-version")]
    if version.allows(crate::metadata::version::KNOWN) {
        return Operation::encode_next_sweep(rows);
    }
    let _ = version;
    Operation::Sweep { limit: rows }.encode()
}
