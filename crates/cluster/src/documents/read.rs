//! Single documents read from the rows, as they are now.

use std::sync::Arc;

use plimsoll_index::Error;
use plimsoll_storage::execute;
use plimsoll_storage::rows::StoreError;

use super::catalog::no_such_index;
use super::types::{Document, IndexMetadata};
use crate::Coordinator;
use crate::partition::Partition;
use crate::rpc::{Freshness, Problem, Question, Reply, rest_error};

impl Coordinator {
    /// A document as it is now, also where searches do not see it yet; linearizable.
    ///
    /// # Errors
    /// Where there is no such index, or its rows cannot be read.
    pub async fn get_document(
        &self,
        index: &Arc<IndexMetadata>,
        id: &str,
        routing: Option<&str>,
    ) -> Result<Option<Document>, Error> {
        let table = self.shared().tables.by_name(&index.name);
        let table = table.ok_or_else(|| no_such_index(&index.name))?;
        let key = routing.unwrap_or(id).as_bytes();
        let copies = &table.copies()[table.ordinal_of(key)];
        if let Some(partition) = self.fresh_local(copies).await {
            return document_of(&partition, key, id).await;
        }
        if self.shared().is_alone {
            return Err(unavailable("the partition is being opened".to_owned()));
        }
        let question = Question::Document {
            partition: copies.id.into(),
            key: key.to_vec(),
            id: id.to_owned(),
            freshness: Freshness::Strong,
        };
        match self.ask_copies(copies, &question).await {
            Ok(Reply::Document(found)) => Ok(found.map(|it| Document {
                source: it.source.into(),
                version: it.version,
                seq_no: it.seq_no,
            })),
            Ok(Reply::Problem(Problem::Rest(error))) => Err(rest_error(&error)),
            Ok(_) => Err(Error::internal("another node's answer cannot be read")),
            Err(error) => Err(unavailable(error.message.into_owned())),
        }
    }
}

/// A document in this node's copy as it is.
pub(crate) async fn document_of(
    partition: &Arc<Partition>,
    key: &[u8],
    id: &str,
) -> Result<Option<Document>, Error> {
    if let Some(fault) = partition.fault() {
        return Err(unavailable(fault));
    }
    let now_ms = partition.read_time_ms();
    let cached = partition.store.cached_row();
    let found = match execute::document(&cached, key, id.as_bytes(), now_ms) {
        Err(StoreError::NotCached) => {
            let (key, id, store) = (key.to_vec(), id.as_bytes().to_vec(), partition.store.clone());
            let read = move || execute::document(&store, &key, &id, now_ms);
            let read = tokio::task::spawn_blocking(plimsoll_memory::carry(read)).await;
            read.map_err(|error| Error::internal(error.to_string()))?
        }
        found => found,
    };
    let found = found.map_err(|error| Error::internal(error.to_string()))?;
    Ok(found.map(Document::of))
}

pub(super) fn unavailable(why: String) -> Error {
    Error::new(503, "no_shard_available_action_exception", why)
}
