//! Who has to stop at a limit, in a process whose allocator is the layer.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]

use std::alloc::System;
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use plimsoll_memory::account::{self, TaskAction, find, open_accounts};
use plimsoll_memory::breakers::{self, Limit, Settings, Trip, Type, Which};
use plimsoll_memory::local::patiently;
use plimsoll_memory::{Account, Charged, Counted, Standing, Stop};

#[global_allocator]
static ALLOCATOR: Counted<System> = Counted::new(System);

/// Limits are the process', so one test at a time; each begins with the defaults.
static ALONE: Mutex<()> = Mutex::new(());

fn alone(settings: Settings) -> MutexGuard<'static, ()> {
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    breakers::set(settings);
    guard
}

const MB: usize = 1 << 20;

fn requests_of(bytes: usize) -> Settings {
    Settings { request: Limit::Bytes(bytes as u64), ..Settings::default() }
}

fn account(description: &str, standing: Standing) -> Account {
    let description = description.to_owned();
    Account::open(TaskAction { name: "test", description, standing, opaque_id: None })
}

fn hold(account: &Account, bytes: usize) -> Vec<u8> {
    let _working = account.enter();
    vec![1u8; bytes]
}

fn trip(account: &Account) -> Trip {
    match account.stop_reason() {
        Some(Stop::Tripped(trip)) => trip,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_largest_is_told_and_not_the_one_that_asks() {
    let _alone = alone(requests_of(100 * MB));
    let (big, small) = (account("big", Standing::Read), account("small", Standing::Read));
    let held = hold(&big, 90 * MB);
    let tripped = breakers::figures(Which::Request).tripped;
    let more = hold(&small, 20 * MB);
    assert!(!small.is_stopped());
    let trip = trip(&big);
    assert_eq!((trip.breaker, trip.bytes_limit), ("request", 100 * MB as u64));
    assert!(trip.bytes_wanted >= 110 * MB as u64, "{trip:?}");
    assert_eq!(trip.durability(), "TRANSIENT");
    assert!(trip.label.ends_with("test[big]"));
    assert!(trip.largest[0].0.ends_with("test[big]") && trip.largest[0].1 >= 90 * MB as u64);
    let words = trip.to_string();
    assert!(words.starts_with("[request] Data too large, data for ["), "{words}");
    assert!(words.contains("which is larger than the limit of [104857600/100mb]"), "{words}");
    assert_eq!(breakers::figures(Which::Request).tripped, tripped + 1);
    drop((held, more));
}

#[test]
fn the_asker_is_told_where_it_holds_most() {
    let _alone = alone(requests_of(10 * MB));
    let (one, other) = (account("one", Standing::Read), account("other", Standing::Read));
    let held = (hold(&one, 4 * MB), hold(&other, 5 * MB));
    assert!(other.ask(2 * MB as u64).is_err());
    assert!(!one.is_stopped() && other.is_stopped());
    drop(held);
}

#[test]
fn who_asks_waits_for_those_that_were_told() {
    let _alone = alone(requests_of(100 * MB));
    let (big, small) = (account("big", Standing::Read), account("small", Standing::Read));
    let held = hold(&big, 90 * MB);
    let was_told = Arc::new(AtomicBool::new(false));
    let (told, worker) = (Arc::clone(&was_told), big.clone());
    let yields = std::thread::spawn(move || {
        while !worker.is_stopped() {
            std::thread::yield_now();
        }
        told.store(true, SeqCst);
        worker.work(|| drop(held));
    });
    assert_eq!(patiently(|| small.ask(50 * MB as u64)), Ok(()));
    assert!(was_told.load(SeqCst));
    yields.join().unwrap();
    assert_eq!(big.bytes(), 0);
}

#[test]
fn who_asks_is_refused_where_those_that_were_told_do_not_stop() {
    let _alone = alone(requests_of(100 * MB));
    let (big, small) = (account("big", Standing::Read), account("small", Standing::Read));
    let held = hold(&big, 90 * MB);
    // Not where that would hold others up.
    assert_eq!(small.ask(50 * MB as u64), Ok(()));
    assert_eq!(patiently(|| small.ask(50 * MB as u64)), Err(Stop::Tripped(trip(&small))));
    assert!(big.is_stopped());
    // What is little does not matter.
    let little = account("little", Standing::Read);
    assert_eq!(little.ask(1000), Ok(()));
    drop(held);
}

#[test]
fn who_does_not_wait_learns_that_others_have_to_give_back_first() {
    let _alone = alone(requests_of(100 * MB));
    let (big, small) = (account("big", Standing::Read), account("small", Standing::Read));
    let held = hold(&big, 90 * MB);
    assert_eq!(small.try_ask(5 * MB as u64), Ok(true));
    assert!(!big.is_stopped());
    assert_eq!(small.try_ask(50 * MB as u64), Ok(false));
    assert!(big.is_stopped() && !small.is_stopped());
    assert_eq!(account("little", Standing::Read).try_ask(1000), Ok(true));
    big.work(|| drop(held));
    assert_eq!(small.try_ask(50 * MB as u64), Ok(true));
    assert_eq!(small.stop_waiting(50 * MB as u64), Ok(()));
    // One that asks for more than there may be is the one that stops.
    assert_eq!(small.try_ask(200 * MB as u64), Err(Stop::Tripped(trip(&small))));
    let late = account("late", Standing::Read);
    let held = hold(&late, 60 * MB);
    let other = account("other", Standing::Read);
    assert_eq!(other.try_ask(50 * MB as u64), Ok(false));
    assert_eq!(other.stop_waiting(50 * MB as u64), Err(Stop::Tripped(trip(&other))));
    drop(held);
}

#[test]
fn many_small_growths_are_noticed_without_a_question() {
    let _alone = alone(requests_of(MB));
    let one = account("one", Standing::Read);
    let mut kept: Vec<Box<[u8; 1000]>> = Vec::new();
    {
        let _working = one.enter();
        for _ in 0..2000 {
            kept.push(Box::new([0; 1000]));
            if one.is_stopped() {
                break;
            }
        }
    }
    assert!(kept.len() < 1300, "told after {} KB", kept.len());
    assert_eq!(trip(&one).bytes_limit, MB as u64);
}

#[test]
fn the_clusters_own_work_is_never_told() {
    let _alone = alone(requests_of(MB));
    let own = account("own", Standing::Control);
    let held = hold(&own, 5 * MB);
    assert!(own.ask(50 * MB as u64).is_ok() && !own.is_stopped());
    assert!(!own.stop(Stop::Cancelled(String::new())));
    // Next to it every request is over the limit.
    let one = account("one", Standing::Read);
    let more = hold(&one, 2 * MB);
    assert!(one.is_stopped());
    drop((held, more));
}

#[test]
fn the_parent_bounds_the_process_and_spares_the_small() {
    // Asked once nothing else runs: a limit above what another test holds would be too high.
    let _alone = alone(Settings::default());
    let now = breakers::figures(Which::Parent).used;
    let total = Limit::Bytes(now + 64 * MB as u64);
    breakers::set(Settings { total, ..Settings::default() });
    let (big, small) = (account("big", Standing::Read), account("small", Standing::Read));
    let little = hold(&small, 1000);
    let first = hold(&big, 40 * MB);
    breakers::check();
    assert!(!big.is_stopped());
    let second = hold(&big, 40 * MB);
    assert_eq!(trip(&big).breaker, "parent");
    assert!(!small.is_stopped());
    drop((first, second, little));
}

#[test]
fn asking_for_the_reason_raises_no_question() {
    let _alone = alone(requests_of(10 * MB));
    let one = account("one", Standing::Read);
    let held = hold(&one, 11 * MB);
    assert!(one.is_stopped());
    // What the reasons take passes the limit further, while they are being read.
    let reasons = one.work(|| (0..3000).map(|_| one.stop_reason()).collect::<Vec<_>>());
    drop((reasons, held));
}

#[test]
fn a_type_of_noop_counts_nothing_and_a_drawn_one_half() {
    let _alone = alone(Settings { request_type: Type::Noop, ..requests_of(MB) });
    let one = account("one", Standing::Read);
    let held = hold(&one, 5 * MB);
    assert!(!one.is_counted() && one.bytes() == 0 && one.ask(50 * MB as u64).is_ok());
    assert!(!one.is_stopped());
    drop(held);
    breakers::set(Settings { request_type: Type::Drawn, ..Settings::default() });
    let counted = (0..1000).filter(|_| account("drawn", Standing::Read).is_counted()).count();
    assert!((400..600).contains(&counted), "{counted}");
}

struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_future_ends_when_its_account_is_told_and_drops_what_it_holds() {
    let _alone = alone(Settings::default());
    let one = account("one", Standing::Read);
    let woken = Arc::new(Counter(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let mut charged = pin!(Charged::new(one.clone(), || async {
        let held = vec![0u8; 100_000];
        assert_eq!(account::current().map(|it| it.told().description).as_deref(), Some("one"));
        pending::<()>().await;
        drop(held);
    }));
    assert!(charged.as_mut().poll(&mut context).is_pending());
    assert!(one.bytes() >= 100_000);
    assert!(account::current().is_none());
    assert!(one.stop(Stop::Cancelled("enough".to_owned())));
    assert!(!one.stop(Stop::Cancelled("twice".to_owned())));
    assert_eq!(woken.0.load(SeqCst), 1);
    let ended = charged.as_mut().poll(&mut context);
    assert_eq!(ended, Poll::Ready(Err(Stop::Cancelled("enough".to_owned()))));
    assert!(one.bytes() < 1000, "{}", one.bytes());
    assert_eq!(one.go_on(), Some(Stop::Cancelled("enough".to_owned())));
    assert!(!one.is_stopped());
}

#[test]
fn a_write_is_not_cut_off() {
    let _alone = alone(Settings::default());
    let one = account("one", Standing::Write);
    let mut polls = 0;
    let mut charged = pin!(Charged::new(one.clone(), || poll_fn(|_| {
        polls += 1;
        if polls == 2 { Poll::Ready(7) } else { Poll::Pending }
    })));
    let mut context = Context::from_waker(Waker::noop());
    assert!(charged.as_mut().poll(&mut context).is_pending());
    assert!(one.stop(Stop::Cancelled(String::new())) && one.check().is_err());
    assert_eq!(charged.as_mut().poll(&mut context), Poll::Ready(Ok(7)));
}

#[test]
fn open_accounts_are_listed_and_found() {
    let _alone = alone(Settings::default());
    let (one, other) = (account("one", Standing::Read), account("other", Standing::Read));
    let open: Vec<u64> = open_accounts().iter().map(Account::number).collect();
    assert!(open.contains(&one.number()) && open.contains(&other.number()));
    let number = one.number();
    assert!(find(number).is_some());
    drop(one);
    assert!(find(number).is_none());
}

#[test]
fn the_debt_is_what_requests_hold_of_their_limit() {
    // What the machine holds beside it is not looked at.
    let _alone = alone(Settings { total: Limit::None, ..requests_of(100 * MB) });
    let one = account("one", Standing::Read);
    let before = breakers::debt_permille();
    assert!(before < 500, "{before}");
    let held = hold(&one, 90 * MB);
    let full = breakers::debt_permille();
    assert!((890..=1000).contains(&full), "{full}");
    drop(held);
    assert!(breakers::debt_permille() < 500);
}
