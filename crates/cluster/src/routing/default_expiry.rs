//! The default expiry of a database that is no index: read and changed. What it may be is in
//! `metadata/default_expiry.rs`; what it does to rows is `plimsoll_storage::operation`'s.

use std::sync::Arc;

use plimsoll_index::Error;

use super::changes::TableChanges;
use crate::metadata;
use crate::metadata::default_expiry::{self, DEFAULT_TTL};
use crate::metadata::error::MetadataError;
use crate::metadata::table::TableDefinition;
use crate::wire::write_error::failed;

impl TableChanges {
    /// The default expiry of a database that is no index, ms; `None` where it has none, or is an index.
    pub(crate) fn default_expiry_of(&self, name: &str) -> Result<Option<u64>, MetadataError> {
        let found = metadata::definition(&self.router.metadata, name)?;
        Ok(found.and_then(|(it, _)| it.default_expiry_ms.filter(|_| it.documents.is_none())))
    }

    /// Gives a database that is no index a default expiry, ms, or takes it (0); one that is not there yet is
    /// created. Keys that are there keep what they have.
    ///
    /// # Errors
    /// Where nodes do not know it yet, the database follows another cluster's, or the metadata cannot be written.
    pub(crate) async fn set_default_expiry(
        self: &Arc<Self>,
        name: &str,
        after_ms: u64,
    ) -> Result<(), Error> {
        let no_database = || Error::illegal_argument(format!("[{name}] is no database"));
        let db = metadata::database_of(name).ok_or_else(no_database)?;
        let after_ms = Some(after_ms).filter(|ms| *ms > 0);
        if after_ms.is_some() {
            default_expiry::check_version(&self.router.replication.version)?;
        }
        let table = self.table_for_write(db).await.map_err(failed)?;
        if table.follows().is_some() {
            let reason =
                format!("can not update setting [{DEFAULT_TTL}] of follower index [{name}]");
            return Err(Error::illegal_argument(reason));
        }
        let changing = self.changing.lock().await;
        let changed = self
            .router
            .replication
            .update_definition(name, table.incarnation(), |definition| {
                let changes = is_of_rows(definition) && definition.default_expiry_ms != after_ms;
                if changes {
                    definition.default_expiry_ms = after_ms;
                }
                changes
            })
            .await
            .map_err(failed)?;
        let definition =
            metadata::definition(&self.router.metadata, name).map_err(Error::internal)?;
        let definition = definition.map(|(definition, _)| definition).filter(is_of_rows);
        let Some(definition) = definition else {
            let reason = format!("[{name}] is another table by now: come again");
            return Err(Error::conflict("resource_already_exists_exception", reason));
        };
        table.follow(&definition);
        drop(changing);
        if changed {
            self.router.tell_others().await;
        }
        Ok(())
    }
}

/// Whether a table is a database of rows alone, and its own: it may have become something else meanwhile.
fn is_of_rows(definition: &TableDefinition) -> bool {
    definition.documents.is_none() && definition.follows.is_none()
}
