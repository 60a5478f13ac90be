//! Why a query cannot be made, in the words that Elasticsearch has then.

use crate::error::Error;

/// A `query_shard_exception`.
pub(crate) fn shard_error(reason: impl ToString) -> Error {
    Error::invalid("query_shard_exception", reason)
}

/// An error that a value made while a query was built, in the words that Elasticsearch has then.
pub(crate) fn failed_to_create(cause: Error) -> Error {
    shard_error(format!("failed to create query: {}", cause.reason)).caused_by(cause)
}
