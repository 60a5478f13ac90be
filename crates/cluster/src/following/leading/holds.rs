//! What is kept in the log for the followers of other clusters: how far each has come, as objects of
//! the metadata, one for each table here, cluster there and table there.
//!
//! A key has as many holds at most as it leaves to others.
//!
//! A hold is begun before its follower copies files, so that no record between those and the stream
//! can be trimmed; it moves forward with the follower and ends when the follower says so, or its table
//! here goes. It has no time limit. What it spares is worked out by `sparing.rs`.

use std::time::Duration;

use plimsoll_index::Error;
use plimsoll_log::GroupId;
use plimsoll_storage::Reply;
use serde::{Deserialize, Serialize};

use super::{Leading, METADATA_TIME, unreachable};
use crate::following::remote::{ANY_TABLE, Held, Hold, HoldChange, LeaderTable, RemoteError};
use crate::metadata;
use crate::metadata::error::MetadataError;
use crate::metadata::table::TableDefinition;
use crate::replication::partition::Partition;
use crate::wire::write_error::failed;

/// The kind of the metadata's objects that holds are.
pub(super) const KIND: &str = "follower";
/// The most holds of one table.
const OF_TABLE_MAX: usize = 64;
/// The most in all, of which one key has half.
const HOLDS_MAX: usize = 2048;
/// The longest name in a hold, bytes.
const NAME_BYTES_MAX: usize = 255;
/// How often a change is tried where another node's comes between: this node's own wait for each other.
const ATTEMPTS_MAX: u32 = 32;
/// How much longer the pause after each attempt may be, ms.
const PAUSE_MS: u64 = 10;

/// What is kept for a follower.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowerHold {
    /// The incarnation of the table here.
    pub table: u64,
    /// Its name.
    pub name: String,
    /// The follower's cluster.
    pub cluster_uuid: String,
    /// Its table there.
    pub follower: String,
    /// The incarnation of that.
    pub follower_incarnation: u64,
    /// What comes after these positions is kept, by ordinal.
    pub positions: Vec<u64>,
    /// The key that was shown when they were told; empty where it was not noted yet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// When that was written last, in log time, ms since 1970.
    pub at_ms: u64,
    /// Whether nothing is kept any more, because it was too much.
    #[serde(default)]
    pub is_dropped: bool,
    /// What the fullest log group held when that was decided, bytes.
    #[serde(default)]
    pub bytes: Option<u64>,
}

impl FollowerHold {
    /// The follower's uuid in its cluster: what `forget_follower` takes.
    #[must_use]
    pub fn follower_uuid(&self) -> String {
        crate::metadata::index::uuid(self.follower_incarnation)
    }
}

/// Why it is not known what is kept for followers. Nobody may take that for nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HoldsError {
    /// The metadata cannot be read.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// A hold is not what this version reads.
    #[error("what is kept for the follower `{name}`: {source}")]
    Unreadable {
        /// The name of its object.
        name: String,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// What a partition's group has: everything after `begin`, and this node applied it up to `applied`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reach {
    begin: u64,
    applied: u64,
}

impl Leading {
    /// Changes what is kept for a follower, and says what is kept then.
    ///
    /// # Errors
    /// [`RemoteError::NoTable`] where the table is not there, or is another by now;
    /// [`RemoteError::Refused`] where the change makes no sense or there are too many followers;
    /// [`RemoteError::Unreachable`] where the metadata cannot be read or written now.
    pub async fn hold(&self, hold: Hold) -> Result<Held, RemoteError> {
        check_names(&hold)?;
        let here = &self.here;
        if !here.router.pass_metadata(METADATA_TIME).await {
            return Err(unreachable("the node is cut off from its log"));
        }
        let name = object_name(&hold);
        let _changing = self.holding.lock().await;
        for attempt in 0..ATTEMPTS_MAX {
            if attempt > 0 {
                // Somewhere in it, so that those who met do not meet again.
                let pause_ms = here.router.chance.next_u64() % (PAUSE_MS * u64::from(attempt) + 1);
                here.world.time.sleep(Duration::from_millis(pause_ms)).await;
            }
            // The change first: what is newer than it is read again.
            let seen = metadata::objects_change(&here.metadata, KIND).map_err(unreachable)?;
            let all = all(&here.metadata).map_err(unreachable)?;
            let current = all.iter().find(|(known, _)| *known == name).map(|(_, held)| held);
            let command = if hold.change == HoldChange::End {
                let Some((ended, _)) = all.iter().find(|(_, held)| is_ended(held, &hold)) else {
                    return Ok(Held::default());
                };
                metadata::delete_object(KIND, ended)
            } else {
                let reaches = self.reaches(&hold).await?;
                if current.is_none() && hold.change == HoldChange::Begin {
                    check_room(&all, &hold)?;
                }
                let at_ms = here.metadata.log_time_ms();
                match changed(current, &hold, &reaches, at_ms)? {
                    Some(changed) if Some(&changed) != current => put(&name, &changed),
                    unchanged => return Ok(held(unchanged.as_ref())),
                }
            };
            let write = metadata::change_objects(KIND, vec![command], seen);
            let written = here.replication.submit_metadata(&write).await;
            if written.map_err(|error| unreachable(error.message))? != Reply::NilArray {
                let now = one(&here.metadata, &name).map_err(unreachable)?;
                return Ok(held(now.as_ref()));
            }
        }
        Err(unreachable("others change what is kept for followers at the same time: come again"))
    }

