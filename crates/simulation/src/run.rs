//! One run of a seed: a cluster is started, clients ask while things go wrong, all is mended, and what is there
//! then and what clients saw is judged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::Random;
use plimsoll_base::tasks::{Executor, Stuck};
use plimsoll_base::time::Instant;
use plimsoll_cluster::{CopyDigest, CopyStatus, LOG_GROUPS, Request};
use plimsoll_storage::{Argv, Reply};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::clients::{Client, Counts, History};
use crate::faults::{Due, Fault, Faults};
use crate::linearizable::{Verdict, judge};
use crate::log::{Delays, Servers, Troubles};
use crate::messages;
use crate::network::Network;
use crate::nodes::Cluster;
use crate::searches::{self, Searcher, Shape};
use crate::tables::TableMaker;

/// The process of the log's servers, and that of clients.
const SERVERS: u64 = 0;
const CLIENTS: u64 = 1;
/// What wall clocks say at first, ms since 1970.
const BEGAN_MS: u64 = 1_750_000_000_000;
/// How long a cluster has to be well again once nothing goes wrong any more.
const HEALS_WITHIN: Duration = Duration::from_secs(120);
/// How long copies have to come to one position.
const DIGESTS_WITHIN: Duration = Duration::from_secs(20);
/// One seed in so many is a long one; clients do as much in it as in another.
const LONG: u64 = 4;
const LONG_DURATION: Duration = Duration::from_secs(270);
const LONG_REST: Duration = Duration::from_millis(900);
/// One seed in so many has more nodes than copies, up to so many.
const LARGER: u64 = 5;
const NODES_MAX: u64 = 9;
/// One seed in so many has documents as well, and so many clients of them.
const DOCUMENTS: u64 = 3;
const SEARCHERS: usize = 3;
/// One in so many has tables that come and go.
const MAKES_TABLES: u64 = 4;
/// How much is told of what was seen of a key, bytes; it is ASCII.
const SEEN_MAX: usize = 2_000;
const PROBE_PAUSE: Duration = Duration::from_millis(500);

/// What a run is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What chance comes from.
    pub seed: u64,
    /// How many nodes there are.
    pub nodes: usize,
    /// How many clients of rows.
    pub clients: usize,
    /// How many clients of documents, where there is an index.
    pub searchers: usize,
    /// For how long they ask, and things go wrong.
    pub duration: Duration,
    /// How long a client rests between two operations, at most.
    pub rest: Duration,
    /// How many partitions the rows are in.
    pub partitions: u32,
    /// The index that there is beside them.
    pub documents: Option<Shape>,
    /// Whether tables are made and deleted.
    pub makes_tables: bool,
    /// What a way between nodes carries of one message, bytes a second.
    pub way_bytes_s: u64,
    /// What goes wrong.
    pub faults: Faults,
}

impl Plan {
    /// Three nodes, five clients and a minute in which nothing goes wrong.
    #[must_use]
    pub fn calm(seed: u64) -> Self {
        let (duration, rest) = (Duration::from_secs(60), Duration::from_millis(200));
        Self {
            seed,
            nodes: 3,
            clients: 5,
            searchers: 0,
            duration,
            rest,
            partitions: 1,
            documents: None,
            makes_tables: false,
            way_bytes_s: u64::MAX,
            faults: Faults::default(),
        }
    }

