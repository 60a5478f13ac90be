//! The end of a run of two clusters: once nothing goes wrong any more, the follower has to contain what its leader
//! contains, and say of itself that it is well, in time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::tasks::{Executor, Stuck};
use plimsoll_cluster::following::{FollowerPartition, FollowerStatus};

use super::Followed;
use crate::nodes::Cluster;

/// How long a follower has to be level once both clusters are well: longer than what goes no further is left out
/// at the most.
const LEVEL_WITHIN: Duration = Duration::from_secs(180);
/// How long the copies of a cluster have to come to one position.
const DIGESTS_WITHIN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_secs(1);

/// What the copies of a table contain, as each node says of its own, by node and ordinal; none where it cannot.
type Contents = BTreeMap<(String, u32), Option<u64>>;

/// Waits until every copy of the tables that follow is as its leader's, and nothing is said to be wrong with them;
/// says what is not so in time.
pub(super) fn level(
    executor: &mut Executor,
    (leader, follower): (&Cluster, &Cluster),
    tables: &[Followed],
) -> Result<Vec<String>, Stuck> {
    let end = executor.time().now() + LEVEL_WITHIN;
    loop {
        let mut wrong = Vec::new();
        for table in tables {
            let theirs = contents(executor, leader, table.leader)?;
            let own = contents(executor, follower, table.follower)?;
            wrong.extend(differences(table.follower, &theirs, &own));
        }
        wrong.extend(troubles(leader, follower, tables));
        if wrong.is_empty() || executor.time().now() >= end {
            return Ok(wrong);
        }
        executor.run_for(PAUSE)?;
    }
}

/// What the nodes of a cluster say that their copies of a table contain.
fn contents(executor: &mut Executor, cluster: &Cluster, table: &str) -> Result<Contents, Stuck> {
    let found: Arc<Mutex<Contents>> = Arc::default();
    let mut asked = Vec::new();
    for address in cluster.addresses() {
        let Some((coordinator, tasks)) = cluster.network.coordinator(&address) else { continue };
        let (found, tables) = (Arc::clone(&found), [table.to_owned()]);
        asked.push(tasks.spawn("contents", async move {
            for copy in coordinator.digests(Some(&tables), DIGESTS_WITHIN).await {
                if copy.node == address {
                    let content = copy.digest.ok().and_then(|digest| digest.content);
                    found.lock().insert((copy.node, copy.ordinal), content);
                }
            }
        }));
    }
    // A handle is kept until all have told, or no longer have to.
    executor.run_for(PAUSE)?;
    drop(asked);
    let contents = found.lock().clone();
    Ok(contents)
}

fn differences(table: &str, theirs: &Contents, own: &Contents) -> Vec<String> {
    let mut wrong = Vec::new();
    let ordinals = |contents: &Contents| {
        contents.keys().map(|(_, ordinal)| *ordinal).collect::<std::collections::BTreeSet<_>>()
    };
    if theirs.is_empty() || ordinals(theirs) != ordinals(own) {
        wrong.push(format!("{table}: the leader has {theirs:?}, the follower {own:?}"));
    }
    for ((node, ordinal), content) in own {
        let of_leader: Vec<_> = theirs.iter().filter(|((_, it), _)| it == ordinal).collect();
        let is_same = content.is_some() && of_leader.iter().all(|(_, it)| *it == content);
        if !is_same {
            wrong.push(format!("{table} {ordinal} on {node} is {content:?}, not {of_leader:?}"));
        }
    }
    wrong
}

/// What is said to be wrong, by the nodes that follow and by the leader's.
fn troubles(leader: &Cluster, follower: &Cluster, tables: &[Followed]) -> Vec<String> {
    let mut wrong = Vec::new();
    // Of each partition the node is believed that heard of its leader last, as for REST.
    let mut heard: BTreeMap<(&str, u32), (String, FollowerPartition)> = BTreeMap::new();
    for address in follower.addresses() {
        let Some(services) = follower.network.services(&address) else {
            wrong.push(format!("{address} is not there"));
            continue;
        };
        let followers = services.following.map(|it| it.overview()).unwrap_or_default();
        for table in tables {
            let Some(found) = followers.iter().find(|it| it.name == table.follower) else {
                wrong.push(format!("{address} does not know that {} follows", table.follower));
                continue;
            };
            if found.status != FollowerStatus::Active {
                wrong.push(format!("{} is {:?} for {address}", found.name, found.status));
            }
            for partition in &found.partitions {
                let silent = |it: &FollowerPartition| it.silent_ms.unwrap_or(u64::MAX);
                let told = || (address.clone(), partition.clone());
                let known = heard.entry((table.follower, partition.ordinal)).or_insert_with(told);
                if silent(partition) < silent(&known.1) {
                    *known = told();
                }
            }
        }
    }
    for ((table, ordinal), (address, told)) in heard {
        if told.trouble.is_some() || told.lag_ms != Some(0) {
            let FollowerPartition { trouble, lag_ms, silent_ms, .. } = told;
            wrong.push(format!(
                "{table} {ordinal} on {address}: {trouble:?}, lag {lag_ms:?} ms, silent {silent_ms:?} ms"
            ));
        }
    }
    wrong.extend(kept(leader, follower, tables));
    wrong
}

/// What the leader keeps that it should not, or does not keep: those that are level need its log from now on, and
/// nobody else does. A try to follow whose answer was lost is given up in the end.
fn kept(leader: &Cluster, follower: &Cluster, tables: &[Followed]) -> Vec<String> {
    let first = |it: &Cluster| it.addresses().into_iter().find_map(|at| it.network.services(&at));
    let (Some(theirs), Some(own)) = (first(leader), first(follower)) else {
        return vec!["a cluster is not there".to_owned()];
    };
    let Ok(holds) = theirs.leading.holds() else {
        return vec!["the leader does not say what it keeps".to_owned()];
    };
    let mut wrong = Vec::new();
    if holds.len() > tables.len() {
        wrong.push(format!("the leader keeps its log for nobody: {holds:?}"));
    }
    for table in tables {
        let partitions = own.coordinator.copies_of(table.follower);
        let uuid = partitions.first().map(|it| it.table_uuid.clone());
        let mut kept = holds.iter().filter(|hold| Some(hold.follower_uuid()) == uuid);
        if !kept.any(|hold| !hold.is_dropped) {
            wrong.push(format!("the leader keeps nothing for {}, of {holds:?}", table.follower));
        }
    }
    wrong
}
