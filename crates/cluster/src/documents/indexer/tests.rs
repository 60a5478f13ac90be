//! Tests of the index of a partition over a node.

use plimsoll_storage::operation::{self as stored, Operation};
use serde_json::json;

use super::*;
use crate::documents::IndexBody;
use crate::replication::lead::Step;
use crate::{Node, NodeSettings};

#[tokio::test(flavor = "multi_thread")]
async fn documents_wait_for_the_mapping_that_they_were_checked_against() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(&NodeSettings::alone(dir.path())).await.unwrap();
    let coordinator = node.coordinator();
    coordinator.documents().create_index("i", IndexBody::default()).await.unwrap();
    let table = coordinator.shared().tables.by_name("i").unwrap();
    let partition = table.copies()[0].local().unwrap();
    let indexer = indexer_of(&partition).unwrap();
    let before = indexer.refresh().unwrap();
    let known = table.index().unwrap().mapping_version;

    // As from a node that knows a later mapping.
    let write = stored::DocumentWrite {
        key: Bytes::from_static(b"1"),
        id: Bytes::from_static(b"1"),
        action: stored::Action::Index(Bytes::from_static(br#"{"n": 7}"#)),
        condition: stored::Condition::None,
        mapping_version: known + 1,
    };
    let steps = vec![Step::Write(Operation::Document(write).encode())];
    let mut session = coordinator.session();
    coordinator.shared().router.submit(&table.copies()[0], &mut session, steps).await.unwrap();

    let refused = indexer.refresh().map(drop).unwrap_err();
    assert!(is_behind_mapping(&refused), "{refused:?}");
    assert_eq!(refused.class, plimsoll_index::ErrorClass::Unavailable);
    assert!(indexer.is_behind(Lsn(0)));
    assert!(Arc::ptr_eq(&indexer.view().unwrap(), &before), "searches go on as they were");

    let mapping = json!({ "properties": { "n": { "type": "long" } } });
    let index = coordinator.documents().put_mapping("i", &mapping).await.unwrap();
    assert_eq!(index.mapping_version, known + 1);
    indexer.refresh().unwrap();
    assert!(!indexer.is_behind(partition.applied()));
    let request = json!({ "query": { "range": { "n": { "gte": 7, "lte": 7 } } } });
    let request = plimsoll_index::search::SearchRequest::parse(&request).unwrap();
    let found = coordinator.documents().count(&[index], request, Default::default()).await;
    assert_eq!(found.unwrap().total.map(|(total, _)| total), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_over_files_that_were_replaced_leaves_the_new_ones_alone() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(&NodeSettings::alone(dir.path())).await.unwrap();
    let coordinator = node.coordinator();
    coordinator.documents().create_index("i", IndexBody::default()).await.unwrap();
    let table = coordinator.shared().tables.by_name("i").unwrap();
    let partition = table.copies()[0].local().unwrap();
    let write = stored::DocumentWrite {
        key: Bytes::from_static(b"1"),
        id: Bytes::from_static(b"1"),
        action: stored::Action::Index(Bytes::from_static(b"{}")),
        condition: stored::Condition::None,
        mapping_version: table.index().unwrap().mapping_version,
    };
    let steps = vec![Step::Write(Operation::Document(write).encode())];
    let mut session = coordinator.session();
    coordinator.shared().router.submit(&table.copies()[0], &mut session, steps).await.unwrap();
    let indexer = indexer_of(&partition).unwrap();
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
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(&NodeSettings::alone(dir.path())).await.unwrap();
    let coordinator = node.coordinator();
    coordinator.documents().create_index("i", IndexBody::default()).await.unwrap();
    let table = coordinator.shared().tables.by_name("i").unwrap();
    let partition = table.copies()[0].local().unwrap();
    let indexer = indexer_of(&partition).unwrap();
    let linked = |name: &str| {
        let dir = dir.path().join(name);
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
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(&NodeSettings::alone(dir.path())).await.unwrap();
    let coordinator = node.coordinator();
    coordinator.documents().create_index("i", IndexBody::default()).await.unwrap();
    let table = coordinator.shared().tables.by_name("i").unwrap();
    let partition = table.copies()[0].local().unwrap();
    let indexer = indexer_of(&partition).unwrap();
    let mut session = coordinator.session();
    for round in 0..3 {
        let id = Bytes::from(round.to_string());
        let write = stored::DocumentWrite {
            key: id.clone(),
            id,
            action: stored::Action::Index(Bytes::from_static(b"{}")),
            condition: stored::Condition::None,
            mapping_version: table.index().unwrap().mapping_version,
        };
        let steps = vec![Step::Write(Operation::Document(write).encode())];
        coordinator.shared().router.submit(&table.copies()[0], &mut session, steps).await.unwrap();
        if round != 1 {
            indexer.refresh().unwrap();
            continue;
        }
        // No file can be written, nor opened, for a while.
        let aside = dir.path().join("aside");
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
    let request = plimsoll_index::search::SearchRequest::parse(&json!({})).unwrap();
    let index = table.index().unwrap();
    let found = coordinator.documents().count(&[index], request, Default::default()).await;
    assert_eq!(found.unwrap().total.map(|(total, _)| total), Some(3));
}
