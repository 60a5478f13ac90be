//! What goes wrong with a node, and its end. A stressed node shares its room with workers of
//! `stress-ng`; how much it keeps is a weight, so that it can be fitted while they run.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::blocks::{BYTES_PER_S, DiskPath};
use super::cluster::Cluster;
use super::guardian::{Guardian, Signal};
use super::processes;
use crate::LabError;

/// Workers of each kind, as in the studies.
const WORKERS: &str = "8";
/// Memory that each of the workers that want it takes: the studies' 256 MB each would be the whole
/// of a small machine.
const WORKER_MEMORY: &str = "16m";
/// By when workers that cannot start have ended.
const STARTED: Duration = Duration::from_millis(300);
/// What each of the workers that write to the disk writes over and over again.
const WORKER_DISK: &str = "4m";
/// How often a flapping node changes.
const FLAP: Duration = Duration::from_secs(1);

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FaultKind {
    /// Workers that want all of its share; it keeps this part, from 0 to 1.
    Stress {
        /// The part.
        keep: f64,
    },
    /// This part of its share is left, from 0 to 1.
    Slow {
        /// The part.
        part: f64,
    },
    /// It is stopped (SIGSTOP) and answers nothing.
    Hung,
    /// Its process is killed: connections are refused at once.
    FailFast,
    /// It has just been started again.
    Cold,
    /// It hangs every other second.
    Flapping,
}

/// The kinds by the names that a user gives.
pub(crate) const NAMED: [(&str, FaultKind); 6] = [
    ("stress", FaultKind::Stress { keep: 0.2 }),
    ("slow", FaultKind::Slow { part: 0.2 }),
    ("hung", FaultKind::Hung),
    ("fail-fast", FaultKind::FailFast),
    ("cold", FaultKind::Cold),
    ("flapping", FaultKind::Flapping),
];

/// A fault that goes on; [`Active::end`] makes the node whole again.
pub(crate) struct Active {
    node: usize,
    asked: FaultKind,
    kind: FaultKind,
    workers: Option<Child>,
    /// The stressed node's own path to the disk, where there can be one.
    disk: Option<DiskPath>,
    flapping: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
    guardian: Arc<Guardian>,
}

impl FaultKind {
    /// Its name in results.
    pub(crate) fn name(self) -> &'static str {
        let same = |of: &FaultKind| std::mem::discriminant(of) == std::mem::discriminant(&self);
        NAMED.iter().find(|(_, kind)| same(kind)).map_or("none", |(name, _)| name)
    }

    /// The kind that this machine can do in its place.
    pub(crate) fn possible(self, cluster: &Cluster) -> Self {
        let has_place = cluster.nodes.first().is_some_and(|node| node.room.place().is_some());
        match self {
            Self::Stress { keep } if !has_place || !processes::is_program("stress-ng") => {
                Self::Slow { part: keep }
            }
            other => other,
        }
    }

    /// What it is, in words.
    pub(crate) fn about(self) -> String {
        match self {
            Self::Stress { .. } => format!(
                "stress-ng --io {WORKERS} --cpu {WORKERS} --vm {WORKERS} in the node's control \
                 group, by weight, and --hdd {WORKERS} where the node has its own path to the disk"
            ),
            Self::Slow { .. } => "a smaller share of the processor".to_owned(),
            Self::Hung => "stopped (SIGSTOP)".to_owned(),
            Self::FailFast => "killed; connections are refused".to_owned(),
            Self::Cold => "started again".to_owned(),
            Self::Flapping => "stopped every other second".to_owned(),
        }
    }
}

fn failed<E: std::fmt::Display>(what: &str) -> impl FnOnce(E) -> LabError + use<E> {
    let what = what.to_owned();
    move |error| LabError::live(what, error)
}

impl Active {
    /// Begins a fault on a node.
    pub(crate) fn begin(
        cluster: &mut Cluster,
        node: usize,
        kind: FaultKind,
    ) -> Result<Self, LabError> {
        let (asked, kind) = (kind, kind.possible(cluster));
        let guardian = Arc::clone(&cluster.guardian);
        let mut active =
            Self { node, asked, kind, workers: None, disk: None, flapping: None, guardian };
        match kind {
            FaultKind::Stress { .. } => {
                let stressed = &cluster.nodes[node];
                let path = stressed.room.place().and_then(|place| {
                    DiskPath::make(place, cluster.folder(), stressed.process(), &active.guardian)
                });
                active.disk = path;
                active.workers = Some(active.stress(cluster)?);
                active.change(cluster, kind)?;
            }
            FaultKind::Slow { .. } => active.change(cluster, kind)?,
            FaultKind::Hung => {
                // Turns would continue it again.
                cluster.limits.forget(cluster.nodes[node].process());
                cluster.nodes[node].signal(Signal::Stop)?;
            }
            FaultKind::FailFast => cluster.nodes[node].stop(false),
            FaultKind::Cold => {
                cluster.nodes[node].stop(true);
                cluster.nodes[node].start()?;
                cluster.limit()?;
                cluster.nodes[node].await_ready()?;
            }
            FaultKind::Flapping => {
                cluster.limits.forget(cluster.nodes[node].process());
                active.flapping = Some(active.flap(i64::from(cluster.nodes[node].process())));
            }
        }
        Ok(active)
    }