    /// A table, whose log is kept for a follower from now on.
    ///
    /// # Errors
    /// As [`Leading::hold`].
    pub async fn follow(&self, hold: Hold) -> Result<LeaderTable, RemoteError> {
        let no_table = || RemoteError::NoTable(format!("there is no table `{}`", hold.name));
        let table = self.table(&hold.name).await?.ok_or_else(no_table)?;
        self.hold(Hold { table: table.incarnation, change: HoldChange::Begin, ..hold }).await?;
        Ok(table)
    }

    /// Ends what is kept for a follower, by its name and uuid in its cluster, whatever cluster that is.
    ///
    /// # Errors
    /// Where the metadata cannot be written.
    pub async fn forget(&self, name: &str, follower: &str, uuid: &str) -> Result<(), Error> {
        let all = all(&self.here.metadata).map_err(Error::internal)?;
        let is_meant = |held: &FollowerHold| {
            held.name == name && held.follower == follower && held.follower_uuid() == uuid
        };
        for (object, _) in all.into_iter().filter(|(_, held)| is_meant(held)) {
            let written =
                self.here.replication.write_metadata(metadata::delete_object(KIND, &object)).await;
            written.map_err(failed)?;
        }
        Ok(())
    }

    /// What is kept for followers, of all tables.
    ///
    /// # Errors
    /// [`RemoteError::Unreachable`] where the metadata cannot be read.
    pub fn holds(&self) -> Result<Vec<FollowerHold>, RemoteError> {
        let all = all(&self.here.metadata).map_err(unreachable)?;
        Ok(all.into_iter().map(|(_, held)| held).collect())
    }

    /// What the group of each partition of the table has.
    async fn reaches(&self, hold: &Hold) -> Result<Vec<Reach>, RemoteError> {
        let found = metadata::definition(&self.here.metadata, &hold.name);
        let found = found.map_err(unreachable)?.map(|(definition, _)| definition);
        let no_table = || RemoteError::NoTable(format!("there is no table `{}`", hold.name));
        let definition = found.filter(|it| it.incarnation == hold.table).ok_or_else(no_table)?;
        let groups = groups_of(&definition);
        let log = std::sync::Arc::clone(&self.here.replication.log);
        let asked = groups.clone();
        // A server may have to be asked.
        let bounds =
            move || asked.into_iter().map(|group| log.bounds(group)).collect::<Result<Vec<_>, _>>();
        let bounds = self.here.world.tasks.blocking(bounds).await;
        let bounds = bounds.map_err(unreachable)?.map_err(unreachable)?;
        // What is not read here may be applied by another node up to where the log says that it ends.
        let reads = |group| self.here.replication.groups.reads(group);
        let tail = |group| self.here.replication.tails.get(&group).filter(|_| reads(group));
        let reach = |(group, bounds): (GroupId, plimsoll_log::Bounds)| Reach {
            begin: bounds.first.0.saturating_sub(1),
            applied: tail(group).map_or(bounds.last, |tail| tail.applied()).0,
        };
        Ok(groups.into_iter().zip(bounds).map(reach).collect())
    }
}

/// The groups of a table's partitions, by ordinal.
pub(super) fn groups_of(definition: &TableDefinition) -> Vec<GroupId> {
    definition.partitions.iter().map(|partition| GroupId(partition.group)).collect()
}

