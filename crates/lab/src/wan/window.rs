//! The window of one direction of one connection, as TCP has it: how many bytes may be under way
//! before the first of them are acknowledged. It begins small and doubles each round trip, so that a
//! fresh connection over a long link is slow at first; it ends at what the sockets' buffers hold, which
//! bounds one connection and is why several can be faster; a loss halves it (Reno, RFC 5681: an initial
//! window of 10 segments after RFC 6928, slow start, congestion avoidance, halving, slow start after
//! idle). Pure: when bytes enter and when they arrive is handed in.

use std::collections::VecDeque;
use std::time::Duration;

/// What a segment of TCP carries over an ordinary Ethernet.
pub(super) const SEGMENT_BYTES: usize = 1_448;
/// Segments that a new or idle connection may send before it has heard anything.
const INITIAL_BYTES: usize = 10 * SEGMENT_BYTES;
/// The window is never smaller.
const LEAST_BYTES: usize = 2 * SEGMENT_BYTES;
/// A connection that was silent for so many trips begins anew.
const IDLE_TRIPS: u32 = 3;

/// One direction of one connection.
#[derive(Clone, Debug)]
pub struct Window {
    /// What the sockets' buffers hold; 0 means that nothing bounds it.
    bytes_max: usize,
    bytes: usize,
    /// Slow start ends here.
    threshold: usize,
    /// What is under way: when it is acknowledged, and how many bytes.
    under_way: VecDeque<(Duration, usize)>,
    under_way_bytes: usize,
    /// Until then one more loss is the same event.
    recovers_at: Duration,
    used_at: Duration,
}

impl Window {
    /// That of a new connection.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            bytes: INITIAL_BYTES,
            threshold: usize::MAX,
            under_way: VecDeque::new(),
            under_way_bytes: 0,
            recovers_at: Duration::ZERO,
            used_at: Duration::ZERO,
        }
    }

    /// When bytes that are there at `now` may enter the link: at once, or when enough of what is
    /// under way is acknowledged. More than the window holds enter alone.
    pub fn entry(&mut self, now: Duration, bytes: usize, trip: Duration) -> Duration {
        if self.bytes_max == 0 {
            return now;
        }
        let mut at = now;
        self.acknowledge(at);
        if self.under_way.is_empty() && now.saturating_sub(self.used_at) > trip * IDLE_TRIPS {
            self.bytes = self.bytes.min(INITIAL_BYTES);
        }
        while self.under_way_bytes > 0
            && self.under_way_bytes + bytes > self.bytes
            && let Some((heard, _)) = self.under_way.front()
        {
            at = at.max(*heard);
            self.acknowledge(at);
        }
        at
    }

    /// Bytes entered and arrive at `arrival`; the answer takes `delay`. Of what is lost, all that
    /// was sent up to its repetition belongs to one loss.
    pub fn entered(&mut self, arrival: Duration, bytes: usize, delay: Duration, is_lost: bool) {
        if self.bytes_max == 0 {
            return;
        }
        let heard = arrival + delay;
        let last = self.under_way.back().map_or(Duration::ZERO, |(at, _)| *at);
        self.under_way.push_back((heard.max(last), bytes));
        self.under_way_bytes += bytes;
        self.used_at = arrival;
        if is_lost && arrival > self.recovers_at {
            self.threshold = (self.bytes / 2).max(LEAST_BYTES);
            self.bytes = self.threshold;
            self.recovers_at = heard;
        }
    }

    /// How many bytes may be under way now.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn acknowledge(&mut self, now: Duration) {
        while let Some((heard, bytes)) = self.under_way.front().copied()
            && heard <= now
        {
            self.under_way.pop_front();
            self.under_way_bytes -= bytes;
            let more = match self.bytes < self.threshold {
                true => bytes,
                false => (SEGMENT_BYTES * bytes / self.bytes).max(1),
            };
            self.bytes = (self.bytes + more).min(self.bytes_max.max(LEAST_BYTES));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Link, WanSettings};
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const MIB: usize = 1 << 20;

    /// How many bytes arrive within so many seconds where there is always something to send.
    fn carried(settings: WanSettings, seconds: u64) -> usize {
        let mut link = Link::new(settings, 1);
        let mut window = Window::new(settings.window_bytes_max);
        let (mut now, mut arrived) = (Duration::ZERO, 0);
        let end = Duration::from_secs(seconds);
        loop {
            now = window.entry(now, 1_448, settings.delay * 2);
            let (arrival, is_lost) = link.arrival(now, 1_448);
            window.entered(arrival, 1_448, settings.delay, is_lost);
            if arrival > end {
                return arrived;
            }
            arrived += 1_448;
        }
    }

    fn settings(window_bytes_max: usize, loss: f64) -> WanSettings {
        let (delay, jitter) = (50 * MS, Duration::ZERO);
        WanSettings { delay, jitter, rate_bytes_s: 125_000_000, loss, window_bytes_max }
    }

    #[test]
    fn a_new_connection_doubles_each_trip_up_to_what_its_buffers_hold() {
        // After n trips 10 (2^n - 1) segments were sent: 8.4 trips for 5 MB.
        let after = |trips: u32| {
            let mut window = Window::new(64 * MIB);
            let (mut now, mut sent) = (Duration::ZERO, 0);
            while now < 100 * MS * trips {
                now = window.entry(now, 1_448, 100 * MS);
                window.entered(now + 50 * MS, 1_448, 50 * MS, false);
                sent += usize::from(now < 100 * MS * trips);
            }
            sent
        };
        for trips in 1..8 {
            assert_eq!(after(trips), 10 * ((1 << trips) - 1), "{trips}");
        }
        // 4 MiB over 100 ms are 42 MB/s, whatever the link carries.
        let rate = carried(settings(4 * MIB, 0.0), 20) as f64 / 20.0;
        assert!((0.94..=1.0).contains(&(rate / (4.0 * MIB as f64 * 10.0))), "{rate}");
        // Nothing bounds it: the link is full.
        let rate = carried(settings(0, 0.0), 20) as f64 / 20.0;
        assert!(rate > 0.99 * 125e6, "{rate}");
    }

    #[test]
    fn losses_bound_a_connection_as_the_square_root_law_says() {
        // Mathis, Semke, Mahdavi and Ott, 1997: 1.22 segments / (trip * sqrt(loss)).
        for loss in [0.0001, 0.001, 0.01] {
            let rate = carried(settings(64 * MIB, loss), 120) as f64 / 120.0;
            let law = 1.22 * 1_448.0 / (0.1 * loss.sqrt());
            assert!((0.5..1.6).contains(&(rate / law)), "{loss}: {rate} of {law}");
        }
    }

    #[test]
    fn an_idle_connection_begins_anew() {
        let mut window = Window::new(64 * MIB);
        let mut now = Duration::ZERO;
        for _ in 0..2_000 {
            now = window.entry(now, 1_448, 100 * MS);
            window.entered(now + 50 * MS, 1_448, 50 * MS, false);
        }
        assert!(window.bytes() > 100 * INITIAL_BYTES);
        let later = now + Duration::from_secs(5);
        assert_eq!(window.entry(later, 1_448, 100 * MS), later);
        assert_eq!(window.bytes(), INITIAL_BYTES);
    }
}
