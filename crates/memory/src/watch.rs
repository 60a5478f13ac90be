//! The thread that looks at memory: it sets the marks that others compare with, tells requests to
//! stop where nobody who allocates would, and checks that no byte is lost: what all ledgers hold,
//! with what threads have not told them yet, is what was allocated less what was freed.

use std::sync::Once;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::account::request_sums;
use crate::breakers;
use crate::ledger::OWNERS;
use crate::local;
use crate::nudge;

const LOOK_PAUSE: Duration = Duration::from_millis(25);
/// Between two looks while requests wait for room.
const AWAITED_PAUSE: Duration = Duration::from_millis(2);
/// The least between two looks, however often it is nudged.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(1);
/// Between two checks that nothing is lost.
const CHECK_PAUSE: Duration = Duration::from_secs(1);
/// A check is made of several sums, because threads allocate while one is made.
const TRIES: u32 = 20;

/// How far ledgers are off what was allocated, bytes, by the last check that failed; 0 where none
/// did.
static OFF: AtomicI64 = AtomicI64::new(0);

/// What the accounts say of themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Bytes allocated less bytes freed.
    pub live: i64,
    /// Bytes on all ledgers, with what threads have not told them yet.
    pub owned: i64,
    /// How far the two may be apart.
    pub slack: i64,
}

impl Balance {
    /// How far the two are apart.
    #[must_use]
    pub fn off(&self) -> i64 {
        self.owned - self.live
    }

    /// Whether they are further apart than they may be.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.off().abs() > self.slack
    }
}

/// The sums at about one moment. While threads allocate they can be off by what those allocate
/// between two loads.
#[must_use]
pub fn balance() -> Balance {
    let before = local::sums();
    let owners: i64 = OWNERS.iter().map(|owner| owner.bytes()).sum();
    let requests = request_sums();
    let after = local::sums();
    Balance {
        live: i64::midpoint(before.live, after.live),
        owned: owners + requests.open + requests.left.iter().sum::<i64>() + after.untold,
        slack: after.slack,
    }
}

/// The best of several balances: a fault stays, what threads did meanwhile does not.
#[must_use]
pub fn best_balance() -> Balance {
    let mut best = balance();
    for _ in 1..TRIES {
        if !best.is_off() {
            break;
        }
        std::thread::yield_now();
        let next = balance();
        if next.off().abs() < best.off().abs() {
            best = next;
        }
    }
    best
}

/// How far ledgers were off at the last check, bytes, where that was more than they may be.
#[must_use]
pub fn breach() -> Option<i64> {
    Some(OFF.load(Relaxed)).filter(|off| *off != 0)
}

fn check() {
    let balance = best_balance();
    let off = if balance.is_off() { balance.off() } else { 0 };
    let before = OFF.swap(off, Relaxed);
    if off != 0 && before == 0 {
        tracing::error!(?balance, "the accounts of memory do not add up");
    } else if off == 0 && before != 0 {
        tracing::info!(?balance, "the accounts of memory add up again");
    }
}

/// Sees to it that the process is watched from now on; it needs no more than one thread.
///
/// # Panics
/// Where the system has no room for a thread: the node is being opened.
pub fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        // It ends with the process.
        let thread = std::thread::Builder::new().name("memory".to_owned()).spawn(|| {
            let mut checked = Instant::now();
            loop {
                nudge::looks_now();
                breakers::watch();
                if checked.elapsed() >= CHECK_PAUSE {
                    checked = Instant::now();
                    check();
                }
                std::thread::sleep(LOOK_PAUSE_MIN);
                let is_awaited = breakers::is_awaited();
                std::thread::park_timeout(if is_awaited { AWAITED_PAUSE } else { LOOK_PAUSE });
            }
        });
        assert!(thread.is_ok(), "the system has no room for a thread");
        if let Ok(thread) = thread {
            nudge::watched_by(thread.thread().clone());
        }
    });
}
