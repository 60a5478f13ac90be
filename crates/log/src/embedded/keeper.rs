//! The housekeeping thread: syncs an `async` log, keeps the mark, trims, gives space back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::core::Core;
use super::damage;
use super::options::Durability;
use super::reserve::free_bytes;
use super::store::FILE_BYTES;
use crate::{GroupId, LogError, Lsn};

/// How often it looks, at most.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// A log without appends for this long is marked.
const IDLE_BEFORE_MARK: Duration = Duration::from_secs(1);
/// Trims are gathered for this long.
const TRIM_INTERVAL: Duration = Duration::from_secs(1);

/// Space is given back when about this much more of it is garbage, the newest file with it: each time costs a few
/// syncs.
const GIVE_BACK_BYTES: u64 = FILE_BYTES / 2;
/// Where most is garbage all the same, it is tried again after so long; after twice as long each time that nothing
/// came of it, up to an hour. On a short disk, at least this often.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
const SHORT_INTERVAL: Duration = Duration::from_secs(10);
const RETRY_INTERVAL_MAX: Duration = Duration::from_secs(3600);
/// Less than a file's room that is only set aside (2 MiB) comes back each time, whatever is in the files.
const GIVEN_BYTES_MIN: u64 = 4 << 20;
/// What failed is tried again, the mark too.
const MARK_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The state of the housekeeping thread.
pub(super) struct Keeper {
    core: Arc<Core>,
    /// What the underlying engine was last told to forget, by group.
    trimmed: Vec<Lsn>,
    space: Space,
    synced_at: Instant,
    trimmed_at: Instant,
    /// The last sequence written that was seen, and when it changed.
    seen: (u64, Instant),
    /// When the mark could not be kept: said once, and tried again after a while.
    mark_failed_at: Option<Instant>,
}

impl Keeper {
    /// Goes on after an open; `trimmed` is what the underlying engine has forgotten, by group.
    pub fn new(core: Arc<Core>, trimmed: Vec<Lsn>) -> Self {
        let now = Instant::now();
        let seen = (core.written.load(Ordering::Acquire), now);
        let space = Space::new(now);
        Self { core, trimmed, space, synced_at: now, trimmed_at: now, seen, mark_failed_at: None }
    }

    /// Runs until the bell rings.
    pub fn run(mut self) {
        let core = Arc::clone(&self.core);
        let look = || LOOK_INTERVAL.min(core.sync_interval);
        while !core.bell.wait(look()) {
            if core.stopped().is_some() {
                continue;
            }
            let now = Instant::now();
            self.sync_if_due(now);
            self.keep_mark(now);
            self.core.reserve.restore_if_due(now);
        }
    }

    fn keep_mark(&mut self, now: Instant) {
        if self.mark_failed_at.is_some_and(|at| now - at < MARK_RETRY_INTERVAL) {
            return;
        }
        match self.trim_if_due(now).and_then(|()| self.mark_if_idle(now)) {
            Ok(()) if self.mark_failed_at.is_some() => {
                // Nothing may have been due: what says that it works is a mark that was written.
                if self.core.mark().is_ok() {
                    self.mark_failed_at = None;
                    tracing::info!("the log's mark is kept again");
                } else {
                    self.mark_failed_at = Some(now);
                }
            }
            Ok(()) => {}
            Err(error) => {
                if self.mark_failed_at.replace(now).is_none() {
                    tracing::warn!(%error, "the log's mark cannot be kept");
                }
            }
        }
    }

    fn sync_if_due(&mut self, now: Instant) {
        let asynchronous = self.core.durability() == Durability::Async;
        let written = self.core.written.load(Ordering::Acquire);
        if !asynchronous
            || now - self.synced_at < self.core.sync_interval
            || written == self.core.synced.load(Ordering::Acquire)
        {
            return;
        }
        self.synced_at = now;
        if let Err(error) = self.core.sync(written) {
            self.core.stop(&error.to_string());
        }
    }

    fn mark_if_idle(&mut self, now: Instant) -> Result<(), LogError> {
        let written = self.core.written.load(Ordering::Acquire);
        if written != self.seen.0 {
            self.seen = (written, now);
        }
        let synced = self.core.synced.load(Ordering::Acquire);
        let marked = self.core.marked.lock().synced;
        if now - self.seen.1 < IDLE_BEFORE_MARK || synced != written || synced == marked {
            return Ok(());
        }
        self.core.mark()
    }

