//! The measured window (after BBR: Cardwell, Cheng, Gunn, Yeganeh and Jacobson, CACM 2017; the slow
//! start that ends by delay: HyStart, Ha and Rhee, 2011).
//!
//! ```text
//! trip     = least time of a chunk, less what its source held it back: since the last drain, at
//!            most 24 s old; 1 s at most counts
//! round    = until a chunk that was sent after the round began has arrived
//! rate     = bytes that arrived in a round / its length;  best = greatest of the last 10 rounds
//! jitter   = how much longer the mean trip of a round is than its least, averaged; at most a trip
//! window   = at the start 2 MiB + what has arrived, which doubles it in a trip;
//!            then gain * best * (trip + jitter) + 256 KiB
//! gain     = 1.25, and 1.5 in one round of 8, to find more
//! start    = ends when 8 chunks in a row took 1.5 trips, or best has not grown by a quarter for 3
//!            rounds
//! crowded  = the least trip of the last round is over 2 trips: window by the rate of that round
//! yielding = window = 0.625 * rate of the last round * (trip + jitter): less in each round
//! chunk    = window / 16, between 64 KiB and 4 MiB; sent while less than the window is under way
//! drain    = 2 chunks of 64 KiB at a time, for two trips in each 20 s of the clock, and until one
//!            of them has arrived (10 s at most); not in the first 5 s, nor in those after a pause of
//!            a second, when no queue is ours
//! ```
//!
//! A quarter more than the link holds lies in its queue, so that late answers do not empty it. That
//! queue, and those of other nodes, would be taken for the length of the link: all nodes drain at the
//! same moment of a clock that they compare anyway, and measure the trip then. A node that came late
//! and knows a trip that is too long probes for nothing more until it has drained. Mean rates of whole
//! rounds add up to what the link carries; the best of single chunks would not, and the windows of
//! nine nodes would grow without end. The 256 KiB push those apart who have little and who have much.
//!
//! Records of tables that are followed already use the same link and go first: while they come late, the
//! caller has the window yield, so that it shrinks by a third in each trip, and grows again by a quarter.
//!
//! The window stands above the connection's own: too large costs memory and waiting, too small costs
//! rate. An error halves it for a round. The pace of background work bounds the rate from outside: the
//! caller waits before a request where [`crate::pacing`] says so, and the window follows what arrives.

use std::collections::VecDeque;

use super::chunk::Chunk;
use crate::average::whole;

const ROUNDS: usize = 10;
const CHUNK_MIN: u64 = 64 << 10;
const CHUNK_MAX: u64 = 4 << 20;
const CHUNKS: u64 = 16;
const WINDOW_FIRST: u64 = 2 << 20;
const WINDOW_MIN: u64 = 2 * CHUNK_MIN;
const WINDOW_MAX: u64 = 1 << 30;
const PUSH: u64 = 256 << 10;
const CRUISE_GAIN: f64 = 1.25;
const PROBE_GAIN: f64 = 1.5;
const YIELDING_GAIN: f64 = 0.625;
const PROBE_EVERY: u64 = 8;
const GROWTH: f64 = 1.25;
const PATIENCE: u32 = 3;
const QUEUED: f64 = 1.5;
const QUEUED_CHUNKS: u32 = 8;
const CROWDED: f64 = 2.0;
/// A longer trip is a queue, not a link.
const TRIP_MAX_NS: u64 = 1_000_000_000;
const TRIP_AGE_MAX_NS: u64 = 24_000_000_000;
const DRAIN_EVERY_NS: u64 = 20_000_000_000;
const DRAIN_TRIPS: u64 = 2;
const DRAIN_MAX_NS: u64 = 10_000_000_000;
const DRAIN_WINDOW: u64 = 2 * CHUNK_MIN;
const YOUNG_NS: u64 = 5_000_000_000;
const PAUSE_NS: u64 = 1_000_000_000;

/// The window of one node to one source.
#[derive(Clone, Debug)]
pub struct TransferWindow {
    /// What to add to the caller's time to have the clock on which all nodes drain.
    clock_ahead_ns: u64,
    /// When the first chunk was sent, or the first after a pause.
    began_ns: u64,
    /// When a chunk was sent or arrived last; none before the first.
    used_ns: Option<u64>,
    sent: u64,
    under_way: u64,
    arrived: u64,
    is_starting: bool,
    is_halved: bool,
    is_yielding: bool,
    /// Chunks in a row that met a queue.
    queued: u32,
    /// How many rounds have ended.
    rounds: u64,
    round: Round,
    /// The rate and the least trip of the round that ended last.
    last_rate: f64,
    last_trip_ns: u64,
    jitter_ns: f64,
    /// The rates of recent rounds, bytes per second.
    rates: VecDeque<f64>,
    /// The greatest rate when it last grew by a quarter, and rounds since.
    full_rate: f64,
    rounds_without_growth: u32,
    /// Candidates for the least trip: (seen at, ns), increasing in both.
    trips: VecDeque<(u64, u64)>,
    /// The last drain in which a trip was measured; none before the first.
    drained: Option<u64>,
}

