//! What became of looking for new tables, since the node was started, and which rest that could not be followed.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::time::Instant;

/// How long a table rests at first that could not be followed, doubled each time.
const REST_MIN: Duration = Duration::from_secs(2);
/// The longest.
const REST_MAX: Duration = Duration::from_secs(300);
/// How many errors are told.
const ERRORS_MAX: usize = 256;

/// What became of looking, since the node was started.
#[derive(Clone, Debug, Default)]
pub struct AutoFollowStatistics {
    /// Tables that follow by it.
    pub followed: u64,
    /// Tables that could not.
    pub failed: u64,
    /// Times that a cluster could not be asked.
    pub failed_asks: u64,
    /// The last errors: the pattern and the table, and why.
    pub errors: VecDeque<(String, String)>,
    /// The clusters that are looked at, and when each was last, ms since 1970.
    pub clusters: Vec<(String, u64)>,
}

/// The same, here.
#[derive(Default)]
pub(super) struct AutoFollowTold(pub(super) Mutex<AutoFollowStatistics>);

/// Tables that could not be followed: the pattern's name and the table's uuid there, and how long each rests.
#[derive(Default)]
pub(super) struct Rests(Mutex<BTreeMap<(String, String), Rest>>);

struct Rest {
    until: Instant,
    next: Duration,
}

impl Rests {
    pub(super) fn rests(&self, pattern: &str, uuid: &str, now: Instant) -> bool {
        let key = (pattern.to_owned(), uuid.to_owned());
        self.0.lock().get(&key).is_some_and(|it| now < it.until)
    }

    pub(super) fn failed(&self, pattern: &str, uuid: &str, now: Instant) {
        let mut rests = self.0.lock();
        // Whoever is long over its time is not there any more, or is followed.
        rests.retain(|_, it| now < it.until + 2 * REST_MAX);
        let key = (pattern.to_owned(), uuid.to_owned());
        let rest = rests.get(&key).map_or(REST_MIN, |it| it.next);
        rests.insert(key, Rest { until: now + rest, next: (2 * rest).min(REST_MAX) });
    }

    /// Whoever changes a pattern wants to see at once what comes of it.
    pub(super) fn forget(&self, pattern: &str) {
        self.0.lock().retain(|(name, _), _| name != pattern);
    }
}

impl AutoFollowTold {
    pub(super) fn failed(&self, what: String, why: String) {
        let mut told = self.0.lock();
        told.failed += 1;
        // What is tried again and again does not push others out.
        told.errors.retain(|(known, _)| *known != what);
        if told.errors.len() >= ERRORS_MAX {
            told.errors.pop_front();
        }
        told.errors.push_back((what, why));
    }

    pub(super) fn asked(&self, remote: &str, is_answered: bool, now_ms: u64) {
        let mut told = self.0.lock();
        told.failed_asks += u64::from(!is_answered);
        match told.clusters.iter_mut().find(|(name, _)| name == remote) {
            Some((_, at)) => *at = now_ms,
            None => told.clusters.push((remote.to_owned(), now_ms)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_followed_is_tried_ever_less_often() {
        let (rests, now) = (Rests::default(), Instant::default());
        let mut tries = 0;
        for second in 0..3600 {
            let now = now + Duration::from_secs(second);
            if !rests.rests("all", "uuid", now) {
                tries += 1;
                rests.failed("all", "uuid", now);
            }
        }
        assert!((15..=22).contains(&tries), "{tries}");
        rests.forget("all");
        assert!(!rests.rests("all", "uuid", now));
    }
}
