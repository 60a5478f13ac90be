//! Keeps what a wrong clock says out of the log: every append passes here, whoever makes it (leads,
//! barriers, beats). Reads pass untouched: what others appended may always be applied.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use plimsoll_base::Time;
use plimsoll_control::selection::NodeId;
use plimsoll_log::{
    AppendDone, AppendError, Bounds, GroupId, Incarnation, Log, LogError, Lsn, Reader, Stats,
};

use super::lone::{LASTS_MS, LoneClock, Look};
use super::skew::{Clocks, SKEW_MAX_MS};

/// This node's clock, and what is known of how right it is.
pub(crate) struct OwnClock {
    /// The clock less the steady one when it was believed last, ms; reads ask for it all the time.
    believed: AtomicI64,
    state: Mutex<ClockState>,
    time: Time,
}

/// Nothing was believed yet.
const UNKNOWN: i64 = i64::MIN;

#[derive(Default)]
struct ClockState {
    clocks: Clocks,
    /// Where there is no other clock to compare with.
    lone: Option<LoneClock>,
    fault: Option<ClockFault>,
}

/// Why nothing may be appended by a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClockFault {
    /// It stepped, and the others' clocks were not asked since.
    #[error("this node's clock stepped and was not compared with others yet")]
    NotCompared,
    /// It is at least so much from the others'; ms, positive where it is ahead.
    #[error("this node's clock is at least {} ms {} the others'", .0.unsigned_abs(), way(*.0))]
    Skewed(i64),
    /// It stepped by so much, ms, and there is no other to compare it with.
    #[error(
        "this node's clock stepped by {0} ms: it is believed once that has lasted for {lasts} s",
        lasts = LASTS_MS / 1_000
    )]
    Stepped(i64),
}

fn way(skew_ms: i64) -> &'static str {
    if skew_ms > 0 { "ahead of" } else { "behind" }
}

impl OwnClock {
    /// One that is compared with those of other nodes.
    fn compared(time: Time) -> Self {
        Self::new(ClockState::default(), time)
    }

    /// One that there is no other for.
    fn lone(time: Time) -> Self {
        Self::new(ClockState { lone: Some(LoneClock::default()), ..ClockState::default() }, time)
    }

    fn new(state: ClockState, time: Time) -> Self {
        let believed = AtomicI64::new(UNKNOWN);
        Self { believed, state: Mutex::new(state), time }
    }

    /// The time that it is told by.
    pub(crate) fn time(&self) -> &Time {
        &self.time
    }

    /// What reads go by, ms since 1970: the clock; after a step that is not believed yet, what it
    /// would say without that. Nothing that a write still finds expires for a read.
    pub(crate) fn read_ms(&self) -> u64 {
        let (clock_ms, steady_ms) = (self.time.wall_ms(), self.time.steady_ms());
        let believed = self.believed.load(Ordering::Relaxed);
        let step = clock_ms.wrapping_sub(steady_ms).cast_signed().saturating_sub(believed);
        if believed == UNKNOWN || step.abs() <= SKEW_MAX_MS {
            return clock_ms;
        }
        steady_ms.saturating_add_signed(believed)
    }

    /// Why nothing may be appended by this clock.
    ///
    /// # Errors
    /// It stepped, or is too far from the others'.
    pub(crate) fn check(&self) -> Result<(), ClockFault> {
        let mut state = self.state.lock();
        if let Some(lone) = &mut state.lone {
            let (clock_ms, steady_ms) = (self.time.wall_ms(), self.time.steady_ms());
            let look = lone.observe(clock_ms, steady_ms);
            let step_ms = if let Look::Stepped(step_ms) = look { step_ms } else { 0 };
            let offset_ms = clock_ms.wrapping_sub(steady_ms).cast_signed();
            self.believed.store(offset_ms.wrapping_sub(step_ms), Ordering::Relaxed);
            return state.judge_alone(look);
        }
        state.observe(&self.time);
        if state.clocks.has_stepped() {
            return Err(ClockFault::NotCompared);
        }
        state.fault.map_or(Ok(()), Err)
    }

    /// What others are told: the clock, ms since 1970, and whether they should not go by it.
    pub(crate) fn told(&self) -> (u64, bool) {
        let mut state = self.state.lock();
        let now_ms = state.observe(&self.time);
        (now_ms, state.clocks.is_in_doubt())
    }

    /// Learns what another node's clock said between two moments of this one, ms since 1970, and whether it is in
    /// doubt.
    pub(super) fn hear(
        &self,
        node: NodeId,
        [asked_ms, theirs_ms, answered_ms]: [u64; 3],
        is_in_doubt: bool,
    ) {
        let steady_ms = self.time.steady_ms();
        let mut state = self.state.lock();
        // A step since the question would make the answer say nothing.
        state.observe(&self.time);
        state.clocks.hear(node, [asked_ms, theirs_ms, answered_ms], is_in_doubt, steady_ms);
    }

