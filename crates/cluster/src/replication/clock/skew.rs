//! Whether this node's clock may be believed: what it says goes into the log as log time, which
//! never goes back, and everything that expires goes by it. A node whose clock is more than
//! [`SKEW_MAX_MS`] from those of most nodes appends nothing and serves nothing until it is right
//! again (rule 7 of the log).
//!
//! Pure: other nodes' clocks are heard through answers to questions. A clock was read somewhere
//! between question and answer, so an answer says between which bounds the difference lies, and
//! no slow network makes a clock look wrong. A step of this node's own clock shows beside one that
//! does not step, before anybody else is heard.

use std::collections::BTreeMap;

use plimsoll_control::selection::NodeId;

/// How far a clock may be from the others', ms.
pub(crate) const SKEW_MAX_MS: i64 = 500;
/// For how long what was heard of a clock counts, ms.
const HEARD_MS: u64 = 10_000;

/// Between which bounds another clock is ahead of this node's, ms.
#[derive(Clone, Copy, Debug)]
struct Heard {
    at_least: i64,
    at_most: i64,
    /// When that was, by the clock that does not step, ms.
    steady_ms: u64,
}

impl Heard {
    /// Where it is certainly too far: how far at least, with its sign.
    fn skew_ms(&self) -> Option<i64> {
        if self.at_least > SKEW_MAX_MS {
            return Some(self.at_least);
        }
        (self.at_most < -SKEW_MAX_MS).then_some(self.at_most)
    }

    fn width(&self) -> i64 {
        self.at_most - self.at_least
    }
}

/// What this node knows of its clock and the others'.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    heard: BTreeMap<NodeId, Heard>,
    /// The clock beside the steady one when it was looked at last, ms.
    last: Option<(u64, u64)>,
    /// When it stepped by the steady one, ms, where it was not judged since by what others say.
    stepped_ms: Option<u64>,
}

impl Clocks {
    /// Looks at both of this node's clocks, ms; says whether it stepped since the last look.
    /// What was heard before says nothing then.
    pub(crate) fn observe(&mut self, clock_ms: u64, steady_ms: u64) -> bool {
        let before = self.last.replace((clock_ms, steady_ms));
        let Some((clock_before, steady_before)) = before else { return false };
        let passed = steady_ms.saturating_sub(steady_before).cast_signed();
        let step = clock_ms.wrapping_sub(clock_before).cast_signed() - passed;
        if step.abs() <= SKEW_MAX_MS {
            return false;
        }
        self.heard.clear();
        self.stepped_ms = Some(steady_ms);
        true
    }

    /// Learns what another clock said (`theirs_ms`) in an answer to what was asked at `asked_ms`
    /// and answered at `answered_ms` by this node's clock; `steady_ms` is now. Of what was heard in
    /// the last seconds the narrowest counts.
    pub(crate) fn hear(
        &mut self,
        node: NodeId,
        [asked_ms, theirs_ms, answered_ms]: [u64; 3],
        steady_ms: u64,
    ) {
        let ahead_of = |ours: u64| theirs_ms.wrapping_sub(ours).cast_signed();
        let (at_least, at_most) = (ahead_of(answered_ms), ahead_of(asked_ms));
        let heard = Heard { at_least, at_most, steady_ms };
        if heard.width() < 0 {
            // This node's clock stepped back meanwhile.
            return;
        }
        let old = self.heard.get(&node).filter(|old| steady_ms - old.steady_ms <= HEARD_MS);
        if old.is_none_or(|old| heard.width() <= old.width()) {
            self.heard.insert(node, heard);
        }
    }

    /// All that were asked at a time of the steady clock, ms, have answered or will not: a clock that stepped before
    /// may be judged by what was heard.
    pub(crate) fn end_round(&mut self, asked_ms: u64) {
        if !self.heard.is_empty() && self.stepped_ms.is_some_and(|it| it <= asked_ms) {
            self.stepped_ms = None;
        }
    }

    /// How far this clock is from those of most others, ms, where that is too far; negative where it
    /// is behind. Of as many against as for it, only the clock ahead is wrong: it alone would move
    /// log time for everybody.
    pub(crate) fn skew_ms(&self, steady_ms: u64) -> Option<i64> {
        let (agreeing, skews) = self.votes(steady_ms);
        let middle = *skews.get(skews.len() / 2)?;
        let is_wrong = skews.len() > agreeing || (skews.len() == agreeing && middle > 0);
        is_wrong.then_some(middle)
    }

    /// Whether more clocks say the same as this one than another time, this one counted.
    pub(crate) fn is_of_most(&self, steady_ms: u64) -> bool {
        let (agreeing, skews) = self.votes(steady_ms);
        !self.has_stepped() && skews.len() < agreeing
    }

    /// How many clocks agree with this one, itself counted, and how far it is from each of the others, ms, in
    /// their order.
    fn votes(&self, steady_ms: u64) -> (usize, Vec<i64>) {
        let fresh = self.heard.values().filter(|it| steady_ms - it.steady_ms <= HEARD_MS);
        let mut agreeing = 1;
        let mut skews = Vec::new();
        for heard in fresh {
            match heard.skew_ms() {
                Some(ahead) => skews.push(-ahead),
                None => agreeing += 1,
            }
        }
        skews.sort_unstable();
        (agreeing, skews)
    }

