//! Where a document belongs: the index behind a name, created if it is not there, and what an
//! alias says of routing.

use std::sync::Arc;

use plimsoll_cluster::{IndexBody, IndexMetadata};
use plimsoll_index::Error;
use plimsoll_storage::rows::key::partition_of;
use serde_json::{Map, Value};

use crate::rest::expressions::{self, Target};
use crate::rest::shared::Rest;
use crate::rest::{admin, names, needs};
use crate::security::principal::Grant;
use crate::security::privileges::IndexPrivileges;

/// The longest id, in bytes.
pub const ID_BYTES_MAX: usize = 512;

/// An index that takes documents, and the routing that every one of them gets.
#[derive(Clone, Debug)]
pub struct WriteTarget {
    /// The index.
    pub index: Arc<IndexMetadata>,
    /// What the alias, through which it was reached, says.
    routing: Option<(String, String)>,
    /// Why whoever asks may not delete there, or read; none where it may.
    refusals: [Option<String>; 2],
}

impl WriteTarget {
    /// Whether documents may be deleted there: a script may turn out to.
    ///
    /// # Errors
    /// 403, naming the privilege.
    pub fn check_delete(&self) -> Result<(), Error> {
        self.refusals[0].clone().map_or(Ok(()), |words| Err(needs::denied(words)))
    }

    /// Whether documents may be read there, as an update with `_source` does.
    ///
    /// # Errors
    /// 403, naming the privilege.
    pub fn check_read(&self) -> Result<(), Error> {
        self.refusals[1].clone().map_or(Ok(()), |words| Err(needs::denied(words)))
    }

    /// The routing of a document: its own, or the alias'.
    ///
    /// # Errors
    /// 400 where both say something, and not the same, or none does and the mapping wants one.
    pub fn routing(&self, id: &str, given: Option<String>) -> Result<Option<String>, Error> {
        match (&self.routing, given) {
            (Some((alias, routing)), Some(given)) if *routing != given => {
                Err(Error::illegal_argument(format!(
                    "Alias [{alias}] has index routing associated with it [{routing}], and was \
                     provided with routing value [{given}], rejecting operation"
                )))
            }
            (Some((_, routing)), _) => Ok(Some(routing.clone())),
            (None, None) if self.index.mapping.routing_required() => Err(Error::invalid(
                "routing_missing_exception",
                format!("routing is required for [{}]/[{id}]", self.index.name),
            )
            .with("index", self.index.name.as_str())
            .with("index_uuid", self.index.uuid.as_str())),
            (None, given) => Ok(given),
        }
    }
}

/// What a target says as the place of a document.
fn place(target: Target) -> WriteTarget {
    placed(target, [None, None])
}

fn placed(target: Target, refusals: [Option<String>; 2]) -> WriteTarget {
    let routing = target.aliases.first().and_then(|alias| {
        let routing = target.index.aliases.get(alias)?.get("index_routing")?.as_str()?;
        Some((alias.clone(), routing.to_owned()))
    });
    WriteTarget { index: target.index, routing, refusals }
}

/// Where a document that is read lies.
///
/// # Errors
/// 404 where the index is not there, 400 where there are several.
pub fn for_read(rest: &Rest, grant: &Grant, name: &str) -> Result<WriteTarget, Error> {
    let coordinator = &rest.node.coordinator;
    expressions::resolve_one(coordinator, grant, name, "index_expression").map(place)
}

