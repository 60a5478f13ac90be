//! Keeps a remote cluster connected: reaches it by its seeds or its proxy, looks every few seconds
//! whether its nodes answer, and tries again for ever where they do not. What went wrong is said when
//! it changes, not at each attempt.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use plimsoll_base::Time;
use plimsoll_cluster::following::RemoteError;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::reachability::Reachability;
use super::settings::{Mode, RemoteSettings, host, is_address};
use super::way::{Means, Way};
use crate::remote::protocol::{Answer, Ask, Hello, NodeAddress, Question};
use crate::security::keys::Credential;
use crate::tls::watched::{FileError, Watched, read_file};
use crate::tls::{self, ClientFiles, Identity};

/// How often a cluster that is connected is asked whether it is there.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// How long it may take to say so.
const LOOK_TIME: Duration = Duration::from_secs(10);
/// The first pause after an attempt that failed; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// The most nodes of an answer that are looked at.
const NODES_MAX: usize = 1000;
/// How many addresses of nodes may fail in one look: each may take [`LOOK_TIME`].
const FAILURES_MAX: u32 = 2;

/// The longest id that a node may say it has, bytes.
const ID_BYTES_MAX: usize = 255;

/// Keeps one cluster connected.
pub(super) struct Keeper {
    name: String,
    settings: RemoteSettings,
    state: Arc<Mutex<Reachability>>,
    /// Turns true once a node is reached, or the first look has ended.
    is_tried: watch::Sender<bool>,
    /// There once the files could be read.
    means: Option<Means>,
    /// Looks so far at the addresses of nodes.
    looks: usize,
    /// Says that more connections are wanted.
    wake: Arc<Notify>,
}

impl Keeper {
    pub(super) fn new(
        name: &str,
        settings: RemoteSettings,
        state: Arc<Mutex<Reachability>>,
        is_tried: watch::Sender<bool>,
        wake: Arc<Notify>,
    ) -> Self {
        Self { name: name.to_owned(), settings, state, is_tried, means: None, looks: 0, wake }
    }