/// The round under way.
#[derive(Clone, Debug, Default)]
struct Round {
    began_ns: u64,
    /// What had arrived when it began, and what is to have arrived before the first chunk is sent
    /// whose arrival ends it.
    began_bytes: u64,
    ends_bytes: u64,
    least_trip_ns: Option<u64>,
    trips_ns: f64,
    chunks: f64,
}

impl TransferWindow {
    /// A window that knows nothing yet. `clock_ahead_ns` is how far the clock that all nodes share
    /// is ahead of the time that the caller hands in; a tenth of a second off does no harm.
    #[must_use]
    pub fn new(clock_ahead_ns: u64) -> Self {
        Self {
            clock_ahead_ns,
            began_ns: 0,
            used_ns: None,
            sent: 0,
            under_way: 0,
            arrived: 0,
            is_starting: true,
            is_halved: false,
            is_yielding: false,
            queued: 0,
            rounds: 0,
            round: Round::default(),
            last_rate: 0.0,
            last_trip_ns: 0,
            jitter_ns: 0.0,
            rates: VecDeque::new(),
            full_rate: 0.0,
            rounds_without_growth: 0,
            trips: VecDeque::new(),
            drained: None,
        }
    }

    /// Bytes that may be under way at `now_ns`.
    #[must_use]
    pub fn window(&self, now_ns: u64) -> u64 {
        if self.is_draining(now_ns) { DRAIN_WINDOW } else { self.full_window() }
    }

    /// The size of the next chunk to ask for; none while the window is full.
    #[must_use]
    pub fn next_chunk(&self, now_ns: u64) -> Option<u64> {
        let is_draining = self.is_draining(now_ns);
        let window = if is_draining { DRAIN_WINDOW } else { self.full_window() };
        let chunk = if is_draining { CHUNK_MIN } else { window / CHUNKS };
        (self.under_way < window).then_some(chunk.clamp(CHUNK_MIN, CHUNK_MAX))
    }

    /// A chunk was asked for.
    #[must_use]
    pub fn on_send(&mut self, now_ns: u64, bytes: u64) -> Chunk {
        if self.has_paused(now_ns) {
            self.began_ns = now_ns;
        }
        self.used_ns = Some(now_ns);
        self.under_way += bytes;
        self.sent += 1;
        Chunk { bytes, sent_ns: now_ns, arrived_before: self.arrived, number: self.sent }
    }

    /// It arrived whole; its source says that it waited `held_ns` for its own pace.
    pub fn on_arrival(&mut self, now_ns: u64, chunk: Chunk, held_ns: u64) {
        self.end(chunk);
        self.used_ns = Some(now_ns);
        self.arrived += chunk.bytes;
        let took_ns = now_ns.saturating_sub(chunk.sent_ns).max(1);
        let trip_ns = took_ns.saturating_sub(held_ns).max(1);
        self.add_trip(now_ns, trip_ns, chunk);
        let is_queued = trip_ns as f64 > QUEUED * self.trip_ns() as f64;
        self.queued = if is_queued { self.queued + 1 } else { 0 };
        if self.is_starting && self.queued >= QUEUED_CHUNKS {
            self.is_starting = false;
            // The round under way began when the window was smaller.
            let arrived = self.arrived - chunk.arrived_before;
            self.rates.push_back(arrived as f64 / (took_ns as f64 / 1e9));
        }
        if chunk.arrived_before >= self.round.ends_bytes {
            self.end_round(now_ns);
        }
    }

    /// It failed or timed out.
    pub fn on_error(&mut self, chunk: Chunk) {
        self.end(chunk);
        self.is_halved = true;
        self.is_starting = false;
    }

    /// Whether what goes first on the same link comes late: until it does no more, less and less is under way.
    pub fn set_yielding(&mut self, is_yielding: bool) {
        self.is_yielding = is_yielding;
        self.is_starting &= !is_yielding;
    }

    /// Whether it still grows to find what the link carries.
    #[must_use]
    pub fn is_starting(&self) -> bool {
        self.is_starting
    }

