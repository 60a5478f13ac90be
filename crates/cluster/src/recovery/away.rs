//! Whether a source that is away is still waited for. Another has other files, so that most of what
//! was copied would be copied a second time. Pure: the time is handed in.

use std::time::Duration;

use plimsoll_base::time::Instant;

/// What is known of a source's silence.
pub(super) struct Away {
    max: Duration,
    /// When it last gave something that is of use. Before that, nothing of it is here that would be
    /// lost with it.
    given_at: Option<Instant>,
}

impl Away {
    /// A source that is waited for up to `max`, once it has given something.
    pub(super) fn new(max: Duration) -> Self {
        Self { max, given_at: None }
    }

    /// It has given a listing, a chunk or a checksum.
    pub(super) fn gave(&mut self, now: Instant) {
        self.given_at = self.given_at.max(Some(now));
    }

    /// Whether to ask it again, however often it did not answer.
    pub(super) fn is_waited_for(&self, now: Instant) -> bool {
        self.given_at.is_some_and(|at| now - at < self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_waited_for_from_the_last_that_it_gave_and_not_before_the_first() {
        let at = |seconds| Instant::default() + Duration::from_secs(seconds);
        let mut away = Away::new(Duration::from_secs(60));
        assert!(!away.is_waited_for(at(0)), "nothing of it is here");
        away.gave(at(10));
        assert!(away.is_waited_for(at(10)) && away.is_waited_for(at(69)));
        assert!(!away.is_waited_for(at(70)));
        away.gave(at(65));
        // An answer that was looked at late says nothing against a later one.
        away.gave(at(20));
        assert!(away.is_waited_for(at(124)) && !away.is_waited_for(at(125)));
    }

    #[test]
    fn nobody_is_waited_for_where_that_is_not_wanted() {
        let now = Instant::default();
        let mut away = Away::new(Duration::ZERO);
        away.gave(now);
        assert!(!away.is_waited_for(now));
    }
}
