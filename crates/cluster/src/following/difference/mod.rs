//! Levelling copies that follow, where the leader's log was trimmed past them: what differs from a snapshot
//! of the leader's is asked for range by range and appended to this cluster's log, where all copies take
//! it. A copy says in its rows how far that has come, so that it goes on there after whatever cuts it off:
//! with the same snapshot, or with another in whose ranges little differs by then. What is compared and
//! how is [`plimsoll_storage::partition::difference`]'s.
//!
//! | file | owns |
//! |---|---|
//! | `mod.rs` | which partitions are levelled now |
//! | [`levelling`] | one of them, from the first range to the last |
//! | [`messages`] | what is asked and answered |

mod levelling;
pub(super) mod messages;

use std::collections::HashSet;
use std::sync::Arc;

use plimsoll_log::PartitionId;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub(super) use levelling::Levelling;
pub(super) use messages::hashes_in;
pub use messages::{DifferenceAnswer, DifferenceAsk, Opened, SpanForm};

/// How many partitions are levelled at once.
const LEVELLED_MAX: usize = 4;

/// The partitions of one remote that are levelled. Dropping it ends that.
pub(super) struct Levelled {
    tasks: JoinSet<PartitionId>,
    /// By the leader's names.
    under_way: HashSet<PartitionId>,
    room: Arc<Semaphore>,
}

impl Default for Levelled {
    fn default() -> Self {
        let room = Arc::new(Semaphore::new(LEVELLED_MAX));
        Self { tasks: JoinSet::new(), under_way: HashSet::new(), room }
    }
}

impl Levelled {
    /// Has a partition levelled, unless it is already.
    pub(super) fn begin(&mut self, levelling: Levelling) {
        let leader = levelling.leader();
        if self.under_way.insert(leader) {
            let room = Arc::clone(&self.room);
            self.tasks.spawn(async move {
                levelling.run(&room).await;
                leader
            });
        }
    }

    /// Whether a partition is levelled now.
    pub(super) fn has(&self, leader: PartitionId) -> bool {
        self.under_way.contains(&leader)
    }

    /// Whether any is.
    pub(super) fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Whether one has come to its end, so that its log can be followed again.
    pub(super) fn has_ended(&mut self) -> bool {
        let mut has_ended = false;
        while let Some(ended) = self.tasks.try_join_next() {
            self.end(ended);
            has_ended = true;
        }
        has_ended
    }

    /// Waits for one to come to its end.
    pub(super) async fn ended(&mut self) {
        match self.tasks.join_next().await {
            Some(ended) => self.end(ended),
            None => self.under_way.clear(),
        }
    }

    fn end(&mut self, ended: Result<PartitionId, tokio::task::JoinError>) {
        match ended {
            Ok(leader) => drop(self.under_way.remove(&leader)),
            // It panicked: which one it was is seen where they stand.
            Err(error) => {
                tracing::error!(%error, "the levelling of a partition ended");
                if self.tasks.is_empty() {
                    self.under_way.clear();
                }
            }
        }
    }
}