    /// Whether it stepped and was not judged since: the first to be heard may be one of few.
    pub(crate) fn has_stepped(&self) -> bool {
        self.stepped_ms.is_some()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_control::Random;

    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    /// A node's view of others that are so far ahead, heard with a delay each way.
    fn clocks(ahead_ms: &[i64], delay_ms: u64) -> Clocks {
        let mut clocks = Clocks::default();
        for (n, ahead) in (0..).zip(ahead_ms) {
            let asked = NOW;
            let theirs = (NOW + delay_ms).wrapping_add_signed(*ahead);
            clocks.hear(NodeId(n), [asked, theirs, asked + 2 * delay_ms], 1_000);
        }
        clocks
    }

    #[test]
    fn the_odd_one_is_wrong_and_the_others_are_not() {
        assert_eq!(clocks(&[0, 0], 1).skew_ms(1_000), None);
        assert_eq!(clocks(&[900, 900], 1).skew_ms(1_000), Some(-899));
        assert_eq!(clocks(&[-86_400_000, -86_400_000], 1).skew_ms(1_000), Some(86_399_999));
        assert_eq!(clocks(&[0, 900], 1).skew_ms(1_000), None, "another is");
        assert_eq!(clocks(&[400, -400], 1).skew_ms(1_000), None, "within what is allowed");
    }

    #[test]
    fn of_two_the_one_ahead_is_wrong() {
        assert_eq!(clocks(&[900], 1).skew_ms(1_000), None);
        assert_eq!(clocks(&[-900], 1).skew_ms(1_000), Some(899));
        assert_eq!(Clocks::default().skew_ms(1_000), None, "alone every clock is right");
    }

    #[test]
    fn what_was_heard_is_forgotten() {
        let clocks = clocks(&[900, 900], 1);
        assert!(clocks.skew_ms(1_000 + HEARD_MS).is_some());
        assert_eq!(clocks.skew_ms(1_001 + HEARD_MS), None);
    }

    #[test]
    fn a_step_shows_at_once_until_others_are_heard() {
        let mut clocks = clocks(&[0, 0], 1);
        assert!(!clocks.observe(NOW, 0) && !clocks.observe(NOW + 1_400, 1_000));
        assert!(!clocks.has_stepped(), "a clock is slewed");
        assert!(clocks.observe(NOW + 86_400_000, 2_000) && clocks.has_stepped());
        assert_eq!(clocks.skew_ms(2_000), None, "what was heard before says nothing");
        let (asked, theirs) = (NOW + 86_400_000, NOW + 2_001);
        clocks.end_round(2_000);
        assert!(clocks.has_stepped(), "nobody was heard");
        clocks.hear(NodeId(0), [asked, theirs, asked + 2], 2_002);
        clocks.end_round(1_900);
        assert!(clocks.has_stepped(), "others may be heard yet");
        clocks.end_round(2_001);
        assert!(!clocks.has_stepped() && clocks.skew_ms(2_002).is_some());
        assert!(clocks.observe(NOW + 3_000, 3_000), "set right again");
    }

    #[test]
    fn no_delay_makes_a_right_clock_wrong() {
        let mut random = Random::new(1);
        for _ in 0..200 {
            let ahead = (random.below(1_001) as u64).cast_signed() - SKEW_MAX_MS;
            let mut clocks = Clocks::default();
            for n in 0..20 {
                let (there, back) = (random.below(100_000) as u64, random.below(100_000) as u64);
                let theirs = (NOW + there).wrapping_add_signed(ahead);
                clocks.hear(NodeId(n % 3), [NOW, theirs, NOW + there + back], 1_000);
                assert_eq!(clocks.skew_ms(1_000), None, "{ahead} ms, {there} and {back} ms");
            }
        }
    }

    #[test]
    fn a_clock_that_is_wrong_is_found_where_answers_are_quick() {
        let mut random = Random::new(2);
        for _ in 0..1_000 {
            let (wrong, delay) = (700 + random.below(100_000), random.below(100) as u64);
            let ahead = (wrong as u64).cast_signed() * if random.below(2) == 0 { 1 } else { -1 };
            let found = clocks(&[-ahead, -ahead], delay).skew_ms(1_000).unwrap();
            assert!((found - ahead).unsigned_abs() <= 2 * delay, "{found} for {ahead}");
        }
    }

    #[test]
    fn a_clock_is_of_most_where_fewer_say_another_time() {
        assert!(clocks(&[], 10).is_of_most(1_000));
        assert!(clocks(&[0, 9_000], 10).is_of_most(1_000));
        assert!(!clocks(&[2_600], 10).is_of_most(1_000));
        assert!(!clocks(&[-2_600], 10).is_of_most(1_000));
        let mut stepped = clocks(&[0], 10);
        stepped.observe(NOW, 1_000);
        stepped.observe(NOW + 9_000, 1_010);
        assert!(!stepped.is_of_most(1_010));
    }
}
