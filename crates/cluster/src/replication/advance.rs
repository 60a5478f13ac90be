//! A record of the log is taken into its group's chain.

use plimsoll_log::record::{self, Record, RecordError};
use plimsoll_log::rules::chain::{Chain, ChainFault, Position};
use plimsoll_log::{Entry, Lsn};

/// Why a record is not the next of its group's chain. Apply of the group stops.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdvanceError {
    /// Its bytes are no record.
    #[error("record {lsn}: {source}")]
    Unreadable {
        /// Where it stands.
        lsn: Lsn,
        /// What is wrong.
        source: RecordError,
    },
    /// The log is not the one that its lead read.
    #[error(transparent)]
    Chain(#[from] ChainFault),
}

/// Decodes a record and takes it into the chain.
pub(crate) fn advance(
    chain: &mut Chain,
    entry: &Entry,
) -> Result<(Record, Position), AdvanceError> {
    let unreadable = |source| AdvanceError::Unreadable { lsn: entry.lsn, source };
    let record = Record::decode(&entry.record).map_err(unreadable)?;
    let checksum = record::checksum(&entry.record).map_err(unreadable)?;
    let position = chain.advance(entry.lsn, checksum, record.stamp_ms, &record.anchor)?;
    Ok((record, position))
}
