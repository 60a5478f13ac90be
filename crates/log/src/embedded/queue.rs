//! The queue in front of the commit thread: bounded in bytes, of all groups together.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use crate::{AppendDone, GroupId, Lsn};

/// Counted for an append beyond its record's bytes.
const APPEND_OVERHEAD_BYTES: usize = 128;
/// One commit takes about this much, so that the first of a long queue do not wait for the last.
const COMMIT_BYTES_MAX: usize = 16 << 20;

/// An append that waits for its position.
pub(super) struct Pending {
    pub group: GroupId,
    pub record: Bytes,
    pub done: AppendDone,
    pub queued: Instant,
}

impl Pending {
    fn bytes(&self) -> usize {
        self.record.len() + APPEND_OVERHEAD_BYTES
    }
}

/// What one commit does.
#[derive(Default)]
pub(super) struct Work {
    pub appends: Vec<Pending>,
    /// What may be forgotten, each group up to and including a position.
    pub trims: Vec<(GroupId, Lsn)>,
    bytes: usize,
}

/// The queue.
pub(super) struct Queue {
    state: Mutex<QueueState>,
    filled: Condvar,
    bytes_max: usize,
}

#[derive(Default)]
struct QueueState {
    appends: VecDeque<Pending>,
    trims: Vec<(GroupId, Lsn)>,
    /// Of the appends here and of those being committed.
    bytes: usize,
    /// When the oldest of those being committed came.
    committing_since: Option<Instant>,
    committing: usize,
    /// Why nothing more is taken.
    closed: Option<String>,
    finish: bool,
}

impl Queue {
    /// An empty queue of at most `bytes_max`.
    pub fn new(bytes_max: usize) -> Self {
        Self { state: Mutex::default(), filled: Condvar::new(), bytes_max }
    }

    /// Queues an append, or gives it back with the reason. One append fits into an empty queue
    /// whatever its size.
    pub fn push(&self, pending: Pending) -> Result<(), (Pending, String)> {
        let mut state = self.state.lock();
        if let Some(reason) = &state.closed {
            let reason = reason.clone();
            return Err((pending, reason));
        }
        if state.bytes > 0 && state.bytes + pending.bytes() > self.bytes_max {
            let reason = format!("{} bytes wait for the disk already", state.bytes);
            return Err((pending, reason));
        }
        state.bytes += pending.bytes();
        state.appends.push_back(pending);
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// Queues trims.
    pub fn trim(&self, trims: Vec<(GroupId, Lsn)>) {
        self.state.lock().trims.extend(trims);
        self.filled.notify_one();
    }

    /// Waits for something to do; nothing once the queue is finished and empty.
    pub fn take(&self) -> Option<Work> {
        let mut state = self.state.lock();
        while state.appends.is_empty() && state.trims.is_empty() {
            if state.finish {
                return None;
            }
            self.filled.wait(&mut state);
        }
        let mut work = Work { trims: std::mem::take(&mut state.trims), ..Work::default() };
        while let Some(pending) = state.appends.pop_front() {
            work.bytes += pending.bytes();
            work.appends.push(pending);
            if work.bytes >= COMMIT_BYTES_MAX {
                break;
            }
        }
        state.committing = work.appends.len();
        state.committing_since = work.appends.first().map(|pending| pending.queued);
        Some(work)
    }

    /// Says that the work taken is over and its room free.
    pub fn finished(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.bytes -= bytes;
        state.committing = 0;
        state.committing_since = None;
    }

    /// Takes out what waits, to be refused.
    pub fn drain(&self) -> Vec<Pending> {
        self.state.lock().appends.drain(..).collect()
    }

    /// Takes nothing more, for a reason; what waits is still committed.
    pub fn close(&self, reason: &str) {
        self.state.lock().closed.get_or_insert_with(|| reason.to_owned());
    }

    /// Lets [`Self::take`] end once the queue is empty.
    pub fn finish(&self) {
        self.state.lock().finish = true;
        self.filled.notify_all();
    }

    /// Appends and bytes that wait or are being committed, and how long the oldest has.
    pub fn load(&self) -> (usize, usize, Duration) {
        let state = self.state.lock();
        let oldest = state.committing_since.or_else(|| state.appends.front().map(|p| p.queued));
        let age = oldest.map_or(Duration::ZERO, |queued| queued.elapsed());
        (state.appends.len() + state.committing, state.bytes, age)
    }
}

impl Work {
    /// Bytes that it takes in the queue.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
