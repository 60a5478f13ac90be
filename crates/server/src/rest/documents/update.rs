//! `_update`: a document read, changed and written back if nobody changed it in between. The
//! decision what it becomes is [`Change::apply`], which is pure.

use std::str::from_utf8;

use bytes::Bytes;
use plimsoll_cluster::{Condition, Document, WriteKind, WriteRequest};
use plimsoll_index::{Error, ErrorClass};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::becomes::Becomes;
use super::merge::merge;
use super::read::source_field;
use super::refresh::{Refresh, Touched};
use super::script::Script;
use super::source_filter::SourceFilter;
use super::target::{self, WriteTarget, located};
use super::write::{self, Conditions, validation};
use super::written::{self, Outcome};
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::json_error::from_json;
use crate::rest::json_read;
use crate::rest::shared::Rest;

/// What an update does to a document, whatever that is.
#[derive(Debug)]
pub struct Change {
    doc: Option<Box<RawValue>>,
    upsert: Option<Box<RawValue>>,
    script: Option<Script>,
    scripted_upsert: bool,
    detects_noop: bool,
    /// What is answered of the document, if anything.
    pub source: Option<SourceFilter>,
    /// On which change of the document it depends.
    pub expected: Option<Condition>,
}

/// The body of an update, field by field.
#[derive(Debug, Default)]
struct Body {
    doc: Option<Box<RawValue>>,
    upsert: Option<Box<RawValue>>,
    doc_as_upsert: bool,
    scripted_upsert: bool,
    detect_noop: Option<bool>,
    script: Option<Value>,
    source: Option<Value>,
    if_seq_no: Option<u64>,
    if_primary_term: Option<u64>,
}

impl Body {
    fn parse(json: &[u8]) -> Result<Self, Error> {
        let mut body = Self::default();
        for (name, value) in json_read::fields(json)? {
            let bytes = value.get().as_bytes();
            match name.as_str() {
                "doc" => body.doc = Some(value),
                "upsert" => body.upsert = Some(value),
                "doc_as_upsert" => body.doc_as_upsert = from_json(bytes)?,
                "scripted_upsert" => body.scripted_upsert = from_json(bytes)?,
                "detect_noop" => body.detect_noop = Some(from_json(bytes)?),
                "script" => body.script = Some(json_read::value(bytes)?),
                "_source" => body.source = Some(json_read::value(bytes)?),
                "if_seq_no" => body.if_seq_no = Some(from_json(bytes)?),
                "if_primary_term" => body.if_primary_term = Some(from_json(bytes)?),
                unknown => {
                    return Err(Error::invalid(
                        "x_content_parse_exception",
                        format!("[1:2] [UpdateRequest] unknown field [{unknown}]"),
                    ));
                }
            }
        }
        Ok(body)
    }
}

impl Change {
    /// Whether whoever asks learns of the document: it is answered, or a script's errors tell of it.
    #[must_use]
    pub fn reads(&self) -> bool {
        self.source.is_some() || self.script.is_some()
    }

    /// Reads the body of an update.
    ///
    /// # Errors
    /// 400 where it is no update.
    pub fn parse(json: &[u8]) -> Result<Self, Error> {
        let body = Body::parse(json)?;
        let mut wrong = Vec::new();
        if body.script.is_none() && body.doc.is_none() {
            wrong.push("script or doc is missing");
        }
        if body.script.is_some() && body.doc.is_some() {
            wrong.push("can't provide both script and doc");
        }
        if body.doc_as_upsert && body.doc.is_none() {
            wrong.push("doc must be specified if doc_as_upsert is enabled");
        }
        if !wrong.is_empty() {
            return Err(validation(&wrong));
        }
        let expected = Conditions {
            if_seq_no: body.if_seq_no,
            if_primary_term: body.if_primary_term,
            ..Conditions::default()
        };
        let expected = Some(expected.condition(WriteKind::Index)?);
        let upsert = if body.doc_as_upsert { body.doc.clone() } else { body.upsert };
        Ok(Self {
            doc: body.doc,
            upsert,
            script: body.script.as_ref().map(Script::parse).transpose()?,
            scripted_upsert: body.scripted_upsert,
            detects_noop: body.detect_noop.unwrap_or(true),
            source: SourceFilter::of_body(body.source.as_ref())?,
            expected: expected.filter(|condition| *condition != Condition::None),
        })
    }

    /// What a document becomes; none where it is not there and is not to be.
    ///
    /// # Errors
    /// 400 where the document is no object, or the script fails.
    pub fn apply(&self, source: Option<&[u8]>) -> Result<Option<Becomes>, Error> {
        let Some(source) = source else { return self.create() };
        if let Some(script) = &self.script {
            return script.run(Some(source)).map(Some);
        }
        let Some(partial) = &self.doc else { return Ok(Some(Becomes::Same)) };
        let text = from_utf8(source).map_err(|_| Error::mapper_parsing("failed to parse"))?;
        let merged = merge(text, partial.get())?;
        Ok(Some(match merged {
            Some(merged) => Becomes::Document(merged.into()),
            None if self.detects_noop => Becomes::Same,
            None => Becomes::Document(Bytes::copy_from_slice(source)),
        }))
    }

