//! The servers of `breaker-overhead`: one that draws between `on` and `noop` for each request, and one of
//! another binary, without the allocator's layer, on a copy of its files.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::arms::{NOOP, WITHOUT};
use crate::LabError;
use crate::files::copy_folder;
use crate::live::cluster::{self, Cluster};
use crate::live::node::NodeSpec;
use crate::live::options::LiveOptions;
use crate::live::processes;
use crate::live::wire::{Connection, Protocol, http};

const NODE: &str = "breakers";
pub(super) const INDEX: &str = "numbers";
/// Documents of one bulk request.
const BULK_DOCUMENTS: u64 = 20_000;
/// How long an answer may take: a merge of all files is one.
const WAIT: Duration = Duration::from_secs(600);

/// One of them.
pub(super) struct Server {
    cluster: Cluster,
    /// Of its REST.
    pub(super) address: String,
    pub(super) is_layerless: bool,
}

impl Server {
    /// Processor time of its process so far, s.
    pub(super) fn cpu_s(&self) -> f64 {
        processes::cpu_s(self.cluster.nodes[0].process()).unwrap_or(0.0)
    }

    /// The most memory that its process had, bytes.
    pub(super) fn peak_bytes(&self) -> Option<u64> {
        processes::resident_bytes_peak(self.cluster.nodes[0].process())
    }

    fn start(
        binary: &Path,
        folder: &Path,
        ports: [u16; 3],
        is_layerless: bool,
    ) -> Result<Self, LabError> {
        let (settings, log) = (Vec::new(), "embedded".to_owned());
        let spec = NodeSpec { name: NODE.to_owned(), share: None, settings, log, ports };
        let cluster = Cluster::start_apart(vec![spec], binary, folder)?;
        let address = cluster.nodes[0].http();
        Ok(Self { cluster, address, is_layerless })
    }
}

/// All of them.
pub(super) struct Servers(Vec<Server>);

impl Servers {
    /// Starts a server, has it index so many documents, and starts the other on a copy of that.
    ///
    /// # Errors
    /// Names the step that failed, with what the server said.
    pub(super) fn start(
        options: &LiveOptions,
        layerless: Option<&Path>,
        documents: u64,
    ) -> Result<Self, LabError> {
        let ports = cluster::free_ports(6)?;
        let ports = |at: usize| [ports[at], ports[at + 1], ports[at + 2]];
        let folder = options.folder.join("layered");
        let mut first = Server::start(&options.binary, &folder, ports(0), false)?;
        fill(&first, documents)?;
        let mut all = Vec::new();
        if let Some(binary) = layerless {
            let node = &mut first.cluster.nodes[0];
            node.stop(true);
            let other = options.folder.join(WITHOUT);
            copy_folder(&folder.join(NODE), &other.join(NODE), None)
                .map_err(|error| LabError::live("copy the files of a server".to_owned(), error))?;
            node.start()?;
            node.await_ready()?;
            all.push(Server::start(binary, &other, ports(3), true)?);
        }
        all.insert(0, first);
        for server in &all {
            let kind = if server.is_layerless { NOOP } else { "drawn" };
            let body = json!({ "transient": { "indices.breaker.request.type": kind } });
            let node = &server.cluster.nodes[0];
            node.ask("PUT", "/_cluster/settings", Some(&body), WAIT)?;
        }
        Ok(Self(all))
    }

    pub(super) fn all(&self) -> &[Server] {
        &self.0
    }
}

/// Indexes documents with an incrementing long, in two partitions of one segment each.
fn fill(server: &Server, documents: u64) -> Result<(), LabError> {
    let node = &server.cluster.nodes[0];
    let body = json!({
        "settings": { "number_of_shards": 2, "number_of_replicas": 0, "refresh_interval": "-1" },
        "mappings": { "properties": { "n": { "type": "long" } } },
    });
    node.ask("PUT", &format!("/{INDEX}"), Some(&body), WAIT)?;
    let failed = |error: io::Error| LabError::live("index documents".to_owned(), error);
    let mut connection = Connection::open(&server.address, Protocol::Http, WAIT).map_err(failed)?;
    let path = format!("/{INDEX}/_bulk");
    for from in (0..documents).step_by(usize::try_from(BULK_DOCUMENTS).unwrap_or(1)) {
        let until = (from + BULK_DOCUMENTS).min(documents);
        let lines: String =
            (from..until).map(|n| format!("{{\"index\":{{}}}}\n{{\"n\":{n}}}\n")).collect();
        let request = http("POST", &path, &server.address, lines.as_bytes());
        let status = connection.status(&request).map_err(failed)?;
        if !(200..300).contains(&status) {
            let why = io::Error::other(format!("a bulk request was answered with {status}"));
            return Err(failed(why));
        }
    }
    for what in ["_refresh", "_forcemerge?max_num_segments=1", "_flush"] {
        node.ask("POST", &format!("/{INDEX}/{what}"), None, WAIT)?;
    }
    let counted = node.ask("GET", &format!("/{INDEX}/_count"), None, WAIT)?;
    match counted["count"].as_u64() {
        Some(count) if count == documents => Ok(()),
        count => {
            let why = format!("{documents} were sent, {count:?} are there");
            Err(LabError::live("index documents".to_owned(), why))
        }
    }
}
