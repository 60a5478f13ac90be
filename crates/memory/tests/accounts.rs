//! Blocks and their owners, in a process whose allocator is the layer.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may panic")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plimsoll_memory::account::{TaskAction, request_sums};
use plimsoll_memory::ledger::{Heir, INDEX, NODE};
use plimsoll_memory::local::{SLACK_BYTES, enter};
use plimsoll_memory::watch::{balance, best_balance};
use plimsoll_memory::{Account, Counted, Standing};
use proptest::prelude::*;

#[global_allocator]
static ALLOCATOR: Counted<System> = Counted::new(System);

/// Ledgers are the process', so one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn account(standing: Standing) -> Account {
    Account::open(TaskAction {
        name: "test",
        description: "é".repeat(400),
        standing,
        opaque_id: None,
    })
}

/// What is written at a place of a block.
fn pattern(at: usize) -> u8 {
    u8::try_from(at % 251).unwrap_or_default()
}

/// Bytes of an account once the thread that worked for it has told it.
fn held(account: &Account) -> i64 {
    i64::try_from(account.bytes()).expect("fewer bytes than a machine has")
}

#[test]
fn a_block_is_its_owners_whoever_frees_it() {
    let _alone = alone();
    let (one, other) = (account(Standing::Read), account(Standing::Read));
    let block = {
        let _working = one.enter();
        vec![1u8; 100_000]
    };
    assert_eq!((held(&one), held(&other)), (100_008, 0));
    {
        let _working = other.enter();
        let mut block = block;
        block.reserve_exact(200_000);
        assert_eq!(held(&one), 300_008, "a block that grows keeps its owner");
        drop(block);
    }
    assert_eq!((held(&one), held(&other)), (0, 0));
    assert_eq!(one.peak_bytes(), 300_008);
}

#[test]
fn what_a_request_leaves_behind_is_nobodys_until_it_is_freed() {
    let _alone = alone();
    let before = request_sums();
    let one = account(Standing::Read);
    let number = one.number();
    let left = {
        let _working = one.enter();
        vec![1u8; 5000]
    };
    let other_thread = {
        let one = one.clone();
        std::thread::spawn(move || one.work(|| vec![2u8; 70_000]))
    };
    let gone = other_thread.join().unwrap();
    assert_eq!(held(&one), 5008 + 70_008);
    drop(one);
    assert!(plimsoll_memory::account::find(number).is_none());
    let after = request_sums();
    assert_eq!(after.unattributed() - before.unattributed(), 5008 + 70_008);
    assert_eq!(after.closed_count, before.closed_count + 1);
    drop((left, gone));
    assert_eq!(request_sums(), before);
}

#[test]
fn a_heir_has_what_is_left() {
    let _alone = alone();
    let before = request_sums();
    let (read, write) = (account(Standing::Read), account(Standing::Write));
    let left = (read.work(|| vec![0u8; 100]), write.work(|| vec![0u8; 200]));
    read.leave_to(Heir::Contexts);
    drop((read, write));
    let after = request_sums();
    let more: Vec<i64> = after.left.iter().zip(before.left).map(|(a, b)| a - b).collect();
    assert_eq!(more, [0, 108, 208, 0]);
    drop(left);
}

#[test]
fn guards_nest_and_end_with_a_panic() {
    let _alone = alone();
    let one = account(Standing::Read);
    let index = INDEX.bytes();
    let kept = {
        let _working = one.enter();
        let kept = {
            let _index = enter(&INDEX);
            vec![0u8; 80_000]
        };
        assert_eq!(INDEX.bytes() - index, 80_008);
        let panicked = std::panic::catch_unwind(|| {
            let _index = enter(&INDEX);
            std::panic::resume_unwind(Box::new(1));
        });
        assert!(panicked.is_err());
        let own = vec![0u8; 90_000];
        drop(enter(&INDEX));
        assert_eq!(held(&one), 90_008);
        drop(own);
        kept
    };
    assert_eq!(held(&one), 0);
    drop(kept);
    drop(enter(&INDEX));
    assert_eq!(INDEX.bytes(), index);
}

