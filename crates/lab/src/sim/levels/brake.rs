//! What holds background work and writes of one node back, by arm: nothing, RocksDB's limiter, or the law
//! that nodes run (`plimsoll_control::pacing`), asked once a second as `cluster`'s pacing thread asks it and
//! kept to as `storage`'s compaction filter keeps to it.

use std::time::Duration;

use plimsoll_control::Class;
use plimsoll_control::average::whole;
use plimsoll_control::pacing::ahead::{AHEAD_OF_LEVEL_0_S, AHEAD_S, SLEEP_MAX};
use plimsoll_control::pacing::{Admitted, CompactionPacer, Counted, Felt, Passed};

use super::limiter::Limiter;
use super::spec::Arm;

/// What becomes of work that wants to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum May {
    GoOn,
    /// It asks again then.
    AskIn(u64),
    /// The limiter names it.
    Wait,
}

#[derive(Debug)]
pub(super) enum Brake {
    Open,
    Limiter(Limiter),
    Ours(Box<Ours>),
}

/// The law, and what it is asked from.
#[derive(Debug)]
pub(super) struct Ours {
    pacer: CompactionPacer,
    passed: Passed,
    passed_bytes: f64,
    admitted: Admitted,
    felt: Felt,
    bytes_s: Option<u64>,
}

impl Brake {
    pub(super) fn new(arm: Arm) -> Self {
        match arm {
            Arm::Off => Self::Open,
            Arm::Limiter { bytes_s } => Self::Limiter(Limiter::new(bytes_s, false)),
            Arm::Auto { bytes_s } => Self::Limiter(Limiter::new(bytes_s, true)),
            Arm::Ours => Self::Ours(Box::new(Ours {
                pacer: CompactionPacer::default(),
                passed: Passed::default(),
                passed_bytes: 0.0,
                admitted: Admitted::default(),
                felt: Felt::new(0),
                bytes_s: None,
            })),
        }
    }

    /// A compaction of a level passed so many bytes of rows; none where it only asks again.
    pub(super) fn pass(&mut self, now_ns: u64, level: usize, bytes: f64) -> May {
        let Self::Ours(ours) = self else { return May::GoOn };
        ours.passed_bytes += bytes;
        let ahead_s = if level == 0 { AHEAD_OF_LEVEL_0_S } else { AHEAD_S };
        match ours.passed.add(now_ns, ours.bytes_s, whole(bytes), ahead_s) {
            Duration::ZERO => May::GoOn,
            wait => May::AskIn(u64::try_from(wait.min(SLEEP_MAX).as_nanos()).unwrap_or(0).max(1)),
        }
    }

    /// Background work wants to write so many bytes.
    pub(super) fn write(&mut self, work: usize, bytes: f64, is_flush: bool) -> May {
        let Self::Limiter(limiter) = self else { return May::GoOn };
        if limiter.ask(work, bytes, is_flush) { May::GoOn } else { May::Wait }
    }

    /// How long a write of so many bytes waits before it is let in; none where it is refused.
    pub(super) fn admit(&mut self, now_ns: u64, bytes: f64) -> Option<u64> {
        let Self::Ours(ours) = self else { return Some(0) };
        let wait = ours.admitted.take(now_ns, whole(bytes))?;
        Some(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(super) fn felt(&mut self, now_ns: u64, class: Class, latency_ns: u64) {
        if let Self::Ours(ours) = self {
            ours.felt.add(now_ns, class, latency_ns);
        }
    }

    /// A second is over. What the stores count is in `counted`; what is known here is added.
    pub(super) fn second(&mut self, now_ns: u64, counted: &Counted) {
        let Self::Ours(ours) = self else { return };
        let counted = Counted {
            passed_bytes: whole(ours.passed_bytes),
            latencies_ns: ours.felt.take(now_ns).latencies_ns,
            ..*counted
        };
        let pace = ours.pacer.step(now_ns, &counted).map(|(_, pace)| pace);
        ours.bytes_s = pace.and_then(|pace| pace.background_bytes_s);
        ours.admitted.set(now_ns, pace.and_then(|pace| pace.admitted_bytes_s));
    }
}