/// All holds, by the names of their objects.
///
/// # Errors
/// Where they cannot be read.
pub(super) fn all(metadata: &Partition) -> Result<Vec<(String, FollowerHold)>, HoldsError> {
    let held = |(name, bytes): (String, bytes::Bytes)| match serde_json::from_slice(&bytes) {
        Ok(held) => Ok((name, held)),
        Err(source) => Err(HoldsError::Unreadable { name, source }),
    };
    metadata::objects_bytes(metadata, KIND)?.into_iter().map(held).collect()
}

fn one(metadata: &Partition, name: &str) -> Result<Option<FollowerHold>, HoldsError> {
    Ok(all(metadata)?.into_iter().find(|(known, _)| known == name).map(|(_, held)| held))
}

/// The write that keeps a hold.
pub(super) fn put(name: &str, held: &FollowerHold) -> plimsoll_storage::Argv {
    let value = serde_json::to_vec(held).expect("a hold is plain data");
    metadata::put_object(KIND, name, &value)
}

fn object_name(hold: &Hold) -> String {
    let Hold { table, cluster_uuid, follower_incarnation, .. } = hold;
    format!("{table:016x}:{cluster_uuid}:{follower_incarnation:016x}")
}

/// Whether an end is of this: a follower's name is drawn, and used once. The key was looked at by the table's name.
fn is_ended(held: &FollowerHold, end: &Hold) -> bool {
    held.name == end.name
        && held.cluster_uuid == end.cluster_uuid
        && held.follower_incarnation == end.follower_incarnation
        && (held.table == end.table || end.table == ANY_TABLE)
}

fn check_names(hold: &Hold) -> Result<(), RemoteError> {
    let names = [&hold.name, &hold.cluster_uuid, &hold.follower];
    match names.into_iter().find(|name| !(1..=NAME_BYTES_MAX).contains(&name.len())) {
        None => Ok(()),
        Some(name) => {
            let bytes = name.len();
            Err(RemoteError::Refused(format!("a follower has no name of {bytes} bytes")))
        }
    }
}

fn check_room(all: &[(String, FollowerHold)], hold: &Hold) -> Result<(), RemoteError> {
    let all = || all.iter().map(|(_, held)| held);
    let of_table = || all().filter(|held| held.table == hold.table);
    let of_key = |held: &&FollowerHold| held.key == hold.key && !hold.key.is_empty();
    let refused = |count: usize, what: &str| {
        Err(RemoteError::Refused(format!("{count} tables follow this {what} already")))
    };
    let has_room = |count: usize, own: usize, max: usize| own < max.saturating_sub(count);
    let count = of_table().count();
    if !has_room(count, of_table().filter(of_key).count(), OF_TABLE_MAX) {
        return refused(count, "one");
    }
    let count = all().count();
    if !has_room(count, all().filter(of_key).count(), HOLDS_MAX) {
        return refused(count, "cluster");
    }
    Ok(())
}

fn held(held: Option<&FollowerHold>) -> Held {
    let kept = held.filter(|held| !held.is_dropped);
    Held {
        positions: kept.map(|held| held.positions.clone()).unwrap_or_default(),
        is_dropped: held.is_some_and(|held| held.is_dropped),
    }
}

