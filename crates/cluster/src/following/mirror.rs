//! What a follower has of its leader beside rows: mapping, settings and aliases. They come from the leader's
//! metadata into this cluster's, and are looked at first: what this version cannot read would stop every
//! node that reads it there.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::definition::{aliases_of, documents_of, settings_of};
use super::remote::{LeaderTable, Remote, RemoteError};
use super::service::Keeping;
use crate::copies::LocalCopies;
use crate::documents;
use crate::metadata::follows::{Follows, travels};
use crate::metadata::index::IndexMetadata;
use crate::metadata::table::TableDefinition;
use crate::replication::tables::Table;

/// For how long it is known who has copies of a leader's table.
const LEADER_OF_LATE: Duration = Duration::from_secs(3);
/// Of how many tables.
const LEADERS_MAX: usize = 64;

impl Keeping {
    /// A leader's table, if it is the one that is followed.
    pub(super) async fn leader(
        &self,
        follows: &Follows,
    ) -> Result<(Arc<dyn Remote>, LeaderTable), RemoteError> {
        let unknown =
            || RemoteError::Unreachable(format!("no such remote cluster: [{}]", follows.remote));
        let remote = self.remotes.get(&follows.remote).ok_or_else(unknown)?;
        let leader = remote.table(&follows.leader).await?;
        if leader.incarnation != follows.incarnation {
            let why = format!("the leader's table [{}] was deleted and made anew", follows.leader);
            return Err(RemoteError::NoTable(why));
        }
        if leader.log != follows.log {
            return Err(RemoteError::Forked("the leader's log is another".to_owned()));
        }
        Ok((remote, leader))
    }

    /// The same as it was some seconds ago, where it was asked for then: enough to know whom to ask.
    pub(super) async fn leader_of_late(
        &self,
        follows: &Follows,
    ) -> Result<(Arc<dyn Remote>, LeaderTable), RemoteError> {
        let known = self.leaders.lock().get(&follows.incarnation).cloned();
        let now = self.world.time.now();
        let of_late = known.filter(|(at, _)| now - *at < LEADER_OF_LATE);
        match (of_late, self.remotes.get(&follows.remote)) {
            (Some((_, leader)), Some(remote)) => Ok((remote, leader)),
            _ => self.leader(follows).await,
        }
    }

    /// Remembers a leader for those who begin to copy it.
    pub(super) fn note_leader(&self, leader: &LeaderTable) {
        let (mut leaders, now) = (self.leaders.lock(), self.world.time.now());
        leaders.retain(|_, (at, _)| now - *at < LEADER_OF_LATE);
        if leaders.len() < LEADERS_MAX {
            leaders.insert(leader.incarnation, (now, leader.clone()));
        }
    }

    /// Takes over a leader's mapping, settings and aliases, and tells it how far its follower is.
    ///
    /// # Errors
    /// Why not now; what this version cannot read is never taken over.
    pub(super) async fn take_over(
        &self,
        here: &Arc<LocalCopies>,
        table: &Table,
        follows: &Follows,
    ) -> Result<(), RemoteError> {
        // What the records that were taken need, before what only spares the leader's log.
        let remote = self.take_documents_over(here, table, follows).await?;
        self.hold(here, &*remote, table, follows).await
    }

    /// Takes over a leader's mapping, settings and aliases; gives the way to it.
    ///
    /// # Errors
    /// As [`Self::take_over`].
    pub(super) async fn take_documents_over(
        &self,
        here: &Arc<LocalCopies>,
        table: &Table,
        follows: &Follows,
    ) -> Result<Arc<dyn Remote>, RemoteError> {
        let (remote, leader) = self.leader(follows).await?;
        let name = table.name();
        let tables = here.tables.all();
        let is_taken = |alias: &str| tables.iter().any(|it| it.name() == alias);
        let why = Mutex::new(None);
        let change = |definition: &mut TableDefinition| {
            let before = definition.documents.clone();
            if !take_documents(definition, &leader, &is_taken, self.world.time.wall_ms()) {
                return false;
            }
            // What this version cannot read would stop every node that looks at it.
            let checked = check_documents(name, definition);
            if let Err(error) = checked {
                definition.documents = before;
                *why.lock() = Some(error.reason);
                return false;
            }
            true
        };
        let changed = here.replication.update_definition(name, table.incarnation(), change).await;
        if let Some(why) = why.into_inner() {
            let words = format!("the leader's mapping or settings cannot be taken over: {why}");
            return Err(RemoteError::Forked(words));
        }
        if changed.map_err(|error| RemoteError::Unreachable(error.to_string()))? {
            tracing::debug!(table = name, "mapping, settings or aliases are taken over");
            here.router.look.notify_one();
        }
        Ok(remote)
    }
}

/// Makes a follower's mapping, settings and aliases the leader's; says whether they were others.
fn take_documents(
    definition: &mut TableDefinition,
    leader: &LeaderTable,
    is_taken: &dyn Fn(&str) -> bool,
    now_ms: u64,
) -> bool {
    let Some(follows) = definition.follows.as_ref().filter(|it| !it.is_ending) else {
        return false;
    };
    let Some(documents) = &leader.documents else { return false };
    match &mut definition.documents {
        None => {
            let mut documents = documents_of(documents, &follows.settings, now_ms);
            documents.aliases.retain(|alias, _| !is_taken(alias));
            definition.documents = Some(documents);
            true
        }
        Some(own) => {
            let before = own.clone();
            if documents.mapping_version > own.mapping_version {
                own.mapping = documents.mapping.clone();
                own.mapping_version = documents.mapping_version;
            }
            own.aliases = aliases_of(documents);
            // A name here is one thing.
            own.aliases.retain(|alias, _| !is_taken(alias));
            let kept = own.settings.iter().filter(|(name, _)| !travels(name));
            let mut settings: Map<String, Value> =
                kept.map(|(name, value)| (name.clone(), value.clone())).collect();
            let mut theirs = settings_of(documents, &Map::new());
            // What was changed here since goes over what it was created with.
            theirs.retain(|name, _| !settings.contains_key(name));
            settings.append(&mut theirs);
            own.settings = settings;
            *own != before
        }
    }
}

/// Whether every node can read what a table is as an index.
pub(super) fn check_documents(name: &str, definition: &TableDefinition) -> Result<(), Error> {
    documents::checked(&json!(definition))?;
    IndexMetadata::of(name, definition).map(drop)
}
