//! What this node does for the tables that follow: it makes first copies, pulls the partitions that it
//! speaks for, keeps mapping, settings and aliases as the leader's, and tells the leader how far it
//! has come. It looks at the tables now and then and brings about what is missing; a crash leaves
//! nothing that the next look does not find.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use plimsoll_log::PartitionId;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::Following;
use super::auto_follow::AutoFollowTold;
use super::definition::Follows;
use super::first_copy;
use super::leading::PLACES_MAX;
use super::pace::Limiter;
use super::progress::{Progress, Trouble};
use super::pull::{Pull, Pulled};
use super::remote::{Hold, HoldChange, Level, Remote, RemoteError, Remotes};
use crate::cluster_settings;
use crate::node::Shared;
use crate::placement::{Copy, CopyState, proposed};
use crate::recovery::{CopyOptions, Pace, Stage, Window};
use crate::session::random_u64;
use crate::table::{Copies, Table, TableDefinition};

/// How often tables are looked at.
const INTERVAL: Duration = Duration::from_millis(250);
/// First copies that this node makes at once.
const MAKING_MAX: usize = 2;
/// How long a first copy rests that could not be made.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// How often a leader's table is looked at, and told how far its follower is.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// How long this node may take to serve what the metadata says of a table.
const RECONCILE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often new tables are looked for.
const PATTERNS_INTERVAL: Duration = Duration::from_secs(2);
/// Levels of leaders that may wait to be looked at.
const LEVELS_MAX: usize = 16;
/// How often the end of following is told to a leader that does not answer: it keeps its log until
/// its own budget otherwise.
const ENDS_TOLD_MAX: u32 = 30;

/// What several tasks share.
pub(super) struct Keeping {
    pub shared: Weak<Shared>,
    pub remotes: Arc<dyn Remotes>,
    pub progress: Arc<Progress>,
    /// This cluster, as leaders know it.
    pub cluster_uuid: String,
    pub is_stopping: AtomicBool,
    /// What became of looking for new tables.
    pub auto: AutoFollowTold,
    /// Tables that follow, as they were last, by their incarnations.
    pub known: Mutex<HashMap<u64, (String, Arc<Follows>)>>,
    /// What is under way of files, of each remote: copies share it.
    pub windows: Mutex<HashMap<String, Window>>,
    /// Where that is limited.
    pub limiter: Arc<Limiter>,
    /// What leaders were told last of each table.
    pub held: Mutex<HashMap<u64, Vec<u64>>>,
}

/// What one look remembers for the next.
#[derive(Default)]
struct Seen {
    making: Arc<Mutex<HashMap<PartitionId, Option<Instant>>>>,
    pulls: BTreeMap<String, Pulling>,
    looked_at: HashMap<u64, Instant>,
    /// Leaders' tables that are being looked at.
    looking: Arc<Mutex<HashSet<u64>>>,
    /// When new tables were looked for; none while that goes on.
    patterns_at: Arc<Mutex<Option<Instant>>>,
    has_looked: bool,
    /// Tables that become their own, and when that was tried or seen.
    ending_at: HashMap<u64, Instant>,
    /// When first copies of nodes that are gone were looked for.
    moved_at: Option<Instant>,
}

/// What is pulled from one remote.
struct Pulling {
    /// The leader's partitions, each with which copy here.
    pulled: Vec<(PartitionId, usize)>,
    remote: Arc<dyn Remote>,
    tasks: Vec<AbortHandle>,
}

