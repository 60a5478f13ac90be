//! One partition of a search: the copy that is asked, on this node or another, and the view that
//! it was asked by, from which the hits are fetched ([`asking`] does both). What is asked of all partitions
//! together, and what becomes of the answers, is in `search.rs`.

mod asking;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::Tasks;
use plimsoll_index::search::{Hit, SearchRequest};

use super::indexer::PartitionView;
use super::options::SearchOptions;
use super::pool::Cancel;
use crate::metadata::index::IndexMetadata;
use crate::metadata::members::Member;
use crate::replication::partition::Partition;
use crate::replication::tables::Copies;
use crate::wire::Question;

/// How long a copy has to answer.
const QUERY_TIMEOUT: Duration = Duration::from_secs(60);
/// What a copy gets beyond the time that a client set.
const TIMEOUT_SLACK: Duration = Duration::from_millis(200);
/// How long another node has to let go of a view.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// A partition that is asked.
pub(crate) struct Part {
    pub index: Arc<IndexMetadata>,
    pub copies: Arc<Copies>,
    /// The view that was asked, once it was.
    held: Mutex<Option<Held>>,
}

/// A view that was asked.
#[derive(Clone)]
enum Held {
    Here(Local),
    There(Arc<HeldThere>),
}

/// A view that another node holds. It is told when this goes that it need not any more.
struct HeldThere {
    tasks: Tasks,
    member: Arc<Member>,
    /// What it is held under.
    view: u64,
    is_held: AtomicBool,
}

impl Drop for HeldThere {
    fn drop(&mut self) {
        // Where no task can be begun the node is stopping: the view's time runs out.
        if !*self.is_held.get_mut() || !self.member.is_alive() || !self.tasks.can_spawn() {
            return;
        }
        let (link, views) = (self.member.link.clone(), vec![self.view]);
        self.tasks.spawn("release a view", async move {
            let released = link.ask(Question::Release { views }, RELEASE_TIMEOUT, 0).await;
            if let Err(error) = released {
                tracing::debug!(%error, "a view is held until its time is over");
            }
        });
    }
}

/// A copy on this node and a view of it.
#[derive(Clone)]
pub(crate) struct Local {
    pub index: Arc<IndexMetadata>,
    pub partition: Arc<Partition>,
    pub view: Arc<PartitionView>,
}

/// What is asked.
pub(super) struct Asked<'a> {
    pub request: &'a Arc<SearchRequest>,
    pub options: &'a SearchOptions,
    /// The hit that a scroll goes on after.
    pub after: Option<Hit>,
    pub cancel: &'a Cancel,
    /// See [`crate::wire::Terms::rank`].
    pub rank: u32,
    /// How long the view is to be held for those who come back to it; none where nobody does.
    pub keep: Option<Duration>,
}

impl Asked<'_> {
    /// How long the answer of a copy is worth something. The whole search ends before that: a
    /// client's haste is no fault of the node.
    fn timeout(&self) -> Duration {
        let worth = self.options.timeout.map(|timeout| timeout.saturating_add(TIMEOUT_SLACK));
        worth.map_or(QUERY_TIMEOUT, |worth| worth.min(QUERY_TIMEOUT))
    }
}
