//! Which log leader is slow against its peers, and when it is asked to step down. Pure: it is
//! told how long appends take and who leads, and names the groups to move.
//!
//! A server is judged by the middle of its groups, so that one group with large records does not
//! condemn it, against the middle of all others', so that a load that slows all of them moves
//! nobody. It must be slow for several looks, and is asked again only after a back-off that
//! doubles: leaders that step down in turns are worse than a slow one.

use std::collections::HashMap;
use std::time::Duration;

use crate::GroupId;

/// How many times slower than the others a server must be.
const SLOW_FACTOR: u32 = 4;
/// And by how much at least.
const SLOW_EXCESS: Duration = Duration::from_millis(20);
/// For how many looks after one another.
const SLOW_LOOKS: u32 = 3;
/// Appends since the last observe below which a group says nothing of its leader.
const APPENDS_MIN: u64 = 5;
/// Groups that are moved at once.
const MOVES_MAX: usize = 8;
/// After how long a server may be asked again; doubled each time up to the largest.
const BACKOFF_MIN: Duration = Duration::from_secs(10);
const BACKOFF_MAX: Duration = Duration::from_secs(300);

/// What is known of one group since the last observe.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub group: GroupId,
    /// The server that leads it.
    pub leader: String,
    /// Appends that were answered since the last observe.
    pub appends: u64,
    /// How long one had to expect to take.
    pub append: Duration,
    /// How long the oldest that is not answered waits already.
    pub oldest: Duration,
}

impl Sample {
    fn is_telling(&self) -> bool {
        self.appends >= APPENDS_MIN || self.oldest > SLOW_EXCESS
    }

    fn slowness(&self) -> Duration {
        self.append.max(self.oldest)
    }
}

#[derive(Default)]
struct Suspect {
    looks: u32,
    /// When it was asked last, and how long it is left alone after that.
    asked: Option<(Duration, Duration)>,
}

/// Judges leaders from observe to observe.
#[derive(Default)]
pub(super) struct Judge {
    suspects: HashMap<String, Suspect>,
}

impl Judge {
    /// The groups whose leaders are to be asked to step down. `now` counts from any moment.
    pub fn observe(&mut self, now: Duration, samples: &[Sample]) -> Vec<GroupId> {
        let mut servers: HashMap<&str, Vec<&Sample>> = HashMap::new();
        for sample in samples.iter().filter(|sample| sample.is_telling()) {
            servers.entry(&sample.leader).or_default().push(sample);
        }
        let mut moves = Vec::new();
        for (server, groups) in &servers {
            let own = middle(groups.iter().map(|sample| sample.slowness()).collect());
            let others = servers.iter().filter(|(other, _)| *other != server);
            let others =
                others.flat_map(|(_, groups)| groups.iter().map(|sample| sample.slowness()));
            let others: Vec<Duration> = others.collect();
            let is_slow = !others.is_empty() && {
                let others = middle(others);
                own > others * SLOW_FACTOR && own > others + SLOW_EXCESS
            };
            let suspect = self.suspects.entry((*server).to_owned()).or_default();
            suspect.looks = if is_slow { suspect.looks + 1 } else { 0 };
            if suspect.looks >= SLOW_LOOKS && suspect.may_be_asked(now) {
                suspect.ask(now);
                let mut slowest = groups.clone();
                slowest.sort_by_key(|sample| std::cmp::Reverse(sample.slowness()));
                moves.extend(slowest.iter().take(MOVES_MAX).map(|sample| sample.group));
            }
        }
        // A server that was well for long begins anew.
        self.suspects.retain(|_, suspect| {
            suspect.looks > 0 || suspect.asked.is_some_and(|(at, _)| now < at + BACKOFF_MAX * 2)
        });
        moves
    }
}

impl Suspect {
    fn may_be_asked(&self, now: Duration) -> bool {
        self.asked.is_none_or(|(at, backoff)| now >= at + backoff)
    }

    fn ask(&mut self, now: Duration) {
        let backoff = self.asked.map_or(BACKOFF_MIN, |(_, backoff)| (backoff * 2).min(BACKOFF_MAX));
        self.asked = Some((now, backoff));
        self.looks = 0;
    }
}

/// The middle one, the upper of two.
fn middle(mut values: Vec<Duration>) -> Duration {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(group: u16, leader: &str, append_ms: u64) -> Sample {
        Sample {
            group: GroupId(group),
            leader: leader.to_owned(),
            appends: 100,
            append: Duration::from_millis(append_ms),
            oldest: Duration::ZERO,
        }
    }

    /// The seconds, of one observe a second, at which `samples` move groups, and which.
    fn moves(seconds: u64, samples: &[Sample]) -> Vec<(u64, Vec<u16>)> {
        let mut judge = Judge::default();
        let observe = |second| (second, judge.observe(Duration::from_secs(second), samples));
        let ids = |groups: Vec<GroupId>| groups.into_iter().map(|group| group.0).collect();
        let moved = (1..=seconds).map(observe).filter(|(_, groups)| !groups.is_empty());
        moved.map(|(second, groups)| (second, ids(groups))).collect()
    }

    #[test]
    fn a_leader_slow_against_its_peers_is_asked_with_growing_pauses() {
        let samples =
            [sample(0, "a", 2), sample(1, "b", 3), sample(2, "c", 90), sample(3, "c", 95)];
        let expected = [3, 13, 33, 73].map(|second| (second, vec![3, 2]));
        assert_eq!(moves(100, &samples), expected);
    }

    #[test]
    fn a_load_that_slows_all_moves_nobody() {
        let samples = [sample(0, "a", 200), sample(1, "b", 300), sample(2, "c", 500)];
        assert_eq!(moves(100, &samples), []);
    }

    #[test]
    fn one_slow_group_of_many_does_not_condemn_its_leader() {
        let samples =
            [sample(0, "a", 2), sample(1, "b", 2), sample(2, "b", 2), sample(3, "b", 400)];
        assert_eq!(moves(100, &samples), []);
    }

    #[test]
    fn without_peers_or_with_few_appends_nothing_is_said() {
        assert_eq!(moves(100, &[sample(0, "a", 500), sample(1, "a", 500)]), []);
        let idle = Sample { appends: 1, ..sample(1, "b", 500) };
        assert_eq!(moves(100, &[sample(0, "a", 2), idle]), []);
    }

    #[test]
    fn a_leader_that_does_not_answer_at_all_is_slow_too() {
        let stuck = Sample { appends: 0, oldest: Duration::from_secs(2), ..sample(1, "b", 0) };
        assert_eq!(moves(4, &[sample(0, "a", 2), stuck]), [(3, vec![1])]);
    }

    #[test]
    fn a_leader_that_was_slow_for_a_moment_is_left_alone() {
        let mut judge = Judge::default();
        for second in 0..60 {
            let slow = if second % 3 == 0 { 2 } else { 100 };
            let samples = [sample(0, "a", 2), sample(1, "b", slow)];
            assert_eq!(judge.observe(Duration::from_secs(second), &samples), []);
        }
    }
}
