//! Ways to search that Plimsoll does not have, each refused by its name.

use plimsoll_index::Error;

use crate::rest::answer::Answer;
use crate::rest::call::Call;

/// Searches whose body is a mustache template.
///
/// # Errors
/// 400 always.
pub async fn templates(_call: Call) -> Result<Answer, Error> {
    Err(Error::illegal_argument(
        "search templates are not supported: send the search that the template would render",
    ))
}

/// `_rank_eval`.
///
/// # Errors
/// 400 always.
pub async fn rank_eval(_call: Call) -> Result<Answer, Error> {
    Err(Error::illegal_argument("[_rank_eval] is not supported"))
}
