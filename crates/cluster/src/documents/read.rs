//! Single documents read from the rows, as they are now.

use std::sync::Arc;

use plimsoll_index::Error;
use plimsoll_storage::execute;
use plimsoll_storage::rows::StoreError;

use super::catalog::no_such_index;
use super::types::{Document, IndexMetadata};
use crate::Coordinator;

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
        let partition = Arc::clone(&table.partitions()[table.ordinal_of(key)]);
        if let Some(fault) = partition.fault() {
            return Err(Error::new(503, "no_shard_available_action_exception", fault));
        }
        let now_ms = partition.read_time_ms();
        let cached = partition.store.cached_row();
        let found = match execute::document(&cached, key, id.as_bytes(), now_ms) {
            Err(StoreError::NotCached) => {
                let (key, id) = (key.to_vec(), id.as_bytes().to_vec());
                let read = move || execute::document(&partition.store, &key, &id, now_ms);
                let read = tokio::task::spawn_blocking(read).await;
                read.map_err(|error| Error::internal(error.to_string()))?
            }
            found => found,
        };
        let found = found.map_err(|error| Error::internal(error.to_string()))?;
        Ok(found.map(Document::of))
    }
}
