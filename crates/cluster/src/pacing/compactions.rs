//! How fast a node's compactions go: once a second what came in, what compactions passed, how late clients
//! are answered and what was put off are given to the law (`plimsoll_control::pacing::disk`), which says
//! the rate of the next second. The rate is kept by the store (`storage/partition/pace.rs`).

use std::sync::atomic::Ordering;

use plimsoll_control::Mode;
use plimsoll_control::average::FadingMean;
use plimsoll_control::pacing::{DiskState, Foreground, Pacer, debt};

use crate::cluster_settings;
use crate::node::Shared;

/// What compactions write for each byte that comes in is averaged over this time: they come in bursts.
const AMPLIFICATION_NS: u64 = 300_000_000_000;
/// It is within these bounds, whatever was seen.
const AMPLIFICATION: (f64, f64) = (2.0, 30.0);

/// What is remembered from one second to the next.
pub(super) struct Compactions {
    pacer: Pacer,
    /// When was looked last, and at how many bytes of records.
    seen: Option<(u64, u64)>,
    ingest: FadingMean,
    passed: FadingMean,
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
        let mode = cluster_settings::compaction_pacing(&shared.metadata);
        let now_ns = shared.now_ns();
        let bytes = shared.applied_bytes.load(Ordering::Relaxed);
        let (pace, passed) =
            (shared.resources.compactions(), shared.resources.compactions().take_passed());
        let before = self.seen.replace((now_ns, bytes));
        let Some((before_ns, before_bytes)) = before.filter(|_| mode != Mode::Off) else {
            if mode == Mode::Off {
                *self = Self::default();
            }
            return pace.set(None, true);
        };
        let seconds = now_ns.saturating_sub(before_ns).max(1) as f64 / 1e9;
        let ingest_bytes_s = bytes.saturating_sub(before_bytes) as f64 / seconds;
        let background_bytes_s = passed as f64 / seconds;
        self.ingest.add(now_ns, ingest_bytes_s);
        self.passed.add(now_ns, background_bytes_s);
        let (ingest, passed) = (self.ingest.sum(now_ns), self.passed.sum(now_ns));
        let disk = DiskState {
            ingest_bytes_s,
            write_amplification: (passed / ingest.max(1.0)).clamp(AMPLIFICATION.0, AMPLIFICATION.1),
            background_bytes_s,
            debt: debt_of(shared),
            latencies_ns: foreground.latencies_ns,
        };
        let found = self.pacer.step(now_ns, &disk);
        tracing::debug!(?disk, ?found, "the pace of compactions");
        pace.set(found.background_bytes_s, mode == Mode::On);
    }
}

/// How far the worst of the node's partitions is towards the point where it can take no more.
fn debt_of(shared: &Shared) -> f64 {
    let partitions = shared.tables.partitions();
    let own = partitions.iter().map(|partition| partition.debt()).fold(0.0, f64::max);
    let (held, budget) = shared.resources.write_buffers();
    own.max(debt::of_node(held as u64, budget as u64))
}
