//! What a link carries, in bytes as they are on it: what decides whether compression pays
//! ([`crate::compression`]).
//!
//! ```text
//! interval = 8 chunks and 250 ms at least, from one arrival to another; never over a time in which
//!            nothing was under way
//! link     = the greatest rate of intervals of the last 10 s
//! look     = chunks that are not compressed, until an interval of them alone has ended: 8 s after the
//!            last look; where it found at most a tenth more than the intervals before, twice as
//!            long, 64 s at most
//! ```
//!
//! Where the source's processors are the bound, what arrives says nothing of the link, and a level that
//! is too high would seem right for ever: hence the looks. Where chunks are not compressed
//! anyway, no look is needed.

use std::collections::VecDeque;

const CHUNKS_MIN: u32 = 8;
const INTERVAL_NS_MIN: u64 = 250_000_000;
const AGE_MAX_NS: u64 = 10_000_000_000;
const LOOK_AFTER_NS_MIN: u64 = 8_000_000_000;
const LOOK_AFTER_NS_MAX: u64 = 64_000_000_000;
const IS_MORE: f64 = 1.1;

/// What one link carries.
#[derive(Clone, Debug)]
pub struct LinkRate {
    under_way: u64,
    interval: Option<Interval>,
    /// When intervals ended, and their rates, bytes per second.
    rates: VecDeque<(u64, f64)>,
    /// Whether anything came compressed since the last look.
    is_packed: bool,
    /// What was known when the look began that goes on.
    look: Option<f64>,
    looked_ns: u64,
    look_after_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Interval {
    began_ns: u64,
    chunks: u32,
    bytes: u64,
}

impl Default for LinkRate {
    fn default() -> Self {
        Self {
            under_way: 0,
            interval: None,
            rates: VecDeque::new(),
            is_packed: false,
            look: None,
            looked_ns: 0,
            look_after_ns: LOOK_AFTER_NS_MIN,
        }
    }
}

impl LinkRate {
    /// A chunk was asked for.
    pub fn on_send(&mut self) {
        if self.under_way == 0 {
            self.interval = None;
        }
        self.under_way += 1;
    }

    /// A chunk came, as so many bytes on the link, or failed.
    pub fn on_end(&mut self, now_ns: u64, came: Option<(u64, bool)>) {
        assert!(self.under_way > 0, "a chunk ends once");
        self.under_way -= 1;
        let Some((bytes, is_packed)) = came else { return };
        self.is_packed |= is_packed;
        if is_packed && self.look.is_some() {
            // Asked for before the look.
            self.interval = None;
            return;
        }
        let Some(interval) = &mut self.interval else {
            self.interval = Some(Interval { began_ns: now_ns, chunks: 0, bytes: 0 });
            return;
        };
        interval.chunks += 1;
        interval.bytes += bytes;
        let took_ns = now_ns.saturating_sub(interval.began_ns);
        if interval.chunks >= CHUNKS_MIN && took_ns >= INTERVAL_NS_MIN {
            let rate = interval.bytes as f64 / (took_ns as f64 / 1e9);
            self.interval = Some(Interval { began_ns: now_ns, chunks: 0, bytes: 0 });
            self.add(now_ns, rate);
        }
    }

    /// What the link carries, bytes per second; none while that is not known, or is looked at: what is
    /// asked for now should not be compressed.
    pub fn bytes_s(&mut self, now_ns: u64) -> Option<f64> {
        let is_due = now_ns.saturating_sub(self.looked_ns) >= self.look_after_ns;
        let known = self.known(now_ns);
        if let Some(known) = known
            && self.look.is_none()
            && is_due
        {
            self.looked_ns = now_ns;
            self.look = self.is_packed.then_some(known);
            self.is_packed = false;
            if self.look.is_some() {
                self.interval = None;
            }
        }
        known.filter(|_| self.look.is_none())
    }