    /// Changes how bad a fault is that goes on; of another kind than it is, nothing.
    pub(crate) fn change(&mut self, cluster: &Cluster, kind: FaultKind) -> Result<(), LabError> {
        let kind = kind.possible(cluster);
        let node = &cluster.nodes[self.node];
        match (kind, node.room.place()) {
            (FaultKind::Stress { keep }, Some(place)) => {
                place.keep(keep).map_err(failed("change the weight of the stress"))?;
            }
            (FaultKind::Slow { part }, _) => {
                let share = node.spec.share.unwrap_or(1.0) * part;
                let limited = cluster.limits.limit(&node.room, node.process(), share);
                limited.map_err(failed("change the share of a node"))?;
            }
            _ => {}
        }
        self.kind = kind;
        Ok(())
    }

    /// The kind that it is.
    pub(crate) fn kind(&self) -> FaultKind {
        self.kind
    }

    /// What it is, in words, and what it stands in for.
    pub(crate) fn about(&self) -> String {
        let about = self.kind.about();
        match (self.asked, self.kind) {
            (FaultKind::Stress { .. }, FaultKind::Slow { .. }) => format!(
                "{about}, in the place of stress-ng, which needs Debian's package of that name and \
                 control groups to hold it"
            ),
            (FaultKind::Stress { .. }, _) if self.disk.is_some() => format!(
                "{about}, which it has: its reads and its writes are held to {} MiB/s each together \
                 with theirs (by control groups of version 1 only direct and synchronous writes)",
                BYTES_PER_S >> 20
            ),
            (FaultKind::Stress { .. }, _) => format!("{about}, which it has not"),
            _ => about,
        }
    }

    fn stress(&self, cluster: &Cluster) -> Result<Child, LabError> {
        let failed_start = || failed("start stress-ng");
        let place = cluster.nodes[self.node].room.place();
        let file = place.map(super::shares::Cgroup::stress_file).unwrap_or_default();
        let path = self.disk.as_ref().and_then(DiskPath::stress_file);
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "echo $$ >\"$0\" && echo $$ >\"$1\" && shift && exec \"$@\""]);
        shell.arg(file).arg(path.unwrap_or_else(|| "/dev/null".into())).arg("stress-ng");
        for kind in ["--io", "--cpu", "--vm"] {
            shell.args([kind, WORKERS]);
        }
        if self.disk.is_some() {
            shell.args(["--hdd", WORKERS, "--hdd-bytes", WORKER_DISK, "--hdd-opts", "direct"]);
        }
        shell.args(["--vm-bytes", WORKER_MEMORY, "--quiet", "--temp-path"]).arg(cluster.folder());
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = shell.process_group(0).spawn().map_err(failed_start())?;
        self.guardian.guard(-i64::from(child.id())).map_err(failed_start())?;
        // It ends at once where it may not enter the node's groups.
        std::thread::sleep(STARTED);
        if let Some(ended) = child.try_wait().map_err(failed_start())? {
            let why = format!("it ended by itself: {ended}");
            return Err(LabError::live("start stress-ng".to_owned(), why));
        }
        Ok(child)
    }

    fn flap(&self, process: i64) -> (Arc<AtomicBool>, JoinHandle<()>) {
        let is_over = Arc::new(AtomicBool::new(false));
        let (seen, guardian) = (Arc::clone(&is_over), Arc::clone(&self.guardian));
        let thread = std::thread::spawn(move || {
            let mut signal = Signal::Stop;
            while !seen.load(Ordering::Relaxed) {
                let _ = guardian.signal(process, signal);
                std::thread::sleep(FLAP);
                signal = if signal == Signal::Stop { Signal::Continue } else { Signal::Stop };
            }
            let _ = guardian.signal(process, Signal::Continue);
        });
        (is_over, thread)
    }

    /// Makes the node whole again.
    pub(crate) fn end(mut self, cluster: &mut Cluster) -> Result<(), LabError> {
        self.end_workers();
        let node = &mut cluster.nodes[self.node];
        match self.kind {
            FaultKind::Hung => node.signal(Signal::Continue)?,
            FaultKind::FailFast => {
                node.start()?;
                node.await_ready()?;
            }
            _ => {}
        }
        cluster.limit()
    }

    fn end_workers(&mut self) {
        if let Some((is_over, thread)) = self.flapping.take() {
            is_over.store(true, Ordering::Relaxed);
            let _ = thread.join();
        }
        if let Some(mut workers) = self.workers.take() {
            let group = -i64::from(workers.id());
            let _ = self.guardian.signal(group, Signal::Kill);
            let _ = workers.wait();
            let _ = self.guardian.forget(group);
        }
        self.disk = None;
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.end_workers();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        for (name, kind) in NAMED {
            assert_eq!(kind.name(), name);
            assert!(!kind.about().is_empty());
        }
        assert_eq!(FaultKind::Stress { keep: 0.9 }.name(), "stress");
    }
}
