//! What this node does for the tables that follow: it has first copies made (`making.rs`), pulls the
//! partitions that it speaks for (`pull.rs`), and has their leaders looked at (`mirror.rs`,
//! `holding.rs`). It looks at the tables now and then and brings about what is missing; a crash leaves
//! nothing that the next look does not find.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll_base::tasks::Stopping;
use plimsoll_base::time::Instant;
use plimsoll_log::PartitionId;
use tokio::sync::mpsc;

use super::children::Parent;
use super::leading::PLACES_MAX;
use super::progress::Trouble;
use super::pull::Pull;
use super::pulled::Pulled;
use super::remote::{Level, Remote};
use super::service::{Following, Keeping, LOOK_INTERVAL, trouble_of};
use super::slots::{Slots, Turn};
use crate::copies::LocalCopies;
use crate::metadata::follows::Follows;
use crate::replication::tables::Table;

/// How often tables are looked at.
const INTERVAL: Duration = Duration::from_millis(250);
/// How soon an end is brought about that somebody began.
const ENDING_INTERVAL: Duration = Duration::from_secs(2);
/// Leaders' tables that are looked at, at once.
const LOOKING_MAX: usize = 64;
/// How often new tables are looked for.
const PATTERNS_INTERVAL: Duration = Duration::from_secs(2);
/// Levels of leaders that may wait to be looked at.
const LEVELS_MAX: usize = 16;
/// What one look remembers for the next.
#[derive(Default)]
struct Seen {
    pulls: BTreeMap<String, Pulling>,
    /// When leaders' tables are to be looked at next.
    looks: BTreeMap<u64, Instant>,
    /// Leaders' tables that are being looked at.
    looking: Slots<u64>,
    /// When new tables were looked for.
    patterns: Turn,
    /// Tables that become their own, and when that was seen first.
    ending_since: BTreeMap<u64, Instant>,
    endings: Turn,
    /// When first copies of nodes that are gone were looked for.
    moves: Turn,
    /// When leaders were told of ends.
    ends: Turn,
}

/// What is pulled from one remote.
struct Pulling {
    /// The leader's partitions, each with which copy here.
    pulled: Vec<(PartitionId, usize)>,
    remote: Arc<dyn Remote>,
    /// It ends with this.
    _parent: Parent,
}

/// Looks until it is told to stop, or the node stops. What goes on beside it ends with it.
pub(super) async fn run(keeping: Arc<Keeping>, _parent: Parent, mut stopping: Stopping) {
    let (tell, mut levels) = mpsc::channel(LEVELS_MAX);
    let mut seen = Seen::default();
    loop {
        {
            let Some(here) = keeping.here.upgrade() else { break };
            if stopping.is_told() || here.replication.is_stopping.load(Ordering::Relaxed) {
                break;
            }
            keeping.check(&here, &mut seen, &tell);
        }
        let level = tokio::select! {
            biased;
            () = stopping.told() => break,
            level = levels.recv() => level,
            () = keeping.wake.notified() => None,
            () = keeping.world.time.sleep(INTERVAL) => None,
        };
        if let (Some(level), Some(here)) = (level, keeping.here.upgrade()) {
            keeping.check_level(&here, &mut seen, &level);
        }
    }
}

impl Keeping {
    fn check(
        self: &Arc<Self>,
        here: &Arc<LocalCopies>,
        seen: &mut Seen,
        tell: &mpsc::Sender<Level>,
    ) {
        let now = self.world.time.now();
        let mut pulls: BTreeMap<String, Vec<Pulled>> = BTreeMap::new();
        let mut following = BTreeSet::new();
        let mut urgent = BTreeSet::new();
        for table in here.tables.all() {
            let Some(follows) = table.follows() else { continue };
            following.insert(table.incarnation());
            let known = (table.name().to_owned(), Arc::clone(&follows));
            self.known.lock().insert(table.incarnation(), known);
            for copies in table.copies() {
                let definition = copies.definition();
                match copies.local() {
                    None if copies.is_first_to_come()
                        && definition.copy_on(&here.members.own).is_some() =>
                    {
                        self.make_in_time(here, &table, copies, &follows);
                    }
                    Some(local)
                        if follows.is_active()
                            && local.fault().is_none()
                            && here.members.speaks_for(copies.id, &definition) =>
                    {
                        if self.progress.is_urgent(copies.id, now) {
                            urgent.insert(follows.remote.clone());
                        }
                        let leader = follows.partition(copies.id.ordinal);
                        let table = Arc::clone(&table);
                        let pulled = Pulled { leader, table, local };
                        pulls.entry(follows.remote.clone()).or_default().push(pulled);
                    }
                    _ => {}
                }
            }
            if self.is_turn(here, seen, &table) {
                self.check_leader(here, seen, &table, &follows);
            }
        }
        let ended: Vec<_> = {
            let mut known = self.known.lock();
            // One that was created since this look began is there.
            let is_over = |table: &u64| {
                !following.contains(table) && here.tables.follows_of(*table).is_none()
            };
            known.extract_if(.., |table, _| is_over(table)).collect()
        };
        for (incarnation, (name, follows)) in ended {
            self.tell_end(name, incarnation, &follows);
        }
        self.progress.retain(|id| following.contains(&id.table));
        self.pacing.hasten(self.progress.urgency(now));
        self.held.lock().retain(|table, _| following.contains(table));
        seen.looks.retain(|table, _| following.contains(table));
        self.making.retain(|id| following.contains(&id.table));
        self.making.release_compactions(&here.replication.resources);
        self.making.share_links(&*self.remotes, |remote| urgent.contains(remote));
        if here.replication.is_alone || here.members.acts() {
            self.check_patterns(here, seen);
            if let Some(turn) = seen.moves.take(LOOK_INTERVAL, now) {
                self.move_first_copies(here, turn);
            }
            if let Some(turn) = seen.ends.take(LOOK_INTERVAL, now) {
                self.tell_ends(here, turn);
            }
            self.bring_to_end(here, seen);
        }
        self.pull(here, seen, pulls, tell);
    }

