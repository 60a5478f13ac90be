//! What people ask of following: that a table follows another, that it stands still, goes on, or becomes a
//! table of its own; and how far it is. Errors are Elasticsearch's.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_index::Error;
use plimsoll_storage::operation::Operation;
use plimsoll_storage::partition::leader_of;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::definition::documents_of;
use super::mirror::check_documents;
use super::progress::Counters;
use super::remote::{Hold, LeaderTable, Remote, RemoteError, failed_remote};
use super::service::Following;
use crate::copies::LocalCopies;
use crate::documents::check_name;
use crate::metadata;
use crate::metadata::follows::Follows;
use crate::metadata::index::no_such_index;
use crate::metadata::placement::{Copy, CopyState};
use crate::metadata::table::TableDefinition;
use crate::metadata::version;
use crate::pacing::PacingStatistics;
use crate::replication::lead::Step;
use crate::replication::tables::{Copies, Table};
use crate::wire::write_error::failed;

/// How long a change has to be at work on this node before it is acknowledged.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(2);

/// What a table is to follow.
#[derive(Clone, Debug, Default)]
pub struct FollowRequest {
    /// The cluster, by its name in `cluster.remote.*`.
    pub remote: String,
    /// The table there.
    pub leader: String,
    /// Settings of its own by their full names, checked by whoever gives them.
    pub settings: Map<String, Value>,
    /// The numbers that Elasticsearch tunes following by.
    pub parameters: Map<String, Value>,
}

/// How a follower stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowerStatus {
    /// Its first copies are being made.
    Bootstrapping,
    /// The leader's records are taken.
    Active,
    /// It stands still, on demand.
    Paused,
    /// It becomes a table of its own.
    Ending,
}

/// What is known of a follower.
#[derive(Clone, Debug)]
pub struct FollowerOverview {
    /// Its name.
    pub name: String,
    /// The cluster that it follows, by its name here.
    pub remote: String,
    /// The table there.
    pub leader: String,
    /// How it stands.
    pub status: FollowerStatus,
    /// As they were given.
    pub parameters: Map<String, Value>,
    /// By ordinal.
    pub partitions: Vec<FollowerPartition>,
}

/// What a node knows of one partition of a follower.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FollowerPartition {
    /// Its ordinal.
    pub ordinal: u32,
    /// The leader's position of the log, and the one taken here.
    pub leader_lsn: u64,
    /// The one taken here.
    pub taken_lsn: u64,
    /// The sequence of the leader's last change, as far as it was told.
    pub leader_sequence: u64,
    /// The same of the node's own copy; none where it has none.
    pub sequence: Option<u64>,
    /// For how long it has lacked what the leader had, or may have where that is silent, ms; none where
    /// the leader never said how far it is.
    pub lag_ms: Option<u64>,
    /// How long until it is level, as it has come nearer of late, ms; none where it comes no nearer.
    pub left_ms: Option<u64>,
    /// What keeps it from being level: link, source, target, pace; none where it is level.
    pub limited_by: Option<String>,
    /// Since when nothing was heard of the leader, ms.
    pub silent_ms: Option<u64>,
    /// The mapping's version here.
    pub mapping_version: u64,
    /// What became of the records that came to this node.
    pub counters: Counters,
    /// Why it does not go on, and whether that will not mend by itself.
    pub trouble: Option<(String, bool)>,
}

