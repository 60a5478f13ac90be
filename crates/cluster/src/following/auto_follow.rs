//! Tables that follow by themselves: patterns name tables of a remote cluster, and whatever is created
//! there afterwards under such a name is followed here. As in Elasticsearch, tables that were there
//! when the pattern was made are passed over; those that are created while it stands still are
//! followed once it goes on.
//!
//! The node that acts for the cluster looks. What was followed is noted in the pattern, so that a
//! follower that somebody deleted stays deleted.

use std::collections::BTreeSet;

use plimsoll_index::Error;
use plimsoll_stdx::wildcard_matches;
use plimsoll_storage::Reply;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::auto_follow_told::AutoFollowStatistics;
use super::remote::failed_remote;
use super::requests::FollowRequest;
use super::service::Following;
use crate::documents;
use crate::metadata;
use crate::wire::write_error::failed;

/// The kind of the metadata's objects that patterns are.
const KIND: &str = "auto_follow";
/// The most patterns.
const PATTERNS_MAX: usize = 1000;
/// The most names in one.
const NAMES_MAX: usize = 1000;
/// The most tables of a remote that are looked at.
const TABLES_MAX: usize = 10_000;
/// What stands in the name of a follower for that of its leader.
const LEADER_NAME: &str = "{{leader_index}}";
/// How often what was followed is noted again where somebody changes patterns at the same time.
const ATTEMPTS_MAX: u32 = 20;

/// A pattern: which tables of a remote are followed, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AutoFollow {
    /// The cluster, by its name in `cluster.remote.*`.
    pub remote: String,
    /// Patterns with `*` of the tables there.
    pub leaders: Vec<String>,
    /// Those of them that are not meant.
    #[serde(default)]
    pub excluded: Vec<String>,
    /// The name of the follower, where it is not the leader's: `{{leader_index}}` stands for that.
    #[serde(default)]
    pub follower: Option<String>,
    /// Settings of the followers' own.
    #[serde(default)]
    pub settings: Map<String, Value>,
    /// The numbers that Elasticsearch tunes following by.
    #[serde(default)]
    pub parameters: Map<String, Value>,
    /// Whether it is looked at.
    pub is_active: bool,
    /// The uuids of tables there that need not be looked at: they were there before, or were followed.
    #[serde(default)]
    pub known: BTreeSet<String>,
}

impl AutoFollow {
    /// A database's table belongs to Redis clients, who could no longer write to the one here: only its own
    /// name means it.
    fn means(&self, name: &str) -> bool {
        let matches = |pattern: &String| wildcard_matches(pattern, name);
        let is_database = [name, &self.follower_of(name)].into_iter().any(metadata::is_database);
        let is_meant = match is_database {
            true => self.leaders.iter().any(|pattern| pattern == name),
            false => self.leaders.iter().any(matches),
        };
        is_meant && !self.excluded.iter().any(matches)
    }

    fn follower_of(&self, leader: &str) -> String {
        self.follower
            .as_ref()
            .map_or_else(|| leader.to_owned(), |it| it.replace(LEADER_NAME, leader))
    }
}

impl Following {
    /// Makes a pattern, or another of one: tables that are there now are not followed by it.
    ///
    /// # Errors
    /// Where it names nothing, or there is no such cluster, or that is not reached.
    pub async fn put_auto_follow(&self, name: &str, mut pattern: AutoFollow) -> Result<(), Error> {
        check(name, &pattern)?;
        let remote = self.remote(&pattern.remote)?;
        let tables =
            remote.tables().await.map_err(|error| failed_remote(&pattern.remote, &error))?;
        pattern.is_active = true;
        self.keeping.auto_rests.forget(name);
        self.change_pattern(name, |before| {
            if before.is_none() && self.auto_follows().len() >= PATTERNS_MAX {
                return Err(Error::illegal_argument(format!("there are {PATTERNS_MAX} patterns")));
            }
            let before = before.filter(|it| it.remote == pattern.remote);
            // What the pattern means now and did not before was there before as well.
            let is_new = |name: &str| match &before {
                Some(before) => pattern.means(name) && !before.means(name),
                None => true,
            };
            let added = tables.iter().filter(|(name, _)| is_new(name));
            let mut known: BTreeSet<String> = added.map(|(_, uuid)| uuid.clone()).collect();
            known.extend(before.map(|it| it.known).unwrap_or_default());
            Ok(Some(AutoFollow { known, ..pattern.clone() }))
        })
        .await
    }

