//! First copies as this node makes them: which, how many at once, with what of the link, and what becomes
//! of one whose table goes meanwhile, here or at its leader. How one is made is `first_copy.rs`'s.

use std::sync::Arc;
use std::time::Duration;

use super::first_copy::{self, Brought, NotBrought, TakingMapping};
use super::progress::Trouble;
use super::service::{Keeping, LOOK_INTERVAL};
use super::slots::Taken;
use crate::copies::LocalCopies;
use crate::metadata::follows::Follows;
use crate::metadata::placement::{Copy, CopyState, proposed};
use crate::metadata::table::TableDefinition;
use crate::recovery::{CopyCompression, CopyOptions, Pace, Stage, Window};
use crate::replication::tables::{Copies, Table};
use crate::settings;

/// How long this node may take to serve what the metadata says of a table.
const RECONCILE_TIMEOUT: Duration = Duration::from_secs(10);
/// How soon a copy ends whose table was deleted.
const GONE_INTERVAL: Duration = Duration::from_millis(250);
/// Why it does, for those who ask late.
const DELETED: &str = "the table was deleted";

impl Keeping {
    /// Makes a first copy beside everything else, unless it is being made, or rests.
    pub(super) fn make_in_time(
        self: &Arc<Self>,
        here: &Arc<LocalCopies>,
        table: &Arc<Table>,
        copies: &Arc<Copies>,
        follows: &Arc<Follows>,
    ) {
        if follows.is_ending || self.making.rests(copies.id, self.world.time.now()) {
            return;
        }
        let Some(slot) = self.making.take(copies.id, &follows.remote) else { return };
        here.replication.resources.hold_compactions();
        let (keeping, here) = (Arc::clone(self), Arc::downgrade(here));
        let (table, copies, follows) = (Arc::clone(table), Arc::clone(copies), Arc::clone(follows));
        self.children.begin("first copy", async move {
            let Some(here) = here.upgrade() else { return };
            match keeping.make(&here, &table, &copies, &follows).await {
                Ok(()) => keeping.progress.tell(copies.id, |it| it.trouble = None),
                Err(why) => {
                    tracing::warn!(partition = %copies.id, %why, "a first copy cannot be made yet");
                    let (why, is_fatal) = (why.to_string(), why.is_final());
                    let trouble = Some(Trouble { why, is_fatal });
                    keeping.progress.tell(copies.id, |it| it.trouble = trouble);
                    keeping.making.rest(copies.id, keeping.world.time.now());
                }
            }
            drop(slot);
            here.router.look.notify_one();
        });
    }

    async fn make(
        &self,
        here: &Arc<LocalCopies>,
        table: &Table,
        copies: &Copies,
        follows: &Follows,
    ) -> Result<(), NotBrought> {
        let leader = self.leader_of_late(follows).await;
        let (remote, leader) = leader.map_err(NotBrought::Leader)?;
        let options = self.copy_options(here, &follows.remote, remote.compression());
        let from = (&*remote, &leader, &options);
        let is_there = || here.tables.copies(copies.id).is_some();
        let gone = Box::pin(self.gone(here, copies, follows));
        // The index that comes may know fields that are new since the table was looked at.
        let take_mapping = || -> TakingMapping<'_> {
            let taken = self.take_documents_over(here, table, follows);
            Box::pin(async { taken.await.map(drop) })
        };
        let beside = (gone as _, &take_mapping as _);
        let brought = first_copy::bring(here, from, follows, (table, copies), beside).await;
        if !is_there() {
            // Also what was put in its place meanwhile.
            let closed = here.close_copy(copies, DELETED).await;
            return Err(closed.map_or_else(NotBrought::from, |()| NotBrought::Deleted));
        }
        let Brought { recovery, mapping } = brought?;
        mapping.map_err(NotBrought::Leader)?;
        here.router.reconciled_to(here.metadata.applied().0, RECONCILE_TIMEOUT).await;
        let mut served = match is_there() {
            true if copies.is_first_to_come() => {
                first_copy::serve(here, follows, table, copies).await
            }
            true => Err(NotBrought::ServedElsewhere),
            false => Err(NotBrought::Deleted),
        };
        if !is_there() {
            let closed = here.close_copy(copies, DELETED).await;
            served = Err(closed.map_or_else(NotBrought::from, |()| NotBrought::Deleted));
        }
        if let Some(recovery) = recovery {
            match &served {
                Ok(()) => recovery.enter(Stage::Done),
                Err(why) => recovery.fail(&why.to_string()),
            }
        }
        served
    }

    /// Waits until a copy is of no use any more, and says why.
    async fn gone(&self, here: &LocalCopies, copies: &Copies, follows: &Follows) -> NotBrought {
        let time = &self.world.time;
        let mut looked_at = time.now();
        loop {
            time.sleep(GONE_INTERVAL).await;
            if here.tables.copies(copies.id).is_none() {
                return NotBrought::Deleted;
            }
            if time.now() - looked_at >= LOOK_INTERVAL {
                if let Err(error) = self.leader(follows).await
                    && error.is_final()
                {
                    return NotBrought::LeaderGone(error);
                }
                looked_at = time.now();
            }
        }
    }

    /// How the files of a leader are copied: as is set, and else as the link allows.
    fn copy_options(
        &self,
        here: &LocalCopies,
        remote: &str,
        compression: CopyCompression,
    ) -> CopyOptions {
        let published = settings::cluster::published_chunks(&here.metadata);
        let window = match published {
            // As published: of each copy its own.
            Some((bytes, chunks)) => Window::published(&here.world.time, bytes, chunks),
            None => {
                let mut windows = self.making.windows.lock();
                let measured = || Window::measured(&here.world.time);
                windows.entry(remote.to_owned()).or_insert_with(measured).clone()
            }
        };
        let of_file = published.and(settings::cluster::chunks_of_file(&here.metadata));
        let chunks_of_file_max = of_file.unwrap_or(u64::MAX);
        let rate = settings::cluster::copy_rate(&here.metadata);
        let (limiter, pacing) = (Arc::clone(&self.making.limiter), Arc::clone(&self.pacing));
        let time = here.world.time.clone();
        let pace: Pace = Arc::new(move |bytes| {
            let wait = limiter.wait(rate, time.now()).max(pacing.copies.wait());
            if wait.is_zero() {
                limiter.add(bytes);
                pacing.copies.add(bytes);
            }
            wait
        });
        CopyOptions {
            seed: here.router.names.next_u64(),
            window: Some(window),
            pace: Some(pace),
            compression,
            chunk_bytes_max: 5 << 20,
            chunks_of_file_max,
            format_max: here.replication.resources.format_max(),
            ..CopyOptions::default()
        }
    }

    /// Has first copies made elsewhere that a node was to make which is gone for good: nothing of the
    /// partition is lost, as there was nothing yet.
    pub(super) fn move_first_copies(&self, here: &Arc<LocalCopies>, turn: Taken<()>) {
        let (here, tables) = (Arc::clone(here), here.tables.all());
        self.children.begin("first copies elsewhere", async move {
            let log_time_ms = here.metadata.log_time_ms();
            let wait_ms = settings::cluster::delayed_ms(&here.metadata);
            let places = here.members.places(log_time_ms, wait_ms, &here.changes.wanted_nodes());
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
                let moved =
                    here.replication.update_definition(table.name(), table.incarnation(), change);
                if let Err(error) = moved.await {
                    tracing::warn!(%error, "a first copy cannot be moved");
                }
            }
            drop(turn);
        });
    }
}
