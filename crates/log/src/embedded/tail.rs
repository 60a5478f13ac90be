//! What readers may see: the bounds of each group and the newest records, kept in memory up to a
//! number of bytes over all groups (the oldest go first, whatever their group).

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use parking_lot::Mutex;

use super::sizes::Sizes;
use crate::{Bounds, Entry, GroupId, Lsn};

/// Counted for a record beyond its own bytes.
const RECORD_OVERHEAD_BYTES: usize = 64;

/// The tail of the log.
pub(super) struct Tail {
    state: Mutex<TailState>,
}

/// One reader, and who is to be woken of it. Each has its own, so that a record wakes the readers of its group
/// alone.
#[derive(Default)]
pub(super) struct Waiter(Mutex<Option<Waker>>);

impl Waiter {
    fn wake(&self) {
        let waker = self.0.lock().take();
        waker.into_iter().for_each(Waker::wake);
    }
}

struct TailState {
    groups: Vec<Group>,
    /// The group of each cached record, in the order in which they came.
    order: VecDeque<GroupId>,
    bytes: usize,
    bytes_max: usize,
    closed: Option<String>,
}

struct Group {
    first: Lsn,
    last: Lsn,
    /// The records up to `last`, without gaps.
    cached: VecDeque<Bytes>,
    sizes: Sizes,
    /// The readers that wait for its next record.
    waiting: Vec<Arc<Waiter>>,
}

/// What a peek at the tail found for a reader.
pub(super) enum Found {
    /// Entries were added.
    Entries,
    /// Records from here to there are held, but not in memory.
    OnDisk(Lsn, Lsn),
    /// The position is no longer held; what is begins here.
    Trimmed(Lsn),
    /// Nothing there yet.
    Nothing,
}

impl Tail {
    /// Begins with what the log holds, nothing of it in memory; its files have `files_bytes`.
    pub fn new(bounds: &[Bounds], bytes_max: usize, files_bytes: u64) -> Self {
        let held: u64 = bounds.iter().map(|it| (it.last.0 + 1).saturating_sub(it.first.0)).sum();
        let group = |bounds: &Bounds| Group {
            first: bounds.first,
            last: bounds.last,
            cached: VecDeque::new(),
            sizes: Sizes::new(bounds.last, files_bytes / held.max(1)),
            waiting: Vec::new(),
        };
        let state = TailState {
            groups: bounds.iter().map(group).collect(),
            order: VecDeque::new(),
            bytes: 0,
            bytes_max,
            closed: None,
        };
        Self { state: Mutex::new(state) }
    }

    /// Publishes records, each the next of its group, and wakes the readers of these groups.
    pub fn publish(&self, records: impl Iterator<Item = (GroupId, Lsn, Bytes)>) {
        let mut waiting = Vec::new();
        let mut state = self.state.lock();
        for (id, lsn, record) in records {
            let bytes = record.len() + RECORD_OVERHEAD_BYTES;
            let group = &mut state.groups[usize::from(id.0)];
            assert_eq!(lsn, group.last.next(), "positions of a group have no gaps");
            group.last = lsn;
            group.sizes.add(lsn, record.len() as u64);
            group.cached.push_back(record);
            waiting.append(&mut group.waiting);
            state.order.push_back(id);
            state.bytes += bytes;
        }
        state.shrink();
        drop(state);
        waiting.iter().for_each(|waiter| waiter.wake());
    }

    /// Forgets a group's records up to a position, but never the last, which the next position
    /// is counted from. Returns up to where, and how many records that was.
    pub fn trim(&self, id: GroupId, up_to: Lsn) -> Option<(Lsn, u64)> {
        let mut state = self.state.lock();
        let group = state.groups.get_mut(usize::from(id.0))?;
        let up_to = Lsn(up_to.0.min(group.last.0.saturating_sub(1)));
        if up_to < group.first {
            return None;
        }
        let count = up_to.0 + 1 - group.first.0;
        group.first = up_to.next();
        group.sizes.trim(group.first);
        Some((up_to, count))
    }

