//! `GET /_cat`: which tables there are.

use plimsoll_index::Error;

use crate::rest::answer::Answer;
use crate::rest::call::Call;

/// GET `/_cat`.
///
/// # Errors
/// None of its own.
pub async fn list(_call: Call) -> Result<Answer, Error> {
    Ok(Answer::text(lines()))
}

fn lines() -> String {
    let paths = super::ROUTES.iter().map(|route| route.path).filter(|path| *path != "/_cat");
    let lines: Vec<&str> = std::iter::once("=^.^=").chain(paths).collect();
    lines.join("\n") + "\n"
}