    /// What is trimmed is marked first, so that a log that begins later than its mark says has
    /// lost something.
    fn trim_if_due(&mut self, now: Instant) -> Result<(), LogError> {
        if now - self.trimmed_at < TRIM_INTERVAL {
            return Ok(());
        }
        self.trimmed_at = now;
        let bounds = self.core.tail.all_bounds();
        // What was trimmed the last time has reached the underlying engine by now.
        let held_records = bounds.iter().map(|held| held.last.0 + 1 - held.first.0).sum();
        self.space.give_back_if_due(&self.core, held_records, now);
        let gone = bounds.iter().map(|held| Lsn(held.first.0 - 1));
        let trims: Vec<_> = (0..)
            .map(GroupId)
            .zip(gone)
            .filter(|(group, up_to)| *up_to > self.trimmed[usize::from(group.0)])
            .collect();
        if trims.is_empty() {
            return Ok(());
        }
        self.core.mark()?;
        for (group, up_to) in &trims {
            let trimmed = &mut self.trimmed[usize::from(group.0)];
            self.space.garbage_records += up_to.0 - trimmed.0;
            *trimmed = *up_to;
        }
        self.core.queue.trim(trims);
        Ok(())
    }
}

/// How much of the log's files is trimmed, by estimate: records are taken to be of one size.
struct Space {
    garbage_records: u64,
    /// Space is given back where this much is garbage; at the first trim whatever there is.
    due_bytes: u64,
    /// When it was tried last, and after how long it is tried again.
    tried_at: Instant,
    retry_interval: Duration,
    has_failed: bool,
}

impl Space {
    fn new(now: Instant) -> Self {
        let retry_interval = RETRY_INTERVAL;
        Self { garbage_records: 0, due_bytes: 0, tried_at: now, retry_interval, has_failed: false }
    }

    fn give_back_if_due(&mut self, core: &Core, held_records: u64, now: Instant) {
        if self.garbage_records == 0 {
            return;
        }
        let used_bytes = damage::used_bytes(&core.dir);
        let garbage_bytes =
            scale(used_bytes, self.garbage_records, self.garbage_records + held_records);
        // What the log has to give back would matter to whoever else writes to this disk.
        let is_short = || free_bytes(&core.dir) < used_bytes;
        // The last record of each group stays. In the oldest file, that of a group that nobody writes to any more
        // would keep all files. Where groups are trimmed in turn, half is garbage all the time, and what is left is
        // trimmed soon: it is not moved.
        let moves = used_bytes > FILE_BYTES
            && (garbage_bytes > used_bytes / 4 * 3 || garbage_bytes > used_bytes / 2 && is_short());
        let after = now - self.tried_at;
        let is_due_again =
            moves && (after >= self.retry_interval || after >= SHORT_INTERVAL && is_short());
        if garbage_bytes < self.due_bytes && !is_due_again {
            return;
        }
        self.tried_at = now;
        let given = core.store.give_space_back(moves);
        let had_failed = std::mem::replace(&mut self.has_failed, given.is_err());
        if let Err(reason) = given
            && !had_failed
        {
            tracing::warn!(%reason, "the log cannot give space back");
        }
        let left_bytes = damage::used_bytes(&core.dir);
        let given_bytes = used_bytes.saturating_sub(left_bytes);
        self.retry_interval = match given_bytes {
            ..GIVEN_BYTES_MIN => (self.retry_interval * 2).min(RETRY_INTERVAL_MAX),
            _ => RETRY_INTERVAL,
        };
        let garbage_left_bytes = garbage_bytes.saturating_sub(given_bytes);
        let live_bytes = left_bytes.saturating_sub(garbage_left_bytes);
        self.garbage_records = scale(held_records, garbage_left_bytes, live_bytes);
        self.due_bytes = garbage_left_bytes + GIVE_BACK_BYTES;
    }
}

/// `value * part / whole`, without overflow.
fn scale(value: u64, part: u64, whole: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
