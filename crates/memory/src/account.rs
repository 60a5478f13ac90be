//! A request's account: a ledger that is lent to it, what it is, when it began, what it took, and
//! whether it has to stop. It closes with the last handle; bytes that are left then stay on the
//! closed ledger and are shown as its heir's until they are freed.
//!
//! Who has to stop is decided in [`crate::breakers`]; what stopping means, by whoever works for
//! the account: [`crate::Charged`] drops its future, threads ask [`Account::is_stopped`].

#![expect(unsafe_code, reason = "the kernel is asked for a thread's processor time")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::breakers::counting::counts_next;
use crate::breakers::trip::Trip;
use crate::ledger::{Heir, Ledger};
use crate::local::{self, Entered};

/// Accounts that may be open at once; a request beyond them works for the node.
pub const ACCOUNTS_MAX: usize = 1 << 16;
/// The longest description that is kept, bytes.
const DESCRIPTION_BYTES_MAX: usize = 512;

/// What may be done to a request for the sake of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The cluster's own work: counted, never refused or told to stop.
    Control,
    /// A request that changes something: told to stop, it does so where it can say what was done.
    Write,
    /// A request that can be given up at any time.
    Read,
}

/// What a request is.
#[derive(Clone, Debug)]
pub struct TaskAction {
    /// A name as Elasticsearch has it, such as `indices:data/read/search`.
    pub name: &'static str,
    /// What it is about; cut off after 512 bytes.
    pub description: String,
    /// What may be done to it.
    pub standing: Standing,
    /// What the client calls it.
    pub opaque_id: Option<String>,
}

/// Why a request has to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It holds more than its share at a limit.
    Tripped(Trip),
    /// Someone said so, for this reason.
    Cancelled(String),
}

/// What is told of an open request.
#[derive(Clone, Debug)]
pub struct Told {
    /// Its number on this node, from 1.
    pub number: u64,
    /// [`TaskAction::name`].
    pub action: &'static str,
    /// [`TaskAction::description`].
    pub description: String,
    /// [`TaskAction::standing`].
    pub standing: Standing,
    /// [`TaskAction::opaque_id`].
    pub opaque_id: Option<String>,
    /// When it began, ms since 1970.
    pub began_ms: u64,
    /// How long it has been running.
    pub running: Duration,
    /// Bytes held.
    pub bytes: u64,
    /// The most bytes that it held.
    pub peak_bytes: u64,
    /// Processor time that it took.
    pub cpu: Duration,
    /// Whether it was told to stop.
    pub is_stopped: bool,
    /// Whether its memory is counted.
    pub is_counted: bool,
}

pub(crate) struct Inner {
    number: u64,
    action: TaskAction,
    began: Instant,
    began_ms: u64,
    /// None where its memory is not counted.
    pub(crate) ledger: Option<&'static Ledger>,
    cpu_ns: AtomicU64,
    is_stopped: AtomicBool,
    stop: Mutex<Option<(Stop, Instant)>>,
    waker: Mutex<Option<Waker>>,
}

/// A handle of an account. Cloning it is cheap; the account closes with the last.
#[derive(Clone)]
pub struct Account(Arc<Inner>);

#[derive(Default)]
struct Registry {
    last: u64,
    open: BTreeMap<u64, Weak<Inner>>,
    /// Every ledger that was ever lent.
    all: Vec<&'static Ledger>,
    /// Closed, and bytes are left.
    closed: Vec<&'static Ledger>,
    free: Vec<&'static Ledger>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    last: 0,
    open: BTreeMap::new(),
    all: Vec::new(),
    closed: Vec::new(),
    free: Vec::new(),
});

thread_local! {
    static REQUEST: RefCell<Option<Account>> = const { RefCell::new(None) };
}

fn registry<T>(work: impl FnOnce(&mut Registry) -> T) -> T {
    local::unasked(|| work(&mut REGISTRY.lock()))
}

impl Registry {
    fn ledger(&mut self) -> Option<&'static Ledger> {
        if self.free.is_empty() {
            self.sweep();
        }
        self.free.pop().or_else(|| {
            (self.all.len() < ACCOUNTS_MAX).then(|| {
                let made: &'static Ledger = Box::leak(Box::new(Ledger::named("request")));
                self.all.push(made);
                made
            })
        })
    }

    /// Closed ledgers without bytes: no block points to them, so that they can be lent again.
    fn sweep(&mut self) {
        let free = &mut self.free;
        self.closed.retain(|ledger| {
            let is_empty = ledger.bytes() == 0;
            if is_empty {
                free.push(ledger);
            }
            !is_empty
        });
    }
}