    /// The same with the faults of the seed; one in so many is of minutes, in which nodes are away for longer
    /// than the log is kept for them.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let (mut plan, random) = (Self::calm(seed), Random::seeded(seed));
        let mut chance = random.of("plan");
        plan.partitions = if chance.once_in(2) { 1 } else { 4 };
        let is_long = chance.once_in(LONG);
        if is_long {
            (plan.duration, plan.rest) = (LONG_DURATION, LONG_REST);
            // A copy takes seconds then, in which something may befall it.
            if chance.once_in(2) {
                plan.way_bytes_s = 2_000 + chance.below(30_000);
            }
        }
        let mut size = random.of("nodes");
        if size.once_in(LARGER) {
            plan.nodes = usize::try_from(4 + size.below(NODES_MAX - 3)).unwrap_or(plan.nodes);
        }
        let mut of_documents = random.of("documents");
        plan.documents =
            of_documents.once_in(DOCUMENTS).then(|| searches::shape(&mut of_documents));
        plan.makes_tables = random.of("tables").once_in(MAKES_TABLES);
        plan.searchers = if plan.documents.is_some() { SEARCHERS } else { 0 };
        plan.faults = Faults::drawn(&random, plan.nodes, plan.duration);
        if is_long {
            plan.faults = plan.faults.with_absences(&random, plan.nodes);
        }
        plan
    }
}

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
    let random = Random::seeded(plan.seed);
    let executor = Executor::new(&random, BEGAN_MS);
    let time = executor.time().clone();
    messages::run_begins(&time);
    let tasks = executor.process(SERVERS);
    let servers = Servers::new(LOG_GROUPS, Delays::default(), time.clone(), tasks, &random);
    let network = Network::new(time.clone(), &random, plan.way_bytes_s);
    let machines = (&random, plan.nodes);
    let (servers, ways) = (Arc::new(servers), Arc::clone(&network));
    let mut cluster = Cluster::new(executor, servers, ways, machines, plan.partitions);
    (0..plan.nodes).for_each(|at| cluster.start(at));

    let history = History::default();
    let addresses: Vec<String> = cluster.machines.iter().map(|it| it.address.clone()).collect();
    let client = Client {
        network: Arc::clone(&network),
        time: time.clone(),
        addresses,
        history: history.clone(),
        until: Instant::default() + plan.duration,
        rest: plan.rest,
    };
    for number in 0..plan.clients {
        let client = client.clone();
        let random = random.part(&format!("client {number}"));
        cluster.executor.process(CLIENTS).spawn("client", client.run(random));
    }
    let documents = History::of_documents();
    let searcher = plan.documents.map(|shape| {
        let client = Client { history: documents.clone(), ..client.clone() };
        Searcher { client, shape }
    });
    for (number, searcher) in (0..plan.searchers).zip(searcher.iter().cycle()) {
        let random = random.part(&format!("searcher {number}"));
        cluster.executor.process(CLIENTS).spawn("searcher", searcher.clone().run(random));
    }
    let tables = plan.makes_tables.then(|| TableMaker::new(client.clone()));
    if let Some(tables) = tables.clone() {
        let run = tables.run(random.part("tables"));
        cluster.executor.process(CLIENTS).spawn("tables", run);
    }
    go_wrong(&mut cluster, plan)?;
    let mut violations = heal(&mut cluster)?;
    violations.extend(read_all(&mut cluster, client)?);
    if let Some(searcher) = searcher {
        let search = |late| searcher.search_all(late);
        violations.extend(on_all(&mut cluster, "does not search", search)?);
    }
    if let Some(tables) = tables {
        violations.extend(on_all(&mut cluster, "is not", |late| tables.find_all(late))?);
    }
    for history in [&history, &documents] {
        violations.extend(judged(history));
    }
    let seen = format!("{:?}{:?}", history.operations(), documents.operations());
    let trace = xxh3_64_with_seed(seen.as_bytes(), cluster.executor.trace());
    (0..plan.nodes).for_each(|at| cluster.kill(at, false));
    let passed = time.now() - Instant::default();
    let counts = history.counts().with(documents.counts());
    Ok(Outcome { trace, counts, passed, violations })
}

/// What a fault does at a moment: it begins, or it ends.
fn go_wrong(cluster: &mut Cluster, plan: &Plan) -> Result<(), Stuck> {
    cluster.servers.trouble(plan.faults.troubles);
    let mut steps: BTreeMap<(Duration, usize, bool), Due> = BTreeMap::new();
    for (number, due) in plan.faults.due.iter().enumerate() {
        steps.insert((due.at, number, true), *due);
        steps.insert((due.at + due.lasts, number, false), *due);
    }
    let now = |cluster: &Cluster| cluster.executor.time().now() - Instant::default();
    for ((at, _, begins), due) in steps.range(..(plan.duration, 0, false)) {
        cluster.executor.run_for(at.saturating_sub(now(cluster)))?;
        step(cluster, due, *begins);
    }
    cluster.executor.run_for(plan.duration.saturating_sub(now(cluster)))
}