impl Following {
    /// Creates a table that follows another; its copies are made meanwhile.
    ///
    /// # Errors
    /// Where there is no such cluster or leader, the name is taken, or nodes do not know how.
    pub async fn follow(&self, name: &str, request: FollowRequest) -> Result<(), Error> {
        let here = &self.here;
        if !here.replication.version.allows(version::FOLLOWING) {
            return Err(Error::illegal_argument(format!(
                "an index follows another only once every node of the cluster knows how: that came \
                 with version {} of the cluster",
                version::FOLLOWING
            )));
        }
        check_name(name)?;
        let remote = self.remote(&request.remote)?;
        if here.tables.by_name(name).is_some() {
            return Err(already_exists(name));
        }
        // Before its copies are begun: what comes after them is to be there then.
        let incarnation = here.router.names.next_u64();
        let hold = Hold {
            name: request.leader.clone(),
            cluster_uuid: self.keeping.cluster_uuid.clone(),
            follower: name.to_owned(),
            follower_incarnation: incarnation,
            ..Hold::default()
        };
        let noted = self.keeping.note_try(here, &request.remote, &hold).await;
        noted.map_err(failed)?;
        let leader = remote.follow(hold).await.map_err(|error| match error {
            RemoteError::NoTable(_) => no_leader(&request.leader),
            error => failed_remote(&request.remote, &error),
        })?;
        let follows = Follows {
            remote: request.remote,
            leader: request.leader,
            incarnation: leader.incarnation,
            log: leader.log,
            is_paused: false,
            is_ending: false,
            parameters: request.parameters,
            settings: request.settings,
            unknown: Map::new(),
        };
        if let Err(error) = self.make(name, incarnation, &leader, &follows).await {
            self.keeping.give_up(name.to_owned(), incarnation, &follows);
            return Err(error);
        }
        // It may be deleted before anybody has looked at it.
        let known = (name.to_owned(), Arc::new(follows));
        self.keeping.known.lock().insert(incarnation, known);
        self.keeping.note_leader(&leader);
        self.keeping.wake.notify_one();
        here.router.tell_others().await;
        Ok(())
    }

    /// Creates the table, with this incarnation.
    async fn make(
        &self,
        name: &str,
        incarnation: u64,
        leader: &LeaderTable,
        follows: &Follows,
    ) -> Result<(), Error> {
        check_leader(name, leader)?;
        let definition =
            TableDefinition { incarnation, ..self.create(name, leader, follows).await? };
        if let Err(Error { reason: why, .. }) = check_documents(name, &definition) {
            let reason = format!("leader index [{}] cannot be followed: {why}", leader.name);
            return Err(Error::illegal_argument(reason));
        }
        let here = &self.here;
        let _changing = here.changes.changing.lock().await;
        if here.tables.by_name(name).is_some() {
            return Err(already_exists(name));
        }
        let creation = self.keeping.creation(here, name, &definition, follows);
        here.replication.submit_metadata(&creation).await.map_err(failed)?;
        let created = metadata::definition(&here.metadata, name).map_err(Error::internal)?;
        let created = created.map(|(created, _)| created).ok_or_else(|| no_such_index(name))?;
        if created.incarnation != definition.incarnation {
            return Err(already_exists(name));
        }
        here.open_table(name, &created).await.map_err(failed)?;
        here.router.look.notify_one();
        Ok(())
    }

    /// What is to be created.
    async fn create(
        &self,
        name: &str,
        leader: &LeaderTable,
        follows: &Follows,
    ) -> Result<TableDefinition, Error> {
        let here = &self.here;
        let tables = here.tables.all();
        let is_alias = |table: &Arc<Table>| {
            table.index().is_some_and(|index| index.aliases.contains_key(name))
        };
        if here.tables.by_name(name).is_some() {
            return Err(already_exists(name));
        }
        if tables.iter().any(is_alias) {
            let reason = format!("Invalid index name [{name}], already exists as alias");
            return Err(Error::invalid("invalid_index_name_exception", reason));
        }
        let now_ms = here.world.time.wall_ms();
        let mut documents =
            leader.documents.as_ref().map(|it| documents_of(it, &follows.settings, now_ms));
        if let Some(documents) = &mut documents {
            // A name here is one thing; those that are taken are left out.
            documents.aliases.retain(|alias, _| {
                alias != name && !tables.iter().any(|table| table.name() == alias)
            });
        }
        let partitions = u32::try_from(leader.partitions.len()).unwrap_or(u32::MAX);
        here.changes.check_capacity(
            partitions,
            0,
            here.changes.wanted_copies(documents.as_ref()),
        )?;
        let definition = here.changes.new_definition(partitions, documents).await;
        let mut definition = definition.map_err(failed)?;
        for partition in &mut definition.partitions {
            // One node makes the first copy; the others are made of that.
            partition.copies.truncate(1);
            for Copy { state, .. } in &mut partition.copies {
                *state = CopyState::Initializing;
            }
            partition.epoch += 1;
            partition.is_imported = true;
        }
        definition.follows = Some(follows.clone());
        Ok(definition)
    }