    /// A pattern by its name.
    #[must_use]
    pub fn auto_follow(&self, name: &str) -> Option<AutoFollow> {
        let found = metadata::object(&self.here.metadata, KIND, name)?;
        serde_json::from_value(found).ok()
    }

    /// All patterns, by name.
    #[must_use]
    pub fn auto_follows(&self) -> Vec<(String, AutoFollow)> {
        let all = metadata::objects(&self.here.metadata, KIND);
        let pattern = |(name, value)| Some((name, serde_json::from_value(value).ok()?));
        all.into_iter().filter_map(pattern).collect()
    }

    /// Takes a pattern away; those who follow by it go on.
    ///
    /// # Errors
    /// 404 where there is none.
    pub async fn delete_auto_follow(&self, name: &str) -> Result<(), Error> {
        self.change_pattern(name, |before| before.map(|_| None).ok_or_else(|| no_pattern(name)))
            .await
    }

    /// Has a pattern stand still, or go on.
    ///
    /// # Errors
    /// 404 where there is none.
    pub async fn set_auto_follow(&self, name: &str, is_active: bool) -> Result<(), Error> {
        self.keeping.auto_rests.forget(name);
        self.change_pattern(name, |before| {
            let pattern = before.ok_or_else(|| no_pattern(name))?;
            Ok(Some(AutoFollow { is_active, ..pattern }))
        })
        .await
    }

    /// What became of looking on this node.
    #[must_use]
    pub fn auto_follow_statistics(&self) -> AutoFollowStatistics {
        self.keeping.auto.0.lock().clone()
    }

    /// Looks once at all patterns that are active: follows what is new.
    pub(super) async fn check_patterns(&self) {
        for (name, pattern) in self.auto_follows() {
            if pattern.is_active {
                self.check_pattern(&name, pattern).await;
            }
        }
    }

    async fn check_pattern(&self, name: &str, pattern: AutoFollow) {
        let (told, rests) = (&self.keeping.auto, &self.keeping.auto_rests);
        let time = &self.keeping.world.time;
        let Some(remote) = self.keeping.remotes.get(&pattern.remote) else { return };
        let tables = match remote.tables().await {
            Ok(tables) => tables,
            Err(error) => {
                tracing::debug!(%error, "tables to follow cannot be looked for");
                return told.asked(&pattern.remote, false, time.wall_ms());
            }
        };
        told.asked(&pattern.remote, true, time.wall_ms());
        let mut followed = BTreeSet::new();
        for (leader, uuid) in tables.iter().take(TABLES_MAX) {
            if !pattern.means(leader)
                || pattern.known.contains(uuid)
                || rests.rests(name, uuid, time.now())
            {
                continue;
            }
            let request = FollowRequest {
                remote: pattern.remote.clone(),
                leader: leader.clone(),
                settings: pattern.settings.clone(),
                parameters: pattern.parameters.clone(),
            };
            let follower = pattern.follower_of(leader);
            match self.follow(&follower, request).await {
                Ok(()) => {
                    tracing::info!(pattern = name, leader, follower, "a new index is followed");
                    told.0.lock().followed += 1;
                    followed.insert(uuid.clone());
                }
                // There is one of that name, which somebody wants.
                Err(error) if error.kind == "resource_already_exists_exception" => {
                    told.failed(format!("{name}:{leader}"), error.reason.to_string());
                    followed.insert(uuid.clone());
                }
                // It may pass: nodes that do not know how, a limit, a cluster that is away.
                Err(error) => {
                    told.failed(format!("{name}:{leader}"), error.reason.to_string());
                    rests.failed(name, uuid, time.now());
                }
            }
        }
        // What is gone there need not be remembered.
        let there: BTreeSet<&String> = tables.iter().map(|(_, uuid)| uuid).collect();
        let gone: BTreeSet<String> =
            pattern.known.iter().filter(|it| !there.contains(it)).cloned().collect();
        if followed.is_empty() && gone.is_empty() {
            return;
        }
        let noted = self.change_pattern(name, |before| {
            let mut now = before.ok_or_else(|| no_pattern(name))?;
            now.known.retain(|uuid| !gone.contains(uuid));
            now.known.extend(followed.iter().cloned());
            Ok(Some(now))
        });
        if let Err(error) = noted.await {
            tracing::warn!(pattern = name, error = %error.reason, "what was followed cannot be noted");
        }
    }

