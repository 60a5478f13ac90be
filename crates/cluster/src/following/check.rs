//! What a leader sent, looked at before it is appended: what no replica here can apply would stop them all,
//! and a log cannot be taken back. Pure.

use plimsoll_log::record::{Item, Record, RecordError};
use plimsoll_log::{Lsn, PartitionId};
use plimsoll_storage::operation::Operation;

/// The latest time that a leader's log may say, ms since 1970: the year 287,396. Sums with it are
/// made, and it becomes the least time of a table that follows no more.
pub(super) const LOG_TIME_MS_MAX: u64 = 1 << 53;

/// Why what a leader sent is not appended: it is a newer leader's form, or the leader is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotCarriable {
    /// It carries no records.
    #[error("the leader sent something else than records")]
    NoRecords,
    /// The leader's log says a time that is out of range, ms since 1970.
    #[error("the leader's log time is {0} ms")]
    LogTime(u64),
    /// One of the records would stop whoever applies it.
    #[error("record {lsn} of the leader: {fault}")]
    Record {
        /// Where it stands in the leader's log.
        lsn: Lsn,
        /// What is wrong.
        #[source]
        fault: RecordFault,
    },
}

/// What is wrong with a record of a leader's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RecordFault {
    /// It, or one of its operations, is not known here.
    #[error(transparent)]
    Unknown(#[from] RecordError),
    /// It was not asked for.
    #[error("it is of another partition")]
    OtherPartition,
    /// It was made at a time that is none.
    #[error("its stamp is out of range")]
    Stamp,
}

/// Whether the records of a leader's partition can be applied here; says which version of the mapping
/// they need, 0 for none. `allows` says whether all nodes here know what came with a version of the cluster.
///
/// # Errors
/// Where one of them cannot.
pub(super) fn check(
    partition: PartitionId,
    item: &Item,
    allows: impl Fn(u32) -> bool,
) -> Result<u64, NotCarriable> {
    let Item::Carried { batch, records } = item else {
        return Err(NotCarriable::NoRecords);
    };
    if batch.to.log_time_ms > LOG_TIME_MS_MAX {
        return Err(NotCarriable::LogTime(batch.to.log_time_ms));
    }
    let mut mapping_version = 0;
    for (link, bytes) in batch.records.iter().zip(records) {
        let wrong = |fault: RecordFault| NotCarriable::Record { lsn: link.lsn, fault };
        let unknown = |error: RecordError| wrong(error.into());
        let record = Record::decode(bytes).map_err(unknown)?;
        if record.partition != partition {
            return Err(wrong(RecordFault::OtherPartition));
        }
        if record.stamp_ms > LOG_TIME_MS_MAX {
            return Err(wrong(RecordFault::Stamp));
        }
        for item in &record.items {
            let Item::Operations { payloads, .. } = item else { continue };
            for payload in payloads {
                Operation::check(payload, &allows).map_err(unknown)?;
                let version = |it: Operation| it.document().map(|write| write.mapping_version);
                let version = Operation::decode(payload).ok().and_then(version).unwrap_or(0);
                mapping_version = mapping_version.max(version);
            }
        }
    }
    Ok(mapping_version)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use plimsoll_log::record::{Anchor, LeadStamp};
    use plimsoll_log::rules::carried::{Batch, Link};
    use plimsoll_log::{Incarnation, SessionId};
    use plimsoll_storage::Argv;

    use super::*;

    const PARTITION: PartitionId = PartitionId { table: 7, ordinal: 1 };

    fn item(partition: PartitionId, payload: Bytes, log_time_ms: u64) -> Item {
        let operations = Item::Operations {
            session: SessionId(1),
            first: 1,
            acked: 0,
            stamp_ms: 5,
            payloads: vec![payload],
        };
        let record = Record {
            partition,
            version: 3,
            lead: LeadStamp::default(),
            stamp_ms: 5,
            anchor: Anchor::default(),
            items: vec![operations],
        };
        let link = |lsn| Link { lsn: Lsn(lsn), hash: lsn, log_time_ms };
        let batch = Batch {
            incarnation: Incarnation(1),
            after: link(1),
            records: vec![link(2)],
            to: link(2),
        };
        Item::Carried { batch, records: vec![record.encode()] }
    }

    #[test]
    fn what_no_replica_could_apply_is_not_appended() {
        let set = Operation::Command(Argv::of(&["SET", "a", "1"])).encode();
        let check = |partition, item: &Item| check(partition, item, |since| since < 4);
        assert_eq!(check(PARTITION, &item(PARTITION, set.clone(), 9)), Ok(0));
        let later = ["SET", "a", "1", "IFEQ", "2"];
        let later = Operation::Command(Argv::of(&later)).encode();
        let other = PartitionId { table: 8, ordinal: 1 };
        let unknown = Operation::Command(Argv::of(&["FROB", "a"])).encode();
        let newer = Bytes::from_static(&[0xfe, 1, 2]);
        for (item, words) in [
            (item(other, set.clone(), 9), "another partition"),
            (item(PARTITION, unknown, 9), "unknown command"),
            (item(PARTITION, later, 9), "unknown command"),
            (item(PARTITION, newer, 9), "record 2 of the leader"),
            (item(PARTITION, set, u64::MAX), "log time"),
        ] {
            let refused = check(PARTITION, &item).unwrap_err().to_string();
            assert!(refused.contains(words), "{refused}");
        }
    }
}
