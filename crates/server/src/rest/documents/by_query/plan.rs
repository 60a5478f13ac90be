//! How a run over the documents of a search goes, as it was asked for. Reading requests is the folder's page, the
//! run itself `run`'s.

use serde_json::Value;

use crate::rest::documents::bulk::parser::VersionType;
use crate::rest::documents::refresh::Refresh;
use crate::rest::documents::script::Script;
use crate::rest::expressions::Target;
use crate::security::principal::Grant;

/// How a run goes.
#[derive(Debug)]
pub struct Plan {
    /// The indices that are searched.
    pub(super) targets: Vec<Target>,
    /// What is searched for.
    pub(super) query: Value,
    /// In which order; in that of the index where that is none.
    pub(super) sort: Option<Value>,
    /// What is read of each document; all of it where that is none.
    pub(super) source: Option<Value>,
    /// Documents that are read at a time.
    pub(super) batch: usize,
    /// Documents that are treated at most.
    pub(super) max_docs: Option<u64>,
    /// Documents that others changed are counted, and do not end the run.
    pub(super) proceeds: bool,
    pub(super) refresh: Refresh,
    pub(super) routing: Vec<String>,
}

/// Where copies go.
#[derive(Debug)]
pub struct Destination {
    pub(super) index: String,
    /// What whoever asks may do to it.
    pub(super) grant: Grant,
    pub(super) creates_only: bool,
    pub(super) version_type: VersionType,
    /// None keeps each document's own; otherwise all get this, or none.
    pub(super) routing: Option<Option<String>>,
    pub(super) script: Option<Script>,
}
