//! Single documents read from the rows, as they are now.

use std::sync::Arc;

use plimsoll_control::Class;
use plimsoll_index::Error;
use plimsoll_storage::execute;
use plimsoll_storage::rows::StoreError;

use super::memory::leaves_rows;
use super::service::Documents;
use super::types::Document;
use crate::metadata::index::{IndexMetadata, no_such_index};
use crate::replication::partition::Partition;
use crate::routing::file_reads::{Extent, FileReads};
use crate::routing::no_shard;
use crate::routing::read_rows::{Found, RowsRead};
use crate::wire::request::Preference;
use crate::wire::{Freshness, Problem, Question, Reply, rest_error};

impl Documents {
    /// A document as it is now, also where searches do not see it yet. Where `is_realtime` is
    /// false, what the copy has that answers will do: [`crate::ReadLevel::Eventual`].
    ///
    /// # Errors
    /// Where there is no such index, or its rows cannot be read.
    pub async fn get_document(
        &self,
        index: &Arc<IndexMetadata>,
        id: &str,
        routing: Option<&str>,
        is_realtime: bool,
    ) -> Result<Option<Document>, Error> {
        let table = self.router.tables.by_name(&index.name);
        let table = table.ok_or_else(|| no_such_index(&index.name))?;
        let key = routing.unwrap_or(id).as_bytes();
        let copies = &table.copies()[table.ordinal_of(key)];
        if self.router.replication.is_alone {
            return match copies.local() {
                Some(partition) => document_of(&self.router.file_reads, &partition, key, id).await,
                None => Err(no_shard(copies.why_not_local())),
            };
        }
        let freshness = if is_realtime { Freshness::Strong } else { Freshness::Eventual };
        let (partition, key_bytes, named) = (copies.id.into(), key.to_vec(), id.to_owned());
        let question = Question::Document { partition, key: key_bytes, id: named, freshness };
        let preference = Preference::Best;
        let read = RowsRead { copies, class: Class::Get, freshness, preference, question };
        let here = |partition| async move {
            document_of(&self.router.file_reads, &partition, key, id).await
        };
        match self.router.read_rows(&read, here).await? {
            Found::Here(found) => found,
            Found::There(Reply::Document(found)) => Ok(found.map(|it| Document {
                source: it.source.into(),
                version: it.version,
                seq_no: it.seq_no,
            })),
            Found::There(Reply::Problem(Problem::Rest(error))) => Err(rest_error(&error)),
            Found::There(_) => Err(Error::internal("another node's answer cannot be read")),
        }
    }
}

/// A document in this node's copy as it is.
pub(crate) async fn document_of(
    file_reads: &FileReads,
    partition: &Arc<Partition>,
    key: &[u8],
    id: &str,
) -> Result<Option<Document>, Error> {
    if let Some(fault) = partition.fault() {
        return Err(no_shard(fault));
    }
    let now_ms = partition.read_time_ms();
    leaves_rows();
    let cached = partition.store.cached_row();
    let found = match execute::document(&cached, key, id.as_bytes(), now_ms) {
        Err(StoreError::NotCached) => {
            let (key, id, store) = (key.to_vec(), id.as_bytes().to_vec(), partition.store.clone());
            let read = move || execute::document(&store, &key, &id, now_ms);
            file_reads.run(Extent::Few, read).await
        }
        found => found,
    };
    let found = found.map_err(|error| {
        partition.note(&error);
        Error::internal(error.to_string())
    })?;
    Ok(found.map(Document::of))
}
