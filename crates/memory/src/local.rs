//! What a thread keeps for itself: for whom it works, and the bytes that it has not told that
//! ledger yet. It tells them when they come to [`SLACK_BYTES`] and whenever it turns to another,
//! so that what a ledger shows is off by at most that for each thread that works for it.
//!
//! A slot is never freed: threads come and go, and the next takes the slot of one that ended. Its
//! owner writes it and everyone may read it, so that what is not told yet can be summed too.

#![expect(unsafe_code, reason = "slots and ledgers are reached through pointers that never dangle")]

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use crate::ledger::{Ledger, NODE};
use crate::marks::{GROWN, TOLD};

/// How many bytes a thread may hold back from a ledger.
pub const SLACK_BYTES: i64 = 64 << 10;

/// What is kept free for each thread that works for one request alone.
const RESERVED_BYTES: i64 = 1 << 20;

/// A thread's slot.
#[repr(align(128))]
pub(crate) struct Slot {
    /// For whom the thread works.
    current: AtomicPtr<Ledger>,
    /// Bytes not told to `current`, where that is not the node.
    pending: AtomicI64,
    /// Bytes not told to the node.
    node: AtomicI64,
    /// Bytes allocated less bytes freed by all threads that ever had the slot.
    pub(crate) live: AtomicI64,
    /// The thread is in the middle of a question to the breakers: what it allocates for that
    /// raises no other.
    pub(crate) asking: AtomicBool,
    /// The thread can wait at a limit: nobody but a large request is held up by it.
    pub(crate) patient: AtomicBool,
    is_taken: AtomicBool,
    next: AtomicPtr<Slot>,
}

/// All slots, the newest first.
static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(ptr::null_mut());
/// Bytes of threads on their way out, which have no slot any more.
pub(crate) static STRAY: AtomicI64 = AtomicI64::new(0);
/// Stands in the thread's cell once its slot is given back.
static GONE: Slot = Slot::new();

thread_local! {
    // Without a destructor, so that the allocator may use it at any time of a thread's life.
    static SLOT: Cell<*const Slot> = const { Cell::new(ptr::null()) };
    static EXIT: Exit = const { Exit };
}

/// Gives the slot back when the thread ends.
struct Exit;

impl Drop for Exit {
    fn drop(&mut self) {
        let slot = SLOT.replace(&raw const GONE);
        // SAFETY: null, `GONE`, or a slot, and those live as long as the process.
        if let Some(slot) = unsafe { slot.as_ref() }.filter(|slot| !ptr::eq(*slot, &raw const GONE))
        {
            slot.tell_all();
            slot.set_current(&NODE);
            slot.is_taken.store(false, Release);
        }
    }
}

impl Slot {
    const fn new() -> Self {
        Self {
            current: AtomicPtr::new((&raw const NODE).cast_mut()),
            pending: AtomicI64::new(0),
            node: AtomicI64::new(0),
            live: AtomicI64::new(0),
            asking: AtomicBool::new(false),
            patient: AtomicBool::new(false),
            is_taken: AtomicBool::new(true),
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    #[inline]
    pub(crate) fn current(&self) -> &'static Ledger {
        // SAFETY: only ever set from a reference to a ledger, and ledgers are never freed.
        unsafe { &*self.current.load(Relaxed) }
    }

    fn set_current(&self, ledger: &'static Ledger) {
        self.current.store(ptr::from_ref(ledger).cast_mut(), Relaxed);
    }

    /// Only its own thread writes a counter, so a load and a store are enough.
    #[inline]
    pub(crate) fn bump(counter: &AtomicI64, bytes: i64) -> i64 {
        let now = counter.load(Relaxed) + bytes;
        counter.store(now, Relaxed);
        now
    }

    #[inline]
    pub(crate) fn counter(&self, ledger: &Ledger) -> &AtomicI64 {
        if ptr::eq(ledger, &raw const NODE) { &self.node } else { &self.pending }
    }

    pub(crate) fn tell(counter: &AtomicI64, ledger: &Ledger) {
        let bytes = counter.load(Relaxed);
        if bytes != 0 {
            // Told before it is taken from the slot: a sum in between counts it twice, never not
            // at all, and the next one is right.
            ledger.add(bytes);
            counter.store(0, Relaxed);
            Self::told(bytes);
        }
    }

    pub(crate) fn told(bytes: i64) {
        TOLD.fetch_add(bytes, Relaxed);
        if bytes > 0 {
            GROWN.fetch_add(bytes, Relaxed);
        }
    }

    fn tell_current(&self) {
        let current = self.current();
        if !ptr::eq(current, &raw const NODE) {
            Self::tell(&self.pending, current);
        }
    }

    pub(crate) fn tell_all(&self) {
        self.tell_current();
        Self::tell(&self.node, &NODE);
    }
}

/// The thread's slot; none at the very end of the thread's life.
#[inline]
pub(crate) fn slot() -> Option<&'static Slot> {
    let slot = SLOT.get();
    if slot.is_null() {
        return Some(take_slot());
    }
    // SAFETY: not null, so a slot or `GONE`, and those live as long as the process.
    let slot = unsafe { &*slot };
    (!ptr::eq(slot, &raw const GONE)).then_some(slot)
}

