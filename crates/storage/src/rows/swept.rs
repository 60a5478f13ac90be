//! How far the expiry index was swept, so that nobody walks over what was deleted there: the store
//! passes each deleted entry until its files are rewritten.
//!
//! It is written by sweeps alone, from log time and the entries that they took. No entry is put
//! before it later: an expiry that is past by log time takes its row away at once, and log time
//! does not go back. The value:
//!
//! | field | bytes |
//! |---|---|
//! | format, now 1 | 1 |
//! | the key where walks begin | the rest |

use super::key::{self, StoreKey};
use super::meta::RowBytes;
use super::{RowsRead, StoreError};

const FORMAT: u8 = 1;

/// The value of the row.
#[must_use]
pub fn encode(from: &[u8]) -> RowBytes {
    let mut out = RowBytes::new();
    out.push(FORMAT);
    out.extend_from_slice(from);
    out
}

/// Where a walk over what is due begins.
///
/// # Errors
/// Where the store fails or is damaged.
pub fn due_from<R: RowsRead + ?Sized>(rows: &R) -> Result<StoreKey, StoreError> {
    let Some(row) = rows.get(key::SWEPT)? else { return Ok(key::expiry_from(0)) };
    let from = row.strip_prefix(&[FORMAT]).filter(|from| from.starts_with(&[key::KIND_EXPIRY]));
    let from = from.ok_or_else(|| StoreError::Damaged("the place of sweeps".into()))?;
    Ok(StoreKey::from_slice(from))
}
