//! Threads that come after all others: long work of searches is done on them, and chunks for other
//! clusters are compressed on some of their own, so that the processor goes first to whatever is
//! answered soon. A thread may lower its priority but not raise it again
//! without privileges, hence threads of their own. What is long, and how much of it is done at
//! once, is said by those that hand it over.

#![expect(clippy::disallowed_methods, reason = "what the machine has is asked here alone")]

use crossbeam_channel::{Receiver, Sender, bounded};
use plimsoll_memory::local::patiently;

/// How much nicer they are than the others: while one of them and one of the others want the same
/// processor, it has a quarter of it (the kernel's weights are 335 and 1,024). Enough to come
/// after, not enough to starve: what it works on holds memory.
pub(crate) const NICER: i32 = 5;

type Work = Box<dyn FnOnce() + Send>;

/// Some of these threads; they end when it goes and what they have is done.
pub(crate) struct LowPriority {
    hand_over: Sender<Work>,
}

impl LowPriority {
    /// Starts as many as `threads`; none where the system has no room for a single one.
    pub(crate) fn start(threads: usize) -> Option<Self> {
        let (hand_over, handed) = bounded::<Work>(threads);
        let start = |_| {
            let handed = handed.clone();
            let named = std::thread::Builder::new().name("aside".to_owned());
            named.spawn(move || serve(&handed)).is_ok()
        };
        let started = (0..threads).map(start).filter(|is_started| *is_started).count();
        (started > 0).then_some(Self { hand_over })
    }

    /// Hands work over, at most as much at once as there are threads: more waits here.
    pub(crate) fn give(&self, work: impl FnOnce() + Send + 'static) {
        // The threads end only after this.
        if let Err(unsent) = self.hand_over.send(Box::new(work)) {
            (unsent.0)();
        }
    }
}

fn serve(handed: &Receiver<Work>) {
    if let Err(error) = rustix::process::nice(NICER) {
        tracing::warn!(%error, "long work is done at the priority of all other work");
    }
    while let Ok(work) = handed.recv() {
        // Where there is no memory it is such work that waits for it.
        let work = std::panic::AssertUnwindSafe(|| patiently(work));
        // Whoever waits for it sees that it did not end.
        if std::panic::catch_unwind(work).is_err() {
            tracing::error!("long work panicked");
        }
    }
}
