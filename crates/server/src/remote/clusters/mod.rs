//! The other clusters that this one knows: which there are, whether they are reached, and what can be
//! asked of them.
//!
//! It owns the connections to them. A cluster that is not there is tried again for as long as its
//! settings say that there is one ([`keeper`]): nothing that waits for it fails for good. What is set
//! comes from `cluster.remote.*` ([`settings`]); how a connection is made stands in [`way`].

mod keeper;
pub mod settings;
mod way;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::AbortHandle;

use super::protocol::{Answer, Ask, Question};
use crate::rpc::Threads;
use keeper::Keeper;
use settings::{Mode, RemoteSettings};
use way::Way;

pub use way::AskError;

/// How long threads may take to end.
const THREADS_PAUSE: Duration = Duration::from_millis(100);

/// All of them.
#[derive(Default)]
pub struct RemoteClusters {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    clusters: BTreeMap<String, Arc<RemoteCluster>>,
    /// There from the first cluster on: most nodes know none.
    threads: Option<Threads>,
    has_stopped: bool,
}

impl RemoteClusters {
    /// Takes over what the cluster has set, by name, as text. Those that did not change stay connected.
    pub fn take_settings(&self, set: &BTreeMap<String, String>) {
        let mut wanted = settings::parse(set);
        wanted.retain(|_, settings| settings.is_complete());
        let mut inner = self.inner.lock();
        if inner.has_stopped {
            return;
        }
        inner.clusters.retain(|name, known| wanted.get(name) == Some(&known.settings));
        for (name, settings) in wanted {
            if inner.clusters.contains_key(&name) {
                continue;
            }
            match inner.start(&name, settings) {
                Ok(cluster) => drop(inner.clusters.insert(name, cluster)),
                Err(error) => tracing::error!(name, %error, "no threads for remote clusters"),
            }
        }
    }

    /// All that are set, by name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<RemoteCluster>> {
        self.inner.lock().clusters.values().cloned().collect()
    }

    /// The one of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<RemoteCluster>> {
        self.inner.lock().clusters.get(name).cloned()
    }

    /// Ends all connections and the threads that carry them. Blocks.
    pub fn stop(&self) {
        let mut inner = self.inner.lock();
        inner.has_stopped = true;
        inner.clusters.clear();
        let threads = inner.threads.take();
        drop(inner);
        if let Some(threads) = threads {
            threads.stop(THREADS_PAUSE);
        }
    }
}

impl Inner {
    fn start(&mut self, name: &str, settings: RemoteSettings) -> io::Result<Arc<RemoteCluster>> {
        let threads = match self.threads.take() {
            Some(threads) => threads,
            None => Threads::start("remote-clusters")?,
        };
        let state = Arc::new(Mutex::new(State::default()));
        let keeper = Keeper::new(name, settings.clone(), Arc::clone(&state));
        let task = threads.handle().spawn(keeper.keep()).abort_handle();
        self.threads = Some(threads);
        Ok(Arc::new(RemoteCluster { name: name.to_owned(), settings, state, task }))
    }
}

/// One of them, as long as its settings are these.
pub struct RemoteCluster {
    name: String,
    settings: RemoteSettings,
    state: Arc<Mutex<State>>,
    task: AbortHandle,
}

impl Drop for RemoteCluster {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How it is reached now.
#[derive(Default)]
struct State {
    ways: Vec<Way>,
    /// Whose turn it is.
    next: usize,
    /// Whether the last look ended well.
    is_reached: bool,
    /// Why it is not reached, once that was tried.
    error: Option<String>,
}

/// What is known of a remote cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteInfo {
    /// Its name here.
    pub name: String,
    /// What is set.
    pub settings: RemoteSettings,
    /// Connections that are open.
    pub connections: usize,
    /// The nodes that they lead to, by their ids.
    pub nodes: Vec<String>,
    /// Why it is not reached, once that was tried.
    pub error: Option<String>,
}

impl RemoteCluster {
    /// What is known of it.
    #[must_use]
    pub fn info(&self) -> RemoteInfo {
        let state = self.state.lock();
        let mut nodes: Vec<String> = state.ways.iter().map(|way| way.node.clone()).collect();
        nodes.sort();
        nodes.dedup();
        RemoteInfo {
            name: self.name.clone(),
            settings: self.settings.clone(),
            connections: state.ways.len(),
            nodes,
            error: state.error.clone(),
        }
    }

    /// Asks a node of it; any where none is named.
    ///
    /// # Errors
    /// See [`AskError`]. Whoever can wait asks again: the cluster is tried for meanwhile.
    pub async fn ask(
        &self,
        node: Option<&str>,
        ask: Ask,
        timeout: Duration,
    ) -> Result<Answer, AskError> {
        let way = self.way(node)?;
        // Also where the way leads to it: behind a proxy it may have come to lead to another.
        let node = node.map(str::to_owned);
        way.ask(&Question { node, ask }, timeout).await
    }

    /// The way to a node, else to any: through a proxy whoever is reached hands a question on.
    fn way(&self, node: Option<&str>) -> Result<Way, AskError> {
        let mut state = self.state.lock();
        let leads = |way: &&Way| node.is_some_and(|node| way.node == node);
        if let Some(way) = state.ways.iter().find(leads) {
            return Ok(way.clone());
        }
        if state.ways.is_empty() {
            let why = state.error.clone().unwrap_or_else(|| "it was not reached yet".to_owned());
            return Err(AskError::Unreachable(why));
        }
        state.next = (state.next + 1) % state.ways.len();
        Ok(state.ways[state.next].clone())
    }
}

impl RemoteInfo {
    /// Whether it is reached.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.connections > 0
    }

    /// Whether it is reached through one address.
    #[must_use]
    pub fn is_proxied(&self) -> bool {
        self.settings.mode == Mode::Proxy
    }
}
