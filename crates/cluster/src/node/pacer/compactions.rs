//! How fast a node's compactions go: once a second what came in, what compactions passed, how late clients
//! are answered and what was put off are given to the law (`plimsoll_control::pacing::compactions`), which
//! says the rate of the next second. The rate is kept by the store (`storage/partition/pace.rs`).

use std::sync::atomic::Ordering;

use plimsoll_control::Mode;
use plimsoll_control::pacing::{CompactionPacer, Counted, Foreground, debt};

use crate::node::shared::Shared;
use crate::settings;

/// What is remembered from one second to the next.
#[derive(Default)]
pub(super) struct Compactions(CompactionPacer);

impl Compactions {
    /// Looks, and sets the pace of the next second.
    pub(super) fn step(&mut self, shared: &Shared, foreground: &Foreground) {
        let (debt, pending_bytes) = note_debt(shared);
        let mode = match shared.replication.resources.has_rate_limiter() {
            true => Mode::Off,
            false => settings::cluster::compaction_pacing(&shared.metadata),
        };
        let pace = shared.replication.resources.compactions();
        if mode == Mode::Off {
            *self = Self::default();
        }
        let (held, budget) = shared.replication.resources.write_buffers();
        let counted = Counted {
            applied_bytes: shared.replication.applied_bytes.load(Ordering::Relaxed),
            unflushed_bytes: held as u64,
            passed_bytes: pace.passed_bytes(),
            pending_bytes,
            budget_bytes: budget as u64,
            debt,
            latencies_ns: foreground.latencies_ns,
        };
        let found = self.0.step(shared.router.now_ns(), &counted).filter(|_| mode != Mode::Off);
        let Some((disk, found)) = found else {
            shared.router.admission.set(None, shared.world.time.now());
            return pace.set(None, true);
        };
        tracing::debug!(?disk, ?found, "the pace of compactions");
        pace.set(found.background_bytes_s, mode == Mode::On);
        let admitted_bytes_s = found.admitted_bytes_s.filter(|_| mode == Mode::On);
        shared.router.admission.set(admitted_bytes_s, shared.world.time.now());
    }
}

/// Has every partition know how far its files are towards the point where it can take no more; how far the
/// worst is, by them or by the rows in memory, and how many bytes wait to be merged.
fn note_debt(shared: &Shared) -> (f64, u64) {
    let (mut worst, mut pending_bytes) = (0.0_f64, 0);
    for partition in shared.tables.partitions() {
        let backlog = partition.store.backlog();
        pending_bytes += backlog.pending_bytes;
        let owed = debt::of_store(&backlog);
        partition.owes(owed);
        worst = worst.max(owed);
    }
    shared.router.load.owes(worst);
    (shared.router.write_debt(), pending_bytes)
}