    /// Makes of a pattern what `change` says, or takes it away; one that somebody changes meanwhile is
    /// looked at again.
    async fn change_pattern(
        &self,
        name: &str,
        change: impl Fn(Option<AutoFollow>) -> Result<Option<AutoFollow>, Error>,
    ) -> Result<(), Error> {
        for _ in 0..ATTEMPTS_MAX {
            // The change first: what is newer than it is read again.
            let seen = metadata::objects_change(&self.here.metadata, KIND);
            let seen = seen.map_err(Error::internal)?;
            let command = match change(self.auto_follow(name))? {
                Some(pattern) => {
                    metadata::put_object(KIND, name, &documents::checked(&json!(pattern))?)
                }
                None => metadata::delete_object(KIND, name),
            };
            let write = metadata::change_objects(KIND, vec![command], seen);
            if self.here.replication.submit_metadata(&write).await.map_err(failed)?
                != Reply::NilArray
            {
                self.here.router.tell_others().await;
                return Ok(());
            }
        }
        Err(Error::internal(format!("others change the pattern [{name}] at the same time")))
    }
}

fn check(name: &str, pattern: &AutoFollow) -> Result<(), Error> {
    let refused = |reason: String| Err(Error::illegal_argument(reason));
    if name.is_empty() || name.len() > 255 || name.starts_with('_') || name.contains(',') {
        return refused(format!("[name] must not start with '_' or contain ',': [{name}]"));
    }
    let names = pattern.leaders.len() + pattern.excluded.len();
    if !(1..=NAMES_MAX).contains(&names) || pattern.leaders.is_empty() {
        return refused("[leader_index_patterns] is missing".to_owned());
    }
    match &pattern.follower {
        Some(follower) if !follower.contains(LEADER_NAME) && pattern.leaders.len() > 1 => {
            refused(format!("[follow_index_pattern] names one index for several: {follower}"))
        }
        _ => Ok(()),
    }
}

fn no_pattern(name: &str) -> Error {
    let reason = format!("auto-follow pattern [{name}] is missing");
    Error::not_found("resource_not_found_exception", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_what_it_names_but_for_what_it_leaves_out() {
        let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
        let pattern = AutoFollow {
            leaders: names(&["logs-*", "metrics"]),
            excluded: names(&["logs-debug*"]),
            follower: Some("west-{{leader_index}}".to_owned()),
            ..AutoFollow::default()
        };
        let all = AutoFollow { leaders: names(&["*", "db1"]), ..AutoFollow::default() };
        let meant = ["db0", "db1", "db16", "logs"].map(|it| all.means(it));
        assert_eq!(meant, [false, true, true, true]);
        let all = AutoFollow { excluded: names(&["d*1"]), ..all };
        assert!(!all.means("db1"), "what is left out is left out");
        let made = AutoFollow {
            leaders: names(&["*", "b6"]),
            follower: Some("d{{leader_index}}".to_owned()),
            ..AutoFollow::default()
        };
        assert_eq!(["b5", "b6", "b16"].map(|it| made.means(it)), [false, true, true]);
        let meant = ["logs-1", "metrics", "logs-debug-1", "other"].map(|it| pattern.means(it));
        assert_eq!(meant, [true, true, false, false]);
        assert_eq!(pattern.follower_of("logs-1"), "west-logs-1");
        assert_eq!(AutoFollow::default().follower_of("logs-1"), "logs-1");
    }
}
