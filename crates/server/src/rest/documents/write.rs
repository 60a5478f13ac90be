//! `_doc` and `_create`: one document put or taken away.

use axum::http::header;
use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use plimsoll_cluster::{Condition, WriteKind, WriteRequest, Written};
use plimsoll_index::Error;

use super::bulk::parser::VersionType;
use super::refresh::{Refresh, Touched};
use super::target::{self, WriteTarget, located};
use super::written::{self, Outcome};
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::query::Query;
use crate::rest::types::Types;

/// What stands for itself in a path.
const SEGMENT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'@');

/// PUT or POST `/{index}/_doc[/{id}]`.
///
/// # Errors
/// As Elasticsearch has them.
pub async fn index(call: Call) -> Result<Answer, Error> {
    let action = match call.query.get("op_type") {
        None | Some("index") => WriteKind::Index,
        Some("create") => WriteKind::Create,
        Some(other) => {
            return Err(Error::illegal_argument(format!(
                "opType must be 'create' or 'index', found: [{other}]"
            )));
        }
    };
    put(call, action).await
}

/// PUT or POST `/{index}/_create/{id}`.
///
/// # Errors
/// As Elasticsearch has them.
pub async fn create(call: Call) -> Result<Answer, Error> {
    put(call, WriteKind::Create).await
}

async fn put(mut call: Call, action: WriteKind) -> Result<Answer, Error> {
    let source = call.bytes().await?;
    if source.is_empty() {
        return Err(validation(&["source is missing"]));
    }
    check_pipeline(&call.query)?;
    let condition = Conditions::of(&call.query)?.condition(action)?;
    let id = call.part("id").map(str::to_owned);
    let (id, action) = match id {
        Some(id) => (id, action),
        // An id that was just made is nobody's yet.
        None if condition == Condition::None => (call.rest.ids.next(), WriteKind::Create),
        None => (call.rest.ids.next(), action),
    };
    write(call, id, action, source, condition).await
}

/// DELETE `/{index}/_doc/{id}`.
///
/// # Errors
/// As Elasticsearch has them.
pub async fn delete(call: Call) -> Result<Answer, Error> {
    let id = call.part("id").unwrap_or_default().to_owned();
    let condition = Conditions::of(&call.query)?.condition(WriteKind::Delete)?;
    write(call, id, WriteKind::Delete, Bytes::new(), condition).await
}

async fn write(
    call: Call,
    id: String,
    action: WriteKind,
    source: Bytes,
    condition: Condition,
) -> Result<Answer, Error> {
    target::check_id(&id)?;
    let refresh = Refresh::of(&call.query)?;
    let requires_alias = call.query.flag_or("require_alias", false)?;
    let name = call.part("index").unwrap_or_default();
    let may_create = action != WriteKind::Delete;
    let place =
        target::for_write(&call.rest, &call.grant, name, requires_alias, may_create).await?;
    let routing = place.routing(&id, call.query.get("routing").map(str::to_owned))?;
    let write = WriteRequest { id: id.clone(), routing, action, source, condition };
    let written = one(&call, &place, write).await?;
    let mut touched = Touched::default();
    touched.add(&place.index, written.partition);
    touched.make_visible(call.coordinator(), refresh).await?;
    Ok(answer(call.rest.types, &place, &id, &Outcome::Written(written), refresh))
}

/// Carries out one write.
///
/// # Errors
/// What the write meets, with the place where.
pub async fn one(call: &Call, place: &WriteTarget, write: WriteRequest) -> Result<Written, Error> {
    let (id, routing) = (write.id.clone(), write.routing.clone());
    let mut results =
        call.coordinator().documents().write_documents(&place.index, vec![write]).await;
    let result = results.pop().unwrap_or_else(|| Err(Error::internal("the write has no outcome")));
    result.map_err(|error| located(error, &place.index, &id, routing.as_deref()))
}

/// The answer to a write of one document.
#[must_use]
pub fn answer(
    types: Types,
    place: &WriteTarget,
    id: &str,
    outcome: &Outcome,
    refresh: Refresh,
) -> Answer {
    let mut out = Vec::with_capacity(256);
    out.push(b'{');
    written::fields(&mut out, types, &place.index, id, outcome, refresh == Refresh::Now);
    out.push(b'}');
    let answer = Answer::raw(out).with_status(outcome.status());
    if outcome.status() != 201 {
        return answer;
    }
    let [index, id] = [&place.index.name, id].map(|text| utf8_percent_encode(text, SEGMENT));
    answer.with_header(header::LOCATION, format!("/{index}/_doc/{id}"))
}

