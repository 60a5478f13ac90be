//! Documents read by their ids: `_doc`, `_source`, `_mget`.

use std::io::Write;

use plimsoll_cluster::{Coordinator, Document, IndexMetadata};
use plimsoll_index::Error;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::source_filter::SourceFilter;
use super::target::{self, WriteTarget};
use super::write::validation;
use super::written::{address, text};
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::query::Query;
use crate::rest::shared::as_known;
use crate::rest::types::Types;

/// The most documents that one request may ask for.
const MANY_MAX: usize = 10_000;

/// GET `/{index}/_doc/{id}`.
///
/// # Errors
/// 404 where the index is not there; a document that is not is an answer.
pub async fn document(call: Call) -> Result<Answer, Error> {
    let (name, id) = path(&call);
    let place = target::for_read(&call.rest, &call.grant, name)?;
    refuse_stored_fields(call.query.get("stored_fields"))?;
    let routing = place.routing(id, call.query.get("routing").map(str::to_owned))?;
    let found = get(&call, &place, id, routing.as_deref()).await?;
    let mut out = Vec::with_capacity(256 + found.as_ref().map_or(0, |found| found.source.len()));
    let filter = SourceFilter::of_query(&call.query)?;
    entry(
        &mut out,
        call.rest.types,
        &place.index,
        id,
        routing.as_deref(),
        found.as_ref(),
        &filter,
    )?;
    Ok(Answer::raw(out).with_status(if found.is_some() { 200 } else { 404 }))
}

/// GET `/{index}/_source/{id}`.
///
/// # Errors
/// 404 where index or document are not there.
pub async fn source(call: Call) -> Result<Answer, Error> {
    let (name, id) = path(&call);
    let place = target::for_read(&call.rest, &call.grant, name)?;
    let filter = SourceFilter::of_query(&call.query)?;
    if filter == SourceFilter::Nothing {
        return Err(validation(&["fetching source can not be disabled"]));
    }
    let routing = place.routing(id, call.query.get("routing").map(str::to_owned))?;
    let found = get(&call, &place, id, routing.as_deref()).await?;
    let found = found.ok_or_else(|| {
        let reason = format!("Document not found [{}]/[{id}]", place.index.name);
        Error::not_found("resource_not_found_exception", reason)
    })?;
    match filter {
        SourceFilter::Whole => Ok(Answer::raw(checked(&found)?.source.clone())),
        filter => Ok(Answer::raw(filter.apply(&checked(&found)?.source).unwrap_or_default())),
    }
}

fn path(call: &Call) -> (&str, &str) {
    (call.part("index").unwrap_or_default(), call.part("id").unwrap_or_default())
}

/// `realtime=false` does without the certainty that nothing newer was acknowledged elsewhere.
fn is_realtime(query: &Query) -> Result<bool, Error> {
    query.flag_or("realtime", true)
}

/// Reads one document as a GET's parameters ask.
async fn get(
    call: &Call,
    place: &WriteTarget,
    id: &str,
    routing: Option<&str>,
) -> Result<Option<Document>, Error> {
    if call.query.flag_or("refresh", false)? {
        call.coordinator().documents().refresh(&place.index, None).await?;
    }
    let is_realtime = is_realtime(&call.query)?;
    let found =
        call.coordinator().documents().get_document(&place.index, id, routing, is_realtime).await?;
    let found = found.map(|found| kept(found, &place.index));
    let Some(wanted) = call.query.number::<u64>("version")? else { return Ok(found) };
    match found {
        Some(found) if found.version != wanted => Err(Error::conflict(
            "version_conflict_engine_exception",
            format!(
                "[{id}]: version conflict, current version [{}] is different than the one \
                 provided [{wanted}]",
                found.version
            ),
        )
        .with("index", place.index.name.as_str())
        .with("index_uuid", place.index.uuid.as_str())),
        found => Ok(found),
    }
}

