//! One kind of background work and how fast it may go: who does it asks before, and says what was begun.
//! In the shadow nobody is held back, and it is counted when somebody would have been.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::Time;
use plimsoll_base::time::Instant;

use super::bucket::{Bucket, WAIT_MAX};

/// What stands for no limit.
const FREE: u64 = u64::MAX;
/// For how long after it held somebody back that is what bounds his work.
const BOUNDS: Duration = Duration::from_secs(2);

/// The pace of one kind of work of a node.
pub(crate) struct Lane {
    time: Time,
    bucket: Bucket,
    bytes_s: AtomicU64,
    /// Whether somebody is held back, or would only have been.
    acts: AtomicBool,
    /// What was begun since it was looked at.
    begun: AtomicU64,
    held: Mutex<Held>,
    /// Those who wait all at once do so in their order.
    turn: tokio::sync::Mutex<()>,
}

/// When somebody was held back, or would have been.
#[derive(Clone, Copy, Default)]
struct Held {
    at: Option<Instant>,
    all: Duration,
}

impl Lane {
    /// One that holds nobody back.
    pub(crate) fn new(time: Time) -> Self {
        Self {
            time,
            bucket: Bucket::default(),
            bytes_s: AtomicU64::new(FREE),
            acts: AtomicBool::new(true),
            begun: AtomicU64::new(0),
            held: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// How long to wait before more is begun; then it is to be asked again. Zero where it may be now.
    pub(crate) fn wait(&self) -> Duration {
        let now = self.time.now();
        let wait = self.bucket.wait(self.bytes_s(), now);
        if wait.is_zero() {
            return Duration::ZERO;
        }
        let mut held = self.held.lock();
        // Who waits asks again and again.
        let since = held.at.replace(now).map(|at| now - at);
        held.all += since.filter(|since| *since <= 2 * WAIT_MAX).unwrap_or_default();
        if self.acts() { wait } else { Duration::ZERO }
    }

    /// So many bytes are begun.
    pub(crate) fn add(&self, bytes: u64) {
        self.bucket.add(bytes);
        self.begun.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Waits until so many bytes may be begun, at most so long, and counts them. Says for how long.
    pub(crate) async fn pass(&self, bytes: u64, at_most: Duration) -> Duration {
        let began = self.time.now();
        let mut has_waited = false;
        let wait = async {
            let turn = self.turn.try_lock();
            // Where nobody is held back, those before are on their way already.
            has_waited = turn.is_err() && self.acts() && self.bytes_s().is_some();
            let _turn = match turn {
                Ok(turn) => turn,
                Err(_) => self.turn.lock().await,
            };
            loop {
                let wait = self.wait();
                if wait.is_zero() {
                    break;
                }
                has_waited = true;
                self.time.sleep(wait).await;
            }
            self.add(bytes);
        };
        if self.time.timeout(at_most, wait).await.is_err() {
            self.add(bytes);
        }
        if has_waited { self.time.now() - began } else { Duration::ZERO }
    }

    /// Whether somebody was held back of late.
    pub(crate) fn bounds(&self) -> bool {
        let (at, now) = (self.held.lock().at, self.time.now());
        let is_held = at.is_some_and(|at| now - at < BOUNDS);
        is_held && self.acts()
    }

    fn acts(&self) -> bool {
        self.acts.load(Ordering::Relaxed)
    }

    /// For how long somebody was held back so far, or would have been.
    pub(super) fn held(&self) -> Duration {
        self.held.lock().all
    }

    /// The rate; none is no limit.
    pub(super) fn bytes_s(&self) -> Option<u64> {
        Some(self.bytes_s.load(Ordering::Relaxed)).filter(|bytes_s| *bytes_s != FREE)
    }

    /// It goes at another rate from now on; none is no limit.
    pub(super) fn set(&self, bytes_s: Option<u64>, acts: bool) {
        self.bytes_s.store(bytes_s.unwrap_or(FREE), Ordering::Relaxed);
        self.acts.store(acts, Ordering::Relaxed);
    }

    /// What was begun since this was asked last.
    pub(super) fn take_begun(&self) -> u64 {
        self.begun.swap(0, Ordering::Relaxed)
    }
}
