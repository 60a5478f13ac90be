//! One run of a seed: a cluster is started, and another that follows it where the plan says so; clients ask while
//! things go wrong, all is mended, and what is there then and what clients saw is judged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_base::Random;
use plimsoll_base::tasks::{Executor, Stuck};
use plimsoll_base::time::Instant;
use plimsoll_cluster::LOG_GROUPS;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::clients::{Client, Counts, History};
use crate::expiring;
use crate::faults::{Due, Fault, Side};
use crate::following::{Follower, LinkTroubles};
use crate::freed;
use crate::heal::{self, CLIENTS};
use crate::linearizable::{Verdict, judge};
use crate::log::Servers;
use crate::messages;
use crate::network::Network;
use crate::nodes::{Cluster, Failing, Names};
use crate::plan::Plan;
use crate::searches::Searcher;
use crate::settings;
use crate::tables::TableMaker;

/// The process of the log's servers; those of nodes come after that of clients.
const SERVERS: u64 = 0;
/// What wall clocks say at first, ms since 1970.
const BEGAN_MS: u64 = 1_750_000_000_000;
/// How much is told of what was seen of a key, bytes; it is ASCII.
const SEEN_MAX: usize = 2_000;

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// A hash of all that happened, in its order: the same seed has the same.
    pub trace: u64,
    /// What clients did.
    pub counts: Counts,
    /// Virtual time that passed.
    pub passed: Duration,
    /// What should not be.
    pub violations: Vec<String>,
}

/// Runs a plan.
///
/// # Errors
/// [`Stuck`]: a task never waits.
pub fn run(plan: &Plan) -> Result<Outcome, Stuck> {
    freed::keep();
    let random = Random::seeded(plan.seed);
    let executor = Executor::new(&random, BEGAN_MS);
    let time = executor.time().clone();
    messages::run_begins(&time);
    let tasks = executor.process(SERVERS);
    let servers = Servers::new(LOG_GROUPS, plan.log_delays, time.clone(), tasks, &random);
    let network = Network::new(time.clone(), &random, plan.way_bytes_s);
    let machines = (&random, plan.nodes);
    let names = Names { prefix: "n", first_process: CLIENTS + 1 };
    let of = (Arc::new(servers), Arc::clone(&network));
    let mut cluster = Cluster::new(names, of, machines, plan.partitions, None);
    (0..plan.nodes).for_each(|at| cluster.start(&executor, at));

    let history = History::default();
    let client = Client {
        network: Arc::clone(&network),
        time: time.clone(),
        addresses: cluster.addresses(),
        history: history.clone(),
        until: Instant::default() + plan.duration,
        rest: plan.rest,
        database: 0,
    };
    let set = settings::set(client.clone(), plan.clone());
    executor.process(CLIENTS).spawn("settings", set);
    for number in 0..plan.clients {
        let client = client.clone();
        let random = random.part(&format!("client {number}"));
        executor.process(CLIENTS).spawn("client", client.run(random));
    }
    for number in 0..plan.expiring {
        let random = random.part(&format!("expiring {number}"));
        executor.process(CLIENTS).spawn("expiring", expiring::run(client.clone(), number, random));
    }
    let documents = History::of_documents();
    let searcher = plan.documents.map(|shape| {
        let client = Client { history: documents.clone(), ..client.clone() };
        Searcher { client, shape }
    });
    for (number, searcher) in (0..plan.searchers).zip(searcher.iter().cycle()) {
        let random = random.part(&format!("searcher {number}"));
        executor.process(CLIENTS).spawn("searcher", searcher.clone().run(random));
    }
    let tables = plan.makes_tables.then(|| TableMaker::new(client.clone()));
    if let Some(tables) = tables.clone() {
        let run = tables.run(random.part("tables"));
        executor.process(CLIENTS).spawn("tables", run);
    }
    let follower = plan.follower.as_ref();
    let follower = follower.map(|shape| Follower::start(&executor, (plan, shape), &client));
    let mut clusters = Clusters { executor, leader: cluster, follower };
    go_wrong(&mut clusters, plan)?;
    clusters.mend();
    let mut violations = clusters.are_well()?;
    let Clusters { executor, .. } = &mut clusters;
    violations.extend(heal::read_all(executor, client)?);
    if let Some(searcher) = searcher {
        let search = |late| searcher.search_all(late);
        violations.extend(heal::on_all(executor, "does not search", search)?);
    }
    if let Some(tables) = tables {
        violations.extend(heal::on_all(executor, "is not", |late| tables.find_all(late))?);
    }
    for history in [&history, &documents] {
        violations.extend(judged(history));
    }
    let seen = format!("{:?}{:?}", history.operations(), documents.operations());
    let trace = xxh3_64_with_seed(seen.as_bytes(), clusters.executor.trace());
    clusters.kill();
    let passed = time.now() - Instant::default();
    let counts = history.counts().with(documents.counts());
    Ok(Outcome { trace, counts, passed, violations })
}

