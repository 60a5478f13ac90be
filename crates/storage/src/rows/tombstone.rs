//! What is kept for a while of a document that was deleted, so that its versions go on.
//!
//! Its key is [`super::key::tombstone`]'s. Its value:
//!
//! | field | bytes |
//! |---|---|
//! | format, now 1 | 1 |
//! | version of the deletion | varint |
//! | the partition's sequence number of the deletion | varint |
//! | when it is forgotten, ms since 1970; the expiry index has it too | varint |

use plimsoll_log::record::get_varint;

use super::StoreError;
use super::key::push_varint;
use super::meta::RowBytes;

const FORMAT: u8 = 1;

/// How long a deletion is remembered, log time, ms: Elasticsearch's `index.gc_deletes`.
pub const KEPT_MS: u64 = 60_000;

/// A deleted document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// The version that the deletion took.
    pub version: u64,
    /// The partition's sequence number of the deletion.
    pub sequence: u64,
    /// When it is forgotten, ms since 1970.
    pub expiry_ms: u64,
}

impl Tombstone {
    /// The row's value.
    #[must_use]
    pub fn encode(&self) -> RowBytes {
        let mut out = RowBytes::new();
        out.push(FORMAT);
        push_varint(&mut out, self.version);
        push_varint(&mut out, self.sequence);
        push_varint(&mut out, self.expiry_ms);
        out
    }

    /// The tombstone in `row`.
    ///
    /// # Errors
    /// Where the bytes are none: the store is damaged.
    pub fn decode(row: &[u8]) -> Result<Self, StoreError> {
        decode(row).ok_or_else(|| StoreError::Damaged("a tombstone".into()))
    }
}

fn decode(row: &[u8]) -> Option<Tombstone> {
    let mut rest = row.strip_prefix(&[FORMAT])?;
    let mut number = || get_varint(&mut rest).ok();
    let tombstone = Tombstone { version: number()?, sequence: number()?, expiry_ms: number()? };
    rest.is_empty().then_some(tombstone)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(version: u64, sequence: u64, expiry_ms: u64) {
            let tombstone = Tombstone { version, sequence, expiry_ms };
            let row = tombstone.encode();
            prop_assert_eq!(Tombstone::decode(&row).unwrap(), tombstone);
            prop_assert!(Tombstone::decode(&row[..row.len() - 1]).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(row: Vec<u8>) {
            let _ = Tombstone::decode(&row);
        }
    }
}