/// A document without what the mapping leaves out of its source.
fn kept(found: Document, index: &IndexMetadata) -> Document {
    let (_, includes, excludes) = index.mapping.source_filter();
    if includes.is_empty() && excludes.is_empty() {
        return found;
    }
    let source = SourceFilter::of_mapping(includes, excludes).apply(&found.source);
    Document { source: source.unwrap_or_default().into(), ..found }
}

/// Rows that Redis clients wrote may be anything; what is answered as JSON must be JSON.
fn checked(document: &Document) -> Result<&Document, Error> {
    match serde_json::from_slice::<IgnoredAny>(&document.source) {
        Ok(IgnoredAny) => Ok(document),
        Err(error) => Err(Error::invalid(
            "mapper_parsing_exception",
            format!("the row is not a document, its value is not JSON: {error}"),
        )),
    }
}

/// Writes a document, found or not, as GET answers it.
///
/// # Errors
/// Where its row is not JSON.
pub fn entry(
    out: &mut Vec<u8>,
    types: Types,
    index: &IndexMetadata,
    id: &str,
    routing: Option<&str>,
    found: Option<&Document>,
    filter: &SourceFilter,
) -> Result<(), Error> {
    out.push(b'{');
    address(out, types, &index.name, Some(id));
    let Some(found) = found else {
        out.extend_from_slice(b",\"found\":false}");
        return Ok(());
    };
    // Nothing below can fail: the bytes are in memory.
    let _ = write!(
        out,
        ",\"_version\":{},\"_seq_no\":{},\"_primary_term\":1",
        found.version, found.seq_no
    );
    if let Some(routing) = routing {
        out.extend_from_slice(b",\"_routing\":");
        text(out, routing);
    }
    out.extend_from_slice(b",\"found\":true");
    source_field(out, found, filter)?;
    out.push(b'}');
    Ok(())
}

/// Writes `,"_source":…`, or nothing where nothing is asked for.
///
/// # Errors
/// Where the row is not JSON.
pub fn source_field(
    out: &mut Vec<u8>,
    found: &Document,
    filter: &SourceFilter,
) -> Result<(), Error> {
    let found = checked(found)?;
    match filter {
        SourceFilter::Nothing => return Ok(()),
        SourceFilter::Whole => {
            out.extend_from_slice(b",\"_source\":");
            out.extend_from_slice(&found.source);
        }
        SourceFilter::Parts(parts) => {
            out.extend_from_slice(b",\"_source\":");
            out.extend_from_slice(&parts.apply(&found.source));
        }
    }
    Ok(())
}

/// One document that `_mget` asks for.
struct Wanted {
    index: String,
    id: String,
    routing: Option<String>,
    filter: SourceFilter,
}

/// GET or POST `[/{index}]/_mget`.
///
/// # Errors
/// 400 where the body asks for nothing; what is wrong with one document stands in its place.
pub async fn many(mut call: Call) -> Result<Answer, Error> {
    let body = call.json_required().await?;
    let wanted = wanted(&body, call.part("index"), &call.query)?;
    refuse_stored_fields(call.query.get("stored_fields"))?;
    let mut out = Vec::with_capacity(256 * wanted.len());
    out.extend_from_slice(b"{\"docs\":[");
    for (at, wanted) in wanted.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let mark = out.len();
        if let Err(error) = one(&call, wanted, &mut out).await {
            out.truncate(mark);
            failure(&mut out, call.rest.types, wanted, &as_known(&call.rest, error));
        }
    }
    out.extend_from_slice(b"]}");
    Ok(Answer::raw(out))
}

async fn one(call: &Call, wanted: &Wanted, out: &mut Vec<u8>) -> Result<(), Error> {
    let place = target::for_read(&call.rest, &call.grant, &wanted.index)?;
    let routing = place.routing(&wanted.id, wanted.routing.clone())?;
    let coordinator: &Coordinator = call.coordinator();
    let is_realtime = is_realtime(&call.query)?;
    let routing = routing.as_deref();
    let found = coordinator
        .documents()
        .get_document(&place.index, &wanted.id, routing, is_realtime)
        .await?;
    let found = found.map(|found| kept(found, &place.index));
    entry(out, call.rest.types, &place.index, &wanted.id, routing, found.as_ref(), &wanted.filter)
}

