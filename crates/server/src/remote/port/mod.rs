//! The port for other clusters: followers ask here what they may know, and nothing else.
//!
//! Every connection is TLS ([`incoming`]), shows a key within seconds and goes when nobody asks
//! anything ([`connection`]). Every question shows the key anew, is read within limits and answered
//! for the tables of that key alone ([`service`]); a stream of records ends with its key
//! ([`streaming`]). Its limits are its own: a follower, however it
//! asks, uses up nothing that the cluster's own nodes need.
//!
//! What the cluster is and has, the port is handed as a [`Leader`]; keys, as [`Keys`].

mod connection;
mod incoming;
mod service;
mod shares;
mod streaming;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use plimsoll_cluster::Peers;
use plimsoll_cluster::following::{
    Asked, DifferenceAnswer, DifferenceAsk, FollowerPosition, Held, Hold, LeaderTable, Records,
    RemoteError,
};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::transport;

use super::protocol::{Answer, Ask, Hello, TABLES_MAX, TableInfo, Tables};
use crate::rpc::Threads;
use crate::security::keys::{Key, Keys};
use crate::tls::watched::Watched;

/// Questions under way at once, of all followers together; one more is refused.
const ANSWERS_MAX: usize = 64;
/// The same on one connection; more wait in the follower.
const STREAMS_MAX: u32 = 64;
/// How long a question may take, its reading included.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// The most bytes that the headers of a question have.
const HEADER_BYTES_MAX: u32 = 16 << 10;
/// What a question may have on its way without a word from here: it has no more in all.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
/// The same of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// How long a connection may be silent before the other side is asked whether it is there.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// How long it may take to say so.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long threads may take to end once their work has ended or was cut off.
const THREADS_PAUSE: Duration = Duration::from_millis(100);

/// What followers may ask of this cluster.
pub trait Leader: Send + Sync + 'static {
    /// The id of the node that answers here.
    fn own_node(&self) -> String;

    /// Where another node is asked by this one, if that has the port open too.
    fn peer(&self, node: &str) -> Option<String>;

    /// Who it is, and which of its nodes have the port open.
    fn hello(&self) -> Hello;

    /// All its tables, by name.
    fn tables(&self) -> Vec<TableInfo>;

    /// A table as its followers see it.
    fn table<'a>(&'a self, name: &'a str) -> Asked<'a, LeaderTable>;

    /// The same, and keeps its log for a follower from now on.
    fn follow(&self, hold: Hold) -> Asked<'_, LeaderTable>;

    /// Keeps the log for a follower.
    fn hold(&self, hold: Hold) -> Asked<'_, Held>;

    /// Answers a question of recovery, for the tables of a key.
    fn files<'a>(&'a self, key: &'a Key, question: Bytes) -> BoxFuture<'a, Bytes>;

    /// Says what differs from a copy, for the tables of a key.
    fn difference<'a>(&'a self, key: &'a Key, ask: DifferenceAsk) -> Asked<'a, DifferenceAnswer>;

    /// The names of the tables that places are of, by incarnation: of those that are there.
    fn names_of<'a>(&'a self, places: &'a [FollowerPosition]) -> Asked<'a, BTreeMap<u64, String>>;

    /// The records of partitions from where their followers stand. Dropping them ends it.
    fn records(&self, places: Vec<FollowerPosition>) -> Asked<'_, Box<dyn Records>>;
}