/// What a request says of the version that it expects.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions {
    /// `if_seq_no`
    pub if_seq_no: Option<u64>,
    /// `if_primary_term`
    pub if_primary_term: Option<u64>,
    /// `version`
    pub version: Option<u64>,
    /// `version_type`
    pub version_type: VersionType,
}

impl Conditions {
    /// Reads the parameters.
    ///
    /// # Errors
    /// 400 where one is not what it should be.
    pub fn of(query: &Query) -> Result<Self, Error> {
        let version_type = query.get("version_type").map(VersionType::parse).transpose()?;
        Ok(Self {
            if_seq_no: query.number("if_seq_no")?,
            if_primary_term: query.number("if_primary_term")?,
            version: query.number("version")?,
            version_type: version_type.unwrap_or_default(),
        })
    }

    /// The condition of a write.
    ///
    /// # Errors
    /// 400 where parts of it contradict each other, or one is missing.
    pub fn condition(&self, action: WriteKind) -> Result<Condition, Error> {
        let mut wrong = Vec::new();
        if self.version_type == VersionType::Internal && self.version.is_some() {
            wrong.push("internal versioning can not be used for optimistic concurrency control. Please use `if_seq_no` and `if_primary_term` instead");
        }
        let is_external = self.version_type != VersionType::Internal;
        if is_external && self.version.is_none() {
            wrong.push("illegal version value [-3] for version type [EXTERNAL]");
        }
        if is_external && action == WriteKind::Create {
            wrong.push("create operations only support internal versioning. use index instead");
        }
        let is_sequenced = self.if_seq_no.is_some() || self.if_primary_term.is_some();
        if is_sequenced && action == WriteKind::Create {
            wrong.push("create operations do not support compare and set. use index instead");
        }
        if is_sequenced && is_external {
            wrong.push("compare and write operations can not use versioning");
        }
        if self.if_seq_no.is_some() && self.if_primary_term.is_none() {
            wrong.push("ifSeqNo is set, but primary term is [0]");
        }
        if self.if_seq_no.is_none() && self.if_primary_term.is_some() {
            wrong.push("ifSeqNo is unassigned, but primary term is set");
        }
        if !wrong.is_empty() {
            return Err(validation(&wrong));
        }
        Ok(match (self.if_seq_no, self.version, self.version_type) {
            (Some(seq_no), _, _) => {
                Condition::IfSequence { seq_no, primary_term: self.if_primary_term.unwrap_or(1) }
            }
            (None, Some(version), VersionType::External) => Condition::External(version),
            (None, Some(version), VersionType::ExternalGte) => Condition::ExternalGte(version),
            _ => Condition::None,
        })
    }
}

/// 400 `action_request_validation_exception`: the list of what is wrong.
#[must_use]
pub fn validation(wrong: &[&str]) -> Error {
    let list: String =
        wrong.iter().enumerate().map(|(at, what)| format!(" {}: {what};", at + 1)).collect();
    Error::invalid("action_request_validation_exception", format!("Validation Failed:{list}"))
}

/// Refuses an ingest pipeline: there are none.
///
/// # Errors
/// 400, naming it.
pub fn check_pipeline(query: &Query) -> Result<(), Error> {
    match query.get("pipeline") {
        None | Some("_none" | "") => Ok(()),
        Some(name) => Err(Error::illegal_argument(format!(
            "pipeline with id [{name}] does not exist: there are no ingest pipelines"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(text: &str, action: WriteKind) -> Result<Condition, String> {
        let query = Query::parse(text).unwrap();
        Conditions::of(&query)
            .and_then(|conditions| conditions.condition(action))
            .map_err(|error| error.reason)
    }

    #[test]
    fn conditions() {
        let both = "if_seq_no=9&if_primary_term=1";
        assert_eq!(
            condition(both, WriteKind::Index),
            Ok(Condition::IfSequence { seq_no: 9, primary_term: 1 })
        );
        assert_eq!(
            condition("version=5&version_type=external", WriteKind::Delete),
            Ok(Condition::External(5))
        );
        assert_eq!(condition("", WriteKind::Create), Ok(Condition::None));
        for (text, action) in [
            ("if_seq_no=9", WriteKind::Index),
            ("if_primary_term=1", WriteKind::Index),
            (both, WriteKind::Create),
            ("version=1", WriteKind::Index),
            ("version_type=external", WriteKind::Index),
            ("version=5&version_type=external", WriteKind::Create),
        ] {
            let reason = condition(text, action).unwrap_err();
            assert!(reason.starts_with("Validation Failed: 1: "), "{text}: {reason}");
        }
    }
}
