//! What is known of the first copies of this node: which are made, which rest, with what of the link.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::time::Instant;
use plimsoll_log::PartitionId;
use plimsoll_storage::partition::Resources;

use super::remote::Remotes;
use super::slots::{Slots, Taken};
use crate::pacing::Bucket;
use crate::recovery::Window;

/// First copies that this node makes at once of one remote. They share one window, so that more of them do
/// not take more of the link; while one begins, or is opened, the others have all of it. Those of a remote
/// that is away wait for it, and keep no other remote's from being made.
const OF_REMOTE_MAX: usize = 4;
/// The same of all remotes.
const MAKING_MAX: usize = 16;
/// How long a first copy rests that could not be made.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// How long a copy that serves already waits for the others before RocksDB rewrites its files.
const COMPACTION_WAIT: Duration = Duration::from_secs(60);

/// A first copy that is being made, and the name of its remote here.
pub(super) type Made = (PartitionId, String);

/// What is known of the first copies of this node.
#[derive(Default)]
pub(super) struct Making {
    /// Those that are being made, and of which remote.
    slots: Slots<Made>,
    /// Those that rest, and until when.
    rests: Mutex<BTreeMap<PartitionId, Instant>>,
    /// What is under way of files, of each remote: copies share it.
    pub windows: Mutex<BTreeMap<String, Window>>,
    /// Keeps to the rate that is set, where one is.
    pub limiter: Arc<Bucket>,
}

impl Making {
    /// Forgets those for which it is not so.
    pub(super) fn retain(&self, is_kept: impl Fn(PartitionId) -> bool) {
        self.rests.lock().retain(|id, _| is_kept(*id));
    }

    /// Has RocksDB rewrite the files of copies that serve: all of them once no more are being made. Whatever
    /// compacts meanwhile takes the processors from the copying.
    pub(super) fn release_compactions(&self, resources: &Resources) {
        let age = if self.slots.is_empty() { Duration::ZERO } else { COMPACTION_WAIT };
        resources.release_compactions(age);
    }

    /// Has files give way to the records of those remotes for which it is so, and come over as many
    /// connections as pay.
    pub(super) fn share_links(&self, remotes: &dyn Remotes, is_urgent: impl Fn(&str) -> bool) {
        let is_idle = self.slots.is_empty();
        let mut windows = self.windows.lock();
        windows.retain(|name, _| remotes.get(name).is_some());
        for (name, window) in &*windows {
            window.set_yielding(is_urgent(name));
            if let Some(remote) = remotes.get(name) {
                remote.set_connections(if is_idle { 1 } else { window.connections() });
            }
        }
    }

    /// Room to make a copy from a remote; none while it is made, or there is none.
    pub(super) fn take(&self, id: PartitionId, remote: &str) -> Option<Taken<Made>> {
        self.slots.take_where((id, remote.to_owned()), |taken| {
            let of_remote = taken.iter().filter(|(_, name)| name == remote).count();
            of_remote < OF_REMOTE_MAX && taken.len() < MAKING_MAX
        })
    }

    pub(super) fn rest(&self, id: PartitionId, now: Instant) {
        self.rests.lock().insert(id, now + RETRY_INTERVAL);
    }

    pub(super) fn rests(&self, id: PartitionId, now: Instant) -> bool {
        self.rests.lock().get(&id).is_some_and(|until| *until > now)
    }
}
