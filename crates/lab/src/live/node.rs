//! One node of the lab's clusters: a process of the very binary that serves, in a room of its own.
//! What is wrong with it is done to it by `fault.rs`.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::guardian::{Guardian, Signal};
use super::limits::Room;
use super::shares::Throttled;
use super::{processes, wire};
use crate::LabError;
use crate::result::Frame;

const READY_WAIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
/// How long a node that is told to stop may take.
const STOP_WAIT: Duration = Duration::from_secs(5);
/// How long figures are waited for: a node that is sick answers late, one that hangs never.
const FIGURES_WAIT: Duration = Duration::from_secs(4);
/// Lines of a failed node's messages that are told.
const LINES_TOLD: usize = 6;
/// Rows of a queue's table that are kept of a lap.
const FRAMES_MAX: usize = 1_000;

/// What a node is to be.
#[derive(Clone, Debug)]
pub(crate) struct NodeSpec {
    pub(crate) name: String,
    /// Processors that it may use; none for no limit.
    pub(crate) share: Option<f64>,
    /// `--set` of each.
    pub(crate) settings: Vec<String>,
    /// `--log`.
    pub(crate) log: String,
    /// Ports of HTTP, RESP and RPC.
    pub(crate) ports: [u16; 3],
}

/// A node.
pub(crate) struct Node {
    pub(crate) spec: NodeSpec,
    pub(crate) room: Room,
    binary: PathBuf,
    folder: PathBuf,
    guardian: Arc<Guardian>,
    process: Option<Child>,
}

/// A node's counters at one moment, since it started.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counters {
    pub(crate) completed: u64,
    pub(crate) rejected: u64,
    pub(crate) cpu_s: f64,
    pub(crate) io_bytes: Option<u64>,
    pub(crate) throttled: Option<Throttled>,
    /// The rows that the queue wrote under Little's law, since that rule began.
    pub(crate) frames: Vec<Frame>,
    /// Whether the node itself answered; without it what it counts is 0.
    pub(crate) is_told: bool,
}

impl Node {
    /// A node that does not run yet.
    pub(crate) fn new(
        spec: NodeSpec,
        room: Room,
        binary: &Path,
        folder: &Path,
        guardian: &Arc<Guardian>,
    ) -> Self {
        let folder = folder.join(&spec.name);
        let binary = binary.to_owned();
        Self { spec, room, binary, folder, guardian: Arc::clone(guardian), process: None }
    }

    /// Where its REST listens.
    pub(crate) fn http(&self) -> String {
        format!("127.0.0.1:{}", self.spec.ports[0])
    }

    /// The number of its process; 0 where there is none.
    pub(crate) fn process(&self) -> u32 {
        self.process.as_ref().map_or(0, Child::id)
    }

    fn messages(&self) -> PathBuf {
        self.folder.with_extension("log")
    }

    /// Starts the process; [`Self::await_ready`] waits for it.
    pub(crate) fn start(&mut self) -> Result<(), LabError> {
        self.spawn()
            .map_err(|error| LabError::live(format!("start node {}", self.spec.name), error))
    }

