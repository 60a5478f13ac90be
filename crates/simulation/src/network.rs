//! The network between nodes: questions and answers take their time, and do not come where a way is cut or a
//! process is gone. Who listens where is kept here; what is answered is the node's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use plimsoll_base::random::Stream;
use plimsoll_base::{Random, Tasks, Time};
use plimsoll_cluster::following::{Following, Leading};
use plimsoll_cluster::{Call, CallError, Coordinator, Peers};

/// How long a message is under way at least, and at most, ns.
const WAY_NS: (u64, u64) = (30_000, 400_000);

/// The ways between nodes.
pub struct Network {
    time: Time,
    /// What a way carries of one message, bytes a second.
    bytes_s: u64,
    state: Mutex<NetworkState>,
}

struct NetworkState {
    listening: BTreeMap<String, Services>,
    /// Ways on which nothing comes through: from, to.
    cut: BTreeSet<(String, String)>,
    chance: Stream,
}

/// What a node answers by.
#[derive(Clone)]
pub struct Services {
    /// In its process.
    pub tasks: Tasks,
    /// Clients and other nodes.
    pub coordinator: Arc<Coordinator>,
    /// Those of another cluster that follow its tables.
    pub leading: Arc<Leading>,
    /// Whoever asks for its own that follow; where it may follow.
    pub following: Option<Following>,
}

impl Network {
    /// Nobody listens yet; a way carries so many bytes of one message a second.
    #[must_use]
    pub fn new(time: Time, random: &Random, bytes_s: u64) -> Arc<Self> {
        let (listening, cut) = (BTreeMap::new(), BTreeSet::new());
        let state = Mutex::new(NetworkState { listening, cut, chance: random.of("network") });
        Arc::new(Self { time, bytes_s, state })
    }

    /// A node answers at an address from now on.
    pub fn listen(&self, address: &str, services: Services) {
        self.state.lock().listening.insert(address.to_owned(), services);
    }

    /// Nobody answers there any more.
    pub fn leave(&self, address: &str) {
        let left = self.state.lock().listening.remove(address);
        // Without the lock: the last who has a node takes it apart.
        drop(left);
    }

    /// Cuts the way from one address to another, or mends it.
    pub fn cut(&self, from: &str, to: &str, is_cut: bool) {
        let way = (from.to_owned(), to.to_owned());
        let mut state = self.state.lock();
        if is_cut {
            state.cut.insert(way);
        } else {
            state.cut.remove(&way);
        }
    }

    /// Mends all ways.
    pub fn mend(&self) {
        self.state.lock().cut.clear();
    }

    /// What the node at an address answers clients by, if one listens there.
    #[must_use]
    pub fn coordinator(&self, address: &str) -> Option<(Arc<Coordinator>, Tasks)> {
        self.services(address).map(|it| (it.coordinator, it.tasks))
    }

    /// All that it answers by.
    #[must_use]
    pub fn services(&self, address: &str) -> Option<Services> {
        self.state.lock().listening.get(address).cloned()
    }

    /// How long the next message is under way.
    pub fn way(&self) -> Duration {
        let (least, most) = WAY_NS;
        Duration::from_nanos(least + self.state.lock().chance.below(most - least))
    }

    /// How long so many bytes take beyond that.
    fn carrying(&self, bytes: usize) -> Duration {
        let ns = u128::from(bytes as u64) * 1_000_000_000 / u128::from(self.bytes_s.max(1));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    fn is_cut(&self, from: &str, to: &str) -> bool {
        self.state.lock().cut.contains(&(from.to_owned(), to.to_owned()))
    }

    async fn carry(self: Arc<Self>, from: String, to: String, question: Bytes) -> Answer {
        self.time.sleep(self.way() + self.carrying(question.len())).await;
        if self.is_cut(&from, &to) {
            return std::future::pending().await;
        }
        let Some((coordinator, tasks)) = self.coordinator(&to) else {
            return Err(CallError::Unreachable("nobody listens there".to_owned()));
        };
        // A node's address is its name: each shows which it is, as by its certificate.
        let sender = from.clone();
        let answering = async move { coordinator.answer(question, Some(&sender)).await };
        let answer = tasks.spawn("answer", answering).await;
        let bytes = answer.as_ref().map_or(0, Bytes::len);
        self.time.sleep(self.way() + self.carrying(bytes)).await;
        if self.is_cut(&to, &from) {
            return std::future::pending().await;
        }
        answer.map_err(|_| CallError::Lost("the process is gone".to_owned()))
    }
}

type Answer = Result<Bytes, CallError>;

/// The ways from one node to the others.
pub struct Ways {
    /// All ways.
    pub network: Arc<Network>,
    /// The address of the node.
    pub from: String,
}

impl Peers for Ways {
    fn call(&self, address: &str, question: Bytes, timeout: Duration) -> Call {
        let (network, from, to) =
            (Arc::clone(&self.network), self.from.clone(), address.to_owned());
        Box::pin(async move {
            let carried = Arc::clone(&network).carry(from, to, question);
            network.time.timeout(timeout, carried).await.unwrap_or(Err(CallError::TimedOut))
        })
    }
}
