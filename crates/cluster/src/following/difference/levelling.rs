//! One partition, levelled: from where its copy stands to a snapshot of the leader's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use plimsoll_base::World;
use plimsoll_base::random::Draws;
use plimsoll_base::time::Instant;
use plimsoll_log::record::Item;
use plimsoll_log::rules::difference::{Difference, End, Standing, since};
use plimsoll_log::{PartitionId, SessionId};
use plimsoll_storage::partition::difference::{Compared, Comparison, Range, Rows, Span};
use plimsoll_storage::partition::{Leader, OwnedSnapshot, leader_of, stamp_of};
use plimsoll_storage::rows::StoreError;
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::halt::Halt;
use super::messages::{
    DifferenceAnswer, DifferenceAsk, Opened, SpanForm, WANTED_MAX, bytes_of_hashes,
};
use crate::following::check::LOG_TIME_MS_MAX;
use crate::following::progress::{Progress, Trouble};
use crate::following::pulled::{Pulled, is_cut_off};
use crate::following::remote::{Level, Remote, RemoteError};
use crate::replication::lead::{Step, Submission};

/// The first rest after something went wrong, doubled each time.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// How long the node is waited for that holds the snapshot: another's begins the round anew.
const AWAY_MAX: Duration = Duration::from_secs(60);
/// The pause after what does not mend by itself.
const FATAL_PAUSE: Duration = Duration::from_secs(60);
/// How long the leader has to hear that nothing but what comes from now on is needed.
const HOLD_TIME: Duration = Duration::from_secs(2);
/// How often a mapping is asked for.
const MAPPING_INTERVAL: Duration = Duration::from_secs(1);
/// How long the log here has to take a range.
const APPEND_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the leader's mapping is waited for.
const MAPPING_TIMEOUT: Duration = Duration::from_secs(30);
/// How often it is looked whether it is there.
const MAPPING_PAUSE: Duration = Duration::from_millis(20);

/// Levels one partition.
pub(in crate::following) struct Levelling {
    pub world: World,
    pub remote: Arc<dyn Remote>,
    pub pulled: Pulled,
    pub progress: Arc<Progress>,
    /// Has the leader's tables looked at.
    pub levels: mpsc::Sender<Level>,
    /// What rows are compared by: another number each time.
    pub seeds: Arc<Draws>,
    /// The leader's node that holds the snapshot, and when it answered last.
    pub source: Mutex<Option<(String, Instant)>>,
}

/// A snapshot of the leader's, and the node that holds it.
struct Open {
    node: String,
    opened: Opened,
    seed: u64,
}

impl Levelling {
    /// The partition by the leader's name of it.
    pub(in crate::following) fn leader(&self) -> PartitionId {
        self.pulled.leader
    }

    /// Goes on until the copy stands where a snapshot of the leader's stood.
    pub(in crate::following) async fn run(&self, room: &Semaphore) {
        let local = self.pulled.local.id;
        // What is trimmed is not needed any more. From now on everything is, or what comes after the
        // snapshot that it is being levelled with.
        let to = self.held().ok().and_then(|(leader, _)| leader.levelling.map(|it| it.to.lsn.0));
        self.need(Some(to.unwrap_or(u64::MAX)));
        if to.is_none() {
            // A snapshot that is taken before the leader knows that would end before what it keeps.
            self.world.time.sleep(HOLD_TIME).await;
        }
        tracing::info!(partition = %local, "the leader's log was trimmed: levelling by difference");
        let mut pause = PAUSE_MIN;
        let mut standing = self.standing();
        loop {
            // Others go on while this one rests.
            let Ok(place) = room.acquire().await else { return };
            let levelled = self.level().await;
            drop(place);
            let Err(Halt { why, is_fatal }) = levelled else { break };
            tracing::warn!(partition = %local, why, is_fatal, "it cannot be levelled now");
            let trouble = Some(Trouble { why, is_fatal });
            self.progress.tell(local, |it| {
                it.counters.failed_reads += 1;
                it.trouble = trouble;
            });
            let now = self.standing();
            pause = if now == standing { (pause * 2).min(PAUSE_MAX) } else { PAUSE_MIN };
            standing = now;
            self.world.time.sleep(if is_fatal { FATAL_PAUSE } else { pause }).await;
        }
        self.progress.tell(local, |it| {
            it.trouble = None;
            it.needed = None;
        });
        tracing::info!(partition = %local, "it is levelled, and follows the log again");
    }

