//! The way from one cluster to another: what is asked takes its time, fails, is carried out without an answer, or
//! does not come through at all while the way is cut. Which node of the other cluster answers is drawn, where it
//! is not named.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::random::Stream;
use plimsoll_base::time::Instant;
use plimsoll_base::{Random, Time};

use crate::network::{Network, Services};

/// How soon it is looked again whether a way that is cut is mended.
const MENDED_PAUSE: Duration = Duration::from_millis(100);
/// How long a connection lives on a way that is cut: as long as a node waits for the answer to a ping.
const SILENT_MAX: Duration = Duration::from_secs(15);

/// What the way does all the time: how often something goes wrong, once in so many, 0 is never, and how long
/// messages take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkTroubles {
    /// A question does not come through.
    pub failed: u64,
    /// It is carried out, and the answer is lost.
    pub unanswered: u64,
    /// A stream ends, by messages.
    pub ended: u64,
    /// How long a message is under way, ms: up to twice as much.
    pub way_ms: u64,
    /// What the way carries of one message, bytes a second.
    pub bytes_s: u64,
}

impl Default for LinkTroubles {
    /// None, over a short way.
    fn default() -> Self {
        Self { failed: 0, unanswered: 0, ended: 0, way_ms: 1, bytes_s: u64::MAX }
    }
}

impl LinkTroubles {
    /// Those of a seed.
    pub(crate) fn drawn(chance: &mut Stream) -> Self {
        let mut rate = |least, span| match chance.once_in(2) {
            true => least + chance.below(span),
            false => 0,
        };
        let (failed, unanswered, ended) = (rate(3, 40), rate(3, 40), rate(5, 200));
        let way_ms = [1, 20, 150][usize::try_from(chance.below(3)).unwrap_or_default()];
        let bytes_s = if chance.once_in(2) { 3_000 + chance.below(50_000) } else { u64::MAX };
        Self { failed, unanswered, ended, way_ms, bytes_s }
    }
}

/// The way.
pub struct Link {
    time: Time,
    /// The nodes of the other cluster.
    network: Arc<Network>,
    addresses: Vec<String>,
    state: Mutex<LinkState>,
}

struct LinkState {
    troubles: LinkTroubles,
    is_cut: bool,
    chance: Stream,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// It did not come through.
    Unreachable(&'static str),
    /// The node is gone that was asked.
    Gone,
    TimedOut,
}

impl Link {
    /// To the nodes of a network that are at these addresses.
    #[must_use]
    pub fn new(time: Time, random: &Random, network: Arc<Network>, addresses: Vec<String>) -> Self {
        let (troubles, chance) = (LinkTroubles::default(), random.of("link"));
        let state = Mutex::new(LinkState { troubles, is_cut: false, chance });
        Self { time, network, addresses, state }
    }

    /// How it misbehaves from now on.
    pub fn trouble(&self, troubles: LinkTroubles) {
        self.state.lock().troubles = troubles;
    }

    /// Nothing comes through any more, or again.
    pub fn cut(&self, is_cut: bool) {
        self.state.lock().is_cut = is_cut;
    }

    pub(super) fn is_cut(&self) -> bool {
        self.state.lock().is_cut
    }

    pub(super) fn time(&self) -> &Time {
        &self.time
    }

    /// How long a message of so many bytes is under way.
    pub(super) fn way(&self, bytes: usize) -> Duration {
        let mut state = self.state.lock();
        let LinkTroubles { way_ms, bytes_s, .. } = state.troubles;
        let way_ns = way_ms.max(1) * 1_000_000;
        let carrying_ns = u128::from(bytes as u64) * 1_000_000_000 / u128::from(bytes_s.max(1));
        let carrying_ns = u64::try_from(carrying_ns).unwrap_or(u64::MAX);
        Duration::from_nanos((way_ns + state.chance.below(way_ns)).saturating_add(carrying_ns))
    }

    /// Whether a stream ends with this message.
    pub(super) fn ends(&self) -> bool {
        let LinkState { troubles, chance, .. } = &mut *self.state.lock();
        chance.once_in(troubles.ended)
    }

    /// Waits while nothing comes through; says whether it comes through again before a connection is given up.
    pub(super) async fn comes_through(&self) -> bool {
        let end = self.time.now() + SILENT_MAX;
        while self.is_cut() {
            if self.time.now() >= end {
                return false;
            }
            self.time.sleep(MENDED_PAUSE).await;
        }
        true
    }

    /// The node of this id, or one of them; none where it is not there.
    pub(super) fn node(&self, id: Option<&str>) -> Option<Services> {
        let Some(id) = id else {
            let drawn = self.state.lock().chance.below(self.addresses.len() as u64);
            return self.network.services(&self.addresses[usize::try_from(drawn).ok()?]);
        };
        let mut there = self.addresses.iter().filter_map(|it| self.network.services(it));
        there.find(|services| own_id(services).as_deref() == Some(id))
    }

    /// Has a node carry something out in its own process, as if it had been asked for with so many bytes;
    /// `bytes` says how many its answer has.
    pub(super) async fn ask<T, F>(
        &self,
        node: Option<&str>,
        asked: usize,
        timeout: Duration,
        work: impl FnOnce(Services) -> F + Send,
        bytes: impl Fn(&T) -> usize + Send,
    ) -> Result<T, Unanswered>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let carried = async {
            let (fails, is_unanswered) = {
                let LinkState { troubles, chance, .. } = &mut *self.state.lock();
                (chance.once_in(troubles.failed), chance.once_in(troubles.unanswered))
            };
            self.time.sleep(self.way(asked)).await;
            if self.is_cut() {
                return std::future::pending().await;
            }
            if fails {
                return Err(Unanswered::Unreachable("the question did not come through"));
            }
            let found = self.node(node);
            let services = found.ok_or(Unanswered::Unreachable("nobody listens there"))?;
            let tasks = services.tasks.clone();
            let answer = tasks.spawn("another cluster's", work(services)).await;
            let answer = answer.map_err(|_| Unanswered::Gone)?;
            self.time.sleep(self.way(bytes(&answer))).await;
            if self.is_cut() || is_unanswered {
                return std::future::pending().await;
            }
            Ok(answer)
        };
        self.time.timeout(timeout, carried).await.unwrap_or(Err(Unanswered::TimedOut))
    }

    /// When a message arrives that is sent now, behind one that arrives at `last`.
    pub(super) fn arrives(&self, last: Instant, bytes: usize) -> Instant {
        last.max(self.time.now() + self.way(bytes))
    }
}

/// The id of a node, as its cluster knows it.
fn own_id(services: &Services) -> Option<String> {
    services.coordinator.nodes().into_iter().find(|it| it.is_own).map(|it| it.id)
}
