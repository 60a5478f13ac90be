//! Room in memory for writes: one that finds the node's limit passed waits a moment for those that hold most, and is
//! refused after that. Who holds how much, and who is told to give it back, is `plimsoll_memory`'s.

use std::time::Duration;

use plimsoll_base::Time;
use plimsoll_base::time::Instant;
use plimsoll_memory::breakers::{WAIT_STEP, call_for_room, is_parent_full};

/// How long a write waits for others to give memory back.
const PATIENCE: Duration = Duration::from_millis(200);
/// For how long after one that waited in vain no other of the same client does.
const IN_VAIN_TIME: Duration = Duration::from_secs(1);

/// What a connection knows of it.
pub(super) struct Room {
    time: Time,
    /// When a write waited in vain last.
    refused_at: Option<Instant>,
}

impl Room {
    /// Of a connection whose writes have not waited yet.
    pub(super) fn new(time: Time) -> Self {
        Self { time, refused_at: None }
    }

    /// Whether there is some before the write's patience is over.
    pub(super) async fn comes(&mut self, bytes: usize) -> bool {
        let began = self.time.now();
        if self.refused_at.is_some_and(|at| began.since(at) < IN_VAIN_TIME) {
            return false;
        }
        while self.time.now().since(began) < PATIENCE {
            call_for_room();
            self.time.sleep(WAIT_STEP).await;
            if !is_parent_full(bytes) {
                return true;
            }
        }
        self.refused_at = Some(self.time.now());
        false
    }
}
