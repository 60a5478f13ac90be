//! The value of a field row: one field of a hash.
//!
//! | field | bytes |
//! |---|---|
//! | format, now 1 | 1 |
//! | flags: 1 where it has an expiry | 1 |
//! | version: 1, then one more at each overwrite | varint |
//! | sequence number of the partition at the last change | varint |
//! | expiry, ms since 1970, where it has one | varint |
//! | value | the rest |
//!
//! The format number is stable: a change of meaning takes the next one.

use bytes::Bytes;
use plimsoll_log::record::get_varint;

use super::StoreError;
use super::key::push_varint;
use super::meta::RowBytes;

const FORMAT: u8 = 1;
const HAS_EXPIRY: u8 = 1;

/// A field row without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldHead {
    /// 1 for a new field, then one more at each overwrite.
    pub version: u64,
    /// The partition's sequence number at the last change.
    pub sequence: u64,
    /// When the field expires, ms since 1970.
    pub expiry_ms: Option<u64>,
}

impl FieldHead {
    /// Appends the row's value up to the field's own bytes, which follow.
    pub fn encode(&self, out: &mut RowBytes) {
        out.push(FORMAT);
        out.push(if self.expiry_ms.is_some() { HAS_EXPIRY } else { 0 });
        push_varint(out, self.version);
        push_varint(out, self.sequence);
        if let Some(expiry_ms) = self.expiry_ms {
            push_varint(out, expiry_ms);
        }
    }

    /// The field row in `row`, and its value.
    ///
    /// # Errors
    /// Where the bytes are no field row: the store is damaged.
    pub fn decode(row: &[u8]) -> Result<(Self, &[u8]), StoreError> {
        decode(row).ok_or_else(|| StoreError::Damaged("a field row".into()))
    }

    /// Whether the field is there at a time.
    #[must_use]
    pub fn is_live(&self, now_ms: u64) -> bool {
        self.expiry_ms.is_none_or(|expiry_ms| expiry_ms > now_ms)
    }
}

fn decode(row: &[u8]) -> Option<(FieldHead, &[u8])> {
    let (&[format, flags], mut rest) = row.split_first_chunk()?;
    if format != FORMAT || flags > HAS_EXPIRY {
        return None;
    }
    let version = get_varint(&mut rest).ok()?;
    let sequence = get_varint(&mut rest).ok()?;
    let expiry_ms = if flags == 0 { None } else { Some(get_varint(&mut rest).ok()?) };
    Some((FieldHead { version, sequence, expiry_ms }, rest))
}

/// A field row as it was found.
#[derive(Clone, Debug)]
pub struct Field {
    /// What it says beside the value.
    pub head: FieldHead,
    row: Bytes,
    value_at: usize,
}

impl Field {
    /// Reads a stored field row.
    ///
    /// # Errors
    /// Where the bytes are no field row: the store is damaged.
    pub fn new(row: Bytes) -> Result<Self, StoreError> {
        let (head, value) = FieldHead::decode(&row)?;
        let value_at = row.len() - value.len();
        Ok(Self { head, row, value_at })
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.row[self.value_at..]
    }

    /// The value, sharing the row's bytes.
    #[must_use]
    pub fn into_value(self) -> Bytes {
        self.row.slice(self.value_at..)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            version: u64, sequence: u64, expiry_ms: Option<u64>, value: Vec<u8>,
        ) {
            let head = FieldHead { version, sequence, expiry_ms };
            let mut row = RowBytes::new();
            head.encode(&mut row);
            row.extend_from_slice(&value);
            prop_assert_eq!(FieldHead::decode(&row).unwrap(), (head, value.as_slice()));
            let field = Field::new(Bytes::copy_from_slice(&row)).unwrap();
            prop_assert_eq!(field.value(), value.as_slice());
        }

        #[test]
        fn any_bytes_are_read_or_refused(row: Vec<u8>) {
            let _ = FieldHead::decode(&row);
        }
    }
}
