//! Changes of the metadata. It is rows, and they are writes through this node's own lead of it; of two that
//! change the same, the first in the log wins.

use plimsoll_storage::operation::Operation;
use plimsoll_storage::{Argv, ErrorReply, Reply};

use super::lead::Step;
use super::service::Replication;
use super::submit::submit_to;
use crate::metadata;
use crate::metadata::error::MetadataError;
use crate::metadata::table::TableDefinition;

/// How often a change of the metadata is tried again after another came before it.
const ATTEMPTS_MAX: u32 = 100;

/// Why the metadata was not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotChanged {
    /// What is there cannot be read.
    #[error(transparent)]
    Unread(#[from] MetadataError),
    /// The change was refused, or its outcome is not known.
    #[error(transparent)]
    Refused(#[from] ErrorReply),
}

impl Replication {
    /// Has the metadata create a table, and says which one there is then: another's, where that
    /// came first.
    pub(crate) async fn create_table(
        &self,
        name: &str,
        definition: &TableDefinition,
    ) -> Result<TableDefinition, ErrorReply> {
        self.write_metadata(metadata::create_table(name, definition)).await?;
        let found = metadata::definition(&self.metadata, name).map_err(unread)?;
        found.map(|(found, _)| found).ok_or_else(|| ErrorReply::err("the table was not created"))
    }

    /// Replaces a table's definition unless tables were changed since `seen`; says whether.
    pub(crate) async fn replace_definition(
        &self,
        name: &str,
        definition: &TableDefinition,
        seen: u64,
    ) -> Result<bool, ErrorReply> {
        let replace = metadata::replace_definition(name, definition, seen);
        Ok(self.submit_metadata(&replace).await? != Reply::NilArray)
    }

    /// Carries out one command on the metadata.
    pub(crate) async fn write_metadata(&self, command: Argv) -> Result<Reply, ErrorReply> {
        self.submit_metadata(&Operation::Command(command)).await
    }

    pub(crate) async fn submit_metadata(&self, operation: &Operation) -> Result<Reply, ErrorReply> {
        let mut session = self.sessions.session();
        let steps = vec![Step::Write(operation.encode())];
        let replies = submit_to(&self.metadata, &mut session, steps).await;
        let replies = replies.map_err(ErrorReply::from)?;
        match replies.into_iter().next() {
            Some(Reply::Error(error)) => Err(error),
            Some(reply) => Ok(reply),
            None => Err(ErrorReply::err("the metadata gave no answer")),
        }
    }

    /// Changes a table's definition if it is still the same table, trying again where another
    /// change comes between; false where `change` finds nothing to do.
    pub(crate) async fn update_definition(
        &self,
        name: &str,
        incarnation: u64,
        change: impl Fn(&mut TableDefinition) -> bool,
    ) -> Result<bool, ErrorReply> {
        for _ in 0..ATTEMPTS_MAX {
            let found = metadata::definition(&self.metadata, name).map_err(unread)?;
            let Some((mut definition, seen)) =
                found.filter(|(found, _)| found.incarnation == incarnation)
            else {
                return Ok(false);
            };
            if !change(&mut definition) {
                return Ok(false);
            }
            if self.replace_definition(name, &definition, seen).await? {
                return Ok(true);
            }
        }
        Err(ErrorReply::err("the metadata is busy"))
    }
}

/// What a client is told whose change needs metadata that cannot be read.
fn unread(error: MetadataError) -> ErrorReply {
    ErrorReply::err(error.to_string())
}
