//! What of the log nobody needs any more. Every node says in its beats which groups it reads and up to
//! where its copies are durable; one that reads a group trims it to the lowest vote ([`votes`]) and notes
//! before that what a copy that was away needs to know (`metadata/trim_notes`).
//!
//! In a group vote the nodes that the metadata names for copies in it, and those that say that they
//! read it. It is trimmed by the first of those that serve copies there; where nobody has any, by the node
//! that acts for all, which reads it for that. A node of a version that reads all groups votes in all; where
//! such a node acts, it takes a group that another does not name for one that the other needs all of.
//!
//! A node that is there and has not spoken since the last change of where copies are holds
//! everything: it may not have known of a copy that begins earlier. Nothing new is given to a node
//! that left, so its last word holds for as long as it is away.
//!
//! Followers in other clusters have no vote: what they need is spared after it ([`Holds`]).

mod votes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_base::tasks::Lost;
use plimsoll_base::time::Instant;
use plimsoll_log::{GroupId, LogError, Lsn};
use plimsoll_storage::rows::StoreError;
use plimsoll_storage::{ErrorReply, Reply};
use xxhash_rust::xxh3::Xxh3Default;

use crate::following::{Holds, HoldsError, Spared};
use crate::metadata;
use crate::metadata::GROUPS;
use crate::metadata::error::MetadataError;
use crate::metadata::members::{Beat, Member};
use crate::node::shared::Shared;
use crate::replication::partition::Partition;
use crate::settings;

use crate::metadata::trim_notes::TrimNote;
use votes::{Floor, HeldPartition, LastWord, Voter};

/// How often it is said which nodes hold the log back.
const WARN_INTERVAL: Duration = Duration::from_secs(60);
/// How often the log is asked how many bytes a group holds.
const SIZES_INTERVAL: Duration = Duration::from_secs(10);

