//! Whether this node's clock may be believed: what it says goes into the log as log time, which
//! never goes back, and everything that expires goes by it. A node whose clock is more than
//! [`SKEW_MAX_MS`] from those of most nodes appends nothing and serves nothing until it is right
//! again (rule 7 of the log).
//!
//! Pure: other nodes' clocks are heard through answers to questions. A clock was read somewhere
//! between question and answer, so an answer says between which bounds the difference lies, and
//! no slow network makes a clock look wrong. A step of this node's own clock shows beside one that
//! does not step, before anybody else is heard.
//!
//! A clock that stepped, or whose node has just begun, is *in doubt* until more clocks say the same
//! as it than another time. Of two that differ the one in doubt is wrong.

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
    is_in_doubt: bool,
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

/// How many clocks say so, and how many of them are not in doubt.
#[derive(Clone, Copy, Debug, Default)]
struct Votes {
    all: usize,
    sure: usize,
}

impl Votes {
    fn add(&mut self, is_in_doubt: bool) {
        self.all += 1;
        self.sure += usize::from(!is_in_doubt);
    }
}

/// What this node knows of its clock and the others'.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    heard: BTreeMap<NodeId, Heard>,
    /// Nobody has to doubt this node's clock.
    is_sure: bool,
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
        self.is_sure = false;
        self.stepped_ms = Some(steady_ms);
        true
    }

    /// Learns what another clock said (`theirs_ms`), and whether it is in doubt, in an answer to what
    /// was asked at `asked_ms` and answered at `answered_ms` by this node's clock; `steady_ms` is
    /// now. Of what was heard in the last seconds the narrowest counts, and the last doubt.
    pub(crate) fn hear(
        &mut self,
        node: NodeId,
        [asked_ms, theirs_ms, answered_ms]: [u64; 3],
        is_in_doubt: bool,
        steady_ms: u64,
    ) {
        let ahead_of = |ours: u64| theirs_ms.wrapping_sub(ours).cast_signed();
        let (at_least, at_most) = (ahead_of(answered_ms), ahead_of(asked_ms));
        let heard = Heard { at_least, at_most, is_in_doubt, steady_ms };
        if heard.width() < 0 {
            // This node's clock stepped back meanwhile.
            return;
        }
        match self.heard.get_mut(&node) {
            // Of a clock that came into doubt an earlier answer says nothing: it stepped since.
            Some(old)
                if steady_ms - old.steady_ms <= HEARD_MS
                    && old.width() < heard.width()
                    && (old.is_in_doubt || !is_in_doubt) =>
            {
                old.is_in_doubt = is_in_doubt;
            }
            _ => drop(self.heard.insert(node, heard)),
        }
    }

    /// All that were asked at a time of the steady clock, ms, have answered or will not: a clock that stepped before
    /// may be judged by what was heard.
    pub(crate) fn end_round(&mut self, asked_ms: u64, steady_ms: u64) {
        if !self.heard.is_empty() && self.stepped_ms.is_some_and(|it| it <= asked_ms) {
            self.stepped_ms = None;
        }
        if self.agree(steady_ms) {
            self.is_sure = true;
        }
    }

    /// Whether any other clock was heard lately.
    pub(crate) fn hears(&self, steady_ms: u64) -> bool {
        self.heard.values().any(|it| steady_ms - it.steady_ms <= HEARD_MS)
    }

    /// Whether others agree with this clock, and more of them than not.
    fn agree(&self, steady_ms: u64) -> bool {
        let (agreeing, against, _) = self.votes(steady_ms);
        !self.has_stepped() && agreeing.all > against.all.max(1)
    }

    /// Whether others should not go by this clock.
    pub(crate) fn is_in_doubt(&self) -> bool {
        !self.is_sure
    }

    /// There is no other node: this clock is right.
    pub(crate) fn believe_alone(&mut self) {
        *self = Self { is_sure: true, last: self.last, ..Self::default() };
    }

    /// How far this clock is from those of most others, ms, where that is too far; negative where it
    /// is behind. Of as many against as for it those count that are not in doubt; of as many of these
    /// too, only the clock ahead is wrong: it alone would move log time for everybody.
    pub(crate) fn skew_ms(&self, steady_ms: u64) -> Option<i64> {
        let (agreeing, against, skews) = self.votes(steady_ms);
        let middle = *skews.get(skews.len() / 2)?;
        let order = against.all.cmp(&agreeing.all).then(against.sure.cmp(&agreeing.sure));
        let is_wrong = order.is_gt() || (order.is_eq() && middle > 0);
        is_wrong.then_some(middle)
    }

    /// Whether more clocks say the same as this one than another time, this one counted.
    pub(crate) fn is_of_most(&self, steady_ms: u64) -> bool {
        let (agreeing, against, _) = self.votes(steady_ms);
        !self.has_stepped() && against.all < agreeing.all
    }

    /// Which clocks agree with this one, itself counted, which do not, and how far it is from each of these, ms, in
    /// their order.
    fn votes(&self, steady_ms: u64) -> (Votes, Votes, Vec<i64>) {
        let fresh = self.heard.values().filter(|it| steady_ms - it.steady_ms <= HEARD_MS);
        let (mut agreeing, mut against) = (Votes::default(), Votes::default());
        agreeing.add(self.is_in_doubt());
        let mut skews = Vec::new();
        for heard in fresh {
            match heard.skew_ms() {
                Some(ahead) => {
                    against.add(heard.is_in_doubt);
                    skews.push(-ahead);
                }
                None => agreeing.add(heard.is_in_doubt),
            }
        }
        skews.sort_unstable();
        (agreeing, against, skews)
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
            clocks.hear(NodeId(n), [asked, theirs, asked + 2 * delay_ms], false, 1_000);
        }
        // As of a node that has run for long.
        clocks.is_sure = true;
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
    fn of_two_the_one_in_doubt_is_wrong() {
        // It stepped, and the one other says another time: behind or ahead, it is this one.
        for ahead in [900, -900] {
            let mut stepped = clocks(&[ahead], 1);
            stepped.is_sure = false;
            assert_eq!(stepped.skew_ms(1_000), Some(-ahead + ahead.signum()));
        }
        // The other did.
        for ahead in [900, -900] {
            let mut beside = clocks(&[], 1);
            let theirs = (NOW + 1).wrapping_add_signed(ahead);
            beside.hear(NodeId(0), [NOW, theirs, NOW + 2], true, 1_000);
            assert_eq!(beside.skew_ms(1_000), None);
            // The last doubt counts, also where an earlier answer was quicker.
            beside.hear(NodeId(0), [NOW, theirs + 1, NOW + 4], false, 1_001);
            assert_eq!(beside.skew_ms(1_001).is_some(), ahead < 0);
        }
        // Both: as if neither had.
        let mut both = clocks(&[], 1);
        both.is_sure = false;
        both.hear(NodeId(0), [NOW, NOW + 901, NOW + 2], true, 1_000);
        assert_eq!(both.skew_ms(1_000), None);
        // Doubt decides nothing against most.
        let mut against = clocks(&[900, 900], 1);
        against.heard.values_mut().for_each(|it| it.is_in_doubt = true);
        assert!(against.skew_ms(1_000).is_some());
    }

    #[test]
    fn a_clock_is_in_doubt_until_others_say_the_same() {
        let mut clocks = Clocks::default();
        assert!(clocks.is_in_doubt(), "the node has just begun");
        clocks.end_round(0, 1_000);
        assert!(clocks.is_in_doubt(), "nobody was heard");
        clocks.hear(NodeId(0), [NOW, NOW + 900, NOW + 2], false, 1_000);
        clocks.end_round(0, 1_000);
        assert!(clocks.is_in_doubt());
        clocks.hear(NodeId(1), [NOW, NOW + 1, NOW + 2], true, 1_000);
        clocks.end_round(0, 1_000);
        assert!(!clocks.is_in_doubt(), "two of three");
        assert!(!clocks.observe(NOW, 1_000) && clocks.observe(NOW - 900, 1_001));
        assert!(clocks.is_in_doubt());
        clocks.believe_alone();
        assert!(!clocks.is_in_doubt() && !clocks.has_stepped());
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
        clocks.end_round(2_000, 2_000);
        assert!(clocks.has_stepped(), "nobody was heard");
        clocks.hear(NodeId(0), [asked, theirs, asked + 2], false, 2_002);
        clocks.end_round(1_900, 2_002);
        assert!(clocks.has_stepped(), "others may be heard yet");
        clocks.end_round(2_001, 2_002);
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
                clocks.hear(NodeId(n % 3), [NOW, theirs, NOW + there + back], true, 1_000);
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