/// What is kept after a change that is no end; `None` where nothing is.
fn changed(
    current: Option<&FollowerHold>,
    hold: &Hold,
    reaches: &[Reach],
    at_ms: u64,
) -> Result<Option<FollowerHold>, RemoteError> {
    let kept = current.filter(|held| !held.is_dropped && held.positions.len() == reaches.len());
    let positions = match &hold.change {
        HoldChange::End => return Ok(None),
        HoldChange::Begin => match kept {
            Some(kept) => return Ok(Some(kept.clone())),
            None => reaches.iter().map(|reach| reach.begin).collect(),
        },
        HoldChange::Positions(told) if told.len() != reaches.len() => {
            let (told, count) = (told.len(), reaches.len());
            let words = format!("{told} positions of a table of {count} partitions");
            return Err(RemoteError::Refused(words));
        }
        HoldChange::Positions(told) => {
            // Who tells 0 does not know: another node does.
            let stored = current.map_or(&[][..], |held| &held.positions);
            let known = |(at, told): (usize, &u64)| match told {
                0 => stored.get(at).copied().unwrap_or(0),
                told => *told,
            };
            let told: Vec<u64> = told.iter().enumerate().map(known).collect();
            let now = told.iter().zip(reaches).map(|(told, reach)| (*told).min(reach.applied));
            match (kept, current) {
                (Some(kept), _) => {
                    now.zip(&kept.positions).map(|(now, before)| now.max(*before)).collect()
                }
                // It was dropped, but was not that far behind: what it needs is still there.
                (None, Some(_)) if told.iter().zip(reaches).all(|(at, it)| *at >= it.begin) => {
                    now.zip(reaches).map(|(now, reach)| now.max(reach.begin)).collect()
                }
                // Each of the follower's nodes knows of its own partitions: they add up.
                (None, Some(dropped)) => {
                    let positions = now.collect();
                    return Ok(Some(FollowerHold { positions, ..dropped.clone() }));
                }
                (None, None) => return Ok(None),
            }
        }
    };
    if kept.is_some_and(|kept| kept.positions == positions) {
        return Ok(kept.cloned());
    }
    let Hold { name, table, cluster_uuid, follower, follower_incarnation, key, .. } = hold.clone();
    Ok(Some(FollowerHold {
        key,
        table,
        name,
        cluster_uuid,
        follower,
        follower_incarnation,
        positions,
        at_ms,
        is_dropped: false,
        bytes: None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REACHES: [Reach; 2] = [Reach { begin: 10, applied: 20 }, Reach { begin: 0, applied: 5 }];

    fn hold(change: HoldChange) -> Hold {
        Hold { name: "t".to_owned(), table: 7, change, ..Hold::default() }
    }

    fn kept(positions: &[u64]) -> FollowerHold {
        let positions = positions.to_vec();
        FollowerHold { name: "t".to_owned(), table: 7, positions, ..FollowerHold::default() }
    }

    fn positions(current: Option<&FollowerHold>, change: HoldChange) -> Option<Vec<u64>> {
        let changed = changed(current, &hold(change), &REACHES, 0).unwrap();
        Some(changed.filter(|it| !it.is_dropped)?.positions)
    }

    #[test]
    fn everything_is_kept_at_first_and_positions_never_go_back() {
        assert_eq!(positions(None, HoldChange::Begin), Some(vec![10, 0]));
        let at = kept(&[12, 3]);
        assert_eq!(positions(Some(&at), HoldChange::Begin), Some(vec![12, 3]));
        let to = |positions: [u64; 2]| HoldChange::Positions(positions.to_vec());
        assert_eq!(positions(Some(&at), to([15, 4])), Some(vec![15, 4]));
        assert_eq!(positions(Some(&at), to([11, 4])), Some(vec![12, 4]));
        assert_eq!(positions(Some(&at), to([30, 30])), Some(vec![20, 5]), "nobody is further");
        // Without a beginning nothing is kept.
        assert_eq!(positions(None, to([15, 4])), None);
        let few = changed(Some(&at), &hold(HoldChange::Positions(vec![1])), &REACHES, 0);
        assert!(matches!(few, Err(RemoteError::Refused(_))));
    }

    #[test]
    fn a_key_leaves_as_many_holds_as_it_has() {
        let mut all = Vec::new();
        let mut begun = |table: u64, key: &str| {
            let wanted = Hold { table, key: key.to_owned(), ..hold(HoldChange::Begin) };
            let has_room = check_room(&all, &wanted).is_ok();
            if has_room {
                let number = all.len().to_string();
                let key = key.to_owned();
                all.push((number, FollowerHold { table, key, ..kept(&[]) }));
            }
            has_room
        };
        let count = |of: &mut dyn FnMut(u64) -> bool| (0..3000).filter(|at| of(*at)).count();
        assert_eq!(count(&mut |_| begun(7, "one")), OF_TABLE_MAX / 2);
        assert_eq!(count(&mut |at| begun(8 + at, "one")), HOLDS_MAX / 2 - OF_TABLE_MAX / 2);
        assert!(begun(7, "two") && begun(8, "two"));
        // Those of an older version have none: they bound each other alone.
        assert_eq!(count(&mut |_| begun(7, "")), OF_TABLE_MAX / 2 - 1);
        assert!(!begun(7, "two") && begun(9, "two"));
    }

    #[test]
    fn what_was_dropped_is_kept_again_where_all_of_it_is_still_there() {
        let dropped = FollowerHold { is_dropped: true, ..kept(&[8, 3]) };
        let to = |positions: [u64; 2]| HoldChange::Positions(positions.to_vec());
        assert_eq!(positions(Some(&dropped), to([9, 4])), None);
        assert_eq!(positions(Some(&dropped), to([10, 4])), Some(vec![10, 4]));
        assert_eq!(positions(Some(&dropped), HoldChange::Begin), Some(vec![10, 0]));
    }
}