    /// The group's bounds, where there is such a group.
    pub fn bounds(&self, id: GroupId) -> Option<Bounds> {
        let state = self.state.lock();
        let group = state.groups.get(usize::from(id.0))?;
        Some(Bounds { first: group.first, last: group.last })
    }

    /// About how many bytes the records after a position take, where there is such a group.
    pub fn bytes_after(&self, id: GroupId, lsn: Lsn) -> Option<u64> {
        let state = self.state.lock();
        let group = state.groups.get(usize::from(id.0))?;
        Some(group.sizes.after(lsn, group.first))
    }

    /// The bounds of all groups, at one moment.
    pub fn all_bounds(&self) -> Vec<Bounds> {
        let state = self.state.lock();
        state.groups.iter().map(|group| Bounds { first: group.first, last: group.last }).collect()
    }

    /// Adds cached records of a group from a position on, at most about `bytes_max`, at least
    /// one where there is one.
    pub fn peek(
        &self,
        id: GroupId,
        from: Lsn,
        bytes_max: usize,
        entries: &mut Vec<Entry>,
    ) -> Found {
        let state = self.state.lock();
        let group = &state.groups[usize::from(id.0)];
        if from < group.first {
            return Found::Trimmed(group.first);
        }
        if from > group.last {
            return Found::Nothing;
        }
        let cached_from = Lsn(group.last.0 + 1 - group.cached.len() as u64);
        let Some(skip) = from.0.checked_sub(cached_from.0) else {
            return Found::OnDisk(from, Lsn(cached_from.0 - 1));
        };
        let mut bytes = 0;
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        for (lsn, record) in (from.0..).zip(group.cached.iter().skip(skip)) {
            if bytes > 0 && bytes + record.len() > bytes_max {
                break;
            }
            bytes += record.len().max(1);
            entries.push(Entry { group: id, lsn: Lsn(lsn), record: record.clone() });
        }
        Found::Entries
    }

    /// Ready once one of the positions is there or was trimmed, or nothing will come any more.
    pub fn poll_any(
        &self,
        positions: &[(GroupId, Lsn)],
        waiter: &Arc<Waiter>,
        context: &Context<'_>,
    ) -> Poll<()> {
        let mut state = self.state.lock();
        let there = |(id, lsn): &(GroupId, Lsn)| {
            let group = &state.groups[usize::from(id.0)];
            group.last >= *lsn || group.first > *lsn
        };
        if state.closed.is_some() || positions.iter().any(there) {
            return Poll::Ready(());
        }
        *waiter.0.lock() = Some(context.waker().clone());
        for (id, _) in positions {
            let waiting = &mut state.groups[usize::from(id.0)].waiting;
            if !waiting.iter().any(|it| Arc::ptr_eq(it, waiter)) {
                waiting.push(Arc::clone(waiter));
            }
        }
        Poll::Pending
    }

    /// A reader of these groups is gone.
    pub fn forget(&self, positions: &[(GroupId, Lsn)], waiter: &Arc<Waiter>) {
        let mut state = self.state.lock();
        for (id, _) in positions {
            state.groups[usize::from(id.0)].waiting.retain(|it| !Arc::ptr_eq(it, waiter));
        }
    }

    /// Why nothing will come any more, if so.
    pub fn closed(&self) -> Option<String> {
        self.state.lock().closed.clone()
    }

    /// Says that nothing will come any more, and wakes the readers.
    pub fn close(&self, reason: &str) {
        let mut state = self.state.lock();
        state.closed.get_or_insert_with(|| reason.to_owned());
        let waiting: Vec<_> =
            state.groups.iter_mut().flat_map(|group| group.waiting.drain(..)).collect();
        drop(state);
        waiting.iter().for_each(|waiter| waiter.wake());
    }

    /// Bytes that the records in memory take.
    pub fn bytes(&self) -> usize {
        self.state.lock().bytes
    }
}

impl TailState {
    fn shrink(&mut self) {
        while self.bytes > self.bytes_max {
            let Some(id) = self.order.pop_front() else { return };
            if let Some(record) = self.groups[usize::from(id.0)].cached.pop_front() {
                self.bytes -= record.len() + RECORD_OVERHEAD_BYTES;
            }
        }
    }
}
