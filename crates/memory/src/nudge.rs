//! Wakes the thread that looks at memory. What it does then is [`crate::watch`]'s.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::Thread;

static WATCHER: OnceLock<Thread> = OnceLock::new();
static IS_NUDGED: AtomicBool = AtomicBool::new(false);

/// Has the watching thread look now: for whoever notices that a limit is passed and has no time.
pub(crate) fn nudge() {
    if !IS_NUDGED.swap(true, Relaxed)
        && let Some(thread) = WATCHER.get()
    {
        thread.unpark();
    }
}

/// Says which thread is the watching one: the first counts.
pub(crate) fn watched_by(thread: Thread) {
    let _ = WATCHER.set(thread);
}

/// The watching thread is about to look.
pub(crate) fn looks_now() {
    IS_NUDGED.store(false, Relaxed);
}
