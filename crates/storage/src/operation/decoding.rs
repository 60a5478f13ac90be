//! Numbers and bytes out of an operation's bytes, slices of them. Nothing is believed: what does not fit is told.

use bytes::Bytes;
use plimsoll_log::record::{RecordError, get_varint};

pub(super) fn take_varint(bytes: &Bytes, at: &mut usize) -> Result<u64, RecordError> {
    let mut rest = bytes.get(*at..).ok_or(RecordError::Truncated)?;
    let value = get_varint(&mut rest)?;
    *at = bytes.len() - rest.len();
    Ok(value)
}

/// A number of things that each take a byte at least.
pub(super) fn take_count(bytes: &Bytes, at: &mut usize) -> Result<u64, RecordError> {
    let count = take_varint(bytes, at)?;
    if count > (bytes.len() - *at) as u64 {
        return Err(RecordError::Malformed("more entries than bytes"));
    }
    Ok(count)
}

pub(super) fn take_bytes(bytes: &Bytes, at: &mut usize) -> Result<Bytes, RecordError> {
    let len = usize::try_from(take_varint(bytes, at)?).unwrap_or(usize::MAX);
    let end = at.checked_add(len).filter(|end| *end <= bytes.len());
    let end = end.ok_or(RecordError::Truncated)?;
    let taken = bytes.slice(*at..end);
    *at = end;
    Ok(taken)
}