    fn known(&self, now_ns: u64) -> Option<f64> {
        let young = |(at_ns, _): &&(u64, f64)| now_ns.saturating_sub(*at_ns) <= AGE_MAX_NS;
        let rates = self.rates.iter().filter(young).map(|(_, rate)| *rate);
        rates.reduce(f64::max)
    }

    fn add(&mut self, now_ns: u64, rate: f64) {
        while self.rates.front().is_some_and(|it| now_ns.saturating_sub(it.0) > AGE_MAX_NS) {
            self.rates.pop_front();
        }
        self.rates.push_back((now_ns, rate));
        if let Some(before) = self.look.take() {
            let is_more = rate > before * IS_MORE;
            self.look_after_ns = match is_more {
                true => LOOK_AFTER_NS_MIN,
                false => (self.look_after_ns * 2).min(LOOK_AFTER_NS_MAX),
            };
            self.looked_ns = now_ns;
            self.is_packed = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Chunks of 64 KiB that shrink to half, over a link of so many bytes a second, from a source that
    /// compresses so many a second. How much of the time is looked, and what is known in the end.
    fn run(link: f64, source: f64, seconds: u64) -> (f64, Option<f64>) {
        let (mut rate, mut now_ns) = (LinkRate::default(), 0);
        let (mut plain, mut all, mut known) = (0u64, 0u64, None);
        rate.on_send();
        while now_ns < seconds * 1_000 * MS {
            let is_packed = rate.bytes_s(now_ns).is_some();
            known = rate.bytes_s(now_ns).or(known);
            rate.on_send();
            let (bytes, least_s) = match is_packed {
                true => (32 << 10, 65_536.0 / source),
                false => (64 << 10, 0.0),
            };
            let took_s = least_s.max(bytes as f64 / link);
            now_ns += crate::average::whole(took_s * 1e9);
            rate.on_end(now_ns, Some((bytes, is_packed)));
            (plain, all) = (plain + u64::from(!is_packed), all + 1);
        }
        (plain as f64 / all as f64, known)
    }

    #[test]
    fn the_link_is_known_whether_it_is_the_bound_or_the_source() {
        for (link, source) in [(1e6, 1e9), (12.5e6, 1e9), (12.5e6, 10e6), (125e6, 20e6)] {
            let (plain, known) = run(link, source, 60);
            let known = known.expect("there is a minute for it");
            assert!((0.9..=1.15).contains(&(known / link)), "{link} {source}: {known}");
            assert!(plain < 0.3, "{link} {source}: {plain}");
        }
        // Looks become rare where they bring nothing.
        assert!(run(12.5e6, 1e9, 120).0 < 0.03);
    }

    #[test]
    fn a_pause_is_no_slow_link_and_old_rates_are_forgotten() {
        let mut rate = LinkRate::default();
        let come = |rate: &mut LinkRate, from_ms: u64, every_ms: u64, count: u64| {
            rate.on_send();
            for number in 0..count {
                rate.on_send();
                rate.on_end((from_ms + number * every_ms) * MS, Some((100_000, false)));
            }
            rate.on_end((from_ms + count * every_ms) * MS, Some((100_000, false)));
        };
        assert_eq!(rate.bytes_s(0), None);
        come(&mut rate, 0, 10, 60);
        assert_eq!(rate.bytes_s(700 * MS), Some(10e6));
        come(&mut rate, 9_000, 20, 60);
        assert_eq!(rate.bytes_s(10_300 * MS), Some(10e6), "the best of late");
        assert_eq!(rate.bytes_s(15_000 * MS), Some(5e6));
        assert_eq!(rate.bytes_s(25_000 * MS), None);
    }

    #[test]
    fn what_fails_is_not_counted() {
        let mut rate = LinkRate::default();
        for number in 0..100 {
            rate.on_send();
            rate.on_end(number * 10 * MS, None);
        }
        assert_eq!(rate.bytes_s(1_000 * MS), None);
    }
}