    fn create(&self) -> Result<Option<Becomes>, Error> {
        let Some(upsert) = &self.upsert else {
            return match &self.script {
                Some(script) if self.scripted_upsert => script.run(Some(b"{}")).map(Some),
                _ => Ok(None),
            };
        };
        let upsert = upsert.get().as_bytes();
        match &self.script {
            Some(script) if self.scripted_upsert => script.run(Some(upsert)).map(Some),
            _ => Ok(Some(Becomes::Document(Bytes::copy_from_slice(upsert)))),
        }
    }
}

/// What an update was, and the document after it where that is asked for.
#[derive(Clone, Debug)]
pub struct Updated {
    /// How it went.
    pub outcome: Outcome,
    /// The document as it is now; none where it is gone.
    pub document: Option<Document>,
}

/// A write that an update comes to, or that nothing is to be done.
pub enum Step {
    /// To be carried out; it fails if the document was changed since it was read.
    Write(WriteRequest),
    /// Nothing to do.
    Done(Updated),
}

/// The step from a document to what it becomes.
///
/// # Errors
/// 404 `document_missing_exception`, or what the change meets.
pub fn step(
    change: &Change,
    id: &str,
    routing: Option<String>,
    found: Option<Document>,
    expected: Condition,
) -> Result<Step, Error> {
    let expected = change.expected.unwrap_or(expected);
    let Some(becomes) = change.apply(found.as_ref().map(|found| &*found.source))? else {
        return Err(Error::not_found(
            "document_missing_exception",
            format!("[{id}]: document missing"),
        ));
    };
    if let (Condition::IfSequence { seq_no, primary_term }, Some(found)) = (expected, &found)
        && (found.seq_no != seq_no || primary_term != 1)
    {
        return Err(Error::conflict(
            "version_conflict_engine_exception",
            format!(
                "[{id}]: version conflict, required seqNo [{seq_no}], primary term \
                 [{primary_term}]. current document has seqNo [{}] and primary term [1]",
                found.seq_no
            ),
        ));
    }
    let write = |action, source, found: Option<&Document>| {
        let condition = found.map_or(Condition::None, |found| Condition::IfSequence {
            seq_no: found.seq_no,
            primary_term: 1,
        });
        Step::Write(WriteRequest { id: id.to_owned(), routing, action, source, condition })
    };
    Ok(match (becomes, found) {
        (Becomes::Document(source), Some(found)) => write(WriteKind::Index, source, Some(&found)),
        (Becomes::Document(source), None) => write(WriteKind::Create, source, None),
        (Becomes::Nothing, Some(found)) => write(WriteKind::Delete, Bytes::new(), Some(&found)),
        (Becomes::Same, Some(found)) => Step::Done(Updated {
            outcome: Outcome::Noop { version: found.version, seq_no: found.seq_no },
            document: Some(found),
        }),
        (Becomes::Nothing | Becomes::Same, None) => {
            Step::Done(Updated { outcome: Outcome::Noop { version: 0, seq_no: 0 }, document: None })
        }
    })
}

/// Carries out an update, again where somebody else was faster and `retries` allows it.
///
/// # Errors
/// What the update meets, with the place where.
pub async fn run(
    rest: &Rest,
    place: &WriteTarget,
    id: &str,
    routing: Option<&str>,
    change: &Change,
    expected: Condition,
    retries: u32,
) -> Result<(Updated, Option<u32>), Error> {
    let coordinator = &rest.node.coordinator;
    let mut left = retries;
    loop {
        let found = coordinator.documents().get_document(&place.index, id, routing, true).await?;
        let step = step(change, id, routing.map(str::to_owned), found, expected)
            .map_err(|error| located(error, &place.index, id, routing))?;
        let write = match step {
            Step::Done(updated) => return Ok((updated, None)),
            Step::Write(write) => write,
        };
        if write.action == WriteKind::Delete {
            place.check_delete()?;
        }
        let source = write.source.clone();
        let mut results = coordinator.documents().write_documents(&place.index, vec![write]).await;
        match results.pop().unwrap_or_else(|| Err(Error::internal("the write has no outcome"))) {
            Ok(written) => {
                let document = (!source.is_empty()).then_some(Document {
                    source,
                    version: written.version,
                    seq_no: written.seq_no,
                });
                let updated = Updated { outcome: Outcome::Written(written), document };
                return Ok((updated, Some(written.partition)));
            }
            Err(error) if error.class == ErrorClass::Conflict && left > 0 => left -= 1,
            Err(error) => return Err(located(error, &place.index, id, routing)),
        }
    }
}