    /// Has a follower stand still.
    ///
    /// # Errors
    /// Where there is none of this name, or it stands still already.
    pub async fn pause(&self, name: &str) -> Result<(), Error> {
        let (table, follows) = self.follower(name)?;
        if follows.is_paused {
            return Err(Error::illegal_argument(format!("no shard follow tasks for [{name}]")));
        }
        self.change(&table, |follows| follows.is_paused = true).await
    }

    /// Has a follower go on; parameters that are given take the place of the others.
    ///
    /// # Errors
    /// Where there is none of this name, or it follows already.
    pub async fn resume(&self, name: &str, parameters: Map<String, Value>) -> Result<(), Error> {
        let (table, follows) = self.followed(name, || {
            Error::illegal_argument(format!("follow index [{name}] does not have ccr metadata"))
        })?;
        if follows.is_ending {
            let reason = format!("follow index [{name}] is becoming an index of its own");
            return Err(Error::illegal_argument(reason));
        }
        if follows.is_active() {
            let reason = format!("follow index [{name}] is already following");
            return Err(Error::invalid("resource_already_exists_exception", reason));
        }
        self.change(&table, |follows| {
            follows.is_paused = false;
            follows.parameters.extend(parameters.clone());
        })
        .await
    }

    /// Makes a follower that stands still a table of its own: an operation in the log of each
    /// partition ends the following, so that all copies end it at the same place.
    ///
    /// # Errors
    /// Where there is none of this name, it goes on following, or copies of it are still being made;
    /// and where a partition's log does not take it in time: it is ended by the next try then.
    pub async fn unfollow(&self, name: &str) -> Result<(), Error> {
        let (table, follows) = self.follower(name)?;
        if follows.is_active() {
            let reason = format!(
                "cannot convert the follower index [{name}] to a non-follower, because it has not \
                 been paused"
            );
            return Err(Error::illegal_argument(reason));
        }
        if table.copies().iter().any(|copies| copies.is_first_to_come()) {
            let reason = format!(
                "cannot convert the follower index [{name}] to a non-follower, because its copies \
                 are still being made: delete it instead"
            );
            return Err(Error::illegal_argument(reason));
        }
        self.change(&table, |follows| follows.is_ending = true).await?;
        self.end(&table).await
    }

    /// Brings the end of a following about that was begun: also one that a crash cut off.
    pub(super) async fn end(&self, table: &Table) -> Result<(), Error> {
        let here = &self.here;
        for copies in table.copies() {
            let mut session = here.replication.sessions.session();
            let steps = vec![Step::Write(Operation::Unfollow.encode())];
            let ended = here.router.submit_own(copies, &mut session, steps).await;
            ended.map_err(|error| failed(error.into()))?;
        }
        let end = |definition: &mut TableDefinition| definition.follows.take().is_some();
        let ended =
            here.replication.update_definition(table.name(), table.incarnation(), end).await;
        ended.map_err(failed)?;
        known_by_all(here).await;
        Ok(())
    }

    /// Whether there is a table of this name, a follower or not.
    #[must_use]
    pub fn has_table(&self, name: &str) -> bool {
        self.here.tables.by_name(name).is_some()
    }

    /// The followers that this cluster has, by name, with what this node knows of them.
    #[must_use]
    pub fn overview(&self) -> Vec<FollowerOverview> {
        let tables = self.here.tables.all();
        let follower = |table: &Arc<Table>| {
            let follows = table.follows()?;
            Some(FollowerOverview {
                name: table.name().to_owned(),
                remote: follows.remote.clone(),
                leader: follows.leader.clone(),
                status: status(table, &follows),
                parameters: follows.parameters.clone(),
                partitions: self.partitions(table),
            })
        };
        tables.iter().filter_map(follower).collect()
    }

    /// How fast this node may copy and follow, and how long that was held back.
    #[must_use]
    pub fn pacing(&self) -> PacingStatistics {
        self.keeping.pacing.statistics()
    }

