//! What bounds a copy: the one that has held it up for most of the last seconds. Who copies notes what
//! keeps him from asking for more; time is handed in.

use std::time::Duration;

/// What was so this long ago counts for a third.
const SPAN_S: f64 = 5.0;
/// Where nothing comes for so long that was asked for, that is not the link's rate any more.
const SILENCE_MAX: Duration = Duration::from_secs(2);

/// What keeps a copy from going faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The way here carries no more, or the source gives no more without saying why.
    Link,
    /// As much is under way as the window allows: it grows still, or is set.
    Window,
    /// Nothing comes, or nothing can be asked for yet.
    Source,
    /// What has come is being written or opened.
    Target,
    /// Other work of the node goes before, or the rate that is set is reached.
    Pace,
}

impl Bound {
    const ALL: [Self; 5] = [Self::Link, Self::Window, Self::Source, Self::Target, Self::Pace];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Window => "window",
            Self::Source => "source",
            Self::Target => "target",
            Self::Pace => "pace",
        }
    }
}

/// What has bounded a copy of late.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    now: Bound,
    /// When that was noted last, since the copy's beginning.
    noted: Duration,
    /// For how long each was the bound, s; what is past fades.
    lasted_s: [f64; Bound::ALL.len()],
}

impl Bounds {
    /// A copy that begins waits for its source.
    pub(super) fn new() -> Self {
        Self { now: Bound::Source, noted: Duration::ZERO, lasted_s: Default::default() }
    }

    /// From now on it is this one.
    pub(super) fn note(&mut self, bound: Bound, at: Duration) {
        self.lasted_s = self.lasted_s_at(at);
        self.noted = self.noted.max(at);
        self.now = bound;
    }

    /// The one that has lasted longest of late.
    pub(super) fn longest(&self, at: Duration) -> Bound {
        let lasted_s = self.lasted_s_at(at);
        let is_longer = |a: &(Bound, f64), b: &(Bound, f64)| a.1.total_cmp(&b.1);
        let longest = Bound::ALL.into_iter().zip(lasted_s).max_by(is_longer);
        longest.filter(|(_, lasted_s)| *lasted_s > 0.0).map_or(self.now, |(bound, _)| bound)
    }

    fn lasted_s_at(&self, at: Duration) -> [f64; Bound::ALL.len()] {
        let passed = at.saturating_sub(self.noted);
        let is_of_the_way = matches!(self.now, Bound::Link | Bound::Window);
        let bound = match passed > SILENCE_MAX && is_of_the_way {
            true => Bound::Source,
            false => self.now,
        };
        let kept = (-passed.as_secs_f64() / SPAN_S).exp();
        let mut lasted_s = self.lasted_s.map(|it| it * kept);
        // What is added has faded too, since its beginning.
        let added = SPAN_S * (1.0 - kept);
        for (one, lasted_s) in Bound::ALL.into_iter().zip(&mut lasted_s) {
            if one == bound {
                *lasted_s += added;
            }
        }
        lasted_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_bound_is_the_one_that_lasted_longest_of_late() {
        let mut bounds = Bounds::new();
        assert_eq!(bounds.longest(ms(0)), Bound::Source);
        bounds.note(Bound::Window, ms(100));
        bounds.note(Bound::Link, ms(1_000));
        assert_eq!(bounds.longest(ms(1_100)), Bound::Window);
        // Four in five of the time it waits for the disk.
        for second in 2..20 {
            bounds.note(Bound::Target, ms(second * 1000));
            bounds.note(Bound::Link, ms(second * 1000 + 800));
        }
        assert_eq!(bounds.longest(ms(20_000)), Bound::Target);
        bounds.note(Bound::Link, ms(20_000));
        for tick in 200..400 {
            bounds.note(Bound::Link, ms(tick * 100));
        }
        assert_eq!(bounds.longest(ms(40_000)), Bound::Link);
    }

    #[test]
    fn a_source_that_falls_silent_is_the_bound_and_a_long_write_is_not() {
        let mut bounds = Bounds::new();
        for tick in 0..300 {
            bounds.note(Bound::Link, ms(tick * 100));
        }
        assert_eq!(bounds.longest(ms(31_000)), Bound::Link);
        assert_eq!(bounds.longest(ms(45_000)), Bound::Source);
        bounds.note(Bound::Target, ms(45_000));
        assert_eq!(bounds.longest(ms(90_000)), Bound::Target);
    }
}
