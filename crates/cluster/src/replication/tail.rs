//! How far this node has applied a log group: what leads anchor their records to, and what reads
//! that must see an append wait for. Written by the group's applier alone.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use plimsoll_log::Lsn;
use plimsoll_log::record::Anchor;
use plimsoll_log::rules::chain::Position;
use tokio::sync::Notify;

/// What of a group was applied here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tail {
    pub anchor: Anchor,
    pub log_time_ms: u64,
}

impl Tail {
    /// The same as a position of the chain.
    pub(crate) fn position(&self) -> Position {
        let Self { anchor, log_time_ms } = *self;
        Position { lsn: anchor.lsn, hash: anchor.hash, log_time_ms }
    }
}

/// The tail of a group, shared by its applier with leads and readers.
#[derive(Default)]
pub(crate) struct GroupTail {
    tail: Mutex<Tail>,
    /// What is being applied, and may be seen by readers in part already.
    begun: AtomicU64,
    applied: AtomicU64,
    waiting: AtomicUsize,
    moved: Notify,
    has_stopped: AtomicBool,
}

impl GroupTail {
    pub(crate) fn get(&self) -> Tail {
        *self.tail.lock()
    }

    pub(crate) fn applied(&self) -> Lsn {
        Lsn(self.applied.load(Ordering::SeqCst))
    }

    /// A position after everything that a reader may have seen of the group here so far.
    pub(crate) fn seen(&self) -> Lsn {
        Lsn(self.begun.load(Ordering::SeqCst)).max(self.applied())
    }

    /// The applier has stopped for good.
    pub(crate) fn stop(&self) {
        self.has_stopped.store(true, Ordering::SeqCst);
    }

    /// Whether the group goes on no more.
    pub(crate) fn has_stopped(&self) -> bool {
        self.has_stopped.load(Ordering::SeqCst)
    }

    /// The applier begins with this one.
    pub(crate) fn begin(&self, lsn: Lsn) {
        self.begun.store(lsn.0, Ordering::SeqCst);
    }

    /// The applier has come to here.
    pub(crate) fn publish(&self, tail: Tail) {
        *self.tail.lock() = tail;
        self.applied.store(tail.anchor.lsn.0, Ordering::SeqCst);
        // Nearly always nobody waits, and this is done for every record.
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.moved.notify_waiters();
        }
    }

    /// Waits until `lsn` is applied, for ever where apply has stopped.
    pub(crate) async fn reached(&self, lsn: Lsn) {
        if self.applied() >= lsn {
            return;
        }
        let _waiting = Waiting::of(&self.waiting);
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            // Before the look: what comes between the two is not missed.
            moved.as_mut().enable();
            if self.applied() >= lsn {
                return;
            }
            moved.await;
        }
    }
}

/// Counts who waits, also one that gives up.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn of(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
