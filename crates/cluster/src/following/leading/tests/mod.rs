//! Tests over a node of its own, with an embedded log.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]

mod difference;
mod files;
mod holds;
mod paced;
mod records;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_log::rules::carried::{LeaderPosition, Link};
use plimsoll_log::rules::chain::Chain;
use plimsoll_log::{GroupId, Incarnation, PartitionId};
use plimsoll_storage::{Argv, Reply};
use tempfile::TempDir;
use tokio::time::timeout;

use super::Leading;
use crate::following::remote::{FollowerPosition, LeaderTable};
use crate::node::flushing;
use crate::node::shared::Shared;
use crate::{Coordinator, Node, NodeSettings, Request};

/// What waits for a thread or a disk.
const LONG: Duration = Duration::from_secs(60);

/// A leader of two partitions in `db0`.
struct Leader {
    node: Option<Node>,
    coordinator: Arc<Coordinator>,
    leading: Arc<Leading>,
    _folder: TempDir,
}

impl Leader {
    async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let node = Node::open(&settings(folder.path())).await.unwrap();
        let (coordinator, leading) = (node.coordinator(), node.leading());
        Self { node: Some(node), coordinator, leading, _folder: folder }
    }

    fn shared(&self) -> &Arc<Shared> {
        self.coordinator.shared()
    }

    /// Writes a key for each number, of so many bytes.
    async fn write(&self, numbers: std::ops::Range<usize>, bytes: usize) {
        let value = vec![b'x'; bytes];
        let mut session = self.coordinator.session();
        for number in numbers {
            let key = format!("key-{number}");
            let set = [Request::Command(Argv::of(&[b"SET", key.as_bytes(), &value]))];
            let mut replies = Vec::new();
            self.coordinator.execute(&mut session, 0, &set, &mut replies).await;
            assert_eq!(replies, [Reply::OK]);
        }
    }

    async fn table(&self) -> LeaderTable {
        self.leading.table("db0").await.unwrap().unwrap()
    }

    fn group(&self, partition: PartitionId) -> GroupId {
        self.shared().tables.copies(partition).unwrap().group
    }

    /// Where this node stands in the log of a partition.
    fn position(&self, partition: PartitionId) -> Link {
        let position = self.shared().replication.tails[&self.group(partition)].get().position();
        Link { lsn: position.lsn, hash: position.hash, log_time_ms: position.log_time_ms }
    }

    /// The first position that the log of a partition has.
    fn first(&self, partition: PartitionId) -> u64 {
        self.shared().replication.log.bounds(self.group(partition)).unwrap().first.0
    }

    /// Makes rows durable and trims.
    async fn flush(&self) {
        flushing::flush_all(self.shared()).await;
    }

    fn place(&self, partition: PartitionId, link: Link) -> FollowerPosition {
        let incarnation = self.shared().replication.log.incarnation();
        FollowerPosition { partition, position: LeaderPosition { incarnation, link } }
    }

    /// Both partitions from the beginning of the log.
    async fn beginnings(&self) -> Vec<FollowerPosition> {
        let table = self.table().await.incarnation;
        let partitions = (0..2).map(|ordinal| PartitionId { table, ordinal });
        partitions
            .map(|it| self.place(it, beginning(self.shared().replication.log.incarnation())))
            .collect()
    }

    async fn close(mut self) {
        self.node.take().unwrap().close().await;
    }
}

fn settings(folder: &Path) -> NodeSettings {
    let mut settings = NodeSettings { database_partitions: 2, ..NodeSettings::alone(folder) };
    settings.record.remote = "127.0.0.1:9443".to_owned();
    settings
}

/// Where a log begins.
fn beginning(incarnation: Incarnation) -> Link {
    let position = Chain::new(incarnation).position();
    Link { lsn: position.lsn, hash: position.hash, log_time_ms: position.log_time_ms }
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(LONG, what).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_what_the_metadata_says_and_where_its_copies_are() {
    let leader = Leader::open().await;
    assert_eq!(leader.leading.table("db0").await, Ok(None));
    leader.write(0..1, 1).await;
    let table = leader.table().await;
    assert_eq!((table.name.as_str(), table.partitions.len()), ("db0", 2));
    assert_eq!(table.log(), leader.shared().replication.log.incarnation());
    let own = leader.shared().members.own.clone();
    assert!(table.partitions.iter().all(|it| it.nodes == [own.clone()]));
    assert!(table.documents.is_none() && !table.is_follower);
    leader.coordinator.documents().create_index("i", crate::IndexBody::default()).await.unwrap();
    let index = leader.leading.table("i").await.unwrap().unwrap();
    let documents = index.documents.unwrap();
    assert_eq!((documents.mapping_version, documents.is_closed), (1, false));
}
