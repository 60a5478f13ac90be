//! The commit thread: takes what waits in the queue, of all groups, gives each append the next
//! position of its group, writes one batch, syncs once, publishes, and tells the outcomes.
//!
//! After a failed sync, or a failed write of another kind than a full disk or too many open files,
//! nothing more is appended until the log is opened anew.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::core::Core;
use super::header::Header;
use super::options::Durability;
use super::queue::{Pending, Work};
use super::store::{Batch, WriteError};
use crate::{AppendError, GroupId, Lsn};

/// After a write that found no room, appends are refused for this long without trying.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(100);

/// An append that is over, and what is told to who asked for it.
type Outcome = (Pending, Result<Lsn, AppendError>);

/// Where there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lacks {
    /// On the disk.
    Space,
    /// Among the files that may be open.
    Files,
}

/// The state of the commit thread.
pub(super) struct Committer {
    core: Arc<Core>,
    /// The last position given, by group.
    last: Vec<Lsn>,
    /// The last sequence given.
    sequence: u64,
    /// When a write found no room, and what was said.
    no_room: Option<(Instant, String)>,
    /// Where the last append found none: it is logged once.
    lacks: Option<Lacks>,
    /// What could not be trimmed for want of room, by group: it comes with the next batch.
    untrimmed: BTreeMap<GroupId, Lsn>,
}

impl Committer {
    /// Goes on after what the log holds.
    pub fn new(core: Arc<Core>, last: Vec<Lsn>, sequence: u64) -> Self {
        Self { core, last, sequence, no_room: None, lacks: None, untrimmed: BTreeMap::new() }
    }

    /// Runs until the queue is finished.
    pub fn run(mut self) {
        let core = Arc::clone(&self.core);
        let _guard = StopOnPanic(Arc::clone(&core));
        while let Some(work) = core.queue.take() {
            let bytes = work.bytes();
            let outcomes = self.commit(work);
            // Who learns that its append is over finds its room free.
            core.queue.finished(bytes);
            for (append, outcome) in outcomes {
                (append.done)(outcome);
            }
        }
    }

    /// Writes the work; returns what is to be told of each append.
    fn commit(&mut self, work: Work) -> Vec<Outcome> {
        let bytes = work.bytes();
        let Work { mut appends, trims, .. } = work;
        // A later position of a group stands behind an earlier one.
        let held_up = std::mem::take(&mut self.untrimmed).into_iter();
        let trims: BTreeMap<_, _> = held_up.chain(trims).collect();
        let mut outcomes = Vec::new();
        if let Some(refusal) = self.refusal(bytes) {
            outcomes = self.fail(std::mem::take(&mut appends), &refusal);
        }
        let batch_trims = trims.iter().map(|(group, up_to)| (*group, *up_to)).collect();
        let mut batch = Batch { entries: Vec::new(), trims: batch_trims };
        let positions = self.fill(&mut batch, &appends);
        if batch.entries.is_empty() && batch.trims.is_empty() {
            return outcomes;
        }
        outcomes.extend(
            match self.core.store.write(batch).and_then(|()| self.make_durable(appends.len())) {
                Ok(()) => self.succeed(appends, positions),
                Err(WriteError::NoSpace(reason)) => {
                    let is_said = self.found_no_room(Lacks::Space, &reason);
                    self.core.reserve.release();
                    self.trim_anyway(trims, is_said);
                    self.fail(appends, &AppendError::Refused(reason))
                }
                Err(WriteError::NoFile(reason)) => {
                    self.found_no_room(Lacks::Files, &reason);
                    self.untrimmed = trims;
                    self.fail(appends, &AppendError::Refused(reason))
                }
                Err(WriteError::NotWritten(reason)) => {
                    self.core.stop(&reason);
                    self.fail(appends, &AppendError::Refused(reason))
                }
                Err(WriteError::Unknown(reason)) => {
                    self.core.stop(&reason);
                    self.fail(appends, &AppendError::Unknown(reason))
                }
            },
        );
        outcomes
    }

    /// Has appends refused for a moment; says so once, and whether it had been said.
    fn found_no_room(&mut self, lacks: Lacks, reason: &str) -> bool {
        let is_said = self.lacks.replace(lacks) == Some(lacks);
        let what = match lacks {
            Lacks::Space => "the disk is full",
            Lacks::Files => "too many files are open",
        };
        if !is_said {
            tracing::warn!(%reason, "{what}, appends are refused");
        }
        self.no_room = Some((Instant::now(), reason.to_owned()));
        is_said
    }

