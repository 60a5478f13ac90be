//! A leader and one who follows it, over the port and real TLS: what a follower asks comes back as the
//! cluster gave it, errors by their kinds, and a stream of records ends with its key.

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use plimsoll_cluster::Coordinator;
use plimsoll_cluster::following::{
    FollowerPosition, Hold, HoldChange, LeaderTable, Records, RemoteError, Remotes, Told,
};
use plimsoll_cluster::{CallError, NoPeers, Node, NodeSettings, Request};
use plimsoll_index::Error;
use plimsoll_log::PartitionId;
use plimsoll_log::record::Item;
use plimsoll_log::rules::carried::{LeaderPosition, Link, Verdict};
use plimsoll_log::rules::chain::Chain;
use plimsoll_storage::Argv;
use tempfile::TempDir;
use tokio::time::timeout;

use super::leader::OwnCluster;
use super::port::Port;
use super::*;
use crate::certificates::{Authority, Hosts, Purpose, make_ca};
use crate::security::keys::{DRAWN_BYTES, KeySpec, Keys, KeysError, Which};
use crate::tls::{self, Identity, Rules, ServerFiles};

/// What waits for a thread, a disk or a handshake.
const LONG: Duration = Duration::from_secs(60);

/// A leader's node with its port, and the clusters that a follower's node knows: `west` is the leader,
/// by a key for `db0` alone.
struct Clusters {
    node: Node,
    coordinator: Arc<Coordinator>,
    keys: Arc<Keys>,
    port: Port,
    known: Arc<RemoteClusters>,
    _folder: TempDir,
}

impl Clusters {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let ca = make_ca("ca", 10, SystemTime::now()).unwrap();
        let purpose =
            Purpose::Server(Hosts { dns: vec![], ips: vec!["127.0.0.1".parse().unwrap()] });
        let authority = Authority::read(&ca.certificate, &ca.key).unwrap();
        let made = authority.make("leader", &purpose, 10, SystemTime::now()).unwrap();
        fs::write(path("ca.crt"), &ca.certificate).unwrap();
        fs::write(path("leader.crt"), &made.certificate).unwrap();
        fs::write(path("leader.key"), &made.key).unwrap();
        let identity = Identity { certificate: path("leader.crt"), key: path("leader.key") };
        let files = ServerFiles { identity, authorities: vec![] };
        let tls = Arc::new(
            tls::server("test", files, Rules::Clusters, &plimsoll_base::Time::of_the_machine())
                .unwrap(),
        );

        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut settings =
            NodeSettings { database_partitions: 2, ..NodeSettings::alone(&path("data")) };
        settings.record.remote.clone_from(&address);
        let node = Node::open(&settings).await.unwrap();
        let coordinator = node.coordinator();
        let keys = Arc::new(Keys::new(Arc::<Coordinator>::clone(&coordinator)));
        let spec = KeySpec {
            name: "follower".to_owned(),
            patterns: vec!["db0".to_owned()],
            ..KeySpec::default()
        };
        let (_, credential) =
            keys.make(spec, &[7; DRAWN_BYTES], || Ok::<_, KeysError>(vec![])).await.unwrap();
        fs::write(path("key"), credential.encode()).unwrap();
        let (uuid, name) = ("u".to_owned(), "leader".to_owned());
        let own = OwnCluster::new(Arc::clone(&coordinator), node.leading(), uuid, name);
        let (shown, peers) = (Arc::clone(&keys), Arc::new(NoPeers));
        let port = Port::start(listener, tls, shown, Arc::new(own), peers).unwrap();

        let known = Arc::new(RemoteClusters::default());
        let set = [
            ("seeds", address),
            ("certificate_authorities", path("ca.crt").display().to_string()),
            ("credentials_file", path("key").display().to_string()),
        ];
        let set = set.map(|(name, text)| (format!("cluster.remote.west.{name}"), text));
        known.take_settings(&BTreeMap::from(set));
        let reached = async {
            while !known.get("west").unwrap().info().is_connected() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        soon(reached).await;
        Self { node, coordinator, keys, port, known, _folder: folder }
    }

    fn remote(&self) -> Arc<dyn plimsoll_cluster::following::Remote> {
        Remotes::get(&*self.known, "west").unwrap()
    }

    async fn write(&self, db: u32, numbers: std::ops::Range<usize>, bytes: usize) {
        let mut session = self.coordinator.session();
        for number in numbers {
            let (key, value) = (format!("key-{number}").into_bytes(), vec![b'x'; bytes]);
            let set = [Request::Command(Argv::of(&[b"SET".to_vec(), key, value]))];
            let mut replies = Vec::new();
            self.coordinator.execute(&mut session, db, &set, &mut replies).await;
            assert_eq!(replies, [plimsoll_storage::Reply::OK]);
        }
    }

    async fn stop(self) {
        let Self { node, port, known, _folder: folder, .. } = self;
        let runtime = tokio::runtime::Handle::current();
        let stopped = tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            port.stop(LONG);
            assert!(began.elapsed() < LONG / 2, "streams end with the port");
            known.stop();
            runtime.block_on(node.close());
            drop(folder);
        });
        stopped.await.unwrap();
    }
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(LONG, what).await.unwrap()
}

/// Each partition of a table from the beginning of its log.
fn beginnings(table: &LeaderTable) -> Vec<FollowerPosition> {
    let position = Chain::new(table.log()).position();
    let link = Link { lsn: position.lsn, hash: position.hash, log_time_ms: 0 };
    let position = LeaderPosition { incarnation: table.log(), link };
    let ordinals = 0..u32::try_from(table.partitions.len()).unwrap();
    let partition = |ordinal| PartitionId { table: table.incarnation, ordinal };
    ordinals.map(|ordinal| FollowerPosition { partition: partition(ordinal), position }).collect()
}

