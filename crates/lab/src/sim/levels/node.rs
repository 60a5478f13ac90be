//! One node: its processors, the threads that serve its connections, its disks, its stores and its log. It
//! chooses what is flushed and compacted next, by the same rule as nodes where a budget of memory is given
//! (`plimsoll_control::flushing`), and counts what is to be told of it.

use plimsoll_control::average::whole;
use plimsoll_control::flushing::are_full;
use plimsoll_control::pacing::{Counted, debt};

use super::brake::Brake;
use super::disk::Disk;
use super::spec::LevelsSpec;
use super::store::{Compaction, Store};
use crate::sim::cpu::Cpu;

/// A log that is not waited for goes to the disk in pieces of so many bytes.
const LOG_PIECE_BYTES: f64 = 1_048_576.0;
/// What a sync of the log takes beside its bytes: what fdatasync of 4 KiB took on the machine on which this
/// was developed.
const SYNC_NS: u64 = 120_000;

/// Work for a node's background threads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Flush,
    Compact(Compaction),
}

/// A batch in a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Logged {
    pub(super) batch: usize,
    /// Whether this is the log of its first copy.
    pub(super) is_first: bool,
}

pub(super) struct Node {
    pub(super) cpu: Cpu,
    pub(super) version: u64,
    /// When each thread that serves connections is free.
    pub(super) io_free_ns: Vec<u64>,
    pub(super) disks: Vec<Disk>,
    pub(super) stores: Vec<Store>,
    pub(super) brake: Brake,
    budget_bytes: Option<f64>,
    threads: [usize; 2],
    running: [usize; 2],
    pub(super) unflushed_bytes: f64,
    pub(super) came_in_bytes: f64,
    /// Batches that wait for the sync after the one under way, and those of that one.
    pub(super) log_waits: Vec<Logged>,
    pub(super) log_syncs: Vec<Logged>,
    log_bytes: f64,
    log_pieces: usize,
    /// Batches that no store takes for now.
    pub(super) stopped: Vec<usize>,
    pub(super) stops: u64,
    pub(super) level_0_max: usize,
    pub(super) debt_peak: f64,
}

impl Node {
    pub(super) fn new(spec: &LevelsSpec, io_threads: usize, stores: Vec<Store>) -> Self {
        let unflushed_bytes = stores.iter().map(Store::unflushed_bytes).sum();
        Self {
            cpu: Cpu::new(spec.machine.cpus),
            version: 0,
            io_free_ns: vec![0; io_threads],
            disks: vec![Disk::new(spec.machine.disk_bytes_s); spec.machine.disks],
            stores,
            brake: Brake::new(spec.arm),
            budget_bytes: spec.shape.budget_bytes,
            threads: [spec.shape.flush_threads, spec.shape.compaction_threads],
            running: [0; 2],
            unflushed_bytes,
            came_in_bytes: 0.0,
            log_waits: Vec::new(),
            log_syncs: Vec::new(),
            log_bytes: 0.0,
            log_pieces: 0,
            stopped: Vec::new(),
            stops: 0,
            level_0_max: 0,
            debt_peak: 0.0,
        }
    }

    /// When one of the threads that serve connections is done with what takes it so long.
    pub(super) fn serve(&mut self, now_ns: u64, thread: usize, took_ns: u64) -> u64 {
        let count = self.io_free_ns.len();
        let free_ns = &mut self.io_free_ns[thread % count];
        *free_ns = (*free_ns).max(now_ns) + took_ns;
        *free_ns
    }

    /// Rows are put into a store's memory; true where something is to be flushed now.
    pub(super) fn take(&mut self, store: usize, bytes: f64) -> bool {
        self.unflushed_bytes += bytes;
        self.came_in_bytes += bytes;
        let is_full = self.stores[store].take(bytes);
        is_full || self.is_full()
    }

    /// Whether a store takes rows now.
    pub(super) fn takes(&self, store: usize) -> bool {
        let has_room = self.budget_bytes.is_none_or(|budget| self.unflushed_bytes < 2.0 * budget);
        has_room && self.stores[store].takes()
    }