    fn spawn(&mut self) -> io::Result<()> {
        let messages = File::create(self.messages())?;
        let mut command = match self.room.place() {
            Some(place) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]);
                shell.arg(place.server_file()).arg(&self.binary);
                shell
            }
            None => Command::new(&self.binary),
        };
        command.args(["serve", "--node", &self.spec.name]).arg("--data").arg(&self.folder);
        for (flag, port) in ["--http", "--resp", "--rpc"].iter().zip(self.spec.ports) {
            command.args([flag, format!("127.0.0.1:{port}").as_str()]);
        }
        command.args(["--log", &self.spec.log]);
        for setting in &self.spec.settings {
            command.args(["--set", setting]);
        }
        command.stdin(Stdio::null()).stdout(messages.try_clone()?).stderr(messages);
        let process = command.process_group(0).spawn()?;
        self.guardian.guard(i64::from(process.id()))?;
        self.process = Some(process);
        Ok(())
    }

    /// Waits until it says that it is ready.
    pub(crate) fn await_ready(&mut self) -> Result<(), LabError> {
        let began = Instant::now();
        loop {
            let said = fs::read_to_string(self.messages()).unwrap_or_default();
            if said.lines().any(|line| line.starts_with("ready ")) {
                return Ok(());
            }
            let why = match self.is_running() {
                false => "it ended",
                true if began.elapsed() > READY_WAIT => "it is not ready after a minute",
                true => {
                    std::thread::sleep(POLL);
                    continue;
                }
            };
            let lines: Vec<&str> = said.lines().collect();
            let told = lines[lines.len().saturating_sub(LINES_TOLD)..].join("\n  ");
            let what = format!("start node {}", self.spec.name);
            return Err(LabError::live(what, format!("{why}; it said:\n  {told}")));
        }
    }

    /// Whether its process is there.
    pub(crate) fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| matches!(process.try_wait(), Ok(None)))
    }

    /// Whether its process has ended by itself; one that was stopped here has not.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.is_some() && !self.is_running()
    }

    /// Sends a signal to the process.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), LabError> {
        let sent = self.guardian.signal(i64::from(self.process()), signal);
        sent.map_err(|error| LabError::live(format!("signal node {}", self.spec.name), error))
    }

    /// Ends it: asks first where `is_asked`.
    pub(crate) fn stop(&mut self, is_asked: bool) {
        let number = i64::from(self.process());
        let Some(mut process) = self.process.take() else { return };
        if is_asked {
            let _ = self.guardian.signal(number, Signal::Terminate);
            let _ = self.guardian.signal(number, Signal::Continue);
            let began = Instant::now();
            while began.elapsed() < STOP_WAIT && matches!(process.try_wait(), Ok(None)) {
                std::thread::sleep(POLL);
            }
        }
        let _ = process.kill();
        let _ = process.wait();
        let _ = self.guardian.forget(number);
    }

    /// Asks its REST; an answer that is none of success is an error with the server's reason.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        timeout: Duration,
    ) -> Result<Value, LabError> {
        ask(&self.http(), method, path, body, timeout)
    }

    /// Its counters now.
    pub(crate) fn counters(&self) -> Counters {
        let path = "/_nodes/_local/stats/thread_pool";
        let told = wire::ask_json(&self.http(), "GET", path, None, FIGURES_WAIT).ok();
        let stats = told.as_ref().and_then(|(_, told)| {
            told["nodes"].as_object()?.values().next().map(|node| &node["thread_pool"]["search"])
        });
        let count = |name: &str| stats.and_then(|pool| pool[name].as_u64()).unwrap_or(0);
        Counters {
            completed: count("completed"),
            rejected: count("rejected"),
            cpu_s: processes::cpu_s(self.process()).unwrap_or(0.0),
            io_bytes: processes::io_bytes(self.process()),
            throttled: self.room.throttled(),
            frames: stats.map(|pool| frames(&pool["admission"]["frames"])).unwrap_or_default(),
            is_told: stats.is_some(),
        }
    }
}

/// What is no row is left out.
fn frames(rows: &Value) -> Vec<Frame> {
    let rows = rows.as_array().into_iter().flatten();
    rows.filter_map(|row| serde_json::from_value(row.clone()).ok()).take(FRAMES_MAX).collect()
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop(false);
    }
}

/// Asks a REST server; an answer that is none of success is an error with the server's reason.
pub(crate) fn ask(
    address: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
    timeout: Duration,
) -> Result<Value, LabError> {
    let what = || format!("ask {address} for {method} {path}");
    let (status, answer) = wire::ask_json(address, method, path, body, timeout)
        .map_err(|error| LabError::live(what(), error))?;
    if (200..300).contains(&status) {
        return Ok(answer);
    }
    let reason = answer["error"]["reason"].as_str().or(answer["error"].as_str()).unwrap_or("");
    Err(LabError::live(what(), format!("{status} {reason}")))
}
