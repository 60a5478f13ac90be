//! How late a stream of messages comes, by clocks that nobody has compared: what a message takes on its way
//! beyond the least that one has taken. A queue on the link shows in it, and so does a sender that cannot
//! get rid of what it has.
//!
//! ```text
//! apart = receiver's time - sender's time, when a message comes
//! late  = apart - least apart of the last minute
//! ```
//!
//! Messages are sent one after the other: where one was sent before the last, the sender's clock was set back,
//! and everything before is forgotten. A smaller step back seems to be a queue, until the least is forgotten.

use std::collections::VecDeque;

/// How long a least time counts.
const AGE_MAX_MS: u64 = 60_000;

/// The lateness of one stream.
#[derive(Clone, Debug, Default)]
pub struct Lateness {
    /// Candidates for the least: (seen at, apart), increasing in both.
    apart: VecDeque<(u64, i64)>,
    /// When the last message was sent.
    sent_ms: u64,
}

impl Lateness {
    /// A message came at `now_ms` that was sent at `sent_ms` by another clock: by how much it is late, ms.
    pub fn on_message(&mut self, now_ms: u64, sent_ms: u64) -> u64 {
        let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let apart = signed(now_ms).saturating_sub(signed(sent_ms));
        if std::mem::replace(&mut self.sent_ms, sent_ms) > sent_ms {
            self.apart.clear();
        }
        while self.apart.back().is_some_and(|(_, known)| *known >= apart) {
            self.apart.pop_back();
        }
        self.apart.push_back((now_ms, apart));
        while self.apart.front().is_some_and(|(at, _)| now_ms.saturating_sub(*at) > AGE_MAX_MS) {
            self.apart.pop_front();
        }
        let least = self.apart.front().map_or(apart, |(_, least)| *least);
        apart.abs_diff(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_longer_than_the_least_is_late() {
        let mut lateness = Lateness::default();
        // The sender's clock is an hour ahead; a trip takes 50 ms.
        let mut come =
            |now_ms: u64, took_ms: u64| lateness.on_message(now_ms, now_ms - took_ms + 3_600_000);
        assert_eq!(come(10_000, 50), 0);
        assert_eq!(come(11_000, 350), 300);
        assert_eq!(come(12_000, 80), 30);
        assert_eq!(come(13_000, 40), 0);
        assert_eq!(come(14_000, 50), 10);
        // After a minute a longer link is no queue any more.
        assert_eq!(come(73_500, 90), 40);
        assert_eq!(come(80_000, 90), 0);
    }

    #[test]
    fn a_clock_that_is_set_back_is_no_queue() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.on_message(10_000, 10_000), 0);
        // An hour ahead for some seconds, and back.
        assert_eq!(lateness.on_message(11_000, 3_611_000), 0);
        assert_eq!(lateness.on_message(12_000, 12_000), 0);
        assert_eq!(lateness.on_message(13_000, 12_900), 100);
    }

    #[test]
    fn any_clocks_are_taken() {
        let mut lateness = Lateness::default();
        for (now, sent) in [(0, u64::MAX), (u64::MAX, 0), (5, 5)] {
            let _ = lateness.on_message(now, sent);
        }
    }
}
