//! Up to where a group's log may be trimmed where followers of other clusters need it too. Pure.
//!
//! A follower's position spares everything after it, for as long as it takes. Only where the group
//! holds more bytes than its budget does the follower furthest behind lose what is kept for it, one at
//! a time: what the others need is looked at again once it is known what that freed.

/// What a follower needs of a group: all after a position. Its name is that of its hold.
pub(super) type Needed = (String, u64);

/// What a group's log may lose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spared {
    /// Up to here nobody needs it.
    pub up_to: u64,
    /// The hold that is dropped for it, by name.
    pub dropped: Option<String>,
}

/// Takes the lowest need into account where this cluster itself needs nothing up to `up_to`.
pub(super) fn spare(up_to: u64, needed: &[Needed], is_over_budget: bool) -> Spared {
    let furthest_behind = needed.iter().min_by_key(|(name, position)| (*position, name.as_str()));
    let Some((name, position)) = furthest_behind.filter(|(_, position)| *position < up_to) else {
        return Spared { up_to, dropped: None };
    };
    if !is_over_budget {
        return Spared { up_to: *position, dropped: None };
    }
    let others = needed.iter().filter(|(other, _)| other != name);
    let lowest = others.map(|(_, position)| *position).min();
    Spared { up_to: lowest.unwrap_or(up_to).min(up_to), dropped: Some(name.clone()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed(positions: &[(&str, u64)]) -> Vec<Needed> {
        positions.iter().map(|(name, position)| ((*name).to_owned(), *position)).collect()
    }

    fn spared(up_to: u64, dropped: Option<&str>) -> Spared {
        Spared { up_to, dropped: dropped.map(str::to_owned) }
    }

    #[test]
    fn the_follower_furthest_behind_counts() {
        assert_eq!(spare(9, &[], false), spared(9, None));
        assert_eq!(spare(9, &needed(&[("a", 12)]), false), spared(9, None));
        assert_eq!(spare(9, &needed(&[("a", 5), ("b", 3)]), false), spared(3, None));
        assert_eq!(spare(9, &needed(&[("a", 0)]), false), spared(0, None), "all is kept");
    }

    #[test]
    fn beyond_the_budget_one_is_dropped_at_a_time() {
        let three = needed(&[("a", 5), ("b", 3), ("c", 12)]);
        assert_eq!(spare(9, &three, true), spared(5, Some("b")));
        assert_eq!(spare(9, &needed(&[("a", 5), ("c", 12)]), true), spared(9, Some("a")));
        // One table that has two partitions in the group needs the lower.
        assert_eq!(spare(9, &needed(&[("a", 5), ("a", 3)]), true), spared(9, Some("a")));
        // Of two that stand together any will do, and always the same.
        assert_eq!(spare(9, &needed(&[("b", 3), ("a", 3)]), true), spared(3, Some("a")));
        // Who keeps nothing loses nothing.
        assert_eq!(spare(9, &needed(&[("c", 9)]), true), spared(9, None));
    }
}