#[cold]
fn take_slot() -> &'static Slot {
    let mut at = SLOTS.load(Acquire);
    // SAFETY: slots are never freed.
    while let Some(slot) = unsafe { at.as_ref() } {
        if slot.is_taken.compare_exchange(false, true, AcqRel, Relaxed).is_ok() {
            return install(slot);
        }
        at = slot.next.load(Acquire);
    }
    // From the system: the layer that counts cannot ask itself.
    use std::alloc::{GlobalAlloc, Layout, System, handle_alloc_error};
    let layout = Layout::new::<Slot>();
    // SAFETY: the layout is not empty; the slot is written before anyone sees it.
    let slot = unsafe {
        let slot = System.alloc(layout).cast::<Slot>();
        if slot.is_null() {
            handle_alloc_error(layout);
        }
        slot.write(Slot::new());
        slot
    };
    let mut first = SLOTS.load(Acquire);
    loop {
        // SAFETY: just written.
        unsafe { (*slot).next.store(first, Relaxed) };
        match SLOTS.compare_exchange_weak(first, slot, AcqRel, Acquire) {
            // SAFETY: never freed.
            Ok(_) => return install(unsafe { &*slot }),
            Err(now) => first = now,
        }
    }
}

fn install(slot: &'static Slot) -> &'static Slot {
    SLOT.set(slot);
    // Registers the destructor; what that allocates finds the slot already.
    EXIT.with(|_| {});
    slot
}

/// Does work on a thread that can wait, in the middle of an allocation, for others to give their
/// memory back: a request that holds much does so then for a while. Not for threads that serve
/// several requests. While it is there as much is kept free for it as a request may hold without
/// waiting: what a small one takes, or one that was told to stop until it looks.
pub fn patiently<T>(work: impl FnOnce() -> T) -> T {
    struct Before(&'static Slot, bool);
    impl Drop for Before {
        fn drop(&mut self) {
            self.0.patient.store(self.1, Relaxed);
        }
    }
    let _before = slot().map(|slot| {
        let before = slot.patient.swap(true, Relaxed);
        if !before {
            // Until the next look counts it.
            GROWN.fetch_add(RESERVED_BYTES, Relaxed);
        }
        Before(slot, before)
    });
    work()
}

/// Runs work for the node's own account, without questions: what keeps the accounts themselves.
pub(crate) fn unasked<T>(work: impl FnOnce() -> T) -> T {
    let _node = enter(&NODE);
    let Some(slot) = slot() else { return work() };
    let before = slot.asking.swap(true, Relaxed);
    let done = work();
    slot.asking.store(before, Relaxed);
    done
}

/// Has the thread work for another ledger until the guard goes. Guards go in the order opposite
/// to that in which they came.
pub fn enter(ledger: &'static Ledger) -> Entered {
    let Some(slot) = slot() else {
        return Entered { before: &NODE, _not_send: std::marker::PhantomData };
    };
    let before = slot.current();
    if !ptr::eq(before, ledger) {
        slot.tell_current();
        slot.set_current(ledger);
    }
    Entered { before, _not_send: std::marker::PhantomData }
}

/// Has the thread work for another ledger as long as nobody else is entered.
pub fn charge_thread(ledger: &'static Ledger) {
    std::mem::forget(enter(ledger));
}

/// While it is there, its thread works for a ledger.
#[must_use = "the thread works for the ledger only as long as this is there"]
#[derive(Debug)]
pub struct Entered {
    before: &'static Ledger,
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(slot) = slot()
            && !ptr::eq(slot.current(), self.before)
        {
            slot.tell_current();
            slot.set_current(self.before);
        }
    }
}

/// Sums over all threads, as near to one moment as it can be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Bytes allocated less bytes freed.
    pub live: i64,
    /// Bytes that ledgers have not been told yet.
    pub untold: i64,
    /// The most that `untold` may be.
    pub slack: i64,
}

/// Whether the thread can wait.
pub(crate) fn is_patient() -> bool {
    slot().is_some_and(|slot| slot.patient.load(Relaxed))
}

/// The most that the threads that there are may hold back from ledgers, and what is kept free for
/// them, bytes.
pub(crate) fn reserve() -> i64 {
    let (mut reserve, mut at) = (0, SLOTS.load(Acquire));
    // SAFETY: slots are never freed.
    while let Some(slot) = unsafe { at.as_ref() } {
        if slot.is_taken.load(Relaxed) {
            reserve += 2 * SLACK_BYTES;
        }
        if slot.patient.load(Relaxed) {
            reserve += RESERVED_BYTES;
        }
        at = slot.next.load(Acquire);
    }
    reserve
}

/// What all threads have counted.
#[must_use]
pub fn sums() -> Sums {
    let mut sums = Sums { live: STRAY.load(Relaxed), ..Sums::default() };
    let mut at = SLOTS.load(Acquire);
    // SAFETY: slots are never freed.
    while let Some(slot) = unsafe { at.as_ref() } {
        sums.live += slot.live.load(Relaxed);
        sums.untold += slot.pending.load(Relaxed) + slot.node.load(Relaxed);
        sums.slack += 2 * SLACK_BYTES;
        at = slot.next.load(Acquire);
    }
    sums
}
