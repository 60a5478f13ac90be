//! How fast the background work of one disk (compaction, copies) may go, and how much may be written, from
//! what the foreground writes, how late it is, and how much debt has grown. One controller for each disk,
//! over everything on it.
//!
//! ```text
//! need     = ingest * write amplification            what keeps the debt from growing
//! floor    = need * (debt - 0.25) / 0.25             within 0 and the need: below half of the debt it may lag
//! open     *= 1.25  while foreground latency is within 1.2 of its usual; /= 2 while beyond 1.5
//! rate     = floor + (limit - floor) * max(open, urgency)
//! urgency  = 0 up to half of the debt, then rising evenly to 1 at nine tenths, where nothing bounds it
//! admitted = all below 0.7 of the debt; then drain * (1 + 5 * (0.9 - debt)), or what fills the room that is
//!            left to 0.95 in ten seconds where that is more; and nothing from 0.95 on
//! ```
//!
//! It begins at the need: who begins fully open in an overload takes what the foreground would need to
//! come out of it. Latency gives way to debt step by step: an idle disk is used in full, a busy one pays
//! the need, and an endangered one is worked off whatever it costs. Writes are slowed late, because slowing
//! them early only moves the waiting (Luo and Carey, "On Performance Stability in LSM-based Storage
//! Systems", VLDB 2019), and from what was paid off, so that what comes is what the store can take.
//!
//! What is usual is learned from seconds alone in which background work rested. Where it never rests, it
//! is held for a second to look, which costs nobody anything. The limit is the most that was ever done in a
//! second, fading, and tried a quarter higher while nobody is late: no disk is asked what it can do. It
//! moves within seconds in both directions and keeps no floor from a quiet time, which is where an
//! automatic rate limiter that steps by 5 % every 10 s fails.

use super::debt::REFUSED_FROM;
use super::felt::Latencies;
use crate::Class;
use crate::average::{FadingMean, whole};

/// The usual latency is learned over this time.
const USUAL_NS: u64 = 60_000_000_000;
const LATE: f64 = 1.5;
const FINE: f64 = 1.2;
const OPEN_STEP: f64 = 1.25;
const OPEN_MIN: f64 = 0.01;
/// From here on something of the need is paid whatever it costs, and from there on all of it. A burst that is
/// over before costs the foreground nothing.
const PAID_FROM: f64 = 0.25;
const PAID_TO: f64 = 0.5;
const URGENT_FROM: f64 = 0.5;
const URGENT_TO: f64 = 0.9;
const SLOWED_FROM: f64 = 0.7;
const SLOWED_BY: f64 = 5.0;
/// What is left is filled in this time where nothing is drained.
const FILLED_IN_S: f64 = 10.0;
/// Background work rests in a second in which it does less than this part of the limit.
const RESTS: f64 = 0.05;
/// After so long without such a second it is held for one.
const LOOK_NS: u64 = 60_000_000_000;
/// The limit fades by this part in a second.
const LIMIT_FADES: f64 = 0.01;
/// And is tried so much higher.
const LIMIT_TRIED: f64 = 1.25;
/// It is never taken for less, bytes per second.
const LIMIT_MIN: f64 = 1_000_000.0;

/// What is measured since the last step (1 s is a good step).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskState {
    /// Bytes per second that the foreground wrote.
    pub ingest_bytes_s: f64,
    /// Bytes written to the disk for each byte taken in, at least 1.
    pub write_amplification: f64,
    /// Bytes per second that background work wrote.
    pub background_bytes_s: f64,
    /// Bytes per second of what the foreground wrote that left where the debt is: became files, or files
    /// that need not be merged soon.
    pub drained_bytes_s: f64,
    /// Bytes that the foreground may still write until writes are refused.
    pub room_bytes: f64,
    /// How far the write path is towards the point where it can take no more, 0 to 1: see
    /// [`super::debt`].
    pub debt: f64,
    /// Foreground latency of each class of work, at a high quantile.
    pub latencies_ns: Latencies,
}

/// What may be done until the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Bytes per second for background work; none is no limit.
    pub background_bytes_s: Option<u64>,
    /// Bytes per second of foreground writes to let in; none is no limit.
    pub admitted_bytes_s: Option<u64>,
}

