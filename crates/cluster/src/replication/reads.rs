//! How fresh a client's reads are, and how far it has seen each log group: what its reads ask of a
//! copy at [`ReadLevel::Session`], and whose the memory of its answers is. How a copy comes to be so fresh
//! is in `service.rs`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use plimsoll_log::{GroupId, Lsn};
use plimsoll_memory::Account;

use crate::ReadLevel;
use crate::metadata::GROUPS;
use crate::wire::Freshness;

/// The reads of one connection. Positions only grow, whatever the level is meanwhile, so that who
/// asks for `Session` later has what he did before.
#[derive(Default)]
pub(crate) struct Reads {
    pub level: ReadLevel,
    /// Whether the last read that did not come from memory was of more than a little: the next one is likely to be.
    pub is_large: AtomicBool,
    /// By the group's number, the metadata's being the first.
    seen: [AtomicU64; GROUPS as usize + 1],
    /// The requests whose answers wait to be written.
    held: Mutex<Vec<Account>>,
}

/// From so many bytes of answers on, they are written before more is read.
const ANSWERS_BYTES_HIGH: u64 = 4 << 20;

impl Reads {
    /// How fresh a copy must be for the next read of a group.
    pub(crate) fn freshness(&self, group: GroupId) -> Freshness {
        match self.level {
            ReadLevel::Strong => Freshness::Strong,
            ReadLevel::Session => Freshness::AtLeast(self.seen(group).0),
            ReadLevel::Eventual => Freshness::Eventual,
        }
    }

    /// Notes that an answer shows the group up to here at most.
    pub(crate) fn saw(&self, group: GroupId, lsn: Lsn) {
        if let Some(seen) = self.seen.get(usize::from(group.0)) {
            seen.fetch_max(lsn.0, Ordering::Relaxed);
        }
    }

    /// Those of requests beside others of the same client.
    pub(crate) fn branch(&self) -> Self {
        let seen = |at: usize| AtomicU64::new(self.seen[at].load(Ordering::Relaxed));
        Self {
            level: self.level,
            is_large: AtomicBool::new(self.is_large.load(Ordering::Relaxed)),
            seen: std::array::from_fn(seen),
            held: Mutex::default(),
        }
    }

    /// Takes what a branch saw and holds.
    pub(crate) fn join(&self, branch: &Self) {
        for (seen, of_branch) in self.seen.iter().zip(&branch.seen) {
            seen.fetch_max(of_branch.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let is_large = branch.is_large.load(Ordering::Relaxed);
        self.is_large.store(is_large, Ordering::Relaxed);
        self.held.lock().append(&mut branch.held.lock());
    }

    /// Keeps the account of an answer open until it is written: till then its bytes are that
    /// request's.
    pub(crate) fn hold(&self, account: Option<Account>) {
        self.held.lock().extend(account);
    }

    /// The answers were written.
    pub(crate) fn release(&self) {
        let held = std::mem::take(&mut *self.held.lock());
        drop(held);
    }

    /// Whether there is any, and whether one has to be given up for the sake of others.
    pub(crate) fn held(&self) -> (bool, bool) {
        let held = self.held.lock();
        (!held.is_empty(), held.iter().any(Account::is_stopped))
    }

    /// Whether answers are to be written before more is read.
    pub(crate) fn is_full(&self) -> bool {
        let held = self.held.lock();
        !held.is_empty() && held.iter().map(Account::bytes).sum::<u64>() >= ANSWERS_BYTES_HIGH
    }

    fn seen(&self, group: GroupId) -> Lsn {
        let seen = self.seen.get(usize::from(group.0));
        Lsn(seen.map_or(0, |seen| seen.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_asks_for_the_newest_that_it_saw_of_each_group() {
        let mut reads = Reads { level: ReadLevel::Session, ..Reads::default() };
        reads.saw(GroupId(3), Lsn(7));
        reads.saw(GroupId(3), Lsn(5));
        assert_eq!(reads.freshness(GroupId(3)), Freshness::AtLeast(7));
        assert_eq!(reads.freshness(GroupId(GROUPS)), Freshness::AtLeast(0));
        reads.level = ReadLevel::Strong;
        assert_eq!(reads.freshness(GroupId(3)), Freshness::Strong);
        reads.saw(GroupId(3), Lsn(9));
        reads.level = ReadLevel::Session;
        assert_eq!(reads.freshness(GroupId(3)), Freshness::AtLeast(9));
    }
}
