//! The layer over the allocator: every block has its owner's ledger in front of it, so that a
//! block is taken off the ledger that it was charged to, whoever frees it and however late. It
//! never unwinds and never refuses; it marks requests that have to stop, and they look.
//!
//! ```text
//! align up to 8: | ledger 8 |             block ...
//! align 16:      | unused 8 | ledger 8 |  block ...
//! larger:        | unused align - 8 | ledger 8 | block ...
//! ```
//!
//! A block that grows or shrinks in place keeps its owner.

#![expect(unsafe_code, reason = "an allocator hands out memory")]

use std::alloc::{GlobalAlloc, Layout};

pub use crate::marks::ASKED_BYTES;

use crate::charge;
use crate::ledger::Ledger;

const POINTER_BYTES: usize = size_of::<*const Ledger>();

/// An allocator that counts for whom it allocates.
#[derive(Debug)]
pub struct Counted<A>(A);

impl<A> Counted<A> {
    /// The layer over `inner`.
    pub const fn new(inner: A) -> Self {
        Self(inner)
    }
}

/// What stands in front of a block, bytes.
#[inline]
const fn front(layout: Layout) -> usize {
    if layout.align() > POINTER_BYTES { layout.align() } else { POINTER_BYTES }
}

/// The block with what stands in front of it; none where it is too large for any.
#[inline]
fn whole(layout: Layout) -> Option<Layout> {
    let front = front(layout);
    let size = layout.size().checked_add(front)?;
    // The alignment of a layout is at most that of `front`.
    Layout::from_size_align(size, front).ok()
}

#[inline]
fn signed(bytes: usize) -> i64 {
    // Layouts are at most isize::MAX.
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

// SAFETY: blocks are the inner allocator's, moved by a multiple of their alignment; what is in
// front of them is inside the inner block. Nothing here unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counted<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's.
        unsafe { self.fresh(layout, |inner, whole| inner.alloc(whole)) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's.
        unsafe { self.fresh(layout, |inner, whole| inner.alloc_zeroed(whole)) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(whole) = whole(layout) else { return };
        // SAFETY: the block came from `fresh`, with this layout.
        unsafe {
            charge::change(owner(block), -signed(whole.size()));
            self.0.dealloc(block.sub(front(layout)), whole);
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let larger = Layout::from_size_align(size, layout.align()).ok().and_then(self::whole);
        let (Some(before), Some(after)) = (whole(layout), larger) else {
            return std::ptr::null_mut();
        };
        if size >= ASKED_BYTES && size > layout.size() {
            charge::ask_first((size - layout.size()) as u64);
        }
        let front = front(layout);
        // SAFETY: the block came from `fresh` with this layout; the inner allocator keeps the
        // bytes in front.
        unsafe {
            let base = self.0.realloc(block.sub(front), before, after.size());
            if base.is_null() {
                return base;
            }
            let block = base.add(front);
            charge::change(owner(block), signed(after.size()) - signed(before.size()));
            block
        }
    }
}

impl<A: GlobalAlloc> Counted<A> {
    /// # Safety
    /// As that of [`GlobalAlloc::alloc`].
    #[inline]
    unsafe fn fresh(&self, layout: Layout, alloc: impl FnOnce(&A, Layout) -> *mut u8) -> *mut u8 {
        let Some(whole) = whole(layout) else { return std::ptr::null_mut() };
        if layout.size() >= ASKED_BYTES {
            charge::ask_first(layout.size() as u64);
        }
        let base = alloc(&self.0, whole);
        if base.is_null() {
            return base;
        }
        let ledger: *const Ledger = charge::charge(signed(whole.size()));
        // SAFETY: `front` bytes are there before the block, the last eight of them aligned to 8.
        unsafe {
            let block = base.add(front(layout));
            block.sub(POINTER_BYTES).cast::<*const Ledger>().write(ledger);
            block
        }
    }
}

/// # Safety
/// The block came from this layer.
#[inline]
unsafe fn owner(block: *mut u8) -> &'static Ledger {
    // SAFETY: `fresh` wrote a ledger's address there, and ledgers are never freed.
    unsafe { &**block.sub(POINTER_BYTES).cast::<*const Ledger>() }
}
