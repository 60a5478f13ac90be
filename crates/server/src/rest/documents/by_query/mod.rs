//! Documents that a search finds, changed or copied: `_delete_by_query`, `_update_by_query`,
//! `_reindex`. What is asked for is read here; how it is carried out is [`run`]'s.

mod plan;
mod run;

use plimsoll_index::Error;
use plimsoll_index::search::SearchRequest;
use serde_json::{Map, Value, json};

use super::bulk::parser::VersionType;
use super::refresh::Refresh;
use super::script::Script;
use super::write::{check_pipeline, validation};
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::expressions::{self, Expand, Target};
use crate::rest::needs;
use crate::rest::query::Query;
use crate::rest::search::request::text_query;
use crate::security::principal::Grant;
use crate::security::privileges::IndexPrivileges;
use plan::{Destination, Plan};
use run::{Work, carry_out};

/// Documents that are read at a time, where nothing is said.
const BATCH: usize = 1000;
/// Documents that may be read at a time.
const BATCH_MAX: usize = 10_000;

/// POST `/{index}/_delete_by_query`.
///
/// # Errors
/// 400 where the request cannot be understood; failures of documents stand in the answer.
pub async fn delete(mut call: Call) -> Result<Answer, Error> {
    let body = body(&mut call).await?;
    check_keys(&body, &["query", "max_docs", "size", "slice", "sort"])?;
    if body.get("query").is_none() && call.query.get("q").is_none() {
        return Err(validation(&["query is missing"]));
    }
    let plan = plan(&call, &body)?;
    carry_out(&call.rest, plan, Work::Delete).await
}

/// POST `/{index}/_update_by_query`.
///
/// # Errors
/// As [`delete`].
pub async fn update(mut call: Call) -> Result<Answer, Error> {
    let body = body(&mut call).await?;
    let known = ["query", "script", "max_docs", "size", "conflicts", "slice", "sort"];
    check_keys(&body, &known)?;
    let script = body.get("script").map(Script::parse).transpose()?;
    let plan = plan(&call, &body)?;
    let deleting = call.grant.to(IndexPrivileges::DELETE, "indices:data/write/delete");
    // By the names that they were reached by.
    let denied = plan.targets.iter().find_map(|target| {
        let name = target.aliases.first().unwrap_or(&target.index.name);
        (!deleting.holds_for(name)).then(|| deleting.refusal(name))
    });
    carry_out(&call.rest, plan, Work::Update(script, denied)).await
}

async fn body(call: &mut Call) -> Result<Map<String, Value>, Error> {
    refuse_background(&call.query)?;
    check_pipeline(&call.query)?;
    match call.json().await? {
        None => Ok(Map::new()),
        Some(Value::Object(object)) => Ok(object),
        Some(_) => Err(Error::parsing("expected an object")),
    }
}

fn check_keys(object: &Map<String, Value>, known: &[&str]) -> Result<(), Error> {
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        None => match object.get("slice") {
            None => Ok(()),
            Some(_) => Err(Error::illegal_argument("[slice] is not supported")),
        },
        Some(key) => Err(Error::parsing(format!("request does not support [{key}]"))),
    }
}

/// Runs in the background and slowed ones are not there; saying so beats doing something else.
fn refuse_background(query: &Query) -> Result<(), Error> {
    if !query.flag_or("wait_for_completion", true)? {
        return Err(Error::illegal_argument(
            "[wait_for_completion=false] is not supported: the answer comes when all is done",
        ));
    }
    match query.get("requests_per_second") {
        None | Some("-1" | "-1.0") => Ok(()),
        Some(_) => {
            Err(Error::illegal_argument("[requests_per_second] is not supported but for [-1]"))
        }
    }
}

fn plan(call: &Call, body: &Map<String, Value>) -> Result<Plan, Error> {
    let query = &call.query;
    let options = Expand::search().with_query(query)?;
    let targets =
        expressions::resolve(call.coordinator(), &call.grant, call.part("index"), &options)?;
    let conflicts = query.get("conflicts").or_else(|| body.get("conflicts")?.as_str());
    let searched = match body.get("query") {
        Some(searched) => Some(searched.clone()),
        None => text_query(query)?,
    };
    let from_uri = query.get("sort").map(SearchRequest::sort_of_uri);
    let sort = body.get("sort").cloned().or(from_uri);
    if sort.is_some() && targets.len() > 1 {
        return Err(Error::illegal_argument(
            "[sort] is not supported for several indices: they are treated one after the other",
        ));
    }
    Ok(Plan {
        targets,
        query: searched.unwrap_or_else(|| json!({ "match_all": {} })),
        sort,
        source: None,
        batch: batch(query.number("scroll_size")?)?,
        max_docs: max_docs(query, body)?,
        proceeds: proceeds(conflicts)?,
        refresh: Refresh::of(query)?,
        routing: query.list("routing").into_iter().map(str::to_owned).collect(),
    })
}

fn batch(given: Option<usize>) -> Result<usize, Error> {
    match given {
        None => Ok(BATCH),
        Some(size @ 1..=BATCH_MAX) => Ok(size),
        Some(size) => Err(Error::illegal_argument(format!(
            "[size] of a batch must be between 1 and {BATCH_MAX} but was [{size}]"
        ))),
    }
}

