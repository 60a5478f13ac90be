//! The roles that keep views fresh: each partition of an index is refreshed after its refresh
//! interval where its documents changed, or at once where somebody waits.

use super::service::Documents;
use crate::metadata::setting::setting_ms;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use plimsoll_base::tasks::{Role, Stopping};
use plimsoll_base::time::Instant;
use plimsoll_base::{Time, World};
use plimsoll_control::Class;
use plimsoll_index::Error;
use plimsoll_log::PartitionId;
use serde_json::Value;

use super::indexer::{Indexer, indexer_of, is_behind_mapping, refresh_in_time};
use crate::metadata::index::{IndexMetadata, no_such_index};
use crate::replication::Replication;
use crate::replication::partition::Partition;
use crate::replication::tables::{Copies, Tables};
use crate::routing::{NoAnswer, no_shard};
use crate::wire::{Chore, Problem, Question, Reply, Terms, rest_error};

/// How often partitions are looked at.
const INTERVAL: Duration = Duration::from_millis(100);
/// The refresh interval where an index sets none. Elasticsearch's.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// After how long without a wish for it documents are indexed anyway, so that little is left to
/// do when somebody asks, and what notes them does not grow.
const INDEX_INTERVAL: Duration = Duration::from_secs(10);

/// How long a copy on another node has for a chore.
const CHORE_TIMEOUT: Duration = Duration::from_secs(60);

/// The handles of the roles.
pub(crate) struct Refresher {
    roles: Vec<Role>,
}

impl Refresher {
    pub(crate) fn start(world: &World, tables: &Arc<Tables>) -> std::io::Result<Self> {
        let count = if world.tasks.are_the_machines() { thread_count() } else { 1 };
        let start = |number| {
            let (tables, time) = (Arc::downgrade(tables), world.time.clone());
            let run = move |stopping| run(tables, time, stopping, number, count);
            world.tasks.role("refresh", run)
        };
        Ok(Self { roles: (0..count).map(start).collect::<Result<_, _>>()? })
    }

    /// Ends them after what they are doing. Blocks.
    pub(crate) fn stop(self) {
        self.roles.iter().for_each(Role::tell_to_stop);
        self.roles.into_iter().for_each(Role::end);
    }
}

/// One for every two processors: searches need the rest.
fn thread_count() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).clamp(1, 8))
}

async fn run(
    tables: Weak<Tables>,
    time: Time,
    mut stopping: Stopping,
    number: usize,
    count: usize,
) {
    let mut due: BTreeMap<PartitionId, Instant> = BTreeMap::new();
    while !stopping.told_within(&time, INTERVAL).await {
        let Some(tables) = tables.upgrade() else { return };
        let mut seen = BTreeSet::new();
        for table in tables.all() {
            let Some(index) = table.index().filter(|index| index.is_open) else { continue };
            let interval = refresh_interval(&index).unwrap_or(INDEX_INTERVAL);
            for (ordinal, partition) in table.local() {
                if ordinal % count == number {
                    seen.insert(partition.id);
                    let at = due.entry(partition.id).or_insert_with(|| time.now() + interval);
                    if time.now() >= *at {
                        *at = time.now() + interval;
                        refresh(&partition);
                    }
                }
            }
        }
        due.retain(|id, _| seen.contains(id));
    }
}

fn refresh(partition: &Partition) {
    let Some(indexer) = indexer_of(partition) else { return };
    if !indexer.is_behind(partition.applied()) {
        indexer.rest();
    } else if let Err(error) = indexer.refresh()
        && !is_behind_mapping(&error)
    {
        tracing::error!(partition = %partition.id, %error, "documents cannot be indexed");
    }
    if let Some(error) = indexer.take_store_fault() {
        partition.note(&error);
    }
}

/// An index' refresh interval; `None` where it is refreshed only when asked to (`-1`).
pub(crate) fn refresh_interval(index: &IndexMetadata) -> Option<Duration> {
    let setting = match index.settings.get("index.refresh_interval") {
        None | Some(Value::Null) => return Some(REFRESH_INTERVAL),
        Some(setting) => setting,
    };
    if setting.as_str().is_some_and(|text| text.trim_start().starts_with('-'))
        || setting.as_i64().is_some_and(|number| number < 0)
    {
        return None;
    }
    let millis = setting_ms(setting);
    millis.map_or(Some(REFRESH_INTERVAL), |ms| Some(Duration::from_millis(ms).max(INTERVAL)))
}

/// A copy that did not do what all were asked to do: it does it by itself later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The partition's ordinal.
    pub partition: u32,
    /// The node that has the copy.
    pub node: String,
    /// Why it did not.
    pub why: String,
}

impl Documents {
    /// Makes what was written before visible to the searches after, in one partition or all.
    ///
    /// # Errors
    /// Where there is no such index, or it cannot be indexed.
    pub async fn refresh(
        &self,
        index: &Arc<IndexMetadata>,
        partition: Option<u32>,
    ) -> Result<Vec<LeftOut>, Error> {
        self.on_copies(index, partition, Chore::Refresh).await
    }

    /// Waits until what was written to a partition before is visible to searches.
    ///
    /// # Errors
    /// Where there is no such index.
    pub async fn wait_for_refresh(
        &self,
        index: &Arc<IndexMetadata>,
        partition: u32,
    ) -> Result<(), Error> {
        if refresh_interval(index).is_none() || !self.router.replication.is_alone {
            return self.refresh(index, Some(partition)).await.map(drop);
        }
        let table = self.router.tables.by_name(&index.name);
        let table = table.ok_or_else(|| no_such_index(&index.name))?;
        let copies = table.copies().get(partition as usize);
        let Some(partition) = copies.and_then(|copies| copies.local()) else { return Ok(()) };
        let Some(indexer) = indexer_of(&partition) else { return Ok(()) };
        let applied = partition.applied();
        let mut refreshed = indexer.refreshed();
        let waited = refreshed.wait_for(|position| *position >= applied.0).await;
        waited.map(drop).map_err(|_| no_such_index(&index.name))
    }