    /// Says from where on the leader's log is needed. The keeper tells the leader whenever it looks at the
    /// table, for which a mapping that it cannot have is the reason.
    fn need(&self, after: Option<u64>) {
        self.progress.tell(self.pulled.local.id, |it| it.needed = after);
        let mappings = [(self.pulled.leader.table, u64::MAX)].into_iter().collect();
        let _ = self.levels.try_send(Level { mappings, ..Level::default() });
    }

    fn standing(&self) -> Option<Standing> {
        let leader = leader_of(&self.pulled.local.store).ok()??;
        Some(Standing::of(leader.position.link, leader.levelling.as_ref()))
    }

    /// One round, or the rest of one.
    async fn level(&self) -> Result<(), Halt> {
        if !self.pulled.table.follows().is_some_and(|it| it.is_active()) {
            return Err(Halt::waits("it follows no more"));
        }
        let open = self.open().await?;
        let to = open.opened.link;
        let held = self.held()?.0;
        if to.lsn <= held.position.link.lsn && !is_cut_off(&self.pulled) {
            return Ok(());
        }
        if held.levelling.as_ref().is_some_and(|it| it.to.lsn > to.lsn) {
            return Err(Halt::waits("the leader's node is behind another that was asked before"));
        }
        self.need(Some(to.lsn.0));
        self.await_mapping(open.opened.mapping_version).await?;
        let first = self.next_span(&open, None)?;
        let found = self.range(&open, &first).await?;
        let mut next = Some((first, found));
        while let Some((span, found)) = next.take() {
            let comparison = Comparison::new(span, found).map_err(Halt::of_leader)?;
            let end = comparison.span().until.clone();
            // The next is on its way while this one is compared and appended.
            let ahead = async {
                let Some(end) = end else { return Ok(None) };
                let span = self.next_span(&open, Some(end))?;
                let range = self.range(&open, &span).await?;
                Ok::<_, Halt>(Some((span, range)))
            };
            let (taken, ahead) = tokio::join!(self.take(&open, comparison), ahead);
            taken?;
            next = ahead?;
        }
        let stands_at = self.held()?.0.position.link.lsn.0;
        self.progress.stands_at(self.pulled.local.id, stands_at);
        let close = DifferenceAsk::Close { snapshot: open.opened.snapshot };
        // It would end by itself.
        let _ = self.remote.difference(&open.node, close).await;
        Ok(())
    }

    /// Has a node of the leader's hold a snapshot, or finds the one that is held.
    async fn open(&self) -> Result<Open, Halt> {
        let Pulled { leader, table, local } = &self.pulled;
        let follows = table.follows().ok_or_else(|| Halt::waits("it follows no more"))?;
        let theirs = self.remote.table(&follows.leader).await?;
        if theirs.incarnation != leader.table {
            let words = format!("the leader's table [{}] was deleted and made anew", theirs.name);
            return Err(Halt::stops(words));
        }
        let nodes = theirs.partitions.get(leader.ordinal as usize).map(|it| it.nodes.as_slice());
        let mut why = RemoteError::Unreachable("no copy of the leader's serves".to_owned());
        let now = self.world.time.now();
        let sources = sources(self.source.lock().as_ref(), nodes.unwrap_or_default(), now);
        for node in sources {
            let ask = DifferenceAsk::Open {
                table: leader.table,
                ordinal: leader.ordinal,
                log: follows.log,
                follower: format!("{:x}", local.id.table),
            };
            match self.remote.difference(&node, ask).await {
                Ok(DifferenceAnswer::Opened(opened)) => {
                    if opened.link.log_time_ms > LOG_TIME_MS_MAX {
                        let words = format!("its log time is {} ms", opened.link.log_time_ms);
                        return Err(Halt::stops(words));
                    }
                    *self.source.lock() = Some((node.clone(), self.world.time.now()));
                    return Ok(Open { node, opened, seed: self.seeds.next_u64() });
                }
                Ok(_) => return Err(Halt::another()),
                Err(error) => why = error,
            }
        }
        Err(why.into())
    }

    /// What the copy here is, and the sequence of its last change.
    fn held(&self) -> Result<(Leader, u64), Halt> {
        held(&self.pulled.local.store.owned_snapshot().map_err(Halt::waits)?)
    }

    /// What to ask for next: from where the copy stands on, or from a key.
    fn next_span(&self, open: &Open, from: Option<Bytes>) -> Result<Span, Halt> {
        let (held, sequence) = self.held()?;
        let levelling = held.levelling.as_ref();
        let begins = levelling.is_none_or(|it| it.to != open.opened.link);
        let after = match from {
            Some(from) => from,
            None if begins => Bytes::new(),
            None => levelling.map(|it| it.cursor.clone()).unwrap_or_default(),
        };
        let (since, until) = since(levelling, begins, &after, sequence);
        Ok(Span { after, until, since, seed: open.seed })
    }

