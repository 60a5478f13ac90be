//! What processes have seen of the log, and which processes are told what stands.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::task::Waker;

use parking_lot::Mutex;
use plimsoll_base::time::Instant;
use plimsoll_log::{GroupId, Lsn};

/// What a process has seen of the log.
#[derive(Default)]
pub(super) struct Seen(pub Mutex<SeenState>);

#[derive(Default)]
pub(super) struct SeenState {
    pub groups: BTreeMap<GroupId, Lsn>,
    /// When what is on its way to it is there: later positions come later.
    pub arrivals: BTreeMap<GroupId, Instant>,
    /// Who waits for which groups.
    pub waiting: Vec<(Vec<GroupId>, Waker)>,
    /// What comes meanwhile is seen then.
    pub blind_until: Instant,
}

/// The processes that are told what stands.
#[derive(Default)]
pub(super) struct Watchers(pub Mutex<Vec<Weak<Seen>>>);

impl Seen {
    pub fn come(&self, group: GroupId, lsn: Lsn) {
        let mut state = self.0.lock();
        state.groups.insert(group, lsn);
        let woken: Vec<_> =
            state.waiting.extract_if(.., |(groups, _)| groups.contains(&group)).collect();
        drop(state);
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }

    pub fn last(&self, group: GroupId) -> Option<Lsn> {
        self.0.lock().groups.get(&group).copied()
    }
}

/// The next of a kind comes when it would, but never before the one before it.
pub(super) fn in_turn(
    arrivals: &mut BTreeMap<GroupId, Instant>,
    group: GroupId,
    at: Instant,
) -> Instant {
    let last = arrivals.entry(group).or_default();
    *last = at.max(Instant(last.0 + 1));
    *last
}
