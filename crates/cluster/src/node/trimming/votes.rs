//! Up to where a log group may be trimmed, and which nodes hold it back. Pure.
//!
//! A node votes with the position up to which its copies are durable; the lowest vote counts.
//! - A node that is there and reads the group always votes.
//! - A node that left votes for as long as the metadata names it for a copy of one of the group's
//!   partitions, unless it is away for longer than its tables wait and enough other copies are
//!   *known* to serve: two, or all others where fewer are wanted, one at least.
//! - Where the group holds more bytes than its budget, a node that is away, or whose copies there do
//!   not serve, loses its vote, the furthest behind first, as long as another copy of each of its
//!   partitions is known to serve on a node that votes: it then recovers from a checkpoint. So the
//!   last copies are never given up. A node that serves keeps its vote however far it is behind.

/// A node that may vote.
#[derive(Clone, Debug)]
pub(crate) struct Voter {
    /// Its id.
    pub node: String,
    /// When it left, in log time, ms; none while it is there.
    pub left_ms: Option<u64>,
    /// Up to where it needs the group no more; `None` where it has to speak first.
    pub durable: Option<u64>,
}

/// What a node said last of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastWord {
    /// It knew of all copies that there are now, or it is away and can get none.
    pub is_newer: bool,
    /// Up to where it needs the group no more; none where it did not name the group.
    pub durable: Option<u64>,
}

/// The vote that a node has in a group, if it has one: where the metadata names it for a copy there, or where
/// it reads the group. `None` within says that it has to speak first.
pub(crate) fn vote(word: LastWord, is_named: bool) -> Option<Option<u64>> {
    match word {
        LastWord { is_newer: false, .. } => Some(None),
        LastWord { durable: Some(durable), .. } => Some(Some(durable)),
        // It is to get its copy: what that lacks is not known.
        LastWord { durable: None, .. } => is_named.then_some(Some(0)),
    }
}

/// A partition of the group.
#[derive(Clone, Debug)]
pub(crate) struct HeldPartition {
    /// The nodes that the metadata names for it, each with whether its copy is known to serve.
    pub copies: Vec<(String, bool)>,
    /// How many copies are wanted.
    pub wanted: usize,
    /// How long a node that left is waited for, ms.
    pub wait_ms: u64,
}

impl HeldPartition {
    pub(super) fn names(&self, node: &str) -> bool {
        self.copies.iter().any(|(named, _)| named == node)
    }

    /// Whether the node's copy is known to serve.
    pub(super) fn is_served_by(&self, node: &str) -> bool {
        self.copies.iter().any(|(named, serves)| *serves && named == node)
    }

    /// Copies on other nodes that are known to serve.
    fn others_serving(&self, node: &str) -> usize {
        self.copies.iter().filter(|(named, serves)| *serves && named != node).count()
    }
}

/// What a group's log may lose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Floor {
    /// Up to here nobody who votes needs it; `None` where somebody has to speak first.
    pub up_to: Option<u64>,
    /// The nodes away or beyond the budget that keep it from being higher.
    pub held_by: Vec<String>,
}

/// The floor of a group whose log holds more bytes than its budget where `is_over_budget`.
pub(crate) fn floor(
    voters: &[Voter],
    partitions: &[HeldPartition],
    now_ms: u64,
    is_over_budget: bool,
) -> Floor {
    let mut votes: Vec<&Voter> =
        voters.iter().filter(|it| has_vote(it, partitions, now_ms)).collect();
    // `None` is the lowest of all.
    votes.sort_by_key(|it| it.durable);
    if is_over_budget {
        while let Some((lowest, others)) = votes.split_first()
            && is_dispensable(lowest, others, partitions)
        {
            votes.remove(0);
        }
    }
    let Some(lowest) = votes.first() else { return Floor::default() };
    let up_to = lowest.durable;
    let holds = |it: &&&Voter| it.durable == up_to && (it.left_ms.is_some() || is_over_budget);
    let mut held_by: Vec<String> = votes.iter().filter(holds).map(|it| it.node.clone()).collect();
    held_by.sort();
    Floor { up_to, held_by }
}

fn has_vote(voter: &Voter, partitions: &[HeldPartition], now_ms: u64) -> bool {
    let Some(left_ms) = voter.left_ms else { return true };
    partitions.iter().filter(|it| it.names(&voter.node)).any(|it| {
        let is_waited_for = now_ms < left_ms.saturating_add(it.wait_ms);
        is_waited_for || it.others_serving(&voter.node) < it.wanted.clamp(1, 2)
    })
}

