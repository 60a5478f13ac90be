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
//! | [`halt`] | why one does not go on now |
//! | [`messages`] | what is asked and answered |

mod halt;
mod levelling;
pub(super) mod messages;

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use plimsoll_base::Tasks;
use plimsoll_log::PartitionId;
use tokio::sync::Semaphore;

use super::children::{Children, Parent};
pub(super) use levelling::Levelling;
pub(super) use messages::hashes_in;
pub use messages::{DifferenceAnswer, DifferenceAsk, Opened, SpanForm};

/// How many partitions are levelled at once.
const LEVELLED_MAX: usize = 4;

/// The partitions of one remote that are levelled. Dropping it ends that.
pub(super) struct Levelled {
    _parent: Parent,
    children: Children,
    /// Those that are not known to have ended, by the leader's names.
    under_way: BTreeSet<PartitionId>,
    ends: FuturesUnordered<Ending>,
    room: Arc<Semaphore>,
}

/// Comes to the leader's name of a partition whose levelling has ended.
type Ending = Pin<Box<dyn Future<Output = PartitionId> + Send + Sync>>;

impl Levelled {
    /// None yet; they are tasks of these.
    pub(super) fn new(tasks: &Tasks) -> Self {
        let (_parent, children) = Parent::new(tasks);
        let room = Arc::new(Semaphore::new(LEVELLED_MAX));
        let (under_way, ends) = (BTreeSet::new(), FuturesUnordered::new());
        Self { _parent, children, under_way, ends, room }
    }

    /// Has a partition levelled, unless it is already.
    pub(super) fn begin(&mut self, levelling: Levelling) {
        let leader = levelling.leader();
        if self.under_way.insert(leader) {
            let room = Arc::clone(&self.room);
            let ended = self.children.begin("level", async move { levelling.run(&room).await });
            self.ends.push(Box::pin(async move {
                if let Err(error) = ended.await {
                    tracing::error!(%error, %leader, "the levelling of a partition ended");
                }
                leader
            }));
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
        while let Some(Some(leader)) = self.ends.next().now_or_never() {
            self.under_way.remove(&leader);
            has_ended = true;
        }
        has_ended
    }

    /// Waits for one to come to its end.
    pub(super) async fn ended(&mut self) {
        if let Some(leader) = self.ends.next().await {
            self.under_way.remove(&leader);
        }
    }
}
