//! What an aggregation is given besides the index and its request.

use serde_json::Value;
use tantivy::query::Query;

use crate::Error;
use crate::aggregation::memory::Memory;

/// How many documents flow at a time.
pub(super) const BATCH_DOCS: usize = 2_048;

/// A document that `top_hits` shows: segment, document, score.
pub type HitAddress = (u32, u32, f32);

/// Makes a query of its JSON.
pub type ResolveQuery<'a> = dyn Fn(&Value) -> Result<Box<dyn Query>, Error> + 'a;

/// Fetches hits of the partition for `top_hits`: addresses, and the options that say how; gives the
/// hits' JSON (`_index`, `_id`, `_source` and so on) in the same order.
pub type FetchHits<'a> = dyn Fn(&[HitAddress], &Value) -> Result<Vec<Value>, Error> + 'a;

/// What an aggregation is given besides the index.
pub struct Context<'a> {
    /// Now, for date maths: milliseconds since 1970.
    pub now_ms: u64,
    /// How many buckets may be made, as `search.max_buckets`.
    pub max_buckets: usize,
    /// Who is told of the memory taken.
    pub memory: &'a dyn Memory,
    /// Asked after each batch of documents.
    pub cancelled: &'a dyn Fn() -> bool,
    /// For filters.
    pub resolve_query: &'a ResolveQuery<'a>,
    /// For `top_hits`, which is refused without it.
    pub fetch: Option<&'a FetchHits<'a>>,
}

/// A count of buckets as the number of one.
pub(crate) fn bucket_id(index: usize) -> Result<u32, Error> {
    u32::try_from(index)
        .map_err(|_| Error::illegal_argument("an aggregation makes more than [4294967295] buckets"))
}

/// An error of Tantivy's, which is a disk's or a bug's.
pub(crate) fn index_error(error: impl std::fmt::Display) -> Error {
    Error::internal(format!("cannot read the index: {error}"))
}
