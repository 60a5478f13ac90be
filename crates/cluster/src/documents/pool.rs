//! The threads that searches run on, apart from those that serve connections, and the queue
//! before them. Who may wait, who starts next and who is refused is admission's to say
//! (`plimsoll_control::admission`); here are the threads, the jobs, and the measuring end of the
//! load line. Rule and number of threads can be changed while it runs.

#![expect(
    clippy::disallowed_methods,
    reason = "a node's searches have threads; a simulation does them in turn"
)]

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use plimsoll_base::random::Draws;
use plimsoll_base::time::Instant;
use plimsoll_base::{Time, World};
use plimsoll_control::admission::{
    Admission, Arrival, Frame, Reason, Refusal, Started, Tier, WAITING_PER_WORKER_MAX, WouldRefuse,
};
use plimsoll_control::load_line;
use plimsoll_control::pacing::{Felt, Foreground};
use plimsoll_control::{Class, LoadLine, Meter, Outside};
use plimsoll_index::Error;
use plimsoll_memory::ledger::NODE;
use plimsoll_memory::local::{enter, patiently};
use tokio::sync::oneshot;

use crate::machine::low_priority::LowPriority;
use crate::routing::load::{SearchMeter, Watched};
use crate::settings::work::{AdmissionKind, PoolSettings};

/// How long what is asked for in a simulation waits, at most, us.
const WAIT_US_MAX: u64 = 2_000;
/// How many of the latest frames of Little's law are shown.
const FRAMES_MAX: usize = 64;

/// What is to be done with a job: run it, or tell that it was refused.
type Job = Box<dyn FnOnce(Result<(), Refusal>) + Send>;

/// How a job is to be treated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    /// What kind of work it is.
    pub class: Class,
    /// Whose work it is.
    pub tier: Tier,
    /// How long its answer is worth something.
    pub worth: Duration,
    /// How long it is likely to run, ns; the class's average where that is not known.
    pub cost_ns: Option<u64>,
    /// Other copies that could be asked instead.
    pub alternatives: u32,
    /// Drawn once for the whole request: in overload all nodes refuse the same requests.
    pub rank: u32,
}

/// The pool of a node.
pub(crate) struct SearchPool {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<PoolState>,
    /// Told when there may be something for a thread to do.
    wake: Condvar,
    time: Time,
    started: Instant,
    watched: Watched,
    /// Of a simulation, where there are no threads: whoever asks does what waits, a while after.
    in_turn: Option<Draws>,
}

struct PoolState {
    settings: PoolSettings,
    admission: Admission,
    /// One more at each change of the rule: what began under an earlier one is not told to the
    /// next.
    generation: u64,
    meter: Meter,
    /// What clients felt, waits included.
    felt: Felt,
    waiting: HashMap<u64, Waiting>,
    /// The name of the last job.
    last: u64,
    /// Threads that there are to be, and those that there are.
    threads: usize,
    alive: usize,
    is_closed: bool,
    capacity: u64,
    frames: VecDeque<Frame>,
    counters: Counters,
}

struct Waiting {
    job: Job,
    arrival: Arrival,
    metered: load_line::Job,
}

#[derive(Clone, Copy, Default)]
struct Counters {
    active: usize,
    largest: usize,
    completed: u64,
    rejected: u64,
    elsewhere: u64,
}

/// What the pool has done, and does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolStatistics {
    /// Its threads.
    pub threads: usize,
    /// Jobs that wait.
    pub queue: usize,
    /// Jobs that run.
    pub active: usize,
    /// Jobs refused so far.
    pub rejected: u64,
    /// Those of them that were sent to another copy.
    pub sent_elsewhere: u64,
    /// The most jobs that ran at once.
    pub largest: usize,
    /// Jobs done so far.
    pub completed: u64,
    /// The name of admission's rule.
    pub rule: &'static str,
    /// How many may wait.
    pub queue_capacity: u64,
    /// How long the oldest job has waited, ns.
    pub oldest_wait_ns: u64,
    /// The name of the rule in the shadow, where there is one, and whom it would have refused.
    pub shadow: Option<(&'static str, WouldRefuse)>,
    /// The latest frames of Little's law, the last at the end.
    pub frames: Vec<Frame>,
}

