//! Many that grow at once, in a process of their own: it is watched, and its memory is theirs.

use std::alloc::System;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

use plimsoll_memory::account::TaskAction;
use plimsoll_memory::breakers::{self, Limit, Settings, Which};
use plimsoll_memory::local::patiently;
use plimsoll_memory::machine::machine;
use plimsoll_memory::{Account, Counted, Standing};

#[global_allocator]
static ALLOCATOR: Counted<System> = Counted::new(System);

const MB: usize = 1 << 20;

fn account() -> Account {
    let (description, standing) = ("one".to_owned(), Standing::Read);
    Account::open(TaskAction { name: "test", description, standing, opaque_id: None })
}

/// The most anonymous memory while something is done.
fn most_while<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let (is_over, most) = (AtomicBool::new(false), AtomicU64::new(0));
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                most.fetch_max(machine().anonymous_bytes(), SeqCst);
                std::thread::yield_now();
            }
        });
        let done = work();
        is_over.store(true, SeqCst);
        done
    });
    (done, most.load(SeqCst))
}

/// Thirty-two threads want eight times what there is, each in blocks of one size, and look whether
/// they are to stop only every now and then.
fn many_want_more_than_there_is(block: usize, blocks_per_look: usize) {
    const WANTED: usize = 16 * MB;
    let room = 96 * MB as u64;
    let limit = breakers::figures(Which::Parent).used + room;
    breakers::set(Settings { total: Limit::Bytes(limit), ..Settings::default() });
    let (stopped, all_are_there) = (AtomicUsize::new(0), Barrier::new(32));
    let growing = AtomicUsize::new(32);
    let ((), most) = most_while(|| {
        std::thread::scope(|scope| {
            for _ in 0..32 {
                scope.spawn(|| {
                    patiently(|| {
                        // What is kept free for threads is kept before they need it.
                        all_are_there.wait();
                        let one = account();
                        one.work(|| {
                            let mut held = Vec::new();
                            while held.len() * block < WANTED && !one.is_stopped() {
                                held.extend((0..blocks_per_look).map(|_| vec![1u8; block]));
                            }
                            growing.fetch_sub(1, SeqCst);
                            // Held until all have grown, in whatever order they are run: together
                            // they want more than there is.
                            while growing.load(SeqCst) > 0 && !one.is_stopped() {
                                std::thread::yield_now();
                            }
                        });
                        stopped.fetch_add(usize::from(one.is_stopped()), SeqCst);
                    });
                });
            }
        });
    });
    assert!(stopped.load(SeqCst) > 0);
    assert!(most <= limit, "{most} of {limit} bytes, {block} a block");
}

#[test]
fn many_that_grow_at_once_stay_below_the_parents_limit() {
    plimsoll_memory::watch::start();
    many_want_more_than_there_is(1000, 500);
    many_want_more_than_there_is(100_000, 5);
    many_want_more_than_there_is(2 * MB, 1);
}
