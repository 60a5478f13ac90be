//! The metadata: which tables and nodes there are. It is rows like any other (one partition, in a log group
//! of its own), so that creating a table is a conditional write evaluated at apply: of several
//! creations of one name the first in the log wins.

pub mod default_expiry;
pub(crate) mod error;
pub(crate) mod follows;
pub(crate) mod index;
pub(crate) mod members;
pub(crate) mod placement;
pub(crate) mod reports;
pub(crate) mod setting;
pub(crate) mod table;
pub(crate) mod trim_notes;
pub(crate) mod version;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use plimsoll_log::{GroupId, PartitionId};
use plimsoll_storage::execute::{self, ReadContext, Seed};
use plimsoll_storage::operation::Operation;
use plimsoll_storage::partition::Store;
use plimsoll_storage::{Argv, Reply, command};
use serde_json::Value;

use crate::DATABASES;
use crate::metadata::error::MetadataError;
use crate::metadata::members::{Beat, FoundNode, Member, NodeRecord};
use crate::metadata::reports::Reports;
use crate::metadata::table::TableDefinition;
use crate::metadata::trim_notes::TrimNote;

/// The rows that the metadata is, as its copy on this node has them.
pub(crate) trait MetadataRows {
    /// The rows.
    fn store(&self) -> &Store;
    /// What is expired now, ms since 1970.
    fn read_time_ms(&self) -> u64;
}

impl<T: MetadataRows> MetadataRows for Arc<T> {
    fn store(&self) -> &Store {
        T::store(self)
    }

    fn read_time_ms(&self) -> u64 {
        T::read_time_ms(self)
    }
}

/// The metadata's partition.
pub(crate) const PARTITION: PartitionId = PartitionId { table: 0, ordinal: 0 };
/// The metadata's log group; partitions of tables are in those after it.
pub(crate) const GROUP: GroupId = GroupId(0);
/// Log groups that partitions are spread over, beside the metadata's.
pub(crate) const GROUPS: u16 = 16;
/// The most partitions that a database's table may have: a scan's cursor has room for no more.
pub(crate) const PARTITIONS_MAX: u32 = 1024;
/// The hash that holds the tables: name to definition.
const TABLES_KEY: &[u8] = b"tables";
/// The hash of the nodes: id to record.
const NODES_KEY: &[u8] = b"nodes";
/// The hash of the nodes that left: id to log time, ms.
const LEFT_KEY: &[u8] = b"left";
/// What the keys of reports of copies begin with; the node's id follows.
const REPORTS_PREFIX: &str = "copies:";
/// The hash of what was noted before log groups were trimmed: group to note.
const TRIM_NOTES_KEY: &[u8] = b"trimmed";
/// The cluster's version.
const VERSION_KEY: &[u8] = b"version";
/// What the keys of beats begin with; the node's id follows.
const BEAT_PREFIX: &str = "beat:";
/// The kind of the cluster's settings, and its objects, those that go over the others last.
pub(crate) const SETTINGS: (&str, [&str; 2]) = ("settings", ["persistent", "transient"]);
/// What the hashes of shared objects begin with; the kind follows.
const OBJECTS_PREFIX: &str = "objects:";

/// The name of a database's table.
pub(crate) fn table_name(db: u32) -> String {
    format!("db{db}")
}

/// The database whose table has this name; `db07`, `db+7` and `db16` are names like any other.
pub(crate) fn database_of(name: &str) -> Option<u32> {
    let db = name.strip_prefix("db")?.parse().ok().filter(|db| *db < DATABASES)?;
    (table_name(db) == name).then_some(db)
}

/// Whether an index is the table of a database. Those belong to Redis clients: a wildcard passes them over.
pub fn is_database(name: &str) -> bool {
    database_of(name).is_some()
}

/// The write that creates a table where there is none of its name.
pub(crate) fn create_table(name: &str, definition: &TableDefinition) -> Argv {
    Argv::of(&[b"HSETNX", TABLES_KEY, name.as_bytes(), &encode(definition)])
}

