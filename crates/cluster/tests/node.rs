//! A whole node without a network: what is answered is there after it opens again.

#![expect(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use std::path::Path;
use std::sync::Arc;

use plimsoll_cluster::{ClientSession, Coordinator, Node, NodeSettings, Request};
use plimsoll_storage::{Argv, ErrorKind, Reply};
use tokio::runtime::{Builder, Runtime};

fn open(dir: &Path, database_partitions: u32) -> Node {
    let settings = NodeSettings { database_partitions, ..NodeSettings::alone(dir) };
    runtime().block_on(Node::open(&settings)).unwrap()
}

fn close(node: Node) {
    runtime().block_on(node.close());
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

struct Client {
    coordinator: Arc<Coordinator>,
    session: ClientSession,
    runtime: Runtime,
}

impl Client {
    fn of(node: &Node) -> Self {
        let coordinator = node.coordinator();
        let session = coordinator.session();
        Self { coordinator, session, runtime: runtime() }
    }

    /// One pipeline: commands separated by `;`.
    fn run(&mut self, pipeline: &str) -> Vec<Reply> {
        let requests: Vec<Request> =
            pipeline.split("; ").map(|line| Request::Command(argv(line))).collect();
        self.run_requests(&requests)
    }

    fn run_requests(&mut self, requests: &[Request]) -> Vec<Reply> {
        let mut replies = Vec::new();
        let run = self.coordinator.execute(&mut self.session, 0, requests, &mut replies);
        self.runtime.block_on(run);
        replies
    }
}

fn argv(line: &str) -> Argv {
    let parts: Vec<&str> = line.split(' ').collect();
    Argv::of(&parts)
}

fn bulk(text: &str) -> Reply {
    Reply::bulk(text.as_bytes().to_vec())
}

#[test]
fn answers_a_pipeline_in_order_with_reads_between_writes() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), 1);
    let mut client = Client::of(&node);
    let replies = client.run("GET a; SET a 1; GET a; INCR a; GET a; DBSIZE; NOPE; DEL a; GET a");
    let error = replies[6].clone();
    assert!(matches!(error, Reply::Error(_)), "{error:?}");
    let expected = [
        Reply::Nil,
        Reply::OK,
        bulk("1"),
        Reply::Integer(2),
        bulk("2"),
        Reply::Integer(1),
        error,
        Reply::Integer(1),
        Reply::Nil,
    ];
    assert_eq!(replies, expected);
    close(node);
}

#[test]
fn keeps_what_it_answered_over_a_close_and_over_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    for round in 1..=4i64 {
        let node = open(dir.path(), 1);
        let mut client = Client::of(&node);
        let replies = client.run("INCR rounds; HSET h f v; EXISTS rounds h none");
        assert_eq!(replies[0], Reply::Integer(round));
        assert_eq!(replies[2], Reply::Integer(2));
        if round % 2 == 0 {
            close(node);
        } else {
            // Nothing is flushed: the rows come back from the log.
            drop(client);
            drop(node);
        }
    }
}

#[test]
fn a_transaction_runs_only_where_nothing_watched_has_changed() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), 1);
    let mut client = Client::of(&node);
    client.run("SET a 1");
    let watch = client.coordinator.watch(0, "a".into());
    let watched = client.runtime.block_on(watch).unwrap();
    let transaction = |commands: &[&str]| Request::Transaction {
        watched: vec![watched.clone()],
        commands: commands.iter().map(|line| argv(line)).collect(),
    };
    let replies = client.run_requests(&[transaction(&["INCR a", "INCR b"])]);
    assert_eq!(replies, [Reply::Array(vec![Reply::Integer(2), Reply::Integer(1)])]);
    let replies = client.run_requests(&[transaction(&["INCR a", "INCR b"])]);
    assert_eq!(replies, [Reply::NilArray]);
    assert_eq!(client.run("GET b"), [bulk("1")]);
    close(node);
}

#[test]
fn commands_over_several_partitions_answer_as_over_one() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), 7);
    let mut client = Client::of(&node);
    let mut set = "MSET".to_owned();
    for key in 0..100 {
        set += &format!(" k{key} {key}");
    }
    assert_eq!(client.run(&set), [Reply::OK]);
    assert_eq!(client.run("DBSIZE"), [Reply::Integer(100)]);
    assert_eq!(
        client.run("MGET k1 none k99 k1")[0],
        Reply::Array(vec![bulk("1"), Reply::Nil, bulk("99"), bulk("1")])
    );
    assert_eq!(client.run("EXISTS k1 k2 none k3 k1"), [Reply::Integer(4)]);
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    loop {
        let Some(Reply::Array(page)) = client.run(&format!("SCAN {cursor} COUNT 7")).pop() else {
            panic!()
        };
        let [Reply::Bulk(next), Reply::Array(keys)] = &page[..] else { panic!("{page:?}") };
        found.extend(keys.iter().map(|key| format!("{key:?}")));
        cursor = String::from_utf8(next.to_vec()).unwrap();
        if cursor == "0" {
            break;
        }
    }
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 100);
    let crossed = client.run("MSETNX k1 a k2 b k3 c k4 d")[0].clone();
    assert!(
        matches!(&crossed, Reply::Error(error) if error.kind == ErrorKind::CrossesPartitions),
        "{crossed:?}"
    );
    assert_eq!(client.run("MSETNX {t}1 a {t}2 b"), [Reply::Integer(1)]);
    assert_eq!(client.run("DEL k1 k2 k3 none"), [Reply::Integer(3)]);
    assert_eq!(client.run("FLUSHDB; DBSIZE"), [Reply::OK, Reply::Integer(0)]);
    close(node);
}

#[test]
fn a_folder_has_one_node() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), 1);
    let second = runtime().block_on(Node::open(&NodeSettings::alone(dir.path())));
    assert!(second.is_err());
    close(node);
}
