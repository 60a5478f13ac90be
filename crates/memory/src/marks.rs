//! What threads compare with before and after they allocate: how much was told and granted so far, and the marks
//! beyond which a limit may be passed. Loads and compares; where the marks are, the breakers say.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use crate::ledger::REQUESTS;

/// Bytes that threads have told ledgers so far, all together.
pub(crate) static TOLD: AtomicI64 = AtomicI64::new(0);
/// Those of them that came, without those that went: what is freed may stay with the allocator, so
/// that the process grows by this at most.
pub(crate) static GROWN: AtomicI64 = AtomicI64::new(0);
/// [`REQUESTS`] beyond which the request breaker's limit is passed.
pub(crate) static REQUESTS_MARK: AtomicI64 = AtomicI64::new(i64::MAX);
/// [`GROWN`] beyond which the parent's limit may be passed.
pub(crate) static GROWN_MARK: AtomicI64 = AtomicI64::new(i64::MAX);
/// Of that, what is kept free for work that does not ask: whoever asks gets none of it.
pub(crate) static RESERVE: AtomicI64 = AtomicI64::new(0);
/// Bytes of all large blocks that were ever granted.
pub(crate) static GRANTED: AtomicI64 = AtomicI64::new(0);
/// Blocks from here on are asked for first.
pub const ASKED_BYTES: usize = 1 << 20;

pub(crate) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Whether a limit may have been passed, by what threads have told: loads and compares.
#[inline]
pub(crate) fn is_pressed() -> bool {
    is_over(0)
}

#[inline]
pub(crate) fn is_over(bytes: i64) -> bool {
    is_over_requests(bytes) || GROWN.load(Relaxed).saturating_add(bytes) > GROWN_MARK.load(Relaxed)
}

/// The same for whoever asks, and leaves the reserve alone.
#[inline]
pub(crate) fn is_over_asked(bytes: i64) -> bool {
    is_over_requests(bytes) || is_over(bytes.saturating_add(RESERVE.load(Relaxed)))
}

/// Grants bytes that are about to be allocated where there is room for them by the marks.
pub(crate) fn claim(bytes: u64) -> bool {
    let bytes = signed(bytes);
    // Counted first: of several at once none relies on the same room.
    grant(bytes);
    let has_room = !is_over(RESERVE.load(Relaxed)) && !is_over_requests(bytes);
    if !has_room {
        grant(-bytes);
    }
    has_room
}

#[inline]
pub(crate) fn is_over_requests(bytes: i64) -> bool {
    REQUESTS.load(Relaxed).saturating_add(bytes) > REQUESTS_MARK.load(Relaxed)
}

pub(crate) fn grant(bytes: i64) {
    if bytes != 0 {
        GROWN.fetch_add(bytes, Relaxed);
        GRANTED.fetch_add(bytes, Relaxed);
    }
}
