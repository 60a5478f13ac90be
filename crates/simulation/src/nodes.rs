//! The nodes: each is a process that is started, killed and started anew, on a disk that outlives it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::disk::SimulatedDisk;
use plimsoll_base::tasks::Executor;
use plimsoll_base::time::Wall;
use plimsoll_base::{Random, Time, World};
use plimsoll_cluster::following::Remotes;
use plimsoll_cluster::{LogSettings, Node, NodeRecord, NodeSettings, OpenedLog, Peers};
use plimsoll_log::PartitionId;

use crate::following::leader::LeaderCluster;
use crate::following::link::Link;
use crate::log::{Handle, Servers};
use crate::network::{Network, Services, Ways};

/// How long a node that could not be opened rests.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// The cluster that follows, as the other knows it.
const CLUSTER_UUID: &str = "the-follower";

/// A machine with a node.
pub struct Machine {
    /// Where its node listens, which is its name as well.
    pub address: String,
    disk: SimulatedDisk,
    dir: PathBuf,
    random: Random,
    /// The process of its last start, and how often it was started.
    process: Option<u64>,
    starts: u64,
    is_failing: bool,
    wall: Option<Arc<Wall>>,
    /// The log as its last opening has it.
    handle: Arc<Mutex<Weak<Handle>>>,
}

/// What fails of a disk where something is to be made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// Nothing.
    None,
    /// One time in so many.
    OneIn(u64),
    /// Everything but the metadata.
    Rows,
}

/// What tells the processes and machines of a cluster from those of another.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// What names of machines begin with.
    pub prefix: &'static str,
    /// The process of the first node that is started; others come after it.
    pub first_process: u64,
}

/// What the machines of a cluster share.
pub struct Cluster {
    /// The log's servers.
    pub servers: Arc<Servers>,
    /// The ways between nodes.
    pub network: Arc<Network>,
    /// The machines, in the order of their names.
    pub machines: Vec<Machine>,
    partitions: u32,
    next_process: u64,
    /// The way to the cluster whose tables it may follow.
    link: Option<Arc<Link>>,
    /// Why nodes could not be opened.
    pub failures: Arc<Mutex<Vec<String>>>,
}

impl Cluster {
    /// Machines with nothing on their disks, whose nodes make databases of so many partitions.
    #[must_use]
    pub fn new(
        names: Names,
        (servers, network): (Arc<Servers>, Arc<Network>),
        (random, count): (&Random, usize),
        partitions: u32,
        link: Option<Arc<Link>>,
    ) -> Self {
        let machine = |number: usize| {
            let address = format!("{}{number}", names.prefix);
            let random = random.part(&address);
            let (disk, dir) = (SimulatedDisk::new(&random), Path::new("/").join(&address));
            let handle = Arc::new(Mutex::new(Weak::new()));
            let (process, starts, is_failing, wall) = (None, 0, false, None);
            Machine { address, disk, dir, random, process, starts, is_failing, wall, handle }
        };
        let machines = (1..=count).map(machine).collect();
        let (failures, next_process) = (Arc::default(), names.first_process);
        Self { servers, network, machines, partitions, next_process, link, failures }
    }

