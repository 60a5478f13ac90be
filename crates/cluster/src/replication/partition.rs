//! A partition as the coordinator sees it: its rows to read, its lead to write through, and
//! whether it is well.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use plimsoll_base::Time;
use plimsoll_control::average::whole;
use plimsoll_control::pacing::debt;
use plimsoll_log::{Lsn, PartitionId};
use plimsoll_storage::partition::{Stamp, Store};
use plimsoll_storage::rows::StoreError;
use tokio::sync::Notify;

use crate::metadata::MetadataRows;
use crate::metadata::reports::{CopyReport, reason};
use crate::replication::clock::OwnClock;
use crate::replication::index::DocumentsIndex;
use crate::replication::lead::Lead;

/// One partition on this node.
pub(crate) struct Partition {
    pub(crate) id: PartitionId,
    pub(crate) store: Store,
    pub(crate) lead: Lead,
    clock: Arc<OwnClock>,
    index: OnceLock<Arc<dyn DocumentsIndex>>,
    applied: AtomicU64,
    keys: AtomicU64,
    expires: AtomicU64,
    log_time_ms: AtomicU64,
    sequence: AtomicU64,
    fault: Mutex<Option<Fault>>,
    /// How far its store's files are towards the point where it can take no more, thousandths.
    debt_permille: AtomicU32,
    /// Where its replica stood when it was opened.
    from: Lsn,
    /// Told when a record was applied.
    changes: OnceLock<Arc<Notify>>,
}

/// Why a partition is not well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Apply waits, and goes on by itself.
    Waits(String),
    /// Its log group or its node has stopped, or its record says what no replica can read: another
    /// copy would be no better, and this one is kept as evidence.
    Halted(String),
    /// This replica alone is damaged: another copy can replace it.
    Damaged(String),
}

impl Fault {
    pub(crate) fn reason(&self) -> &str {
        let (Self::Waits(reason) | Self::Halted(reason) | Self::Damaged(reason)) = self;
        reason
    }
}

impl MetadataRows for Partition {
    fn store(&self) -> &Store {
        &self.store
    }

    fn read_time_ms(&self) -> u64 {
        Partition::read_time_ms(self)
    }
}

impl Partition {
    pub(crate) fn new(
        id: PartitionId,
        store: Store,
        lead: Lead,
        (stamp, log_time_ms): (Stamp, u64),
        clock: Arc<OwnClock>,
    ) -> Self {
        let fault = Mutex::new(None);
        let keys = AtomicU64::new(stamp.keys);
        let expires = AtomicU64::new(stamp.expires);
        let applied = AtomicU64::new(stamp.position.lsn.0);
        let log_time_ms = AtomicU64::new(log_time_ms);
        let sequence = AtomicU64::new(stamp.sequence);
        let index = OnceLock::new();
        let changes = OnceLock::new();
        let from = stamp.position.lsn;
        Self {
            id,
            store,
            lead,
            clock,
            index,
            applied,
            keys,
            expires,
            log_time_ms,
            sequence,
            fault,
            debt_permille: AtomicU32::new(0),
            from,
            changes,
        }
    }

    /// The applier tells what it counted, and the log time that the contents are of, which is a
    /// leader's where that is later.
    pub(crate) fn counted(&self, stamp: &Stamp, log_time_ms: u64) {
        self.keys.store(stamp.keys, Ordering::Relaxed);
        self.expires.store(stamp.expires, Ordering::Relaxed);
        self.log_time_ms.store(log_time_ms, Ordering::Relaxed);
        self.sequence.store(stamp.sequence, Ordering::Relaxed);
        self.applied.store(stamp.position.lsn.0, Ordering::Release);
        if let Some(changes) = self.changes.get() {
            changes.notify_one();
        }
    }

    /// Has `changes` told whenever a record was applied; asked for once.
    pub(crate) fn tell_changes(&self, changes: Arc<Notify>) {
        let is_new = self.changes.set(changes).is_ok();
        assert!(is_new, "changes are told to one");
    }

    /// Log time of the last record applied, ms since 1970.
    pub(crate) fn log_time_ms(&self) -> u64 {
        self.log_time_ms.load(Ordering::Relaxed)
    }

