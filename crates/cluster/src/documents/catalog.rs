//! Which indices there are and what they are made of: created, changed and deleted through the
//! metadata's log. What HTTP calls these things, and which settings there are, is not known here.

use std::ops::ControlFlow;
use std::sync::Arc;

use plimsoll_index::Error;
use plimsoll_index::mapping::Mapping;
use plimsoll_storage::execute::{self, DocumentsCursor};
use plimsoll_storage::rows::StoreError;
use serde_json::{Map, Value, json};

use super::service::Documents;
use super::types::IndexBody;
use crate::metadata;
use crate::metadata::PARTITIONS_MAX;
use crate::metadata::default_expiry;
use crate::metadata::follows::travels;
use crate::metadata::index::{IndexMetadata, mapping_of, no_such_index, number};
use crate::metadata::table::{DocumentsDefinition, TableDefinition};
use crate::replication::tables::Table;
use crate::routing::no_shard;
use crate::wire::write_error::failed;

/// The most indices that a cluster holds.
const INDICES_MAX: usize = 10_000;
/// The longest name, bytes. Elasticsearch's.
const NAME_BYTES_MAX: usize = 255;
/// The largest mapping, settings and aliases of one index, bytes of JSON.
const DEFINITION_BYTES_MAX: usize = 4 << 20;
/// How deep its lists and objects lie in one another at most. A reader of JSON takes 127, what they are kept in
/// included; nobody could read what is deeper, nor start with it.
const DEFINITION_DEPTH_MAX: usize = 100;
/// How often a change of the metadata is tried again after another came before it.
const ATTEMPTS_MAX: u32 = 100;

const SHARDS: &str = "index.number_of_shards";

impl Documents {
    /// The indices that exist, by name, closed ones too.
    #[must_use]
    pub fn indices(&self) -> Vec<Arc<IndexMetadata>> {
        self.router.tables.all().iter().filter_map(|table| table.index()).collect()
    }

    /// The index of this name; an alias is not one.
    #[must_use]
    pub fn index(&self, name: &str) -> Option<Arc<IndexMetadata>> {
        self.router.tables.by_name(name)?.index()
    }

    /// Creates an index. A table `db<n>` that is there already becomes one with its rows.
    ///
    /// # Errors
    /// `resource_already_exists_exception`, `invalid_index_name_exception`, and what is wrong
    /// with the mapping or the number of shards.
    pub async fn create_index(
        &self,
        name: &str,
        body: IndexBody,
    ) -> Result<Arc<IndexMetadata>, Error> {
        let created = self.create_here(name, body).await?;
        self.router.tell_others().await;
        self.router.await_copies(name).await;
        Ok(created)
    }

    async fn create_here(&self, name: &str, body: IndexBody) -> Result<Arc<IndexMetadata>, Error> {
        check_name(name)?;
        let _changing = self.changes.changing.lock().await;
        let shards = number(&body.settings, SHARDS)?.unwrap_or(1);
        if !(1..=PARTITIONS_MAX).contains(&shards) {
            let reason = format!(
                "Failed to parse value [{shards}] for setting [{SHARDS}] must be between 1 and \
                 {PARTITIONS_MAX}"
            );
            return Err(Error::illegal_argument(reason));
        }
        default_expiry::check(&self.router.replication.version, &body.settings)?;
        let documents = definition_of(body, self.searching.time.wall_ms())?;
        let there = self.router.tables.by_name(name);
        if let Some(index) = there.as_ref().and_then(|table| table.index()) {
            return Err(already_exists(&index));
        }
        self.check_first_aliases(name, &documents.aliases)?;
        if let Some(table) = there {
            if table.follows().is_some() {
                return Err(super::write::blocked(name));
            }
            let partitions = u32::try_from(table.copies().len()).unwrap_or(u32::MAX);
            let (before, after) =
                (self.changes.wanted_copies(None), self.changes.wanted_copies(Some(&documents)));
            self.changes.check_capacity(partitions, before, after)?;
            return self.attach_documents(&table, documents).await;
        }
        if self.router.tables.all().iter().any(|table| has_alias(table, name)) {
            return Err(name_is_alias(name));
        }
        if self.router.tables.all().len() >= INDICES_MAX {
            let reason = format!("this cluster holds {INDICES_MAX} tables already");
            return Err(Error::invalid("validation_exception", reason));
        }
        self.changes.check_capacity(shards, 0, self.changes.wanted_copies(Some(&documents)))?;
        let definition = self.changes.new_definition(shards, Some(documents)).await;
        let definition = definition.map_err(failed)?;
        let created =
            self.router.replication.create_table(name, &definition).await.map_err(failed)?;
        if created.incarnation != definition.incarnation {
            let index = IndexMetadata::of(name, &created)?.map(Arc::new);
            return Err(index.map_or_else(|| name_is_alias(name), |index| already_exists(&index)));
        }
        let table = self.changes.open(name, &created).await.map_err(failed)?;
        table.index().ok_or_else(|| Error::internal("the index was not created"))
    }