/// Where a document is written. An index that is not there is created, if the cluster's
/// settings, the caller and the privileges of whoever asks allow it.
///
/// # Errors
/// 400 or 404 where there is no such place, 403 where it takes no documents.
pub async fn for_write(
    rest: &Rest,
    grant: &Grant,
    name: &str,
    requires_alias: bool,
    may_create: bool,
) -> Result<WriteTarget, Error> {
    let name = expressions::date_math::resolve(name, crate::node::unix_ms())?;
    let coordinator = &rest.node.coordinator;
    let target = match expressions::resolve_write(coordinator, grant, &name)? {
        Some(target) if requires_alias && target.aliases.is_empty() => {
            return Err(not_an_alias(&name));
        }
        Some(target) => target,
        None if requires_alias => return Err(not_an_alias(&name)),
        None if !may_create => return Err(expressions::not_found(&name, "index_expression")),
        None => {
            let creating = grant.to(IndexPrivileges::CREATE_INDEX, "indices:admin/auto_create");
            needs::check(&creating, &name)?;
            let index = create(rest, &name).await?;
            Target { index, aliases: Vec::new() }
        }
    };
    check_blocks(&target.index)?;
    let others = [
        grant.to(IndexPrivileges::DELETE, "indices:data/write/delete"),
        grant.to(IndexPrivileges::READ, "indices:data/read/get"),
    ];
    let refusals = others.map(|other| (!other.holds_for(&name)).then(|| other.refusal(&name)));
    Ok(placed(target, refusals))
}

fn not_an_alias(name: &str) -> Error {
    Error::not_found(
        "index_not_found_exception",
        format!(
            "no such index [{name}] and [require_alias] request flag is [true] and [{name}] is \
             not an alias"
        ),
    )
    .with("index", name)
    .with("index_uuid", "_na_")
}

/// Creates an index for a document that is on its way to it.
async fn create(rest: &Rest, name: &str) -> Result<Arc<IndexMetadata>, Error> {
    names::check_index(name)?;
    let coordinator = &rest.node.coordinator;
    if !admin::create::may_create(coordinator, name) {
        let why = format!("no such index [{name}] and [action.auto_create_index] doesn't match");
        return Err(Error { reason: why, ..expressions::not_found(name, "index_expression") });
    }
    let body = admin::templates::apply::compose(
        coordinator,
        name,
        IndexBody {
            settings: Map::new(),
            mappings: Value::Object(Map::new()),
            aliases: std::collections::BTreeMap::new(),
        },
    )?;
    match coordinator.documents().create_index(name, body).await {
        // Another request was faster.
        Err(error) if error.kind == "resource_already_exists_exception" => coordinator
            .documents()
            .index(name)
            .ok_or_else(|| expressions::not_found(name, "index_expression")),
        created => created,
    }
}

/// Refuses writes to an index that its settings close to them.
fn check_blocks(index: &IndexMetadata) -> Result<(), Error> {
    for (setting, code, words) in [
        ("index.blocks.read_only", 5, "index read-only (api)"),
        ("index.blocks.write", 8, "index write (api)"),
        ("index.blocks.read_only_allow_delete", 12, "index read-only / allow delete (api)"),
    ] {
        if index.settings.get(setting).is_some_and(is_true) {
            return Err(Error::forbidden(
                "cluster_block_exception",
                format!("index [{}] blocked by: [FORBIDDEN/{code}/{words}];", index.name),
            ));
        }
    }
    Ok(())
}

fn is_true(value: &Value) -> bool {
    value.as_bool() == Some(true) || value.as_str() == Some("true")
}

/// Checks the id of a document.
///
/// # Errors
/// 400 where it is empty or too long.
pub fn check_id(id: &str) -> Result<(), Error> {
    if id.is_empty() {
        return Err(Error::illegal_argument("if _id is specified it must not be empty"));
    }
    if id.len() > ID_BYTES_MAX {
        return Err(Error::illegal_argument(format!(
            "id [{id}] is too long, must be no longer than {ID_BYTES_MAX} bytes but was: {}",
            id.len()
        )));
    }
    Ok(())
}

/// An error of one document, saying where it happened.
#[must_use]
pub fn located(error: Error, index: &IndexMetadata, id: &str, routing: Option<&str>) -> Error {
    if !matches!(&*error.kind, "version_conflict_engine_exception" | "document_missing_exception") {
        return error;
    }
    let shard = partition_of(routing.unwrap_or(id).as_bytes(), index.partitions.max(1));
    error
        .with("index", index.name.as_str())
        .with("shard", shard.to_string())
        .with("index_uuid", index.uuid.as_str())
}
