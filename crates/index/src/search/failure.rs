//! Tantivy's failures, as a search tells them.

use crate::error::Error;

pub(super) fn internal(error: tantivy::TantivyError) -> Error {
    Error::internal(error.to_string())
}
