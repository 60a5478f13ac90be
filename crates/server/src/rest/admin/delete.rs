//! DELETE `/{index}`.

use plimsoll_index::Error;

use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::expressions::{self, Expand, parts};

/// DELETE `/{index}`. All names are known before the first index goes.
///
/// # Errors
/// 404 where one is not there, 400 where it is an alias, or wildcards are not allowed.
pub async fn delete(call: Call) -> Result<Answer, Error> {
    let expression = call.part("index").unwrap_or_default();
    let is_wild = |part: &String| part == "_all" || part.contains('*');
    let requires_name = call.cluster_setting("action.destructive_requires_name");
    if requires_name.as_deref() == Some("true") && parts(expression)?.iter().any(is_wild) {
        return Err(Error::illegal_argument("Wildcard expressions or all indices are not allowed"));
    }
    let options = Expand { aliases: false, ..Expand::any() }.with_query(&call.query)?;
    let names = parts(expression)?;
    for target in expressions::resolve(call.coordinator(), &call.grant, Some(expression), &options)?
    {
        let name = &target.index.name;
        if plimsoll_cluster::is_database(name) && !names.contains(name) {
            continue;
        }
        call.coordinator().documents().delete_index(name).await?;
    }
    Ok(Answer::acknowledged())
}