    async fn range(&self, open: &Open, span: &Span) -> Result<Range, Halt> {
        let (snapshot, span) = (open.opened.snapshot, SpanForm::from(span));
        match self.remote.difference(&open.node, DifferenceAsk::Range { snapshot, span }).await? {
            DifferenceAnswer::Range(range) => {
                self.received(&range.rows, 0);
                Ok(range)
            }
            _ => Err(Halt::another()),
        }
    }

    /// Has a range compared and what differs appended.
    async fn take(&self, open: &Open, comparison: Comparison) -> Result<(), Halt> {
        let own = self.pulled.local.store.clone();
        let is_same = move || {
            let is_same = comparison.is_rest_same(&own.owned_snapshot()?)?;
            Ok((comparison, is_same))
        };
        let (comparison, is_same) = self.aside(is_same).await?;
        let comparison = if is_same { comparison } else { self.complete(open, comparison).await? };
        let comparison = Arc::new(comparison);
        let mut from = comparison.span().after.clone();
        loop {
            let (store, compared) = (self.pulled.local.store.clone(), Arc::clone(&comparison));
            let key = from.clone();
            let changes = move || {
                let own = store.owned_snapshot()?;
                let leader = leader_of(&own)?;
                Ok((leader, compared.changes(&own, &key)?))
            };
            let (leader, Compared { changes, end }) = self.aside(changes).await?;
            let leader = leader.ok_or_else(|| Halt::waits("the copy follows nobody"))?;
            let levelling = leader.levelling.as_ref();
            let begins = levelling.is_none_or(|it| it.to != open.opened.link);
            let difference = Difference {
                incarnation: leader.position.incarnation,
                at: Standing::of(leader.position.link, levelling),
                begins,
                to: open.opened.link,
                sequence: open.opened.counters.sequence,
                mapping_version: open.opened.mapping_version,
                end: end.clone().map_or(End::Last(open.opened.counters), End::Before),
            };
            let is_here =
                difference.after() == &*from && difference.admits(&leader.position, levelling);
            if !is_here || !difference.is_ordered(&changes) {
                return Err(Halt::waits("the copy stands elsewhere by now"));
            }
            let (position, levelling) = difference.outcome(levelling);
            let expected = Standing::of(position.link, levelling.as_ref());
            self.append(Item::Difference { difference, changes }).await?;
            if self.standing() != Some(expected) {
                return Err(Halt::waits("another levels the copy as well"));
            }
            match end {
                Some(end) if comparison.span().until.as_ref() != Some(&end) => from = end,
                _ => return Ok(()),
            }
        }
    }

    /// Asks for what differs among the rows that did not come.
    async fn complete(&self, open: &Open, comparison: Comparison) -> Result<Comparison, Halt> {
        let snapshot = open.opened.snapshot;
        let span = SpanForm::from(comparison.span());
        let ask = DifferenceAsk::Hashes { snapshot, span: span.clone() };
        let DifferenceAnswer::Hashes(hashes) = self.remote.difference(&open.node, ask).await?
        else {
            return Err(Halt::another());
        };
        self.received(&[], 8 * hashes.len());
        let own = self.pulled.local.store.clone();
        let missing = move || {
            let mut comparison = comparison;
            let missing = comparison.missing(&own.owned_snapshot()?, &hashes)?;
            Ok((comparison, missing))
        };
        let (mut comparison, mut missing) = self.aside(missing).await?;
        let mut pieces: Option<(Bytes, Vec<u8>)> = None;
        while let Some(first) = missing.first().copied() {
            let (wanted, offset) = match &pieces {
                Some((_, value)) => (bytes_of_hashes(&[first]), value.len() as u64),
                None => (bytes_of_hashes(&missing[..missing.len().min(WANTED_MAX)]), 0),
            };
            let ask = DifferenceAsk::Rows { snapshot, span: span.clone(), wanted, offset };
            let DifferenceAnswer::Rows(Rows { rows, left }) =
                self.remote.difference(&open.node, ask).await?
            else {
                return Err(Halt::another());
            };
            self.received(&rows, 0);
            let rows = match gather(pieces.take(), rows, left)? {
                Gathered::Piece(key, value) => {
                    pieces = Some((key, value));
                    continue;
                }
                Gathered::Rows(rows) => rows,
            };
            let known: BTreeMap<u64, ()> =
                rows.iter().map(|(key, value)| (comparison.hash_of(key, value), ())).collect();
            let before = missing.len();
            missing.retain(|hash| !known.contains_key(hash));
            if missing.len() == before {
                return Err(Halt::stops("the leader sends rows that it was not asked for"));
            }
            comparison.take(rows).map_err(Halt::of_leader)?;
        }
        Ok(comparison)
    }

