//! The transfer window: how many bytes of a checkpoint or of a remote log to have under way at
//! once, and in chunks of what size, found by measurement instead of by settings (after BBR,
//! Cardwell, Cheng, Gunn, Yeganeh and Jacobson, CACM 2017).
//!
//! ```text
//! rate    = bytes that arrived between a chunk's request and its arrival / that time
//! best    = greatest rate of the last 10 rounds; a round ends when what was under way at its
//!           start has arrived
//! trip    = least time of a chunk, over 10 s; its own bytes are an eighth of the window, so that
//!           they lengthen it by no more than a seventh
//! window  = gain * best * trip, at least 4 least chunks
//! gain    = 2 at the start, until best has not grown by a quarter for 3 rounds; then 1.25 in one
//!           round of 8, to find more, 0.75 in the next, to drain that, else 1
//! chunk   = window / 8, between 64 KiB and 4 MiB
//! ```
//!
//! An error halves the window for a round. The pace of background work bounds the rate from
//! outside: the caller waits before a request where [`crate::pacing`] says so, and the window then
//! follows what arrives.

use std::collections::VecDeque;

use crate::average::whole;

const ROUNDS: usize = 10;
const TRIP_NS: u64 = 10_000_000_000;
const CHUNK_MIN: u64 = 64 << 10;
const CHUNK_MAX: u64 = 4 << 20;
const WINDOW_MAX: u64 = 1 << 30;
const CHUNKS: u64 = 8;
const GROWTH: f64 = 1.25;
const PATIENCE: u32 = 3;
const START_GAIN: f64 = 2.0;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

/// A chunk under way. Small, and given back when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its size.
    pub bytes: u64,
    sent_ns: u64,
    arrived_before: u64,
}

/// One transfer's window.
#[derive(Clone, Debug)]
pub struct TransferWindow {
    under_way: u64,
    arrived: u64,
    /// What must have arrived for the round to end.
    round_ends_at: u64,
    round: u64,
    /// The greatest rate of each recent round, bytes per second.
    rates: VecDeque<f64>,
    /// Candidates for the least trip: (seen at, ns), increasing in both.
    trips: VecDeque<(u64, u64)>,
    full_rate: f64,
    rounds_without_growth: u32,
    starting: bool,
    halved: bool,
}

impl Default for TransferWindow {
    fn default() -> Self {
        Self {
            under_way: 0,
            arrived: 0,
            round_ends_at: 0,
            round: 0,
            rates: VecDeque::from([0.0]),
            trips: VecDeque::new(),
            full_rate: 0.0,
            rounds_without_growth: 0,
            starting: true,
            halved: false,
        }
    }
}

impl TransferWindow {
    /// Bytes that may be under way.
    #[must_use]
    pub fn window(&self) -> u64 {
        let gain = match self.starting {
            true => START_GAIN,
            false => CYCLE[usize::try_from(self.round % 8).unwrap_or(0)],
        };
        let trip_s = self.trips.front().map_or(0.0, |(_, ns)| *ns as f64 / 1e9);
        let window = whole(gain * self.best_rate() * trip_s);
        let window = if self.halved { window / 2 } else { window };
        window.clamp(4 * CHUNK_MIN, WINDOW_MAX)
    }

    /// The size of the next chunk to ask for; none while the window is full.
    #[must_use]
    pub fn next_chunk(&self) -> Option<u64> {
        let chunk = (self.window() / CHUNKS).clamp(CHUNK_MIN, CHUNK_MAX);
        (self.under_way == 0 || self.under_way + chunk <= self.window()).then_some(chunk)
    }

    /// A chunk was asked for.
    #[must_use]
    pub fn on_send(&mut self, now_ns: u64, bytes: u64) -> Chunk {
        self.under_way += bytes;
        Chunk { bytes, sent_ns: now_ns, arrived_before: self.arrived }
    }

    /// It arrived whole.
    pub fn on_arrival(&mut self, now_ns: u64, chunk: Chunk) {
        self.end(chunk);
        self.arrived += chunk.bytes;
        let took_ns = now_ns.saturating_sub(chunk.sent_ns).max(1);
        let rate = (self.arrived - chunk.arrived_before) as f64 / (took_ns as f64 / 1e9);
        if let Some(best) = self.rates.back_mut() {
            *best = best.max(rate);
        }
        self.add_trip(now_ns, took_ns);
        if chunk.arrived_before >= self.round_ends_at {
            self.end_round();
        }
    }

    /// It failed or timed out.
    pub fn on_error(&mut self, chunk: Chunk) {
        self.end(chunk);
        self.halved = true;
        self.starting = false;
    }

