//! Tests of the index of a partition over a node.

use plimsoll_storage::operation::{self as stored, Operation};
use serde_json::{Value, json};

use super::*;
use crate::documents::IndexBody;
use crate::replication::lead::Step;
use crate::replication::tables::Table;
use crate::{Coordinator, Node, NodeSettings};

/// A node with an empty index `i` of one partition.
struct OneIndex {
    dir: tempfile::TempDir,
    node: Node,
    table: Arc<Table>,
    partition: Arc<Partition>,
}

impl OneIndex {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let node = Node::open(&NodeSettings::alone(dir.path())).await.unwrap();
        let coordinator = node.coordinator();
        coordinator.documents().create_index("i", IndexBody::default()).await.unwrap();
        let table = coordinator.shared().tables.by_name("i").unwrap();
        let partition = table.copies()[0].local().unwrap();
        Self { dir, node, table, partition }
    }

    fn indexer(&self) -> &Indexer {
        indexer_of(&self.partition).unwrap()
    }

    fn coordinator(&self) -> Arc<Coordinator> {
        self.node.coordinator()
    }

    /// Writes a document that was checked against a version of the mapping.
    async fn write(&self, id: &str, source: &'static str, mapping_version: u64) {
        let id = Bytes::copy_from_slice(id.as_bytes());
        let write = stored::DocumentWrite {
            key: id.clone(),
            id,
            action: stored::Action::Index(Bytes::from_static(source.as_bytes())),
            condition: stored::Condition::None,
            mapping_version,
        };
        let steps = vec![Step::Write(Operation::Document(write).encode())];
        let coordinator = self.coordinator();
        let mut session = coordinator.session();
        let copies = &self.table.copies()[0];
        coordinator.shared().router.submit(copies, &mut session, steps).await.unwrap();
    }

    fn mapping_version(&self) -> u64 {
        self.table.index().unwrap().mapping_version
    }

    /// How many documents a search finds.
    async fn count(&self, request: &Value) -> Option<u64> {
        let request = plimsoll_index::search::SearchRequest::parse(request).unwrap();
        let index = self.table.index().unwrap();
        let coordinator = self.coordinator();
        let found = coordinator.documents().count(&[index], request, Default::default()).await;
        found.unwrap().total.map(|(total, _)| total)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_wait_for_the_mapping_that_they_were_checked_against() {
    let world = OneIndex::new().await;
    let indexer = world.indexer();
    let before = indexer.refresh().unwrap();
    let known = world.mapping_version();
    // As from a node that knows a later mapping.
    world.write("1", r#"{"n": 7}"#, known + 1).await;

    let refused = indexer.refresh().map(drop).unwrap_err();
    assert!(is_behind_mapping(&refused), "{refused:?}");
    assert_eq!(refused.class, plimsoll_index::ErrorClass::Unavailable);
    assert!(indexer.is_behind(Lsn(0)));
    assert!(Arc::ptr_eq(&indexer.view().unwrap(), &before), "searches go on as they were");

    let mapping = json!({ "properties": { "n": { "type": "long" } } });
    let index = world.coordinator().documents().put_mapping("i", &mapping).await.unwrap();
    assert_eq!(index.mapping_version, known + 1);
    indexer.refresh().unwrap();
    assert!(!indexer.is_behind(world.partition.applied()));
    let in_range = json!({ "query": { "range": { "n": { "gte": 7, "lte": 7 } } } });
    assert_eq!(world.count(&in_range).await, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_over_files_that_were_replaced_leaves_the_new_ones_alone() {
    let world = OneIndex::new().await;
    world.write("1", "{}", world.mapping_version()).await;
    let indexer = world.indexer();
    let rebuild = || {
        let damage = Fault::Index(IndexError::Corrupt("a test".to_owned()));
        indexer.recover(&mut indexer.work.lock(), damage);
        assert!(indexer.rebuilding().is_some());
        indexer.refresh().unwrap();
        indexer.persist().unwrap();
    };
    rebuild();
    assert!(indexer.rebuilding().is_none());
    let mut seen = 0;
    indexer.check_files(&mut |_| {
        seen += 1;
        if seen == 1 {
            rebuild();
        }
        true
    });
    assert!(seen > 0 && indexer.rebuilding().is_none(), "the new index is lost");
    let mut again = 0;
    indexer.check_files(&mut |_| {
        again += 1;
        true
    });
    assert!(again > seen, "all of its files are as they were written: {again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_is_being_built_is_not_given_to_others() {
    let world = OneIndex::new().await;
    let indexer = world.indexer();
    let linked = |name: &str| {
        let dir = world.dir.path().join(name);
        let mut rows = 0;
        let position = indexer.checkpoint(&dir, &mut || rows = 7);
        assert_eq!(rows, 7, "the rows are copied in any case");
        (position.is_some(), dir.exists())
    };
    indexer.refresh().unwrap();
    assert_eq!(linked("whole"), (true, true));
    let damage = Fault::Index(IndexError::Corrupt("a test".to_owned()));
    indexer.recover(&mut indexer.work.lock(), damage);
    assert_eq!(linked("damaged"), (false, false));
    indexer.refresh().unwrap();
    assert_eq!(linked("built"), (true, true));
    indexer.close();
    assert_eq!(linked("closed"), (false, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_could_not_be_opened_anew_lacks_nothing_later() {
    let world = OneIndex::new().await;
    let indexer = world.indexer();
    for round in 0..3 {
        world.write(&round.to_string(), "{}", world.mapping_version()).await;
        if round != 1 {
            indexer.refresh().unwrap();
            continue;
        }
        // No file can be written, nor opened, for a while.
        let aside = world.dir.path().join("aside");
        std::fs::rename(&indexer.dir, &aside).unwrap();
        std::fs::write(&indexer.dir, b"").unwrap();
        for _ in 0..2 {
            indexer.refresh().map(drop).unwrap_err();
            assert!(indexer.is_behind(Lsn(0)));
        }
        indexer.persist().unwrap_err();
        indexer.rest();
        assert!(indexer.statistics().is_none());
        std::fs::remove_file(&indexer.dir).unwrap();
        std::fs::rename(&aside, &indexer.dir).unwrap();
    }
    assert_eq!(world.count(&json!({})).await, Some(3));
}
