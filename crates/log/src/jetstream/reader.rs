//! The engine's reader: what the groups' consumers have fetched, in order within each group, and
//! the first thing that went wrong for good.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::{Entry, GroupId, LogError, Reader, Wake};

/// Bytes of one group beyond which no more is fetched until some are taken.
const GROUP_BYTES_MAX: usize = 1 << 20;

/// What consumers fill and the reader empties.
pub(super) struct Buffer {
    state: Mutex<State>,
    filled: Condvar,
    /// Rung when entries were taken.
    pub taken: Notify,
}

#[derive(Default)]
struct State {
    entries: VecDeque<Entry>,
    /// Bytes of each group's entries.
    bytes: HashMap<GroupId, usize>,
    failure: Option<Failure>,
    /// The reader is to wait no longer.
    is_woken: bool,
    is_closed: bool,
}

/// A failure that is told at every call: errors themselves cannot be copied.
#[derive(Clone)]
pub(super) enum Failure {
    Damaged(String),
    Failed(String),
    Trimmed { group: GroupId, first: crate::Lsn, asked: crate::Lsn },
}

impl Failure {
    fn error(&self) -> LogError {
        match self.clone() {
            Self::Damaged(reason) => LogError::Damaged(reason),
            Self::Failed(reason) => LogError::Failed(reason),
            Self::Trimmed { group, first, asked } => LogError::Trimmed { group, first, asked },
        }
    }
}

impl Buffer {
    pub fn new() -> Self {
        Self { state: Mutex::default(), filled: Condvar::new(), taken: Notify::new() }
    }

    pub fn push(&self, entry: Entry) {
        let mut state = self.state.lock();
        *state.bytes.entry(entry.group).or_default() += entry.record.len();
        state.entries.push_back(entry);
        drop(state);
        self.filled.notify_one();
    }

    /// Whether more of the group may be fetched.
    pub fn has_room(&self, group: GroupId) -> bool {
        self.state.lock().bytes.get(&group).copied().unwrap_or(0) < GROUP_BYTES_MAX
    }

    /// Ends the reader once what is here is taken; the first failure stays.
    pub fn fail(&self, failure: Failure) {
        self.state.lock().failure.get_or_insert(failure);
        self.filled.notify_one();
    }

    pub fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// Ends the reader's wait, or the next one.
    fn wake(&self) {
        self.state.lock().is_woken = true;
        self.filled.notify_one();
    }

    fn close(&self) {
        self.state.lock().is_closed = true;
        self.taken.notify_waiters();
    }
}

/// A reader of a JetStream log.
pub(super) struct BufferReader {
    buffer: Arc<Buffer>,
    tasks: Vec<JoinHandle<()>>,
}

impl BufferReader {
    pub fn new(buffer: Arc<Buffer>, tasks: Vec<JoinHandle<()>>) -> Self {
        Self { buffer, tasks }
    }
}

impl Reader for BufferReader {
    fn next(
        &mut self,
        entries: &mut Vec<Entry>,
        bytes_max: usize,
        timeout: Duration,
    ) -> Result<(), LogError> {
        let deadline = Instant::now() + timeout;
        let mut state = self.buffer.state.lock();
        while state.entries.is_empty() {
            if let Some(failure) = &state.failure {
                return Err(failure.error());
            }
            let is_woken = std::mem::take(&mut state.is_woken);
            if is_woken || self.buffer.filled.wait_until(&mut state, deadline).timed_out() {
                return Ok(());
            }
        }
        let mut bytes_left = bytes_max;
        while bytes_left > 0
            && let Some(entry) = state.entries.pop_front()
        {
            let len = entry.record.len();
            if let Some(bytes) = state.bytes.get_mut(&entry.group) {
                *bytes -= len;
            }
            // An empty record takes room too, or a call could take without end.
            bytes_left = bytes_left.saturating_sub(len.max(1));
            entries.push(entry);
        }
        drop(state);
        self.buffer.taken.notify_waiters();
        Ok(())
    }

    fn waker(&self) -> Wake {
        let buffer = Arc::clone(&self.buffer);
        Arc::new(move || buffer.wake())
    }
}

impl Drop for BufferReader {
    fn drop(&mut self) {
        self.buffer.close();
        // Consumers that nobody uses any more are forgotten by the servers themselves.
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lsn;

    const FOREVER: Duration = Duration::from_secs(60);

    #[test]
    fn a_waker_ends_one_wait_and_takes_nothing_away() {
        let buffer = Arc::new(Buffer::new());
        let mut reader = BufferReader::new(Arc::clone(&buffer), Vec::new());
        let (wake, mut entries, begun) = (reader.waker(), Vec::new(), Instant::now());
        // Before it waits.
        wake();
        reader.next(&mut entries, 1000, FOREVER).unwrap();
        let waking = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            wake();
        });
        reader.next(&mut entries, 1000, FOREVER).unwrap();
        waking.join().unwrap();
        assert!(entries.is_empty() && begun.elapsed() < FOREVER / 2);
        let entry = Entry { group: GroupId(1), lsn: Lsn(1), record: b"record"[..].into() };
        buffer.push(entry.clone());
        reader.next(&mut entries, 1000, FOREVER).unwrap();
        assert_eq!(entries, [entry]);
    }
}
