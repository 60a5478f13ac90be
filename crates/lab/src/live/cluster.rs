//! A cluster of processes on this machine, for one run of the lab: one node keeps the log that all
//! share, data nodes have a share of a processor each, and one node only coordinates. It is loaded
//! without limits and measured within them. Everything ends with it; see the guardian.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::corpus::Corpus;
use super::guardian::Guardian;
use super::limits::Limits;
use super::node::{Node, NodeSpec};
use super::processes;
use super::wire::{self, Connection, Protocol};
use crate::LabError;

/// Ports of the lab's nodes lie below those that the system gives to outgoing connections.
const PORTS: std::ops::Range<u16> = 22_000..23_000;
const FORMED_WAIT: Duration = Duration::from_secs(60);
const LOAD_WAIT: Duration = Duration::from_secs(120);
const ASK_WAIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);
/// Tables that are made to find one whose copies lie evenly.
const PLACEMENTS: usize = 24;
/// Bytes of one bulk request.
const BULK_BYTES: usize = 2 << 20;

/// What a cluster is to be.
#[derive(Clone, Debug)]
pub(crate) struct ClusterSpec {
    /// Data nodes, named `es1`, `es2`, ...
    pub(crate) data_nodes: usize,
    /// The share of a processor of each.
    pub(crate) data_share: f64,
    /// The share of the node that only coordinates; none where the first data node does, which
    /// then also keeps the log.
    pub(crate) coordinator_share: Option<f64>,
    /// `--set` of every node.
    pub(crate) settings: Vec<String>,
}

/// When nodes count as at rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    /// How long they may be busy with themselves.
    pub(crate) within: Duration,
    /// How often that is looked at.
    pub(crate) look: Duration,
    /// What of a processor all may take at rest.
    pub(crate) below: f64,
}

/// A running cluster.
pub(crate) struct Cluster {
    /// Data nodes first; then the coordinator and the keeper of the log, where they are apart.
    pub(crate) nodes: Vec<Node>,
    /// How many of them have data.
    pub(crate) data_nodes: usize,
    pub(crate) limits: Limits,
    pub(crate) guardian: Arc<Guardian>,
    folder: PathBuf,
}

impl Cluster {
    /// Starts one in `folder`, which is made and removed again.
    ///
    /// # Errors
    /// Names the node that does not start, with what it said.
    pub(crate) fn start(
        spec: &ClusterSpec,
        binary: &Path,
        folder: &Path,
    ) -> Result<Self, LabError> {
        let mut cluster = Self::prepare(node_specs(spec)?, spec.data_nodes, binary, folder)?;
        // The log comes first: it is the last node, or the first where all have data.
        let keeper = if spec.coordinator_share.is_some() { cluster.nodes.len() - 1 } else { 0 };
        cluster.nodes[keeper].start()?;
        cluster.nodes[keeper].await_ready()?;
        for (at, node) in cluster.nodes.iter_mut().enumerate() {
            if at != keeper {
                node.start()?;
            }
        }
        for node in &mut cluster.nodes {
            node.await_ready()?;
        }
        cluster.await_formed()?;
        Ok(cluster)
    }

    /// Starts nodes that know nothing of one another, each a cluster of its own; else the same.
    ///
    /// # Errors
    /// Names the node that does not start, with what it said.
    pub(crate) fn start_apart(
        specs: Vec<NodeSpec>,
        binary: &Path,
        folder: &Path,
    ) -> Result<Self, LabError> {
        let count = specs.len();
        let mut cluster = Self::prepare(specs, count, binary, folder)?;
        for node in &mut cluster.nodes {
            node.start()?;
        }
        for node in &mut cluster.nodes {
            node.await_ready()?;
        }
        Ok(cluster)
    }

