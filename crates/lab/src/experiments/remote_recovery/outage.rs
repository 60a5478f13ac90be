//! A day in which a follower hears nothing of its leader, and how it comes level again: by the log, where
//! what a follower may keep of it reaches back far enough, else by difference; beside a leader that keeps
//! its history by time alone, whose follower copies all files anew once somebody orders it. A model of
//! bytes over one link; what nodes take to read and apply them is not in it.

/// How long the link is cut.
pub(super) const OUTAGE_S: f64 = 86_400.0;
/// What a leader keeps for a follower, bytes of each log group (`ccr.retention.max_bytes`), and how many
/// groups there are.
const KEPT_BYTES: f64 = 4e9;
const GROUPS: usize = 16;
/// For how long Elasticsearch keeps a follower's history (`index.soft_deletes.retention_lease.period`).
const KEPT_BY_TIME_S: f64 = 12.0 * 3_600.0;
const _: () = assert!(KEPT_BY_TIME_S < OUTAGE_S);
/// What a row's record is beside its value, and how many rows one hash tells of, and what that takes.
const ROW_BYTES: f64 = 40.0;
const ROWS_OF_HASH: f64 = 16_384.0;
const HASH_BYTES: f64 = 64.0;

/// A table, what is written to it, and what lies between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outage {
    pub(super) partitions: usize,
    pub(super) table_bytes: f64,
    pub(super) row_bytes: f64,
    pub(super) written_bytes_s: f64,
    /// The part of the table that is written, again and again; what is beyond its bytes is new rows where none.
    pub(super) changes_part: Option<f64>,
    pub(super) link_bytes_s: f64,
}

/// How a follower comes level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Log,
    Difference,
    Files,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub(super) how: How,
    /// What the leader kept at most, bytes.
    pub(super) kept_bytes: f64,
    /// What crossed the link, with what was written meanwhile.
    pub(super) sent_bytes: f64,
    /// From the link's return until the follower was level.
    pub(super) seconds: f64,
    /// Whether somebody had to order it.
    pub(super) by_hand: bool,
}

impl Outage {
    fn written_bytes(&self) -> f64 {
        self.written_bytes_s * OUTAGE_S
    }

    fn grown_table_bytes(&self) -> f64 {
        match self.changes_part {
            Some(_) => self.table_bytes,
            None => self.table_bytes + self.written_bytes(),
        }
    }

    /// The product's way.
    pub(super) fn ours(&self) -> Level {
        let kept_max = KEPT_BYTES * self.partitions.min(GROUPS) as f64;
        let written = self.written_bytes();
        if written <= kept_max {
            return self.level(How::Log, written, written, false);
        }
        let rows = self.grown_table_bytes() / self.row_bytes;
        let changed = match self.changes_part {
            Some(part) => written.min(self.table_bytes * part),
            None => written,
        };
        let hashes = rows / ROWS_OF_HASH * HASH_BYTES;
        let sent = changed * (1.0 + ROW_BYTES / self.row_bytes) + hashes;
        self.level(How::Difference, kept_max, sent, false)
    }

    /// That of a leader which keeps its history by time, without a bound in bytes: for less than the outage.
    pub(super) fn by_time(&self) -> Level {
        let kept = self.written_bytes_s * KEPT_BY_TIME_S;
        self.level(How::Files, kept, self.grown_table_bytes(), true)
    }

    /// `bytes` have to cross, and what is written until they have.
    fn level(&self, how: How, kept_bytes: f64, bytes: f64, by_hand: bool) -> Level {
        let left_over = (self.link_bytes_s - self.written_bytes_s).max(1.0);
        let seconds = bytes / left_over;
        let sent_bytes = bytes + self.written_bytes_s * seconds;
        Level { how, kept_bytes, sent_bytes, seconds, by_hand }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outage(written_bytes_s: f64, changes_part: Option<f64>) -> Outage {
        Outage {
            partitions: 15,
            table_bytes: 13e9,
            row_bytes: 200.0,
            written_bytes_s,
            changes_part,
            link_bytes_s: 125e6,
        }
    }

    #[test]
    fn what_is_kept_decides_the_way() {
        let little = outage(0.2e6, None).ours();
        assert_eq!((little.how, little.by_hand), (How::Log, false));
        assert!(little.kept_bytes <= 15.0 * KEPT_BYTES && little.sent_bytes >= 0.2e6 * OUTAGE_S);
        let much = outage(2e6, Some(0.05));
        let (ours, by_time) = (much.ours(), much.by_time());
        assert_eq!((ours.how, by_time.how), (How::Difference, How::Files));
        assert!(ours.kept_bytes == 15.0 * KEPT_BYTES, "and no more, however long it is away");
        assert!(ours.sent_bytes < 0.15 * by_time.sent_bytes, "{ours:?} {by_time:?}");
        assert!(by_time.by_hand && !ours.by_hand);
        // What is new has to be sent either way.
        let grown = outage(2e6, None);
        assert!(grown.ours().sent_bytes < 1.25 * grown.by_time().sent_bytes);
    }
}