/// All that there is of machines.
struct Clusters {
    executor: Executor,
    leader: Cluster,
    follower: Option<Follower>,
}

impl Clusters {
    fn all(&mut self) -> (&mut Executor, Vec<&mut Cluster>) {
        let follower = self.follower.as_mut().map(|it| &mut it.cluster);
        (&mut self.executor, std::iter::once(&mut self.leader).chain(follower).collect())
    }

    fn mend(&mut self) {
        if let Some(follower) = &self.follower {
            follower.link.trouble(LinkTroubles::default());
            follower.link.cut(false);
        }
        let (executor, clusters) = self.all();
        clusters.into_iter().for_each(|cluster| heal::mend(executor, cluster));
    }

    /// Says what is not well in time.
    fn are_well(&mut self) -> Result<Vec<String>, Stuck> {
        let mut violations = Vec::new();
        let (executor, clusters) = self.all();
        for cluster in clusters {
            violations.extend(heal::is_well(executor, cluster)?);
        }
        if let (true, Some(follower)) = (violations.is_empty(), &self.follower) {
            violations.extend(follower.is_well(&mut self.executor, &self.leader)?);
        }
        Ok(violations)
    }

    fn kill(&mut self) {
        let (executor, clusters) = self.all();
        for cluster in clusters {
            (0..cluster.machines.len()).for_each(|at| cluster.kill(executor, at, false));
        }
    }
}

/// What a fault does at a moment: it begins, or it ends.
fn go_wrong(clusters: &mut Clusters, plan: &Plan) -> Result<(), Stuck> {
    clusters.leader.servers.trouble(plan.faults.troubles);
    let mut steps: BTreeMap<(Duration, usize, bool), Due> = BTreeMap::new();
    for (number, due) in plan.faults.due.iter().enumerate() {
        steps.insert((due.at, number, true), *due);
        steps.insert((due.at + due.lasts, number, false), *due);
    }
    let time = clusters.executor.time().clone();
    let now = || time.now() - Instant::default();
    for ((at, _, begins), due) in steps.range(..(plan.duration, 0, false)) {
        clusters.executor.run_for(at.saturating_sub(now()))?;
        step(clusters, due, *begins);
    }
    clusters.executor.run_for(plan.duration.saturating_sub(now()))
}

fn step(clusters: &mut Clusters, due: &Due, begins: bool) {
    tracing::debug!(?due, begins, "a fault");
    let Clusters { executor, leader, follower } = clusters;
    if let (true, Some(follower)) = (due.fault.is_of_link(), &follower) {
        return follower.go_wrong(&due.fault, begins);
    }
    let cluster = match (due.side, follower) {
        (Side::Leader, _) => leader,
        (Side::Follower, Some(follower)) => &mut follower.cluster,
        (Side::Follower, None) => return,
    };
    match due.fault {
        Fault::Kill { machine, with_power, rots } if begins => {
            cluster.kill(executor, machine, with_power);
            if rots {
                cluster.rot(machine);
            }
        }
        Fault::Kill { machine, .. } => cluster.start(executor, machine),
        Fault::Freeze { machine } => cluster.freeze(executor, machine, begins),
        Fault::Cut { from, to } => {
            let address = |at: usize| cluster.machines[at].address.clone();
            cluster.network.cut(&address(from), &address(to), begins);
        }
        Fault::Clock { machine, by_ms } => {
            cluster.set_clock(executor.time(), machine, if begins { by_ms } else { 0 });
        }
        Fault::NoLeader if begins => cluster.servers.behead(due.lasts),
        Fault::Blind { machine } if begins => cluster.blind(machine, due.lasts),
        Fault::NoLeader | Fault::Blind { .. } | Fault::NoLink | Fault::Forgotten => {}
        Fault::Full { machine } => cluster.fill(machine, begins),
        Fault::Failing { machine, one_in } => {
            let failing = if begins { Failing::OneIn(one_in) } else { Failing::None };
            cluster.fail_syncs(executor, machine, failing);
        }
        Fault::RowsFailing { machine } => {
            let failing = if begins { Failing::Rows } else { Failing::None };
            cluster.fail_syncs(executor, machine, failing);
        }
    }
}

/// What clients saw that cannot have happened.
fn judged(history: &History) -> Vec<String> {
    let mut violations = history.wrong();
    for (key, operations) in history.operations() {
        let why = match judge(&operations) {
            Verdict::Linearizable => continue,
            Verdict::Violated => "cannot have happened",
            Verdict::Undecided => "is undecided",
        };
        let mut seen = format!("{operations:?}");
        seen.truncate(SEEN_MAX);
        violations.push(format!("what was seen of {key} {why}: {seen}"));
    }
    violations
}
