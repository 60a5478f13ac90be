//! Documents: taking the JSON of one apart by a mapping, for checking it before it is written
//! ([`Mapping::check`]) and for indexing it (`index`).
//!
//! The JSON is read once, front to back, and no tree is made of it, but of fields that the
//! mapping does not know.

mod infer;
mod leaf;
mod visit;
mod walk;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

pub(crate) use leaf::{Leaf, half};
pub(crate) use walk::Sink;

use crate::Error;
use crate::mapping::{Field, Mapping};
use walk::Walk;

/// The most bytes of an `_id`.
const ID_BYTES_MAX: usize = 512;

/// Takes nothing: for checking alone.
struct Nowhere;

impl Sink for Nowhere {
    fn leaf(&mut self, _: &Field, _: Leaf<'_>) {}
    fn ignored(&mut self, _: &str) {}
}

impl Mapping {
    /// Checks the source of a document that is to be written under `id`, and gives the mapping of
    /// the fields that it adds (a body for [`Mapping::merge`]); none where it adds none.
    ///
    /// # Errors
    /// 400 as Elasticsearch words it: `mapper_parsing_exception` with its cause where a value does
    /// not fit, `strict_dynamic_mapping_exception`, `illegal_argument_exception` where a limit of
    /// the mapping is passed.
    pub fn check(&self, id: &str, source: &[u8]) -> Result<Option<Value>, Error> {
        if id.len() > ID_BYTES_MAX {
            return Err(Error::illegal_argument(format!(
                "id [{id}] is too long, must be no longer than {ID_BYTES_MAX} bytes but was: {}",
                id.len()
            )));
        }
        let mut nowhere = Nowhere;
        let mut walk = Walk::new(self, id, &mut nowhere, true);
        walk.run(source)?;
        let added = walk.into_added();
        if added.is_empty() {
            return Ok(None);
        }
        let delta = infer::to_body(added);
        // The rest of the document has to fit what its first values have added.
        let grown = self.merge(&delta)?;
        // An object without a field in it adds none.
        if grown.to_json() == self.to_json() {
            return Ok(None);
        }
        let mut walk = Walk::new(&grown, id, &mut nowhere, false);
        walk.run(source)?;
        Ok(Some(delta))
    }
}

/// Gives the values of a document to `sink`. Fields that the mapping does not have are left out.
///
/// # Errors
/// As [`Mapping::check`]; not where the document was checked with this mapping or an older one.
pub(crate) fn index(
    mapping: &Mapping,
    id: &str,
    source: &[u8],
    sink: &mut impl Sink,
) -> Result<(), Error> {
    Walk::new(mapping, id, sink, false).run(source)
}

/// What a document adds: the mappings of new fields by their names, objects holding more.
type Added = Map<String, Value>;