fn failure(out: &mut Vec<u8>, types: Types, wanted: &Wanted, error: &Error) {
    out.push(b'{');
    address(out, types, &wanted.index, Some(&wanted.id));
    let _ = write!(out, ",\"error\":{}}}", error.rooted_json());
}

fn wanted(body: &Value, index: Option<&str>, query: &Query) -> Result<Vec<Wanted>, Error> {
    let Some(body) = body.as_object() else {
        return Err(Error::parsing("unexpected token, expected an object"));
    };
    for key in body.keys() {
        if key != "docs" && key != "ids" {
            return Err(Error::parsing(format!(
                "unknown key [{key}] for a value, expected [docs] or [ids]"
            )));
        }
    }
    let default = SourceFilter::of_query(query)?;
    let list = |key: &str| body.get(key).and_then(Value::as_array).map(Vec::as_slice);
    let docs = list("docs").unwrap_or_default();
    let ids = list("ids").unwrap_or_default();
    if docs.len() + ids.len() > MANY_MAX {
        return Err(Error::illegal_argument(format!(
            "[_mget] asks for {} documents, more than {MANY_MAX}",
            docs.len() + ids.len()
        )));
    }
    let mut wanted = Vec::with_capacity(docs.len() + ids.len());
    let mut wrong = Vec::new();
    for doc in docs {
        let doc = doc.as_object().ok_or_else(|| {
            Error::illegal_argument("docs array element should include an object")
        })?;
        wanted.push(wanted_doc(doc, index, query, &default, &mut wrong)?);
    }
    for id in ids {
        let Some(id) = scalar(id) else {
            return Err(Error::illegal_argument("ids array element should only contain ids"));
        };
        let Some(index) = index else {
            wrong.push("index is missing");
            continue;
        };
        let routing = query.get("routing").map(str::to_owned);
        wanted.push(Wanted { index: index.to_owned(), id, routing, filter: default.clone() });
    }
    if wanted.is_empty() && wrong.is_empty() {
        wrong.push("no documents to get");
    }
    if wrong.is_empty() { Ok(wanted) } else { Err(validation(&wrong)) }
}

fn wanted_doc(
    doc: &Map<String, Value>,
    index: Option<&str>,
    query: &Query,
    default: &SourceFilter,
    wrong: &mut Vec<&'static str>,
) -> Result<Wanted, Error> {
    const KNOWN: [&str; 9] = [
        "_index",
        "_id",
        "_type",
        "routing",
        "_routing",
        "_source",
        "version",
        "version_type",
        "stored_fields",
    ];
    if let Some(unknown) = doc.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return Err(Error::parsing(format!("unknown field [{unknown}] in a document of [_mget]")));
    }
    let field = |name: &str| doc.get(name).and_then(scalar);
    // Clients for Java say null where they want none.
    let stored = doc.get("stored_fields").filter(|fields| !fields.is_null());
    refuse_stored_fields(stored.map(|_| "stored_fields"))?;
    let own = field("_index").or_else(|| index.map(str::to_owned));
    if own.is_none() {
        wrong.push("index is missing");
    }
    let id = field("_id");
    if id.is_none() {
        wrong.push("id is missing");
    }
    let routing = field("routing").or_else(|| field("_routing"));
    let filter = SourceFilter::of_body(doc.get("_source"))?.unwrap_or_else(|| default.clone());
    Ok(Wanted {
        index: own.unwrap_or_default(),
        id: id.unwrap_or_default(),
        routing: routing.or_else(|| query.get("routing").map(str::to_owned)),
        filter,
    })
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Fields are not stored apart from the source.
fn refuse_stored_fields(given: Option<&str>) -> Result<(), Error> {
    match given {
        None | Some("" | "_none_" | "_source" | "_routing") => Ok(()),
        Some(_) => Err(Error::illegal_argument(
            "[stored_fields] is not supported: no field is stored apart from the source, use \
             [_source]",
        )),
    }
}
