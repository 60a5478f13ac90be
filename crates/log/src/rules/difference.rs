//! Levelling by difference: a follower whose leader's log was trimmed past it takes over what differs
//! between its rows and a snapshot of the leader's, range by range in the order of keys. What is to be
//! changed comes through the follower's own log, as explicit changes of rows: all its replicas carry out
//! the same, and after a crash it is there.
//!
//! The changes of a range were worked out against the rows of one replica as they stood. A replica takes
//! them only where it stands exactly so: at the same position of the leader's log, in the same round of
//! levelling, at the same key. Whatever comes twice, late, or from a second node does nothing.
//!
//! A round is of one snapshot. Where that is gone, another round begins with another, from the first key
//! on; what the earlier one brought is in the rows and does not come again. While a round is under way
//! no carried record is taken; its last range brings the replica to the snapshot's position.
//!
//! Which rows there are, and what differs, is not decided here.

use bytes::Bytes;

use super::carried::batch::{LeaderPosition, Link};
use crate::Incarnation;

/// The longest key at which a range may begin or end, bytes. Ranges end between two keys, at the
/// shortest that parts them.
pub const BOUNDARY_BYTES_MAX: usize = 32 << 10;

/// What a leader's replica has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counters {
    /// Changes of rows so far.
    pub sequence: u64,
    /// Keys.
    pub keys: u64,
    /// Keys with an expiry.
    pub expires: u64,
    /// Log time when forgotten sessions and leads were last removed, ms.
    pub swept_ms: u64,
}

/// Rows below a key that are as new as a sequence of the leader's says, at least.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reached {
    /// The first key that is not among them.
    pub key: Bytes,
    /// The sequence of the snapshot that they came from.
    pub sequence: u64,
}

/// A round of levelling that is under way, as a replica keeps it beside its position.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Levelling {
    /// Counts the rounds since the replica followed its leader's log last; 1 the first.
    pub round: u64,
    /// Where the snapshot stands.
    pub to: Link,
    /// The sequence of the snapshot's last change.
    pub sequence: u64,
    /// The first key that was not levelled in this round.
    pub cursor: Bytes,
    /// What earlier rounds brought. It only spares bytes: where it is wrong, they come once more.
    pub reached: Option<Reached>,
}

/// Where a replica stands in its leader's log, and in levelling.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Standing {
    /// The position in the leader's log, which stays while it is levelled.
    pub link: Link,
    /// The round under way; 0 where there is none.
    pub round: u64,
    /// The first key that was not levelled in it; empty where there is none.
    pub cursor: Bytes,
}

/// Where the range of a difference ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Before this key.
    Before(Bytes),
    /// Behind the last row: the round is over, and this is what the leader has counted.
    Last(Counters),
}

/// A range of rows, and where it may be taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Difference {
    /// The leader's log.
    pub incarnation: Incarnation,
    /// The replica that it was worked out against.
    pub at: Standing,
    /// Whether a round begins with it, at the first key.
    pub begins: bool,
    /// Where the leader's snapshot stands.
    pub to: Link,
    /// The sequence of the snapshot's last change.
    pub sequence: u64,
    /// The highest version of the mapping that the leader's documents were checked against.
    pub mapping_version: u64,
    /// Where the range ends.
    pub end: End,
}

/// A row that differs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// The row.
    pub key: Bytes,
    /// What it is at the leader's; `None` where it is not there.
    pub value: Option<Bytes>,
}

impl Standing {
    /// Of a replica at `link`.
    #[must_use]
    pub fn of(link: Link, levelling: Option<&Levelling>) -> Self {
        match levelling {
            Some(it) => Self { link, round: it.round, cursor: it.cursor.clone() },
            None => Self { link, round: 0, cursor: Bytes::new() },
        }
    }
}

impl Difference {
    /// The first key of its range.
    #[must_use]
    pub fn after(&self) -> &[u8] {
        if self.begins { &[] } else { &self.at.cursor }
    }