/// The write that takes a table away.
pub(crate) fn delete_table(name: &str) -> Argv {
    Argv::of(&[b"HDEL", TABLES_KEY, name.as_bytes()])
}

/// The write that replaces a definition, if no table was changed since it was read: `seen` is
/// what [`definition`] gave.
pub(crate) fn replace_definition(name: &str, definition: &TableDefinition, seen: u64) -> Operation {
    let watched = vec![(Bytes::from_static(TABLES_KEY), seen)];
    let put = Argv::of(&[b"HSET", TABLES_KEY, name.as_bytes(), &encode(definition)]);
    Operation::Transaction { watched, commands: vec![put] }
}

fn encode(definition: &TableDefinition) -> Vec<u8> {
    serde_json::to_vec(definition).expect("a definition is plain data")
}

/// The tables as they are now, by name.
///
/// # Errors
/// Where it cannot be read.
pub(crate) fn tables(
    metadata: &impl MetadataRows,
) -> Result<Vec<(String, TableDefinition)>, MetadataError> {
    let table = |(name, definition): (String, Bytes)| {
        let definition = decode(&name, &definition)?;
        Ok((name, definition))
    };
    hash(metadata, TABLES_KEY)?.into_iter().map(table).collect()
}

/// The last change of the tables: where it is the same, they are.
///
/// # Errors
/// Where it cannot be read.
pub(crate) fn tables_change(metadata: &impl MetadataRows) -> Result<u64, MetadataError> {
    change(metadata, TABLES_KEY)
}

/// The same of the objects of a kind.
///
/// # Errors
/// Where it cannot be read.
pub(crate) fn objects_change(
    metadata: &impl MetadataRows,
    kind: &str,
) -> Result<u64, MetadataError> {
    change(metadata, objects_key(kind).as_bytes())
}

fn change(metadata: &impl MetadataRows, key: &[u8]) -> Result<u64, MetadataError> {
    Ok(execute::last_change(metadata.store(), key, metadata.read_time_ms())?)
}

/// A table's definition, and the change of tables that it was read at.
///
/// # Errors
/// Where it cannot be read.
pub(crate) fn definition(
    metadata: &impl MetadataRows,
    name: &str,
) -> Result<Option<(TableDefinition, u64)>, MetadataError> {
    // The change first: a definition that is newer than it is refused, and read again.
    let seen = tables_change(metadata)?;
    let argv = Argv::of(&[b"HGET", TABLES_KEY, name.as_bytes()]);
    match read(metadata, &argv)? {
        Reply::Bulk(bytes) => Ok(Some((decode(name, &bytes)?, seen))),
        _ => Ok(None),
    }
}

fn decode(name: &str, bytes: &[u8]) -> Result<TableDefinition, MetadataError> {
    let table = |source| MetadataError::Table { name: name.to_owned(), source };
    serde_json::from_slice(bytes).map_err(table)
}

/// The write by which a node says who it is, and that it is there.
pub(crate) fn beat(id: &str, record: &NodeRecord, beat: &Beat) -> Operation {
    let record = serde_json::to_vec(record).expect("a record is plain data");
    let beat = serde_json::to_vec(beat).expect("a beat is plain data");
    let commands = vec![
        Argv::of(&[b"HSET", NODES_KEY, id.as_bytes(), &record]),
        Argv::of(&[b"SET", beat_key(id).as_bytes(), &beat]),
        Argv::of(&[b"HDEL", LEFT_KEY, id.as_bytes()]),
    ];
    Operation::Transaction { watched: Vec::new(), commands }
}

/// The write that notes that a node left, if it has not beaten since `seen`.
pub(crate) fn leave(id: &str, log_time_ms: u64, seen: u64) -> Operation {
    let watched = vec![(Bytes::from(beat_key(id)), seen)];
    let at = log_time_ms.to_string();
    let put = Argv::of(&[b"HSETNX", LEFT_KEY, id.as_bytes(), at.as_bytes()]);
    Operation::Transaction { watched, commands: vec![put] }
}

