//! Counts what a thread allocates and frees, and has it ask the breakers where a limit may be passed. For whom it
//! works, and what it keeps back, is [`crate::local`]'s.

use std::ptr;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use crate::breakers;
use crate::ledger::{Ledger, NODE};
use crate::local::{SLACK_BYTES, STRAY, Slot, slot};
use crate::marks;

/// Counts a new block, and says whose it is.
#[inline]
pub(crate) fn charge(bytes: i64) -> &'static Ledger {
    let Some(slot) = slot() else {
        STRAY.fetch_add(bytes, Relaxed);
        NODE.add(bytes);
        return &NODE;
    };
    let current = slot.current();
    count(slot, current, bytes);
    current
}

/// Counts a block of `owner`'s as grown, or with a minus sign, as shrunk or gone.
#[inline]
pub(crate) fn change(owner: &'static Ledger, bytes: i64) {
    let Some(slot) = slot() else {
        STRAY.fetch_add(bytes, Relaxed);
        owner.add(bytes);
        return;
    };
    if ptr::eq(owner, slot.current()) || ptr::eq(owner, &raw const NODE) {
        count(slot, owner, bytes);
    } else {
        Slot::bump(&slot.live, bytes);
        owner.add(bytes);
        Slot::told(bytes);
    }
}

#[inline]
fn count(slot: &'static Slot, ledger: &'static Ledger, bytes: i64) {
    Slot::bump(&slot.live, bytes);
    let counter = slot.counter(ledger);
    if Slot::bump(counter, bytes).abs() > SLACK_BYTES {
        told(slot, counter, ledger);
    }
}

#[cold]
fn told(slot: &'static Slot, counter: &AtomicI64, ledger: &'static Ledger) {
    let is_growth = counter.load(Relaxed) > 0;
    Slot::tell(counter, ledger);
    if is_growth && !slot.asking.load(Relaxed) && marks::is_pressed() {
        ask(slot, ledger, 0);
    }
}

/// Asks for a large block before it is allocated. A thread that can wait does where there is no
/// room; whoever has to stop is marked. The block is allocated whatever the answer is, because an
/// allocator has nobody to tell.
#[cold]
pub(crate) fn ask_first(bytes: u64) {
    if let Some(slot) = slot().filter(|slot| !slot.asking.load(Relaxed)) {
        slot.tell_all();
        if !marks::claim(bytes) {
            ask(slot, slot.current(), bytes);
        }
    }
}

fn ask(slot: &'static Slot, ledger: &'static Ledger, bytes: u64) {
    slot.asking.store(true, Relaxed);
    breakers::press(ledger, bytes, slot.patient.load(Relaxed));
    slot.asking.store(false, Relaxed);
}