impl SearchPool {
    /// Starts the threads. `boot` is a number drawn at each start of the node.
    ///
    /// # Panics
    /// Where the system has no room for a thread: the node is being opened.
    pub(crate) fn start(settings: PoolSettings, boot: u64, world: &World) -> Self {
        let threads = settings.thread_count();
        let state = PoolState {
            settings,
            admission: admission(&settings, 0),
            generation: 0,
            meter: meter(boot, threads),
            felt: Felt::new(0),
            waiting: HashMap::new(),
            last: 0,
            threads: 0,
            alive: 0,
            is_closed: false,
            capacity: capacity(&settings),
            frames: VecDeque::new(),
            counters: Counters::default(),
        };
        let inner = Inner {
            state: Mutex::new(state),
            wake: Condvar::new(),
            time: world.time.clone(),
            started: world.time.now(),
            watched: Watched::default(),
            in_turn: (!world.tasks.are_the_machines()).then(|| world.random.draws("search waits")),
        };
        let pool = Self { inner: Arc::new(inner) };
        let has_room = pool.set_threads(&mut pool.inner.state.lock(), threads);
        assert!(has_room, "the system has no room for a thread");
        pool
    }

    /// Takes other settings on. Jobs that wait are offered to the new rule, in their order; those
    /// that it does not take are refused.
    pub(crate) fn change(&self, settings: &PoolSettings) {
        let mut state = self.inner.state.lock();
        if state.settings == *settings {
            return;
        }
        let now_ns = self.inner.now_ns();
        state.settings = *settings;
        state.admission = admission(settings, now_ns);
        state.generation += 1;
        state.capacity = capacity(settings);
        state.frames.clear();
        let threads = settings.thread_count();
        if threads != state.threads {
            state.meter.set_workers(u32::try_from(threads).unwrap_or(u32::MAX));
            if !self.set_threads(&mut state, threads) {
                tracing::error!(threads, "the system has no room for so many search threads");
            }
        }
        let mut arrivals: Vec<Arrival> = state.waiting.values().map(|it| it.arrival).collect();
        arrivals.sort_by_key(|arrival| arrival.id);
        let mut refused = Vec::new();
        for arrival in arrivals {
            if let Err(refusal) = state.admission.offer(now_ns, arrival) {
                refused.push((arrival, refusal));
            }
        }
        let refused = state.refuse(refused);
        drop(state);
        self.inner.wake.notify_all();
        tell(refused);
    }

    /// Starts threads or has them end until there are so many; false where one cannot be started.
    fn set_threads(&self, state: &mut PoolState, threads: usize) -> bool {
        state.threads = threads;
        while state.alive < threads && self.inner.in_turn.is_none() {
            let inner = Arc::clone(&self.inner);
            let thread = std::thread::Builder::new().name("search".to_owned());
            // Where there is no memory it is searches that wait for it.
            if thread.spawn(move || patiently(|| serve(&inner))).is_err() {
                return false;
            }
            state.alive += 1;
        }
        true
    }

