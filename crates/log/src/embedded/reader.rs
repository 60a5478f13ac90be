//! An ordered read of several groups: from the tail in memory where it reaches back far enough,
//! else from disk. A reader holds positions, no records.

use std::sync::Arc;
use std::task::{Context, Poll};

use super::core::Core;
use super::damage;
use super::store::FetchError;
use super::tail::{Found, Waiter};
use crate::{Entry, GroupId, LogError, Lsn, Reader};

/// A reader of the embedded log. As long as it lives, its log cannot be opened anew.
pub(super) struct TailReader {
    core: Arc<Core>,
    /// The next position of each group.
    positions: Vec<(GroupId, Lsn)>,
    /// Which group is looked at first, so that a busy one does not starve the others.
    turn: usize,
    waiter: Arc<Waiter>,
}

impl TailReader {
    /// A reader from these positions on.
    pub fn new(core: Arc<Core>, from: &[(GroupId, Lsn)]) -> Result<Self, LogError> {
        let mut positions = Vec::with_capacity(from.len());
        for (group, lsn) in from {
            let bounds = core.bounds(*group)?;
            // 0 is before the first record there can be, and so the same as 1.
            let lsn = Lsn(lsn.0.max(1));
            if lsn < bounds.first {
                return Err(LogError::Trimmed { group: *group, first: bounds.first, asked: lsn });
            }
            positions.push((*group, lsn));
        }
        Ok(Self { core, positions, turn: 0, waiter: Arc::default() })
    }

    /// Looks once at every group.
    fn collect(&mut self, entries: &mut Vec<Entry>, bytes_max: usize) -> Result<(), LogError> {
        let mut bytes_left = bytes_max;
        for step in 0..self.positions.len() {
            let index = (self.turn + step) % self.positions.len();
            let (group, from) = self.positions[index];
            let before = entries.len();
            match self.core.tail.peek(group, from, bytes_left, entries) {
                Found::Entries => {}
                Found::Nothing => continue,
                Found::Trimmed(first) => {
                    return Err(LogError::Trimmed { group, first, asked: from });
                }
                Found::OnDisk(from, to) => self.fetch(group, from, to, bytes_left, entries)?,
            }
            let added = &entries[before..];
            if let Some(last) = added.last() {
                self.positions[index].1 = last.lsn.next();
            }
            let bytes: usize = added.iter().map(|entry| entry.record.len()).sum();
            bytes_left = bytes_left.saturating_sub(bytes);
            if bytes_left == 0 {
                self.turn = index + 1;
                break;
            }
        }
        Ok(())
    }

    fn fetch(
        &self,
        group: GroupId,
        from: Lsn,
        to: Lsn,
        bytes_max: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<(), LogError> {
        match self.core.store.fetch(group, from, to, bytes_max) {
            Ok(fetched) => {
                entries.extend(fetched.into_iter().map(|(_, entry)| entry));
                Ok(())
            }
            Err(FetchError::Trimmed) => {
                let first = self.core.bounds(group)?.first;
                Err(LogError::Trimmed { group, first, asked: from })
            }
            // A trim that came in between looks like damage too.
            Err(FetchError::Corrupt(_)) if from < self.core.bounds(group)?.first => {
                let first = self.core.bounds(group)?.first;
                Err(LogError::Trimmed { group, first, asked: from })
            }
            Err(FetchError::Corrupt(reason)) => {
                Err(damage::unreadable(&self.core.dir, self.core.incarnation, group, from, &reason))
            }
        }
    }
}

impl Reader for TailReader {
    fn take(&mut self, entries: &mut Vec<Entry>, bytes_max: usize) -> Result<(), LogError> {
        let before = entries.len();
        self.collect(entries, bytes_max)?;
        if entries.len() > before {
            return Ok(());
        }
        self.core.tail.closed().map_or(Ok(()), |reason| Err(LogError::Failed(reason)))
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.core.tail.poll_any(&self.positions, &self.waiter, context)
    }
}

impl Drop for TailReader {
    fn drop(&mut self) {
        self.core.tail.forget(&self.positions, &self.waiter);
    }
}
