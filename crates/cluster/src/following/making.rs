//! First copies as this node makes them: which, how many at once, with what of the link, and what becomes
//! of one whose table goes meanwhile, here or at its leader. How one is made is `first_copy.rs`'s.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use plimsoll_log::PartitionId;
use plimsoll_storage::partition::Resources;

use super::definition::Follows;
use super::first_copy::{self, Brought, TakingMapping};
use super::keeper::{Keeping, LOOK_INTERVAL, trouble_of};
use super::progress::Trouble;
use super::remote::Remotes;
use super::slots::{Slots, Taken};
use crate::machine::chance::random_u64;
use crate::metadata::placement::{Copy, CopyState, proposed};
use crate::metadata::table::{Copies, Table, TableDefinition};
use crate::node::Shared;
use crate::node::pacing::Bucket;
use crate::recovery::{CopyCompression, CopyOptions, Pace, Stage, Window};
use crate::settings;

/// First copies that this node makes at once of one remote. They share one window, so that more of them do
/// not take more of the link; while one begins, or is opened, the others have all of it. Those of a remote
/// that is away wait for it, and keep no other remote's from being made.
const OF_REMOTE_MAX: usize = 4;
/// The same of all remotes.
const MAKING_MAX: usize = 16;
/// How long a first copy rests that could not be made.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// How long this node may take to serve what the metadata says of a table.
const RECONCILE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a copy that serves already waits for the others before RocksDB rewrites its files.
const COMPACTION_WAIT: Duration = Duration::from_secs(60);
/// How soon a copy ends whose table was deleted.
const GONE_INTERVAL: Duration = Duration::from_millis(250);
/// Why it does.
const DELETED: &str = "the table was deleted";

/// A first copy that is being made, and the name of its remote here.
type Made = (PartitionId, String);

/// What is known of the first copies of this node.
#[derive(Default)]
pub(super) struct Making {
    /// Those that are being made, and of which remote.
    slots: Slots<Made>,
    /// Those that rest, and until when.
    rests: Mutex<BTreeMap<PartitionId, Instant>>,
    /// What is under way of files, of each remote: copies share it.
    windows: Mutex<BTreeMap<String, Window>>,
    /// Keeps to the rate that is set, where one is.
    limiter: Arc<Bucket>,
}

impl Making {
    /// Forgets those for which it is not so.
    pub(super) fn retain(&self, is_kept: impl Fn(PartitionId) -> bool) {
        self.rests.lock().retain(|id, _| is_kept(*id));
    }

    /// Has RocksDB rewrite the files of copies that serve: all of them once no more are being made. Whatever
    /// compacts meanwhile takes the processors from the copying.
    pub(super) fn release_compactions(&self, resources: &Resources) {
        let age = if self.slots.is_empty() { Duration::ZERO } else { COMPACTION_WAIT };
        resources.release_compactions(age, Instant::now());
    }

    /// Has files give way to the records of those remotes for which it is so, and come over as many
    /// connections as pay.
    pub(super) fn share_links(&self, remotes: &dyn Remotes, is_urgent: impl Fn(&str) -> bool) {
        let is_idle = self.slots.is_empty();
        let mut windows = self.windows.lock();
        windows.retain(|name, _| remotes.get(name).is_some());
        for (name, window) in &*windows {
            window.set_yielding(is_urgent(name));
            if let Some(remote) = remotes.get(name) {
                remote.set_connections(if is_idle { 1 } else { window.connections() });
            }
        }
    }

    /// Room to make a copy from a remote; none while it is made, or there is none.
    fn take(&self, id: PartitionId, remote: &str) -> Option<Taken<Made>> {
        self.slots.take_where((id, remote.to_owned()), |taken| {
            let of_remote = taken.iter().filter(|(_, name)| name == remote).count();
            of_remote < OF_REMOTE_MAX && taken.len() < MAKING_MAX
        })
    }

    fn rest(&self, id: PartitionId) {
        self.rests.lock().insert(id, Instant::now() + RETRY_INTERVAL);
    }

    fn rests(&self, id: PartitionId) -> bool {
        self.rests.lock().get(&id).is_some_and(|until| *until > Instant::now())
    }
}

impl Keeping {
    /// Makes a first copy beside everything else, unless it is being made, or rests.
    pub(super) fn make_in_time(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        table: &Arc<Table>,
        copies: &Arc<Copies>,
        follows: &Arc<Follows>,
    ) {
        if follows.is_ending || self.making.rests(copies.id) {
            return;
        }
        let Some(slot) = self.making.take(copies.id, &follows.remote) else { return };
        shared.resources.hold_compactions();
        let (keeping, shared) = (Arc::clone(self), Arc::downgrade(shared));
        let (table, copies, follows) = (Arc::clone(table), Arc::clone(copies), Arc::clone(follows));
        tokio::spawn(async move {
            let Some(shared) = shared.upgrade() else { return };
            match keeping.make(&shared, &table, &copies, &follows).await {
                Ok(()) => keeping.progress.tell(copies.id, |it| it.trouble = None),
                Err((why, is_fatal)) => {
                    tracing::warn!(partition = %copies.id, why, "a first copy cannot be made yet");
                    let trouble = Some(Trouble { why, is_fatal });
                    keeping.progress.tell(copies.id, |it| it.trouble = trouble);
                    keeping.making.rest(copies.id);
                }
            }
            drop(slot);
            shared.look.notify_one();
        });
    }