fn max_docs(query: &Query, body: &Map<String, Value>) -> Result<Option<u64>, Error> {
    // Clients of Elasticsearch 7 call it `size`.
    let of_uri = match query.number::<i64>("max_docs")? {
        None => query.number::<i64>("size")?,
        given => given,
    };
    let given = match of_uri {
        Some(given) => Some(given),
        None => match body.get("max_docs").or_else(|| body.get("size")) {
            None => None,
            Some(value) => Some(
                value
                    .as_i64()
                    .ok_or_else(|| Error::illegal_argument("[max_docs] is not a whole number"))?,
            ),
        },
    };
    match given {
        None | Some(-1) => Ok(None),
        Some(given) => {
            u64::try_from(given).ok().filter(|given| *given > 0).map(Some).ok_or_else(|| {
                Error::illegal_argument("[max_docs] parameter cannot be negative, found [0]")
            })
        }
    }
}

fn proceeds(conflicts: Option<&str>) -> Result<bool, Error> {
    match conflicts {
        None | Some("abort") => Ok(false),
        Some("proceed") => Ok(true),
        Some(other) => Err(Error::illegal_argument(format!(
            "conflicts may only be \"proceed\" or \"abort\" but was [{other}]"
        ))),
    }
}

/// POST `/_reindex`.
///
/// # Errors
/// As [`delete`].
pub async fn reindex(mut call: Call) -> Result<Answer, Error> {
    let body = body(&mut call).await?;
    check_keys(&body, &["source", "dest", "script", "max_docs", "size", "conflicts"])?;
    let object = |key: &str| {
        let part = body.get(key).and_then(Value::as_object);
        part.ok_or_else(|| Error::illegal_argument(format!("[{key}] is required")))
    };
    let (source, dest) = (object("source")?, object("dest")?);
    check_keys(source, &["index", "query", "size", "_source", "type"])
        .map_err(|error| Error::illegal_argument(format!("[source]: {}", error.reason)))?;
    check_keys(dest, &["index", "op_type", "version_type", "routing", "type"])
        .map_err(|error| Error::illegal_argument(format!("[dest]: {}", error.reason)))?;
    let from = indices(source)?;
    let options = Expand { allow_no_indices: false, ..Expand::search() };
    let targets = expressions::resolve(call.coordinator(), &call.grant, Some(&from), &options)?;
    let writing = call.grant.to(IndexPrivileges::INDEX, "indices:data/write/reindex");
    let destination = destination(dest, body.get("script"), writing)?;
    let own = |target: &Target| {
        target.index.name == destination.index
            || target.index.aliases.contains_key(&destination.index)
    };
    if targets.iter().any(own) {
        return Err(validation(&[&format!(
            "reindex cannot write into an index its reading from [{}]",
            destination.index
        )]));
    }
    let size = source.get("size").and_then(Value::as_u64);
    let plan = Plan {
        targets,
        query: source.get("query").cloned().unwrap_or_else(|| json!({ "match_all": {} })),
        sort: None,
        source: source.get("_source").cloned(),
        batch: batch(size.map(|size| usize::try_from(size).unwrap_or(usize::MAX)))?,
        max_docs: max_docs(&call.query, &body)?,
        proceeds: proceeds(body.get("conflicts").and_then(Value::as_str))?,
        refresh: Refresh::of(&call.query)?,
        routing: Vec::new(),
    };
    carry_out(&call.rest, plan, Work::Copy(destination)).await
}

fn indices(source: &Map<String, Value>) -> Result<String, Error> {
    match source.get("index") {
        Some(Value::String(one)) => Ok(one.clone()),
        Some(Value::Array(items)) if items.iter().all(Value::is_string) => {
            Ok(items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","))
        }
        _ => Err(validation(&["use _all if you really want to copy from all existing indexes"])),
    }
}

fn destination(
    dest: &Map<String, Value>,
    script: Option<&Value>,
    grant: Grant,
) -> Result<Destination, Error> {
    let text = |key: &str| dest.get(key).and_then(Value::as_str);
    let index = text("index").ok_or_else(|| validation(&["index is missing"]))?;
    // A date in it is judged once that is known.
    if !index.starts_with('<') {
        needs::check(&grant, index)?;
    }
    let creates_only = match text("op_type") {
        None | Some("index") => false,
        Some("create") => true,
        Some(other) => {
            return Err(Error::illegal_argument(format!(
                "opType must be 'create' or 'index', found: [{other}]"
            )));
        }
    };
    let routing = match text("routing") {
        None | Some("keep") => None,
        Some("discard") => Some(None),
        Some(given) => match given.strip_prefix('=') {
            Some(routing) => Some(Some(routing.to_owned())),
            None => {
                return Err(validation(&[&format!(
                    "routing must be unset, [keep], [discard] or [=<some new value>] but was \
                     [{given}]"
                )]));
            }
        },
    };
    Ok(Destination {
        index: index.to_owned(),
        grant,
        creates_only,
        version_type: text("version_type").map(VersionType::parse).transpose()?.unwrap_or_default(),
        routing,
        script: script.map(Script::parse).transpose()?,
    })
}
