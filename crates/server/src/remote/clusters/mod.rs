//! The other clusters that this one knows: which there are, whether they are reached, and what can be
//! asked of them.
//!
//! It owns the connections to them. A cluster that is not there is tried again for as long as its
//! settings say that there is one ([`keeper`]): nothing that waits for it fails for good. What is set
//! comes from `cluster.remote.*` ([`settings`]); how a connection is made stands in [`way`], and what
//! those who follow tables there ask of it in [`leader`].

mod keeper;
mod lanes;
mod leader;
mod reachability;
pub mod settings;
mod way;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_cluster::following::RemoteError;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use super::protocol::{Answer, Ask, Question, TableInfo, Tables};
use crate::rpc::Threads;
use keeper::Keeper;
use reachability::Reachability;
use settings::{Mode, RemoteSettings};

/// How long another cluster has for an answer.
const ASK_TIME: Duration = Duration::from_secs(10);
/// How long a question waits for the first connections of a cluster that was just set.
const FIRST_TIME: Duration = Duration::from_secs(10);
/// The most of its tables that are looked at.
const TABLES_MAX: usize = 10_000;
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
        let state = Arc::new(Mutex::new(Reachability::default()));
        let (tells_tried, is_tried) = watch::channel(false);
        let wake = Arc::new(Notify::new());
        let (known, wakes) = (Arc::clone(&state), Arc::clone(&wake));
        let keeper = Keeper::new(name, settings.clone(), known, tells_tried, wakes);
        let task = threads.handle().spawn(keeper.keep()).abort_handle();
        self.threads = Some(threads);
        let name = name.to_owned();
        Ok(Arc::new(RemoteCluster { name, settings, state, is_tried, wake, task }))
    }
}

/// One of them, as long as its settings are these.
pub struct RemoteCluster {
    name: String,
    settings: RemoteSettings,
    state: Arc<Mutex<Reachability>>,
    /// Whether a node was reached, or that was tried and failed.
    is_tried: watch::Receiver<bool>,
    /// Says that more connections are wanted.
    wake: Arc<Notify>,
    task: AbortHandle,
}

impl Drop for RemoteCluster {
    fn drop(&mut self) {
        self.task.abort();
    }
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
    /// See [`RemoteError`]. Whoever can wait asks again: the cluster is tried for meanwhile.
    pub async fn ask(
        &self,
        node: Option<&str>,
        ask: Ask,
        timeout: Duration,
    ) -> Result<Answer, RemoteError> {
        // Right after it was set, its first connections are on their way.
        let mut is_tried = self.is_tried.clone();
        let tried = is_tried.wait_for(|is_tried| *is_tried);
        // Where that takes too long, what is known so far is told.
        let _ = tokio::time::timeout(timeout.min(FIRST_TIME), tried).await.is_ok();
        let way = self.state.lock().way(node)?;
        // Also where the way leads to it: behind a proxy it may have come to lead to another.
        let node = node.map(str::to_owned);
        way.ask(&Question { node, ask }, timeout).await
    }

    /// Its tables that may be followed, asked for page by page; and whether there are more than
    /// [`TABLES_MAX`].
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn all_tables(&self) -> Result<(Vec<TableInfo>, bool), RemoteError> {
        let mut found: Vec<TableInfo> = Vec::new();
        loop {
            let after = found.last().map(|it| it.name.clone()).unwrap_or_default();
            let asked = self.ask(None, Ask::Tables { after: after.clone() }, ASK_TIME);
            let Answer::Tables(Tables { tables, has_more }) = asked.await? else {
                return Err(RemoteError::Refused("another question was answered".to_owned()));
            };
            // Whatever is answered, each page brings what comes after the one before.
            let is_forward = tables.windows(2).all(|pair| pair[0].name < pair[1].name)
                && tables.first().is_none_or(|first| first.name > after);
            if !is_forward {
                return Err(RemoteError::Refused("the tables are in no order".to_owned()));
            }
            let is_last = !has_more || tables.is_empty();
            found.extend(tables);
            if is_last || found.len() >= TABLES_MAX {
                return Ok((found, !is_last));
            }
        }
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
