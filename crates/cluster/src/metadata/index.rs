//! What the metadata says of a table that is an index: its mapping, settings and other names.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use plimsoll_index::Error;
use plimsoll_index::mapping::Mapping;
use serde_json::{Map, Value};

use crate::metadata::setting::setting_ms;
use crate::metadata::table::TableDefinition;

const REPLICAS: &str = "index.number_of_replicas";
const DELAYED: &str = "index.unassigned.node_left.delayed_timeout";

/// A table with a mapping, as it was at one moment.
#[derive(Clone, Debug)]
pub struct IndexMetadata {
    /// Its name.
    pub name: String,
    /// Tells it from an earlier index of the same name: 22 URL-safe characters.
    pub uuid: String,
    /// When it was created, ms since 1970.
    pub created_ms: u64,
    /// Its settings by their full names (`index.number_of_replicas`), values as they were given.
    pub settings: Map<String, Value>,
    /// What its fields are.
    pub mapping: Mapping,
    /// One more at each change of the mapping.
    pub mapping_version: u64,
    /// Its other names; each with what it was given (`filter`, `index_routing`,
    /// `search_routing`, `is_write_index`, `is_hidden`).
    pub aliases: BTreeMap<String, Map<String, Value>>,
    /// How many partitions it has.
    pub partitions: u32,
    /// Copies of each partition beyond the first that it asks for.
    pub replicas: u32,
    /// Whether it is open: a closed one keeps its documents and answers nothing.
    pub is_open: bool,
}

impl IndexMetadata {
    /// What a definition says; `None` for a table that is no index.
    ///
    /// # Errors
    /// Where its mapping cannot be read: another version wrote it.
    pub(crate) fn of(name: &str, definition: &TableDefinition) -> Result<Option<Self>, Error> {
        let Some(documents) = &definition.documents else { return Ok(None) };
        Ok(Some(Self {
            name: name.to_owned(),
            uuid: uuid(definition.incarnation),
            created_ms: documents.created_ms,
            replicas: replicas(&documents.settings)?.unwrap_or(0),
            settings: documents.settings.clone(),
            mapping: mapping_of(&documents.settings, &documents.mapping)?,
            mapping_version: documents.mapping_version,
            aliases: documents.aliases.clone(),
            partitions: u32::try_from(definition.partitions.len()).unwrap_or(u32::MAX),
            is_open: !documents.is_closed,
        }))
    }

    /// How long a node that left is waited for before its copies are made elsewhere, ms, where the
    /// index says.
    pub(crate) fn delayed_ms(&self) -> Option<u64> {
        self.settings.get(DELAYED).and_then(setting_ms)
    }
}

/// A mapping with the analyzers that the settings define.
pub(crate) fn mapping_of(settings: &Map<String, Value>, body: &Value) -> Result<Mapping, Error> {
    Mapping::of_settings(settings)?.create(body)
}

/// How many copies beyond the first an index' settings ask for, where they say.
///
/// # Errors
/// Where it is no number.
pub(crate) fn replicas(settings: &Map<String, Value>) -> Result<Option<u32>, Error> {
    number(settings, REPLICAS)
}

/// A number among settings, where it is set.
///
/// # Errors
/// Where it is none.
pub(crate) fn number(settings: &Map<String, Value>, key: &str) -> Result<Option<u32>, Error> {
    let Some(value) = settings.get(key) else { return Ok(None) };
    let number = match value {
        Value::Number(number) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let shown = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    number.map(Some).ok_or_else(|| {
        Error::illegal_argument(format!("Failed to parse value [{shown}] for setting [{key}]"))
    })
}

/// Twenty-two URL-safe characters that tell tables apart.
pub(crate) fn uuid(incarnation: u64) -> String {
    // The second half is the first once more: only the length is a habit of clients.
    let bytes = [incarnation.to_be_bytes(), incarnation.rotate_left(29).to_be_bytes()].concat();
    URL_SAFE_NO_PAD.encode(bytes)
}

/// 404: there is no index of this name.
pub(crate) fn no_such_index(name: &str) -> Error {
    Error::not_found("index_not_found_exception", format!("no such index [{name}]"))
        .with("index", name)
        .with("resource.id", name)
        .with("resource.type", "index_or_alias")
        .with("index_uuid", "_na_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_has_a_name_of_22_characters_beside_its_own() {
        assert_eq!(uuid(u64::MAX).len(), 22);
        assert_ne!(uuid(1), uuid(2));
    }
}