fn step(cluster: &mut Cluster, due: &Due, begins: bool) {
    tracing::debug!(?due, begins, "a fault");
    match due.fault {
        Fault::Kill { machine, with_power, rots } if begins => {
            cluster.kill(machine, with_power);
            if rots {
                cluster.rot(machine);
            }
        }
        Fault::Kill { machine, .. } => cluster.start(machine),
        Fault::Freeze { machine } => cluster.freeze(machine, begins),
        Fault::Cut { from, to } => {
            let address = |at: usize| cluster.machines[at].address.clone();
            cluster.network.cut(&address(from), &address(to), begins);
        }
        Fault::Clock { machine, by_ms } => {
            cluster.set_clock(machine, if begins { by_ms } else { 0 });
        }
        Fault::NoLeader if begins => cluster.servers.behead(due.lasts),
        Fault::Blind { machine } if begins => cluster.blind(machine, due.lasts),
        Fault::NoLeader | Fault::Blind { .. } => {}
        Fault::Full { machine } => cluster.fill(machine, begins),
        Fault::Failing { machine } => cluster.fail_syncs(machine, begins),
    }
}

/// Mends all, and says what is not well in time.
fn heal(cluster: &mut Cluster) -> Result<Vec<String>, Stuck> {
    cluster.network.mend();
    cluster.servers.trouble(Troubles::default());
    cluster.servers.behead(Duration::ZERO);
    for at in 0..cluster.machines.len() {
        cluster.freeze(at, false);
        cluster.set_clock(at, 0);
        cluster.fill(at, false);
        cluster.fail_syncs(at, false);
        cluster.start(at);
    }
    let mut violations = Vec::new();
    let waiting = probe(cluster);
    let end = cluster.executor.time().now() + HEALS_WITHIN;
    while !waiting.lock().is_empty() && cluster.executor.time().now() < end {
        cluster.executor.run_for(PROBE_PAUSE)?;
    }
    let late = waiting.lock().clone();
    violations.extend(late.iter().map(|(node, why)| format!("{node} does not answer: {why}")));
    if late.is_empty() {
        violations.extend(compare(cluster)?);
    }
    for machine in &cluster.machines {
        let Some((coordinator, _)) = cluster.network.coordinator(&machine.address) else {
            continue;
        };
        let faults = coordinator.faults();
        violations.extend(faults.into_iter().map(|it| format!("{}: {it}", machine.address)));
    }
    if !late.is_empty() {
        violations.extend(cluster.failures.lock().iter().cloned());
    }
    Ok(violations)
}

/// Has every key read once more: what was acknowledged has to be there.
fn read_all(cluster: &mut Cluster, client: Client) -> Result<Vec<String>, Stuck> {
    let is_over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_over);
    cluster.executor.process(CLIENTS).spawn("read all", async move {
        client.read_all().await;
        told.store(true, Ordering::Relaxed);
    });
    let end = cluster.executor.time().now() + HEALS_WITHIN;
    while !is_over.load(Ordering::Relaxed) && cluster.executor.time().now() < end {
        cluster.executor.run_for(PROBE_PAUSE)?;
    }
    let late = (!is_over.load(Ordering::Relaxed)).then(|| "not every key can be read".to_owned());
    Ok(late.into_iter().collect())
}

/// Has a client ask every node until it says what it has to say; says who does not in time.
fn on_all<F: Future<Output = ()> + Send + 'static>(
    cluster: &mut Cluster,
    what: &str,
    ask: impl FnOnce(Waiting) -> F,
) -> Result<Vec<String>, Stuck> {
    let waiting: Waiting = Arc::default();
    let asking = ask(Arc::clone(&waiting));
    cluster.executor.process(CLIENTS).spawn("ask all", asking);
    let end = cluster.executor.time().now() + HEALS_WITHIN;
    cluster.executor.run_for(PROBE_PAUSE)?;
    while !waiting.lock().is_empty() && cluster.executor.time().now() < end {
        cluster.executor.run_for(PROBE_PAUSE)?;
    }
    let waiting = waiting.lock();
    Ok(waiting.iter().map(|(node, why)| format!("{node} {what}: {why}")).collect())
}

/// The nodes that did not answer a write and a read yet, and why.
type Waiting = Arc<Mutex<BTreeMap<String, String>>>;

