//! Tests of copies whose index comes along, from a real node: the index of a copy has what the rows
//! of the copy have, whatever the source was doing, and takes in no document that it has already.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_index::search::{Cancelled, SearchRequest, query_phase};
use plimsoll_log::Lsn;
use plimsoll_storage::execute::{self, DocumentsCursor};
use plimsoll_storage::operation::{Action, Condition, DocumentWrite};
use plimsoll_storage::partition::touches_of;
use serde_json::{Map, Value, json};

use super::*;
use crate::documents::{IndexBody, Indexer, indexer_of};
use crate::metadata::index::IndexMetadata;
use crate::replication::index::DocumentsIndex;
use crate::replication::lead::Step;
use crate::replication::partition::Partition;
use crate::wire::{CopyListing, FileKind, PartitionName};
use crate::{Coordinator, Node, NodeSettings};

/// More than there ever are.
const DOCUMENTS_MAX: usize = 5000;

/// A node with an index of one partition.
struct Documents {
    coordinator: Arc<Coordinator>,
    partition: Arc<Partition>,
    metadata: Arc<IndexMetadata>,
    _node: Node,
    _dir: tempfile::TempDir,
}

/// The way to a node in this process.
struct Way(Arc<Coordinator>);

impl Peers for Way {
    fn call(&self, _: &str, question: Bytes, _: Duration) -> Call {
        let coordinator = Arc::clone(&self.0);
        Box::pin(async move { Ok(coordinator.answer(question, None).await) })
    }
}

impl Documents {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let node = Node::open(&NodeSettings::alone(dir.path())).await.unwrap();
        let coordinator = node.coordinator();
        let mappings = json!({ "properties": { "tag": { "type": "keyword" } } });
        let setting = |name: &str, value: Value| (name.to_owned(), value);
        // Refreshed by the test, and every ten seconds.
        let settings = [
            setting("index.number_of_shards", json!(1)),
            setting("index.refresh_interval", json!("-1")),
        ];
        let settings: Map<String, Value> = settings.into_iter().collect();
        let body = IndexBody { settings, mappings, ..IndexBody::default() };
        coordinator.documents().create_index("i", body).await.unwrap();
        let table = coordinator.shared().tables.by_name("i").unwrap();
        let partition = table.copies()[0].local().unwrap();
        let metadata = table.index().unwrap();
        Self { coordinator, partition, metadata, _node: node, _dir: dir }
    }

    fn indexer(&self) -> &Indexer {
        indexer_of(&self.partition).unwrap()
    }

    /// Puts documents of these numbers, or deletes them where there is no tag.
    async fn write(&self, numbers: impl Iterator<Item = usize>, tag: Option<&str>) {
        let steps = numbers.map(|number| {
            let id = Bytes::from(number.to_string());
            let action = match tag {
                Some(tag) => {
                    let source = json!({ "tag": format!("{number} {tag}") });
                    Action::Index(source.to_string().into())
                }
                None => Action::Delete,
            };
            let (key, condition) = (id.clone(), Condition::None);
            let mapping_version = self.metadata.mapping_version;
            let write = DocumentWrite { key, id, action, condition, mapping_version };
            Step::Write(Operation::Document(write).encode())
        });
        let table = self.coordinator.shared().tables.by_name("i").unwrap();
        let mut session = self.coordinator.session();
        let written = self.coordinator.shared().router.submit(
            &table.copies()[0],
            &mut session,
            steps.collect(),
        );
        written.await.unwrap();
    }

    fn cluster(&self) -> Incarnation {
        self.coordinator.shared().replication.log.incarnation()
    }

    fn link(&self, from: &str) -> Link {
        let peers: Arc<dyn Peers> = Arc::new(Way(Arc::clone(&self.coordinator)));
        Link::new(peers, (from, "source:1"), self.cluster(), Time::of_the_machine())
    }

    async fn ask(&self, from: &str, question: Question) -> Reply {
        self.link(from).ask(question, Duration::from_secs(60), 0).await.unwrap()
    }

    async fn copy(&self) -> CopyOf {
        let dir = tempfile::tempdir().unwrap();
        let id = self.partition.id;
        let folders = Folders::of(&Disk::of_the_machine(), dir.path(), id);
        let (link, cluster) = (self.link("target"), self.cluster());
        let recovery =
            Recoveries::new("target", &World::of_the_machine()).begin(id, "source").unwrap();
        let copied = copy(&link, id, &folders, &small_chunks(), &recovery).await.unwrap();
        let indexed = copied.indexed();
        copied.install(&resources(), cluster, true).unwrap();
        let begin = Chain::new(cluster).position();
        let replica = Replica::open(id, &folders.replica, &resources(), cluster, begin).unwrap();
        CopyOf { _dir: dir, folders, replica, indexed, metadata: Arc::clone(&self.metadata) }
    }
}