    /// Why appends of so many bytes are refused now, if they are.
    fn refusal(&mut self, bytes: usize) -> Option<AppendError> {
        if let Some(reason) = self.core.stopped() {
            return Some(AppendError::Refused(reason));
        }
        if let Some((since, reason)) = &self.no_room
            && since.elapsed() < NO_ROOM_PAUSE
        {
            return Some(AppendError::Refused(reason.clone()));
        }
        self.no_room = None;
        let is_full = self.core.reserve.would_be_taken(bytes);
        is_full.then(|| AppendError::Refused("the disk is full".to_owned()))
    }

    /// Adds the appends to the batch; returns their positions, in their order.
    fn fill(&self, batch: &mut Batch, appends: &[Pending]) -> Vec<Lsn> {
        let synced = self.core.synced.load(Ordering::Acquire);
        let mut slots: Vec<Option<usize>> = vec![None; self.last.len()];
        let mut positions = Vec::with_capacity(appends.len());
        for (sequence, append) in (self.sequence + 1..).zip(appends) {
            let group = usize::from(append.group.0);
            let slot = *slots[group].get_or_insert_with(|| {
                batch.entries.push((append.group, Vec::new()));
                batch.entries.len() - 1
            });
            let payloads = &mut batch.entries[slot].1;
            let lsn = Lsn(self.last[group].0 + 1 + payloads.len() as u64);
            let header = Header {
                incarnation: self.core.incarnation,
                group: append.group,
                record_bytes: u32::try_from(append.record.len()).unwrap_or(u32::MAX),
                lsn,
                sequence,
                synced,
                record_crc: crc32fast::hash(&append.record),
            };
            payloads.push(header.wrap(&append.record));
            positions.push(lsn);
        }
        positions
    }

    /// Syncs where appends are to be durable before they are acknowledged.
    fn make_durable(&self, append_count: usize) -> Result<(), WriteError> {
        let upto = self.sequence + append_count as u64;
        if self.core.durability() == Durability::Request && append_count > 0 {
            let synced = self.core.sync(upto);
            return synced.map_err(|error| WriteError::Unknown(error.to_string()));
        }
        // The underlying engine syncs a full file by itself; its failure counts as any other.
        let failure = self.core.watch.failure();
        failure.map_or(Ok(()), |error| Err(WriteError::Unknown(error.to_string())))
    }

    fn succeed(&mut self, appends: Vec<Pending>, positions: Vec<Lsn>) -> Vec<Outcome> {
        if appends.is_empty() {
            return Vec::new();
        }
        if self.lacks.take().is_some() {
            tracing::info!("there is room again, appends are taken");
        }
        let oldest = appends[0].queued;
        let bytes: usize = appends.iter().map(|append| append.record.len()).sum();
        self.sequence += appends.len() as u64;
        self.core.written.store(self.sequence, Ordering::Release);
        for (append, lsn) in appends.iter().zip(&positions) {
            self.last[usize::from(append.group.0)] = *lsn;
        }
        let published =
            |(append, lsn): (&Pending, &Lsn)| (append.group, *lsn, append.record.clone());
        let records: Vec<(GroupId, Lsn, Bytes)> =
            appends.iter().zip(&positions).map(published).collect();
        self.core.tail.publish(records.into_iter());
        self.core.stats.lock().committed(appends.len() as u64, bytes as u64, oldest.elapsed());
        appends.into_iter().zip(positions.into_iter().map(Ok)).collect()
    }

    fn fail(&self, appends: Vec<Pending>, error: &AppendError) -> Vec<Outcome> {
        self.core.stats.lock().appends_failed += appends.len() as u64;
        appends.into_iter().map(|append| (append, Err(error.clone()))).collect()
    }

    /// A full disk must not keep the log from giving space back: trims are tried by themselves.
    fn trim_anyway(&mut self, trims: BTreeMap<GroupId, Lsn>, is_said: bool) {
        if trims.is_empty() {
            return;
        }
        let batch = Batch { entries: Vec::new(), trims: trims.clone().into_iter().collect() };
        if let Err(error) = self.core.store.write(batch) {
            self.untrimmed = trims;
            if !is_said {
                tracing::warn!(?error, "the log cannot be trimmed");
            }
        }
    }
}

/// A panic here, be it in a caller's `done`, must not leave everybody waiting.
struct StopOnPanic(Arc<Core>);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let reason = "the commit thread panicked";
        self.0.stop(reason);
        for pending in self.0.queue.drain() {
            (pending.done)(Err(AppendError::Refused(reason.to_owned())));
        }
        self.0.tail.close(reason);
    }
}