impl Drop for Pulling {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Looks until the node stops.
pub(super) async fn run(keeping: Arc<Keeping>) {
    let (tell, mut levels) = mpsc::channel(LEVELS_MAX);
    let mut seen = Seen::default();
    loop {
        {
            let Some(shared) = keeping.shared.upgrade() else { break };
            let is_stopping = [&*shared.is_stopping, &keeping.is_stopping];
            if is_stopping.iter().any(|it| it.load(Ordering::Relaxed)) {
                break;
            }
            keeping.look(&shared, &mut seen, &tell);
        }
        if let Ok(Some(level)) = tokio::time::timeout(INTERVAL, levels.recv()).await
            && let Some(shared) = keeping.shared.upgrade()
        {
            keeping.look_at_level(&shared, &mut seen, &level);
        }
    }
}

impl Keeping {
    fn look(self: &Arc<Self>, shared: &Arc<Shared>, seen: &mut Seen, tell: &mpsc::Sender<Level>) {
        let mut pulls: BTreeMap<String, Vec<Pulled>> = BTreeMap::new();
        let mut following = BTreeSet::new();
        for table in shared.tables.all() {
            let Some(follows) = table.follows() else { continue };
            following.insert(table.incarnation());
            let known = (table.name().to_owned(), Arc::clone(&follows));
            self.known.lock().insert(table.incarnation(), known);
            for copies in table.copies() {
                let definition = copies.definition();
                match copies.local() {
                    None if copies.is_first_to_come()
                        && definition.copy_on(&shared.members.own).is_some() =>
                    {
                        self.make_in_time(shared, seen, &table, copies, &follows);
                    }
                    Some(local)
                        if follows.is_active()
                            && local.fault().is_none()
                            && shared.members.speaks_for(copies.id, &definition) =>
                    {
                        let leader = follows.partition(copies.id.ordinal);
                        let table = Arc::clone(&table);
                        let pulled = Pulled { leader, table, local };
                        pulls.entry(follows.remote.clone()).or_default().push(pulled);
                    }
                    _ => {}
                }
            }
            if self.is_turn(shared, seen, &table) {
                self.look_at_leader(shared, seen, &table, &follows);
            }
        }
        let ended: Vec<_> = {
            let mut known = self.known.lock();
            // One that was created since this look began is there.
            let is_over = |table: &u64| {
                !following.contains(table) && shared.tables.follows_of(*table).is_none()
            };
            known.extract_if(|table, _| is_over(table)).collect()
        };
        for (incarnation, (name, follows)) in ended {
            self.tell_end(name, incarnation, &follows);
        }
        self.progress.retain(|id| following.contains(&id.table));
        self.held.lock().retain(|table, _| following.contains(table));
        seen.looked_at.retain(|table, _| following.contains(table));
        seen.making.lock().retain(|id, it| it.is_none() || following.contains(&id.table));
        if shared.is_alone || shared.members.acts() {
            self.look_at_patterns(shared, seen);
            self.move_first_copies(shared, seen);
            self.bring_to_end(shared, seen);
        }
        self.pull(seen, pulls, tell);
    }

    /// Has first copies made elsewhere that a node was to make which is gone for good: nothing of the
    /// partition is lost, as there was nothing yet.
    fn move_first_copies(self: &Arc<Self>, shared: &Arc<Shared>, seen: &mut Seen) {
        if seen.moved_at.is_some_and(|at| at.elapsed() < LOOK_INTERVAL) {
            return;
        }
        seen.moved_at = Some(Instant::now());
        let (shared, tables) = (Arc::clone(shared), shared.tables.all());
        tokio::spawn(async move {
            let log_time_ms = shared.metadata.log_time_ms();
            let wait_ms = cluster_settings::delayed_ms(&shared.metadata);
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
        });
    }

    /// Brings to its end what became a table of its own when a crash cut it off.
    fn bring_to_end(self: &Arc<Self>, shared: &Arc<Shared>, seen: &mut Seen) {
        let is_ending = |table: &Arc<Table>| table.follows().is_some_and(|it| it.is_ending);
        for table in shared.tables.all().into_iter().filter(is_ending) {
            let at = seen.ending_at.entry(table.incarnation()).or_insert_with(Instant::now);
            // Whoever began it is mostly at it.
            if at.elapsed() < RETRY_INTERVAL {
                continue;
            }
            *at = Instant::now();
            let following = Following { shared: Arc::clone(shared), keeping: Arc::clone(self) };
            tokio::spawn(async move {
                if let Err(error) = following.end(&table).await {
                    let table = table.name();
                    tracing::warn!(table, %error, "a following cannot be ended yet");
                }
            });
        }
        let is_there = |table: &u64| shared.tables.follows_of(*table).is_some();
        seen.ending_at.retain(|table, _| is_there(table));
    }

