//! How fast the background work of one disk (compaction, recovery, following) may go,
//! from what the foreground writes, how late it is, and how much debt has grown. One controller
//! for each disk, over everything on it.
//!
//! ```text
//! need     = ingest * write amplification            what keeps the debt from growing
//! floor    = need * min(1, debt / 0.25)              below a quarter of the debt it may lag
//! open     *= 1.25  while foreground latency is within 1.2 of its usual; /= 2 while beyond 1.5
//! rate     = floor + (limit - floor) * max(open, urgency), at most the limit
//! urgency  = 0 up to half of the debt, then rising evenly to 1 at nine tenths
//! admitted = 1 up to half of the debt, then falling evenly to 0.05 at the stall
//! ```
//!
//! Latency gives way to debt step by step: an idle disk is used in full, a busy one pays the need,
//! and an endangered one is worked off whatever it costs. From half of the debt on, the
//! foreground's writes are slowed evenly, so that no stall ends them all at once. It moves within
//! seconds in both directions and keeps no floor from a quiet time, which is where an automatic
//! rate limiter that steps by 5 % every 10 s fails.

use crate::average::{FadingMean, whole};

/// The usual latency is learned over this time.
const USUAL_NS: u64 = 60_000_000_000;
const LATE: f64 = 1.5;
const FINE: f64 = 1.2;
const OPEN_STEP: f64 = 1.25;
const OPEN_MIN: f64 = 0.01;
const LAG: f64 = 0.25;
const URGENT_FROM: f64 = 0.5;
const URGENT_TO: f64 = 0.9;
const ADMITTED_MIN: f64 = 0.05;

/// What is measured since the last step (1 s is a good step).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskState {
    /// Bytes per second that the foreground wrote.
    pub ingest_bytes_s: f64,
    /// Bytes written to the disk for each byte taken in, at least 1.
    pub write_amplification: f64,
    /// How far the write path is towards a stall, 0 to 1: the worst of the files in level 0, the
    /// pending compaction bytes and the full memtables, each over the number that stops writes.
    pub debt: f64,
    /// Foreground latency at a high quantile, ns; none while nothing was asked.
    pub foreground_ns: Option<u64>,
}

/// What may be done until the next step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Bytes per second for background work.
    pub background_bytes_s: u64,
    /// The part of foreground writes to let in at once, 0.05 to 1; the others wait their turn.
    pub writes_admitted: f64,
}

/// One disk's pace.
#[derive(Clone, Debug)]
pub struct Pacer {
    limit_bytes_s: u64,
    usual: FadingMean,
    open: f64,
}

impl Pacer {
    /// A pacer for a disk that can write `limit_bytes_s` (measured; at least 1 MB/s is assumed).
    #[must_use]
    pub fn new(limit_bytes_s: u64) -> Self {
        let limit_bytes_s = limit_bytes_s.max(1_000_000);
        Self { limit_bytes_s, usual: FadingMean::new(USUAL_NS), open: 1.0 }
    }

    /// The pace from `now_ns` on.
    pub fn step(&mut self, now_ns: u64, disk: &DiskState) -> Pace {
        let limit = self.limit_bytes_s as f64;
        let debt = disk.debt.clamp(0.0, 1.0);
        self.turn(now_ns, disk.foreground_ns);
        let need = disk.ingest_bytes_s.max(0.0) * disk.write_amplification.max(1.0);
        let floor = (need * (debt / LAG).min(1.0)).min(limit);
        let urgency = ((debt - URGENT_FROM) / (URGENT_TO - URGENT_FROM)).clamp(0.0, 1.0);
        let rate = floor + (limit - floor) * self.open.max(urgency);
        let slowed = ((debt - URGENT_FROM) / (1.0 - URGENT_FROM)).clamp(0.0, 1.0);
        Pace {
            background_bytes_s: whole(rate.min(limit)),
            writes_admitted: 1.0 - (1.0 - ADMITTED_MIN) * slowed,
        }
    }

