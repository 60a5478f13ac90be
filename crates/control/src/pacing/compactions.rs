//! What the law of a disk ([`super::disk`]) is asked once a second for a node's compactions, made from
//! counters: what came in, what compactions passed, what is in no file yet. It keeps what was seen a second
//! ago and the averages over bursts; it decides nothing beyond the law, reads no counter and no clock.

use super::debt;
use super::disk::{DiskState, Pace, Pacer};
use super::felt::Latencies;
use crate::average::FadingMean;

/// What compactions write for each byte that comes in is averaged over this time: they come in bursts.
const AMPLIFICATION_NS: u64 = 300_000_000_000;
/// It is within these bounds, whatever was seen.
const AMPLIFICATION: (f64, f64) = (2.0, 30.0);
/// What it is taken for before anything was seen, as if it had been seen of so many bytes.
const AMPLIFICATION_AT_FIRST: f64 = 10.0;
const SEEN_AT_FIRST_BYTES: f64 = 64e6;

/// The counters of a node at one moment. Those of what was done so far only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counted {
    /// Bytes of records that were applied so far.
    pub applied_bytes: u64,
    /// Bytes of rows that are in no file.
    pub unflushed_bytes: u64,
    /// Bytes of rows that compactions passed so far.
    pub passed_bytes: u64,
    /// Bytes that wait to be merged, by the stores' own estimate.
    pub pending_bytes: u64,
    /// What [`Self::unflushed_bytes`] is to stay below; the stores take nothing from twice that on.
    pub budget_bytes: u64,
    /// How far the worst store, or the node, is towards the point where it can take no more, 0 to 1: see
    /// [`super::debt`].
    pub debt: f64,
    /// What clients felt since the last step.
    pub latencies_ns: Latencies,
}

/// The pace of a node's compactions, and of what it lets in.
#[derive(Clone, Debug)]
pub struct CompactionPacer {
    pacer: Pacer,
    seen: Option<(u64, Counted)>,
    ingest: FadingMean,
    /// What compactions had to do for it, done or not.
    caused: FadingMean,
}

impl Default for CompactionPacer {
    fn default() -> Self {
        let mean = || FadingMean::new(AMPLIFICATION_NS);
        Self { pacer: Pacer::default(), seen: None, ingest: mean(), caused: mean() }
    }
}

impl CompactionPacer {
    /// The pace of the next second and what it was found from; none the first time, when there is nothing
    /// to compare with.
    pub fn step(&mut self, now_ns: u64, now: &Counted) -> Option<(DiskState, Pace)> {
        let (before_ns, before) = self.seen.replace((now_ns, *now))?;
        let seconds = now_ns.saturating_sub(before_ns).max(1) as f64 / 1e9;
        let ingest = now.applied_bytes.saturating_sub(before.applied_bytes);
        let ingest_bytes_s = ingest as f64 / seconds;
        let flushed = (before.unflushed_bytes + ingest).saturating_sub(now.unflushed_bytes);
        let passed = now.passed_bytes.saturating_sub(before.passed_bytes);
        let background_bytes_s = passed as f64 / seconds;
        // What was put off is owed: from what was done alone, whoever is held would seem to need ever less.
        let owed = now.pending_bytes as f64 - before.pending_bytes as f64;
        self.ingest.add(now_ns, ingest_bytes_s);
        self.caused.add(now_ns, background_bytes_s + owed / seconds);
        let (ingest, caused) = (self.ingest.sum(now_ns), self.caused.sum(now_ns));
        let write_amplification = amplification(caused, ingest);
        let is_memory = debt::of_node(now.unflushed_bytes, now.budget_bytes) >= now.debt;
        let drained_bytes_s = match is_memory {
            true => flushed as f64 / seconds,
            false => background_bytes_s / write_amplification,
        };
        let disk = DiskState {
            ingest_bytes_s,
            write_amplification,
            background_bytes_s,
            drained_bytes_s,
            // From twice the budget on the stores take nothing.
            room_bytes: (debt::REFUSED_FROM - now.debt).max(0.0) * 2.0 * now.budget_bytes as f64,
            debt: now.debt,
            latencies_ns: now.latencies_ns,
        };
        Some((disk, self.pacer.step(now_ns, &disk)))
    }
}

/// What compactions have to write for each byte that comes in, from the sums of both.
fn amplification(caused: f64, ingest: f64) -> f64 {
    let caused = caused + AMPLIFICATION_AT_FIRST * SEEN_AT_FIRST_BYTES;
    (caused / (ingest + SEEN_AT_FIRST_BYTES)).clamp(AMPLIFICATION.0, AMPLIFICATION.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn what_is_seen_is_what_was_done_since_the_step_before() {
        let mut pacer = CompactionPacer::default();
        let mut now = Counted { budget_bytes: 128 << 20, debt: 0.3, ..Counted::default() };
        assert_eq!(pacer.step(0, &now), None);
        now.applied_bytes = 40_000_000;
        now.unflushed_bytes = 10_000_000;
        now.passed_bytes = 100_000_000;
        let (disk, _) = pacer.step(2 * SECOND, &now).expect("there is something to compare with");
        assert!(
            (disk.ingest_bytes_s - 2e7).abs() < 1.0 && (disk.background_bytes_s - 5e7).abs() < 1.0
        );
        // Files are the worst, so what leaves the debt is what compactions passed.
        assert!((disk.drained_bytes_s * disk.write_amplification - 5e7).abs() < 1.0);
        now.debt = debt::of_node(now.unflushed_bytes, now.budget_bytes);
        now.applied_bytes += 30_000_000;
        let (disk, _) = pacer.step(3 * SECOND, &now).expect("as before");
        assert!((disk.drained_bytes_s - 3e7).abs() < 1.0, "{}", disk.drained_bytes_s);
    }

    #[test]
    fn who_is_held_needs_no_less() {
        let needs = |is_held: bool| {
            let mut pacer = CompactionPacer::default();
            let mut now = Counted { budget_bytes: 128 << 20, debt: 0.1, ..Counted::default() };
            let mut seen = 0.0;
            for second in 0..200 {
                now.applied_bytes += 10_000_000;
                let done = if is_held { 20_000_000 } else { 80_000_000 };
                now.passed_bytes += done;
                now.pending_bytes += 80_000_000 - done;
                let found = pacer.step(second * SECOND, &now);
                seen = found.map_or(seen, |(disk, _)| disk.write_amplification);
            }
            seen
        };
        assert!((needs(true) - needs(false)).abs() < 1e-6, "{} {}", needs(true), needs(false));
        assert!((needs(true) - 8.0).abs() < 0.3, "{}", needs(true));
    }

    #[test]
    fn amplification_begins_at_a_guess_and_stays_within_bounds() {
        assert!((amplification(0.0, 0.0) - AMPLIFICATION_AT_FIRST).abs() < 1e-9);
        assert!((amplification(1e15, 1e9) - AMPLIFICATION.1).abs() < 1e-9);
        assert!((amplification(0.0, 1e15) - AMPLIFICATION.0).abs() < 1e-9);
    }
}