    async fn make(
        &self,
        shared: &Arc<Shared>,
        table: &Table,
        copies: &Copies,
        follows: &Follows,
    ) -> Result<(), (String, bool)> {
        let (remote, leader) = self.leader_of_late(follows).await.map_err(trouble_of)?;
        let options = self.copy_options(shared, &follows.remote, remote.compression());
        let from = (&*remote, &leader, &options);
        let is_there = || shared.tables.copies(copies.id).is_some();
        let gone = Box::pin(self.gone(shared, copies, follows));
        // The index that comes may know fields that are new since the table was looked at.
        let take_mapping = || -> TakingMapping<'_> {
            let taken = self.take_documents_over(shared, table, follows);
            Box::pin(async { taken.await.map(drop) })
        };
        let beside = (gone as _, &take_mapping as _);
        let brought = first_copy::bring(shared, from, follows, (table, copies), beside).await;
        if !is_there() {
            // Also what was put in its place meanwhile.
            let closed = shared.close_copy(copies, DELETED).await;
            return Err((closed.err().unwrap_or_else(|| DELETED.to_owned()), false));
        }
        let Brought { recovery, mapping } = brought.map_err(|why| (why, false))?;
        mapping.map_err(trouble_of)?;
        shared.reconciled_to(shared.metadata.applied().0, RECONCILE_TIMEOUT).await;
        let mut served = match is_there() {
            true if copies.is_first_to_come() => {
                first_copy::serve(shared, follows, table, copies).await
            }
            true => Err("another copy serves by now".to_owned()),
            false => Err(DELETED.to_owned()),
        };
        if !is_there() {
            let closed = shared.close_copy(copies, DELETED).await;
            served = closed.and(Err(DELETED.to_owned()));
        }
        if let Some(recovery) = recovery {
            match &served {
                Ok(()) => recovery.enter(Stage::Done),
                Err(why) => recovery.fail(why),
            }
        }
        served.map_err(|why| (why, false))
    }

    /// Waits until a copy is of no use any more, and says why.
    async fn gone(&self, shared: &Shared, copies: &Copies, follows: &Follows) -> String {
        let mut looked_at = Instant::now();
        loop {
            tokio::time::sleep(GONE_INTERVAL).await;
            if shared.tables.copies(copies.id).is_none() {
                return DELETED.to_owned();
            }
            if looked_at.elapsed() >= LOOK_INTERVAL {
                if let Err(error) = self.leader(follows).await
                    && error.is_final()
                {
                    return error.to_string();
                }
                looked_at = Instant::now();
            }
        }
    }

    /// How the files of a leader are copied: as is set, and else as the link allows.
    fn copy_options(
        &self,
        shared: &Shared,
        remote: &str,
        compression: CopyCompression,
    ) -> CopyOptions {
        let published = settings::cluster::published_chunks(&shared.metadata);
        let window = match published {
            // As published: of each copy its own.
            Some((bytes, chunks)) => Window::published(&shared.world.time, bytes, chunks),
            None => {
                let mut windows = self.making.windows.lock();
                let measured = || Window::measured(&shared.world.time);
                windows.entry(remote.to_owned()).or_insert_with(measured).clone()
            }
        };
        let of_file = published.and(settings::cluster::chunks_of_file(&shared.metadata));
        let chunks_of_file_max = of_file.unwrap_or(u64::MAX);
        let rate = settings::cluster::copy_rate(&shared.metadata);
        let (limiter, pacing) = (Arc::clone(&self.making.limiter), Arc::clone(&self.pacing));
        let time = shared.world.time.clone();
        let pace: Pace = Arc::new(move |bytes| {
            let wait = limiter.wait(rate, time.now()).max(pacing.copies.wait());
            if wait.is_zero() {
                limiter.add(bytes);
                pacing.copies.add(bytes);
            }
            wait
        });
        CopyOptions {
            seed: random_u64(),
            window: Some(window),
            pace: Some(pace),
            compression,
            chunk_bytes_max: 5 << 20,
            chunks_of_file_max,
            ..CopyOptions::default()
        }
    }

    /// Has first copies made elsewhere that a node was to make which is gone for good: nothing of the
    /// partition is lost, as there was nothing yet.
    pub(super) fn move_first_copies(&self, shared: &Arc<Shared>, turn: Taken<()>) {
        let (shared, tables) = (Arc::clone(shared), shared.tables.all());
        tokio::spawn(async move {
            let log_time_ms = shared.metadata.log_time_ms();
            let wait_ms = settings::cluster::delayed_ms(&shared.metadata);
            let places = shared.members.places(log_time_ms, wait_ms, &shared.wanted_nodes());
            let is_lost = |copy: &Copy| !places.get(&copy.node).is_some_and(|it| it.is_counted);
            let is_to_move = |copies: &Arc<Copies>| {
                copies.is_first_to_come() && copies.definition().copies.iter().all(is_lost)
            };
            for table in tables.iter().filter(|table| table.copies().iter().any(is_to_move)) {
                let change = |definition: &mut TableDefinition| {
                    let mut is_changed = false;
                    for partition in &mut definition.partitions {
                        let is_begun = partition.serving().next().is_some();
                        let node = proposed(partition.group, 1, &places).pop();
                        let Some(node) = node.filter(|_| !is_begun) else { continue };
                        if partition.copies.iter().all(is_lost) {
                            let state = CopyState::Initializing;
                            partition.copies = vec![Copy { node, state }];
                            partition.epoch += 1;
                            is_changed = true;
                        }
                    }
                    is_changed
                };
                let moved = shared.update_definition(table.name(), table.incarnation(), change);
                if let Err(error) = moved.await {
                    tracing::warn!(%error, "a first copy cannot be moved");
                }
            }
            drop(turn);
        });
    }
}