/// Takes the records of a stream up to this many, each exactly once; gives their bytes.
async fn take(stream: &mut dyn Records, held: &mut [FollowerPosition], count: usize) -> usize {
    let (mut taken, mut bytes) = (0, 0);
    while taken < count {
        let told = soon(stream.next()).await.unwrap();
        let Told::Carried { partition, item: Item::Carried { batch, records } } = told else {
            continue;
        };
        let place = held.iter_mut().find(|it| it.partition == partition).unwrap();
        assert_eq!(batch.admit(&place.position), Ok(Verdict::Take { from: 0 }));
        place.position = batch.position(records.len());
        taken += records.len();
        bytes += records.iter().map(Bytes::len).sum::<usize>();
    }
    assert_eq!(taken, count);
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_is_given_what_its_key_opens() {
    let clusters = Clusters::start().await;
    clusters.write(0, 0..8, 1 << 20).await;
    clusters.write(1, 0..1, 1).await;
    let remote = clusters.remote();
    let table = soon(remote.table("db0")).await.unwrap();
    assert_eq!((table.name.as_str(), table.partitions.len()), ("db0", 2));
    assert_eq!(table.partitions[0].nodes.len(), 1);
    for name in ["db1", "none"] {
        let none = soon(remote.table(name)).await;
        assert!(matches!(none, Err(RemoteError::NoTable(_))), "{name}: {none:?}");
    }

    let hold = Hold {
        name: "db0".to_owned(),
        table: table.incarnation,
        cluster_uuid: "f".to_owned(),
        follower: "copy".to_owned(),
        follower_incarnation: 3,
        change: HoldChange::Begin,
        key: String::new(),
    };
    assert_eq!(soon(remote.hold(hold.clone())).await.unwrap().positions, [0, 0]);
    let other = soon(remote.hold(Hold { table: 1, ..hold.clone() })).await;
    assert!(matches!(other, Err(RemoteError::NoTable(_))), "{other:?}");
    let few = HoldChange::Positions(vec![1]);
    let few = soon(remote.hold(Hold { change: few, ..hold.clone() })).await;
    assert!(matches!(few, Err(RemoteError::Refused(_))), "{few:?}");
    let end = soon(remote.hold(Hold { change: HoldChange::End, ..hold })).await;
    assert!(end.unwrap().positions.is_empty());

    // What recovery says is its own; here it is that this is no question.
    let files = remote.files();
    let node = &table.partitions[0].nodes[0];
    let answer = soon(files.call(node, Bytes::from_static(b"none"), LONG)).await.unwrap();
    assert!(!answer.is_empty());
    let nobody = soon(files.call("nobody", Bytes::from_static(b"none"), LONG)).await;
    assert!(matches!(nobody, Err(CallError::Lost(_))), "{nobody:?}");

    let mut held = beginnings(&table);
    let mut stream = soon(remote.records(held.clone())).await.unwrap();
    assert!(take(&mut *stream, &mut held, 8).await > 8 << 20);
    clusters.write(0, 8..9, 1).await;
    take(&mut *stream, &mut held, 1).await;
    clusters.stop().await;
    let ended = loop {
        if let Err(error) = soon(stream.next()).await {
            break error;
        }
    };
    assert!(matches!(ended, RemoteError::Unreachable(_)), "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_keep_their_kinds_and_a_stream_ends_with_its_key() {
    let clusters = Clusters::start().await;
    clusters.write(0, 0..3, 10).await;
    let remote = clusters.remote();
    let table = soon(remote.table("db0")).await.unwrap();
    let places = beginnings(&table);
    let begun = |places: Vec<FollowerPosition>| async {
        match soon(remote.records(places)).await {
            Ok(mut stream) => match soon(stream.next()).await {
                Ok(Told::Refused { error, .. }) => Some(error),
                _ => None,
            },
            Err(error) => Some(error),
        }
    };
    let mut forked = places.clone();
    forked[0].position.incarnation.0 ^= 1;
    let forked = begun(forked).await;
    assert!(matches!(forked, Some(RemoteError::Forked(_))), "{forked:?}");
    let twice = begun(vec![places[0], places[0]]).await;
    assert!(matches!(twice, Some(RemoteError::Refused(_))), "{twice:?}");
    // A table that is there, and not this key's.
    clusters.write(1, 0..1, 1).await;
    let theirs = clusters.node.leading().table("db1").await.unwrap().unwrap();
    let theirs = begun(beginnings(&theirs)).await;
    assert!(matches!(theirs, Some(RemoteError::NoTable(_))), "{theirs:?}");

    let mut stream = soon(remote.records(places)).await.unwrap();
    assert!(soon(stream.next()).await.is_ok());
    let name = Which { name: Some("follower".to_owned()), ..Which::default() };
    let done = clusters.keys.invalidate(&name, None, || Ok::<_, Error>(vec![])).await.unwrap();
    assert_eq!(done.now.len(), 1);
    let ended = loop {
        if let Err(error) = soon(stream.next()).await {
            break error;
        }
    };
    assert!(matches!(ended, RemoteError::Denied(_)), "{ended}");
    let denied = soon(remote.table("db0")).await;
    assert!(matches!(denied, Err(RemoteError::Denied(_) | RemoteError::Unreachable(_))));
    clusters.stop().await;
}