/// Answers a question for a key that holds. A table that the key may not follow is none.
///
/// # Errors
/// See [`RemoteError`].
pub async fn answer(ask: Ask, key: &Key, leader: &dyn Leader) -> Result<Answer, RemoteError> {
    Ok(match ask {
        Ask::Hello => Answer::Hello(leader.hello()),
        Ask::Tables { after } => {
            let mut tables = leader.tables();
            tables.retain(|table| table.name > after && key.may_follow(&table.name));
            let has_more = tables.len() > TABLES_MAX;
            tables.truncate(TABLES_MAX);
            Answer::Tables(Tables { tables, has_more })
        }
        Ask::Table { name } if !key.may_follow(&name) => return Err(no_table(&name)),
        Ask::Table { name } => Answer::Table(leader.table(&name).await?),
        Ask::Follow { hold } | Ask::Hold { hold } if !key.may_follow(&hold.name) => {
            return Err(no_table(&hold.name));
        }
        Ask::Follow { hold } => Answer::Table(leader.follow(of_key(hold, key)).await?),
        Ask::Hold { hold } => Answer::Held(leader.hold(of_key(hold, key)).await?),
        Ask::Files { question } => Answer::Files(leader.files(key, question).await),
        Ask::Difference { ask } => Answer::Difference(leader.difference(key, ask).await?),
    })
}

fn of_key(hold: Hold, key: &Key) -> Hold {
    Hold { key: key.id.clone(), ..hold }
}

/// What is said of a table that is not there, and of one that the key may not follow.
pub(super) fn no_table(name: &str) -> RemoteError {
    RemoteError::NoTable(format!("there is no table `{name}` that this key may follow"))
}

/// The port, and the threads that serve it.
pub struct Port {
    threads: Threads,
    stop: watch::Sender<bool>,
    served: JoinHandle<()>,
}

impl Port {
    /// Serves a port.
    ///
    /// # Errors
    /// Where the system has no room for the threads.
    pub fn start(
        listener: std::net::TcpListener,
        tls: Arc<Watched<ServerConfig>>,
        keys: Arc<Keys>,
        leader: Arc<dyn Leader>,
        peers: Arc<dyn Peers>,
    ) -> io::Result<Self> {
        let threads = Threads::start("remote-port")?;
        listener.set_nonblocking(true)?;
        let listener = {
            let _entered = threads.handle().enter();
            TcpListener::from_std(listener)?
        };
        let (stop, mut stopping) = watch::channel(false);
        let served = threads.handle().spawn(async move {
            let service = service::Service::new(keys, leader, peers, stopping.clone());
            let stopped = async move {
                let _ = stopping.wait_for(|stop| *stop).await;
            };
            let connections = incoming::incoming(listener, tls);
            let served = settings().serve_with_incoming_shutdown(service, connections, stopped);
            if let Err(error) = served.await {
                tracing::error!(%error, "other clusters are served no longer");
            }
        });
        Ok(Self { threads, stop, served })
    }

    /// Takes no more connections or questions; those under way are answered, and streams end.
    pub fn drain(&self) {
        self.stop.send_replace(true);
    }

    /// Drains, and cuts off what is not answered by `limit`. Blocks.
    pub fn stop(self, limit: Duration) {
        self.drain();
        let Self { threads, served, .. } = self;
        if threads.handle().block_on(async { timeout(limit, served).await }).is_err() {
            tracing::warn!("questions of other clusters were cut off: the time to drain is over");
        }
        threads.stop(THREADS_PAUSE);
    }
}