/// POST `/{index}/_update/{id}`.
///
/// # Errors
/// As Elasticsearch has them.
pub async fn update(mut call: Call) -> Result<Answer, Error> {
    let body = call.bytes().await?;
    if body.is_empty() {
        return Err(validation(&["script or doc is missing"]));
    }
    let mut change = Change::parse(&body)?;
    let from_query = SourceFilter::of_query(&call.query)?;
    if call.query.names().any(|name| name.starts_with("_source")) {
        change.source = Some(from_query);
    }
    let refresh = Refresh::of(&call.query)?;
    let expected = Conditions::of(&call.query)?.condition(WriteKind::Index)?;
    let retries = call.query.number("retry_on_conflict")?.unwrap_or(0);
    let id = call.part("id").unwrap_or_default();
    target::check_id(id)?;
    let name = call.part("index").unwrap_or_default();
    let requires_alias = call.query.flag_or("require_alias", false)?;
    let place = target::for_write(&call.rest, &call.grant, name, requires_alias, true).await?;
    if change.reads() {
        place.check_read()?;
    }
    let routing = place.routing(id, call.query.get("routing").map(str::to_owned))?;
    let run = run(&call.rest, &place, id, routing.as_deref(), &change, expected, retries);
    let (updated, partition) = run.await?;
    let mut touched = Touched::default();
    if let Some(partition) = partition {
        touched.add(&place.index, partition);
    }
    touched.make_visible(call.coordinator(), refresh).await?;
    let types = call.rest.types;
    let answer = write::answer(types, &place, id, &updated.outcome, refresh);
    let Some(filter) = &change.source else { return Ok(answer) };
    let mut out = Vec::with_capacity(512);
    out.push(b'{');
    let was_refreshed = refresh == Refresh::Now;
    written::fields(&mut out, types, &place.index, id, &updated.outcome, was_refreshed);
    get_field(&mut out, &updated, filter)?;
    out.push(b'}');
    Ok(Answer { content: Answer::raw(out).content, ..answer })
}

/// Writes `,"get":{…}`: the document after the update.
///
/// # Errors
/// Where it is not JSON.
pub fn get_field(out: &mut Vec<u8>, updated: &Updated, filter: &SourceFilter) -> Result<(), Error> {
    let Some(document) = &updated.document else { return Ok(()) };
    let head = json!({
        "_seq_no": document.seq_no,
        "_primary_term": 1,
        "found": true,
    });
    out.extend_from_slice(b",\"get\":");
    let head = head.to_string();
    out.extend_from_slice(head.trim_end_matches('}').as_bytes());
    source_field(out, document, filter)?;
    out.push(b'}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn becomes(body: &str, source: Option<&str>) -> Result<String, String> {
        let change = Change::parse(body.as_bytes()).map_err(|error| error.reason)?;
        let becomes = change.apply(source.map(str::as_bytes)).map_err(|error| error.reason)?;
        Ok(match becomes {
            None => "missing".to_owned(),
            Some(Becomes::Same) => "same".to_owned(),
            Some(Becomes::Nothing) => "nothing".to_owned(),
            Some(Becomes::Document(source)) => String::from_utf8(source.to_vec()).unwrap(),
        })
    }

    #[test]
    fn changes() {
        let there = Some(r#"{"n": 1}"#);
        for (body, source, expected) in [
            (r#"{"doc":{"n":2}}"#, there, r#"{"n":2}"#),
            (r#"{"doc":{"n":1}}"#, there, "same"),
            (r#"{"doc":{"n":1},"detect_noop":false}"#, there, r#"{"n": 1}"#),
            (r#"{"doc":{"n":2}}"#, None, "missing"),
            (r#"{"doc":{"n":2},"doc_as_upsert":true}"#, None, r#"{"n":2}"#),
            (r#"{"doc":{"n":2},"upsert":{"m":1}}"#, None, r#"{"m":1}"#),
            (r#"{"script":"ctx._source.n += 1"}"#, there, r#"{"n":2}"#),
            (r#"{"script":"ctx.op = 'delete'"}"#, there, "nothing"),
            (r#"{"script":"ctx.op = 'none'"}"#, there, "same"),
            (r#"{"script":"ctx._source.n += 1","upsert":{"n":5}}"#, None, r#"{"n":5}"#),
            (
                r#"{"script":"ctx._source.n += 1","upsert":{"n":5},"scripted_upsert":true}"#,
                None,
                r#"{"n":6}"#,
            ),
        ] {
            assert_eq!(becomes(body, source).as_deref(), Ok(expected), "{body}");
        }
        for (body, reason) in [
            ("{}", "Validation Failed: 1: script or doc is missing;"),
            (
                r#"{"script":"1","doc":{}}"#,
                "Validation Failed: 1: can't provide both script and doc;",
            ),
            (r#"{"bogus":1}"#, "[1:2] [UpdateRequest] unknown field [bogus]"),
        ] {
            assert_eq!(becomes(body, there).unwrap_err(), reason);
        }
    }
}
