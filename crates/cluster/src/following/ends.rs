//! Ends of following that a leader has not heard of yet: until it does, it keeps its log for a follower that
//! is gone. What is to be told is noted as an object of this cluster's metadata before the leader is asked, and once
//! more by the write that creates the table, and stays until the leader knows the end; so no crash, restart, absence
//! or lost answer loses one. Whichever node acts tells what the one that saw the end could not. What an end does is
//! the leader's to know (`leading/holds.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_storage::ErrorReply;
use plimsoll_storage::operation::Operation;
use serde::{Deserialize, Serialize};

use super::remote::{ANY_TABLE, Hold, HoldChange, RemoteError};
use super::service::Keeping;
use super::slots::Taken;
use crate::copies::LocalCopies;
use crate::metadata;
use crate::metadata::error::MetadataError;
use crate::metadata::follows::Follows;
use crate::metadata::table::TableDefinition;

/// The kind of the metadata's objects that these are.
const KIND: &str = "following";
/// The most ends that wait; beyond it the oldest is given up, and its leader's budget ends what is kept.
const ENDS_MAX: usize = 1024;
/// How long a try to follow may take until its table is created, ms: what is noted of one that is under way is no
/// end yet.
const TRY_MS_MAX: u64 = 60_000;
/// How long an end waits where no remote cluster of its name is set: 7 days.
const UNKNOWN_REMOTE_MS_MAX: u64 = 7 * 24 * 3_600_000;

/// A table that follows, or has followed, and what its leader is told in the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Noted {
    /// The leader's cluster, by its name here.
    remote: String,
    /// Names the table here and the leader's.
    end: Hold,
    /// When it was noted, in log time, ms since 1970.
    at_ms: u64,
}

/// What became of telling an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The leader knows it, or will never need to.
    Over,
    /// It is to be told again.
    Waits,
}

impl Keeping {
    /// Notes a try to follow before its leader is asked: the answer may be lost, and this node too, and the leader
    /// keeps its log all the same. Which table that is of is the leader's to know.
    ///
    /// # Errors
    /// Where the metadata cannot be written.
    pub(super) async fn note_try(
        &self,
        here: &LocalCopies,
        remote: &str,
        begun: &Hold,
    ) -> Result<(), ErrorReply> {
        let end = Hold { change: HoldChange::End, ..begun.clone() };
        // Log time stands still where nothing is written.
        let at_ms = here.world.time.wall_ms().max(here.metadata.log_time_ms());
        let name = name_of(end.follower_incarnation);
        let value = bytes_of(&Noted { remote: remote.to_owned(), end, at_ms });
        let note = metadata::put_object(KIND, &name, &value);
        here.replication.write_metadata(note).await.map(drop)
    }

    /// The write that creates a table which follows, and notes that its leader is to learn of its end.
    pub(super) fn creation(
        &self,
        here: &LocalCopies,
        name: &str,
        definition: &TableDefinition,
        follows: &Follows,
    ) -> Operation {
        let incarnation = definition.incarnation;
        let end = self.hold_of(name, incarnation, follows, HoldChange::End);
        let at_ms = here.metadata.log_time_ms();
        let value = bytes_of(&Noted { remote: follows.remote.clone(), end, at_ms });
        let note = metadata::put_object(KIND, &name_of(incarnation), &value);
        let commands = vec![metadata::create_table(name, definition), note];
        Operation::Transaction { watched: Vec::new(), commands }
    }

    /// A table follows no more, or is gone: its leader need keep nothing for it. Tells it beside everything
    /// else, once; where it does not answer, [`Keeping::tell_ends`] goes on.
    pub(super) fn tell_end(self: &Arc<Self>, name: String, incarnation: u64, follows: &Follows) {
        let end = self.hold_of(&name, incarnation, follows, HoldChange::End);
        let (keeping, remote) = (Arc::clone(self), follows.remote.clone());
        self.children.begin("tell an end", async move {
            let Some(here) = keeping.here.upgrade() else { return };
            let at_ms = here.metadata.log_time_ms();
            keeping.tell(&here, &Noted { remote, end, at_ms }).await;
        });
    }

    /// A table that was to follow may not have been created: its leader need keep nothing for it. What is noted
    /// stays, as it may have been all the same.
    pub(super) fn give_up(self: &Arc<Self>, name: String, incarnation: u64, follows: &Follows) {
        let end = self.hold_of(&name, incarnation, follows, HoldChange::End);
        let Some(remote) = self.remotes.get(&follows.remote) else { return };
        self.children.begin("give up", async move {
            if let Err(error) = remote.hold(end).await {
                tracing::debug!(%error, "a leader is not told that it need keep nothing");
            }
        });
    }

    /// Tells all ends that no leader has heard of, beside everything else.
    pub(super) fn tell_ends(self: &Arc<Self>, here: &Arc<LocalCopies>, turn: Taken<()>) {
        let (keeping, here) = (Arc::clone(self), Arc::clone(here));
        self.children.begin("tell ends", async move {
            match ended(&here) {
                Ok(mut ended) => {
                    // Of tries the leader knows something in few cases.
                    ended.sort_unstable_by_key(|it| (it.end.table != ANY_TABLE, it.at_ms));
                    let too_many = ended.len().saturating_sub(ENDS_MAX);
                    for noted in ended.drain(..too_many) {
                        let (leader, remote) = (&noted.end.name, &noted.remote);
                        tracing::warn!(leader, remote, "too many ends wait: one is told no more");
                        keeping.forget(&here, &noted).await;
                    }
                    // One that is away is not waited for once for each of its ends.
                    let mut away = BTreeSet::new();
                    for noted in ended {
                        if !away.contains(&noted.remote)
                            && keeping.tell(&here, &noted).await == Outcome::Waits
                        {
                            away.insert(noted.remote);
                        }
                    }
                }
                Err(error) => tracing::error!(%error, "ends of following cannot be told"),
            }
            drop(turn);
        });
    }