    /// The greatest rate of late, bytes per second; 0 before a round has ended.
    #[must_use]
    pub fn best_rate(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    /// The least trip, ns; 0 before anything has arrived.
    #[must_use]
    pub fn trip_ns(&self) -> u64 {
        self.trips.front().map_or(0, |(_, ns)| *ns)
    }

    fn full_window(&self) -> u64 {
        let window = if self.is_starting {
            WINDOW_FIRST + self.arrived
        } else {
            let is_crowded = self.last_trip_ns as f64 > CROWDED * self.trip_ns() as f64;
            let is_cautious = is_crowded || self.is_yielding;
            let rate = if is_cautious { self.last_rate } else { self.best_rate() };
            let may_probe = !is_crowded && self.drained.is_some();
            let (gain, push) = match () {
                () if self.is_yielding => (YIELDING_GAIN, 0),
                () if may_probe && self.rounds.is_multiple_of(PROBE_EVERY) => (PROBE_GAIN, PUSH),
                () => (CRUISE_GAIN, PUSH),
            };
            let trip_ns = self.trip_ns().min(TRIP_MAX_NS) as f64;
            let full_ns = trip_ns + self.jitter_ns.min(trip_ns);
            push + whole(gain * rate * full_ns / 1e9)
        };
        let window = if self.is_halved { window / 2 } else { window };
        window.clamp(WINDOW_MIN, WINDOW_MAX)
    }

    /// The number of the last drain that has begun by `now_ns`, and how long ago that was.
    fn drain(&self, now_ns: u64) -> (u64, u64) {
        let clock_ns = now_ns.saturating_add(self.clock_ahead_ns);
        (clock_ns / DRAIN_EVERY_NS, clock_ns % DRAIN_EVERY_NS)
    }

    /// Whether nothing has been under way for so long that no queue is of its own, or ever.
    fn has_paused(&self, now_ns: u64) -> bool {
        let is_long = |used_ns: u64| now_ns.saturating_sub(used_ns) >= PAUSE_NS;
        self.under_way == 0 && self.used_ns.is_none_or(is_long)
    }

    fn is_draining(&self, now_ns: u64) -> bool {
        let (drain, since_ns) = self.drain(now_ns);
        let was_young = self.has_paused(now_ns) || now_ns < self.began_ns + since_ns + YOUNG_NS;
        let is_measured = self.drained == Some(drain);
        let ends_ns = if is_measured { DRAIN_TRIPS * self.trip_ns() } else { DRAIN_MAX_NS };
        !was_young && since_ns < ends_ns.min(DRAIN_MAX_NS)
    }

    fn end(&mut self, chunk: Chunk) {
        assert!(self.under_way >= chunk.bytes, "a chunk ends once");
        self.under_way -= chunk.bytes;
    }

    fn end_round(&mut self, now_ns: u64) {
        let Round { began_ns, began_bytes, least_trip_ns, trips_ns, chunks, .. } = self.round;
        let took_ns = now_ns.saturating_sub(began_ns).max(1);
        self.last_rate = (self.arrived - began_bytes) as f64 / (took_ns as f64 / 1e9);
        self.last_trip_ns = least_trip_ns.unwrap_or(0);
        // The first round is one chunk and the way to it.
        if self.rounds > 0 {
            if self.rates.len() == ROUNDS {
                self.rates.pop_front();
            }
            self.rates.push_back(self.last_rate);
            let jitter_ns = (trips_ns / chunks - self.last_trip_ns as f64).max(0.0);
            self.jitter_ns = (self.jitter_ns + jitter_ns) / 2.0;
        }
        self.rounds += 1;
        self.is_halved = false;
        self.round = Round {
            began_ns: now_ns,
            began_bytes: self.arrived,
            ends_bytes: self.arrived + self.under_way,
            ..Round::default()
        };
        if self.best_rate() >= self.full_rate * GROWTH {
            self.full_rate = self.best_rate();
            self.rounds_without_growth = 0;
        } else {
            self.rounds_without_growth += 1;
            self.is_starting &= self.rounds_without_growth < PATIENCE;
        }
    }

    /// Keeps the least trip at the front. What is measured first in a drain replaces all before it,
    /// also where the link has become longer.
    fn add_trip(&mut self, now_ns: u64, trip_ns: u64, chunk: Chunk) {
        let (drain, _) = self.drain(chunk.sent_ns);
        let is_drained = chunk.bytes <= CHUNK_MIN && self.is_draining(chunk.sent_ns);
        if is_drained && self.drained != Some(drain) {
            self.drained = Some(drain);
            self.trips.clear();
        }
        while self.trips.back().is_some_and(|(_, ns)| *ns >= trip_ns) {
            self.trips.pop_back();
        }
        self.trips.push_back((now_ns, trip_ns));
        let is_old = |at_ns: u64| now_ns.saturating_sub(at_ns) > TRIP_AGE_MAX_NS;
        while self.trips.len() > 1 && self.trips.front().is_some_and(|(at_ns, _)| is_old(*at_ns)) {
            self.trips.pop_front();
        }
        let round = &mut self.round;
        round.least_trip_ns = Some(round.least_trip_ns.map_or(trip_ns, |ns| ns.min(trip_ns)));
        round.trips_ns += trip_ns as f64;
        round.chunks += 1.0;
    }
}