#[test]
fn the_ledgers_add_up_to_what_is_allocated() {
    let _alone = alone();
    let one = account(Standing::Read);
    let (sender, receiver) = sync_channel::<Vec<u8>>(64);
    let makers: Vec<_> = (0..4u8)
        .map(|maker| {
            let (one, sender) = (one.clone(), sender.clone());
            std::thread::spawn(move || {
                for size in 1..2000usize {
                    let block = if size % 2 == 0 {
                        one.work(|| vec![maker; size * 7])
                    } else {
                        vec![maker; size * 3]
                    };
                    sender.send(block).unwrap();
                }
            })
        })
        .collect();
    drop(sender);
    let mut kept = Vec::new();
    for (at, block) in receiver.iter().enumerate() {
        if at % 10 == 0 {
            kept.push(block);
        }
    }
    makers.into_iter().for_each(|maker| maker.join().unwrap());
    let balance = best_balance();
    assert!(!balance.is_off(), "{balance:?}");
    // The test's own threads are all that there is, so that nothing moves and nothing is off.
    assert_eq!(balance.off(), 0, "{balance:?}");
    let expected: i64 = kept
        .iter()
        .filter(|block| block.len() % 7 == 0 && (block.len() / 7) % 2 == 0)
        .filter(|block| block.len() % 3 != 0 || (block.len() / 3) % 2 == 0)
        .map(|block| i64::try_from(block.capacity()).unwrap() + 8)
        .sum();
    assert!(held(&one) >= expected && expected > 0, "{} {expected}", held(&one));
    drop(kept);
    assert_eq!(held(&one), 0);
}

#[test]
fn a_thread_tells_what_it_held_back_when_it_ends() {
    let _alone = alone();
    let before = NODE.bytes() + balance().live;
    let small = std::thread::spawn(|| vec![1u8; 1000]).join().unwrap();
    const { assert!(1000 < SLACK_BYTES) };
    assert!(!best_balance().is_off());
    assert!(NODE.bytes() + balance().live > before);
    drop(small);
}

#[test]
fn the_time_of_a_threads_work_is_the_accounts() {
    let _alone = alone();
    let one = account(Standing::Read);
    let mut sum = 0u64;
    one.work(|| {
        // Until the clock has moved: how long that takes does not matter.
        let began = std::time::Instant::now();
        while began.elapsed().as_micros() < 2000 {
            sum = sum.wrapping_mul(31).wrapping_add(7);
        }
    });
    assert!(one.cpu().as_nanos() > 0 && sum != 1);
    let told = one.told();
    assert!(told.description.len() <= 512 && told.description.ends_with('é'));
    assert_eq!(told.cpu, one.cpu());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The layer is an allocator like any other: sizes, alignments, growth, zeros.
    #[test]
    fn blocks_hold_what_was_written(
        steps in prop::collection::vec((0u32..12, 1usize..5000, 1usize..5000), 1..40),
    ) {
        let _alone = alone();
        let one = account(Standing::Write);
        let working = one.enter();
        let mut blocks = Vec::new();
        for (power, size, grown) in steps {
            let layout = Layout::from_size_align(size, 1 << power).unwrap();
            // SAFETY: every block is used within its size and freed with its layout below.
            #[expect(unsafe_code, reason = "the allocator is what is tested")]
            unsafe {
                let block = ALLOCATOR.alloc_zeroed(layout);
                prop_assert_eq!(block as usize % layout.align(), 0);
                prop_assert!((0..size).all(|at| *block.add(at) == 0));
                (0..size).for_each(|at| *block.add(at) = pattern(at));
                let block = ALLOCATOR.realloc(block, layout, grown);
                prop_assert_eq!(block as usize % layout.align(), 0);
                prop_assert!((0..size.min(grown)).all(|at| *block.add(at) == pattern(at)));
                blocks.push((block, Layout::from_size_align(grown, layout.align()).unwrap()));
            }
        }
        for (block, layout) in blocks {
            #[expect(unsafe_code, reason = "the allocator is what is tested")]
            // SAFETY: allocated above, with this layout.
            unsafe { ALLOCATOR.dealloc(block, layout) };
        }
        drop(working);
        prop_assert_eq!(one.bytes(), 0);
    }
}

#[test]
fn a_layout_beyond_memory_is_refused_and_not_counted() {
    let _alone = alone();
    // What the process holds changes with the threads that run the tests; an account is this one's.
    let one = account(Standing::Read);
    one.work(|| {
        for align in [1usize, 8, 16, 4096] {
            let most = isize::MAX as usize - (align - 1);
            let layout = Layout::from_size_align(most, align).unwrap();
            // SAFETY: a size that is not zero; there is no block to use or free.
            #[expect(unsafe_code, reason = "the allocator is what is tested")]
            let block = unsafe { ALLOCATOR.alloc(layout) };
            assert!(block.is_null());
        }
    });
    assert_eq!((held(&one), one.peak_bytes()), (0, 0));
}
