//! What laps are made on, whatever store it is. Which stores there are is `peers`' to say.

use std::sync::Arc;

use super::disk::SlowDisk;
use super::store::Told;
use crate::live::shares::Throttled;

/// A store that laps are made on: one process, or several.
pub(super) trait Server: Sync {
    /// Where those of its processes listen that have rows; none of one that is called.
    fn addresses(&self) -> Vec<String>;
    /// Its processes.
    fn processes(&self) -> Vec<u32>;
    /// Their names.
    fn names(&self) -> Vec<String>;
    /// How often the share of each ran out, where that is known.
    fn throttled(&self) -> Vec<Option<Throttled>>;
    /// Whom to ask for figures of the first of them.
    fn told(&self, disk: Option<Arc<SlowDisk>>) -> Told;
}
