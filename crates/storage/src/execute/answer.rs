//! What commands answer with: values that are counted as held before they are, and faults.

use bytes::Bytes;

use crate::rows::{ANSWER_BYTES, REPLY_BYTES, RowsRead, StoreError};
use crate::{ErrorReply, Reply};

/// Why a command gives no answer of its own.
#[derive(Debug)]
pub(super) enum Fault {
    Store(StoreError),
    Refused(ErrorReply),
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<ErrorReply> for Fault {
    fn from(error: ErrorReply) -> Self {
        Self::Refused(error)
    }
}

pub(super) type Answer = Result<Reply, Fault>;

/// A value as an answer, or a part of one, that was asked for.
pub(super) fn held<R: RowsRead + ?Sized>(rows: &R, value: Bytes) -> Result<Reply, StoreError> {
    rows.hold(value.len() + ANSWER_BYTES)?;
    Ok(Reply::Bulk(value))
}

/// The same of bytes that are copied.
pub(super) fn held_copy<R: RowsRead + ?Sized>(rows: &R, value: &[u8]) -> Result<Reply, StoreError> {
    rows.hold(value.len() + ANSWER_BYTES)?;
    Ok(Reply::Bulk(Bytes::copy_from_slice(value)))
}

/// The same of a value that may not be there.
pub(super) fn held_if_any<R: RowsRead + ?Sized>(
    rows: &R,
    value: Option<Bytes>,
) -> Result<Reply, StoreError> {
    value.map_or_else(|| rows.hold(REPLY_BYTES).map(|()| Reply::Nil), |value| held(rows, value))
}

pub(super) fn into_reply(answer: Answer) -> Result<Reply, StoreError> {
    match answer {
        Ok(reply) => Ok(reply),
        Err(Fault::Refused(error)) => Ok(Reply::Error(error)),
        Err(Fault::Store(error)) => Err(error),
    }
}
