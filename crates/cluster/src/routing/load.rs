//! What this node says of its load: the line of the search threads joined with that of the reads
//! and writes of rows, and how much its processors are wanted. It goes on every answer to another
//! node. Nothing is decided by it here.

mod line;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use plimsoll_control::average::{FadingMean, whole};
use plimsoll_control::pacing::{Felt, Foreground};
use plimsoll_control::{Class, LoadLine, Meter, Outside};

/// How old a line may be that is sent again.
const LINE_NS_MAX: u64 = 500_000;
/// How often the processors are looked at.
const DEMAND_EVERY_NS: u64 = 50_000_000;
/// Within which time what was seen of them fades by e.
const DEMAND_SPAN_NS: u64 = 500_000_000;
/// The least work of this process between two looks that says something, ns of processor time.
const DEMAND_RUN_NS_MIN: u64 = 1_000_000;

/// What the threads that search tell of themselves.
pub(crate) trait SearchMeter: Send + Sync {
    /// Their load line.
    fn line(&self, outside: &Outside) -> LoadLine;
    /// How long searches waited and ran since this was asked last.
    fn felt(&self) -> Foreground;
    /// How long the threads ran and waited for a processor, ns, where the kernel tells.
    fn scheduled(&self) -> Option<(u64, u64)>;
}

/// The measuring end of the load line.
pub(crate) struct Load {
    searches: Arc<dyn SearchMeter>,
    state: Mutex<LoadState>,
    /// The debt of the store that has put off most, by its files.
    owed_permille: AtomicU32,
}

struct LoadState {
    /// What rows are read and written: on many threads, which are counted as as many workers as
    /// the search pool has, so that joining the two lines does not make the pool look smaller.
    rows: Meter,
    demand: Demand,
    /// What clients felt who read and write rows here. Reads that memory answers on a lone node are not in
    /// it: they wait for nothing.
    felt: Felt,
    line: Option<(u64, LoadLine)>,
}

impl Load {
    /// `boot` is a number drawn at each start of the node.
    pub(crate) fn new(boot: u64, workers: usize, searches: Arc<dyn SearchMeter>) -> Self {
        let rows = Meter::new(boot, u32::try_from(workers).unwrap_or(u32::MAX));
        let state = Mutex::new(LoadState {
            rows,
            demand: Demand::default(),
            felt: Felt::new(0),
            line: None,
        });
        Self { searches, state, owed_permille: AtomicU32::new(0) }
    }

    /// Takes the debt of the store that has put off most, by its files.
    pub(crate) fn owes(&self, debt: f64) {
        let permille = u32::try_from(whole(debt * 1e3)).unwrap_or(u32::MAX);
        self.owed_permille.store(permille, Ordering::Relaxed);
    }

    /// A client's rows were read or written, which took so long, ns.
    pub(crate) fn feel(&self, now_ns: u64, class: Class, latency_ns: u64) {
        self.state.lock().felt.add(now_ns, class, latency_ns);
    }
}

/// How much the processors are wanted, as the threads of this process feel it: the time that they
/// waited for one beside the time that they ran. Neighbours on the machine show in it, and so does
/// a limit of the process's own group.
struct Demand {
    /// What the kernel says of all threads together: ran, waited, ns.
    seen: Option<(u64, u64)>,
    at_ns: u64,
    ratio: FadingMean,
}

impl Default for Demand {
    fn default() -> Self {
        Self { seen: None, at_ns: 0, ratio: FadingMean::new(DEMAND_SPAN_NS) }
    }
}

impl Demand {
    /// 0, unknown, where the kernel does not tell.
    fn cpus(&self) -> u32 {
        static CPUS: OnceLock<u32> = OnceLock::new();
        let count = || {
            let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        if self.ratio.mean().is_some() { *CPUS.get_or_init(count) } else { 0 }
    }

    /// Runnable work for each processor, in thousandths.
    fn permille(&mut self, now_ns: u64, scheduled: impl Fn() -> Option<(u64, u64)>) -> u32 {
        if now_ns.saturating_sub(self.at_ns) >= DEMAND_EVERY_NS {
            self.at_ns = now_ns;
            self.observe(now_ns, scheduled());
        }
        // Waiting a long time ago is not waiting now.
        let fresh = self.ratio.weight(now_ns).min(1.0);
        let ratio = 1.0 + (self.ratio.mean().unwrap_or(1.0) - 1.0) * fresh;
        u32::try_from(plimsoll_control::average::whole(ratio * 1e3)).unwrap_or(u32::MAX)
    }

    fn observe(&mut self, now_ns: u64, found: Option<(u64, u64)>) {
        let Some((ran, waited)) = found else { return };
        let Some((ran_before, waited_before)) = self.seen else {
            self.seen = found;
            return;
        };
        let (ran, waited) = (ran.saturating_sub(ran_before), waited.saturating_sub(waited_before));
        if ran >= DEMAND_RUN_NS_MIN {
            self.ratio.add(now_ns, (ran + waited) as f64 / ran as f64);
            self.seen = found;
        }
    }
}

/// What the kernel counts of the threads that are watched.
#[derive(Default)]
pub(crate) struct Watched {
    threads: Mutex<Vec<File>>,
}

impl Watched {
    /// Has the calling thread's waits for a processor count.
    pub(crate) fn watch_this_thread(&self) {
        if let Ok(file) = File::open("/proc/thread-self/schedstat") {
            let mut threads = self.threads.lock();
            // Those of threads that ended cannot be read any more.
            threads.retain(|file| counted(file).is_some());
            threads.push(file);
        }
    }

    /// How long the threads ran and waited for a processor, ns; none where the kernel does not
    /// tell.
    pub(crate) fn scheduled(&self) -> Option<(u64, u64)> {
        let threads = self.threads.lock();
        threads.iter().filter_map(counted).reduce(|a, b| (a.0 + b.0, a.1 + b.1))
    }
}

fn counted(file: &File) -> Option<(u64, u64)> {
    let mut bytes = [0; 96];
    let count = file.read_at(&mut bytes, 0).ok()?;
    let text = std::str::from_utf8(bytes.get(..count)?).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn waits_for_a_processor_are_demand_and_fade() {
        let mut demand = Demand::default();
        assert_eq!(demand.cpus(), 0, "unknown before two looks");
        demand.observe(0, Some((10 * MS, 50 * MS)));
        demand.observe(50 * MS, Some((20 * MS, 80 * MS)));
        assert!(demand.cpus() >= 1);
        demand.at_ns = 50 * MS;
        assert_eq!(demand.permille(50 * MS, || None), 4_000, "ran 10, waited 30");
        demand.observe(60 * MS, Some((20 * MS, 80 * MS)));
        demand.at_ns = 60_000 * MS;
        assert_eq!(demand.permille(60_000 * MS, || None), 1_000, "that is long past");
    }

    #[test]
    fn a_watched_thread_is_seen_to_run() {
        let watched = Watched::default();
        watched.watch_this_thread();
        let Some((before, _)) = watched.scheduled() else { return };
        while watched.scheduled().is_some_and(|(ran, _)| ran <= before) {
            std::hint::spin_loop();
        }
        // Joined, as the scope alone does not wait for the thread to be gone.
        std::thread::scope(|scope| {
            scope.spawn(|| watched.watch_this_thread()).join().unwrap();
        });
        watched.watch_this_thread();
        assert_eq!(watched.threads.lock().len(), 2, "the thread that ended is forgotten");
    }
}