fn small_chunks() -> CopyOptions {
    CopyOptions { chunk_bytes_max: 50_000, ..CopyOptions::default() }
}

/// A copy that was installed.
struct CopyOf {
    _dir: tempfile::TempDir,
    folders: Folders,
    replica: Replica,
    indexed: Option<Lsn>,
    metadata: Arc<IndexMetadata>,
}

/// What the index of a copy has, and how it came there.
struct Found {
    tags: BTreeSet<String>,
    /// Documents that were taken in here.
    taken_in: u64,
    was_rebuilt: bool,
}

impl CopyOf {
    /// Opens the index as a node does, and has it take in what it lacks.
    fn index(&self) -> Found {
        let (id, store) = (self.replica.id(), self.replica.store());
        let indexer =
            Indexer::open(&World::of_the_machine(), &self.folders.index, id, store, &self.metadata)
                .unwrap();
        let was_rebuilt = indexer.rebuilding().is_some();
        let view = indexer.refresh().unwrap();
        let request = json!({ "size": DOCUMENTS_MAX, "sort": [{ "tag": "asc" }] });
        let request = SearchRequest::parse(&request).unwrap();
        let found = query_phase(&view.searcher, &request, 0, &Cancelled::never()).unwrap();
        let all = found.hits.len();
        let tags: BTreeSet<String> =
            found.hits.into_iter().map(|hit| format!("{:?}", hit.sort)).collect();
        assert_eq!(tags.len(), all, "no document is there twice");
        let taken_in = indexer.counters.documents.load(Ordering::Relaxed);
        Found { tags, taken_in, was_rebuilt }
    }

