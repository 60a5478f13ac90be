//! How fast a node's compactions go: once a second what came in, what compactions passed, how late clients
//! are answered and what was put off are given to the law (`plimsoll_control::pacing::disk`), which says
//! the rate of the next second. The rate is kept by the store (`storage/partition/pace.rs`).

use std::sync::atomic::Ordering;
use std::time::Instant;

use plimsoll_control::Mode;
use plimsoll_control::average::FadingMean;
use plimsoll_control::pacing::{DiskState, Foreground, Pacer, debt};

use crate::cluster_settings;
use crate::node::Shared;

/// What compactions write for each byte that comes in is averaged over this time: they come in bursts.
const AMPLIFICATION_NS: u64 = 300_000_000_000;
/// It is within these bounds, whatever was seen.
const AMPLIFICATION: (f64, f64) = (2.0, 30.0);
/// What it is taken for before anything was seen, as if it had been seen of so many bytes.
const AMPLIFICATION_AT_FIRST: f64 = 10.0;
const SEEN_AT_FIRST_BYTES: f64 = 64e6;

/// What is remembered from one second to the next.
pub(super) struct Compactions {
    pacer: Pacer,
    seen: Option<Seen>,
    ingest: FadingMean,
    passed: FadingMean,
}

/// What was seen a second ago.
#[derive(Clone, Copy)]
struct Seen {
    at_ns: u64,
    /// Bytes of records that were applied so far.
    applied_bytes: u64,
    /// Bytes of rows that are in no file.
    unflushed_bytes: u64,
    /// Bytes of rows that compactions passed so far.
    passed_bytes: u64,
}

impl Default for Compactions {
    fn default() -> Self {
        let mean = || FadingMean::new(AMPLIFICATION_NS);
        Self { pacer: Pacer::default(), seen: None, ingest: mean(), passed: mean() }
    }
}

impl Compactions {
    /// Looks, and sets the pace of the next second.
    pub(super) fn step(&mut self, shared: &Shared, foreground: &Foreground) {
        let debt = note_debt(shared);
        let mode = match shared.resources.has_rate_limiter() {
            true => Mode::Off,
            false => cluster_settings::compaction_pacing(&shared.metadata),
        };
        let now_ns = shared.now_ns();
        let pace = shared.resources.compactions();
        let (held, budget) = shared.resources.write_buffers();
        let now = Seen {
            at_ns: now_ns,
            applied_bytes: shared.applied_bytes.load(Ordering::Relaxed),
            unflushed_bytes: held as u64,
            passed_bytes: pace.passed_bytes(),
        };
        let before = self.seen.replace(now);
        let Some(before) = before.filter(|_| mode != Mode::Off) else {
            if mode == Mode::Off {
                *self = Self::default();
            }
            shared.admission.set(None, Instant::now());
            return pace.set(None, true);
        };
        let seconds = now_ns.saturating_sub(before.at_ns).max(1) as f64 / 1e9;
        let ingest = now.applied_bytes.saturating_sub(before.applied_bytes);
        let ingest_bytes_s = ingest as f64 / seconds;
        let flushed = (before.unflushed_bytes + ingest).saturating_sub(now.unflushed_bytes);
        let passed = now.passed_bytes.saturating_sub(before.passed_bytes);
        let background_bytes_s = passed as f64 / seconds;
        self.ingest.add(now_ns, ingest_bytes_s);
        self.passed.add(now_ns, background_bytes_s);
        let (ingest, passed) = (self.ingest.sum(now_ns), self.passed.sum(now_ns));
        let write_amplification = amplification(passed, ingest);
        let drained_bytes_s = match debt::of_node(now.unflushed_bytes, budget as u64) >= debt {
            true => flushed as f64 / seconds,
            false => background_bytes_s / write_amplification,
        };
        let disk = DiskState {
            ingest_bytes_s,
            write_amplification,
            background_bytes_s,
            drained_bytes_s,
            // From twice the budget on the stores take nothing.
            room_bytes: (debt::REFUSED_FROM - debt).max(0.0) * 2.0 * budget as f64,
            debt,
            latencies_ns: foreground.latencies_ns,
        };
        let found = self.pacer.step(now_ns, &disk);
        tracing::debug!(?disk, ?found, "the pace of compactions");
        pace.set(found.background_bytes_s, mode == Mode::On);
        let admitted_bytes_s = found.admitted_bytes_s.filter(|_| mode == Mode::On);
        shared.admission.set(admitted_bytes_s, Instant::now());
    }
}

/// What compactions write for each byte that comes in, from the sums of both.
fn amplification(passed: f64, ingest: f64) -> f64 {
    let passed = passed + AMPLIFICATION_AT_FIRST * SEEN_AT_FIRST_BYTES;
    (passed / (ingest + SEEN_AT_FIRST_BYTES)).clamp(AMPLIFICATION.0, AMPLIFICATION.1)
}

/// Has every partition know how far its files are towards the point where it can take no more; how far the
/// worst is, by them or by the rows in memory.
fn note_debt(shared: &Shared) -> f64 {
    let mut worst = 0.0_f64;
    for partition in shared.tables.partitions() {
        let (level_0_files, pending_bytes) = partition.store.backlog();
        let owed = debt::of_store(&debt::Backlog { level_0_files, pending_bytes });
        partition.owes(owed);
        worst = worst.max(owed);
    }
    shared.load.owes(worst);
    shared.write_debt()
}
