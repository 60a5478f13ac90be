//! How a search is carried out, and the names that scrolls and points in time go on by.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use plimsoll_index::Error;
use plimsoll_index::search::Hit;
use serde_json::Value;

use crate::machine::chance::random_u64;
use crate::wire::request::Preference;

/// How a search is carried out, beside what it asks for.
#[derive(Clone, Debug, Default)]
pub struct SearchOptions {
    /// Only the partitions that hold documents of these routings; all where there are none.
    pub routing: Vec<String>,
    /// What every hit of an index must match besides: the filter of the alias that named it.
    pub filters: BTreeMap<String, Value>,
    /// Whether the answer may come from the request cache; where not said, it may for searches
    /// without hits.
    pub request_cache: Option<bool>,
    /// After how long partitions that have not answered are left out.
    pub timeout: Option<Duration>,
    /// Whether partitions that fail may be left out; true in Elasticsearch.
    pub allow_partial: bool,
    /// Which copies are asked.
    pub preference: Preference,
    /// Holds a scroll for this long.
    pub scroll: Option<Duration>,
    /// Whose the scroll is.
    pub owner: String,
    /// Asks the views of a point in time, and holds it for longer.
    pub context: Option<(ContextId, Option<Duration>)>,
    /// Whether the names of aggregations tell their types.
    pub typed_keys: bool,
}

/// The hit of each part that a scroll goes on after; `None` where it has given none of it.
pub(crate) type Last = Vec<Option<Hit>>;

/// The name of a context: URL-safe characters that say nothing; and whose it is. Of another owner the same
/// characters name nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContextId {
    name: String,
    owner: String,
}

impl fmt::Display for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl ContextId {
    /// The context that an owner names.
    ///
    /// # Errors
    /// Where it is no name that a node gives out.
    pub fn of(owner: &str, name: &str) -> Result<Self, Error> {
        match URL_SAFE_NO_PAD.decode(name) {
            Ok(bytes) if bytes.len() == 16 => {
                Ok(Self { name: name.to_owned(), owner: owner.to_owned() })
            }
            _ => Err(Error::illegal_argument(format!("Cannot parse scroll id [{name}]"))),
        }
    }

    /// Whose it is.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    pub(super) fn new(owner: &str) -> Self {
        let bytes = [random_u64().to_be_bytes(), random_u64().to_be_bytes()].concat();
        Self { name: URL_SAFE_NO_PAD.encode(bytes), owner: owner.to_owned() }
    }
}
