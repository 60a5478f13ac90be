//! What clients feel of a node: a high quantile of the latencies of late, of each class of work by itself,
//! as a mixture of quick and slow work says nothing. Every quantile rests on enough requests to mean
//! something, so a class that is asked for rarely has one every few seconds.

use crate::Class;
use crate::average::FadingHistogram;

/// The quantile that counts.
const QUANTILE: f64 = 0.95;
/// So many requests give a quantile at once.
const ENOUGH: f64 = 40.0;
/// Fewer give one after this time, if there are this many.
const PATIENCE_NS: u64 = 3_000_000_000;
const FEW: f64 = 3.0;

/// A latency for each class, by [`Class::slot`], ns; none where it was not asked for, or too rarely.
pub type Latencies = [Option<u64>; Class::COUNT];

/// What clients felt since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Foreground {
    /// By class.
    pub latencies_ns: Latencies,
    /// Whether anything was asked for at all.
    pub is_asked: bool,
}

impl Foreground {
    /// What was felt of two parts of a node.
    #[must_use]
    pub fn join(&self, other: &Self) -> Self {
        let (mine, theirs) = (&self.latencies_ns, &other.latencies_ns);
        Self {
            latencies_ns: std::array::from_fn(|slot| mine[slot].max(theirs[slot])),
            is_asked: self.is_asked || other.is_asked,
        }
    }
}

/// Gathers latencies between two looks.
#[derive(Clone, Debug)]
pub struct Felt {
    classes: [Gathered; Class::COUNT],
    is_asked: bool,
}

#[derive(Clone, Debug)]
struct Gathered {
    since_ns: u64,
    latencies: FadingHistogram,
}

impl Gathered {
    fn new(since_ns: u64) -> Self {
        // Emptied at each look: nothing fades.
        Self { since_ns, latencies: FadingHistogram::new(u64::MAX) }
    }
}

impl Felt {
    /// Nothing yet.
    #[must_use]
    pub fn new(now_ns: u64) -> Self {
        Self { classes: std::array::from_fn(|_| Gathered::new(now_ns)), is_asked: false }
    }

    /// A request was answered after so long.
    pub fn add(&mut self, now_ns: u64, class: Class, latency_ns: u64) {
        self.classes[class.slot()].latencies.add(now_ns, latency_ns);
        self.is_asked = true;
    }

    /// Whether anything was asked for since this was asked last, and the quantiles of what was gathered since
    /// each class had its last one.
    pub fn take(&mut self, now_ns: u64) -> Foreground {
        let latencies_ns = std::array::from_fn(|slot| {
            let gathered = &mut self.classes[slot];
            let count = gathered.latencies.weight();
            let is_over = now_ns.saturating_sub(gathered.since_ns) >= PATIENCE_NS;
            if count < ENOUGH && !is_over {
                return None;
            }
            let quantile = gathered.latencies.quantile(QUANTILE).filter(|_| count >= FEW);
            *gathered = Gathered::new(now_ns);
            quantile
        });
        Foreground { latencies_ns, is_asked: std::mem::take(&mut self.is_asked) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_quantile_waits_for_enough_requests_but_not_for_ever() {
        let mut felt = Felt::new(0);
        (0..100).for_each(|_| felt.add(0, Class::Search, 5_000_000));
        (0..10).for_each(|_| felt.add(0, Class::Write, 1_000_000));
        felt.add(0, Class::Get, 1_000);
        assert!(felt.is_asked);
        let first = felt.take(SECOND).latencies_ns;
        let search = first[Class::Search.slot()].unwrap();
        assert!((5_000_000..5_500_000).contains(&search), "{search}");
        assert_eq!((first[Class::Write.slot()], first[Class::Get.slot()]), (None, None));
        assert_eq!(felt.take(2 * SECOND), Foreground::default(), "what was told is gone");
        let late = felt.take(5 * SECOND).latencies_ns;
        assert!(late[Class::Write.slot()].is_some());
        assert_eq!(late[Class::Get.slot()], None, "one request says nothing");
    }
}