    /// The greatest rate of late, bytes per second; 0 before anything has arrived.
    #[must_use]
    pub fn best_rate(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    fn end(&mut self, chunk: Chunk) {
        assert!(self.under_way >= chunk.bytes, "a chunk ends once");
        self.under_way -= chunk.bytes;
    }

    fn end_round(&mut self) {
        self.round += 1;
        self.round_ends_at = self.arrived + self.under_way;
        self.halved = false;
        if self.best_rate() >= self.full_rate * GROWTH {
            self.full_rate = self.best_rate();
            self.rounds_without_growth = 0;
        } else {
            self.rounds_without_growth += 1;
            self.starting &= self.rounds_without_growth < PATIENCE;
        }
        if self.rates.len() == ROUNDS {
            self.rates.pop_front();
        }
        self.rates.push_back(0.0);
    }

    /// Keeps the least trip of the last 10 s at the front.
    fn add_trip(&mut self, now_ns: u64, trip_ns: u64) {
        while self.trips.back().is_some_and(|(_, ns)| *ns >= trip_ns) {
            self.trips.pop_back();
        }
        self.trips.push_back((now_ns, trip_ns));
        let old = |at_ns: u64| now_ns.saturating_sub(at_ns) > TRIP_NS;
        while self.trips.len() > 1 && self.trips.front().is_some_and(|(at_ns, _)| old(*at_ns)) {
            self.trips.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MS;

    /// A link that delivers in order at `rate(now)` bytes a second after half a trip each way.
    /// Returns the bytes that arrived in the second half, and the most that was under way.
    fn link(trip_ns: u64, end_ns: u64, rate: impl Fn(u64) -> f64) -> (u64, u64) {
        let mut window = TransferWindow::default();
        let mut arriving: VecDeque<(u64, Chunk)> = VecDeque::new();
        let (mut now, mut free_at, mut arrived, mut most) = (0, 0, 0, 0);
        while now < end_ns {
            while let Some(bytes) = window.next_chunk() {
                let starts = (now + trip_ns / 2).max(free_at);
                free_at = starts + whole(bytes as f64 / rate(now) * 1e9);
                arriving.push_back((free_at + trip_ns / 2, window.on_send(now, bytes)));
            }
            let Some((at, chunk)) = arriving.pop_front() else { break };
            now = at;
            window.on_arrival(now, chunk);
            if now > end_ns / 2 {
                arrived += chunk.bytes;
                most = most.max(window.under_way + chunk.bytes);
            }
        }
        (arrived, most)
    }

    #[test]
    fn it_fills_links_of_any_length_and_breadth_without_flooding_them() {
        for (trip_ms, rate) in [(1, 1e9), (20, 1e8), (100, 1e7), (150, 1e8), (5, 2e7)] {
            let (arrived, most) = link(trip_ms * MS, 20 * SECOND, |_| rate);
            let used = arrived as f64 / (10.0 * rate);
            let fill = (rate * trip_ms as f64 / 1e3).max(4.0 * CHUNK_MIN as f64);
            assert!(used > 0.85, "{trip_ms} ms, {rate} B/s: {used}");
            assert!((most as f64) < 4.0 * fill, "{trip_ms} ms, {rate} B/s: {most} of {fill}");
        }
    }

    #[test]
    fn it_follows_a_link_that_narrows_and_widens() {
        let narrowing = |now: u64| if now < 5 * SECOND { 1e8 } else { 1e7 };
        let (_, most) = link(50 * MS, 40 * SECOND, narrowing);
        assert!(most < 4_000_000, "{most}");
        let widening = |now: u64| if now < 5 * SECOND { 1e7 } else { 1e8 };
        let (arrived, _) = link(50 * MS, 60 * SECOND, widening);
        assert!(arrived as f64 > 0.8 * 30.0 * 1e8, "{arrived}");
    }

    #[test]
    fn an_error_halves_the_window_and_a_round_restores_it() {
        let mut window = TransferWindow::default();
        let mut now = 0;
        for _ in 0..50 {
            let chunks: Vec<Chunk> = (0..4).map(|_| window.on_send(now, 1 << 20)).collect();
            now += 50 * MS;
            chunks.into_iter().for_each(|chunk| window.on_arrival(now, chunk));
        }
        let before = window.window();
        let failed = window.on_send(now, 1 << 20);
        window.on_error(failed);
        assert!(window.window() <= before / 2 + 4 * CHUNK_MIN);
        assert!(window.next_chunk().is_some(), "one chunk may always go");
        for _ in 0..3 {
            let chunk = window.on_send(now, 1 << 20);
            now += 50 * MS;
            window.on_arrival(now, chunk);
        }
        assert!(window.window() > before / 2);
    }
}