    /// Runs `work` on a thread of the pool. Dropping the future takes it out of the queue.
    ///
    /// # Errors
    /// 429 where it may not wait, or has waited too long.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        order: Order,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (done, answered) = oneshot::channel();
        let (work, span) = (plimsoll_memory::carry(work), tracing::Span::current());
        let job = Box::new(move |started: Result<(), Refusal>| {
            // Nobody waits where the client has hung up.
            let _ = done.send(started.map(|()| span.in_scope(work)));
        });
        let id = self.offer(order, job)?;
        let queued = Queued { inner: &self.inner, id };
        self.serve_in_turn().await;
        let answer = answered.await;
        std::mem::forget(queued);
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(refusal)) => Err(self.rejection(refusal)),
            Err(_) => Err(Error::internal("the search failed; the log says why")),
        }
    }

    /// In a simulation, does what waits.
    async fn serve_in_turn(&self) {
        let Some(draws) = &self.inner.in_turn else { return };
        let wait_us = draws.next_u64() % WAIT_US_MAX;
        self.inner.time.sleep(Duration::from_micros(wait_us)).await;
        let (mut state, mut aside) = (self.inner.state.lock(), None);
        while serve_next(&self.inner, &mut state, &mut aside) {}
    }

    fn offer(&self, order: Order, job: Job) -> Result<u64, Error> {
        // The queue is everyone's, though a request makes it grow.
        let node = enter(&NODE);
        let mut state = self.inner.state.lock();
        let now_ns = self.inner.now_ns();
        state.last += 1;
        let worth_ns = u64::try_from(order.worth.as_nanos()).unwrap_or(u64::MAX);
        let arrival = Arrival {
            id: state.last,
            class: order.class,
            tier: order.tier,
            cost_ns: order.cost_ns,
            deadline_ns: now_ns.saturating_add(worth_ns),
            alternatives: order.alternatives,
            rank: order.rank,
        };
        if let Err(refusal) = state.admission.offer(now_ns, arrival) {
            state.count_refusal(refusal);
            drop(state);
            drop(node);
            return Err(self.rejection(refusal));
        }
        let metered = state.meter.arrive(now_ns, order.class);
        state.waiting.insert(arrival.id, Waiting { job, arrival, metered });
        drop(state);
        self.inner.wake.notify_one();
        Ok(arrival.id)
    }

    /// A refusal as clients read it.
    fn rejection(&self, refusal: Refusal) -> Error {
        let (rule, capacity, threads) = {
            let state = self.inner.state.lock();
            (state.settings.admission.name(), state.capacity, state.threads)
        };
        let why = match refusal.reason {
            Reason::Full => "the queue is full",
            Reason::Hopeless => "it could not be answered in time",
            Reason::Overload => "more arrives than can be served",
            Reason::Elsewhere => "another copy can serve it sooner",
        };
        let reason = format!(
            "rejected execution of search: {why}, queue capacity [{capacity}], pool size \
             [{threads}], admission [{rule}]"
        );
        let retry_after_ms = refusal.retry_after_ns.div_ceil(1_000_000);
        Error::overloaded(REJECTED, reason)
            .with("retry_after_ms", retry_after_ms)
            .with("hopeless", refusal.reason == Reason::Hopeless)
    }

    pub(crate) fn statistics(&self) -> PoolStatistics {
        let state = self.inner.state.lock();
        let oldest = state.admission.oldest_arrived_ns();
        let shadow = state.settings.shadow;
        PoolStatistics {
            threads: state.threads,
            queue: state.admission.waiting(),
            active: state.counters.active,
            rejected: state.counters.rejected,
            sent_elsewhere: state.counters.elsewhere,
            largest: state.counters.largest,
            completed: state.counters.completed,
            rule: state.settings.admission.name(),
            queue_capacity: state.capacity,
            oldest_wait_ns: oldest.map_or(0, |at| self.inner.now_ns().saturating_sub(at)),
            shadow: shadow.map(|kind| (kind.name(), state.admission.would_refuse())),
            frames: state.frames.iter().copied().collect(),
        }
    }
}

impl SearchMeter for SearchPool {
    fn line(&self, outside: &Outside) -> LoadLine {
        let state = self.inner.state.lock();
        let now_ns = self.inner.now_ns();
        state.meter.line(now_ns, state.admission.oldest_arrived_ns(), outside)
    }

    fn felt(&self) -> Foreground {
        self.inner.state.lock().felt.take(self.inner.now_ns())
    }

    fn scheduled(&self) -> Option<(u64, u64)> {
        self.inner.watched.scheduled()
    }
}

/// Elasticsearch's name of a refusal.
pub(crate) const REJECTED: &str = "es_rejected_execution_exception";

/// Whether work was refused because its answer would have come too late.
pub(crate) fn is_hopeless(error: &Error) -> bool {
    error.kind == REJECTED && error.extra.get("hopeless").is_some_and(|it| *it == true)
}

impl Drop for SearchPool {
    fn drop(&mut self) {
        self.inner.state.lock().is_closed = true;
        self.inner.wake.notify_all();
    }
}

fn admission(settings: &PoolSettings, now_ns: u64) -> Admission {
    let (rule, workers) = (settings.rule_of(settings.admission), settings.thread_count());
    match settings.shadow {
        Some(shadow) => Admission::in_shadow(rule, settings.rule_of(shadow), workers, now_ns),
        None => Admission::new(rule, workers, now_ns),
    }
}

fn meter(boot: u64, threads: usize) -> Meter {
    Meter::new(boot, u32::try_from(threads).unwrap_or(u32::MAX))
}

/// How many may wait, before a frame says otherwise.
fn capacity(settings: &PoolSettings) -> u64 {
    match settings.admission {
        AdmissionKind::LoadAware => (settings.thread_count() * WAITING_PER_WORKER_MAX) as u64,
        AdmissionKind::Fixed | AdmissionKind::LittlesLaw => settings.queue_size,
    }
}

impl Inner {
    fn now_ns(&self) -> u64 {
        u64::try_from((self.time.now() - self.started).as_nanos()).unwrap_or(u64::MAX)
    }
}

impl PoolState {
    fn count_refusal(&mut self, refusal: Refusal) {
        self.counters.rejected += 1;
        self.counters.elsewhere += u64::from(refusal.reason == Reason::Elsewhere);
    }

    /// Takes out of the queue what is refused after all.
    fn refuse(&mut self, refused: Vec<(Arrival, Refusal)>) -> Vec<(Job, Refusal)> {
        let mut jobs = Vec::new();
        for (arrival, refusal) in refused {
            if let Some(waiting) = self.waiting.remove(&arrival.id) {
                self.meter.abandon(waiting.metered);
                self.count_refusal(refusal);
                jobs.push((waiting.job, refusal));
            }
        }
        jobs
    }

