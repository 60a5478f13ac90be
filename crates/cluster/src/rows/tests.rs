//! Rows over a router, a log and this node's copies: services that are put together without a node.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use plimsoll_base::World;
use plimsoll_control::pacing::Foreground;
use plimsoll_control::{LoadLine, Meter, Outside};
use plimsoll_log::rules::chain::Chain;
use plimsoll_log::{GroupId, LeadId, Lsn};
use plimsoll_storage::partition::{Replica, Resources, StoreOptions};
use plimsoll_storage::{Argv, Reply};

use super::Rows;
use crate::copies::LocalCopies;
use crate::machine::room::Room;
use crate::metadata;
use crate::metadata::GROUPS;
use crate::metadata::members::{Members, NodeRecord};
use crate::metadata::trim_notes::LastRecords;
use crate::metadata::version::{ClusterVersion, KNOWN};
use crate::recovery::Checkpoints;
use crate::replication::applier::{ApplierContext, GroupStart};
use crate::replication::barrier::Barrier;
use crate::replication::groups::HeldGroups;
use crate::replication::log_engine::LogSettings;
use crate::replication::reopening::Reopening;
use crate::replication::session::SessionPool;
use crate::replication::tables::Tables;
use crate::replication::tail::GroupTail;
use crate::replication::{Replication, partition_of_replica};
use crate::routing::Router;
use crate::routing::load::{Load, SearchMeter};
use crate::settings::work::WorkSettings;
use crate::wire::NoPeers;
use crate::wire::request::Request;

/// Nobody searches.
struct NoSearches;

impl SearchMeter for NoSearches {
    fn line(&self, outside: &Outside) -> LoadLine {
        Meter::new(1, 1).line(0, None, outside)
    }

    fn felt(&self) -> Foreground {
        Foreground::default()
    }

    fn scheduled(&self) -> Option<(u64, u64)> {
        None
    }
}

/// The metadata in `dir`, and all groups of a log that nobody else appends to.
fn replication(dir: &Path, world: &World) -> Replication {
    let opened = LogSettings::default().open(&dir.join("log"), &world.time).unwrap();
    let incarnation = opened.log.incarnation();
    let resources = Arc::new(Resources::of(world, StoreOptions::default(), Arc::new(|| ())));
    let tails: BTreeMap<GroupId, Arc<GroupTail>> =
        (0..=GROUPS).map(|group| (GroupId(group), Arc::default())).collect();
    let (version, lead) = (Arc::<ClusterVersion>::default(), LeadId(1));
    version.raise(KNOWN);
    let chain = Chain::new(incarnation);
    let folder = dir.join(metadata::PARTITION.to_string());
    let replica =
        Replica::open(metadata::PARTITION, &folder, &resources, incarnation, chain.position());
    let replica = replica.unwrap();
    let (by, tail) = ((&opened.log, &opened.clock, &version), &tails[&metadata::GROUP]);
    let metadata = partition_of_replica(&replica, metadata::GROUP, lead, by, tail);
    let context = ApplierContext {
        log: Arc::clone(&opened.log),
        applied_bytes: Arc::default(),
        version: Arc::clone(&version),
        reopening: Reopening::default(),
        world: world.clone(),
        chance: Arc::new(world.random.draws("chance")),
    };
    let barrier = |(group, tail): (&GroupId, &Arc<GroupTail>)| {
        let (log, tail) = (Arc::clone(&opened.log), Arc::clone(tail));
        (*group, Barrier::new(*group, log, tail, LeadId(2), world.time.clone()))
    };
    let barriers = tails.iter().map(barrier).collect();
    let groups = HeldGroups::new(context.clone());
    let mut replicas = vec![(replica, Arc::clone(&metadata))];
    for (group, tail) in &tails {
        let (chain, tail) = (Chain::new(incarnation), Arc::clone(tail));
        let (replicas, last) = (std::mem::take(&mut replicas), LastRecords::seen_from(Lsn(0)));
        groups.start(GroupStart { group: *group, chain, tail, replicas, last }).unwrap();
    }
    let record = NodeRecord::default();
    let members =
        Members::new("own".to_owned(), record, Arc::new(NoPeers), incarnation, world.time.clone());
    Replication {
        world: world.clone(),
        log: opened.log,
        _holder: opened.holder,
        is_alone: true,
        clock: opened.clock,
        resources,
        room: Arc::new(Room::new(&world.disk, dir)),
        metadata,
        members: Arc::new(members),
        tables: Arc::new(Tables::default()),
        sessions: Arc::new(SessionPool::new(world.time.clone(), &world.random)),
        groups: Arc::new(groups),
        applied_bytes: context.applied_bytes,
        lead,
        tails,
        barriers,
        durable: Mutex::default(),
        version,
        reopening: context.reopening,
        is_stopping: Arc::new(AtomicBool::new(false)),
    }
}

fn local_copies(dir: &Path) -> Arc<LocalCopies> {
    let world = World::of_the_machine();
    let replication = Arc::new(replication(dir, &world));
    let draws = (Arc::new(world.random.draws("chance")), world.random.draws("names"));
    let load = Load::new(1, 1, Arc::new(NoSearches));
    let router = Router::new(&replication, draws, WorkSettings::default().selection, load);
    let checkpoints = Checkpoints::new(&world, dir).unwrap();
    LocalCopies::new(router, 3, dir.to_owned(), checkpoints)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_written_and_read_without_a_node() {
    let dir = tempfile::tempdir().unwrap();
    let copies = local_copies(dir.path());
    let rows = Rows {
        router: Arc::clone(&copies.router),
        changes: Arc::clone(&copies.changes),
        cursors: Arc::default(),
    };
    let mut session = copies.replication.sessions.session();
    let requests =
        [&["SET", "a", "1"][..], &["MSET", "b", "2", "c", "3"], &["MGET", "a", "b", "c"]];
    let requests = requests.map(|argv| Request::Command(Argv::of(argv)));
    let mut replies = Vec::new();
    rows.run(&mut session, 0, &requests, &mut replies).await;
    let values = ["1", "2", "3"].map(Reply::bulk).to_vec();
    assert_eq!(replies, [Reply::OK, Reply::OK, Reply::Array(values)]);
    assert_eq!(copies.tables.get(0).unwrap().copies().len(), 3);
    copies.replication.groups.close();
}
