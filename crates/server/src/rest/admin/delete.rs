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
    for target in expressions::resolve(call.coordinator(), Some(expression), &options)? {
        let name = &target.index.name;
        if is_database(name) && !names.contains(name) {
            continue;
        }
        call.coordinator().delete_index(name).await?;
    }
    Ok(Answer::acknowledged())
}

/// Whether an index is the table of a database. Those belong to Redis clients: a wildcard passes
/// them over.
fn is_database(name: &str) -> bool {
    let number = name.strip_prefix("db").and_then(|number| number.parse::<u32>().ok());
    number.is_some_and(|number| number < plimsoll_cluster::DATABASES)
}