impl Account {
    /// Opens an account. Whether its memory is counted is what the request breaker's type says.
    #[must_use]
    pub fn open(mut action: TaskAction) -> Self {
        let mut end = action.description.len().min(DESCRIPTION_BYTES_MAX);
        while !action.description.is_char_boundary(end) {
            end -= 1;
        }
        action.description.truncate(end);
        let is_counted = counts_next();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        local::unasked(|| {
            let mut registry = REGISTRY.lock();
            registry.last += 1;
            let number = registry.last;
            let ledger = is_counted.then(|| registry.ledger()).flatten();
            if let Some(ledger) = ledger {
                // What a write leaves behind is what it wrote.
                let heir = match action.standing {
                    Standing::Write => Heir::Writes,
                    Standing::Read | Standing::Control => Heir::Unattributed,
                };
                ledger.lend(number, heir);
            }
            let inner = Arc::new(Inner {
                number,
                action,
                began: Instant::now(),
                began_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
                ledger,
                cpu_ns: AtomicU64::new(0),
                is_stopped: AtomicBool::new(false),
                stop: Mutex::new(None),
                waker: Mutex::new(None),
            });
            registry.open.insert(number, Arc::downgrade(&inner));
            Self(inner)
        })
    }

    /// Says whose the bytes are that it leaves behind.
    pub fn leave_to(&self, heir: Heir) {
        if let Some(ledger) = self.0.ledger {
            ledger.leave_to(heir);
        }
    }

    /// Its number on this node, from 1.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// What may be done to it.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.0.action.standing
    }

    /// Whether its memory is counted.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.0.ledger.is_some()
    }

    /// Has the thread work for it until the guard goes.
    pub fn enter(&self) -> Working<'_> {
        let before = REQUEST.try_with(|request| request.replace(Some(self.clone())));
        Working {
            _entered: self.0.ledger.map(local::enter),
            before: before.unwrap_or_default(),
            _account: std::marker::PhantomData,
        }
    }

    /// Does work for it on this thread, and adds the processor time that it takes.
    pub fn work<T>(&self, work: impl FnOnce() -> T) -> T {
        let _working = self.enter();
        let _clock = self.clock();
        work()
    }

    /// Adds the processor time that the thread takes until the guard goes.
    pub(crate) fn clock(&self) -> Clock<'_> {
        Clock { inner: &self.0, began_ns: thread_cpu_ns() }
    }

    /// Whether it has to stop: one load, to be asked for every block of documents.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.is_stopped.load(Relaxed)
    }

    /// Why it has to stop, if it has.
    #[must_use]
    pub fn stop_reason(&self) -> Option<Stop> {
        if !self.is_stopped() {
            return None;
        }
        // Who decides takes this lock, so that a copy is not to raise a question under it.
        local::unasked(|| self.0.stop.lock().as_ref().map(|(stop, _)| stop.clone()))
    }

    /// Refuses where it has to stop.
    ///
    /// # Errors
    /// Why.
    pub fn check(&self) -> Result<(), Stop> {
        self.stop_reason().map_or(Ok(()), Err)
    }

    /// Tells it to stop; false where it was told before or is the cluster's own.
    pub fn stop(&self, why: Stop) -> bool {
        if self.standing() == Standing::Control {
            return false;
        }
        let waker = local::unasked(|| {
            let mut stop = self.0.stop.lock();
            if stop.is_some() {
                return None;
            }
            *stop = Some((why, Instant::now()));
            self.0.is_stopped.store(true, Relaxed);
            Some(self.0.waker.lock().take())
        });
        if let Some(Some(waker)) = &waker {
            waker.wake_by_ref();
        }
        waker.is_some()
    }

    /// Takes back that it has to stop: for an account that goes on with its next piece of work.
    pub fn go_on(&self) -> Option<Stop> {
        if !self.is_stopped() {
            return None;
        }
        let stop = self.0.stop.lock().take();
        self.0.is_stopped.store(false, Relaxed);
        stop.map(|(stop, _)| stop)
    }

    /// Has whoever waits for it woken when it is told to stop.
    pub(crate) fn wake(&self, waker: &Waker) {
        let mut kept = self.0.waker.lock();
        if kept.as_ref().is_none_or(|kept| !kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }

    /// How long ago it was told to stop.
    pub(crate) fn stopped_for(&self) -> Option<Duration> {
        if !self.is_stopped() {
            return None;
        }
        self.0.stop.lock().as_ref().map(|(_, at)| at.elapsed())
    }

    /// Bytes held, as far as threads have told them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.ledger.map_or(0, |ledger| u64::try_from(ledger.bytes()).unwrap_or(0))
    }

    /// The most bytes that it held.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.0.ledger.map_or(0, |ledger| u64::try_from(ledger.peak()).unwrap_or(0))
    }

    /// Processor time that it took so far.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        Duration::from_nanos(self.0.cpu_ns.load(Relaxed))
    }

    /// What is told of it.
    #[must_use]
    pub fn told(&self) -> Told {
        let Inner { number, action, began, began_ms, .. } = &*self.0;
        Told {
            number: *number,
            action: action.name,
            description: action.description.clone(),
            standing: action.standing,
            opaque_id: action.opaque_id.clone(),
            began_ms: *began_ms,
            running: began.elapsed(),
            bytes: self.bytes(),
            peak_bytes: self.peak_bytes(),
            cpu: self.cpu(),
            is_stopped: self.is_stopped(),
            is_counted: self.is_counted(),
        }
    }

    /// How a refusal names it.
    pub(crate) fn title(&self) -> String {
        let Inner { number, action, .. } = &*self.0;
        format!("{number} {}[{}]", action.name, action.description)
    }
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Account({})", self.title())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        registry(|registry| {
            registry.open.remove(&self.number);
            if let Some(ledger) = self.ledger {
                let left = ledger.close();
                if left == 0 { &mut registry.free } else { &mut registry.closed }.push(ledger);
            }
        });
    }
}

