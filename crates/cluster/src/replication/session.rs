//! A client's run of operations, each with a number, so that none can run twice.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::random::Draws;
use plimsoll_base::time::Sleep;
use plimsoll_base::{Random, Time};
use plimsoll_log::SessionId;
use tokio::sync::oneshot;

use crate::ReadLevel;
use crate::replication::reads::Reads;

/// How many sessions without a connection are kept for the next ones.
const IDLE_MAX: usize = 1024;

/// The run of operations of one connection; one request of it is in flight at a time.
pub struct ClientSession {
    run: Run,
    /// Made by the first wait, and set again only when it has gone off: setting a timer costs
    /// more than most answers take.
    timer: Option<Sleep>,
    reads: Reads,
    pool: Arc<SessionPool>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    id: SessionId,
    /// The number of the next operation, from 1.
    next: u64,
    /// Results up to this number have arrived.
    acked: u64,
}

impl ClientSession {
    /// How fresh its reads are.
    #[must_use]
    pub fn read_level(&self) -> ReadLevel {
        self.reads.level
    }

    /// Has its reads be so fresh from now on.
    pub fn set_read_level(&mut self, level: ReadLevel) {
        self.reads.level = level;
    }

    /// The answers so far were written: what they held is given back.
    pub fn answers_written(&self) {
        self.reads.release();
    }

    /// Whether large answers wait to be written, and whether one of them has to be given up because
    /// a breaker needs its memory.
    #[must_use]
    pub fn answers_held(&self) -> (bool, bool) {
        self.reads.held()
    }

    pub(crate) fn reads(&self) -> &Reads {
        &self.reads
    }

    /// A run of operations beside this one, of the same client: it sees what this one wrote and read.
    pub(crate) fn branch(&self) -> Self {
        let mut branch = self.pool.session();
        branch.reads = self.reads.branch();
        branch
    }

    /// What a branch wrote and read is this one's from now on.
    pub(crate) fn join(&mut self, branch: Self) {
        self.reads.join(&branch.reads);
    }

    pub(crate) fn id(&self) -> SessionId {
        self.run.id
    }

    pub(crate) fn acked(&self) -> u64 {
        self.run.acked
    }

    /// Takes `count` numbers, and says the first.
    pub(crate) fn take(&mut self, count: u64) -> u64 {
        let first = self.run.next;
        self.run.next += count;
        first
    }

    /// All operations so far were answered.
    pub(crate) fn all_answered(&mut self) {
        self.run.acked = self.run.next - 1;
    }

    /// Waits for an answer; `None` where none came within `timeout`, or none will come.
    pub(crate) async fn wait<T>(
        &mut self,
        mut answer: oneshot::Receiver<T>,
        timeout: Duration,
    ) -> Option<T> {
        let time = &self.pool.time;
        let due = time.now() + timeout;
        let timer = self.timer.get_or_insert_with(|| time.sleep(timeout));
        loop {
            tokio::select! {
                biased;
                answered = &mut answer => return answered.ok(),
                () = &mut *timer => {
                    if time.now() >= due {
                        return None;
                    }
                    // It was set for an earlier wait.
                    *timer = time.sleep_until(due);
                }
            }
        }
    }

    /// Begins a new run: the outcome of the last operation is unknown, and it must not share its
    /// session with what comes after.
    pub(crate) fn renew(&mut self) {
        self.run = self.pool.new_run();
    }
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        // One in flight (a connection that hung up) makes the run unfit for the next client.
        if self.run.acked + 1 == self.run.next {
            let mut idle = self.pool.idle.lock();
            if idle.len() < IDLE_MAX {
                idle.push(self.run);
            }
        }
    }
}

/// Sessions whose connection is gone, to be used again: replicas remember each session for a
/// window of log time, so their number should follow that of connections at once.
pub(crate) struct SessionPool {
    idle: Mutex<Vec<Run>>,
    ids: Draws,
    time: Time,
}

impl SessionPool {
    pub(crate) fn new(time: Time, random: &Random) -> Self {
        Self { idle: Mutex::default(), ids: random.draws("sessions"), time }
    }

    fn new_run(&self) -> Run {
        Run { id: SessionId(self.ids.next_u64()), next: 1, acked: 0 }
    }

    pub(crate) fn session(self: &Arc<Self>) -> ClientSession {
        let run = self.idle.lock().pop().unwrap_or_else(|| self.new_run());
        ClientSession { run, timer: None, reads: Reads::default(), pool: Arc::clone(self) }
    }
}