/// Has each node answer a write and a read.
fn probe(cluster: &Cluster) -> Waiting {
    let waiting: Waiting = Arc::default();
    for machine in &cluster.machines {
        let (address, network) = (machine.address.clone(), Arc::clone(&cluster.network));
        let (time, waiting) = (cluster.executor.time().clone(), Arc::clone(&waiting));
        waiting.lock().insert(address.clone(), "it was not asked yet".to_owned());
        cluster.executor.process(CLIENTS).spawn("probe", async move {
            loop {
                let why = match network.coordinator(&address) {
                    None => "it is not there".to_owned(),
                    Some((coordinator, tasks)) => {
                        let key = format!("probe-{address}");
                        let asked = tasks.spawn("probe", async move {
                            let requests = [["SET", &key, "1"].as_slice(), &["GET", &key]]
                                .map(|it| Request::Command(Argv::of(it)));
                            let mut replies = Vec::new();
                            let mut session = coordinator.session();
                            coordinator.execute(&mut session, 0, &requests, &mut replies).await;
                            replies
                        });
                        match asked.await {
                            Ok(replies) if replies == [Reply::OK, Reply::bulk(&b"1"[..])] => {
                                waiting.lock().remove(&address);
                                return;
                            }
                            Ok(replies) => format!("{replies:?}"),
                            Err(lost) => lost.to_string(),
                        }
                    }
                };
                waiting.lock().insert(address.clone(), why);
                time.sleep(PROBE_PAUSE).await;
            }
        });
    }
    waiting
}

/// Compares all copies, and says which differ, are not there or cannot be compared.
fn compare(cluster: &mut Cluster) -> Result<Vec<String>, Stuck> {
    let address = cluster.machines[0].address.clone();
    let end = cluster.executor.time().now() + HEALS_WITHIN;
    let mut violations = vec!["no node compares copies".to_owned()];
    while !violations.is_empty() && cluster.executor.time().now() < end {
        let Some((coordinator, tasks)) = cluster.network.coordinator(&address) else { break };
        let found: Arc<Mutex<Option<Vec<CopyDigest>>>> = Arc::default();
        let told = Arc::clone(&found);
        tasks.spawn("compare", async move {
            let digests = coordinator.digests(None, DIGESTS_WITHIN).await;
            *told.lock() = Some(digests);
        });
        cluster.executor.run_for(DIGESTS_WITHIN + PROBE_PAUSE)?;
        let digests = found.lock().take();
        violations = match digests {
            Some(digests) => differences(&digests),
            None => vec!["copies are not compared in time".to_owned()],
        };
        violations.extend(missing(cluster));
    }
    Ok(violations)
}

/// The partitions of which not all copies serve, by every node's word.
fn missing(cluster: &Cluster) -> Vec<String> {
    let mut missing = Vec::new();
    for machine in &cluster.machines {
        let Some((coordinator, _)) = cluster.network.coordinator(&machine.address) else {
            missing.push(format!("{} is not there", machine.address));
            continue;
        };
        for partition in coordinator.copies_of_all() {
            let all_serve = partition.copies.iter().all(CopyStatus::is_serving);
            if !all_serve || partition.serving() < partition.wanted {
                let (node, table) = (&machine.address, &partition.table);
                let (ordinal, copies) = (partition.ordinal, &partition.copies);
                missing.push(format!("{node}: {table} {ordinal} is not whole: {copies:?}"));
            }
        }
    }
    missing
}

fn differences(digests: &[CopyDigest]) -> Vec<String> {
    let mut partitions: BTreeMap<(&str, u32), Vec<&CopyDigest>> = BTreeMap::new();
    for digest in digests {
        partitions.entry((&digest.table, digest.ordinal)).or_default().push(digest);
    }
    let mut violations = Vec::new();
    for ((table, ordinal), copies) in partitions {
        let of = |it: &CopyDigest| it.digest.as_ref().ok().map(|it| (it.lsn, it.hash, it.digest));
        let first = of(copies[0]);
        if copies.len() < 2 || first.is_none() || copies.iter().any(|it| of(it) != first) {
            violations.push(format!("copies of {table} {ordinal}: {copies:?}"));
        }
    }
    violations
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