    async fn append(&self, item: Item) -> Result<(), Halt> {
        let local = &self.pulled.local;
        let (done, answered) = oneshot::channel();
        local.lead.submit(Submission {
            session: SessionId(0),
            first: 0,
            acked: 0,
            stamp_ms: 0,
            steps: vec![Step::Carry(item)],
            done,
        });
        match self.world.time.timeout(APPEND_TIMEOUT, answered).await {
            Ok(Ok(Ok(_))) => Ok(()),
            Ok(Ok(Err(error))) => Err(Halt::waits(format!("a range is not appended: {error}"))),
            _ => Err(Halt::waits("the log here does not answer")),
        }
    }

    /// Waits until the mapping here is as new as documents need it: an index without it would wait.
    async fn await_mapping(&self, needed: u64) -> Result<(), Halt> {
        let Pulled { table, leader, .. } = &self.pulled;
        let time = &self.world.time;
        let end = time.now() + MAPPING_TIMEOUT;
        let mut asked_at: Option<Instant> = None;
        while table.index().map_or(0, |index| index.mapping_version) < needed {
            if time.now() >= end {
                return Err(Halt::waits("the leader's mapping is not there yet"));
            }
            if asked_at.is_none_or(|at| time.now() - at >= MAPPING_INTERVAL) {
                asked_at = Some(time.now());
                let mappings = [(leader.table, needed)].into_iter().collect();
                let _ = self.levels.try_send(Level { mappings, ..Level::default() });
            }
            time.sleep(MAPPING_PAUSE).await;
        }
        Ok(())
    }

    /// Works on rows where that may block.
    async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Halt> {
        self.world.tasks.blocking(work).await.map_err(Halt::waits)?.map_err(Halt::waits)
    }

    /// Counts what came.
    fn received(&self, rows: &[(Bytes, Bytes)], more: usize) {
        let now = self.world.time.now();
        if let Some((_, heard_at)) = &mut *self.source.lock() {
            *heard_at = now;
        }
        let bytes: usize = rows.iter().map(|(key, value)| key.len() + value.len()).sum();
        self.progress.tell(self.pulled.local.id, |it| {
            it.heard_at = Some(now);
            it.trouble = None;
            it.counters.bytes += (bytes + more) as u64;
        });
    }
}

/// The nodes to ask for a snapshot, in turn: the one that holds one alone while it is waited for, then all,
/// that one first.
fn sources(holds: Option<&(String, Instant)>, nodes: &[String], now: Instant) -> Vec<String> {
    let Some((node, heard_at)) = holds else { return nodes.to_vec() };
    let others = nodes.iter().filter(|it| *it != node).cloned();
    let first = std::iter::once(node.clone());
    match now - *heard_at < AWAY_MAX {
        true => first.collect(),
        false => first.chain(others).collect(),
    }
}

/// What came of an answer.
enum Gathered {
    /// There is more of the only row.
    Piece(Bytes, Vec<u8>),
    Rows(Vec<(Bytes, Bytes)>),
}

/// Joins the pieces of a large row.
fn gather(
    pieces: Option<(Bytes, Vec<u8>)>,
    mut rows: Vec<(Bytes, Bytes)>,
    left: u64,
) -> Result<Gathered, Halt> {
    if pieces.is_none() && left == 0 {
        return Ok(Gathered::Rows(rows));
    }
    let (Some((key, piece)), true) = (rows.pop(), rows.is_empty()) else {
        return Err(Halt::another());
    };
    let (known, mut value) = pieces.unwrap_or_else(|| (key.clone(), Vec::new()));
    // No row is longer than a few times what a record takes.
    let is_row = known == key
        && !piece.is_empty()
        && value.len() + piece.len() <= 2 * plimsoll_log::RECORD_BYTES_MAX;
    if !is_row {
        return Err(Halt::stops("the leader sends pieces of another row"));
    }
    value.extend_from_slice(&piece);
    Ok(match left {
        0 => Gathered::Rows(vec![(key, value.into())]),
        _ => Gathered::Piece(key, value),
    })
}

fn held(own: &OwnedSnapshot) -> Result<(Leader, u64), Halt> {
    let leader = leader_of(own).map_err(Halt::waits)?;
    let leader = leader.ok_or_else(|| Halt::waits("the copy follows nobody"))?;
    let stamp = stamp_of(own).map_err(Halt::waits)?;
    Ok((leader, stamp.map_or(0, |it| it.sequence)))
}
