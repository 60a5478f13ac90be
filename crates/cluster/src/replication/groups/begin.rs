//! Where a node begins to read a log group. Pure.

use plimsoll_log::Lsn;
use plimsoll_log::rules::chain::Position;

use crate::metadata::trim_notes::{LastRecords, TrimNote};

/// Where reading begins, and what is known of the records before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Begin {
    pub position: Position,
    pub last: LastRecords,
}

/// What this node kept of a group: up to where it had read it, and the last records up to there.
pub(crate) struct Kept {
    pub position: Position,
    pub last: Option<LastRecords>,
}

/// Where the group begins that `copies`, the position of the furthest behind of the copies here, are in;
/// `first` is what the log holds of it. `None` where nothing that is known here is still in the log: then
/// another node knows where it stands.
pub(crate) fn begin(
    copies: Option<Position>,
    kept: Option<&Kept>,
    note: Option<&TrimNote>,
    genesis: Position,
    first: Lsn,
) -> Option<Begin> {
    let is_held = |position: &Position| first <= position.lsn.next();
    let noted = || {
        let note = note.filter(|it| is_held(&it.at()))?;
        Some(Begin { position: note.at(), last: note.records().clone() })
    };
    let position = copies.or_else(|| kept.map(|it| it.position)).unwrap_or(genesis);
    let is_noted_later = note.is_some_and(|it| it.at().lsn > position.lsn);
    // Without copies nothing of what lies before the note is of use.
    if !is_held(&position) || (copies.is_none() && is_noted_later) {
        return noted();
    }
    // What was seen up to there joins what is read from here.
    let seen = kept.filter(|it| position.lsn <= it.position.lsn).and_then(|it| it.last.clone());
    Some(Begin { position, last: seen.unwrap_or_else(|| LastRecords::seen_from(position.lsn)) })
}

#[cfg(test)]
mod tests {
    use plimsoll_log::PartitionId;

    use super::*;

    const PARTITION: PartitionId = PartitionId { table: 1, ordinal: 0 };

    fn at(lsn: u64) -> Position {
        Position { lsn: Lsn(lsn), hash: lsn * 7, log_time_ms: lsn }
    }

    fn seen(lsn: u64) -> LastRecords {
        let mut last = LastRecords::default();
        last.saw(PARTITION, Lsn(lsn));
        last
    }

    fn kept(lsn: u64) -> Kept {
        Kept { position: at(lsn), last: Some(seen(lsn)) }
    }

    fn begins(
        copies: Option<u64>,
        kept: Option<&Kept>,
        note: Option<u64>,
        first: u64,
    ) -> Option<(u64, LastRecords)> {
        let note = note.map(|lsn| TrimNote::new(at(lsn), &seen(lsn), None));
        let found = begin(copies.map(at), kept, note.as_ref(), at(0), Lsn(first));
        found.map(|it| (it.position.lsn.0, it.last))
    }

    #[test]
    fn copies_begin_where_they_stand_and_know_what_was_kept() {
        assert_eq!(begins(Some(5), Some(&kept(9)), Some(7), 3), Some((5, seen(9))));
        let unknown = LastRecords::seen_from(Lsn(9));
        assert_eq!(begins(Some(9), Some(&kept(5)), None, 3), Some((9, unknown)));
        assert_eq!(begins(Some(5), Some(&kept(9)), Some(7), 8), Some((7, seen(7))), "trimmed");
        assert_eq!(begins(Some(5), None, None, 7), None, "nobody here knows");
    }

    #[test]
    fn a_group_without_copies_begins_as_late_as_is_known() {
        assert_eq!(begins(None, Some(&kept(9)), Some(7), 3), Some((9, seen(9))));
        assert_eq!(begins(None, Some(&kept(5)), Some(7), 3), Some((7, seen(7))));
        assert_eq!(begins(None, None, Some(7), 1), Some((7, seen(7))));
        assert_eq!(begins(None, None, None, 1), Some((0, LastRecords::seen_from(Lsn(0)))));
        assert_eq!(begins(None, Some(&kept(5)), Some(7), 9), None, "what was noted is gone too");
    }
}