    fn finished(&mut self, now_ns: u64, generation: u64, started: &Started, run_ns: u64) {
        if generation != self.generation {
            return;
        }
        if let Some(frame) = self.admission.on_finish(now_ns, started, run_ns) {
            self.capacity = frame.capacity;
            if self.frames.len() == FRAMES_MAX {
                self.frames.pop_front();
            }
            self.frames.push_back(frame);
        }
    }
}

fn tell(refused: Vec<(Job, Refusal)>) {
    for (job, refusal) in refused {
        job(Err(refusal));
    }
}

/// What a thread of the pool does.
fn serve(inner: &Inner) {
    inner.watched.watch_this_thread();
    let mut aside = None;
    let mut state = inner.state.lock();
    while !state.is_closed && state.alive <= state.threads {
        if !serve_next(inner, &mut state, &mut aside) {
            inner.wake.wait(&mut state);
        }
    }
    state.alive -= 1;
    // What this one was woken for is another's now.
    inner.wake.notify_one();
}

/// Does the job whose turn it is, or tells those that are refused; false where there is nothing to do.
fn serve_next(
    inner: &Inner,
    state: &mut MutexGuard<'_, PoolState>,
    aside: &mut Option<LowPriority>,
) -> bool {
    let now_ns = inner.now_ns();
    let mut dropped = Vec::new();
    let started = state.admission.next(now_ns, &mut dropped);
    let refused = state.refuse(dropped);
    let Some(started) = started else {
        // Unlocked for nothing, a job that comes meanwhile would wake nobody: its thread waits only after.
        if refused.is_empty() {
            return false;
        }
        MutexGuard::unlocked(state, || tell(refused));
        return true;
    };
    let generation = state.generation;
    let Some(Waiting { job, mut metered, .. }) = state.waiting.remove(&started.arrival.id) else {
        // It is taken out of both at once.
        state.finished(now_ns, generation, &started, 0);
        return true;
    };
    state.meter.start(now_ns, &mut metered);
    state.counters.active += 1;
    state.counters.largest = state.counters.largest.max(state.counters.active);
    let is_whole = MutexGuard::unlocked(state, || {
        tell(refused);
        // A panic is a fault of ours in one search; its waiter sees the channel end.
        let job = std::panic::AssertUnwindSafe(job);
        let run = move || std::panic::catch_unwind(move || { job }.0(Ok(()))).is_ok();
        if started.heavy && inner.in_turn.is_none() { beside(aside, run) } else { run() }
    });
    if !is_whole {
        tracing::error!("a search panicked");
    }
    let ended_ns = inner.now_ns();
    state.meter.finish(ended_ns, metered, is_whole);
    let latency_ns = ended_ns.saturating_sub(metered.arrived_ns);
    state.felt.add(ended_ns, metered.class, latency_ns);
    state.counters.active -= 1;
    state.counters.completed += 1;
    state.finished(ended_ns, generation, &started, ended_ns.saturating_sub(now_ns));
    true
}

/// Does a heavy job on a thread that comes after others, started with the first one, and waits for
/// its end; here where the system has no room for one more.
fn beside(aside: &mut Option<LowPriority>, run: impl FnOnce() -> bool + Send + 'static) -> bool {
    if aside.is_none() {
        // Its waits for a processor are not watched: they are long because it comes after others.
        *aside = LowPriority::start(1);
    }
    let Some(aside) = aside else { return run() };
    let (tell, ended) = crossbeam_channel::bounded(1);
    aside.give(move || {
        let _ = tell.send(run());
    });
    ended.recv().unwrap_or(false)
}

/// A job whose answer is waited for.
struct Queued<'a> {
    inner: &'a Inner,
    id: u64,
}

impl Drop for Queued<'_> {
    /// Nobody waits for it any more.
    fn drop(&mut self) {
        let mut state = self.inner.state.lock();
        if let Some(waiting) = state.waiting.remove(&self.id) {
            state.admission.cancel(self.id);
            state.meter.abandon(waiting.metered);
        }
    }
}

/// Set by whoever does not want an answer any more: work that sees it stops.
#[derive(Clone, Default)]
pub(crate) struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets it when the guard goes: a request whose future is dropped stops its work.
    pub(crate) fn guard(&self) -> CancelGuard {
        CancelGuard(self.clone())
    }
}

/// Cancels when it goes.
pub(crate) struct CancelGuard(Cancel);

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