/// Whether the group can do without a node's vote.
fn is_dispensable(voter: &Voter, others: &[&Voter], partitions: &[HeldPartition]) -> bool {
    let own = |it: &&HeldPartition| it.names(&voter.node);
    let serves = partitions.iter().any(|it| it.is_served_by(&voter.node));
    let stands_in = |it: &HeldPartition| others.iter().any(|other| it.is_served_by(&other.node));
    let is_idle = voter.left_ms.is_some() || !serves;
    is_idle && !others.is_empty() && partitions.iter().filter(own).all(stands_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_000_000;

    fn there(node: &str, durable: u64) -> Voter {
        Voter { node: node.to_owned(), left_ms: None, durable: Some(durable) }
    }

    fn away(node: &str, durable: u64, for_ms: u64) -> Voter {
        Voter { left_ms: Some(NOW_MS - for_ms), ..there(node, durable) }
    }

    /// A partition: a node in capitals serves, as it says itself.
    fn held(copies: &str, wanted: usize) -> HeldPartition {
        let copy = |c: char| (c.to_ascii_lowercase().to_string(), c.is_ascii_uppercase());
        HeldPartition { copies: copies.chars().map(copy).collect(), wanted, wait_ms: 60_000 }
    }

    fn up_to(voters: &[Voter], partitions: &[HeldPartition], is_over_budget: bool) -> Option<u64> {
        floor(voters, partitions, NOW_MS, is_over_budget).up_to
    }

    #[test]
    fn in_a_group_vote_those_that_are_named_and_those_that_read_it() {
        let word = |is_newer, durable| LastWord { is_newer, durable };
        assert_eq!(vote(word(true, Some(7)), true), Some(Some(7)));
        assert_eq!(vote(word(true, Some(7)), false), Some(Some(7)), "it reads the group still");
        assert_eq!(vote(word(true, None), false), None, "the group is none of its");
        assert_eq!(vote(word(true, None), true), Some(Some(0)), "its copy is to come");
        for durable in [None, Some(7)] {
            for is_named in [false, true] {
                assert_eq!(vote(word(false, durable), is_named), Some(None), "it may not know yet");
            }
        }
    }

    #[test]
    fn the_lowest_vote_counts_and_silence_holds_everything() {
        let partitions = [held("AB", 2)];
        assert_eq!(up_to(&[there("a", 20), there("b", 7)], &partitions, false), Some(7));
        let silent = Voter { durable: None, ..there("b", 0) };
        assert_eq!(up_to(&[there("a", 20), silent], &partitions, false), None);
        assert_eq!(up_to(&[], &partitions, false), None);
    }

    #[test]
    fn the_last_copies_are_waited_for_however_long_they_are_away() {
        // A1: two of three nodes were gone for longer than the delay, with every copy of a
        // partition, and the third trimmed the log past them.
        let voters = [there("c", 500), away("a", 100, 3_600_000), away("b", 120, 3_600_000)];
        assert_eq!(up_to(&voters, &[held("ab", 2)], false), Some(100));
        assert_eq!(floor(&voters, &[held("ab", 2)], NOW_MS, false).held_by, ["a"]);
        // One copy, one node away.
        assert_eq!(up_to(&voters[..2], &[held("a", 1)], false), Some(100));
        // A budget never costs the last copies.
        assert_eq!(up_to(&voters, &[held("ab", 2)], true), Some(100));
    }

    #[test]
    fn who_is_away_is_no_longer_waited_for_once_enough_others_are_known_to_serve() {
        let voters = [there("b", 300), there("c", 400), away("a", 100, 61_000)];
        assert_eq!(up_to(&voters, &[held("aBC", 2)], false), Some(300));
        assert_eq!(up_to(&voters, &[held("aBc", 2)], false), Some(100), "c has not said so");
        assert_eq!(up_to(&voters, &[held("aBc", 1)], false), Some(300), "one is wanted");
        assert_eq!(up_to(&voters, &[held("aBC", 2), held("a", 1)], false), Some(100));
        let waited_for = [there("b", 300), there("c", 400), away("a", 100, 59_000)];
        assert_eq!(up_to(&waited_for, &[held("aBC", 2)], false), Some(100));
        let not_named = [there("b", 300), away("d", 1, 61_000)];
        assert_eq!(up_to(&not_named, &[held("aBC", 2)], false), Some(300));
    }

    #[test]
    fn beyond_the_budget_whoever_another_copy_stands_in_for_loses_the_vote() {
        let voters = [there("b", 300), away("a", 100, 10_000)];
        assert_eq!(up_to(&voters, &[held("aB", 2)], false), Some(100));
        assert_eq!(up_to(&voters, &[held("aB", 2)], true), Some(300));
        let stopped = [there("b", 300), there("a", 100)];
        assert_eq!(up_to(&stopped, &[held("aB", 2)], true), Some(300), "its copy does not serve");
        assert_eq!(up_to(&stopped, &[held("ab", 2)], true), Some(100));
    }

    #[test]
    fn nodes_that_serve_do_not_stand_in_for_each_other() {
        // All is well, and more is written between two flushes than the budget allows.
        let well = [there("a", 100), there("b", 120)];
        assert_eq!(up_to(&well, &[held("AB", 2)], true), Some(100));
        // Each is the other's stand-in, and one of them has a partition that nobody else has.
        let three = [there("a", 100), there("b", 100), there("c", 1000)];
        assert_eq!(up_to(&three, &[held("ABC", 3), held("C", 1)], true), Some(100));
        // Two that are away stand in for nobody.
        let gone = [away("a", 100, 90_000), away("b", 200, 90_000), there("c", 1000)];
        assert_eq!(up_to(&gone, &[held("ab", 2)], true), Some(100));
        // Somebody always votes.
        assert_eq!(up_to(&[there("a", 5)], &[], true), Some(5));
    }
}
