//! The refusal of too many buckets, for who collects and who answers. How many there are is counted by them.

use crate::Error;

/// 400: a request makes more buckets than are allowed.
pub(crate) fn too_many(max: usize, was: usize) -> Error {
    Error::invalid(
        "too_many_buckets_exception",
        format!(
            "Trying to create too many buckets. Must be less than or equal to: [{max}] but was [{was}]. This limit can be set by changing the [search.max_buckets] cluster level setting."
        ),
    )
    .with("max_buckets", max)
}