    fn partitions(&self, table: &Table) -> Vec<FollowerPartition> {
        let now = self.keeping.world.time.now();
        let is_paced = self.keeping.pacing.records.bounds();
        let mapping_version = table.index().map_or(0, |index| index.mapping_version);
        let partition = |copies: &Arc<Copies>| {
            let known = self.keeping.progress.of(copies.id);
            let level = known.level.clone().unwrap_or_default();
            let local = copies.local();
            let stands_at = local.as_ref().and_then(|it| leader_of(&it.store).ok().flatten());
            let stands_at = stands_at.map_or(0, |leader| leader.position.link.lsn.0);
            // Apply may have stopped: at a fork of the leader's log, or a damaged copy.
            let fault = local.as_ref().and_then(|it| it.fault());
            let trouble = known.trouble.as_ref().map(|it| (it.why.clone(), it.is_fatal));
            let sequence = local.as_ref().map(|it| it.sequence());
            FollowerPartition {
                ordinal: copies.id.ordinal,
                leader_lsn: level.lsn.max(stands_at),
                taken_lsn: known.taken.max(stands_at),
                leader_sequence: level.sequence.or(sequence).unwrap_or(0),
                sequence,
                lag_ms: known.lag_ms(now),
                left_ms: known.left_ms(now),
                limited_by: known.limited_by(is_paced, now).map(|bound| bound.word().to_owned()),
                silent_ms: known
                    .heard_at
                    .map(|at| u64::try_from((now - at).as_millis()).unwrap_or(u64::MAX)),
                mapping_version,
                counters: known.counters,
                trouble: fault.map(|why| (why, true)).or(trouble),
            }
        };
        table.copies().iter().map(partition).collect()
    }

    pub(super) fn remote(&self, name: &str) -> Result<Arc<dyn Remote>, Error> {
        self.keeping.remotes.get(name).ok_or_else(|| {
            let reason = format!("no such remote cluster: [{name}]");
            Error::not_found("no_such_remote_cluster_exception", reason)
        })
    }

    /// A table that follows.
    fn follower(&self, name: &str) -> Result<(Arc<Table>, Arc<Follows>), Error> {
        self.followed(name, || {
            Error::illegal_argument(format!("index [{name}] is not a follower index"))
        })
    }

    fn followed(
        &self,
        name: &str,
        otherwise: impl FnOnce() -> Error,
    ) -> Result<(Arc<Table>, Arc<Follows>), Error> {
        let table = self.here.tables.by_name(name).ok_or_else(|| no_such_index(name))?;
        let follows = table.follows().ok_or_else(otherwise)?;
        Ok((table, follows))
    }

    async fn change(&self, table: &Table, change: impl Fn(&mut Follows)) -> Result<(), Error> {
        let here = &self.here;
        let change = |definition: &mut TableDefinition| match &mut definition.follows {
            Some(follows) => {
                let before = follows.clone();
                change(follows);
                *follows != before
            }
            None => false,
        };
        let changed =
            here.replication.update_definition(table.name(), table.incarnation(), change).await;
        changed.map_err(failed)?;
        known_by_all(here).await;
        Ok(())
    }
}

/// Waits until all nodes that are there work as the metadata says.
async fn known_by_all(here: &LocalCopies) {
    here.router.look.notify_one();
    here.router.reconciled_to(here.metadata.applied().0, FOLLOW_TIMEOUT).await;
    here.router.tell_others().await;
}

fn status(table: &Table, follows: &Follows) -> FollowerStatus {
    if follows.is_ending {
        FollowerStatus::Ending
    } else if follows.is_paused {
        FollowerStatus::Paused
    } else if table.copies().iter().any(|copies| copies.is_first_to_come()) {
        FollowerStatus::Bootstrapping
    } else {
        FollowerStatus::Active
    }
}

/// Whether a table of this name can follow that leader.
fn check_leader(name: &str, leader: &LeaderTable) -> Result<(), Error> {
    if leader.is_follower {
        return Err(Error::illegal_argument(format!(
            "leader index [{}] follows another index itself: a follower cannot be followed",
            leader.name
        )));
    }
    if leader.documents.is_none() && !metadata::is_database(name) {
        return Err(Error::illegal_argument(format!(
            "[{}] has no mapping: only a table of a database (db0 to db15) can follow it",
            leader.name
        )));
    }
    Ok(())
}

fn no_leader(name: &str) -> Error {
    Error::illegal_argument(format!("leader index [{name}] does not exist"))
}

fn already_exists(name: &str) -> Error {
    let reason = format!("index [{name}] already exists");
    Error::invalid("resource_already_exists_exception", reason).with("index", name)
}
