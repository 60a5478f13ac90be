//! Tests of documents over a node: indices, writes and their conditions, rows that are documents,
//! restarts.

#![expect(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use plimsoll_cluster::{
    Condition, Coordinator, IndexBody, IndexMetadata, Node, NodeSettings, Request, WriteKind,
    WriteRequest, WriteResult,
};
use plimsoll_storage::{Argv, Reply};
use serde_json::{Map, json};

async fn open(dir: &Path) -> Node {
    Node::open(&NodeSettings::alone(dir)).await.unwrap()
}

fn write(id: &str, action: WriteKind, source: &'static str) -> WriteRequest {
    let source = Bytes::from_static(source.as_bytes());
    let (id, routing) = (id.to_owned(), None);
    WriteRequest { id, routing, action, source, condition: Condition::None }
}

async fn create(coordinator: &Coordinator, name: &str, shards: u32) -> Arc<IndexMetadata> {
    let mut settings = Map::new();
    settings.insert("index.number_of_shards".to_owned(), json!(shards));
    let mappings = json!({ "properties": { "n": { "type": "long" } } });
    let body = IndexBody { settings, mappings, ..IndexBody::default() };
    coordinator.documents().create_index(name, body).await.unwrap()
}

async fn ask(coordinator: &Coordinator, words: &[&[u8]]) -> Reply {
    let mut replies = Vec::new();
    let requests = [Request::Command(Argv::of(words))];
    coordinator.execute(&mut coordinator.session(), 0, &requests, &mut replies).await;
    replies.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_written_read_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path()).await;
    let coordinator = node.coordinator();
    let index = create(&coordinator, "g", 3).await;
    assert_eq!((index.partitions, index.uuid.len()), (3, 22));
    let writes = vec![
        write("1", WriteKind::Index, r#"{"n": 1}"#),
        write("1", WriteKind::Index, r#"{"n": 2}"#),
        write("1", WriteKind::Create, r#"{"n": 3}"#),
        write("2", WriteKind::Create, r#"{"n": "x"}"#),
        write("3", WriteKind::Delete, ""),
        write("4", WriteKind::Index, r#"{"new": "field"}"#),
    ];
    let outcomes = coordinator.documents().write_documents(&index, writes).await;
    let done = |at: usize| outcomes[at].as_ref().unwrap();
    assert_eq!((done(0).result, done(0).version), (WriteResult::Created, 1));
    assert_eq!((done(1).result, done(1).version), (WriteResult::Updated, 2));
    let conflict = outcomes[2].as_ref().unwrap_err();
    assert_eq!(conflict.class, plimsoll_index::ErrorClass::Conflict);
    assert!(
        conflict.reason.contains("document already exists (current version [2])"),
        "{conflict}"
    );
    assert_eq!(outcomes[3].as_ref().unwrap_err().kind, "mapper_parsing_exception");
    assert_eq!((done(4).result, done(4).version), (WriteResult::NotFound, 1));
    let index = coordinator.documents().index("g").unwrap();
    assert!(index.mapping.field("new").is_some(), "the mapping grew");
    coordinator.documents().refresh(&index, None).await.unwrap();
    drop(coordinator);
    node.close().await;

    let node = open(dir.path()).await;
    let coordinator = node.coordinator();
    let index = coordinator.documents().index("g").unwrap();
    let found =
        coordinator.documents().get_document(&index, "1", None, true).await.unwrap().unwrap();
    assert_eq!((&found.source[..], found.version), (br#"{"n": 2}"#.as_slice(), 2));
    assert!(
        coordinator.documents().get_document(&index, "2", None, false).await.unwrap().is_none()
    );
    assert!(index.mapping.field("new").is_some());
    coordinator.documents().delete_index("g").await.unwrap();
    assert!(coordinator.documents().index("g").is_none());
    let entries = std::fs::read_dir(dir.path().join("partitions")).unwrap().count();
    assert_eq!(entries, 1, "the metadata's alone");
    // The name is free again, and nothing of the old index is in the new.
    let index = create(&coordinator, "g", 1).await;
    assert!(coordinator.documents().get_document(&index, "1", None, true).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_a_mapped_table_is_a_document() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path()).await;
    let coordinator = node.coordinator();
    assert_eq!(ask(&coordinator, &[b"SET", b"early", br#"{"n":1}"#]).await, Reply::OK);
    ask(&coordinator, &[b"HSET", b"x", b"x", br#"{"other":"words"}"#]).await;
    let index = create(&coordinator, "db0", 1).await;
    assert!(index.mapping.field("other").is_some(), "the mapping takes in what rows hold");
    ask(&coordinator, &[b"HSET", b"a", b"a", br#"{"n":2}"#]).await;
    ask(&coordinator, &[b"HSET", b"r", b"b", br#"{"n":3}"#]).await;
    for (id, routing, source) in
        [("early", None, r#"{"n":1}"#), ("a", None, r#"{"n":2}"#), ("b", Some("r"), r#"{"n":3}"#)]
    {
        let found =
            coordinator.documents().get_document(&index, id, routing, true).await.unwrap().unwrap();
        assert_eq!(&found.source[..], source.as_bytes());
    }
    let outcomes = coordinator
        .documents()
        .write_documents(&index, vec![write("z", WriteKind::Index, r#"{"n":9}"#)])
        .await;
    assert!(outcomes[0].is_ok());
    assert_eq!(
        ask(&coordinator, &[b"HGET", b"z", b"z"]).await,
        Reply::bulk(br#"{"n":9}"#.to_vec())
    );
    let refused = ask(&coordinator, &[b"SET", b"bad", br#"{"n":"x"}"#]).await;
    assert!(matches!(&refused, Reply::Error(error) if error.message.contains("mapper_parsing")));
    assert_eq!(ask(&coordinator, &[b"SET", b"plain", b"text"]).await, Reply::OK);
    coordinator.documents().refresh(&index, None).await.unwrap();
    assert_eq!(
        coordinator.documents().delete_index("db0").await.unwrap_err().class,
        plimsoll_index::ErrorClass::Invalid
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_wrongly_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path()).await;
    let coordinator = node.coordinator();
    create(&coordinator, "a", 1).await;
    let again = coordinator.documents().create_index("a", IndexBody::default()).await.unwrap_err();
    assert_eq!(again.kind, "resource_already_exists_exception");
    let wrong = coordinator.documents().create_index("A", IndexBody::default()).await.unwrap_err();
    assert_eq!(wrong.kind, "invalid_index_name_exception");
    assert_eq!(
        coordinator.documents().delete_index("b").await.unwrap_err().kind,
        "index_not_found_exception"
    );
    let mut settings = Map::new();
    settings.insert("index.number_of_shards".to_owned(), json!(0));
    let none = IndexBody { settings, ..IndexBody::default() };
    assert_eq!(
        coordinator.documents().create_index("c", none).await.unwrap_err().class,
        plimsoll_index::ErrorClass::Invalid
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_follows_the_settings_is_told_before_a_change_is_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path()).await;
    let coordinator = node.coordinator();
    let store = async |kind: &str, value| coordinator.store("settings", kind, value).await.unwrap();
    store("persistent", Some(json!({ "a.b": "1", "a.c": "2" }))).await;
    let told: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
    let follower = Arc::clone(&told);
    coordinator.follow_settings(Box::new(move |set| follower.lock().unwrap().clone_from(set)));
    let last = || {
        let told = told.lock().unwrap();
        told.iter().map(|(name, text)| format!("{name}={text}")).collect::<Vec<_>>()
    };
    assert_eq!(last(), ["a.b=1", "a.c=2"], "those that there are at once");
    store("transient", Some(json!({ "a.b": 3, "a.d": true }))).await;
    assert_eq!(last(), ["a.b=3", "a.c=2", "a.d=true"], "what is transient goes over the rest");
    assert_eq!(coordinator.cluster_setting("a.b").as_deref(), Some("3"));
    store("transient", None).await;
    assert_eq!(last(), ["a.b=1", "a.c=2"]);
    assert_eq!(coordinator.cluster_setting("a.d"), None);
    drop(coordinator);
    node.close().await;
}