    /// Whether it leads forward, its changes are in order, and none lies before its range. Changes may lie
    /// behind it: what is changed there is looked at again. One that is not so is refused before it is
    /// appended.
    #[must_use]
    pub fn is_ordered(&self, changes: &[Change]) -> bool {
        let leads_on = self.to.lsn > self.at.link.lsn
            && self.to.log_time_ms >= self.at.link.log_time_ms
            && (self.begins || self.at.round > 0);
        let has_range = match &self.end {
            End::Before(key) => &**key > self.after() && key.len() <= BOUNDARY_BYTES_MAX,
            End::Last(counters) => counters.sequence == self.sequence,
        };
        let in_order = changes.windows(2).all(|pair| pair[0].key < pair[1].key);
        let is_within = changes.first().is_none_or(|first| &*first.key >= self.after());
        let is_short = self.at.cursor.len() <= BOUNDARY_BYTES_MAX;
        leads_on && has_range && in_order && is_within && is_short
    }

    /// Whether a replica at `held` takes it. Otherwise it is a no-op, and whoever levels looks again at
    /// where the replica stands.
    #[must_use]
    pub fn admits(&self, held: &LeaderPosition, levelling: Option<&Levelling>) -> bool {
        let goes_on = match levelling {
            None => self.begins,
            // No snapshot follows a newer one: what was taken of that would be undone.
            Some(it) if self.begins => it.to.lsn <= self.to.lsn,
            Some(it) => it.to == self.to,
        };
        held.incarnation == self.incarnation
            && self.at == Standing::of(held.link, levelling)
            && goes_on
    }

    /// Where the replica stands that took it: in the leader's log, and in levelling.
    ///
    /// # Panics
    /// Where it does not go on from `levelling`: [`Self::admits`] says so before.
    #[must_use]
    pub fn outcome(&self, levelling: Option<&Levelling>) -> (LeaderPosition, Option<Levelling>) {
        let position = |link| LeaderPosition { incarnation: self.incarnation, link };
        let End::Before(cursor) = &self.end else { return (position(self.to), None) };
        let Self { to, sequence, .. } = *self;
        let (round, reached) = match levelling {
            None => (1, None),
            Some(earlier) if self.begins => (earlier.round + 1, earlier.reached()),
            Some(same) => (same.round, same.reached.clone()),
        };
        assert!(self.begins || levelling.is_some(), "a round begins or goes on");
        let levelling = Levelling { round, to, sequence, cursor: cursor.clone(), reached };
        (position(self.at.link), Some(levelling))
    }
}

impl Levelling {
    /// What this round and those before it brought, in doubt the older.
    fn reached(&self) -> Option<Reached> {
        let own = Reached { key: self.cursor.clone(), sequence: self.sequence };
        match &self.reached {
            Some(earlier) if earlier.key > own.key => {
                let sequence = earlier.sequence.min(own.sequence);
                Some(Reached { key: earlier.key.clone(), sequence })
            }
            _ => Some(own),
        }
    }
}