    /// What the rows of the copy have, in the same form.
    fn rows(&self) -> BTreeSet<String> {
        let mut tags = BTreeSet::new();
        let rows = self.replica.store().owned_snapshot().unwrap();
        let (from, all) = (DocumentsCursor::default(), usize::MAX);
        execute::documents(&rows, &from, all, all, 0, &mut |_, _, document| {
            let source: Value = serde_json::from_slice(document.source).unwrap();
            let tag = source["tag"].as_str().unwrap().to_owned();
            tags.insert(format!("{:?}", [plimsoll_index::search::SortValue::Text(tag)]));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        tags
    }

    /// How many documents were touched that the index which came along does not have.
    fn touched(&self) -> u64 {
        let rows = self.replica.store().owned_snapshot().unwrap();
        let mut touched = BTreeMap::new();
        touches_of(&rows, self.indexed.unwrap(), &mut |lsn, touches| {
            touched.insert(lsn, touches.iter().count() as u64);
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        touched.values().sum()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_has_the_index_of_its_source_and_takes_in_what_came_after_it_alone() {
    let source = Documents::new().await;
    source.write(0..200, Some("first")).await;
    source.indexer().refresh().unwrap();
    source.indexer().persist().unwrap();
    // In the index, not durable; and in the rows alone.
    source.write(200..220, Some("second")).await;
    source.write(0..5, None).await;
    source.indexer().refresh().unwrap();
    source.write(220..230, Some("third")).await;
    source.write(5..9, None).await;
    source.write(9..12, Some("again")).await;
    let copy = source.copy().await;
    assert!(copy.indexed.is_some() && copy.folders.index.join("meta.json").exists());
    let touched = copy.touched();
    assert!(touched <= 17, "the source's index was behind by no more: {touched}");
    let found = copy.index();
    assert_eq!((found.taken_in, found.was_rebuilt), (touched, false));
    assert_eq!((found.tags.len(), &found.tags), (221, &copy.rows()));
    // What it has taken in is as durable and as known as elsewhere.
    assert_eq!(copy.index().tags, found.tags);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_made_while_documents_are_written_indexed_and_forgotten_is_whole() {
    let source = Arc::new(Documents::new().await);
    source.write(0..300, Some("first")).await;
    source.indexer().refresh().unwrap();
    let is_over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writer = tokio::spawn({
        let (source, is_over) = (Arc::clone(&source), Arc::clone(&is_over));
        async move {
            let mut round = 0;
            while !is_over.load(Ordering::Relaxed) {
                round += 1;
                let begin = 300 + 10 * (round % 100);
                source.write(begin..begin + 10, Some(&round.to_string())).await;
                source.write(round % 300..round % 300 + 1, None).await;
            }
            round
        }
    });
    let indexing = std::thread::spawn({
        let (source, is_over) = (Arc::clone(&source), Arc::clone(&is_over));
        move || {
            while !is_over.load(Ordering::Relaxed) {
                source.indexer().refresh().unwrap();
                source.indexer().persist().unwrap();
            }
        }
    });
    let mut positions = BTreeSet::new();
    for _ in 0..8 {
        let copy = source.copy().await;
        positions.insert(copy.indexed.unwrap());
        let touched = copy.touched();
        let found = copy.index();
        assert_eq!(found.tags, copy.rows());
        assert!(found.taken_in <= touched && !found.was_rebuilt, "{} {touched}", found.taken_in);
    }
    is_over.store(true, Ordering::Relaxed);
    assert!(writer.await.unwrap() > 8);
    indexing.join().unwrap();
    assert!(positions.len() > 4, "the source went on: {positions:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_is_damaged_on_its_way_or_gone_is_built_from_the_rows() {
    let source = Documents::new().await;
    source.write(0..100, Some("first")).await;
    source.indexer().refresh().unwrap();
    for is_gone in [false, true] {
        let copy = source.copy().await;
        if is_gone {
            std::fs::remove_dir_all(&copy.folders.index).unwrap();
        } else {
            let largest = files(&copy.folders.index).into_iter().max_by_key(|(_, it)| it.0);
            let (path, _) = largest.unwrap();
            let mut bytes = std::fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, bytes).unwrap();
        }
        let found = copy.index();
        // Of one that is gone nobody can say that it was there.
        assert_eq!((found.taken_in, found.was_rebuilt), (100, !is_gone));
        assert_eq!(found.tags, copy.rows());
    }
}

async fn listing(source: &Documents, from: &str) -> CopyListing {
    let partition = PartitionName::from(source.partition.id);
    match source.ask(from, Question::OpenCopy { partition }).await {
        Reply::Copy { listing, .. } => listing,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_is_closed_stays_and_an_older_node_is_given_rows_alone() {
    let source = Documents::new().await;
    source.write(0..10, Some("first")).await;
    source.indexer().refresh().unwrap();
    let count = |it: &CopyListing, kind| it.files.iter().filter(|it| it.kind == kind).count();
    let whole = listing(&source, "b").await;
    assert!(whole.indexed.is_some() && count(&whole, FileKind::Index) > 1, "{whole:?}");
    let partition = PartitionName::from(source.partition.id);
    let plain = source.ask("b", Question::OpenCheckpoint { partition }).await;
    let Reply::Checkpoint { listing: plain, .. } = plain else { panic!("{plain:?}") };
    assert_eq!(plain.files.len(), count(&whole, FileKind::Rows));
    source.indexer().close();
    let rows_alone = listing(&source, "c").await;
    assert_eq!((rows_alone.indexed, count(&rows_alone, FileKind::Index)), (None, 0));
}
