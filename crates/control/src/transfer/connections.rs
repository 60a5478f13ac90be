//! How many connections carry one window: one more while that pays. A connection is bounded by its
//! socket's buffers over the trip, and by losses; several have several of both. Where the link, the
//! source or the target is the bound, another one brings nothing and is let go. There are a few from the
//! beginning: each begins with little and is slowed by its own losses, and what is over soon has nothing of a
//! trial.
//!
//! ```text
//! least   = 4
//! period  = 8 trips, at least a second: a connection begins with little and doubles in a trip
//! trial   = one more connection for two periods, of which the second counts
//! pays    = its rate is at least base * (1 + 0.5 / number), half of what it could bring
//! pause   = none after one that pays; else 10 s, doubled each time, at most 5 min; 10 s before the first;
//!           none either where the transfer is over soon, which the caller says
//! ```

/// How many there are at least, while files come.
const CONNECTIONS_MIN: u32 = 4;
/// The most that one source is asked over.
const CONNECTIONS_MAX: u32 = 16;
const PERIOD_MIN_NS: u64 = 1_000_000_000;
const PERIOD_TRIPS: u64 = 8;
const PAYS: f64 = 0.5;
const PAUSE_MIN_NS: u64 = 10_000_000_000;
const PAUSE_MAX_NS: u64 = 300_000_000_000;

/// The connections to one source.
#[derive(Clone, Debug)]
pub struct Connections {
    number: u32,
    step: Step,
    /// Nothing was bound by the way here yet.
    is_new: bool,
    /// When the period began, and what had arrived by then.
    began_ns: u64,
    began_bytes: u64,
    pause_ns: u64,
    /// The rate without the connection that is tried, bytes per second.
    base: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Until then nothing is tried.
    Resting { until_ns: u64 },
    /// The rate is measured.
    Base,
    /// One more connection is there; it fills.
    Filling,
    /// Its effect is measured.
    Trial,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            number: CONNECTIONS_MIN,
            step: Step::Resting { until_ns: u64::MAX },
            is_new: true,
            began_ns: 0,
            began_bytes: 0,
            pause_ns: PAUSE_MIN_NS,
            base: 0.0,
        }
    }
}

impl Connections {
    /// How many there should be, 4 to 16.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// So many bytes have arrived in all. `trip_ns` is the window's; `is_free` says that nothing but
    /// the way here bounds the transfer: its window is over its start and full, no pace or disk
    /// holds it up, and it is not over soon.
    pub fn on_arrival(&mut self, now_ns: u64, bytes: u64, trip_ns: u64, is_free: bool) {
        if !is_free {
            self.rest(now_ns, 0);
            return;
        }
        if std::mem::take(&mut self.is_new) {
            // A trial costs a little: what is over soon has nothing of it.
            self.step = Step::Resting { until_ns: now_ns.saturating_add(PAUSE_MIN_NS) };
        }
        let period_ns = (PERIOD_TRIPS * trip_ns).max(PERIOD_MIN_NS);
        let took_ns = now_ns.saturating_sub(self.began_ns);
        if let Step::Resting { until_ns } = self.step {
            if now_ns >= until_ns && self.number < CONNECTIONS_MAX {
                self.begin(Step::Base, now_ns, bytes);
            }
            return;
        }
        if took_ns < period_ns {
            return;
        }
        let arrived = bytes.saturating_sub(self.began_bytes);
        let rate = arrived as f64 / (took_ns as f64 / 1e9);
        match self.step {
            Step::Base => {
                self.base = rate;
                self.number += 1;
                self.begin(Step::Filling, now_ns, bytes);
            }
            Step::Filling => self.begin(Step::Trial, now_ns, bytes),
            Step::Trial if rate >= self.base * (1.0 + PAYS / f64::from(self.number - 1)) => {
                self.base = rate;
                self.pause_ns = PAUSE_MIN_NS;
                if self.number == CONNECTIONS_MAX {
                    self.step = Step::Resting { until_ns: u64::MAX };
                } else {
                    self.number += 1;
                    self.begin(Step::Filling, now_ns, bytes);
                }
            }
            Step::Trial => {
                self.rest(now_ns, self.pause_ns);
                self.pause_ns = (self.pause_ns * 2).min(PAUSE_MAX_NS);
            }
            Step::Resting { .. } => {}
        }
    }

    fn begin(&mut self, step: Step, now_ns: u64, bytes: u64) {
        self.step = step;
        self.began_ns = now_ns;
        self.began_bytes = bytes;
    }

    /// Ends what is tried; a connection that is not known to pay goes.
    fn rest(&mut self, now_ns: u64, pause_ns: u64) {
        match self.step {
            Step::Resting { .. } => return,
            Step::Base => {}
            Step::Filling | Step::Trial => self.number -= 1,
        }
        self.step = Step::Resting { until_ns: now_ns.saturating_add(pause_ns) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Runs for `seconds` where each connection carries `each` bytes a second and the link `link`.
    fn run(connections: &mut Connections, seconds: u64, each: f64, link: f64) -> (u32, u32) {
        let (mut bytes, mut most) = (0.0, 0);
        for tick in 0..seconds * 100 {
            bytes += (f64::from(connections.number()) * each).min(link) / 100.0;
            connections.on_arrival(tick * 10 * MS, crate::average::whole(bytes), 100 * MS, true);
            most = most.max(connections.number());
        }
        (connections.number(), most)
    }

    #[test]
    fn there_are_as_many_as_the_link_needs_and_seldom_one_more() {
        for (each, link, needed) in [(18e6, 125e6, 7), (30e6, 1250e6, 16), (200e6, 12.5e6, 4)] {
            let mut connections = Connections::default();
            let (number, most) = run(&mut connections, 60, each, link);
            assert!((needed..=needed + 1).contains(&number), "{each} of {link}: {number}");
            assert!(most <= needed + 1, "{each} of {link}: {most}");
            assert!((CONNECTIONS_MIN..=CONNECTIONS_MAX).contains(&number));
        }
    }

    #[test]
    fn nothing_is_tried_while_something_else_is_the_bound() {
        let mut connections = Connections::default();
        for tick in 0..6_000_u64 {
            connections.on_arrival(tick * 10 * MS, tick, 100 * MS, false);
            assert_eq!(connections.number(), CONNECTIONS_MIN);
        }
        // One that is being tried goes when the pace sets in.
        for tick in 6_000..7_150_u64 {
            connections.on_arrival(tick * 10 * MS, tick, 100 * MS, true);
        }
        assert_eq!(connections.number(), CONNECTIONS_MIN + 1);
        connections.on_arrival(71_600 * MS, 8_000, 100 * MS, false);
        assert_eq!(connections.number(), CONNECTIONS_MIN);
    }
}