    /// The addresses of all nodes.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        self.machines.iter().map(|it| it.address.clone()).collect()
    }

    /// Starts the node of a machine where it does not run.
    pub fn start(&mut self, executor: &Executor, at: usize) {
        let machine = &mut self.machines[at];
        if machine.process.is_some() {
            return;
        }
        let process = self.next_process;
        self.next_process += 1;
        machine.process = Some(process);
        machine.starts += 1;
        let random = machine.random.part(&format!("start {}", machine.starts));
        let disk = machine.disk.started();
        let (world, wall) = World::simulated(executor, &random, process, disk);
        machine.wall = Some(wall);
        let ways = Ways { network: Arc::clone(&self.network), from: machine.address.clone() };
        let record = NodeRecord {
            name: machine.address.clone(),
            rpc: machine.address.clone(),
            remote: machine.address.clone(),
            ..NodeRecord::default()
        };
        let peers: Arc<dyn Peers> = Arc::new(ways);
        let settings = NodeSettings {
            record,
            peers,
            world: world.clone(),
            database_partitions: self.partitions,
            ..NodeSettings::alone(&machine.dir)
        };
        let (servers, network) = (Arc::clone(&self.servers), Arc::clone(&self.network));
        let (address, failures) = (machine.address.clone(), Arc::clone(&self.failures));
        let tasks = world.tasks.clone();
        let handle = Arc::clone(&machine.handle);
        let ways = (network, self.link.clone());
        let run = serve(world, settings, (servers, handle), ways, (address, failures));
        tasks.spawn("node", run);
    }

    /// Kills the node of a machine; with a loss of power what it did not sync is gone, or torn.
    pub fn kill(&mut self, executor: &mut Executor, at: usize, with_power: bool) {
        let machine = &mut self.machines[at];
        let Some(process) = machine.process.take() else { return };
        // First: what a process does while it is taken apart, one that was killed does not do.
        if with_power {
            machine.disk.lose_power();
        } else {
            machine.disk.kill();
        }
        self.network.leave(&machine.address);
        executor.kill(process);
    }

    /// Turns a bit in what the node of a machine, which does not run, holds of partitions.
    pub fn rot(&self, at: usize) {
        let machine = &self.machines[at];
        let partitions = machine.dir.join("partitions");
        let metadata = partitions.join(PartitionId::default().to_string());
        let mut chance = machine.random.of("rot");
        // Most files are the metadata's, which every node has.
        let spares_metadata = chance.once_in(2);
        let mut files = machine.disk.files();
        files.retain(|file| {
            file.starts_with(&partitions) && !(spares_metadata && file.starts_with(&metadata))
        });
        if !files.is_empty() {
            let drawn = usize::try_from(chance.below(files.len() as u64)).unwrap_or_default();
            tracing::debug!(file = %files[drawn].display(), "a bit turns");
            machine.disk.turn_bit(&files[drawn]);
        }
    }

    /// Leaves no more room on the disk of a machine, or gives it as much as there was.
    pub fn fill(&self, at: usize, is_full: bool) {
        let disk = &self.machines[at].disk;
        disk.limit(if is_full { disk.used_bytes() } else { u64::MAX });
    }

    /// Has the disk of a machine fail where something is to be made durable. Where it does not any more, the node is
    /// started anew, as what was not made durable is not known to be lost until then.
    pub fn fail_syncs(&mut self, executor: &mut Executor, at: usize, failing: Failing) {
        let machine = &mut self.machines[at];
        match failing {
            Failing::None => machine.disk.fail_syncs(None),
            Failing::OneIn(one_in) => machine.disk.fail_syncs(Some(one_in)),
            Failing::Rows => machine.disk.fail_syncs_but_in(&PartitionId::default().to_string()),
        }
        let is_failing = failing != Failing::None;
        let was_failing = std::mem::replace(&mut machine.is_failing, is_failing);
        if was_failing && !is_failing && machine.process.is_some() {
            self.kill(executor, at, false);
            self.start(executor, at);
        }
    }

    /// Has the node of a machine stand still, or go on.
    pub fn freeze(&self, executor: &mut Executor, at: usize, is_frozen: bool) {
        let Some(process) = self.machines[at].process else { return };
        if is_frozen {
            executor.freeze(process);
        } else {
            executor.thaw(process);
        }
    }

    /// Sets the wall clock of a machine's node by so much, ms.
    pub fn set_clock(&self, time: &Time, at: usize, by_ms: i64) {
        let Some(wall) = &self.machines[at].wall else { return };
        wall.set_ms(time.now(), time.wall_ms().saturating_add_signed(by_ms));
    }

    /// The node of a machine sees nothing new of the log for so long.
    pub fn blind(&self, at: usize, lasts: Duration) {
        if let Some(handle) = self.machines[at].handle.lock().upgrade() {
            handle.blind(lasts);
        }
    }
}

/// One start of a node, opened anew as often as it falls behind.
async fn serve(
    world: World,
    settings: NodeSettings,
    (servers, opened): (Arc<Servers>, Arc<Mutex<Weak<Handle>>>),
    (network, link): (Arc<Network>, Option<Arc<Link>>),
    (address, failures): (String, Arc<Mutex<Vec<String>>>),
) {
    let remotes = link.map(|link| -> Arc<dyn Remotes> { Arc::new(LeaderCluster::new(link)) });
    for opening in 1_u64.. {
        // What an opening names by chance (leads, sessions) is nobody else's, the one before it included.
        let random = world.random.part(&format!("opening {opening}"));
        let world = World { random, ..world.clone() };
        let node = async {
            let handle = Handle::new(Arc::clone(&servers), &world).map_err(|it| it.to_string())?;
            let handle = Arc::new(handle);
            *opened.lock() = Arc::downgrade(&handle);
            let log = LogSettings::Open(OpenedLog(handle));
            let settings = NodeSettings { log, world: world.clone(), ..settings.clone() };
            Box::pin(Node::open(&settings)).await.map_err(|error| error.to_string())
        };
        match node.await {
            Ok(node) => {
                let (coordinator, leading) = (node.coordinator(), node.leading());
                let followers = remotes
                    .as_ref()
                    .map(|remotes| node.following(Arc::clone(remotes), CLUSTER_UUID.to_owned()));
                let followers = followers.transpose();
                let followers = followers.inspect_err(|error| {
                    failures.lock().push(format!("{address} follows nothing: {error}"));
                });
                let followers = followers.ok().flatten();
                let following = followers.as_ref().map(|it| it.following().clone());
                let tasks = world.tasks.clone();
                network.listen(&address, Services { tasks, coordinator, leading, following });
                let why = node.reopening().await;
                tracing::info!(why, "the node is opened anew");
                network.leave(&address);
                if let Some(followers) = followers {
                    followers.stop();
                }
                Box::pin(node.close()).await;
            }
            Err(error) => failures.lock().push(format!("{address}: {error}")),
        }
        world.time.sleep(REOPEN_PAUSE).await;
    }
}