    /// Makes what is indexed durable.
    ///
    /// # Errors
    /// Where there is no such index, or the disk fails.
    pub async fn flush(&self, index: &Arc<IndexMetadata>) -> Result<Vec<LeftOut>, Error> {
        self.on_copies(index, None, Chore::Flush).await
    }

    /// Merges the segments of each partition's index, and the files of its rows.
    ///
    /// # Errors
    /// Where there is no such index, or the disk fails.
    pub async fn force_merge(
        &self,
        index: &Arc<IndexMetadata>,
        segments_max: Option<usize>,
    ) -> Result<Vec<LeftOut>, Error> {
        let segments_max = segments_max.unwrap_or(1).max(1) as u64;
        self.on_copies(index, None, Chore::Merge { segments_max }).await
    }

    /// Does a chore with every copy of each partition, or of one.
    async fn on_copies(
        &self,
        index: &Arc<IndexMetadata>,
        only: Option<u32>,
        chore: Chore,
    ) -> Result<Vec<LeftOut>, Error> {
        let table = self.router.tables.by_name(&index.name);
        let table = table.ok_or_else(|| no_such_index(&index.name))?;
        let copies = table.copies().iter();
        let wanted = copies.filter(|it| only.is_none_or(|only| only == it.id.ordinal));
        let done = join_all(wanted.map(|copies| self.on_all(copies, chore))).await;
        let left_out: Vec<Vec<LeftOut>> = done.into_iter().collect::<Result<_, Error>>()?;
        Ok(left_out.into_iter().flatten().collect())
    }

    /// Does a chore with every copy of a partition. One that cannot be asked does it by itself
    /// later; one on this node must.
    async fn on_all(&self, copies: &Copies, chore: Chore) -> Result<Vec<LeftOut>, Error> {
        // Everything that was answered before, by whichever lead, stands before this barrier.
        let bar = self.router.replication.bar(copies, CHORE_TIMEOUT).await;
        let at_least = bar.ok_or_else(|| no_shard("the log does not answer".to_owned()))?.0;
        // Else a node that is back might be left out while it takes its views for complete (`current.rs`).
        self.router.become_current().await;
        self.router.follow_members_or_warn();
        let there = self.router.others_with(copies, Class::Scan);
        // Who is not heard of does not serve, by the word of this node.
        let (there, away): (Vec<_>, Vec<_>) =
            there.into_iter().partition(|member| member.is_alive());
        let asked = there.iter().map(|member| {
            let question = Question::Chore { partition: copies.id.into(), at_least, chore };
            let terms = Terms::within(CHORE_TIMEOUT);
            self.router.ask(member, copies.ask(Class::Scan), question, terms)
        });
        let local = async {
            match copies.local() {
                Some(partition) => on_local(&self.router.replication, partition, chore).await,
                None => Ok(()),
            }
        };
        let (done, answers) = futures_util::future::join(local, join_all(asked)).await;
        done?;
        let mut left_out = Vec::new();
        if there.is_empty() && copies.local().is_none() {
            // Where no copy did it, one that is away may be searched all the same, as it is the only one.
            left_out.extend(away.iter().map(|member| LeftOut {
                partition: copies.id.ordinal,
                node: member.record.name.clone(),
                why: "its node is away".to_owned(),
            }));
        }
        for (member, answer) in there.iter().zip(answers) {
            let why = match answer {
                Ok(Reply::Done) => continue,
                Ok(Reply::Problem(Problem::Rest(error))) => return Err(rest_error(&error)),
                Ok(other) => format!("{other:?}"),
                Err(NoAnswer::Elsewhere(why) | NoAnswer::Unknown(why)) => why,
                Err(NoAnswer::Refused(error)) => error.reason,
            };
            tracing::debug!(why, partition = %copies.id, "a copy is left out");
            let (partition, node) = (copies.id.ordinal, member.record.name.clone());
            left_out.push(LeftOut { partition, node, why });
        }
        Ok(left_out)
    }
}

/// Does a chore with this node's copy.
pub(crate) async fn on_local(
    replication: &Replication,
    partition: Arc<Partition>,
    chore: Chore,
) -> Result<(), Error> {
    let world = &replication.world;
    match chore {
        Chore::Refresh => match indexer_of(&partition) {
            Some(indexer) if indexer.is_behind(partition.applied()) => {
                refresh_in_time(world, &partition).await
            }
            _ => Ok(()),
        },
        Chore::Flush => {
            let store = partition.store.clone();
            let flushed = world.tasks.blocking(move || store.flush()).await;
            flushed.map_err(Error::internal)?.map_err(Error::internal)?;
            // What is durable here needs to be in the log no more.
            if let Some(copies) = replication.tables.copies(partition.id) {
                replication.durable.lock().wish(copies.group);
            }
            refresh_in_time(world, &partition).await?;
            let persist = move || indexer_of(&partition).map_or(Ok(()), Indexer::persist);
            world.tasks.blocking(persist).await.map_err(Error::internal)?
        }
        Chore::Merge { segments_max } => {
            let merge = move || {
                let Some(indexer) = indexer_of(&partition) else { return Ok(()) };
                indexer.force_merge(usize::try_from(segments_max).unwrap_or(usize::MAX))?;
                partition.store.compact().map_err(Error::internal)
            };
            world.tasks.blocking(merge).await.map_err(Error::internal)?
        }
    }
}