    /// Opens or closes the part above the floor by the foreground's latency.
    fn turn(&mut self, now_ns: u64, foreground_ns: Option<u64>) {
        let Some(foreground_ns) = foreground_ns.map(|ns| ns as f64) else {
            self.open = (self.open * OPEN_STEP).min(1.0);
            return;
        };
        let usual = self.usual.mean().unwrap_or(foreground_ns);
        if foreground_ns > LATE * usual {
            self.open = (self.open / 2.0).max(OPEN_MIN);
        } else if foreground_ns <= FINE * usual {
            self.open = (self.open * OPEN_STEP).min(1.0);
        }
        // A late moment is not usual; learning it would call lateness normal in the end. While
        // little background work runs, lateness has another cause, and is the usual of now.
        if foreground_ns <= LATE * usual || self.open <= OPEN_MIN {
            self.usual.add(now_ns, foreground_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MB: f64 = 1e6;
    const SECOND: u64 = 1_000_000_000;
    const CALM: DiskState = DiskState {
        ingest_bytes_s: 10.0 * MB,
        write_amplification: 5.0,
        debt: 0.1,
        foreground_ns: Some(1_000_000),
    };

    #[test]
    fn a_late_foreground_closes_it_in_seconds_and_calm_opens_it_again() {
        let mut pacer = Pacer::new(500_000_000);
        let calm = (0..10).map(|s| pacer.step(s * SECOND, &CALM)).last().unwrap();
        assert_eq!(calm.background_bytes_s, 500_000_000);
        let late = DiskState { foreground_ns: Some(3_000_000), ..CALM };
        let closed = (10..16).map(|s| pacer.step(s * SECOND, &late)).last().unwrap();
        assert!(closed.background_bytes_s < 40_000_000, "{closed:?}");
        let open = (16..40).map(|s| pacer.step(s * SECOND, &CALM)).last().unwrap();
        assert_eq!(open.background_bytes_s, 500_000_000);
    }

    #[test]
    fn debt_outranks_latency() {
        let mut pacer = Pacer::new(500_000_000);
        let late = DiskState { foreground_ns: Some(9_000_000), debt: 0.9, ..CALM };
        pacer.step(0, &CALM);
        let pace = (1..20).map(|s| pacer.step(s * SECOND, &late)).last().unwrap();
        assert_eq!(pace.background_bytes_s, 500_000_000);
        assert!(pace.writes_admitted < 0.3 && pace.writes_admitted >= ADMITTED_MIN);
    }

    #[test]
    fn a_burst_after_a_long_lull_finds_the_full_rate() {
        let mut pacer = Pacer::new(500_000_000);
        let idle = DiskState { ingest_bytes_s: 0.0, debt: 0.0, foreground_ns: None, ..CALM };
        let last = (0..3_600).map(|s| pacer.step(s * SECOND, &idle)).last().unwrap();
        assert_eq!(last.background_bytes_s, 500_000_000);
        assert_eq!(last.writes_admitted, 1.0);
    }

    #[test]
    fn a_writer_at_a_steady_pace_never_reaches_the_stall() {
        // A disk of 200 MB/s; 30 MB/s come in at fivefold amplification; a stall at 2 GB of debt.
        let mut pacer = Pacer::new(200_000_000);
        let (mut debt_bytes, mut worst) = (0.0_f64, 0.0_f64);
        let mut pace = pacer.step(0, &CALM);
        for second in 1..600 {
            let ingest = 30.0 * MB * pace.writes_admitted;
            let work = pace.background_bytes_s as f64;
            debt_bytes = (debt_bytes + ingest * 5.0 - work).max(0.0);
            worst = worst.max(debt_bytes / 2e9);
            let crowded = work > 100.0 * MB;
            let foreground_ns = Some(if crowded { 4_000_000 } else { 1_000_000 });
            let debt = debt_bytes / 2e9;
            let disk = DiskState { ingest_bytes_s: ingest, debt, foreground_ns, ..CALM };
            pace = pacer.step(second * SECOND, &disk);
        }
        assert!(worst < 0.9, "{worst}");
    }

    proptest! {
        #[test]
        fn more_debt_never_slows_the_work_nor_admits_more_writes(
            a in 0.0f64..1.0, b in 0.0f64..1.0, late in 1u64..10, ingest in 0.0f64..1e9,
        ) {
            let (low, high) = (a.min(b), a.max(b));
            let pace = |debt: f64| {
                let mut pacer = Pacer::new(300_000_000);
                pacer.step(0, &CALM);
                let foreground_ns = Some(late * 1_000_000);
                let disk = DiskState { debt, foreground_ns, ingest_bytes_s: ingest, ..CALM };
                pacer.step(SECOND, &disk)
            };
            let (low, high) = (pace(low), pace(high));
            prop_assert!(high.background_bytes_s >= low.background_bytes_s);
            prop_assert!(high.writes_admitted <= low.writes_admitted);
            prop_assert!(high.background_bytes_s <= 300_000_000);
        }
    }
}