    /// Brings to its end what became a table of its own when a crash cut it off.
    fn bring_to_end(self: &Arc<Self>, here: &Arc<LocalCopies>, seen: &mut Seen) {
        let is_ending = |table: &Arc<Table>| table.follows().is_some_and(|it| it.is_ending);
        let mut tables: Vec<_> = here.tables.all().into_iter().filter(is_ending).collect();
        seen.ending_since.retain(|table, _| tables.iter().any(|it| it.incarnation() == *table));
        let now = self.world.time.now();
        // Whoever began it is mostly at it.
        tables.retain(|table| {
            let since = seen.ending_since.entry(table.incarnation()).or_insert(now);
            now - *since >= ENDING_INTERVAL
        });
        let turn = (!tables.is_empty()).then(|| seen.endings.take(ENDING_INTERVAL, now)).flatten();
        let Some(turn) = turn else { return };
        let following = Following { here: Arc::clone(here), keeping: Arc::clone(self) };
        self.children.begin("end following", async move {
            for table in tables {
                if let Err(error) = following.end(&table).await {
                    let table = table.name();
                    tracing::warn!(table, %error, "a following cannot be ended yet");
                }
            }
            drop(turn);
        });
    }

    /// Has new tables looked for, beside everything else.
    fn check_patterns(self: &Arc<Self>, here: &Arc<LocalCopies>, seen: &mut Seen) {
        let now = self.world.time.now();
        let Some(turn) = seen.patterns.take(PATTERNS_INTERVAL, now) else { return };
        let following = Following { here: Arc::clone(here), keeping: Arc::clone(self) };
        self.children.begin("look at patterns", async move {
            following.check_patterns().await;
            drop(turn);
        });
    }

    /// Whether this node looks at a table's leader now: the one that speaks for its first partition.
    fn is_turn(&self, here: &LocalCopies, seen: &mut Seen, table: &Table) -> bool {
        let now = self.world.time.now();
        match seen.looks.get(&table.incarnation()) {
            Some(at) if now < *at => return false,
            Some(_) => {}
            None => {
                // Not all tables at one moment.
                let early = LOOK_INTERVAL.mul_f64(table.incarnation() as f64 / u64::MAX as f64);
                seen.looks.insert(table.incarnation(), now + LOOK_INTERVAL.saturating_sub(early));
                return false;
            }
        }
        // Each node that pulls says how far it is.
        table.copies().iter().any(|copies| {
            copies.local().is_some() && here.members.speaks_for(copies.id, &copies.definition())
        })
    }

    /// Has exactly these partitions pulled.
    fn pull(
        &self,
        here: &LocalCopies,
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
            let (parent, children) = Parent::new(&self.world.tasks);
            for pulled in pulled.chunks(PLACES_MAX) {
                let version = Arc::clone(&here.replication.version);
                let pull = Pull::new(self, &remote, pulled.to_vec(), version, tell.clone());
                children.begin("pull", pull.run());
            }
            seen.pulls.insert(name, Pulling { pulled: names, remote, _parent: parent });
        }
    }

    /// A leader's mapping that is newer than its follower's is taken over at once: an index waits for it.
    fn check_level(self: &Arc<Self>, here: &Arc<LocalCopies>, seen: &mut Seen, level: &Level) {
        for table in here.tables.all() {
            let Some(follows) = table.follows().filter(|it| it.is_active()) else { continue };
            let known = table.index().map_or(0, |index| index.mapping_version);
            if level.mappings.get(&follows.incarnation).is_some_and(|version| *version > known) {
                self.check_leader(here, seen, &table, &follows);
            }
        }
    }

    /// Looks at a leader's table beside everything else, and tells how far its follower is.
    fn check_leader(
        self: &Arc<Self>,
        here: &Arc<LocalCopies>,
        seen: &mut Seen,
        table: &Arc<Table>,
        follows: &Arc<Follows>,
    ) {
        let incarnation = table.incarnation();
        let Some(slot) = seen.looking.take(incarnation, LOOKING_MAX) else { return };
        seen.looks.insert(incarnation, self.world.time.now() + LOOK_INTERVAL);
        let (keeping, here) = (Arc::clone(self), Arc::downgrade(here));
        let (table, follows) = (Arc::clone(table), Arc::clone(follows));
        self.children.begin("look at a leader", async move {
            if let Some(here) = here.upgrade()
                && let Err(error) = keeping.take_over(&here, &table, &follows).await
            {
                let (why, is_fatal) = trouble_of(error);
                for (_, local) in table.local().filter(|_| is_fatal) {
                    let trouble = Some(Trouble { why: why.clone(), is_fatal });
                    keeping.progress.tell(local.id, |it| it.trouble = trouble);
                }
            }
            drop(slot);
        });
    }
}