/// One disk's pace.
#[derive(Clone, Debug)]
pub struct Pacer {
    limit_bytes_s: f64,
    /// Of each class of work.
    usual: [FadingMean; Class::COUNT],
    /// When background work rested last, or what was usual began to be looked for.
    rested_ns: Option<u64>,
    open: f64,
}

impl Default for Pacer {
    fn default() -> Self {
        Self {
            limit_bytes_s: LIMIT_MIN,
            usual: std::array::from_fn(|_| FadingMean::new(USUAL_NS)),
            rested_ns: None,
            open: OPEN_MIN,
        }
    }
}

impl Pacer {
    /// The pace from `now_ns` on.
    pub fn step(&mut self, now_ns: u64, disk: &DiskState) -> Pace {
        let debt = disk.debt.clamp(0.0, 1.0);
        let amplification = disk.write_amplification.max(1.0);
        let need = disk.ingest_bytes_s.max(0.0) * amplification;
        let rests = disk.background_bytes_s < RESTS * self.limit_bytes_s;
        let done = disk.background_bytes_s.max(need).max(LIMIT_MIN);
        self.limit_bytes_s = (self.limit_bytes_s * (1.0 - LIMIT_FADES)).max(done);
        let is_asked = disk.latencies_ns.iter().any(Option::is_some);
        self.turn(now_ns, &disk.latencies_ns, rests);
        let admitted_bytes_s = (debt >= SLOWED_FROM).then(|| {
            let part = 1.0 + SLOWED_BY * (URGENT_TO - debt);
            let drained = disk.drained_bytes_s * part.max(0.0);
            let filled = disk.room_bytes / FILLED_IN_S;
            if debt >= REFUSED_FROM { 0 } else { whole(drained.max(filled)) }
        });
        let background_bytes_s = if debt >= URGENT_TO {
            None
        } else if self.is_to_look(now_ns, is_asked, debt) {
            Some(0)
        } else {
            let limit = self.limit_bytes_s * LIMIT_TRIED;
            let paid = ((debt - PAID_FROM) / (PAID_TO - PAID_FROM)).clamp(0.0, 1.0);
            let floor = (need * paid).min(limit);
            let urgency = ((debt - URGENT_FROM) / (URGENT_TO - URGENT_FROM)).clamp(0.0, 1.0);
            Some(whole(floor + (limit - floor) * self.open.max(urgency)))
        };
        Pace { background_bytes_s, admitted_bytes_s }
    }

    /// Whether background work is to rest for a second, so that is seen what is usual without it.
    fn is_to_look(&mut self, now_ns: u64, is_asked: bool, debt: f64) -> bool {
        if !is_asked || debt >= URGENT_FROM {
            return false;
        }
        let is_due = self.rested_ns.is_none_or(|at| now_ns.saturating_sub(at) >= LOOK_NS);
        if is_due {
            // One second: also where nobody asks anything in it.
            self.rested_ns = Some(now_ns);
        }
        is_due
    }