    /// Deletes an index with all its documents.
    ///
    /// # Errors
    /// Where there is none, or it is the table of a database, which Redis clients own.
    pub async fn delete_index(&self, name: &str) -> Result<(), Error> {
        let changing = self.changes.changing.lock().await;
        self.changes.delete_table(name).await?;
        drop(changing);
        self.router.tell_others().await;
        Ok(())
    }

    /// Adds fields to an index' mapping, or changes what may be changed of those it has.
    ///
    /// # Errors
    /// Where the two do not fit together.
    pub async fn put_mapping(&self, name: &str, body: &Value) -> Result<Arc<IndexMetadata>, Error> {
        if self.is_follower(name) {
            return Err(Error::illegal_argument(format!(
                "can't put mapping to the following indices [{name}]; the mapping of the following \
                 indices are self-replicated from its leader indices"
            )));
        }
        self.change_index(name, |documents| {
            let before = mapping_of(&documents.settings, &documents.mapping)?;
            let after = before.merge(body)?.to_json();
            if after != documents.mapping {
                documents.mapping = after;
                documents.mapping_version += 1;
            }
            Ok(())
        })
        .await
    }

    /// Changes settings; `null` takes one away. Which may be changed is checked before.
    ///
    /// # Errors
    /// Where there is no such index, or the nodes cannot hold the replicas.
    pub async fn put_index_settings(
        &self,
        name: &str,
        changes: Map<String, Value>,
    ) -> Result<(), Error> {
        if let Some(theirs) = changes.keys().find(|it| self.is_follower(name) && travels(it)) {
            return Err(Error::illegal_argument(format!(
                "can not update setting [{theirs}] of follower index [{name}]: it is its leader's"
            )));
        }
        default_expiry::check(&self.router.replication.version, &changes)?;
        let partitions = self.index(name).map_or(0, |index| index.partitions);
        let changed = self.change_index(name, |documents| {
            let before = self.changes.wanted_copies(Some(documents));
            for (key, value) in &changes {
                if value.is_null() {
                    documents.settings.remove(key);
                } else {
                    documents.settings.insert(key.clone(), value.clone());
                }
            }
            self.changes.check_capacity(
                partitions,
                before,
                self.changes.wanted_copies(Some(documents)),
            )
        });
        changed.await.map(drop)
    }

    /// Opens or closes an index.
    ///
    /// # Errors
    /// Where there is no such index.
    pub async fn open_index(&self, name: &str, is_open: bool) -> Result<(), Error> {
        let changed = self.change_index(name, |documents| {
            documents.is_closed = !is_open;
            Ok(())
        });
        changed.await.map(drop)
    }

    pub(super) fn is_follower(&self, name: &str) -> bool {
        self.router.tables.by_name(name).is_some_and(|table| table.follows().is_some())
    }

    /// Changes what an index is made of: tried again where another change comes between.
    pub(super) async fn change_index(
        &self,
        name: &str,
        change: impl Fn(&mut DocumentsDefinition) -> Result<(), Error>,
    ) -> Result<Arc<IndexMetadata>, Error> {
        let changing = self.changes.changing.lock().await;
        let table = self.router.tables.by_name(name).ok_or_else(|| no_such_index(name))?;
        let (index, is_changed) = self
            .change_definition(&table, |definition| {
                let documents = definition.documents.as_mut().ok_or_else(|| no_such_index(name))?;
                change(documents)
            })
            .await?;
        drop(changing);
        if is_changed {
            self.router.tell_others().await;
        }
        Ok(index)
    }

