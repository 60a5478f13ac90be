//! What was fetched of several groups and not read yet, in order within each, and the first thing that went
//! wrong for good. Whoever fetches fills it, the reader empties it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::{Mutex, MutexGuard};

use crate::{Entry, GroupId, LogError, Reader};

/// Bytes of one group beyond which no more is fetched until some are taken.
const GROUP_BYTES_MAX: usize = 1 << 20;

/// What is filled and emptied.
#[derive(Default)]
pub(crate) struct Buffer {
    state: Mutex<BufferState>,
}

#[derive(Default)]
struct BufferState {
    entries: VecDeque<Entry>,
    /// Bytes of each group's entries.
    bytes: BTreeMap<GroupId, usize>,
    failure: Option<LogError>,
    /// The reader, where it waits.
    reader: Option<Waker>,
    /// Those who wait for room.
    filling: Vec<Waker>,
    is_closed: bool,
}

impl Buffer {
    pub(crate) fn push(&self, entry: Entry) {
        let mut state = self.state.lock();
        *state.bytes.entry(entry.group).or_default() += entry.record.len();
        state.entries.push_back(entry);
        BufferState::wake_reader(state);
    }

    /// Ready once more of the group may be fetched, or nobody reads it any more.
    pub(crate) fn poll_room(&self, group: GroupId, context: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        let held = state.bytes.get(&group).copied().unwrap_or(0);
        if held < GROUP_BYTES_MAX || state.is_closed {
            return Poll::Ready(());
        }
        if !state.filling.iter().any(|it| it.will_wake(context.waker())) {
            state.filling.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// Ends the reader once what is here is taken; the first failure stays.
    pub(crate) fn fail(&self, failure: LogError) {
        let mut state = self.state.lock();
        state.failure.get_or_insert(failure);
        BufferState::wake_reader(state);
    }

    /// Whether nobody reads it any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        BufferState::wake_filling(state);
    }
}

/// Who is woken is so without the lock: he may want it at once.
impl BufferState {
    fn wake_reader(mut held: MutexGuard<'_, Self>) {
        let reader = held.reader.take();
        drop(held);
        reader.into_iter().for_each(Waker::wake);
    }

    fn wake_filling(mut held: MutexGuard<'_, Self>) {
        let filling = std::mem::take(&mut held.filling);
        drop(held);
        filling.into_iter().for_each(Waker::wake);
    }
}

/// Reads what others fetch; they end with `fetching`.
pub(crate) struct BufferReader<F> {
    buffer: Arc<Buffer>,
    _fetching: F,
}

impl<F> BufferReader<F> {
    pub(crate) fn new(buffer: Arc<Buffer>, fetching: F) -> Self {
        Self { buffer, _fetching: fetching }
    }
}

impl<F: Send> Reader for BufferReader<F> {
    fn take(&mut self, entries: &mut Vec<Entry>, bytes_max: usize) -> Result<(), LogError> {
        let mut state = self.buffer.state.lock();
        if state.entries.is_empty() {
            return state.failure.as_ref().map_or(Ok(()), |failure| Err(failure.clone()));
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
        BufferState::wake_filling(state);
        Ok(())
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.buffer.state.lock();
        if !state.entries.is_empty() || state.failure.is_some() {
            return Poll::Ready(());
        }
        state.reader = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<F> Drop for BufferReader<F> {
    fn drop(&mut self) {
        self.buffer.close();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plimsoll_base::tasks::parked::Patience;

    use super::*;
    use crate::Lsn;

    const FOREVER: Duration = Duration::from_secs(60);

    fn entry(lsn: u64, bytes: usize) -> Entry {
        Entry { group: GroupId(1), lsn: Lsn(lsn), record: vec![7; bytes].into() }
    }

    #[test]
    fn the_reader_is_woken_by_what_comes_and_whoever_fills_by_what_is_taken() {
        let buffer = Arc::new(Buffer::default());
        let mut reader: Box<dyn Reader> = Box::new(BufferReader::new(Arc::clone(&buffer), ()));
        let filling = std::thread::spawn(move || {
            for lsn in 1..=8 {
                Patience::without_end().wait(|context| buffer.poll_room(GroupId(1), context));
                buffer.push(entry(lsn, GROUP_BYTES_MAX / 2));
            }
            buffer.fail(LogError::Failed("over".to_owned()));
        });
        let mut entries = Vec::new();
        while entries.len() < 8 {
            reader.next(&mut entries, 1, FOREVER).unwrap();
        }
        filling.join().unwrap();
        assert!(entries.iter().zip(1..).all(|(entry, lsn)| entry.lsn == Lsn(lsn)));
        for _ in 0..2 {
            let error = reader.next(&mut entries, 1, FOREVER).unwrap_err();
            assert!(matches!(error, LogError::Failed(why) if why == "over"));
        }
    }

    #[test]
    fn nobody_waits_for_room_that_nobody_will_make() {
        let buffer = Arc::new(Buffer::default());
        let reader = BufferReader::new(Arc::clone(&buffer), ());
        buffer.push(entry(1, GROUP_BYTES_MAX));
        let waiting = std::thread::spawn(move || {
            Patience::without_end().wait(|context| buffer.poll_room(GroupId(1), context));
            buffer.is_closed()
        });
        std::thread::sleep(Duration::from_millis(5));
        drop(reader);
        assert!(waiting.join().unwrap());
    }
}
