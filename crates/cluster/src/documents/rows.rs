//! Rows that Redis clients write into an index: they are documents, so they are checked against
//! the mapping before they reach the log, and it grows where it is dynamic. A value that is no
//! JSON object is a row and no document.

use plimsoll_storage::command::check_set::{Change, CheckSet};
use plimsoll_storage::command::write::Write;
use plimsoll_storage::command::{self, Body};
use plimsoll_storage::{Argv, ErrorReply};

use super::service::Documents;
use crate::Request;
use crate::replication::tables::Table;

impl Documents {
    /// The requests that the mapping refuses, by their positions. None, at once, where the
    /// database's table is rows alone.
    pub(crate) async fn check_rows(
        &self,
        db: u32,
        requests: &[Request],
    ) -> Vec<(usize, ErrorReply)> {
        // One that follows refuses every write, whatever its mapping says.
        let is_checked = |table: &&Table| table.is_index() && table.follows().is_none();
        let Some(table) = self.router.tables.get(db).map(AsRef::as_ref).filter(is_checked) else {
            return Vec::new();
        };
        let mut refused = Vec::new();
        for (at, request) in requests.iter().enumerate() {
            let commands = match request {
                Request::Command(argv) => std::slice::from_ref(argv),
                Request::Transaction { commands, .. } => commands.as_slice(),
            };
            for argv in commands {
                if let Err(error) = self.check_command(table, argv).await {
                    refused.push((at, error));
                    break;
                }
            }
        }
        refused
    }

    async fn check_command(&self, table: &Table, argv: &Argv) -> Result<(), ErrorReply> {
        // What cannot be parsed is refused in its place.
        let Ok(command) = command::parse(argv) else { return Ok(()) };
        let Some(index) = table.index() else { return Ok(()) };
        let mut mapping = index.mapping.clone();
        let mut is_grown = false;
        let mut check = |id: &[u8], value: &[u8]| -> Result<(), plimsoll_index::Error> {
            let Ok(id) = std::str::from_utf8(id) else { return Ok(()) };
            if value.trim_ascii_start().first() != Some(&b'{') {
                return Ok(());
            }
            if let Some(delta) = mapping.check(id, value)? {
                mapping = mapping.merge(&delta)?;
                is_grown = true;
            }
            Ok(())
        };
        let checked = match &command.body {
            Body::Write(Write::Set(set)) => check(set.key, set.value),
            Body::Write(
                Write::SetMany { pairs, .. }
                | Write::HashSet { pairs, .. }
                | Write::FieldSetExpire { pairs, .. },
            ) => pairs.iter().try_for_each(|(id, value)| check(id, value)),
            Body::Write(Write::HashSetNew { field, value, .. }) => check(field, value),
            Body::Write(Write::HashCheckSet(CheckSet { change: Change::Set(pairs), .. })) => {
                pairs.iter().try_for_each(|(id, value)| check(id, value))
            }
            _ => Ok(()),
        };
        checked.map_err(refusal)?;
        if is_grown {
            let grown = self.put_mapping(&index.name, &mapping.to_json()).await;
            grown.map_err(refusal)?;
        }
        Ok(())
    }
}

fn refusal(error: plimsoll_index::Error) -> ErrorReply {
    let cause = error.caused_by.map(|cause| format!(": {}", cause.reason)).unwrap_or_default();
    ErrorReply::err(format!("{}: {}{cause}", error.kind, error.reason))
}