    /// Has new tables looked for, beside everything else.
    fn look_at_patterns(self: &Arc<Self>, shared: &Arc<Shared>, seen: &mut Seen) {
        let mut at = seen.patterns_at.lock();
        if seen.has_looked && at.is_none_or(|at| at.elapsed() < PATTERNS_INTERVAL) {
            return;
        }
        *at = None;
        drop(at);
        seen.has_looked = true;
        let following = Following { shared: Arc::clone(shared), keeping: Arc::clone(self) };
        let patterns_at = Arc::clone(&seen.patterns_at);
        tokio::spawn(async move {
            following.look_at_patterns().await;
            *patterns_at.lock() = Some(Instant::now());
        });
    }

    /// Whether this node looks at a table's leader now: the one that speaks for its first partition.
    fn is_turn(&self, shared: &Shared, seen: &mut Seen, table: &Table) -> bool {
        let is_due = |at: &Instant| at.elapsed() >= LOOK_INTERVAL;
        match seen.looked_at.get(&table.incarnation()) {
            Some(at) if !is_due(at) => return false,
            Some(_) => {}
            None => {
                // Not all tables at one moment.
                let early = LOOK_INTERVAL.mul_f64(table.incarnation() as f64 / u64::MAX as f64);
                let at = Instant::now().checked_sub(early).unwrap_or_else(Instant::now);
                seen.looked_at.insert(table.incarnation(), at);
                return false;
            }
        }
        // Each node that pulls says how far it is.
        table.copies().iter().any(|copies| {
            copies.local().is_some() && shared.members.speaks_for(copies.id, &copies.definition())
        })
    }

    /// Has exactly these partitions pulled.
    fn pull(
        &self,
        seen: &mut Seen,
        mut wanted: BTreeMap<String, Vec<Pulled>>,
        tell: &mpsc::Sender<Level>,
    ) {
        // A copy that was made anew is another, though it has the same name; so is a remote that was
        // set anew.
        let names = |pulled: &[Pulled]| {
            let name = |it: &Pulled| (it.leader, Arc::as_ptr(&it.local) as usize);
            pulled.iter().map(name).collect::<Vec<_>>()
        };
        seen.pulls.retain(|remote, pulling| {
            let known = self.remotes.get(remote);
            known
                .is_some_and(|it| std::ptr::addr_eq(Arc::as_ptr(&it), Arc::as_ptr(&pulling.remote)))
                && wanted.get(remote).is_some_and(|it| names(it) == pulling.pulled)
        });
        wanted.retain(|remote, _| !seen.pulls.contains_key(remote));
        for (name, pulled) in wanted {
            let Some(remote) = self.remotes.get(&name) else {
                let why = format!("no such remote cluster: [{name}]");
                for Pulled { local, .. } in pulled {
                    let trouble = Trouble { why: why.clone(), is_fatal: false };
                    self.progress.tell(local.id, |it| it.trouble = Some(trouble));
                }
                continue;
            };
            let names = names(&pulled);
            let pull = |pulled: &[Pulled]| {
                let progress = Arc::clone(&self.progress);
                let pull = Pull::new(Arc::clone(&remote), pulled.to_vec(), progress, tell.clone());
                tokio::spawn(pull.run()).abort_handle()
            };
            let tasks = pulled.chunks(PLACES_MAX).map(pull).collect();
            seen.pulls.insert(name, Pulling { pulled: names, remote, tasks });
        }
    }

