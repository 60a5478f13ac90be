//! Wakes the housekeeping thread at its end. What it does until then is `keeper`'s.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Ends the thread.
#[derive(Default)]
pub(super) struct Bell {
    closing: Mutex<bool>,
    rung: Condvar,
}

impl Bell {
    /// Ends the thread soon.
    pub fn ring(&self) {
        *self.closing.lock() = true;
        self.rung.notify_all();
    }

    pub(super) fn wait(&self, timeout: Duration) -> bool {
        let mut closing = self.closing.lock();
        if !*closing {
            self.rung.wait_for(&mut closing, timeout);
        }
        *closing
    }
}