    /// The sequence of the last change of its rows.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed)
    }

    /// How far the log was applied: nothing after it is in the rows yet.
    pub(crate) fn applied(&self) -> Lsn {
        Lsn(self.applied.load(Ordering::Acquire))
    }

    /// The index over its documents; `None` where its table is rows alone.
    pub(crate) fn index(&self) -> Option<&Arc<dyn DocumentsIndex>> {
        self.index.get()
    }

    /// Gives it the index over its documents, once.
    pub(crate) fn set_index(&self, index: Arc<dyn DocumentsIndex>) {
        let is_new = self.index.set(index).is_ok();
        assert!(is_new, "a partition has one index");
    }

    /// What its node has of time.
    pub(crate) fn time(&self) -> &Time {
        self.clock.time()
    }

    /// The time that a read of it goes by, ms since 1970: this node's clock, but never before log
    /// time, which is what a write goes by.
    pub(crate) fn read_time_ms(&self) -> u64 {
        self.clock.read_ms().max(self.log_time_ms.load(Ordering::Relaxed))
    }

    /// Keys, those expired but not swept included.
    pub(crate) fn keys(&self) -> u64 {
        self.keys.load(Ordering::Relaxed)
    }

    /// Keys with an expiry.
    pub(crate) fn expires(&self) -> u64 {
        self.expires.load(Ordering::Relaxed)
    }

    /// Says why apply does not go on; `None` when it does again. One that has stopped for good
    /// stays so.
    pub(crate) fn set_fault(&self, fault: Option<Fault>) {
        let mut held = self.fault.lock();
        if matches!(*held, None | Some(Fault::Waits(_))) {
            *held = fault;
        }
    }

    /// It goes on no more, and no other copy can help.
    pub(crate) fn halt(&self, reason: &str) {
        self.set_fault(Some(Fault::Halted(reason.to_owned())));
    }

    /// Stops where the error says that this replica is damaged.
    pub(crate) fn note(&self, error: &StoreError) {
        if let StoreError::Damaged(why) = error
            && !self.is_damaged()
        {
            tracing::error!(partition = %self.id, why, "the rows are damaged: the copy stops");
            self.set_fault(Some(Fault::Damaged(format!("the rows are damaged: {why}"))));
        }
    }

    /// Notes how far its store's own files are towards the point where it can take no more: 1 is there.
    pub(crate) fn owes(&self, debt: f64) {
        // Finite and small.
        let permille = whole(debt * 1000.0).min(u64::from(u32::MAX));
        self.debt_permille.store(u32::try_from(permille).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// How far it is now: what the node's stores share as it is, what is its own as it was noted.
    pub(crate) fn debt(&self) -> f64 {
        let (held, budget) = self.store.unflushed_of_node();
        let own = f64::from(self.debt_permille.load(Ordering::Relaxed)) / 1000.0;
        debt::of_node(held as u64, budget as u64).max(own)
    }

    /// Why it takes no writes now, if so: it is not well, or has put off too much.
    pub(crate) fn takes_no_writes(&self) -> Option<String> {
        self.fault().or_else(|| {
            (self.debt() >= debt::REFUSED_FROM).then(|| {
                format!(
                    "partition {} takes no writes until more of those before are in files",
                    self.id
                )
            })
        })
    }

    /// Why it is not well, if so.
    pub(crate) fn fault(&self) -> Option<String> {
        self.fault.lock().as_ref().map(|fault| fault.reason().to_owned())
    }

    /// Whether it has to be made anew from another copy.
    pub(crate) fn is_damaged(&self) -> bool {
        matches!(*self.fault.lock(), Some(Fault::Damaged(_)))
    }

    /// Whether it goes on no more.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(*self.fault.lock(), Some(Fault::Halted(_) | Fault::Damaged(_)))
    }

    /// What its node reports of it.
    pub(crate) fn report(&self) -> CopyReport {
        match &*self.fault.lock() {
            None => match self.index.get().and_then(|it| it.rebuilding()) {
                None => CopyReport::Serving { from: self.from.0 },
                Some(why) => CopyReport::Reindexing { from: self.from.0, why: reason(&why) },
            },
            Some(Fault::Waits(why)) => CopyReport::Waiting { why: reason(why) },
            Some(Fault::Halted(why)) => CopyReport::Halted { why: reason(why) },
            Some(Fault::Damaged(why)) => CopyReport::Stopped { why: reason(why) },
        }
    }
}