    /// Nodes in their rooms, none of which runs yet.
    fn prepare(
        specs: Vec<NodeSpec>,
        data_nodes: usize,
        binary: &Path,
        folder: &Path,
    ) -> Result<Self, LabError> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error| LabError::live(what, error)
        };
        let guardian = Arc::new(Guardian::start().map_err(failed("start the guardian"))?);
        std::fs::create_dir_all(folder).map_err(failed("make the folder of the nodes"))?;
        guardian.tree(&folder.to_string_lossy()).map_err(failed("have the folder removed"))?;
        let limits = Limits::find(&guardian);
        let mut cluster =
            Self { nodes: Vec::new(), data_nodes, limits, guardian, folder: folder.to_owned() };
        for spec in specs {
            let room = cluster.limits.room(&spec.name, &cluster.guardian);
            let room = room.map_err(failed("make a control group"))?;
            let node = Node::new(spec, room, binary, folder, &cluster.guardian);
            cluster.nodes.push(node);
        }
        Ok(cluster)
    }

    fn await_formed(&self) -> Result<(), LabError> {
        let began = Instant::now();
        loop {
            let health = self.coordinator().ask("GET", "/_cluster/health", None, ASK_WAIT)?;
            if health["number_of_nodes"].as_u64() == Some(self.nodes.len() as u64) {
                return Ok(());
            }
            if began.elapsed() > FORMED_WAIT {
                let why = format!("after a minute its health is {health}");
                return Err(LabError::live("form a cluster".to_owned(), why));
            }
            std::thread::sleep(POLL);
        }
    }

    /// The node that clients talk to.
    pub(crate) fn coordinator(&self) -> &Node {
        // Where nothing is apart, all are data nodes and the first one coordinates.
        self.nodes.get(self.data_nodes).unwrap_or(&self.nodes[0])
    }

    /// Where the nodes' data is.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Puts every node within its share.
    pub(crate) fn limit(&self) -> Result<(), LabError> {
        for node in &self.nodes {
            let Some(share) = node.spec.share else { continue };
            let limited = self.limits.limit(&node.room, node.process(), share);
            limited
                .map_err(|error| LabError::live(format!("limit node {}", node.spec.name), error))?;
        }
        Ok(())
    }

    /// Lets every node use so many processors from now on.
    ///
    /// # Errors
    /// Where the system does not take it.
    pub(crate) fn limit_to(&self, share: f64) -> Result<(), LabError> {
        let limit = |node: &Node| self.limits.limit(&node.room, node.process(), share);
        self.each_limit("limit", limit)
    }

    /// Lets every node use what there is.
    ///
    /// # Errors
    /// Where the system does not take it.
    pub(crate) fn unlimit(&self) -> Result<(), LabError> {
        self.each_limit("free", |node| self.limits.release(&node.room, node.process()))
    }

    fn each_limit(
        &self,
        what: &str,
        change: impl Fn(&Node) -> std::io::Result<()>,
    ) -> Result<(), LabError> {
        self.nodes.iter().try_for_each(|node| {
            let what = || format!("{what} node {}", node.spec.name);
            change(node).map_err(|error| LabError::live(what(), error))
        })
    }

    /// Changes settings of the whole cluster while it runs; null takes one back to its default.
    pub(crate) fn set(&self, settings: &BTreeMap<String, Value>) -> Result<(), LabError> {
        set(&self.coordinator().http(), settings)
    }

    /// Whether the cluster takes a setting.
    pub(crate) fn takes(&self, name: &str, value: &Value) -> bool {
        self.set(&BTreeMap::from([(name.to_owned(), value.clone())])).is_ok()
    }

    /// Makes an index of a corpus and waits until all its copies are there, searchable and merged.
    pub(crate) fn load(
        &self,
        index: &str,
        corpus: &Corpus,
        shards: usize,
        replicas: usize,
    ) -> Result<(), LabError> {
        load(&self.coordinator().http(), index, corpus, shards, replicas)
    }

    /// The same with the copies as even as can be had. Where they go follows from a random
    /// number of the table; some are made, and the one whose copies lie best is kept: its name, and
    /// what each node has of it.
    pub(crate) fn load_evenly(
        &self,
        index: &str,
        corpus: &Corpus,
        shards: usize,
        replicas: usize,
    ) -> Result<(String, BTreeMap<String, usize>), LabError> {
        let address = self.coordinator().http();
        let delete = |name: &str| {
            super::node::ask(&address, "DELETE", &format!("/{name}"), None, ASK_WAIT).map(|_| ())
        };
        let mut best: Option<(usize, String, BTreeMap<String, usize>)> = None;
        for number in 0..PLACEMENTS {
            let name = format!("{index}-{number}");
            create(&address, &name, corpus, shards, replicas)?;
            let held = copies_by_node(&address, &name);
            let off = unevenness(&held, self.data_nodes);
            let is_better = best.as_ref().is_none_or(|(least, ..)| off < *least);
            let worse = match is_better {
                true => best.replace((off, name, held)).map(|(_, name, _)| name),
                false => Some(name),
            };
            if let Some(worse) = worse {
                delete(&worse)?;
            }
            if off == 0 && is_better {
                break;
            }
        }
        let nothing = || LabError::live(format!("load index {index}"), "no placement was tried");
        let (_, name, held) = best.ok_or_else(nothing)?;
        fill(&address, &name, corpus)?;
        Ok((name, held))
    }

    /// Waits until the nodes have written what they had to write anew, so that none of it falls into a lap.
    pub(crate) fn await_rest(&self, rest: &Rest, stop: &AtomicBool) {
        let began = Instant::now();
        let cpu_s =
            || self.nodes.iter().filter_map(|it| processes::cpu_s(it.process())).sum::<f64>();
        let mut before = cpu_s();
        while began.elapsed() < rest.within && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(rest.look);
            let now = cpu_s();
            if now - before < rest.below * rest.look.as_secs_f64() {
                return;
            }
            before = now;
        }
    }

    /// Names of nodes whose process has ended by itself.
    pub(crate) fn ended(&mut self) -> Vec<String> {
        let gone = self.nodes.iter_mut().filter_map(|node| {
            let has_ended = node.has_ended();
            has_ended.then(|| node.spec.name.clone())
        });
        gone.collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in &self.nodes {
            let _ = self.limits.release(&node.room, node.process());
            self.limits.forget(node.process());
            let _ = node.signal(super::guardian::Signal::Continue);
        }
        for node in &mut self.nodes {
            node.stop(false);
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Changes settings of the cluster that this address belongs to.
pub(crate) fn set(address: &str, settings: &BTreeMap<String, Value>) -> Result<(), LabError> {
    let body = json!({ "persistent": settings });
    super::node::ask(address, "PUT", "/_cluster/settings", Some(&body), ASK_WAIT).map(|_| ())
}

/// Makes an index of a corpus at any server that speaks REST.
pub(crate) fn load(
    address: &str,
    index: &str,
    corpus: &Corpus,
    shards: usize,
    replicas: usize,
) -> Result<(), LabError> {
    create(address, index, corpus, shards, replicas)?;
    fill(address, index, corpus)
}

fn create(
    address: &str,
    index: &str,
    corpus: &Corpus,
    shards: usize,
    replicas: usize,
) -> Result<(), LabError> {
    let body = json!({
        "settings": {
            "number_of_shards": shards,
            "number_of_replicas": replicas,
            "refresh_interval": "-1",
            // What is measured is the search, not how well an answer is remembered.
            "requests.cache.enable": false,
        },
        "mappings": { "properties": corpus.properties() },
    });
    super::node::ask(address, "PUT", &format!("/{index}"), Some(&body), LOAD_WAIT).map(|_| ())
}

/// How many copies of an index' partitions each node has.
pub(crate) fn copies_by_node(address: &str, index: &str) -> BTreeMap<String, usize> {
    let path = format!("/_cat/shards/{index}?format=json");
    let rows = super::node::ask(address, "GET", &path, None, ASK_WAIT).unwrap_or_default();
    let mut held = BTreeMap::new();
    for row in rows.as_array().into_iter().flatten() {
        if let Some(node) = row["node"].as_str() {
            *held.entry(node.to_owned()).or_default() += 1;
        }
    }
    held
}

/// How far copies are from lying evenly: the sum of the squares of what nodes have too many or too
/// few.
fn unevenness(held: &BTreeMap<String, usize>, nodes: usize) -> usize {
    let all: usize = held.values().sum();
    let even = all / nodes.max(1);
    let empty = nodes.saturating_sub(held.len()) * even * even;
    held.values().map(|count| count.abs_diff(even).pow(2)).sum::<usize>() + empty
}

fn fill(address: &str, index: &str, corpus: &Corpus) -> Result<(), LabError> {
    let ask = |method: &str, path: &str, body: Option<&Value>| {
        super::node::ask(address, method, path, body, LOAD_WAIT)
    };
    let what = || format!("load index {index}");
    let mut connection = Connection::open(address, Protocol::Http, LOAD_WAIT)
        .map_err(|error| LabError::live(what(), error))?;
    let mut lines = Vec::with_capacity(BULK_BYTES + (64 << 10));
    let mut send = |lines: &mut Vec<u8>| {
        let request = wire::http("POST", &format!("/{index}/_bulk"), address, lines);
        let status = connection.status(&request).map_err(|error| LabError::live(what(), error))?;
        let errors = connection.body.windows(13).any(|part| part == b"\"errors\":true");
        if status != 200 || errors {
            let front = &connection.body[..connection.body.len().min(400)];
            let why = format!("{status} {}", String::from_utf8_lossy(front));
            return Err(LabError::live(what(), why));
        }
        lines.clear();
        Ok(())
    };
    for (number, document) in corpus.documents()?.enumerate() {
        let document = document?;
        lines.extend_from_slice(format!("{{\"index\":{{\"_id\":\"{number}\"}}}}\n").as_bytes());
        lines.extend_from_slice(document.to_string().as_bytes());
        lines.push(b'\n');
        if lines.len() >= BULK_BYTES {
            send(&mut lines)?;
        }
    }
    if !lines.is_empty() {
        send(&mut lines)?;
    }
    ask("POST", &format!("/{index}/_refresh"), None)?;
    ask("POST", &format!("/{index}/_forcemerge?max_num_segments=1"), None)?;
    let wait = format!("/_cluster/health/{index}?wait_for_status=green&timeout=90s");
    let health = ask("GET", &wait, None)?;
    if health["status"] != "green" {
        return Err(LabError::live(what(), format!("not all copies are there: {health}")));
    }
    Ok(())
}

fn node_specs(spec: &ClusterSpec) -> Result<Vec<NodeSpec>, LabError> {
    let apart = if spec.coordinator_share.is_some() { 2 } else { 0 };
    let count = spec.data_nodes + apart;
    let ports = free_ports(count * 3 + 1)?;
    let (log_port, ports) = ports.split_last().unwrap_or((&0, &[]));
    let shared = format!("plimsoll://127.0.0.1:{log_port}");
    let mut specs: Vec<NodeSpec> = (0..count)
        .map(|at| NodeSpec {
            name: format!("es{}", at + 1),
            share: Some(spec.data_share),
            settings: spec.settings.clone(),
            log: shared.clone(),
            ports: [ports[at * 3], ports[at * 3 + 1], ports[at * 3 + 2]],
        })
        .collect();
    let mut keeper = 0;
    if let Some(share) = spec.coordinator_share {
        keeper = count - 1;
        for (at, name, share) in [(count - 2, "esclient", Some(share)), (keeper, "eslog", None)] {
            specs[at].name = name.to_owned();
            specs[at].share = share;
            specs[at].settings.push("node.roles=".to_owned());
        }
    }
    specs[keeper].log = "embedded".to_owned();
    specs[keeper].settings.push(format!("log.share=127.0.0.1:{log_port}"));
    Ok(specs)
}

/// Ports that nobody listens on.
pub(crate) fn free_ports(count: usize) -> Result<Vec<u16>, LabError> {
    // Two labs at once start at different places.
    let offset = u16::try_from(std::process::id() % 700).unwrap_or(0);
    let order = (PORTS.start + offset..PORTS.end).chain(PORTS.start..PORTS.start + offset);
    let free = order.filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    let found: Vec<u16> = free.take(count).collect();
    if found.len() < count {
        let why = format!("not {count} are free of {} to {}", PORTS.start, PORTS.end);
        return Err(LabError::live("find ports".to_owned(), why));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_lie_evenly_where_every_node_has_as_many() {
        let held = |counts: &[usize]| -> BTreeMap<String, usize> {
            let named = counts.iter().enumerate().map(|(at, count)| (format!("es{at}"), *count));
            named.collect()
        };
        assert_eq!(unevenness(&held(&[2, 2, 2, 2, 2]), 5), 0);
        assert_eq!(unevenness(&held(&[3, 1, 2, 2, 2]), 5), 2);
        // A node without any is not in the list.
        assert_eq!(unevenness(&held(&[4, 2, 2, 2]), 5), 8);
    }

    #[test]
    fn one_node_keeps_the_log_and_all_others_read_it_there() {
        let mut spec = ClusterSpec {
            data_nodes: 5,
            data_share: 0.24,
            coordinator_share: Some(0.25),
            settings: vec!["cache.size=64mb".to_owned()],
        };
        let all = node_specs(&spec).unwrap();
        let names: Vec<&str> = all.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["es1", "es2", "es3", "es4", "es5", "esclient", "eslog"]);
        let embedded: Vec<&str> =
            all.iter().filter(|n| n.log == "embedded").map(|n| n.name.as_str()).collect();
        assert_eq!(embedded, ["eslog"]);
        assert!(all[5].settings.contains(&"node.roles=".to_owned()));
        assert!(!all[4].settings.contains(&"node.roles=".to_owned()));
        spec.coordinator_share = None;
        let all = node_specs(&spec).unwrap();
        assert_eq!((all.len(), all[0].log.as_str()), (5, "embedded"));
        let mut ports: Vec<u16> = all.iter().flat_map(|node| node.ports).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 15);
    }
}
