//! When keys were last taken away, so that a watched key that was absent, and was made and taken
//! away again meanwhile, is not mistaken for one that nobody touched.
//!
//! Keys share these rows by their order hash ([`super::key::removal`]), so that their number is
//! bounded and nothing has to be swept. The price is that a transaction on an absent key fails
//! where one of the few keys that it shares a row with was taken away meanwhile; its client tries
//! again, as it does after any failed one. The value:
//!
//! | field | bytes |
//! |---|---|
//! | format, now 1 | 1 |
//! | the partition's sequence number of the removal | varint |

use plimsoll_log::record::get_varint;

use super::key::{self, push_varint};
use super::meta::RowBytes;
use super::{RowsRead, StoreError};

const FORMAT: u8 = 1;

/// The value of a removal's row.
#[must_use]
pub fn encode(sequence: u64) -> RowBytes {
    let mut out = RowBytes::new();
    out.push(FORMAT);
    push_varint(&mut out, sequence);
    out
}

/// The sequence number in a removal's row.
///
/// # Errors
/// Where the bytes are none: the store is damaged.
pub fn decode(row: &[u8]) -> Result<u64, StoreError> {
    let number = row.strip_prefix(&[FORMAT]).and_then(|mut rest| {
        let number = get_varint(&mut rest).ok()?;
        rest.is_empty().then_some(number)
    });
    number.ok_or_else(|| StoreError::Damaged("a removal".into()))
}

/// The sequence number of the last removal that a Redis key may have been taken away by; 0 where
/// there was none.
///
/// # Errors
/// Where the store fails.
pub fn last<R: RowsRead + ?Sized>(rows: &R, key: &[u8]) -> Result<u64, StoreError> {
    let mut last = 0;
    for row in [key::REMOVALS_FROM, &key::removal(key)] {
        if let Some(found) = rows.get(row)? {
            last = last.max(decode(&found)?);
        }
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(sequence: u64) {
            let row = encode(sequence);
            prop_assert_eq!(decode(&row).unwrap(), sequence);
            prop_assert!(decode(&row[..row.len() - 1]).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(row: Vec<u8>) {
            let _ = decode(&row);
        }
    }
}