/// How new the rows from `key` on are already, by the leader's sequence, and up to which key that holds:
/// in a round that begins on top of `levelling` or goes on with it, where the replica's rows are at `held`
/// otherwise.
#[must_use]
pub fn since(
    levelling: Option<&Levelling>,
    begins: bool,
    key: &[u8],
    held: u64,
) -> (u64, Option<Bytes>) {
    let reached = levelling.and_then(|it| if begins { it.reached() } else { it.reached.clone() });
    match reached {
        Some(reached) if key < &*reached.key => (reached.sequence, Some(reached.key)),
        _ => (held, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lsn;

    const LOG: Incarnation = Incarnation(7);

    fn link(lsn: u64) -> Link {
        Link { lsn: Lsn(lsn), hash: lsn * 10, log_time_ms: lsn * 100 }
    }

    fn held(lsn: u64) -> LeaderPosition {
        LeaderPosition { incarnation: LOG, link: link(lsn) }
    }

    fn key(key: &'static str) -> Bytes {
        Bytes::from_static(key.as_bytes())
    }

    fn difference(levelling: Option<&Levelling>, begins: bool, to: u64, end: End) -> Difference {
        let at = Standing::of(link(5), levelling);
        let (incarnation, sequence, mapping_version) = (LOG, to * 2, 0);
        Difference { incarnation, at, begins, to: link(to), sequence, mapping_version, end }
    }

    fn before(cursor: &'static str) -> End {
        End::Before(key(cursor))
    }

    #[test]
    fn rounds_go_from_key_to_key_to_the_snapshot() {
        let first = difference(None, true, 9, before("c"));
        assert!(first.admits(&held(5), None) && first.is_ordered(&[]));
        let (position, levelling) = first.outcome(None);
        let levelling = levelling.unwrap();
        assert_eq!((position, levelling.round), (held(5), 1));
        assert!(!first.admits(&held(5), Some(&levelling)), "it comes twice");
        let next = difference(Some(&levelling), false, 9, before("f"));
        assert!(!next.admits(&held(5), None), "it comes before the first");
        assert!(next.admits(&held(5), Some(&levelling)));
        let (_, levelling) = next.outcome(Some(&levelling));
        let levelling = levelling.unwrap();
        let counters = Counters { sequence: 18, ..Counters::default() };
        let last = difference(Some(&levelling), false, 9, End::Last(counters));
        assert!(last.admits(&held(5), Some(&levelling)) && last.is_ordered(&[]));
        assert!(!last.admits(&held(6), Some(&levelling)), "it was carried further meanwhile");
        assert_eq!(last.outcome(Some(&levelling)), (held(9), None));
        assert!(!last.admits(&held(9), None));
    }

    #[test]
    fn another_round_spares_what_came_before() {
        let at = |difference: &Difference, levelling: Option<&Levelling>| {
            assert!(difference.admits(&held(5), levelling));
            difference.outcome(levelling).1.unwrap()
        };
        let first = at(&difference(None, true, 9, before("m")), None);
        assert_eq!(since(Some(&first), false, b"a", 3), (3, None));
        assert_eq!(since(Some(&first), true, b"a", 3), (18, Some(key("m"))));
        let begun = difference(Some(&first), true, 10, before("c"));
        let second = at(&begun, Some(&first));
        assert!(!begun.admits(&held(5), Some(&second)), "there is another round");
        let late = difference(Some(&first), false, 9, before("p"));
        assert!(!late.admits(&held(5), Some(&second)), "it was of the round before");
        assert_eq!((second.round, since(Some(&second), false, b"d", 3)), (2, (18, Some(key("m")))));
        assert_eq!(since(Some(&second), false, b"m", 3), (3, None));
        // Cut off early it knows no more than the first; late, all that it brought.
        let third = at(&difference(Some(&second), true, 11, before("b")), Some(&second));
        assert_eq!(since(Some(&third), false, b"a", 3), (18, Some(key("m"))));
        let further = at(&difference(Some(&second), false, 10, before("q")), Some(&second));
        let third = at(&difference(Some(&further), true, 11, before("b")), Some(&further));
        assert_eq!(since(Some(&third), false, b"a", 3), (20, Some(key("q"))));
        let older = difference(Some(&third), true, 10, before("b"));
        assert!(!older.admits(&held(5), Some(&third)), "it would lead back");
    }

    #[test]
    fn what_leads_nowhere_is_out_of_order() {
        let whole = difference(None, true, 9, before("c"));
        let change = |key| Change { key, value: None };
        // What lies behind the range is looked at again.
        assert!(whole.is_ordered(&[change(key("a")), change(key("x"))]));
        assert!(!whole.is_ordered(&[change(key("b")), change(key("a"))]));
        assert!(!whole.is_ordered(&[change(key("b")), change(key("b"))]));
        let (_, levelling) = whole.outcome(None);
        let next = difference(levelling.as_ref(), false, 9, before("f"));
        assert!(next.is_ordered(&[change(key("c"))]) && !next.is_ordered(&[change(key("b"))]));
        let counters = Counters::default();
        for wrong in [
            difference(None, true, 5, before("c")),
            difference(None, true, 9, before("")),
            difference(None, false, 9, before("c")),
            difference(levelling.as_ref(), false, 9, before("c")),
            difference(None, true, 9, End::Last(counters)),
            Difference { to: Link { log_time_ms: 1, ..link(9) }, ..whole.clone() },
            Difference { end: End::Before(vec![1; BOUNDARY_BYTES_MAX + 1].into()), ..whole },
        ] {
            assert!(!wrong.is_ordered(&[]), "{wrong:?}");
        }
    }
}