    /// Judges by what was heard of those who were asked at a time of the steady clock, ms; where nobody else is
    /// there, the clock is right.
    pub(super) fn judge(&self, asked_ms: u64, is_alone: bool) {
        let mut state = self.state.lock();
        state.observe(&self.time);
        if is_alone {
            state.clocks.believe_alone();
        }
        let steady_ms = self.time.steady_ms();
        state.clocks.end_round(asked_ms, steady_ms);
        let found = match state.clocks.skew_ms(steady_ms) {
            Some(skew_ms) => Some(ClockFault::Skewed(skew_ms)),
            // That those are gone who contradicted it does not make right a clock that stepped.
            None if state.clocks.is_in_doubt() && !state.clocks.hears(steady_ms) => state.fault,
            None => None,
        };
        match (&found, &state.fault) {
            (Some(fault), None) => {
                tracing::error!(%fault, allowed_ms = SKEW_MAX_MS, "the node stops serving");
            }
            (None, Some(_)) => tracing::info!("the clock is right again, the node serves"),
            _ => {}
        }
        if state.clocks.is_of_most(self.time.steady_ms()) {
            let offset_ms = self.time.wall_ms().wrapping_sub(self.time.steady_ms());
            self.believed.store(offset_ms.cast_signed(), Ordering::Relaxed);
        }
        state.fault = found;
    }
}

impl ClockState {
    /// Looks at the clock, ms since 1970; a step is logged.
    fn observe(&mut self, time: &Time) -> u64 {
        let now_ms = time.wall_ms();
        if self.clocks.observe(now_ms, time.steady_ms()) {
            tracing::warn!("this node's clock stepped: it is compared with the others'");
        }
        now_ms
    }

    /// # Errors
    /// While a step is not believed.
    fn judge_alone(&mut self, look: Look) -> Result<(), ClockFault> {
        match look {
            Look::Believed if self.fault.is_some() => tracing::info!("the clock is right again"),
            Look::Believed => {}
            Look::Lasted(step_ms) => {
                tracing::warn!(step_ms, "this node's clock stepped, and is believed from now on");
            }
            Look::Stepped(step_ms) => {
                let fault = ClockFault::Stepped(step_ms);
                if self.fault.is_none() {
                    tracing::error!(%fault, "the node takes no writes for now");
                }
                self.fault = Some(fault);
                return Err(fault);
            }
        }
        self.fault = None;
        Ok(())
    }
}

/// A log that takes nothing while this node's clock is wrong.
pub(crate) struct GuardedLog {
    log: Arc<dyn Log>,
    clock: Arc<OwnClock>,
}

impl GuardedLog {
    /// A log that others append to as well, and the clock that is compared with theirs.
    pub(crate) fn around(log: Arc<dyn Log>, time: Time) -> (Arc<dyn Log>, Arc<OwnClock>) {
        Self::with(log, OwnClock::compared(time))
    }

    /// A log that nobody else appends to.
    pub(crate) fn alone(log: Arc<dyn Log>, time: Time) -> (Arc<dyn Log>, Arc<OwnClock>) {
        Self::with(log, OwnClock::lone(time))
    }

    fn with(log: Arc<dyn Log>, clock: OwnClock) -> (Arc<dyn Log>, Arc<OwnClock>) {
        let clock = Arc::new(clock);
        (Arc::new(Self { log, clock: Arc::clone(&clock) }), clock)
    }
}

impl Log for GuardedLog {
    fn incarnation(&self) -> Incarnation {
        self.log.incarnation()
    }

    /// Where the append is refused, `done` is called before this returns.
    fn append(&self, group: GroupId, record: Bytes, done: AppendDone) {
        match self.clock.check() {
            Ok(()) => self.log.append(group, record, done),
            Err(fault) => done(Err(AppendError::Refused(fault.to_string()))),
        }
    }

    fn read(&self, from: &[(GroupId, Lsn)]) -> Result<Box<dyn Reader>, LogError> {
        self.log.read(from)
    }

    fn bounds(&self, group: GroupId) -> Result<Bounds, LogError> {
        self.log.bounds(group)
    }

    fn held_bytes(&self, group: GroupId) -> Result<Option<u64>, LogError> {
        self.log.held_bytes(group)
    }

    fn bytes_after(&self, group: GroupId, lsn: Lsn) -> Result<Option<u64>, LogError> {
        self.log.bytes_after(group, lsn)
    }

    fn trim(&self, group: GroupId, up_to: Lsn) -> Result<(), LogError> {
        self.log.trim(group, up_to)
    }

    fn sync(&self) -> Result<(), LogError> {
        self.log.sync()
    }

    fn health(&self) -> Result<(), LogError> {
        self.clock.check().map_err(|fault| LogError::Failed(fault.to_string()))?;
        self.log.health()
    }

    fn stats(&self) -> Stats {
        self.log.stats()
    }
}
