//! A table's default expiry, `index.default_ttl`: how long after it is made a key expires that nobody gives
//! another expiry. Where it is kept (an index has it among its settings, a database that is no index in its
//! definition), who may set it, and how writes come to carry it. What it does to rows is
//! `storage::operation`'s.

use plimsoll_index::Error;
use plimsoll_storage::operation;
use serde_json::{Map, Value};

use crate::Coordinator;
use crate::metadata::table::{Copies, TableDefinition};
use crate::metadata::{self, version};
use crate::node::Shared;
use crate::replication::lead::Step;
use crate::settings::setting_ms;

/// The setting.
pub const DEFAULT_TTL: &str = "index.default_ttl";
/// The longest: a thousand years.
const MS_MAX: u64 = 1_000 * 365 * 86_400_000;

/// What the setting says, ms; 0 is never.
///
/// # Errors
/// 400 for what is no time, or a longer one than a thousand years.
pub fn parse(setting: &Value) -> Result<u64, Error> {
    let shown = setting.as_str().map_or_else(|| setting.to_string(), str::to_owned);
    if shown == "-1" || setting.is_null() {
        return Ok(0);
    }
    setting_ms(setting).filter(|ms| *ms <= MS_MAX).ok_or_else(|| {
        Error::illegal_argument(format!(
            "failed to parse setting [{DEFAULT_TTL}] with value [{shown}]: a time such as [30s], [12h] or \
             [7d] of at most a thousand years, or [-1] for none"
        ))
    })
}

/// The default expiry of a database that is no index, ms; `None` where it has none, or is an index.
#[must_use]
pub fn of_database(coordinator: &Coordinator, name: &str) -> Option<u64> {
    let found = metadata::definition(&coordinator.shared().metadata, name).ok()??;
    found.0.default_expiry_ms.filter(|_| found.0.documents.is_none())
}

/// Gives a database that is no index a default expiry, ms, or takes it (0); one that is not there yet is
/// created. Keys that are there keep what they have.
///
/// # Errors
/// Where nodes do not know it yet, the database follows another cluster's, or the metadata cannot be written.
pub async fn set_of_database(
    coordinator: &Coordinator,
    name: &str,
    after_ms: u64,
) -> Result<(), Error> {
    let shared = coordinator.shared();
    let no_database = || Error::illegal_argument(format!("[{name}] is no database"));
    let db = metadata::database_of(name).ok_or_else(no_database)?;
    let after_ms = Some(after_ms).filter(|ms| *ms > 0);
    if after_ms.is_some() {
        check_version(shared)?;
    }
    let failed = crate::documents::failed;
    let table = shared.table_for_write(db).await.map_err(failed)?;
    if table.follows().is_some() {
        let reason = format!("can not update setting [{DEFAULT_TTL}] of follower index [{name}]");
        return Err(Error::illegal_argument(reason));
    }
    let changing = shared.creation.lock().await;
    let changed = shared
        .update_definition(name, table.incarnation(), |definition| {
            let changes = is_of_rows(definition) && definition.default_expiry_ms != after_ms;
            if changes {
                definition.default_expiry_ms = after_ms;
            }
            changes
        })
        .await
        .map_err(failed)?;
    let definition = metadata::definition(&shared.metadata, name).map_err(Error::internal)?;
    let definition = definition.map(|(definition, _)| definition).filter(is_of_rows);
    let Some(definition) = definition else {
        let reason = format!("[{name}] is another table by now: come again");
        return Err(Error::new(409, "resource_already_exists_exception", reason));
    };
    table.follow(&definition);
    drop(changing);
    if changed {
        shared.tell_others().await;
    }
    Ok(())
}

/// Whether a table is a database of rows alone, and its own: it may have become something else meanwhile.
fn is_of_rows(definition: &TableDefinition) -> bool {
    definition.documents.is_none() && definition.follows.is_none()
}

/// Checks settings that an index is about to have.
///
/// # Errors
/// 400 for a default expiry that is no time, or that nodes do not know yet.
pub(crate) fn check(shared: &Shared, settings: &Map<String, Value>) -> Result<(), Error> {
    match settings.get(DEFAULT_TTL) {
        None | Some(Value::Null) => Ok(()),
        Some(setting) => parse(setting).and_then(|_| check_version(shared)),
    }
}

fn check_version(shared: &Shared) -> Result<(), Error> {
    if shared.version.allows(version::DEFAULT_EXPIRY) {
        return Ok(());
    }
    Err(Error::illegal_argument(format!(
        "[{DEFAULT_TTL}] is refused until every node of the cluster knows it: it came with version {} of \
         the cluster",
        version::DEFAULT_EXPIRY
    )))
}

/// Has a database's own default expiry be its index' once it is one, unless the index says otherwise.
pub(crate) fn attach(definition: &mut TableDefinition) {
    let Some(after_ms) = definition.default_expiry_ms.take() else { return };
    if let Some(documents) = &mut definition.documents {
        let setting = documents.settings.entry(DEFAULT_TTL);
        setting.or_insert_with(|| Value::String(format!("{after_ms}ms")));
    }
}

/// Steps whose writes give the keys that they make the default expiry of their table.
pub(crate) fn with_default(shared: &Shared, copies: &Copies, mut steps: Vec<Step>) -> Vec<Step> {
    let Some(after_ms) = copies.default_expiry_ms() else { return steps };
    if shared.version.allows(version::DEFAULT_EXPIRY) {
        for step in &mut steps {
            if let Step::Write(payload) = step {
                *payload = operation::with_default_expiry(payload, after_ms);
            }
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_default_expiry_is_a_time_or_none() {
        for (setting, ms) in [
            (json!("30s"), 30_000),
            (json!("7d"), 604_800_000),
            (json!("1500"), 1_500),
            (json!(1_500), 1_500),
            (json!("-1"), 0),
            (json!(null), 0),
        ] {
            assert_eq!(parse(&setting).unwrap(), ms, "{setting}");
        }
        for setting in [json!("soon"), json!("9999999d"), json!(-5), json!("1.5h"), json!([1])] {
            assert_eq!(parse(&setting).unwrap_err().status, 400, "{setting}");
        }
    }
}
