//! What the nodes of this cluster know of followers, put together: the node that pulls a partition knows
//! how far its leader is, and another is asked.

use plimsoll_cluster::following::{FollowerOverview, FollowerPartition, FollowingThread};
use plimsoll_index::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::following;
use crate::rest::call::Call;
use crate::rest::shared::Rest;

/// What a node tells others of a follower: of the partitions that it has heard of.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    name: String,
    partitions: Vec<FollowerPartition>,
}

/// What this node tells the others.
#[must_use]
pub fn own(rest: &Rest) -> Value {
    let overview = rest.remote.following.get().map(FollowingThread::following);
    let overview = overview.map(|it| it.overview()).unwrap_or_default();
    let told = |mut follower: FollowerOverview| {
        follower.partitions.retain(|it| it.silent_ms.is_some() || it.trouble.is_some());
        let FollowerOverview { name, partitions, .. } = follower;
        (!partitions.is_empty()).then_some(Told { name, partitions })
    };
    json!(overview.into_iter().filter_map(told).collect::<Vec<_>>())
}

/// The followers of this cluster, with what is known of each partition by the node that heard of its
/// leader last. A node that does not answer is left out.
///
/// # Errors
/// Where the node is being started.
pub async fn overview(call: &Call) -> Result<Vec<FollowerOverview>, Error> {
    let mut all = following(call)?.overview();
    if all.is_empty() || call.coordinator().nodes().len() < 2 {
        return Ok(all);
    }
    let told = call.coordinator().cluster_statistics().await;
    for node in told.nodes.into_iter().skip(1) {
        // An older node tells nothing of followers.
        let told: Vec<Told> =
            serde_json::from_value(node.process["following"].clone()).unwrap_or_default();
        for Told { name, partitions } in told {
            if let Some(follower) = all.iter_mut().find(|it| it.name == name) {
                merge(&mut follower.partitions, partitions);
            }
        }
    }
    Ok(all)
}

fn merge(known: &mut [FollowerPartition], told: Vec<FollowerPartition>) {
    for told in told {
        let Some(known) = known.iter_mut().find(|it| it.ordinal == told.ordinal) else { continue };
        let silent = |it: &FollowerPartition| it.silent_ms.unwrap_or(u64::MAX);
        let knows_more =
            silent(&told) < silent(known) || (silent(known) == u64::MAX && known.trouble.is_none());
        if knows_more {
            *known = told;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_that_heard_last_of_a_leader_is_believed() {
        let partition = |ordinal, silent_ms, taken_lsn| FollowerPartition {
            ordinal,
            silent_ms,
            taken_lsn,
            ..FollowerPartition::default()
        };
        let mut known = vec![partition(0, Some(10), 5), partition(1, None, 3)];
        merge(&mut known, vec![partition(0, Some(900), 4), partition(1, Some(20), 7)]);
        assert_eq!(known.iter().map(|it| it.taken_lsn).collect::<Vec<_>>(), [5, 7]);
        merge(&mut known, vec![partition(0, Some(1), 9), partition(7, Some(1), 1)]);
        assert_eq!(known.iter().map(|it| it.taken_lsn).collect::<Vec<_>>(), [9, 7]);
    }

    #[test]
    fn what_is_told_is_read() {
        let partition = FollowerPartition {
            lag_ms: Some(4),
            trouble: Some(("why".to_owned(), true)),
            ..FollowerPartition::default()
        };
        let read: FollowerPartition = serde_json::from_value(json!(partition)).unwrap();
        assert_eq!(read, partition);
    }
}
