//! Two clusters of one node each on this machine, and the link between them: certificates, a key, and
//! a follower that knows its leader in mode `proxy`, at the near end of the link, so that all that
//! the two say to one another goes through it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::arms::PACING;
use super::copying::Follower;
use super::index::{self, SHARDS};
use super::raw::{self, RawServer};
use super::watched::is_level;
use crate::LabError;
use crate::live::cluster::{self, Cluster, Rest};
use crate::live::corpus::Corpus;
use crate::live::node::{self, Node, NodeSpec};
use crate::wan::{Wan, WanSettings};

/// The leader's table, and the follower's.
pub(crate) const LEADER_INDEX: &str = "http_logs";
pub(crate) const FOLLOWER_INDEX: &str = "http_logs-copy";
/// What the follower calls the leader's cluster.
const REMOTE: &str = "leader";
/// Processors of each node.
pub(crate) const SHARE: f64 = 0.6;
const ASK_WAIT: Duration = Duration::from_secs(30);
const CONNECT_WAIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);
/// When both are at rest.
const REST: Rest =
    Rest { within: Duration::from_secs(60), look: Duration::from_secs(2), below: 0.1 };
const TLS: &str = "xpack.security.remote_cluster_server.ssl";

/// The two, and what lies between them.
pub(crate) struct Pair {
    /// The leader's node, then the follower's.
    pub(crate) cluster: Cluster,
    pub(crate) wan: Wan,
    /// Partitions of the table.
    pub(crate) shards: usize,
    certificates: PathBuf,
    /// Serves the raw copies, with the near end of the link to it.
    raw: Option<(RawServer, SocketAddr)>,
}

impl Pair {
    /// Starts both and connects them.
    ///
    /// # Errors
    /// Names the step that failed, with what the node said.
    pub(crate) fn start(
        binary: &Path,
        folder: &Path,
        link: WanSettings,
        seed: u64,
    ) -> Result<Self, LabError> {
        let certificates = folder.join("certificates");
        let started = certify(binary, &certificates).and_then(|()| {
            let ports = cluster::free_ports(7)?;
            let port = ports[6];
            let specs = specs(&ports, &certificates);
            Ok((Cluster::start_apart(specs, binary, folder)?, port))
        });
        // What a cluster made it removes itself.
        let (cluster, port) = started.inspect_err(|_| {
            let _ = std::fs::remove_dir_all(folder);
        })?;
        let wan = Wan::start(SocketAddr::from(([127, 0, 0, 1], port)), link, seed);
        let wan = wan.map_err(|error| LabError::live("start the link".to_owned(), error))?;
        let pair = Self { cluster, wan, shards: SHARDS, certificates, raw: None };
        pair.connect()?;
        Ok(pair)
    }

    pub(crate) fn leader(&self) -> &Node {
        &self.cluster.nodes[0]
    }

    pub(crate) fn follower(&self) -> &Node {
        &self.cluster.nodes[1]
    }

    /// Bytes that the link carried so far, both ways.
    pub(crate) fn wire_bytes(&self) -> u64 {
        self.wan.carried_bytes().iter().sum()
    }

    fn connect(&self) -> Result<(), LabError> {
        let access = json!({ "name": "lab", "access": { "replication": [{ "names": ["*"] }] } });
        let path = "/_security/cross_cluster/api_key";
        let key = self.leader().ask("POST", path, Some(&access), ASK_WAIT)?;
        let encoded = key["encoded"].as_str().unwrap_or_default();
        let file = self.certificates.join("key");
        std::fs::write(&file, encoded)
            .map_err(|source| LabError::Write { path: file.clone(), source })?;
        let settings = [
            ("mode", "proxy".to_owned()),
            ("proxy_address", self.wan.address().to_string()),
            ("certificate_authorities", self.authority().display().to_string()),
            ("credentials_file", file.display().to_string()),
        ];
        let settings = settings
            .into_iter()
            .map(|(name, value)| (format!("cluster.remote.{REMOTE}.{name}"), json!(value)));
        cluster::set(&self.follower().http(), &settings.collect())?;
        self.await_connected()
    }

    /// Waits until the follower has a connection to its leader.
    fn await_connected(&self) -> Result<(), LabError> {
        let began = Instant::now();
        loop {
            let info = self.follower().ask("GET", "/_remote/info", None, ASK_WAIT)?;
            if info[REMOTE]["connected"] == true {
                return Ok(());
            }
            if began.elapsed() > CONNECT_WAIT {
                let why = format!("after half a minute it says {info}");
                return Err(LabError::live("connect the follower".to_owned(), why));
            }
            std::thread::sleep(POLL);
        }
    }

    /// The certificate that vouches for the leader.
    pub(crate) fn authority(&self) -> PathBuf {
        self.certificates.join("ca.crt")
    }

    /// Loads the leader's table, anew where there is one.
    pub(crate) fn load(&mut self, corpus: &Corpus, shards: usize) -> Result<(), LabError> {
        index::delete(&self.leader().http(), LEADER_INDEX)?;
        self.shards = shards;
        cluster::load(&self.leader().http(), LEADER_INDEX, corpus, shards, 0)
    }

    /// Changes settings of the follower, if there are any, and that of pacing at the leader too. Those of
    /// the way to its leader have the follower connect anew.
    pub(crate) fn set(&self, settings: &BTreeMap<String, Value>) -> Result<(), LabError> {
        match settings.is_empty() {
            true => Ok(()),
            false => {
                cluster::set(&self.follower().http(), settings)?;
                if let Some(pacing) = settings.get(PACING) {
                    let both = [(PACING.to_owned(), pacing.clone())];
                    cluster::set(&self.leader().http(), &both.into())?;
                }
                self.await_connected()
            }
        }
    }