    fn make_in_time(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        seen: &Seen,
        table: &Arc<Table>,
        copies: &Arc<Copies>,
        follows: &Arc<Follows>,
    ) {
        let mut making = seen.making.lock();
        let rests = match making.get(&copies.id) {
            Some(None) => true,
            Some(Some(until)) => *until > Instant::now(),
            None => false,
        };
        let busy = making.values().filter(|it| it.is_none()).count();
        if rests || busy >= MAKING_MAX || follows.is_ending {
            return;
        }
        making.insert(copies.id, None);
        let (keeping, shared, making) =
            (Arc::clone(self), Arc::downgrade(shared), Arc::clone(&seen.making));
        let (table, copies, follows) = (Arc::clone(table), Arc::clone(copies), Arc::clone(follows));
        tokio::spawn(async move {
            let Some(shared) = shared.upgrade() else { return };
            match keeping.make(&shared, &table, &copies, &follows).await {
                Ok(()) => {
                    making.lock().remove(&copies.id);
                    keeping.progress.tell(copies.id, |it| it.trouble = None);
                }
                Err((why, is_fatal)) => {
                    tracing::warn!(partition = %copies.id, why, "a first copy cannot be made yet");
                    let trouble = Some(Trouble { why, is_fatal });
                    keeping.progress.tell(copies.id, |it| it.trouble = trouble);
                    making.lock().insert(copies.id, Some(Instant::now() + RETRY_INTERVAL));
                }
            }
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
        let (remote, leader) = self.leader(follows).await.map_err(trouble_of)?;
        let options = self.copy_options(shared, &follows.remote);
        let from = (&*remote, &leader, &options);
        let brought = first_copy::bring(shared, from, follows, table, copies).await;
        let recovery = brought.map_err(|why| (why, false))?;
        // The index that came may know fields that were new since the table was looked at.
        self.take_over(shared, table, follows).await.map_err(trouble_of)?;
        shared.reconciled_to(shared.metadata.applied().0, RECONCILE_TIMEOUT).await;
        let is_there = || shared.tables.copies(copies.id).is_some();
        let mut served = match is_there() {
            true if copies.is_first_to_come() => {
                first_copy::serve(shared, follows, table, copies).await
            }
            true => Err("another copy serves by now".to_owned()),
            false => Err("the table was deleted".to_owned()),
        };
        if !is_there() {
            // Also what was put in its place meanwhile.
            let closed = shared.close_copy(copies, "the table was deleted").await;
            served = closed.and(Err("the table was deleted".to_owned()));
        }
        if let Some(recovery) = recovery {
            match &served {
                Ok(()) => recovery.enter(Stage::Done),
                Err(why) => recovery.fail(why),
            }
        }
        served.map_err(|why| (why, false))
    }

    /// How the files of a leader are copied: as is set, and else as the link allows.
    fn copy_options(&self, shared: &Shared, remote: &str) -> CopyOptions {
        let window = match cluster_settings::published_chunks(&shared.metadata) {
            // As published: of each copy its own.
            Some((bytes, chunks)) => Window::published(bytes, chunks),
            None => {
                let mut windows = self.windows.lock();
                windows.entry(remote.to_owned()).or_insert_with(Window::measured).clone()
            }
        };
        let rate = cluster_settings::copy_rate(&shared.metadata);
        let limiter = Arc::clone(&self.limiter);
        let pace = rate.map(|rate| -> Pace {
            Arc::new(move |bytes| limiter.wait(bytes, rate, Instant::now()))
        });
        let chunk_bytes_max = 5 << 20;
        let window = Some(window);
        CopyOptions { seed: random_u64(), window, pace, chunk_bytes_max, ..CopyOptions::default() }
    }

    /// A leader's mapping that is newer than its follower's is taken over at once: an index waits for it.
    fn look_at_level(self: &Arc<Self>, shared: &Arc<Shared>, seen: &mut Seen, level: &Level) {
        for table in shared.tables.all() {
            let Some(follows) = table.follows().filter(|it| it.is_active()) else { continue };
            let known = table.index().map_or(0, |index| index.mapping_version);
            if level.mappings.get(&follows.incarnation).is_some_and(|version| *version > known) {
                self.look_at_leader(shared, seen, &table, &follows);
            }
        }
    }

    /// Looks at a leader's table beside everything else, and tells how far its follower is.
    fn look_at_leader(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        seen: &mut Seen,
        table: &Arc<Table>,
        follows: &Arc<Follows>,
    ) {
        let incarnation = table.incarnation();
        if !seen.looking.lock().insert(incarnation) {
            return;
        }
        seen.looked_at.insert(incarnation, Instant::now());
        let looking = Arc::clone(&seen.looking);
        let (keeping, shared) = (Arc::clone(self), Arc::downgrade(shared));
        let (table, follows) = (Arc::clone(table), Arc::clone(follows));
        tokio::spawn(async move {
            if let Some(shared) = shared.upgrade()
                && let Err(error) = keeping.take_over(&shared, &table, &follows).await
            {
                let (why, is_fatal) = trouble_of(error);
                for (_, local) in table.local().filter(|_| is_fatal) {
                    let trouble = Some(Trouble { why: why.clone(), is_fatal });
                    keeping.progress.tell(local.id, |it| it.trouble = trouble);
                }
            }
            looking.lock().remove(&incarnation);
        });
    }

    /// Tells the leader how far the copies here are that this node speaks for: what comes after is kept.
    pub(super) async fn hold(
        &self,
        shared: &Shared,
        remote: &dyn Remote,
        table: &Table,
        follows: &Follows,
    ) -> Result<(), RemoteError> {
        let taken = |copies: &Arc<Copies>| {
            let is_spoken_for = shared.members.speaks_for(copies.id, &copies.definition());
            if is_spoken_for { self.progress.of(copies.id).needed() } else { 0 }
        };
        let positions: Vec<u64> = table.copies().iter().map(taken).collect();
        // Each is a change of the leader's metadata.
        let is_known = self.held.lock().get(&table.incarnation()) == Some(&positions);
        if is_known {
            return Ok(());
        }
        let change = HoldChange::Positions(positions.clone());
        let hold = self.hold_of(table.name(), table.incarnation(), follows, change);
        remote.hold(hold).await?;
        self.held.lock().insert(table.incarnation(), positions);
        Ok(())
    }

    pub(super) fn hold_of(
        &self,
        name: &str,
        incarnation: u64,
        follows: &Follows,
        change: HoldChange,
    ) -> Hold {
        Hold {
            name: follows.leader.clone(),
            table: follows.incarnation,
            cluster_uuid: self.cluster_uuid.clone(),
            follower: name.to_owned(),
            follower_incarnation: incarnation,
            change,
        }
    }

    /// A table follows no more, or is gone: its leader need keep nothing for it.
    pub(super) fn tell_end(self: &Arc<Self>, name: String, incarnation: u64, follows: &Follows) {
        let hold = self.hold_of(&name, incarnation, follows, HoldChange::End);
        let (keeping, remote) = (Arc::clone(self), follows.remote.clone());
        tokio::spawn(async move {
            for _ in 0..ENDS_TOLD_MAX {
                let Some(remote) = keeping.remotes.get(&remote) else { return };
                match remote.hold(hold.clone()).await {
                    Err(RemoteError::Unreachable(_)) => tokio::time::sleep(LOOK_INTERVAL).await,
                    _ => return,
                }
            }
        });
    }
}

fn trouble_of(error: RemoteError) -> (String, bool) {
    let is_fatal =
        matches!(error, RemoteError::NoTable(_) | RemoteError::Trimmed(_) | RemoteError::Forked(_));
    (error.to_string(), is_fatal)
}
