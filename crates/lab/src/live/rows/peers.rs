//! Servers that `mixes` asks side by side: nodes of this binary, and other stores with the protocol of
//! Redis, each with its own settings. What they are asked is not decided here.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::LabError;
use crate::live::cluster::{self, Cluster, ClusterSpec};
use crate::live::guardian::Guardian;
use crate::live::processes;
use crate::live::wire::{Connection, Ended, Protocol, command};

const READY_WAIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// A server, or several that are one store.
pub(super) enum Peer {
    Nodes(Box<Cluster>),
    Other(Other),
}

/// One process of another store.
pub(super) struct Other {
    process: Child,
    port: u16,
    guardian: Arc<Guardian>,
}

impl Peer {
    /// Nodes of this binary: one, or several of which the first keeps the log; synced before an answer.
    ///
    /// # Errors
    /// Names the node that does not start, with what it said.
    pub(super) fn nodes(binary: &Path, folder: &Path, count: usize) -> Result<Self, LabError> {
        let settings = ["cache.size=64mb", "logger.level=warn"].map(str::to_owned).to_vec();
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
            let answered = Connection::open(&self.addresses()[0], Protocol::Resp, READY_WAIT)
                .and_then(|mut open| open.ask(&command(&[b"PING"])));
            match answered {
                Ok(Ended::Answered) => return Ok(()),
                Err(error) if began.elapsed() > READY_WAIT => return Err(error),
                _ => thread::sleep(POLL),
            }
        }
    }

    /// Where it listens.
    pub(super) fn addresses(&self) -> Vec<String> {
        let ports = match self {
            Self::Nodes(nodes) => nodes.nodes.iter().map(|node| node.spec.ports[1]).collect(),
            Self::Other(other) => vec![other.port],
        };
        ports.iter().map(|port| format!("127.0.0.1:{port}")).collect()
    }

    /// Its processes.
    pub(super) fn processes(&self) -> Vec<u32> {
        match self {
            Self::Nodes(nodes) => nodes.nodes.iter().map(|node| node.process()).collect(),
            Self::Other(other) => vec![other.process.id()],
        }
    }

    /// The most memory that its processes had since [`Self::reset_peaks`], bytes.
    pub(super) fn resident_bytes_peak(&self) -> u64 {
        self.processes().into_iter().filter_map(processes::resident_bytes_peak).sum()
    }

    pub(super) fn reset_peaks(&self) {
        self.processes().into_iter().for_each(processes::reset_peak);
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = self.guardian.forget(i64::from(self.process.id()));
    }
}
