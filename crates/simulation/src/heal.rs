//! The end of a run: all is mended, and every node has to answer and every copy to be what the others are, in time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::tasks::{Executor, Spawned, Stuck};
use plimsoll_cluster::{Coordinator, CopyDigest, CopyStatus, Request};
use plimsoll_storage::{Argv, Reply};

use crate::clients::Client;
use crate::log::Troubles;
use crate::nodes::{Cluster, Failing};

/// The process of clients.
pub(crate) const CLIENTS: u64 = 1;
/// How long a cluster has to be well again once nothing goes wrong any more.
const HEALS_WITHIN: Duration = Duration::from_secs(120);
/// How long copies have to come to one position.
const DIGESTS_WITHIN: Duration = Duration::from_secs(20);
const PROBE_PAUSE: Duration = Duration::from_millis(500);

/// Mends all.
pub(crate) fn mend(executor: &mut Executor, cluster: &mut Cluster) {
    cluster.network.mend();
    cluster.servers.trouble(Troubles::default());
    cluster.servers.behead(Duration::ZERO);
    for at in 0..cluster.machines.len() {
        cluster.freeze(executor, at, false);
        cluster.set_clock(executor.time(), at, 0);
        cluster.fill(at, false);
        cluster.fail_syncs(executor, at, Failing::None);
        cluster.start(executor, at);
    }
}

/// Says what of a cluster is not well in time.
pub(crate) fn is_well(executor: &mut Executor, cluster: &Cluster) -> Result<Vec<String>, Stuck> {
    let mut violations = Vec::new();
    let waiting = probe(executor, cluster);
    let end = executor.time().now() + HEALS_WITHIN;
    while !waiting.lock().is_empty() && executor.time().now() < end {
        executor.run_for(PROBE_PAUSE)?;
    }
    let late = waiting.lock().clone();
    violations.extend(late.iter().map(|(node, why)| format!("{node} does not answer: {why}")));
    if late.is_empty() {
        violations.extend(compare(executor, cluster)?);
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
pub(crate) fn read_all(executor: &mut Executor, client: Client) -> Result<Vec<String>, Stuck> {
    let read = executor.process(CLIENTS).spawn("read all", client.read_all());
    let read = told(executor, read, HEALS_WITHIN)?;
    Ok(read.map_or_else(|| vec!["not every key can be read".to_owned()], |()| Vec::new()))
}

/// What a task comes to; none where it takes too long.
pub(crate) fn told<T: Send + 'static>(
    executor: &mut Executor,
    asked: Spawned<T>,
    within: Duration,
) -> Result<Option<T>, Stuck> {
    let found: Arc<Mutex<Option<T>>> = Arc::default();
    let tell = Arc::clone(&found);
    executor.process(CLIENTS).spawn("told", async move { *tell.lock() = asked.await.ok() });
    let end = executor.time().now() + within;
    while found.lock().is_none() && executor.time().now() < end {
        executor.run_for(PROBE_PAUSE)?;
    }
    Ok(found.lock().take())
}

/// Has a client ask every node until it says what it has to say; says who does not in time.
pub(crate) fn on_all<F: Future<Output = ()> + Send + 'static>(
    executor: &mut Executor,
    what: &str,
    ask: impl FnOnce(Waiting) -> F,
) -> Result<Vec<String>, Stuck> {
    let waiting: Waiting = Arc::default();
    let asking = ask(Arc::clone(&waiting));
    executor.process(CLIENTS).spawn("ask all", asking);
    let end = executor.time().now() + HEALS_WITHIN;
    executor.run_for(PROBE_PAUSE)?;
    while !waiting.lock().is_empty() && executor.time().now() < end {
        executor.run_for(PROBE_PAUSE)?;
    }
    let waiting = waiting.lock();
    Ok(waiting.iter().map(|(node, why)| format!("{node} {what}: {why}")).collect())
}

/// The nodes that did not answer a write and a read yet, and why.
pub(crate) type Waiting = Arc<Mutex<BTreeMap<String, String>>>;

/// Has each node answer a write and a read.
fn probe(executor: &Executor, cluster: &Cluster) -> Waiting {
    let waiting: Waiting = Arc::default();
    for machine in &cluster.machines {
        let (address, network) = (machine.address.clone(), Arc::clone(&cluster.network));
        let (time, waiting) = (executor.time().clone(), Arc::clone(&waiting));
        waiting.lock().insert(address.clone(), "it was not asked yet".to_owned());
        executor.process(CLIENTS).spawn("probe", async move {
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
fn compare(executor: &mut Executor, cluster: &Cluster) -> Result<Vec<String>, Stuck> {
    let address = cluster.machines[0].address.clone();
    let end = executor.time().now() + HEALS_WITHIN;
    let mut violations = vec!["no node compares copies".to_owned()];
    while !violations.is_empty() && executor.time().now() < end {
        let Some((coordinator, tasks)) = cluster.network.coordinator(&address) else {
            // It may be opened anew just now: it stood still, and learns late what it lacks.
            executor.run_for(PROBE_PAUSE)?;
            continue;
        };
        let found: Arc<Mutex<Option<Vec<CopyDigest>>>> = Arc::default();
        let told = Arc::clone(&found);
        let alone = alone(&coordinator);
        tasks.spawn("compare", async move {
            let digests = coordinator.digests(None, DIGESTS_WITHIN).await;
            *told.lock() = Some(digests);
        });
        executor.run_for(DIGESTS_WITHIN + PROBE_PAUSE)?;
        let digests = found.lock().take();
        violations = match digests {
            Some(digests) => differences(&digests, &alone),
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

/// The partitions that are to have one copy, by table and number.
fn alone(coordinator: &Coordinator) -> BTreeSet<(String, u32)> {
    let all = coordinator.copies_of_all();
    all.into_iter().filter(|it| it.wanted == 1).map(|it| (it.table, it.ordinal)).collect()
}

fn differences(digests: &[CopyDigest], alone: &BTreeSet<(String, u32)>) -> Vec<String> {
    let mut partitions: BTreeMap<(&str, u32), Vec<&CopyDigest>> = BTreeMap::new();
    for digest in digests {
        partitions.entry((&digest.table, digest.ordinal)).or_default().push(digest);
    }
    let mut violations = Vec::new();
    for ((table, ordinal), copies) in partitions {
        let of = |it: &CopyDigest| it.digest.as_ref().ok().map(|it| (it.lsn, it.hash, it.digest));
        let first = of(copies[0]);
        let least = if alone.contains(&(table.to_owned(), ordinal)) { 1 } else { 2 };
        if copies.len() < least || first.is_none() || copies.iter().any(|it| of(it) != first) {
            violations.push(format!("copies of {table} {ordinal}: {copies:?}"));
        }
    }
    violations
}