    /// Whether files are being rewritten.
    pub(super) fn is_rewriting(&self) -> bool {
        self.running[1] > 0
    }

    fn is_full(&self) -> bool {
        let budget = self.budget_bytes.filter(|_| self.running[0] < self.threads[0]);
        budget.is_some_and(|budget| are_full(whole(self.unflushed_bytes), whole(budget)))
    }

    /// The next work for a free thread: the store, and what is to be done with so many bytes.
    pub(super) fn next_work(&mut self) -> Option<(usize, Kind, f64)> {
        if self.running[0] < self.threads[0] {
            if self.is_full() {
                let fullest = (0..self.stores.len()).max_by(|a, b| {
                    let bytes = |at: usize| self.stores[at].memtable_bytes();
                    bytes(*a).total_cmp(&bytes(*b))
                });
                let fullest = fullest.filter(|at| self.stores[*at].memtable_bytes() > 0.0);
                fullest.into_iter().for_each(|at| self.stores[at].seal());
            }
            let mut stores = self.stores.iter_mut().enumerate();
            let found = stores.find_map(|(at, store)| Some((at, store.begin_flush()?)));
            if let Some((at, bytes)) = found {
                self.running[0] += 1;
                return Some((at, Kind::Flush, bytes));
            }
        }
        if self.running[1] < self.threads[1] {
            let scores = self.stores.iter().enumerate();
            let scored = scores.filter_map(|(at, store)| Some((store.score()?.0, at)));
            let (_, at) = scored.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))?;
            let compaction = self.stores[at].begin_compaction()?;
            self.running[1] += 1;
            return Some((at, Kind::Compact(compaction), compaction.input_bytes()));
        }
        None
    }

    /// Work that [`Self::next_work`] gave is done.
    pub(super) fn end_work(&mut self, store: usize, kind: &Kind, bytes: f64) {
        match kind {
            Kind::Flush => {
                self.running[0] -= 1;
                self.unflushed_bytes = (self.unflushed_bytes - bytes).max(0.0);
                self.stores[store].end_flush();
                self.level_0_max = self.level_0_max.max(self.stores[store].level_0_files());
            }
            Kind::Compact(compaction) => {
                self.running[1] -= 1;
                self.stores[store].end_compaction(compaction);
            }
        }
    }

    /// Begins a sync of the log where none is under way and something waits; when it is over.
    pub(super) fn sync(&mut self, now_ns: u64, batch_bytes: impl Fn(usize) -> f64) -> Option<u64> {
        if !self.log_syncs.is_empty() || self.log_waits.is_empty() {
            return None;
        }
        self.log_syncs = std::mem::take(&mut self.log_waits);
        let bytes = self.log_syncs.iter().map(|it| batch_bytes(it.batch)).sum();
        Some(self.disks[0].write(now_ns, bytes) + SYNC_NS)
    }

    /// A log that nobody waits for.
    pub(super) fn append(&mut self, now_ns: u64, bytes: f64) {
        self.log_bytes += bytes;
        if self.log_bytes >= LOG_PIECE_BYTES {
            let disk = self.log_pieces % self.disks.len();
            self.disks[disk].write(now_ns, std::mem::take(&mut self.log_bytes));
            self.log_pieces += 1;
        }
    }

    pub(super) fn debt(&self) -> f64 {
        let stores = self.stores.iter().map(Store::debt).fold(0.0, f64::max);
        let memory = self
            .budget_bytes
            .map_or(0.0, |budget| debt::of_node(whole(self.unflushed_bytes), whole(budget)));
        stores.max(memory)
    }

    /// A second is over: the brake is asked for the next.
    pub(super) fn second(&mut self, now_ns: u64) -> f64 {
        let debt = self.debt();
        self.debt_peak = self.debt_peak.max(debt);
        let counted = Counted {
            applied_bytes: whole(self.came_in_bytes),
            unflushed_bytes: whole(self.unflushed_bytes),
            pending_bytes: self.stores.iter().map(|store| store.backlog().pending_bytes).sum(),
            budget_bytes: self.budget_bytes.map_or(0, whole),
            debt,
            ..Counted::default()
        };
        self.brake.second(now_ns, &counted);
        debt
    }
}