    /// Goes on until it is dropped.
    pub(super) async fn keep(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            let looked = self.check().await;
            let wait = match &looked {
                Ok(()) => {
                    pause = PAUSE_MIN;
                    LOOK_INTERVAL
                }
                Err(_) => {
                    let wait = pause;
                    pause = (2 * pause).min(PAUSE_MAX);
                    jittered(wait)
                }
            };
            self.note(looked.err().map(|error| error.to_string()));
            self.is_tried.send_replace(true);
            tokio::select! {
                () = sleep(wait) => {}
                // More connections are wanted.
                () = self.wake.notified() => {}
            }
        }
    }

    /// Notes how the look ended, and says it where that is news.
    fn note(&self, error: Option<String>) {
        let mut state = self.state.lock();
        let (was, is) = (state.is_reached, error.is_none());
        match &error {
            Some(why) if state.error.as_ref() != Some(why) => {
                tracing::warn!(cluster = self.name, why, "the remote cluster is not reached");
            }
            None if !was => {
                let connections = state.ways.len();
                tracing::info!(cluster = self.name, connections, "the remote cluster is reached");
            }
            _ => {}
        }
        state.is_reached = is;
        state.error = error;
    }

    /// Sees who still answers, and connects to what is missing.
    async fn check(&mut self) -> Result<(), RemoteError> {
        let means = self.means()?;
        let known = self.known();
        let asked = join_all(known.into_iter().map(greet)).await;
        let mut reached = Vec::new();
        let mut failed = None;
        for greeted in asked {
            match greeted {
                Ok(it) => reached.push(it),
                Err(error) => failed = Some(error),
            }
        }
        // Before others are tried, which may take long: nobody is to ask a node that is gone.
        self.keep_only(&reached);
        match self.settings.mode {
            Mode::Sniff => self.sniff(&means, &mut reached, &mut failed).await,
            Mode::Proxy => self.fill(&means, &mut reached, &mut failed).await,
        }
        self.keep_only(&reached);
        match (reached.is_empty(), failed) {
            (false, _) => Ok(()),
            (true, failed) => {
                Err(failed
                    .unwrap_or_else(|| RemoteError::Unreachable("no address is set".to_owned())))
            }
        }
    }

    /// The connections that there are. Where nodes are reached by their own addresses, each has as many as
    /// files come over; those beyond it end.
    fn known(&self) -> Vec<Way> {
        let state = self.state.lock();
        let mut of_nodes: HashMap<String, usize> = HashMap::new();
        let mut is_kept = |way: &Way| {
            let of_node = of_nodes.entry(way.node.clone()).or_default();
            *of_node += 1;
            self.settings.mode == Mode::Proxy || *of_node <= state.lanes
        };
        state.ways.iter().filter(|way| is_kept(way)).cloned().collect()
    }

    fn keep_only(&self, reached: &[(Way, Hello)]) {
        self.state.lock().ways = reached.iter().map(|(way, _)| way.clone()).collect();
        if !reached.is_empty() {
            self.is_tried.send_replace(true);
        }
    }

    /// Connects to nodes by their own addresses; to a seed first, where none is connected.
    async fn sniff(
        &mut self,
        means: &Means,
        reached: &mut Vec<(Way, Hello)>,
        failed: &mut Option<RemoteError>,
    ) {
        if reached.is_empty() {
            for seed in &self.settings.seeds {
                match self.open(seed, means).await {
                    Ok(it) => {
                        reached.push(it);
                        break;
                    }
                    Err(error) => *failed = Some(error),
                }
            }
        }
        let mut nodes: HashSet<String> = reached.iter().map(|(way, _)| way.node.clone()).collect();
        let found: Vec<NodeAddress> = reached
            .first()
            .map(|(_, hello)| hello.nodes.iter().take(NODES_MAX).cloned().collect())
            .unwrap_or_default();
        self.widen(means, reached, failed).await;
        let mut failures = 0;
        // Each look begins with another: those that do not answer hold up nobody for long.
        let first = self.looks % found.len().max(1);
        self.looks = self.looks.wrapping_add(1);
        for node in found.iter().cycle().skip(first).take(found.len()) {
            if nodes.len() >= self.settings.node_connections || failures == FAILURES_MAX {
                break;
            }
            if nodes.contains(&node.id) || !is_address(&node.address) {
                continue;
            }
            self.keep_only(reached);
            match self.open(&node.address, means).await {
                // Whoever answers there, which a wrong address may be another's.
                Ok(it) if nodes.insert(it.0.node.clone()) => reached.push(it),
                Ok(_) => {}
                Err(error) => {
                    failures += 1;
                    *failed = Some(error);
                }
            }
        }
    }

    /// Connects to nodes that are reached once more, as often as files come over.
    async fn widen(
        &self,
        means: &Means,
        reached: &mut Vec<(Way, Hello)>,
        failed: &mut Option<RemoteError>,
    ) {
        let lanes = self.state.lock().lanes;
        let mut nodes: Vec<(String, String)> =
            reached.iter().map(|(way, _)| (way.node.clone(), way.address.clone())).collect();
        nodes.sort();
        nodes.dedup_by(|one, other| one.0 == other.0);
        for (node, address) in nodes {
            let of_node = |reached: &[(Way, Hello)]| {
                reached.iter().filter(|(way, _)| way.node == node).count()
            };
            while of_node(reached) < lanes {
                self.keep_only(reached);
                match self.open(&address, means).await {
                    Ok(it) if it.0.node == node => reached.push(it),
                    // Something before it spreads connections over nodes.
                    Ok(_) => break,
                    Err(error) => {
                        *failed = Some(error);
                        break;
                    }
                }
            }
        }
    }

    /// Connects as often as is set to the one address.
    async fn fill(
        &self,
        means: &Means,
        reached: &mut Vec<(Way, Hello)>,
        failed: &mut Option<RemoteError>,
    ) {
        let Some(address) = &self.settings.proxy_address else { return };
        while reached.len() < self.settings.proxy_connections {
            self.keep_only(reached);
            match self.open(address, means).await {
                Ok(it) => reached.push(it),
                Err(error) => {
                    *failed = Some(error);
                    return;
                }
            }
        }
    }

    /// Connects to an address and finds out who answers there.
    async fn open(&self, address: &str, means: &Means) -> Result<(Way, Hello), RemoteError> {
        let server_name = self.settings.server_name.as_deref().unwrap_or_else(|| host(address));
        greet(Way::open(address, server_name, means.clone()).await?).await
    }

    /// What connections are made with, from the files as they are.
    fn means(&mut self) -> Result<Means, RemoteError> {
        if let Some(means) = &self.means {
            return Ok(means.clone());
        }
        let unread = |error: FileError| RemoteError::Unreachable(error.to_string());
        if self.settings.authorities.is_empty() {
            return Err(RemoteError::Unreachable(format!(
                "cluster.remote.{}.certificate_authorities is not set: nobody could be trusted",
                self.name
            )));
        }
        let identity = self.settings.certificate.clone().zip(self.settings.key.clone());
        let identity = identity.map(|(certificate, key)| Identity { certificate, key });
        let files = ClientFiles { authorities: self.settings.authorities.clone(), identity };
        let time = Time::of_the_machine();
        let tls = Arc::new(tls::client(files, &time).map_err(unread)?);
        let credential = match &self.settings.credentials_file {
            Some(path) => Some(Arc::new(credential(path.clone(), &time).map_err(unread)?)),
            None => None,
        };
        let means = Means { tls, credential };
        self.means = Some(means.clone());
        Ok(means)
    }
}

