//! Real `nats-server`s in a folder that goes with the test: started, killed, frozen, thawed.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use plimsoll_log::jetstream::{Address, Jetstream, Options};
use serde_json::Value;

use crate::gates::Gate;

pub const FOREVER: Duration = Duration::from_secs(60);

/// Which of the two supported ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Oldest,
    Current,
}

/// The paths of both, as `scripts/nats.sh` says; none where it cannot provide them: they come from
/// Debian and from Go's module proxy.
fn paths() -> Option<&'static str> {
    static PATHS: OnceLock<Option<String>> = OnceLock::new();
    let paths = PATHS.get_or_init(|| {
        let script = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap())
            .join("../../scripts/nats.sh");
        let output = Command::new(script).stderr(Stdio::inherit()).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    });
    paths.as_deref()
}

/// Whether there are servers to test with; says so where not.
pub fn are_there() -> bool {
    if paths().is_none() {
        eprintln!("passed over: scripts/nats.sh cannot provide the log's servers here");
    }
    paths().is_some()
}

fn binary(version: Version) -> PathBuf {
    let paths = paths().unwrap();
    let name = match version {
        Version::Oldest => "PLIMSOLL_NATS_OLDEST=",
        Version::Current => "PLIMSOLL_NATS_CURRENT=",
    };
    paths.lines().find_map(|line| line.strip_prefix(name)).unwrap().into()
}

pub struct Server {
    pub name: String,
    pub port: u16,
    config: PathBuf,
    binary: PathBuf,
    child: Option<Child>,
}

impl Server {
    pub fn start(&mut self) {
        let log = self.config.with_extension("log");
        let child = Command::new(&self.binary)
            .args(["-c".as_ref(), self.config.as_os_str(), "-l".as_ref(), log.as_os_str()])
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    /// kill -9.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub fn freeze(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    pub fn thaw(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let id = self.child.as_ref().unwrap().id();
        let id = rustix::process::Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
        rustix::process::kill_process(id, signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Servers that replicate to each other.
pub struct Servers {
    pub all: Vec<Server>,
    gates: Vec<Gate>,
    dir: tempfile::TempDir,
}

impl Servers {
    pub fn start(version: Version, count: usize) -> Self {
        Self::start_with(version, count, "max_payload: 8MB", "")
    }

    /// With lines of configuration of one's own: at the top, and of JetStream.
    pub fn start_with(version: Version, count: usize, lines: &str, jetstream: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // All are held until all are known, or one might come twice.
        let held: Vec<_> =
            (0..count * 2).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> =
            held.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
        let (clients, routes) = ports.split_at(count);
        let gates: Vec<Gate> = (0..count * count)
            .map(|pair| (pair / count, pair % count))
            .filter(|(from, to)| from != to)
            .map(|(from, to)| Gate::new(from, to, routes[to]))
            .collect();
        // The gates' own ports are none of these.
        drop(held);
        let server = |index: usize| {
            let name = format!("s{index}");
            let config = dir.path().join(format!("{name}.conf"));
            let to_others = gates.iter().filter(|gate| gate.from == index);
            let to_others: Vec<String> =
                to_others.map(|gate| format!("nats://127.0.0.1:{}", gate.port)).collect();
            // What servers tell each other of their addresses leads nowhere: there is no way
            // around the gates.
            let cluster = format!(
                "cluster {{ name: test, listen: \"127.0.0.1:{}\", advertise: \"127.0.0.1:1\", \
                 routes: [{}] }}",
                routes[index],
                to_others.join(", ")
            );
            let text = format!(
                "server_name: {name}\nlisten: \"127.0.0.1:{}\"\n{lines}\n\
                 jetstream {{ store_dir: \"{}\", max_file_store: 4GB, max_memory_store: 64MB \
                 {jetstream} }}\n{}\n",
                clients[index],
                dir.path().join(&name).display(),
                if count > 1 { cluster } else { String::new() }
            );
            std::fs::write(&config, text).unwrap();
            let mut server =
                Server { name, port: clients[index], config, binary: binary(version), child: None };
            server.start();
            server
        };
        let all = (0..count).map(server).collect();
        Self { all, gates, dir }
    }

    /// Cuts a server off from the others, but not from its clients.
    pub fn isolate(&self, server: usize) {
        self.gates_of(server).for_each(Gate::close);
    }

    /// Undoes [`Self::isolate`].
    pub fn reunite(&self, server: usize) {
        self.gates_of(server).for_each(Gate::open);
    }

    fn gates_of(&self, server: usize) -> impl Iterator<Item = &Gate> {
        self.gates.iter().filter(move |gate| gate.from == server || gate.to == server)
    }

    /// `nats://` and those servers.
    pub fn url(&self, indices: &[usize]) -> String {
        let host = |index: &usize| format!("127.0.0.1:{}", self.all[*index].port);
        format!("nats://{}", indices.iter().map(host).collect::<Vec<_>>().join(","))
    }

    pub fn address(&self, indices: &[usize]) -> Address {
        Address::parse(&self.url(indices)).unwrap()
    }

    pub fn all_indices(&self) -> Vec<usize> {
        (0..self.all.len()).collect()
    }

    pub fn open(&self) -> Jetstream {
        self.open_at(&self.all_indices())
    }

    pub fn open_at(&self, indices: &[usize]) -> Jetstream {
        Jetstream::open(&self.address(indices), &self.options()).unwrap()
    }

    /// Few groups: each takes a while to make.
    pub fn options(&self) -> Options {
        let replicas = if self.all.len() >= 3 { 3 } else { 1 };
        Options { groups: 2, replicas, append_timeout_ms: 2_000, ..Options::default() }
    }

    /// The index of the server that leads a group, by what the server at `asked` says.
    pub fn leader(&self, asked: usize, group: u16) -> Option<usize> {
        let stream = format!("plimsoll_plimsoll_{group}");
        let info = self.api(asked, &format!("STREAM.INFO.{stream}"), "").ok()?;
        let leader = info["cluster"]["leader"].as_str()?.to_owned();
        self.all.iter().position(|server| server.name == leader)
    }

    /// As [`Self::leader`], waiting for one that is not `other`.
    pub fn await_leader(&self, asked: usize, group: u16, other: Option<usize>) -> usize {
        let deadline = Instant::now() + FOREVER;
        loop {
            match self.leader(asked, group) {
                Some(leader) if Some(leader) != other => return leader,
                _ => assert!(Instant::now() < deadline, "group {group} gets no leader"),
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A request of JetStream's API, past the engine.
    pub fn api(&self, asked: usize, subject: &str, body: &str) -> Result<Value, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let url = self.url(&[asked]);
            let client = async_nats::connect(url).await.map_err(|error| error.to_string())?;
            let payload = body.to_owned().into_bytes().into();
            let answer = client.request(format!("$JS.API.{subject}"), payload).await;
            let answer = answer.map_err(|error| error.to_string())?;
            let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
            match answer.get("error") {
                Some(error) => Err(error.to_string()),
                None => Ok(answer),
            }
        })
    }

    /// What the servers wrote, to be shown where a test fails.
    pub fn show_logs(&self) {
        for server in &self.all {
            let log = std::fs::read_to_string(server.config.with_extension("log"));
            let log = log.unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(15)..];
            eprintln!("---- {}\n{}", server.name, tail.join("\n"));
        }
        eprintln!("in {}", self.dir.path().display());
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.show_logs();
        }
    }
}