    /// Opens or closes the part above the floor by the latency of the class that is latest for it.
    fn turn(&mut self, now_ns: u64, latencies_ns: &Latencies, rests: bool) {
        let classes =
            || latencies_ns.iter().zip(0..).filter_map(|(it, at)| Some(((*it)? as f64, at)));
        if rests {
            for (latency, at) in classes() {
                self.usual[at].add(now_ns, latency);
                self.rested_ns = Some(now_ns);
            }
        }
        let ratio = |(latency, at): (f64, usize)| Some(latency / self.usual[at].mean()?.max(1.0));
        let is_idle = classes().next().is_none();
        let lateness = classes().filter_map(ratio).reduce(f64::max);
        match lateness {
            Some(lateness) if lateness > LATE => self.open = (self.open / 2.0).max(OPEN_MIN),
            Some(lateness) if lateness > FINE => {}
            None if !is_idle => {}
            _ => self.open = (self.open * OPEN_STEP).min(1.0),
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
        background_bytes_s: 0.0,
        drained_bytes_s: 0.0,
        room_bytes: 0.0,
        debt: 0.1,
        latencies_ns: writes(1_000_000),
    };

    const fn writes(latency_ns: u64) -> Latencies {
        let mut latencies = [None; Class::COUNT];
        latencies[Class::Write.slot()] = Some(latency_ns);
        latencies
    }

    /// Steps by whole seconds, with background work that does all it may up to what the disk can.
    struct Run {
        pacer: Pacer,
        second: u64,
        did: f64,
        disk_bytes_s: f64,
    }

    impl Run {
        fn new(disk_bytes_s: f64) -> Self {
            Self { pacer: Pacer::default(), second: 0, did: 0.0, disk_bytes_s }
        }

        fn step(&mut self, disk: &DiskState) -> Pace {
            let drained_bytes_s = self.did / disk.write_amplification;
            let disk = DiskState { background_bytes_s: self.did, drained_bytes_s, ..*disk };
            let pace = self.pacer.step(self.second * SECOND, &disk);
            self.second += 1;
            let may = pace.background_bytes_s.map_or(f64::INFINITY, |it| it as f64);
            self.did = may.min(self.disk_bytes_s);
            pace
        }

        fn steps(&mut self, seconds: u64, disk: &DiskState) -> Pace {
            (0..seconds).map(|_| self.step(disk)).last().unwrap()
        }
    }

    #[test]
    fn it_begins_at_the_need_and_finds_the_limit_by_itself() {
        let mut run = Run::new(500.0 * MB);
        let disk = DiskState { debt: 0.5, ..CALM };
        let first = run.step(&disk).background_bytes_s.unwrap();
        assert!((50_000_000..53_000_000).contains(&first), "{first}");
        run.steps(40, &disk);
        assert!(run.did > 490.0 * MB, "{}", run.did);
    }

    #[test]
    fn a_late_foreground_closes_it_in_seconds_and_calm_opens_it_again() {
        let mut run = Run::new(500.0 * MB);
        run.steps(40, &CALM);
        assert!(run.did > 490.0 * MB);
        let late = DiskState { latencies_ns: writes(3_000_000), ..CALM };
        run.steps(6, &late);
        assert!(run.did < 50.0 * MB, "{}", run.did);
        run.steps(20, &CALM);
        assert!(run.did > 300.0 * MB, "{}", run.did);
    }

    #[test]
    fn lateness_never_becomes_usual_while_background_work_runs() {
        let mut run = Run::new(500.0 * MB);
        // It would be answered in 1 ms without background work, and is in 3 ms beside any.
        for _ in 0..600 {
            let latencies_ns = writes(if run.did > 5.0 * MB { 3_000_000 } else { 1_000_000 });
            run.step(&DiskState { latencies_ns, debt: 0.3, ..CALM });
        }
        // The need is done, and nothing more.
        assert!(run.did < 60.0 * MB, "{}", run.did);
    }

    #[test]
    fn it_rests_a_second_a_minute_where_it_never_does_and_never_in_debt() {
        for (debt, rests) in [(0.3, 5..=8), (0.6, 0..=0)] {
            let mut run = Run::new(500.0 * MB);
            let disk = DiskState { debt, ..CALM };
            let held = (0..400).filter(|_| run.step(&disk).background_bytes_s == Some(0)).count();
            assert!(rests.contains(&held), "{debt}: {held}");
        }
    }

    #[test]
    fn debt_outranks_latency() {
        let mut run = Run::new(500.0 * MB);
        run.steps(10, &CALM);
        let late = DiskState { latencies_ns: writes(9_000_000), debt: 0.92, ..CALM };
        let pace = run.steps(20, &late);
        assert_eq!(pace.background_bytes_s, None);
        let admitted = pace.admitted_bytes_s.unwrap();
        assert!((80_000_000..100_000_000).contains(&admitted), "{admitted}");
        let pace = run.step(&DiskState { debt: 0.95, ..late });
        assert_eq!(pace.admitted_bytes_s, Some(0));
        assert_eq!(run.step(&DiskState { debt: 0.69, ..late }).admitted_bytes_s, None);
    }

    #[test]
    fn what_is_left_may_be_used_where_nothing_is_drained() {
        let mut pacer = Pacer::default();
        let disk = DiskState { debt: 0.75, room_bytes: 20.0 * MB, ..CALM };
        assert_eq!(pacer.step(0, &disk).admitted_bytes_s, Some(2_000_000));
    }

    #[test]
    fn a_burst_after_a_long_lull_finds_the_full_rate() {
        let mut run = Run::new(500.0 * MB);
        run.steps(60, &CALM);
        let idle = DiskState {
            ingest_bytes_s: 0.0,
            debt: 0.0,
            latencies_ns: [None; Class::COUNT],
            ..CALM
        };
        (0..3_600).for_each(|_| {
            run.step(&idle);
            run.did = 0.0;
        });
        let burst = DiskState { ingest_bytes_s: 60.0 * MB, debt: 0.5, ..CALM };
        run.steps(2, &burst);
        assert!(run.did > 290.0 * MB, "what comes in is paid at once: {}", run.did);
    }

    #[test]
    fn a_writer_at_a_steady_pace_never_reaches_the_end() {
        // A disk of 200 MB/s; 30 MB/s come in at fivefold amplification; the end at 2 GB of debt.
        let mut run = Run::new(200.0 * MB);
        let (mut debt_bytes, mut worst) = (0.0_f64, 0.0_f64);
        for _ in 0..600 {
            let ingest = 30.0 * MB;
            debt_bytes = (debt_bytes + ingest * 5.0 - run.did).max(0.0);
            worst = worst.max(debt_bytes / 2e9);
            let latencies_ns = writes(if run.did > 100.0 * MB { 4_000_000 } else { 1_000_000 });
            let debt = debt_bytes / 2e9;
            let pace = run.step(&DiskState { ingest_bytes_s: ingest, debt, latencies_ns, ..CALM });
            assert_eq!(pace.admitted_bytes_s, None);
        }
        assert!(worst < 0.6, "{worst}");
    }

    #[test]
    fn a_writer_beyond_what_can_be_sustained_is_slowed_to_it() {
        // 60 MB/s are offered, 40 MB/s can be taken.
        let mut run = Run::new(200.0 * MB);
        let (mut debt_bytes, mut worst, mut taken) = (0.0_f64, 0.0_f64, 0.0);
        let mut pace = run.step(&CALM);
        for second in 0..600 {
            let offered = 60.0 * MB;
            let ingest = pace.admitted_bytes_s.map_or(offered, |it| offered.min(it as f64));
            if second >= 300 {
                taken += ingest / 300.0;
            }
            debt_bytes = (debt_bytes + ingest * 5.0 - run.did).max(0.0);
            let debt = debt_bytes / 2e9;
            worst = worst.max(debt);
            let latencies_ns = writes(4_000_000);
            pace = run.step(&DiskState { ingest_bytes_s: ingest, debt, latencies_ns, ..CALM });
        }
        assert!(worst < REFUSED_FROM, "{worst}");
        assert!(taken > 39.0 * MB, "{taken}");
    }

    proptest! {
        #[test]
        fn more_debt_never_slows_the_work_nor_admits_more_writes(
            a in 0.0f64..1.0, b in 0.0f64..1.0, late in 1u64..10, ingest in 0.0f64..1e9,
            did in 0.0f64..1e9,
        ) {
            let (low, high) = (a.min(b), a.max(b));
            let pace = |debt: f64| {
                let mut pacer = Pacer::default();
                pacer.step(0, &CALM);
                let latencies_ns = writes(late * 1_000_000);
                let of = DiskState { debt, latencies_ns, ingest_bytes_s: ingest, ..CALM };
                let drained_bytes_s = did / of.write_amplification;
                pacer.step(SECOND, &DiskState { background_bytes_s: did, drained_bytes_s, ..of })
            };
            let or_all = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
            let (low, high) = (pace(low), pace(high));
            prop_assert!(or_all(high.background_bytes_s) >= or_all(low.background_bytes_s));
            prop_assert!(or_all(high.admitted_bytes_s) <= or_all(low.admitted_bytes_s));
        }
    }
}
