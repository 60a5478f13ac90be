//! Views that are held for searches of other nodes, each for its time.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::Time;
use plimsoll_base::time::Instant;
use plimsoll_index::Error;
use plimsoll_memory::ledger::NODE;
use plimsoll_memory::local::enter;

use super::parts::Local;
use crate::wire::SearchPart;

/// The most views that are held for others.
const VIEWS_MAX: usize = 10_000;

/// The views that are held for other nodes.
pub(crate) struct Views {
    time: Time,
    /// By what they are held under, each with the end of its time.
    held: Mutex<HashMap<u64, (Local, Instant)>>,
}

impl Views {
    pub(super) fn new(time: &Time) -> Self {
        Self { time: time.clone(), held: Mutex::default() }
    }

    /// Holds a view for a while; 0 where that is not wanted.
    pub(super) fn hold(&self, local: Local, part: &SearchPart) -> Result<u64, Error> {
        if part.hold_ms == 0 {
            return Ok(0);
        }
        let hold = Duration::from_millis(part.hold_ms);
        let mut held = self.held.lock();
        if held.len() >= VIEWS_MAX {
            let reason = format!("{VIEWS_MAX} views are held for other nodes already");
            return Err(Error::overloaded("rejected_execution_exception", reason));
        }
        let _node = enter(&NODE);
        held.insert(part.hold_as, (local, self.time.now() + hold));
        Ok(part.hold_as)
    }

    /// A view that is held, for longer where that is wanted.
    pub(super) fn get(&self, number: u64, hold: Duration) -> Result<Local, Error> {
        let mut held = self.held.lock();
        let found = held.get_mut(&number).ok_or_else(|| {
            let reason = format!("No search context found for id [{number}]");
            Error::not_found("search_context_missing_exception", reason)
        })?;
        found.1 = found.1.max(self.time.now() + hold);
        Ok(found.0.clone())
    }

    pub(super) fn release(&self, number: u64) {
        // Outside the lock: the last owner of a view closes files.
        let released = self.held.lock().remove(&number);
        drop(released);
    }

    /// How many are held.
    pub(crate) fn count(&self) -> usize {
        self.held.lock().len()
    }

    /// Lets go of those whose time is over.
    pub(crate) fn expire(&self) {
        let now = self.time.now();
        self.held.lock().retain(|_, (_, until)| *until > now);
    }
}
