//! The wall clock of this machine. It steps when somebody sets it: what may not is measured by another.

#![expect(clippy::disallowed_methods, reason = "what the machine has is asked here alone")]

use std::time::{SystemTime, UNIX_EPOCH};

/// This node's clock, ms since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