/// Asks who is at the other end.
async fn greet(mut way: Way) -> Result<(Way, Hello), RemoteError> {
    match way.ask(&Question::of_any(Ask::Hello), LOOK_TIME).await? {
        Answer::Hello(hello) if !(1..=ID_BYTES_MAX).contains(&hello.node.len()) => {
            Err(RemoteError::Refused(format!("{}: does not say which node it is", way.address)))
        }
        Answer::Hello(hello) => {
            way.node.clone_from(&hello.node);
            Ok((way, hello))
        }
        _ => Err(RemoteError::Refused(format!("{}: answers another question", way.address))),
    }
}

/// The key that a file holds: what `encoded` was in the answer that made it.
fn credential(path: PathBuf, time: &Time) -> Result<Watched<Credential>, FileError> {
    let files = vec![path.clone()];
    Watched::new("other clusters", files, time, move || {
        let wrong = || FileError::new(&path, "holds no key: write `encoded` of its creation there");
        Credential::decode(read_file(&path)?.trim_ascii()).ok_or_else(wrong)
    })
}

/// A pause from half of it to all of it: nodes that lost a cluster together do not come back together.
fn jittered(pause: Duration) -> Duration {
    let mut drawn = [0; 1];
    // Without chance it is the whole pause.
    let drawn = if getrandom::fill(&mut drawn).is_ok() { drawn[0] } else { u8::MAX };
    pause / 2 + (pause / 2) * u32::from(drawn) / 255
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_differ_within_bounds() {
        for _ in 0..100 {
            let pause = jittered(PAUSE_MAX);
            assert!((PAUSE_MAX / 2..=PAUSE_MAX).contains(&pause), "{pause:?}");
        }
    }

    #[test]
    fn a_key_is_read_from_its_file_and_not_shown_where_it_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "aWQ6c2VjcmV0\n").unwrap();
        let time = Time::of_the_machine();
        let read = || credential(path.clone(), &time).map(|it| it.get().encode());
        assert_eq!(read().as_deref(), Ok("aWQ6c2VjcmV0"));
        std::fs::write(&path, "id:secret").unwrap();
        let refused = read().unwrap_err().to_string();
        assert!(refused.contains("holds no key") && !refused.contains("secret"), "{refused}");
    }
}