    /// Waits until both have written what they had to write anew, so that none of it falls into a lap.
    pub(crate) fn await_rest(&self, stop: &AtomicBool) {
        self.cluster.await_rest(&REST, stop);
    }

    /// Deletes the follower's table, if it is there.
    pub(crate) fn forget(&self) -> Result<(), LabError> {
        index::delete(&self.follower().http(), FOLLOWER_INDEX)
    }

    /// Asks the follower about its table.
    pub(crate) fn ask(&self, what: &str) -> Result<Value, LabError> {
        let path = format!("/{FOLLOWER_INDEX}/{what}");
        node::ask(&self.follower().http(), "GET", &path, None, ASK_WAIT)
    }

    /// Has so many bytes of the leader's files ready for raw copies; where they are had.
    pub(crate) fn serve_raw(&mut self, bytes: u64) -> Result<(), LabError> {
        let failed = |error| LabError::live("prepare the raw copy".to_owned(), error);
        let (folder, file) = (self.cluster.folder().to_owned(), self.cluster.folder().join("raw"));
        raw::gather(&folder.join(&self.leader().spec.name), bytes, &file).map_err(failed)?;
        let of = |name: &str| self.certificates.join(name);
        let server = RawServer::start(&file, &of("leader.crt"), &of("leader.key"));
        let server = server.map_err(failed)?;
        let address = self.wan.also(server.address()).map_err(failed)?;
        self.raw = Some((server, address));
        Ok(())
    }

    /// The near end of the link to the raw copies.
    pub(crate) fn raw_address(&self) -> Result<SocketAddr, LabError> {
        let nothing = || LabError::live("make a raw copy".to_owned(), "nothing serves it");
        self.raw.as_ref().map(|(_, address)| *address).ok_or_else(nothing)
    }
}

impl Follower for Pair {
    /// It answers before anything is copied.
    fn follow(&self) -> Result<(), LabError> {
        let path = format!("/{FOLLOWER_INDEX}/_ccr/follow?wait_for_active_shards=0");
        let body = json!({ "remote_cluster": REMOTE, "leader_index": LEADER_INDEX });
        self.follower().ask("PUT", &path, Some(&body), ASK_WAIT).map(|_| ())
    }

    fn recovery(&self) -> Result<(Value, &str), LabError> {
        Ok((self.ask("_recovery?active_only=false")?, FOLLOWER_INDEX))
    }

    fn is_level(&self) -> Result<bool, LabError> {
        Ok(is_level(&self.ask("_ccr/stats")?, self.shards))
    }

    fn shards(&self) -> usize {
        self.shards
    }

    fn has_our_clock(&self) -> bool {
        true
    }
}

/// An authority, and a certificate of the leader's for this machine, as a user makes them.
fn certify(binary: &Path, folder: &Path) -> Result<(), LabError> {
    let made = |words: &[&str]| {
        let what = || format!("make certificates ({})", words[0]);
        let mut command = Command::new(binary);
        command.arg("certificates").args(words).arg("--out").arg(folder);
        if words[0] == "node" {
            command.arg("--ca").arg(folder);
        }
        command.stdin(Stdio::null());
        let made = command.output().map_err(|error| LabError::live(what(), error))?;
        match made.status.success() {
            true => Ok(()),
            false => Err(LabError::live(what(), String::from_utf8_lossy(&made.stderr))),
        }
    };
    made(&["ca"])?;
    made(&["node", "--name", "leader", "--ip", "127.0.0.1"])
}

/// The two nodes: three ports of each, and last the one that the leader opens for followers.
fn specs(ports: &[u16], certificates: &Path) -> Vec<NodeSpec> {
    let spec = |name: &str, ports: [u16; 3]| NodeSpec {
        name: name.to_owned(),
        share: Some(SHARE),
        settings: [crate::live::node_settings(), vec![format!("cluster.name={name}")]].concat(),
        log: "embedded".to_owned(),
        ports,
    };
    let mut leader = spec("leader", [ports[0], ports[1], ports[2]]);
    let path = |name: &str| certificates.join(name).display().to_string();
    leader.settings.extend([
        "remote_cluster_server.enabled=true".to_owned(),
        format!("remote_cluster.port={}", ports[6]),
        format!("{TLS}.certificate={}", path("leader.crt")),
        format!("{TLS}.key={}", path("leader.key")),
    ]);
    vec![leader, spec("follower", [ports[3], ports[4], ports[5]])]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_know_nothing_of_one_another() {
        let specs = specs(&[1, 2, 3, 4, 5, 6, 7], Path::new("/c"));
        let [leader, follower] = specs.as_slice() else { panic!("{specs:?}") };
        assert_eq!((leader.log.as_str(), follower.log.as_str()), ("embedded", "embedded"));
        assert_eq!((leader.ports, follower.ports), ([1, 2, 3], [4, 5, 6]));
        let has = |node: &NodeSpec, text: &str| node.settings.iter().any(|one| one == text);
        assert!(has(leader, "remote_cluster.port=7") && has(leader, "cluster.name=leader"));
        assert!(has(leader, &format!("{TLS}.certificate=/c/leader.crt")));
        assert!(!follower.settings.iter().any(|one| one.starts_with("remote_cluster")));
    }
}
