//! A simulation's files, and what befalls them: a loss of power, no room, a sync that fails, a bit that turns.
//! What
//! processes call is `handle.rs`'s; what is kept of each file, and torn, is `state.rs`'s.

mod handle;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

pub(super) use handle::{Handle, OpenFile};

use state::{SimulatedFiles, SyncFault};

use crate::random::Random;

/// The disk of a machine that is simulated: it outlives the processes on it. Cloned handles are the same disk.
#[derive(Clone)]
pub struct SimulatedDisk(Arc<Mutex<SimulatedFiles>>);

impl SimulatedDisk {
    /// An empty disk, of no limit.
    #[must_use]
    pub fn new(random: &Random) -> Self {
        Self(Arc::new(Mutex::new(SimulatedFiles {
            contents: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            dirs: BTreeSet::new(),
            durable_dirs: BTreeSet::new(),
            unsynced: Vec::new(),
            next: 0,
            process: 0,
            bytes_max: u64::MAX,
            syncs_fail: None,
            calls_left: None,
            chance: random.of("disk"),
        })))
    }

    /// The handle of a process that starts now; those from before change nothing any more.
    pub(super) fn start_process(&self) -> Handle {
        let mut state = self.0.lock();
        state.process += 1;
        Handle::new(&self.0, state.process)
    }

    /// The process is gone; what it wrote is there.
    pub fn kill(&self) {
        self.0.lock().process += 1;
    }

    /// The process is gone, and with it what was not synced: of each file that was being written and of each
    /// name that was changed, chance says how much is there.
    pub fn lose_power(&self) {
        self.0.lock().lose_power();
    }

    /// Has the power go at the end of so many calls that change something, in the middle of whatever a process is
    /// about then.
    pub fn lose_power_after(&self, calls: u64) {
        self.0.lock().calls_left = Some(calls);
    }

    /// Bytes of all files.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.0.lock().bytes()
    }

    /// From now on no file is written that would make them more than so many bytes together.
    pub fn limit(&self, bytes_max: u64) {
        self.0.lock().bytes_max = bytes_max;
    }

    /// From now on one sync in so many fails, drawn by chance; none does where there is no number.
    pub fn fail_syncs(&self, one_in: Option<u64>) {
        self.0.lock().syncs_fail = one_in.map(|one_in| SyncFault { one_in, spared: None });
    }

    /// From now on every sync fails but of what lies in folders of this name.
    pub fn fail_syncs_but_in(&self, spared: &str) {
        let spared = Some(spared.to_owned());
        self.0.lock().syncs_fail = Some(SyncFault { one_in: 1, spared });
    }

    /// Turns one bit of a file, where there is one of that name that holds anything; says whether there was.
    pub fn turn_bit(&self, path: &Path) -> bool {
        let mut held = self.0.lock();
        let state = &mut *held;
        let Some(content) = state.names.get(path).and_then(|file| state.contents.get_mut(file))
        else {
            return false;
        };
        if content.bytes.is_empty() {
            return false;
        }
        let at = state.chance.below(content.bytes.len() as u64);
        let at = usize::try_from(at).unwrap_or_default();
        let bit = 1 << state.chance.below(8);
        content.bytes[at] ^= bit;
        if let Some(byte) = content.synced.get_mut(at) {
            *byte ^= bit;
        }
        true
    }

    /// The files, as the process sees them, in the order of their names.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        self.0.lock().names.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests;
