//! Measures a node's load line from the events of its requests: arrived, started, finished,
//! dropped. It is told the time and knows no queue; the queue tells the age of its oldest entry.

use super::class::Class;
use super::line::LoadLine;
use crate::average::{FadingMean, whole};

/// Run times and waits fade by e in this time.
const SPAN_NS: u64 = 1_000_000_000;
/// The number of runs that is told fades by e in this time.
const RUNS_SPAN_NS: u64 = 5_000_000_000;
/// Doublings of requests in flight that have latencies of their own.
const LEVELS: usize = 16;
/// How many latencies are kept for each of them.
const RECENT: usize = 16;

/// One request's way through the node. It is small and given back with each event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its class.
    pub class: Class,
    /// When it was accepted.
    pub arrived_ns: u64,
    started_ns: Option<u64>,
    level: usize,
}

/// What the rest of the node contributes to the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outside {
    /// See [`LoadLine::cpus`].
    pub cpus: u32,
    /// See [`LoadLine::cpu_demand_permille`].
    pub cpu_demand_permille: u32,
    /// See [`LoadLine::memory_debt_permille`].
    pub memory_debt_permille: u32,
    /// See [`LoadLine::write_debt_permille`].
    pub write_debt_permille: u32,
}

/// The latest latencies of requests that found about as many others in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    recent: [u64; RECENT],
    count: usize,
}

impl Level {
    fn add(&mut self, latency_ns: u64) {
        self.recent[self.count % RECENT] = latency_ns;
        self.count += 1;
    }

    fn median(&self) -> Option<u64> {
        let filled = self.count.min(RECENT);
        let mut sorted = self.recent;
        sorted[..filled].sort_unstable();
        (filled > 0).then(|| sorted[filled / 2])
    }
}

/// The load line's measuring end, one for each pool of workers.
#[derive(Clone, Debug)]
pub struct Meter {
    boot: u64,
    workers: u32,
    queued: [u32; Class::COUNT],
    running: [u32; Class::COUNT],
    run: [FadingMean; Class::COUNT],
    runs: FadingMean,
    wait: FadingMean,
    levels: [Level; LEVELS],
}

impl Meter {
    /// A meter for a pool of `workers` (at least 1). `boot` is a number drawn at each start.
    #[must_use]
    pub fn new(boot: u64, workers: u32) -> Self {
        Self {
            boot,
            workers: workers.max(1),
            queued: [0; Class::COUNT],
            running: [0; Class::COUNT],
            run: [FadingMean::new(SPAN_NS); Class::COUNT],
            runs: FadingMean::new(RUNS_SPAN_NS),
            wait: FadingMean::new(SPAN_NS),
            levels: [Level::default(); LEVELS],
        }
    }

    /// The pool has another number of workers (at least 1) from now on.
    pub fn set_workers(&mut self, workers: u32) {
        self.workers = workers.max(1);
    }

    /// A request was accepted and waits.
    pub fn arrive(&mut self, now_ns: u64, class: Class) -> Job {
        let level = level_of(self.in_flight());
        self.queued[class.slot()] += 1;
        Job { class, arrived_ns: now_ns, started_ns: None, level }
    }

    /// It starts to run.
    pub fn start(&mut self, now_ns: u64, job: &mut Job) {
        assert!(job.started_ns.is_none(), "a request starts once");
        job.started_ns = Some(now_ns);
        self.queued[job.class.slot()] -= 1;
        self.running[job.class.slot()] += 1;
        self.wait.add(now_ns, now_ns.saturating_sub(job.arrived_ns) as f64);
    }

    /// It ran to its end. A run that failed gives no sample, because a failure's time says
    /// nothing about the work (`completed` false).
    pub fn finish(&mut self, now_ns: u64, job: Job, completed: bool) {
        let Some(started_ns) = job.started_ns else {
            self.queued[job.class.slot()] -= 1;
            return;
        };
        self.running[job.class.slot()] -= 1;
        if completed {
            self.run[job.class.slot()].add(now_ns, now_ns.saturating_sub(started_ns) as f64);
            self.runs.add(now_ns, 1.0);
            self.levels[job.level].add(now_ns.saturating_sub(job.arrived_ns));
        }
    }

    /// It leaves the queue without having run.
    pub fn abandon(&mut self, job: Job) {
        assert!(job.started_ns.is_none(), "only a request that waits is abandoned");
        self.queued[job.class.slot()] -= 1;
    }

    /// Requests waiting and running.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.queued.iter().chain(&self.running).sum()
    }

    /// Average run time of a class, ns; none before one has run.
    #[must_use]
    pub fn run_ns(&self, class: Class) -> Option<u64> {
        self.run[class.slot()].mean().map(whole)
    }

    /// The line to send now. `oldest_arrived_ns` is when the oldest waiting request was accepted.
    #[must_use]
    pub fn line(&self, now_ns: u64, oldest_arrived_ns: Option<u64>, outside: &Outside) -> LoadLine {
        let run_ns = Class::ALL.map(|class| self.run_ns(class).unwrap_or(0));
        let work_ns = (0..Class::COUNT)
            .map(|slot| run_ns[slot].saturating_mul(u64::from(self.queued[slot])))
            .fold(0, u64::saturating_add);
        // A wait of long ago is not a wait of now.
        let fresh = self.wait.weight(now_ns).min(1.0);
        LoadLine {
            boot: self.boot,
            workers: self.workers,
            cpus: outside.cpus,
            in_flight: self.in_flight(),
            queued: self.queued.iter().sum(),
            work_ns,
            queue_wait_ns: whole(self.wait.mean().unwrap_or(0.0) * fresh),
            oldest_wait_ns: oldest_arrived_ns.map_or(0, |at| now_ns.saturating_sub(at)),
            run_ns,
            runs: u32::try_from(whole(self.runs.weight(now_ns))).unwrap_or(u32::MAX),
            latency_ns: self.latency_ns(),
            cpu_demand_permille: outside.cpu_demand_permille,
            memory_debt_permille: outside.memory_debt_permille,
            write_debt_permille: outside.write_debt_permille,
        }
    }

    /// The median at the level of now, or at the nearest one that has any.
    fn latency_ns(&self) -> u64 {
        let here = level_of(self.in_flight());
        (0..LEVELS)
            .filter_map(|level| Some((here.abs_diff(level), self.levels[level].median()?)))
            .min_by_key(|(distance, _)| *distance)
            .map_or(0, |(_, median)| median)
    }
}

/// 0, 1, 2 to 3, 4 to 7, ... in flight.
fn level_of(in_flight: u32) -> usize {
    let bits = u32::BITS - in_flight.leading_zeros();
    usize::try_from(bits).unwrap_or(0).min(LEVELS - 1)
}
