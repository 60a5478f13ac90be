//! Tests with threads: who runs, who waits, who is refused; no clock is asserted on.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use plimsoll_memory::{Account, Charged, Standing, TaskAction};

use super::*;
use crate::machine::low_priority::NICER;

fn order(class: Class) -> Order {
    let worth = Duration::from_secs(60);
    Order { class, tier: Tier::Interactive, worth, cost_ns: None, alternatives: 0, rank: 0 }
}

fn settings(threads: usize, queue_size: u64) -> PoolSettings {
    PoolSettings { threads, queue_size, admission: AdmissionKind::Fixed, ..PoolSettings::default() }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

/// Work that says that it has begun, and ends when it is told to.
struct Held {
    begun: Receiver<u32>,
    ends: Vec<SyncSender<()>>,
    answers: Vec<tokio::task::JoinHandle<Result<u32, Error>>>,
    pool: Arc<SearchPool>,
    begins: SyncSender<u32>,
}

impl Held {
    fn of(settings: PoolSettings) -> Self {
        let (begins, begun) = sync_channel(100);
        let pool = Arc::new(SearchPool::start(settings, 7, &World::of_the_machine()));
        Self { begun, ends: Vec::new(), answers: Vec::new(), pool, begins }
    }

    fn add(&mut self, runtime: &tokio::runtime::Runtime, number: u32) {
        let (end, ended) = sync_channel::<()>(1);
        let (pool, begins) = (Arc::clone(&self.pool), self.begins.clone());
        let before = self.pool.statistics();
        self.answers.push(runtime.spawn(async move {
            let work = move || {
                begins.send(number).unwrap();
                let _ = ended.recv();
                number
            };
            pool.run(order(Class::Search), work).await
        }));
        self.ends.push(end);
        let seen = |it: &PoolStatistics| (it.queue + it.active, it.rejected);
        while seen(&self.pool.statistics()) == seen(&before) {
            std::thread::yield_now();
        }
    }
}

#[test]
fn what_does_not_run_waits_and_what_may_not_wait_is_refused() {
    let runtime = runtime();
    let mut held = Held::of(settings(1, 1));
    held.add(&runtime, 1);
    assert_eq!(held.begun.recv().unwrap(), 1);
    held.add(&runtime, 2);
    held.add(&runtime, 3);
    let found = held.pool.statistics();
    assert_eq!((found.active, found.queue, found.rejected), (1, 1, 1));
    assert_eq!((found.queue_capacity, found.rule), (1, "fixed"));
    let line = held.pool.line(&Outside::default());
    assert_eq!((line.workers, line.in_flight, line.queued), (1, 2, 1));
    let refused = runtime.block_on(held.answers.pop().unwrap()).unwrap().unwrap_err();
    assert_eq!((refused.class, &*refused.kind), (plimsoll_index::ErrorClass::Overloaded, REJECTED));
    assert!(refused.extra["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0));
    held.ends.clear();
    for (number, answer) in [1, 2].into_iter().zip(held.answers.drain(..)) {
        assert_eq!(runtime.block_on(answer).unwrap().unwrap(), number);
    }
    let found = held.pool.statistics();
    assert_eq!((found.queue, found.rejected), (0, 1));
    assert_eq!(held.pool.line(&Outside::default()).queued, 0);
}

#[test]
fn who_hangs_up_leaves_the_queue() {
    let runtime = runtime();
    let mut held = Held::of(settings(1, 1));
    held.add(&runtime, 1);
    held.begun.recv().unwrap();
    held.add(&runtime, 2);
    held.answers.pop().unwrap().abort();
    while held.pool.statistics().queue > 0 {
        std::thread::yield_now();
    }
    held.add(&runtime, 3);
    assert_eq!(held.pool.statistics().rejected, 0, "there is room again");
    held.ends.clear();
    assert_eq!(held.begun.recv().unwrap(), 3, "the one that left never ran");
    assert_eq!(held.pool.statistics().largest, 1);
}

#[test]
fn another_rule_and_more_threads_take_over_what_waits() {
    let runtime = runtime();
    let mut held = Held::of(settings(1, 10));
    for number in 1..=4 {
        held.add(&runtime, number);
    }
    assert_eq!(held.begun.recv().unwrap(), 1);
    // The new rule lets one wait, and there is one thread more.
    held.pool.change(&settings(2, 1));
    assert_eq!(held.begun.recv().unwrap(), 2);
    while held.pool.statistics().rejected < 2 {
        std::thread::yield_now();
    }
    held.ends.clear();
    let answers: Vec<_> =
        held.answers.drain(..).map(|it| runtime.block_on(it).unwrap().is_ok()).collect();
    assert_eq!(answers, [true, true, false, false]);
    // `add` would count the end of a job as no change.
    until_idle(&held.pool);
    // Fewer again: those too many end, and the rest goes on.
    let ours = PoolSettings { admission: AdmissionKind::LoadAware, ..PoolSettings::default() };
    held.pool.change(&PoolSettings { threads: 1, ..ours });
    held.add(&runtime, 5);
    assert_eq!(held.begun.recv().unwrap(), 5);
    held.add(&runtime, 6);
    assert_eq!(held.pool.statistics().active, 1);
    assert_eq!(held.pool.statistics().rule, "load_aware");
}

#[test]
fn a_panic_is_an_error_of_one() {
    let runtime = runtime();
    let pool = SearchPool::start(settings(1, 1), 7, &World::of_the_machine());
    let panics = pool.run(order(Class::Search), || panic!("on purpose"));
    let failed: Result<(), Error> = runtime.block_on(panics);
    assert_eq!(failed.unwrap_err().class, plimsoll_index::ErrorClass::Internal);
    assert_eq!(runtime.block_on(pool.run(order(Class::Fetch), || 1)).unwrap(), 1);
}

/// How nice the calling thread is, as the kernel says.
fn nice() -> i32 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let after_name = stat.rsplit_once(") ").unwrap().1;
    after_name.split(' ').nth(16).unwrap().parse().unwrap()
}

#[test]
fn heavy_searches_run_at_a_lower_priority_and_what_comes_after_does_not() {
    let runtime = runtime();
    let ours = PoolSettings { threads: 2, admission: AdmissionKind::LoadAware, ..settings(2, 1) };
    let pool = SearchPool::start(ours, 7, &World::of_the_machine());
    let heavy = Order { cost_ns: Some(10_000_000_000), ..order(Class::Search) };
    let own = nice();
    for _ in 0..10 {
        assert_eq!(runtime.block_on(pool.run(order(Class::Search), nice)).unwrap(), own);
    }
    assert_eq!(runtime.block_on(pool.run(heavy, nice)).unwrap(), own + NICER);
    let failed = runtime.block_on(pool.run(heavy, || -> u32 { panic!("a fault of a heavy one") }));
    assert_eq!(failed.unwrap_err().class, plimsoll_index::ErrorClass::Internal);
    assert_eq!(runtime.block_on(pool.run(heavy, nice)).unwrap(), own + NICER);
    assert_eq!(runtime.block_on(pool.run(order(Class::Search), nice)).unwrap(), own);
    until_idle(&pool);
}

#[test]
fn littles_law_shows_its_frames() {
    let runtime = runtime();
    let law = PoolSettings {
        frame_size: 5,
        admission: AdmissionKind::LittlesLaw,
        shadow: Some(AdmissionKind::LoadAware),
        ..settings(2, 100)
    };
    let pool = SearchPool::start(law, 7, &World::of_the_machine());
    for _ in 0..11 {
        runtime.block_on(pool.run(order(Class::Search), || ())).unwrap();
    }
    until_idle(&pool);
    let end = pool.statistics();
    assert_eq!((end.rule, end.frames.len()), ("littles_law", 2));
    assert_eq!(end.frames.last().unwrap().capacity, end.queue_capacity);
    assert_eq!(end.shadow, Some(("load_aware", WouldRefuse::default())));
}

/// A job's answer is there before its end is counted, and before its thread says that it is free.
fn until_idle(pool: &SearchPool) {
    while pool.statistics().active > 0 {
        std::thread::yield_now();
    }
}

fn account() -> Account {
    Account::open(TaskAction {
        name: "test",
        description: String::new(),
        standing: Standing::Read,
        opaque_id: None,
    })
}

#[test]
fn a_job_works_for_the_request_that_gave_it() {
    let runtime = runtime();
    let mut held = Held::of(settings(1, 10));
    held.add(&runtime, 1);
    assert_eq!(held.begun.recv().unwrap(), 1);
    // It waits for the thread first, and is the request's all the same.
    let account = account();
    let job = || {
        let number = plimsoll_memory::current().map(|it| it.number());
        (number, std::hint::black_box(vec![1u8; 3 << 20]))
    };
    let (pool, charged) = (Arc::clone(&held.pool), account.clone());
    let before = held.pool.statistics().queue;
    let waits = runtime.spawn(async move {
        Charged::new(charged, || pool.run(order(Class::Search), job)).await.unwrap()
    });
    while held.pool.statistics().queue == before {
        std::thread::yield_now();
    }
    assert!(account.bytes() < 1 << 10, "{}", account.bytes());
    held.ends.clear();
    let (number, block) = runtime.block_on(waits).unwrap().unwrap();
    assert_eq!(number, Some(account.number()));
    assert!(account.bytes() >= 3 << 20);
    drop(block);
    assert!(account.bytes() < 1 << 10, "{}", account.bytes());
    assert!(account.cpu().as_nanos() > 0);
}

#[test]
fn a_panic_gives_back_what_the_job_held() {
    let runtime = runtime();
    let pool = SearchPool::start(settings(1, 10), 7, &World::of_the_machine());
    let account = account();
    let job = || {
        let held = std::hint::black_box(vec![1u8; 3 << 20]);
        std::panic::resume_unwind(Box::new(held.len()));
    };
    let run = || pool.run::<()>(order(Class::Search), job);
    let answer = runtime.block_on(Charged::new(account.clone(), run)).unwrap();
    assert_eq!(answer.unwrap_err().class, plimsoll_index::ErrorClass::Internal);
    assert!(account.peak_bytes() >= 3 << 20);
    // The next job's thread is the same, and works for nobody.
    let next = runtime.block_on(pool.run(order(Class::Search), plimsoll_memory::current)).unwrap();
    assert!(next.is_none());
    assert!(account.bytes() < 1 << 10, "{}", account.bytes());
}

#[test]
fn who_is_told_to_stop_leaves_the_queue() {
    let runtime = runtime();
    let mut held = Held::of(settings(1, 10));
    held.add(&runtime, 1);
    assert_eq!(held.begun.recv().unwrap(), 1);
    let (account, pool) = (account(), Arc::clone(&held.pool));
    let charged = account.clone();
    let waits = runtime.spawn(async move {
        Charged::new(charged, || pool.run(order(Class::Search), || ())).await.map(drop)
    });
    while held.pool.statistics().queue == 0 {
        std::thread::yield_now();
    }
    let why = plimsoll_memory::Stop::Cancelled("because".to_owned());
    assert!(account.stop(why.clone()));
    assert_eq!(runtime.block_on(waits).unwrap(), Err(why));
    assert_eq!(held.pool.statistics().queue, 0);
}

#[test]
fn a_thread_that_goes_to_rest_hears_of_the_job_that_comes_meanwhile() {
    let runtime = runtime();
    let pool = Arc::new(SearchPool::start(settings(1, 10), 7, &World::of_the_machine()));
    // One after the other: whoever is not heard of is followed by nobody who would wake the thread.
    let jobs = runtime.spawn(async move {
        for number in 0..200_000_u32 {
            assert_eq!(pool.run(order(Class::Get), move || number).await, Ok(number));
        }
    });
    // A job that is lost is waited for without end: the clock only says when to give up.
    let ended =
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(300), jobs).await });
    ended.expect("a job was lost").unwrap();
}
