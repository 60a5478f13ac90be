//! A record of the log is taken into its group's chain.

use plimsoll_log::Entry;
use plimsoll_log::record::{self, Record};
use plimsoll_log::rules::chain::{Chain, Position};

/// Decodes a record and takes it into the chain.
pub(crate) fn advance(chain: &mut Chain, entry: &Entry) -> Result<(Record, Position), String> {
    let describe = |error: record::RecordError| format!("record {}: {error}", entry.lsn);
    let record = Record::decode(&entry.record).map_err(describe)?;
    let checksum = record::checksum(&entry.record).map_err(describe)?;
    let position = chain
        .advance(entry.lsn, checksum, record.stamp_ms, &record.anchor)
        .map_err(|fault| fault.to_string())?;
    Ok((record, position))
}
