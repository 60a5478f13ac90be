//! Stores that scenarios ask side by side: nodes of this binary, other stores with the protocol of Redis, each
//! with its own settings, and a bare RocksDB (`bare.rs`). What they are asked is not decided here.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::bare::Bare;
use super::disk::SlowDisk;
use super::given::Given;
use super::server::Server;
use super::source::Rows;
use super::store::{Told, fill_all};
use crate::LabError;
use crate::live::cluster::{self, Cluster, ClusterSpec};
use crate::live::guardian::Guardian;
use crate::live::node::Node;
use crate::live::shares::Throttled;
use crate::live::wire::{Connection, Ended, Protocol, command};

/// Settings of nodes where a scenario needs no others.
pub(super) const DEFAULTS: [&str; 3] =
    ["cache.size=64mb", "write_buffer.size=128mb", "logger.level=warn"];
const READY_WAIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// A store of this machine, or one that was given.
pub(super) enum Peer {
    Nodes(Box<Cluster>),
    Other(Other),
    Given(Given),
    Bare(Bare),
}

/// One process of another store.
pub(super) struct Other {
    process: Child,
    port: u16,
    guardian: Arc<Guardian>,
}

impl Peer {
    /// Nodes of this binary: one, or several of which the first keeps the log; synced before an answer.
    /// `settings` are `--set` of each.
    ///
    /// # Errors
    /// Names the node that does not start, with what it said.
    pub(super) fn nodes(
        binary: &Path,
        folder: &Path,
        count: usize,
        settings: &[&str],
    ) -> Result<Self, LabError> {
        let settings = settings.iter().map(|it| (*it).to_owned()).collect();
        let spec =
            ClusterSpec { data_nodes: count, data_share: 0.0, coordinator_share: None, settings };
        Ok(Self::Nodes(Box::new(Cluster::start(&spec, binary, folder)?)))
    }

    /// A server of this program, which writes all to a log that it syncs as `sync` says.
    ///
    /// # Errors
    /// It does not start.
    pub(super) fn other(program: &str, sync: &str, folder: &Path) -> Result<Self, LabError> {
        let failed = |error| LabError::live(format!("start {program}"), error);
        let port = cluster::free_ports(1)?[0];
        std::fs::create_dir_all(folder).map_err(failed)?;
        let guardian = Arc::new(Guardian::start().map_err(failed)?);
        guardian.tree(&folder.to_string_lossy()).map_err(failed)?;
        let said = File::create(folder.join("said")).map_err(failed)?;
        let process = Command::new(program)
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""])
            .args(["--appendonly", "yes", "--appendfsync", sync, "--dir"])
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(said)
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let peer = Self::Other(Other { process, port, guardian });
        peer.await_ready().map_err(failed)?;
        Ok(peer)
    }

    fn await_ready(&self) -> io::Result<()> {
        let Self::Other(other) = self else { return Ok(()) };
        other.guardian.guard(i64::from(other.process.id()))?;
        let began = Instant::now();
        loop {
            let answered =
                Connection::open(&self.server().addresses()[0], Protocol::Resp, READY_WAIT)
                    .and_then(|mut open| open.ask(&command(&[b"PING"])));
            match answered {
                Ok(Ended::Answered) => return Ok(()),
                Err(error) if began.elapsed() > READY_WAIT => return Err(error),
                _ => thread::sleep(POLL),
            }
        }
    }

    /// What can be asked of it.
    pub(super) fn server(&self) -> &dyn Server {
        match self {
            Self::Nodes(nodes) => &**nodes,
            Self::Other(other) => other,
            Self::Given(given) => given,
            Self::Bare(bare) => bare,
        }
    }

    /// Writes every row once.
    ///
    /// # Errors
    /// A row is not taken.
    pub(super) fn fill(&self, rows: &Rows, keys: u64, seed: u64) -> Result<(), LabError> {
        match self {
            Self::Bare(bare) => bare.fill(rows, keys, seed),
            _ => fill_all(&self.server().addresses()[0], rows, keys, seed),
        }
    }
}

impl Server for Cluster {
    fn addresses(&self) -> Vec<String> {
        let nodes = self.nodes.iter().take(self.data_nodes);
        nodes.map(|node| format!("127.0.0.1:{}", node.spec.ports[1])).collect()
    }

    fn processes(&self) -> Vec<u32> {
        self.nodes.iter().map(Node::process).collect()
    }

    fn names(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.spec.name.clone()).collect()
    }

    fn throttled(&self) -> Vec<Option<Throttled>> {
        self.nodes.iter().map(|node| node.room.throttled()).collect()
    }

    fn told(&self, disk: Option<Arc<SlowDisk>>) -> Told {
        let first = &self.nodes[0];
        Told { process: first.process(), address: first.http(), disk }
    }
}

impl Server for Other {
    fn addresses(&self) -> Vec<String> {
        vec![format!("127.0.0.1:{}", self.port)]
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.process.id()]
    }

    fn names(&self) -> Vec<String> {
        vec!["server".to_owned()]
    }

    fn throttled(&self) -> Vec<Option<Throttled>> {
        vec![None]
    }

    fn told(&self, disk: Option<Arc<SlowDisk>>) -> Told {
        // It tells nothing over HTTP; what it writes the system says.
        Told { process: self.process.id(), address: format!("127.0.0.1:{}", self.port), disk }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = self.guardian.forget(i64::from(self.process.id()));
    }
}