    /// Makes a table of rows an index as well. The mapping takes in what the rows hold already.
    async fn attach_documents(
        &self,
        table: &Arc<Table>,
        mut documents: DocumentsDefinition,
    ) -> Result<Arc<IndexMetadata>, Error> {
        let mapping = mapping_of(&documents.settings, &documents.mapping)?;
        let held = Arc::clone(table);
        let grown = move || grown_by_rows(&held, mapping);
        let grown = self.router.world.tasks.blocking(grown).await;
        documents.mapping = grown.map_err(Error::internal)??.to_json();
        let (index, _) = self
            .change_definition(table, |definition| {
                definition.documents = Some(documents.clone());
                definition.attach_default_expiry();
                Ok(())
            })
            .await?;
        let indexed = self.changes.index(table).await;
        indexed.map_err(|error| Error::internal(error.message))?;
        Ok(index)
    }

    /// Changes a table's definition; the caller holds the lock of changes, so that on this node
    /// none comes between. Says what it is then, and whether there was anything to change.
    async fn change_definition(
        &self,
        table: &Arc<Table>,
        change: impl Fn(&mut TableDefinition) -> Result<(), Error>,
    ) -> Result<(Arc<IndexMetadata>, bool), Error> {
        let name = table.name();
        for _ in 0..ATTEMPTS_MAX {
            let (mut definition, seen) = metadata::definition(&self.router.metadata, name)
                .map_err(Error::internal)?
                .filter(|(found, _)| found.incarnation == table.incarnation())
                .ok_or_else(|| no_such_index(name))?;
            let before = definition.clone();
            change(&mut definition)?;
            let index = IndexMetadata::of(name, &definition)?.map(Arc::new);
            let index = index.ok_or_else(|| no_such_index(name))?;
            let is_changed = definition != before;
            if is_changed {
                checked(&json!(definition))?;
                let replaced =
                    self.router.replication.replace_definition(name, &definition, seen).await;
                if !replaced.map_err(failed)? {
                    continue;
                }
            }
            table.follow(&definition);
            table.set_index(Arc::clone(&index));
            return Ok((index, is_changed));
        }
        Err(Error::unavailable("process_cluster_event_timeout_exception", "the metadata is busy"))
    }
}

/// The mapping with the fields of the documents that a table holds; a row that does not fit it is
/// no document of the index.
fn grown_by_rows(table: &Table, mut mapping: Mapping) -> Result<Mapping, Error> {
    let failed = |error: StoreError| Error::internal(error);
    let from = DocumentsCursor::default();
    if let Some(why) = table.copies().iter().find_map(|copies| copies.stopped()) {
        return Err(no_shard(why.to_owned()));
    }
    for (_, partition) in table.local() {
        let rows = partition.store.snapshot().map_err(failed)?;
        let walked = execute::documents(
            &rows,
            &from,
            usize::MAX,
            usize::MAX,
            partition.read_time_ms(),
            &mut |_, id, document| {
                let id = String::from_utf8_lossy(id);
                if let Ok(Some(delta)) = mapping.check(&id, document.source)
                    && let Ok(grown) = mapping.merge(&delta)
                {
                    mapping = grown;
                }
                ControlFlow::Continue(())
            },
        );
        walked.map_err(failed)?;
    }
    Ok(mapping)
}

fn definition_of(body: IndexBody, created_ms: u64) -> Result<DocumentsDefinition, Error> {
    let no_fields = json!({});
    let mappings = if body.mappings.is_null() { &no_fields } else { &body.mappings };
    let mapping = mapping_of(&body.settings, mappings)?;
    body.aliases.keys().try_for_each(|alias| check_name(alias))?;
    let documents = DocumentsDefinition {
        created_ms,
        settings: body.settings,
        mapping: mapping.to_json(),
        mapping_version: 1,
        aliases: body.aliases,
        is_closed: false,
        unknown: Map::new(),
    };
    checked(&json!(documents))?;
    Ok(documents)
}

