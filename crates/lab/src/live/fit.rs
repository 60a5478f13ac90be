//! The search for one number that makes a measurement come out right, from few noisy tries: how
//! much a stressed node keeps, so that rotation keeps the published share of its throughput.

/// A search in progress.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    /// Where the number may lie; above 0.
    range: (f64, f64),
    target: f64,
    tolerance: f64,
    /// Numbers tried, and what was measured.
    tries: Vec<(f64, f64)>,
}

impl Search {
    /// A search for what measures `target`, give or take `tolerance`; what is measured grows with
    /// the number.
    pub(crate) fn new(range: (f64, f64), target: f64, tolerance: f64) -> Self {
        Self { range, target, tolerance, tries: Vec::new() }
    }

    /// Notes a try.
    pub(crate) fn note(&mut self, number: f64, measured: f64) {
        self.tries.push((number, measured));
    }

    /// The try that came nearest so far: number and measurement.
    pub(crate) fn best(&self) -> Option<(f64, f64)> {
        let off = |of: &(f64, f64)| (of.1 - self.target).abs();
        self.tries.iter().copied().min_by(|a, b| off(a).total_cmp(&off(b)))
    }

    /// Whether it is near enough.
    pub(crate) fn is_found(&self) -> bool {
        self.best().is_some_and(|(_, measured)| (measured - self.target).abs() <= self.tolerance)
    }

    /// What to try next: between the nearest tries on both sides, by their distances from the
    /// target; `guess` where there is none yet.
    pub(crate) fn next(&self, guess: f64) -> f64 {
        let (least, most) = self.range;
        if self.tries.is_empty() {
            return guess.clamp(least, most);
        }
        let too_low = |of: &&(f64, f64)| of.1 < self.target;
        let below = self.tries.iter().filter(too_low).max_by(|a, b| a.0.total_cmp(&b.0));
        let above = self.tries.iter().filter(|of| !too_low(of)).min_by(|a, b| a.0.total_cmp(&b.0));
        match (below, above) {
            (Some(low), Some(high)) if low.0 < high.0 => {
                // As if it followed a power, which shares do roughly.
                let steepness = (high.1 / low.1.max(1e-6)).ln().max(1e-9);
                let part = (self.target / low.1.max(1e-6)).ln() / steepness;
                // Never at a try itself: noise would hold it there.
                (low.0.ln() + (high.0 / low.0).ln() * part.clamp(0.15, 0.85)).exp()
            }
            // The tries contradict one another: in the middle of them.
            (Some(low), Some(high)) => (low.0 * high.0).sqrt(),
            (Some(low), None) => self.scaled(*low, most),
            (None, Some(high)) => self.scaled(*high, least),
            (None, None) => guess,
        }
    }

    /// All tries lie on one side: further, as the last two of them say how steep it is, but not
    /// beyond an end.
    fn scaled(&self, (number, measured): (f64, f64), end: f64) -> f64 {
        let before = self.tries.iter().rev().find(|of| of.0 != number && of.1 != measured);
        let steepness = before.map_or(1.0, |before| {
            let steepness = (measured / before.1.max(1e-6)).ln() / (number / before.0).ln();
            steepness.clamp(0.2, 4.0)
        });
        let ratio = (self.target / measured.max(1e-3)).powf(1.0 / steepness);
        let next = number * ratio.clamp(0.1, 10.0);
        if end > number { next.clamp(number, end) } else { next.clamp(end, number) }
    }
}

/// The first number of clients in a rising row at which the median is `ratio` times that of one.
pub(crate) fn crowd(medians: &[(usize, f64)], one_ms: f64, ratio: f64) -> Option<usize> {
    medians.iter().find(|(_, ms)| *ms >= ratio * one_ms).map(|(clients, _)| *clients)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_control::Random;

    fn tries(measure: impl Fn(f64) -> f64, target: f64) -> (usize, f64) {
        let mut search = Search::new((0.01, 1.0), target, 0.03);
        for count in 1..20 {
            let number = search.next(target);
            search.note(number, measure(number));
            if search.is_found() {
                return (count, search.best().unwrap().0);
            }
        }
        panic!("not found: {search:?}")
    }

    #[test]
    fn it_finds_what_it_looks_for_in_few_tries() {
        assert_eq!(tries(|x| x, 0.43).0, 1);
        for power in [0.3, 0.5, 2.0, 3.0] {
            let (count, found) = tries(|x: f64| x.powf(power), 0.43);
            assert!(count <= 6, "{power}: {count}");
            assert!((found.powf(power) - 0.43).abs() <= 0.03);
        }
    }

    #[test]
    fn noise_does_not_hold_it() {
        let random = std::cell::RefCell::new(Random::new(4));
        let noisy = |x: f64| x.sqrt() + (random.borrow_mut().unit() - 0.5) * 0.05;
        for _ in 0..50 {
            assert!(tries(noisy, 0.6).0 < 15);
        }
    }

    #[test]
    fn it_stays_within_its_range() {
        let mut search = Search::new((0.1, 0.5), 0.9, 0.01);
        assert_eq!(search.next(0.9), 0.5);
        search.note(0.5, 0.2);
        assert_eq!(search.next(0.9), 0.5);
        assert!(!search.is_found());
    }

    #[test]
    fn the_crowd_is_the_first_that_waits_long_enough() {
        let medians = [(8, 12.0), (16, 24.0), (32, 50.0)];
        assert_eq!(crowd(&medians, 10.0, 2.4), Some(16));
        assert_eq!(crowd(&medians, 100.0, 2.4), None);
    }
}
