//! A ledger: the bytes that one owner holds, and the most it ever held. Owners that last as long
//! as the process are statics here; those of requests are lent out by [`crate::account`].
//!
//! A ledger is never freed, because blocks point to it. One that was closed keeps the bytes that
//! its request left behind until they are freed, by whomever; then it is lent out again.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed};

/// What one owner holds. On cache lines of its own: threads of several requests write at once.
#[derive(Debug)]
#[repr(align(128))]
pub struct Ledger {
    bytes: AtomicI64,
    peak: AtomicI64,
    /// The number of the request that it is lent to; 0 for an owner of its own and for a closed
    /// one.
    request: AtomicU64,
    heir: AtomicU8,
    name: &'static str,
}

/// Who has the bytes that a request leaves behind: most leave none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Heir {
    /// Nobody in particular. What is held here for long is a fault.
    Unattributed = 0,
    /// Scrolls and points in time.
    Contexts = 1,
    /// Rows and documents on their way to the store, and kept beside it.
    Writes = 2,
    /// Rows that were read, kept for the next that reads them.
    Rows = 3,
}

impl Heir {
    /// All of them, each where its number is.
    pub const ALL: [Self; 4] = [Self::Unattributed, Self::Contexts, Self::Writes, Self::Rows];

    /// Its name in answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unattributed => "unattributed",
            Self::Contexts => "contexts",
            Self::Writes => "writes",
            Self::Rows => "rows",
        }
    }
}

/// Bytes of all requests that are open, as far as threads have told them. Set right once a tick:
/// bytes that are freed while their request closes may be missed.
pub(crate) static REQUESTS: AtomicI64 = AtomicI64::new(0);

/// What lasts and has no other owner: metadata, the log's queues, leads, appliers.
pub static NODE: Ledger = Ledger::named("node");
/// Connections of REST and other nodes, outside of their requests.
pub static CONNECTIONS: Ledger = Ledger::named("connections");
/// Indices' open readers, writers and views.
pub static INDEX: Ledger = Ledger::named("index");
/// Answers of searches kept for the next that ask the same.
pub static REQUEST_CACHE: Ledger = Ledger::named("request_cache");

/// The owners that last.
pub static OWNERS: [&Ledger; 4] = [&NODE, &CONNECTIONS, &INDEX, &REQUEST_CACHE];

impl Ledger {
    /// An owner that lasts.
    pub(crate) const fn named(name: &'static str) -> Self {
        Self {
            bytes: AtomicI64::new(0),
            peak: AtomicI64::new(0),
            request: AtomicU64::new(0),
            heir: AtomicU8::new(Heir::Unattributed as u8),
            name,
        }
    }

    /// Its name; `request` for those of requests.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Bytes held, as far as threads have told them: each may hold
    /// [`crate::local::SLACK_BYTES`] back.
    #[must_use]
    pub fn bytes(&self) -> i64 {
        self.bytes.load(Relaxed)
    }

    /// The most bytes that were held.
    #[must_use]
    pub fn peak(&self) -> i64 {
        self.peak.load(Relaxed)
    }

    /// The request that it is lent to, if any.
    pub(crate) fn request(&self) -> Option<u64> {
        Some(self.request.load(Relaxed)).filter(|number| *number != 0)
    }

    /// Counts bytes that came, or with a minus sign, went.
    pub(crate) fn add(&self, bytes: i64) {
        let now = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        if bytes > 0 && now > self.peak.load(Relaxed) {
            self.peak.fetch_max(now, Relaxed);
        }
        if self.request.load(Relaxed) != 0 {
            REQUESTS.fetch_add(bytes, Relaxed);
        }
    }

    /// Lends it to a request.
    pub(crate) fn lend(&self, number: u64, heir: Heir) {
        self.peak.store(0, Relaxed);
        self.leave_to(heir);
        self.request.store(number, Relaxed);
    }

    /// Whose the bytes are that are left when it is closed.
    pub(crate) fn leave_to(&self, heir: Heir) {
        self.heir.store(heir as u8, Relaxed);
    }

    /// Whose the bytes of a closed one are.
    pub(crate) fn heir(&self) -> Heir {
        Heir::ALL[usize::from(self.heir.load(Relaxed))]
    }

    /// Ends the loan; the bytes that are left behind are the heir's from now on.
    pub(crate) fn close(&self) -> i64 {
        self.request.store(0, Relaxed);
        let left = self.bytes();
        REQUESTS.fetch_sub(left, Relaxed);
        left
    }
}