/// The account for which this thread works, if it works for a request.
#[must_use]
pub fn current() -> Option<Account> {
    REQUEST.try_with(|request| request.borrow().clone()).ok().flatten()
}

/// Work for another thread, done there for the account that this thread works for.
pub fn carry<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let account = current();
    move || match &account {
        Some(account) => account.work(work),
        None => work(),
    }
}

/// The open accounts, the oldest first.
#[must_use]
pub fn open_accounts() -> Vec<Account> {
    // Handles go outside of the registry's lock: the last of an account takes it.
    local::unasked(|| {
        let open: Vec<Weak<Inner>> = REGISTRY.lock().open.values().cloned().collect();
        open.iter().filter_map(Weak::upgrade).map(Account).collect()
    })
}

/// The open account of a number.
#[must_use]
pub fn find(number: u64) -> Option<Account> {
    let found = registry(|registry| registry.open.get(&number).cloned());
    found.and_then(|weak| weak.upgrade()).map(Account)
}

/// What all ledgers of requests hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestSums {
    /// Requests that are open.
    pub open_count: usize,
    /// Bytes that they hold.
    pub open: i64,
    /// Bytes that closed ones left behind, each heir's in the order of [`Heir::ALL`].
    pub left: [i64; Heir::ALL.len()],
    /// Closed ones that left bytes behind.
    pub closed_count: usize,
}

impl RequestSums {
    /// Bytes that are left with nobody in particular.
    #[must_use]
    pub fn unattributed(&self) -> i64 {
        self.left[Heir::Unattributed as usize]
    }
}

/// Sums over all ledgers of requests; those that are empty again can be lent after it.
#[must_use]
pub fn request_sums() -> RequestSums {
    registry(|registry| {
        registry.sweep();
        let all: i64 = registry.all.iter().map(|ledger| ledger.bytes()).sum();
        let mut left = [0; Heir::ALL.len()];
        for ledger in &registry.closed {
            left[ledger.heir() as usize] += ledger.bytes();
        }
        RequestSums {
            open_count: registry.open.len(),
            open: all - left.iter().sum::<i64>(),
            left,
            closed_count: registry.closed.len(),
        }
    })
}

/// While it is there, its thread works for an account.
#[must_use = "the thread works for the account only as long as this is there"]
pub struct Working<'a> {
    _entered: Option<Entered>,
    before: Option<Account>,
    _account: std::marker::PhantomData<&'a Account>,
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        let before = self.before.take();
        // What was there is a handle less, and not the last: the caller lent one.
        let _ = REQUEST.try_with(|request| request.replace(before));
    }
}

pub(crate) struct Clock<'a> {
    inner: &'a Inner,
    began_ns: u64,
}

impl Drop for Clock<'_> {
    fn drop(&mut self) {
        let took = thread_cpu_ns().saturating_sub(self.began_ns);
        self.inner.cpu_ns.fetch_add(took, Relaxed);
    }
}

/// Processor time of this thread, ns.
fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the one struct that it is given.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0;
    if failed {
        return 0;
    }
    let whole = |part: libc::c_long| u64::try_from(part).unwrap_or(0);
    whole(time.tv_sec) * 1_000_000_000 + whole(time.tv_nsec)
}