    async fn tell(&self, here: &LocalCopies, noted: &Noted) -> Outcome {
        let told = match self.remotes.get(&noted.remote) {
            Some(remote) => Some(remote.hold(noted.end.clone()).await.map(drop)),
            None => None,
        };
        let outcome = outcome(told, noted.at_ms, here.metadata.log_time_ms());
        if outcome == Outcome::Over {
            self.forget(here, noted).await;
        }
        outcome
    }

    /// Deletes a note, if it is still that one: the table of a try may have been created meanwhile. Where it
    /// stays it is told once more, which changes nothing at the leader.
    async fn forget(&self, here: &LocalCopies, noted: &Noted) {
        let name = name_of(noted.end.follower_incarnation);
        let Ok(seen) = metadata::objects_change(&here.metadata, KIND) else { return };
        let there = metadata::object(&here.metadata, KIND, &name);
        let there: Option<Noted> = there.and_then(|it| serde_json::from_value(it).ok());
        if there.is_none_or(|it| (it.remote, it.end) != (noted.remote.clone(), noted.end.clone())) {
            return;
        }
        let delete = vec![metadata::delete_object(KIND, &name)];
        let write = metadata::change_objects(KIND, delete, seen);
        if let Err(error) = here.replication.submit_metadata(&write).await {
            tracing::debug!(error = error.message.as_ref(), "an end that was told stays noted");
        }
    }
}

fn bytes_of(noted: &Noted) -> Vec<u8> {
    serde_json::to_vec(noted).expect("a note is plain data")
}

impl Noted {
    /// Whether it is of a try that may be under way.
    fn is_tried(&self, now_ms: u64) -> bool {
        self.end.table == ANY_TABLE && now_ms.saturating_sub(self.at_ms) < TRY_MS_MAX
    }
}

/// What came of telling an end: `None` where the remote cluster is not known here.
fn outcome(told: Option<Result<(), RemoteError>>, at_ms: u64, now_ms: u64) -> Outcome {
    match told {
        Some(Err(RemoteError::Unreachable(_))) => Outcome::Waits,
        // Whoever took the settings away may set them again.
        None if now_ms.saturating_sub(at_ms) < UNKNOWN_REMOTE_MS_MAX => Outcome::Waits,
        // A key that may not follow the table any more, or a table that is gone: nobody will take it.
        Some(_) | None => Outcome::Over,
    }
}

/// What is noted of tables that follow no more.
fn ended(here: &LocalCopies) -> Result<Vec<Noted>, MetadataError> {
    // The notes first: a table is there as soon as its note is.
    let mut noted = metadata::objects(&here.metadata, KIND);
    if noted.is_empty() {
        return Ok(Vec::new());
    }
    let tables = metadata::tables(&here.metadata)?;
    let following = tables.iter().filter(|(_, definition)| definition.follows.is_some());
    let following: BTreeSet<String> =
        following.map(|(_, definition)| name_of(definition.incarnation)).collect();
    noted.retain(|(name, _)| !following.contains(name));
    let now_ms = here.metadata.log_time_ms();
    let noted = noted.into_iter().filter_map(|(_, value)| serde_json::from_value(value).ok());
    Ok(noted.filter(|noted: &Noted| !noted.is_tried(now_ms)).collect())
}

/// The name of the note about a table of this incarnation, which is used once.
fn name_of(incarnation: u64) -> String {
    format!("{incarnation:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_is_no_end_while_it_may_be_under_way() {
        let noted = |table| Noted {
            remote: "leader".to_owned(),
            end: Hold { table, change: HoldChange::End, ..Hold::default() },
            at_ms: 1_000,
        };
        assert!(noted(ANY_TABLE).is_tried(1_000 + TRY_MS_MAX - 1));
        assert!(!noted(ANY_TABLE).is_tried(1_000 + TRY_MS_MAX));
        assert!(!noted(7).is_tried(1_000), "its table was created, and is gone");
    }

    #[test]
    fn an_end_waits_for_its_leader_alone() {
        let unreachable = || Some(Err(RemoteError::Unreachable("away".to_owned())));
        let gone = || Some(Err(RemoteError::NoTable("gone".to_owned())));
        assert_eq!(outcome(unreachable(), 0, u64::MAX), Outcome::Waits, "however long that takes");
        assert_eq!(outcome(Some(Ok(())), 0, 0), Outcome::Over);
        assert_eq!(outcome(gone(), 0, 0), Outcome::Over);
        assert_eq!(outcome(None, 1_000, UNKNOWN_REMOTE_MS_MAX), Outcome::Waits);
        assert_eq!(outcome(None, 1_000, 1_000 + UNKNOWN_REMOTE_MS_MAX), Outcome::Over);
    }
}