/// Why the log is not trimmed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrimError {
    /// What nodes and copies need cannot be read.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// What followers in other clusters need cannot be read.
    #[error(transparent)]
    Holds(#[from] HoldsError),
    /// What is to be noted before it was not.
    #[error(transparent)]
    NotNoted(#[from] ErrorReply),
    /// Where the group stood is not kept here.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log does not take it.
    #[error(transparent)]
    Log(#[from] LogError),
    /// What was to be done ended halfway.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// Trims beside the thread that asks for it: the log may take seconds to answer, and that thread
/// says that the node is there.
#[derive(Default)]
pub(crate) struct Trimmer {
    /// Where the metadata stood when copies changed last.
    changed: Lsn,
    /// A hash of where they were then.
    copies: u64,
    trimming: Arc<tokio::sync::Mutex<Trimming>>,
}

impl Trimmer {
    /// The metadata at this position says something new about tables, which the node follows by now.
    /// Where copies are mostly stays as it was: mappings grow all the time.
    pub(crate) fn tables_changed(&mut self, shared: &Shared, position: Lsn) {
        let copies = where_copies_are(shared);
        if self.copies != copies {
            self.copies = copies;
            self.changed = position;
        }
    }

    /// Trims what nobody needs, unless that is being done. `position` is where the metadata stands.
    pub(crate) fn trim(&mut self, shared: &Arc<Shared>, position: Lsn) {
        if self.changed == Lsn(0) {
            self.changed = position;
        }
        let Ok(mut trimming) = Arc::clone(&self.trimming).try_lock_owned() else { return };
        trimming.changed = self.changed;
        let (tasks, shared) = (shared.world.tasks.clone(), Arc::downgrade(shared));
        tasks.spawn("trim", async move {
            let Some(shared) = shared.upgrade() else { return };
            if let Err(error) = trim(&shared, &mut trimming).await {
                tracing::warn!(%error, "the log cannot be trimmed now");
            }
        });
    }
}

/// A hash of which nodes have copies of which partitions, and in which state.
fn where_copies_are(shared: &Shared) -> u64 {
    let mut hash = Xxh3Default::new();
    for table in shared.tables.all() {
        for copies in table.copies() {
            hash.update(&copies.id.table.to_le_bytes());
            hash.update(&copies.id.ordinal.to_le_bytes());
            for copy in &copies.definition().copies {
                hash.update(&[copy.state as u8]);
                hash.update(copy.node.as_bytes());
            }
        }
    }
    hash.digest()
}

/// What is remembered from one time to the next.
#[derive(Default)]
struct Trimming {
    /// See [`Trimmer`].
    changed: Lsn,
    trimmed: BTreeMap<GroupId, u64>,
    sizes: BTreeMap<GroupId, u64>,
    sized_at: Option<Instant>,
    warned_at: Option<Instant>,
}

impl Trimming {
    async fn measure(&mut self, shared: &Shared, groups: &[GroupId]) {
        let now = shared.world.time.now();
        if self.sized_at.is_some_and(|at| now - at < SIZES_INTERVAL) {
            return;
        }
        self.sized_at = Some(now);
        let (log, groups) = (Arc::clone(&shared.replication.log), groups.to_vec());
        let sizes = move || {
            let size = |group| Some((group, log.held_bytes(group).ok()??));
            groups.into_iter().filter_map(size).collect()
        };
        self.sizes = shared.world.tasks.blocking(sizes).await.unwrap_or_default();
    }

    /// Says now and then which nodes hold the log back, and with how many bytes.
    fn warn(&mut self, shared: &Shared, held: &BTreeMap<GroupId, Floor>, bytes_max: u64) {
        let now = shared.world.time.now();
        let is_due = self.warned_at.is_none_or(|at| now - at >= WARN_INTERVAL);
        let mut nodes: BTreeMap<&str, u64> = BTreeMap::new();
        for (group, floor) in held {
            let bytes = self.sizes.get(group).copied().unwrap_or(0);
            if bytes > bytes_max {
                for node in &floor.held_by {
                    *nodes.entry(node).or_default() += bytes;
                }
            }
        }
        if nodes.is_empty() || !is_due {
            return;
        }
        self.warned_at = Some(now);
        for (id, bytes) in nodes {
            let node = shared.members.get(id).map_or(id.to_owned(), |it| it.record.name.clone());
            tracing::warn!(
                node,
                bytes,
                bytes_max,
                "the log holds more than log.retention.max_bytes of a group for this node, \
                 because no other copy of what it holds is known to serve"
            );
        }
    }
}

/// The votes of all nodes in all groups.
struct Election {
    now_ms: u64,
    members: Arc<BTreeMap<String, Arc<Member>>>,
    beats: BTreeMap<String, Beat>,
    partitions: BTreeMap<GroupId, Vec<HeldPartition>>,
}

impl Election {
    /// Before the nodes' beats are read.
    fn of(shared: &Shared) -> Self {
        let members = shared.members.all();
        let mut partitions: BTreeMap<GroupId, Vec<HeldPartition>> = BTreeMap::new();
        // Every node holds the metadata, and whoever is there has it all.
        let copies = members.values().map(|it| (it.id.clone(), it.is_alive())).collect();
        let wait_ms = settings::cluster::delayed_ms(&shared.metadata);
        let held = HeldPartition { copies, wanted: members.len(), wait_ms };
        partitions.insert(metadata::GROUP, vec![held]);
        for table in shared.tables.all() {
            let index = table.index();
            let wait_ms = index.as_ref().and_then(|it| it.delayed_ms()).unwrap_or(wait_ms);
            let wanted = shared.copies.changes.wanted_copies_of(index.as_deref());
            for copies in table.copies() {
                let copy = |copy: &crate::metadata::placement::Copy| {
                    let serves = members.get(&copy.node).is_some_and(|it| it.serves(copies.id));
                    (copy.node.clone(), serves)
                };
                let copies_of = copies.definition().copies.iter().map(copy).collect();
                let held = HeldPartition { copies: copies_of, wanted, wait_ms };
                partitions.entry(copies.group).or_default().push(held);
            }
        }
        let (now_ms, beats) = (shared.metadata.log_time_ms(), BTreeMap::new());
        Self { now_ms, members, beats, partitions }
    }

    fn read_beats(&mut self, metadata: &Partition) -> Result<(), MetadataError> {
        for id in self.members.keys() {
            // One that never beat has nothing that could be needed, or will say so.
            let beat = metadata::last_beat(metadata, id)?.map(|(beat, _)| beat);
            self.beats.insert(id.clone(), beat.unwrap_or_default());
        }
        Ok(())
    }

    fn partitions(&self, group: GroupId) -> &[HeldPartition] {
        self.partitions.get(&group).map(Vec::as_slice).unwrap_or_default()
    }

    fn is_named(&self, group: GroupId, node: &str) -> bool {
        self.partitions(group).iter().any(|it| it.names(node))
    }

    fn is_served_by(&self, group: GroupId, node: &str) -> bool {
        self.partitions(group).iter().any(|it| it.is_served_by(node))
    }

    /// The node that trims a group: the first of those that are there and serve copies in it, or are named
    /// for one; where none is, the first of all, which reads what nobody else does.
    fn trims(&self, group: GroupId) -> Option<&str> {
        let mut there = self.members.values().filter(|it| it.is_alive()).map(|it| it.id.as_str());
        let serves = there.clone().find(|node| self.is_served_by(group, node));
        let named = serves.or_else(|| there.clone().find(|node| self.is_named(group, node)));
        named.or_else(|| there.next())
    }

    fn floor(&self, group: GroupId, trimming: &Trimming, bytes_max: u64) -> Floor {
        let voter = |member: &Arc<Member>| {
            let beat = self.beats.get(&member.id);
            let metadata = beat.map_or(0, |beat| beat.metadata);
            let word = LastWord {
                is_newer: !member.is_alive() || metadata >= trimming.changed.0,
                durable: beat.and_then(|beat| beat.durable.get(&group.0)).copied(),
            };
            let durable = votes::vote(word, self.is_named(group, &member.id))?;
            Some(Voter { node: member.id.clone(), left_ms: member.left_ms, durable })
        };
        let voters: Vec<Voter> = self.members.values().filter_map(voter).collect();
        let partitions = self.partitions(group);
        let is_over = trimming.sizes.get(&group).is_some_and(|bytes| *bytes > bytes_max);
        votes::floor(&voters, partitions, self.now_ms, is_over)
    }
}

/// Trims what nobody needs.
async fn trim(shared: &Arc<Shared>, trimming: &mut Trimming) -> Result<(), TrimError> {
    let mut election = Election::of(shared);
    let own = shared.members.own.as_str();
    let is_own = |group: &GroupId| election.trims(*group) == Some(own);
    let groups: Vec<GroupId> = (0..=GROUPS).map(GroupId).filter(is_own).collect();
    if groups.is_empty() {
        return Ok(());
    }
    election.read_beats(&shared.metadata)?;
    trimming.measure(shared, &groups).await;
    let bytes_max = settings::cluster::retention_bytes(&shared.metadata);
    let floors = groups.into_iter();
    let floors: BTreeMap<GroupId, Floor> =
        floors.map(|group| (group, election.floor(group, trimming, bytes_max))).collect();
    trimming.warn(shared, &floors, bytes_max);
    for (group, up_to) in spare(shared, trimming, &floors).await? {
        if up_to <= trimming.trimmed.get(&group).copied().unwrap_or(0) {
            continue;
        }
        if !note(shared, group, up_to).await? {
            continue;
        }
        let log = Arc::clone(&shared.replication.log);
        let trim = move || log.trim(group, Lsn(up_to));
        match shared.world.tasks.blocking(trim).await? {
            Ok(()) => {
                trimming.trimmed.insert(group, up_to);
            }
            Err(error) => tracing::warn!(%group, %error, "the log cannot be trimmed"),
        }
    }
    Ok(())
}

/// The floors of groups, each not beyond what followers in other clusters need.
async fn spare(
    shared: &Shared,
    trimming: &mut Trimming,
    floors: &BTreeMap<GroupId, Floor>,
) -> Result<Vec<(GroupId, u64)>, TrimError> {
    let bytes_max = settings::cluster::followers_retention_bytes(&shared.metadata);
    let mut holds = Holds::read(&shared.metadata)?;
    let mut spared = Vec::new();
    for (group, floor) in floors {
        let Some(up_to) = floor.up_to else { continue };
        // An engine that does not count after a position may say what it holds in all.
        let bytes = holds.kept_bytes(&*shared.replication.log, *group, up_to);
        let bytes = bytes.or_else(|| trimming.sizes.get(group).copied());
        let Spared { up_to, dropped } = holds.spare(*group, up_to, bytes, bytes_max);
        if dropped.is_some() {
            // What that freed has to be known before another is dropped.
            trimming.sizes.remove(group);
        }
        spared.push((*group, up_to));
    }
    if let Some(change) = holds.write()
        && shared.replication.submit_metadata(&change).await? == Reply::NilArray
    {
        // A follower moved on meanwhile: the next look decides anew.
        return Ok(Vec::new());
    }
    Ok(spared)
}

/// Notes what was seen of a group, before it is trimmed up to there; says whether that is known.
async fn note(shared: &Arc<Shared>, group: GroupId, up_to: u64) -> Result<bool, TrimError> {
    let seen = shared.replication.durable.lock().seen(group);
    let Some((at, records)) = seen.filter(|(at, _)| at.lsn.0 >= up_to) else {
        // This node has flushed nothing of it since it was started.
        return Ok(false);
    };
    // The change first: where another node that acts notes something meanwhile, this is not written.
    let read_at = metadata::trim_notes_change(&shared.metadata)?;
    let before = metadata::trim_notes(&shared.metadata)?.remove(&group);
    if before.as_ref().is_some_and(|it| it.at().lsn.0 >= at.lsn.0) {
        // Another node that acted was further.
        return Ok(true);
    }
    let mut note = TrimNote::new(at, &records, before.as_ref());
    note.prune(|id| shared.tables.copies(id).is_some());
    let put = metadata::put_trim_note(group, &note, read_at);
    Ok(shared.replication.submit_metadata(&put).await? != Reply::NilArray)
}
