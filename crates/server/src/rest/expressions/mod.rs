//! Index expressions: what `logs-*,-logs-old,alias` means among the indices there are. The rules
//! are pure ([`expand`]); only [`resolve`] and its like ask the node.

pub mod date_math;
mod expand;

use std::sync::Arc;

use plimsoll_cluster::{Coordinator, IndexMetadata};
use plimsoll_index::Error;
use serde_json::Value;

use crate::node::unix_ms;
use crate::rest::needs;
use crate::security::principal::Grant;
use expand::closed;
pub use expand::{Expand, Target, expand, not_found};

/// The longest expression, in bytes.
const EXPRESSION_BYTES_MAX: usize = 64 << 10;

/// The indices that an expression means, by name; none means all. What it names has to be granted, and wildcards
/// mean what is.
///
/// # Errors
/// 403 for a name that is not granted, 404 for one that is not there, 400 for a closed one.
pub fn resolve(
    coordinator: &Coordinator,
    grant: &Grant,
    expression: Option<&str>,
    options: &Expand,
) -> Result<Vec<Target>, Error> {
    let parts = parts(expression.unwrap_or("_all"))?;
    // One plain name is the usual case, and needs no list of all indices.
    if let [name] = parts.as_slice() {
        let is_plain = !name.contains('*') && name != "_all";
        let found = is_plain.then(|| coordinator.documents().index(name)).flatten();
        if let Some(index) = found.filter(|index| index.is_open && grant.holds_for(name)) {
            return Ok(vec![Target { index, aliases: Vec::new() }]);
        }
    }
    let all = coordinator.documents().indices();
    expand(&all, grant, &parts, options)
}

/// Splits an expression at commas and resolves `<dates-{now/d}>`.
///
/// # Errors
/// 400 where it is too long or a date in it is broken.
pub fn parts(expression: &str) -> Result<Vec<String>, Error> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(Error::illegal_argument(format!(
            "the index expression has {} bytes, more than {EXPRESSION_BYTES_MAX}",
            expression.len()
        )));
    }
    let now_ms = unix_ms();
    let parts = expression.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| date_math::resolve(part, now_ms)).collect()
}

/// The one index that a document is read from: its name, or an alias of one index.
///
/// # Errors
/// 403 where it is not granted, 404 where it is not there, 400 where it is closed or there are several.
pub fn resolve_one(
    coordinator: &Coordinator,
    grant: &Grant,
    expression: &str,
    resource_type: &'static str,
) -> Result<Target, Error> {
    let options = Expand { allow_no_indices: false, resource_type, ..Expand::search() };
    let mut found = resolve(coordinator, grant, Some(expression), &options)?;
    match (found.pop(), found.is_empty()) {
        (Some(target), true) => Ok(target),
        (Some(last), false) => {
            let mut names: Vec<&str> =
                found.iter().chain([&last]).map(|target| target.index.name.as_str()).collect();
            names.sort_unstable();
            let kind = if last.aliases.is_empty() { "index expression" } else { "alias" };
            Err(Error::illegal_argument(format!(
                "{kind} [{expression}] has more than one index associated with it [{}], can't \
                 execute a single index op",
                names.join(", ")
            )))
        }
        (None, _) => Err(not_found(expression, resource_type)),
    }
}

/// The index that a document is written to: its name, or the write index of an alias. None where
/// nothing has that name.
///
/// # Errors
/// 403 where it is not granted, 400 where an alias has no write index, or the index is closed.
pub fn resolve_write(
    coordinator: &Coordinator,
    grant: &Grant,
    name: &str,
) -> Result<Option<Target>, Error> {
    needs::check(grant, name)?;
    if let Some(index) = coordinator.documents().index(name) {
        return if index.is_open {
            Ok(Some(Target { index, aliases: Vec::new() }))
        } else {
            Err(closed(&index))
        };
    }
    let named: Vec<Arc<IndexMetadata>> = coordinator
        .documents()
        .indices()
        .into_iter()
        .filter(|index| index.aliases.contains_key(name))
        .collect();
    let says = |index: &IndexMetadata| {
        index
            .aliases
            .get(name)
            .and_then(|alias| alias.get("is_write_index"))
            .and_then(Value::as_bool)
    };
    let chosen = match named.as_slice() {
        [] => return Ok(None),
        [one] if says(one) != Some(false) => Some(one),
        several => {
            let mut chosen = several.iter().filter(|index| says(index) == Some(true));
            let first = chosen.next();
            if let Some((one, other)) = first.zip(chosen.next()) {
                return Err(Error::illegal_argument(format!(
                    "alias [{name}] has more than one write index [{},{}]",
                    one.name, other.name
                )));
            }
            first
        }
    };
    let Some(index) = chosen else {
        return Err(Error::illegal_argument(format!(
            "no write index is defined for alias [{name}]. The write index may be explicitly \
             disabled using is_write_index=false or the alias points to multiple indices without \
             one being designated as a write index"
        )));
    };
    if !index.is_open {
        return Err(closed(index));
    }
    Ok(Some(Target { index: Arc::clone(index), aliases: vec![name.to_owned()] }))
}