/// The write by which a node that stops says so.
pub(crate) fn left(id: &str, log_time_ms: u64) -> Argv {
    Argv::of(&[b"HSET", LEFT_KEY, id.as_bytes(), log_time_ms.to_string().as_bytes()])
}

/// The node that a write of the metadata is a beat of: how a node without metadata finds others.
pub(crate) fn beaten(operation: &Operation) -> Option<(String, NodeRecord)> {
    let Operation::Transaction { commands, .. } = operation else { return None };
    let put = commands.first()?;
    if put.name() != b"HSET" || put.get(1) != Some(NODES_KEY) {
        return None;
    }
    let id = std::str::from_utf8(put.get(2)?).ok()?;
    Some((id.to_owned(), serde_json::from_slice(put.get(3)?).ok()?))
}

/// The nodes: what each says of itself and of its copies, and when it left. Reports that have not
/// changed since those of `known` were read are not read again.
///
/// # Errors
/// Where it cannot be read.
pub(crate) fn nodes(
    metadata: &impl MetadataRows,
    known: &BTreeMap<String, Arc<Member>>,
) -> Result<Vec<FoundNode>, MetadataError> {
    let left: HashMap<String, Bytes> = hash(metadata, LEFT_KEY)?.into_iter().collect();
    let node = |(id, record): (String, Bytes)| {
        let record = serde_json::from_slice(&record).map_err(MetadataError::Node)?;
        let left_ms = left.get(&id).and_then(|at| std::str::from_utf8(at).ok()?.parse().ok());
        let beat = change(metadata, beat_key(&id).as_bytes())?;
        let reports = reports(metadata, &id, known.get(&id).map(|it| &it.reports))?;
        Ok(FoundNode { id, record, left_ms, beat, reports })
    };
    hash(metadata, NODES_KEY)?.into_iter().map(node).collect()
}

/// What a node reports of its copies; `known` where that is not older.
///
/// # Errors
/// Where it cannot be read.
pub(crate) fn reports(
    metadata: &impl MetadataRows,
    id: &str,
    known: Option<&Arc<Reports>>,
) -> Result<Arc<Reports>, MetadataError> {
    let key = reports_key(id);
    // The change first: reports that are newer than it are read again.
    let change = change(metadata, key.as_bytes())?;
    match known.filter(|it| it.change == change) {
        Some(known) => Ok(Arc::clone(known)),
        None => Ok(Arc::new(Reports::read(change, &hash(metadata, key.as_bytes())?))),
    }
}

/// The write by which a node's reports become others: what [`Reports::differences`] gave.
pub(crate) fn report(id: &str, differences: &[(String, Option<String>)]) -> Operation {
    let key = reports_key(id);
    let command = |(name, value): &(String, Option<String>)| match value {
        Some(value) => Argv::of(&[b"HSET", key.as_bytes(), name.as_bytes(), value.as_bytes()]),
        None => Argv::of(&[b"HDEL", key.as_bytes(), name.as_bytes()]),
    };
    let commands = differences.iter().map(command).collect();
    Operation::Transaction { watched: Vec::new(), commands }
}

fn reports_key(id: &str) -> String {
    format!("{REPORTS_PREFIX}{id}")
}

/// What was noted of each log group before it was trimmed last.
///
/// # Errors
/// Where it cannot be read.
pub(crate) fn trim_notes(
    metadata: &impl MetadataRows,
) -> Result<BTreeMap<GroupId, TrimNote>, MetadataError> {
    let note = |(group, note): (String, Bytes)| {
        let Ok(number) = group.parse() else { return Err(MetadataError::NoGroup(group)) };
        let note = serde_json::from_slice(&note);
        let note = note.map_err(|source| MetadataError::TrimNote { group, source })?;
        Ok((GroupId(number), note))
    };
    hash(metadata, TRIM_NOTES_KEY)?.into_iter().map(note).collect()
}

