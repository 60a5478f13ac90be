//! The role that reads the durable files of indices again at a slow pace and compares them with
//! their checksums, so that rot is found before a search shows it. What is found damaged is built
//! anew from the rows (`indexer.rs`). Rows have checksums that every read checks.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use plimsoll_base::World;
use plimsoll_base::tasks::{Role, Stopping};

use super::indexer::indexer_of;
use crate::replication::Replication;
use crate::settings;

/// How often it is looked whether a search met what should not be, also during a pass.
const INTERVAL: Duration = Duration::from_secs(1);
/// How many bytes are read a second: little beside what a disk gives to searches.
const BYTES_S: u64 = 32 << 20;

/// Begins the role. It ends after the block that it reads.
pub(crate) fn start_scrubbing(replication: &Arc<Replication>) -> std::io::Result<Role> {
    let (weak, world) = (Arc::downgrade(replication), replication.world.clone());
    replication.world.tasks.role("scrub", move |stopping| run(weak, world, stopping))
}

async fn run(replication: Weak<Replication>, world: World, mut stopping: Stopping) {
    let World { time, tasks, .. } = world;
    let mut checked_at = time.now();
    while !stopping.told_within(&time, INTERVAL).await {
        check_suspects(&replication);
        let Some(node) = replication.upgrade() else { return };
        if time.now() - checked_at < settings::cluster::check_interval(&node.metadata) {
            continue;
        }
        checked_at = time.now();
        let partitions = node.tables.partitions();
        // A pass may take hours, and the node is not to be kept open by it.
        let is_stopping = Arc::clone(&node.is_stopping);
        drop(node);
        let mut looked_at = time.now();
        let mut pace = |bytes: u64| {
            // Of a block, so that a stop waits for no more than that.
            tasks.block_for(Duration::from_micros(bytes.saturating_mul(1_000_000) / BYTES_S));
            if time.now() - looked_at >= INTERVAL {
                check_suspects(&replication);
                looked_at = time.now();
            }
            !is_stopping.load(Ordering::Relaxed)
        };
        for partition in partitions {
            if let Some(indexer) = indexer_of(&partition)
                && pace(0)
            {
                indexer.check_files(&mut pace);
            }
        }
    }
}

/// Checks, at full speed, the indices in which a search has met something.
fn check_suspects(replication: &Weak<Replication>) {
    let Some(replication) = replication.upgrade() else { return };
    let is_stopping = Arc::clone(&replication.is_stopping);
    let partitions = replication.tables.partitions();
    drop(replication);
    for partition in partitions {
        if let Some(indexer) = indexer_of(&partition)
            && indexer.take_suspicion()
        {
            indexer.check_files(&mut |_| !is_stopping.load(Ordering::Relaxed));
        }
    }
}