/// The bytes of a definition or object that is neither too large nor too deep: whoever reads the metadata takes it
/// from within others.
pub(crate) fn checked(value: &Value) -> Result<Vec<u8>, Error> {
    if !is_within(value, DEFINITION_DEPTH_MAX) {
        let reason = format!("it has more than {DEFINITION_DEPTH_MAX} levels of JSON");
        return Err(Error::illegal_argument(reason));
    }
    let bytes = value.to_string().into_bytes();
    if bytes.len() > DEFINITION_BYTES_MAX {
        let reason = format!("it takes {} bytes, over {DEFINITION_BYTES_MAX}", bytes.len());
        return Err(Error::illegal_argument(reason));
    }
    Ok(bytes)
}

/// Whether lists and objects lie in one another at most so deep.
fn is_within(value: &Value, levels: usize) -> bool {
    let within = |inner: &Value| is_within(inner, levels - 1);
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(within),
        Value::Object(fields) => levels > 0 && fields.values().all(within),
        _ => true,
    }
}

/// The name rules of Elasticsearch, in its words.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    const FORBIDDEN: &str = " \"*,/<>?\\|";
    let wrong = |why: String| {
        let reason = format!("Invalid index name [{name}], {why}");
        Err(Error::invalid("invalid_index_name_exception", reason)
            .with("index", name)
            .with("index_uuid", "_na_"))
    };
    if name.is_empty() {
        return wrong("must not be empty".to_owned());
    }
    if name.chars().any(|character| FORBIDDEN.contains(character) || character.is_control()) {
        let shown = r#"[ , ", *, \, <, |, ,, >, /, ?]"#;
        return wrong(format!("must not contain the following characters {shown}"));
    }
    if name.contains('#') {
        return wrong("must not contain '#'".to_owned());
    }
    if name.contains(':') {
        return wrong("must not contain ':'".to_owned());
    }
    if name.starts_with(['_', '-', '+']) {
        return wrong("must not start with '_', '-', or '+'".to_owned());
    }
    if name.len() > NAME_BYTES_MAX {
        return wrong(format!("index name is too long, ({} > {NAME_BYTES_MAX})", name.len()));
    }
    if name == "." || name == ".." {
        return wrong("must not be '.' or '..'".to_owned());
    }
    if name.to_lowercase() != name {
        return wrong("must be lowercase".to_owned());
    }
    Ok(())
}

fn has_alias(table: &Table, name: &str) -> bool {
    table.index().is_some_and(|index| index.aliases.contains_key(name))
}

fn already_exists(index: &IndexMetadata) -> Error {
    let reason = format!("index [{}/{}] already exists", index.name, index.uuid);
    Error::invalid("resource_already_exists_exception", reason)
        .with("index", index.name.clone())
        .with("index_uuid", index.uuid.clone())
}

fn name_is_alias(name: &str) -> Error {
    let reason = format!("Invalid index name [{name}], already exists as alias");
    Error::invalid("invalid_index_name_exception", reason).with("index", name)
}

pub(super) fn name_is_index(alias: &str) -> Error {
    let reason = format!(
        "Invalid alias name [{alias}]: an index or data stream exists with the same name as the \
         alias"
    );
    Error::invalid("invalid_alias_name_exception", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_elasticsearch_takes() {
        for name in ["a", "logs-2024.01.01", "db0", ".kibana", "ünïcode"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for (name, words) in [
            ("Bad", "must be lowercase"),
            ("_x", "must not start with"),
            ("..", "must not be '.' or '..'"),
            ("a/b", "must not contain the following characters"),
            ("a b", "must not contain the following characters"),
            ("a#b", "must not contain '#'"),
            ("", "must not be empty"),
        ] {
            let error = check_name(name).unwrap_err();
            assert!(error.reason.contains(words), "{name}: {}", error.reason);
        }
        assert!(check_name(&"x".repeat(256)).unwrap_err().reason.contains("too long"));
    }
}