/// The last change of the notes of trims.
///
/// # Errors
/// Where it cannot be read.
pub(crate) fn trim_notes_change(metadata: &impl MetadataRows) -> Result<u64, MetadataError> {
    change(metadata, TRIM_NOTES_KEY)
}

/// The write that notes what is known of a group before it is trimmed, unless one was noted since
/// the notes were read: then it answers a nil array.
pub(crate) fn put_trim_note(group: GroupId, note: &TrimNote, read_at: u64) -> Operation {
    let note = serde_json::to_vec(note).expect("a note is plain data");
    let group = group.0.to_string();
    let watched = vec![(Bytes::from_static(TRIM_NOTES_KEY), read_at)];
    let commands = vec![Argv::of(&[b"HSET", TRIM_NOTES_KEY, group.as_bytes(), &note])];
    Operation::Transaction { watched, commands }
}

/// The cluster's version; 1 where none was ever written.
///
/// # Errors
/// Where it cannot be read.
pub(crate) fn version(metadata: &impl MetadataRows) -> Result<u32, MetadataError> {
    match read(metadata, &Argv::of(&[b"GET", VERSION_KEY]))? {
        Reply::Bulk(bytes) => {
            let version = std::str::from_utf8(&bytes).ok().and_then(|text| text.parse().ok());
            version.ok_or(MetadataError::NoVersion)
        }
        _ => Ok(1),
    }
}

/// The write that raises it. Whoever raises it by the same members raises it to the same.
pub(crate) fn put_version(version: u32) -> Argv {
    Argv::of(&[b"SET", VERSION_KEY, version.to_string().as_bytes()])
}

/// A node's last beat, and the change that it was.
///
/// # Errors
/// Where it cannot be read.
pub(crate) fn last_beat(
    metadata: &impl MetadataRows,
    id: &str,
) -> Result<Option<(Beat, u64)>, MetadataError> {
    let key = beat_key(id);
    let seen = change(metadata, key.as_bytes())?;
    match read(metadata, &Argv::of(&[b"GET", key.as_bytes()]))? {
        Reply::Bulk(bytes) => {
            let beat = serde_json::from_slice(&bytes).map_err(MetadataError::Node)?;
            Ok(Some((beat, seen)))
        }
        _ => Ok(None),
    }
}

fn beat_key(id: &str) -> String {
    format!("{BEAT_PREFIX}{id}")
}

/// The write that puts a small object that the cluster shares.
pub(crate) fn put_object(kind: &str, name: &str, value: &[u8]) -> Argv {
    Argv::of(&[b"HSET", objects_key(kind).as_bytes(), name.as_bytes(), value])
}

/// The same, where there is no object of that name yet.
pub(crate) fn put_first_object(kind: &str, name: &str, value: &[u8]) -> Argv {
    Argv::of(&[b"HSETNX", objects_key(kind).as_bytes(), name.as_bytes(), value])
}

/// The write that takes such an object away.
pub(crate) fn delete_object(kind: &str, name: &str) -> Argv {
    Argv::of(&[b"HDEL", objects_key(kind).as_bytes(), name.as_bytes()])
}

/// An object of a kind; none also where it cannot be read, which is logged.
pub(crate) fn object(metadata: &impl MetadataRows, kind: &str, name: &str) -> Option<Value> {
    let argv = Argv::of(&[b"HGET", objects_key(kind).as_bytes(), name.as_bytes()]);
    match read(metadata, &argv) {
        Ok(Reply::Bulk(bytes)) => parsed(kind, name, &bytes),
        Ok(_) => None,
        Err(error) => {
            tracing::error!(kind, name, %error, "the metadata cannot be read");
            None
        }
    }
}

/// What the cluster has set, by name, as text: what is transient goes over what is persistent.
pub(crate) fn settings(metadata: &impl MetadataRows) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let (kind, objects) = SETTINGS;
    for settings in objects.into_iter().filter_map(|it| object(metadata, kind, it)) {
        let Value::Object(settings) = settings else { continue };
        all.extend(settings.into_iter().map(|(name, value)| (name, text_of(value))));
    }
    all
}

