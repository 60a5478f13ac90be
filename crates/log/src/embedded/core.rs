//! What the threads and the readers of an embedded log share: how far it is written, durable and marked, and why
//! it stopped. Who appends, keeps and reads is not decided here.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::bell::Bell;
use super::files::{SyncFailed, Watch};
use super::found;
use super::identity::{Lock, Mark};
use super::options::Durability;
use super::queue::Queue;
use super::reserve::Reserve;
use super::store::Store;
use super::tail::Tail;
use crate::{Bounds, GroupId, Incarnation, LogError, Lsn, Stats};

/// What the threads and the readers share.
pub(super) struct Core {
    pub(super) dir: PathBuf,
    pub(super) incarnation: Incarnation,
    pub(super) queue: Queue,
    pub(super) tail: Tail,
    pub(super) bell: Bell,
    pub(super) stats: Mutex<Stats>,
    pub(super) asynchronous: AtomicBool,
    pub(super) sync_interval: Duration,
    /// The last sequence written, and the last one known to be durable.
    pub(super) written: AtomicU64,
    pub(super) synced: AtomicU64,
    /// Why nothing more is appended.
    pub(super) stopped: Mutex<Option<String>>,
    /// What the mark on disk says.
    pub(super) marked: Mutex<Mark>,
    pub(super) reserve: Reserve,
    pub(super) store: Store,
    pub(super) watch: Arc<Watch>,
    /// Let go of after everything above.
    pub(super) _lock: Lock,
}

impl Core {
    pub(super) fn durability(&self) -> Durability {
        if self.asynchronous.load(Ordering::Acquire) {
            Durability::Async
        } else {
            Durability::Request
        }
    }

    pub(super) fn bounds(&self, group: GroupId) -> Result<Bounds, LogError> {
        let unknown = || LogError::Failed(format!("the log has no group {group}"));
        self.tail.bounds(group).ok_or_else(unknown)
    }

    /// Syncs, after which everything up to the sequence `up_to` is durable.
    pub(super) fn sync(&self, up_to: u64) -> Result<(), SyncFailed> {
        let begun = Instant::now();
        self.watch.sync()?;
        self.stats.lock().synced(begun.elapsed());
        self.synced.fetch_max(up_to, Ordering::AcqRel);
        Ok(())
    }

    /// Writes down what is durable and what is trimmed.
    pub(super) fn mark(&self) -> Result<(), LogError> {
        let mut marked = self.marked.lock();
        // Published records of an `async` log run ahead of what is durable; what is claimed must
        // not. Everything published was counted as written first, hence this order.
        let synced = self.synced.load(Ordering::Acquire);
        let bounds = self.tail.all_bounds();
        let all_durable = self.written.load(Ordering::Acquire) == synced;
        let mut groups: Vec<_> =
            bounds.iter().map(|held| (Lsn(held.first.0 - 1), held.last)).collect();
        if !all_durable {
            for (index, group) in groups.iter_mut().enumerate() {
                group.1 = marked.groups.get(index).map_or(Lsn(0), |(_, durable)| *durable);
            }
        }
        let mark = Mark { synced, groups };
        mark.store(&self.dir, self.incarnation)?;
        *marked = mark;
        Ok(())
    }

    /// Appends nothing more.
    pub(super) fn stop(&self, reason: &str) {
        let reason = format!("{reason}; the log takes appends again once it is opened anew");
        tracing::error!(%reason, "the log stops");
        found::note_stop(&self.dir, &reason);
        self.stopped.lock().get_or_insert_with(|| reason.clone());
        self.queue.close(&reason);
    }

    pub(super) fn stopped(&self) -> Option<String> {
        self.stopped.lock().clone()
    }
}
