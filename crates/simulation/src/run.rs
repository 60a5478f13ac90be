//! One run of a seed: a cluster is started, clients ask, and what they saw is judged.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_base::Random;
use plimsoll_base::tasks::{Executor, Stuck};
use plimsoll_base::time::Instant;
use plimsoll_cluster::LOG_GROUPS;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::clients::{Client, Counts, History};
use crate::linearizable::{Verdict, judge};
use crate::log::{Delays, Servers};
use crate::network::Network;
use crate::nodes::Cluster;

/// The process of the log's servers, and that of clients.
const SERVERS: u64 = 0;
const CLIENTS: u64 = 1;
/// What wall clocks say at first, ms since 1970.
const BEGAN_MS: u64 = 1_750_000_000_000;

/// What a run is made of.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What chance comes from.
    pub seed: u64,
    /// How many nodes there are.
    pub nodes: usize,
    /// How many clients.
    pub clients: usize,
    /// For how long they ask.
    pub duration: Duration,
    /// How long a client rests between two operations, at most.
    pub rest: Duration,
}

impl Plan {
    /// Three nodes, five clients and a minute.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let (duration, rest) = (Duration::from_secs(60), Duration::from_millis(200));
        Self { seed, nodes: 3, clients: 5, duration, rest }
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// A hash of all that happened, in its order: the same seed has the same.
    pub trace: u64,
    /// What clients did.
    pub counts: Counts,
    /// What should not be.
    pub violations: Vec<String>,
}

/// Runs a plan; `dir` is an empty folder for what is not simulated yet.
///
/// # Errors
/// [`Stuck`]: a task never waits.
pub fn run(plan: Plan, dir: &Path) -> Result<Outcome, Stuck> {
    let random = Random::seeded(plan.seed);
    let executor = Executor::new(&random, BEGAN_MS);
    let time = executor.time().clone();
    let tasks = executor.process(SERVERS);
    let servers = Servers::new(LOG_GROUPS, Delays::default(), time.clone(), tasks, &random);
    let network = Network::new(time.clone(), &random);
    let machines = (&random, plan.nodes);
    let mut cluster =
        Cluster::new(executor, Arc::new(servers), Arc::clone(&network), machines, dir);
    (0..plan.nodes).for_each(|at| cluster.start(at));

    let history = History::default();
    let addresses: Vec<String> = cluster.machines.iter().map(|it| it.address.clone()).collect();
    for number in 0..plan.clients {
        let client = Client {
            network: Arc::clone(&network),
            time: time.clone(),
            addresses: addresses.clone(),
            history: history.clone(),
            until: Instant::default() + plan.duration,
            rest: plan.rest,
        };
        let random = random.part(&format!("client {number}"));
        cluster.executor.process(CLIENTS).spawn("client", client.run(random));
    }
    cluster.executor.run_for(plan.duration + Duration::from_secs(60))?;

    let mut violations = cluster.failures.lock().clone();
    for (key, operations) in history.operations() {
        match judge(&operations) {
            Verdict::Linearizable => {}
            Verdict::Violated => violations.push(format!("{key} is not linearizable")),
            Verdict::Undecided => violations.push(format!("{key} is undecided")),
        }
    }
    let seen = format!("{:?}", history.operations());
    let trace = xxh3_64_with_seed(seen.as_bytes(), cluster.executor.trace());
    (0..plan.nodes).for_each(|at| cluster.kill(at, false));
    Ok(Outcome { trace, counts: history.counts(), violations })
}