/// The same of one setting.
pub(crate) fn setting(metadata: &impl MetadataRows, name: &str) -> Option<String> {
    let (kind, objects) = SETTINGS;
    let mut objects = objects.into_iter().rev();
    objects.find_map(|it| Some(text_of(object(metadata, kind, it)?.get_mut(name)?.take())))
}

fn text_of(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// The writes that change objects of a kind, unless one of that kind was changed since they were
/// read at `seen`: then it answers a nil array.
pub(crate) fn change_objects(kind: &str, commands: Vec<Argv>, seen: u64) -> Operation {
    change_objects_unless(&[(kind, seen)], commands)
}

/// The same unless an object of any of these kinds was changed since what is said with it.
pub(crate) fn change_objects_unless(seen: &[(&str, u64)], commands: Vec<Argv>) -> Operation {
    let watched = seen.iter().map(|(kind, seen)| (Bytes::from(objects_key(kind)), *seen));
    Operation::Transaction { watched: watched.collect(), commands }
}

/// All objects of a kind as they stand there, by name: for those who must not take what cannot be
/// read for nothing.
///
/// # Errors
/// Where it cannot be read.
pub(crate) fn objects_bytes(
    metadata: &impl MetadataRows,
    kind: &str,
) -> Result<Vec<(String, Bytes)>, MetadataError> {
    hash(metadata, objects_key(kind).as_bytes())
}

/// All objects of a kind, by name.
pub(crate) fn objects(metadata: &impl MetadataRows, kind: &str) -> Vec<(String, Value)> {
    let found = objects_bytes(metadata, kind).unwrap_or_else(|error| {
        tracing::error!(kind, %error, "the metadata cannot be read");
        Vec::new()
    });
    let object = |(name, bytes): (String, Bytes)| Some((parsed(kind, &name, &bytes)?, name));
    let mut objects: Vec<(String, Value)> =
        found.into_iter().filter_map(object).map(|(value, name)| (name, value)).collect();
    objects.sort_by(|(a, _), (b, _)| a.cmp(b));
    objects
}

fn parsed(kind: &str, name: &str, bytes: &[u8]) -> Option<Value> {
    let value = serde_json::from_slice(bytes);
    value.inspect_err(|error| tracing::error!(kind, name, %error, "no JSON")).ok()
}

fn objects_key(kind: &str) -> String {
    format!("{OBJECTS_PREFIX}{kind}")
}

/// A hash of the metadata, its fields being names.
fn hash(metadata: &impl MetadataRows, key: &[u8]) -> Result<Vec<(String, Bytes)>, MetadataError> {
    let Reply::Map(pairs) = read(metadata, &Argv::of(&[b"HGETALL", key]))? else {
        return Err(MetadataError::NoHash);
    };
    let pair = |(name, value): (Reply, Reply)| match (name, value) {
        (Reply::Bulk(name), Reply::Bulk(value)) => Ok((String::from_utf8(name.to_vec())?, value)),
        _ => Err(MetadataError::NoPairs),
    };
    pairs.into_iter().map(pair).collect()
}

fn read(metadata: &impl MetadataRows, argv: &Argv) -> Result<Reply, MetadataError> {
    let command = command::parse(argv)?;
    let (now_ms, seed) = (metadata.read_time_ms(), Seed::Given(0));
    let context = ReadContext { now_ms, seed, keys: 0, cursors: None };
    let snapshot = metadata.store().snapshot()?;
    Ok(execute::read(&command, &snapshot, &context)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::documents::IndexBody;
    use crate::metadata::placement::{Copy, CopyState};
    use crate::{Coordinator, Node, NodeSettings};

    const NEWER: &str = r#""x_newer":{"z":[18446744073709551615,-1,2.5,null,true],"a":{"ü":"\n"}}"#;

    #[test]
    fn databases_have_one_name_each() {
        let of = ["db0", "db15", "db16", "db03", "db+3", "db", "db3x", "DB3"].map(database_of);
        assert_eq!(of, [Some(0), Some(15), None, None, None, None, None, None]);
    }

    /// The bytes of a definition.
    fn stored(coordinator: &Coordinator) -> String {
        let argv = Argv::of(&[b"HGET", TABLES_KEY, b"i"]);
        let Reply::Bulk(bytes) = read(&coordinator.shared().metadata, &argv).unwrap() else {
            panic!("no definition")
        };
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    /// What no field is for: of the table, of its documents, and of its partition.
    fn count_of_newer(coordinator: &Coordinator) -> [usize; 2] {
        let (text, named) = (stored(coordinator), metadata_of(coordinator));
        let twice = serde_json::to_string(&decode("i", text.as_bytes()).unwrap()).unwrap();
        assert_eq!(twice, text, "it is read and written as it is");
        let unknown = [&named.unknown, &named.partitions[0].unknown];
        let documents = &named.documents.as_ref().unwrap().unknown;
        let known_to_be = unknown.into_iter().chain([documents]).filter(|it| it.len() == 1);
        [text.matches(NEWER).count(), known_to_be.count()]
    }

    fn metadata_of(coordinator: &Coordinator) -> TableDefinition {
        definition(&coordinator.shared().metadata, "i").unwrap().unwrap().0
    }

    async fn add_field(coordinator: &Coordinator, name: &str) {
        let mapping = json!({ "properties": { name: { "type": "long" } } });
        coordinator.documents().put_mapping("i", &mapping).await.unwrap();
        assert!(stored(coordinator).contains(&format!("\"{name}\"")));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_only_a_newer_version_knows_survives_every_change() {
        let dir = tempfile::tempdir().unwrap();
        let node = Node::open(&NodeSettings::alone(dir.path())).await.unwrap();
        let coordinator = node.coordinator();
        coordinator.documents().create_index("i", IndexBody::default()).await.unwrap();
        // As a newer node writes it: at the end of each object that may have more.
        let text = stored(&coordinator)
            .replace("\"is_closed\":false}", &format!("\"is_closed\":false,{NEWER}}}"))
            .replace("\"state\":\"serving\"}]}", &format!("\"state\":\"serving\"}}],{NEWER}}}"));
        let text = format!("{},{NEWER}}}", text.strip_suffix('}').unwrap());
        let put = Argv::of(&[b"HSET", TABLES_KEY, b"i", text.as_bytes()]);
        coordinator.shared().replication.write_metadata(put).await.unwrap();
        assert_eq!(count_of_newer(&coordinator), [3, 3]);

        add_field(&coordinator, "first").await;
        let settings = json!({ "index.refresh_interval": "7s" }).as_object().cloned().unwrap();
        coordinator.documents().put_index_settings("i", settings).await.unwrap();
        coordinator.documents().open_index("i", false).await.unwrap();
        coordinator.documents().open_index("i", true).await.unwrap();
        // As `place` does it.
        let change = |definition: &mut TableDefinition| {
            let partition = &mut definition.partitions[0];
            let node = "another".to_owned();
            partition.copies.push(Copy { node, state: CopyState::Initializing });
            partition.epoch += 1;
            true
        };
        let incarnation = metadata_of(&coordinator).incarnation;
        let changed =
            coordinator.shared().replication.update_definition("i", incarnation, change).await;
        assert_eq!(changed, Ok(true));
        assert!(metadata_of(&coordinator).partitions[0].epoch > 1);
        assert_eq!(count_of_newer(&coordinator), [3, 3]);

        drop(coordinator);
        node.close().await;
        let node = Node::open(&NodeSettings::alone(dir.path())).await.unwrap();
        add_field(&node.coordinator(), "second").await;
        assert_eq!(count_of_newer(&node.coordinator()), [3, 3]);
    }
}