fn settings() -> transport::Server {
    transport::Server::builder()
        .timeout(ANSWER_TIME)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(STREAMS_MAX)
        .http2_max_header_list_size(HEADER_BYTES_MAX)
        .http2_keepalive_interval(Some(PING_INTERVAL))
        .http2_keepalive_timeout(Some(PING_TIMEOUT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::keys::{DRAWN_BYTES, KeySpec};

    struct Three;

    impl Leader for Three {
        fn own_node(&self) -> String {
            "n".to_owned()
        }

        fn peer(&self, _: &str) -> Option<String> {
            None
        }

        fn hello(&self) -> Hello {
            Hello { cluster_uuid: "u".to_owned(), ..Hello::default() }
        }

        fn tables(&self) -> Vec<TableInfo> {
            let many = (0..TABLES_MAX).map(|number| format!("many-{number:04}"));
            let names = ["a".to_owned(), "b".to_owned()].into_iter().chain(many);
            names.map(|name| TableInfo { name, ..TableInfo::default() }).collect()
        }

        fn table<'a>(&'a self, name: &'a str) -> Asked<'a, LeaderTable> {
            let name = name.to_owned();
            Box::pin(async { Ok(LeaderTable { name, ..LeaderTable::default() }) })
        }

        fn follow(&self, hold: Hold) -> Asked<'_, LeaderTable> {
            let name = hold.name;
            Box::pin(async { Ok(LeaderTable { name, ..LeaderTable::default() }) })
        }

        fn hold(&self, hold: Hold) -> Asked<'_, Held> {
            Box::pin(async move { Ok(Held { positions: vec![hold.table], is_dropped: false }) })
        }

        fn files<'a>(&'a self, _: &'a Key, question: Bytes) -> BoxFuture<'a, Bytes> {
            Box::pin(async { question })
        }

        fn difference<'a>(&'a self, _: &'a Key, _: DifferenceAsk) -> Asked<'a, DifferenceAnswer> {
            Box::pin(async { Ok(DifferenceAnswer::Closed) })
        }

        fn names_of<'a>(&'a self, _: &'a [FollowerPosition]) -> Asked<'a, BTreeMap<u64, String>> {
            Box::pin(async { Ok([(7, "a".to_owned())].into()) })
        }

        fn records(&self, _: Vec<FollowerPosition>) -> Asked<'_, Box<dyn Records>> {
            Box::pin(async { Err(RemoteError::Trimmed("all of it".to_owned())) })
        }
    }

    fn key(patterns: &[&str]) -> Key {
        let patterns = patterns.iter().map(|it| (*it).to_owned()).collect();
        let spec = KeySpec { name: "x".to_owned(), patterns, ..KeySpec::default() };
        Key::make(spec, &[0; DRAWN_BYTES], 0).0
    }

    fn asked(ask: Ask, key: &Key) -> Result<Answer, RemoteError> {
        // Nothing of these waits.
        futures_util::FutureExt::now_or_never(answer(ask, key, &Three)).unwrap()
    }

    fn names(patterns: &[&str], after: &str) -> (Vec<String>, bool) {
        match asked(Ask::Tables { after: after.to_owned() }, &key(patterns)) {
            Ok(Answer::Tables(it)) => {
                (it.tables.into_iter().map(|it| it.name).collect(), it.has_more)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_table_that_the_key_may_not_follow_is_none() {
        let key = key(&["a"]);
        let hold = |name: &str| Hold { name: name.to_owned(), table: 7, ..Hold::default() };
        let table = asked(Ask::Table { name: "a".to_owned() }, &key);
        assert!(matches!(table, Ok(Answer::Table(it)) if it.name == "a"));
        let held = asked(Ask::Hold { hold: hold("a") }, &key);
        assert_eq!(held, Ok(Answer::Held(Held { positions: vec![7], is_dropped: false })));
        let followed = asked(Ask::Follow { hold: hold("a") }, &key);
        assert!(matches!(followed, Ok(Answer::Table(it)) if it.name == "a"));
        for refused in [
            asked(Ask::Table { name: "b".to_owned() }, &key),
            asked(Ask::Follow { hold: hold("b") }, &key),
            asked(Ask::Hold { hold: hold("b") }, &key),
        ] {
            assert_eq!(refused, Err(no_table("b")));
        }
    }

    #[test]
    fn a_key_is_shown_its_own_tables_page_by_page() {
        assert_eq!(names(&["b", "none"], ""), (vec!["b".to_owned()], false));
        assert_eq!(names(&["x*"], ""), (vec![], false));
        let (page, has_more) = names(&["*"], "");
        assert!(has_more && page.len() == TABLES_MAX && page[0] == "a");
        let (rest, has_more) = names(&["*"], page.last().unwrap());
        assert_eq!((rest.len(), has_more), (2, false));
    }
}
