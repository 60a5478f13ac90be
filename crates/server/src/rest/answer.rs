//! What a handler answers, and how that becomes a response: errors in their shape, parts
//! filtered, lines indented, bytes compressed.

use std::io::Write;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use plimsoll_index::{Error, ErrorClass};
use plimsoll_memory::Account;
use serde::Serialize;
use serde_json::json;

use super::filter_path::FilterPath;
use super::media;
use super::pretty::pretty;
use super::tasks::action;
use crate::rest::http_status::HttpStatus;

/// Answers below this are sent as they are: compressing them saves no packet.
const COMPRESSED_BYTES_MIN: usize = 1 << 10;
/// Answers from here on are shaped aside: it takes some milliseconds.
const LARGE_BYTES_MIN: usize = 1 << 20;
/// How hard to compress; Elasticsearch's own level.
const COMPRESSION_LEVEL: u32 = 3;

/// What a request is answered with.
#[derive(Clone, Debug)]
pub struct Answer {
    /// 200, unless something else is said.
    pub status: u16,
    /// `Location`, `Allow` and the like; the general ones are added to them.
    pub headers: Vec<(HeaderName, String)>,
    /// What follows them.
    pub content: Content,
}

/// The body of an answer.
#[derive(Clone, Debug)]
pub enum Content {
    /// JSON, without unneeded space.
    Json(Bytes),
    /// Lines for people.
    Text(String),
    /// Nothing.
    Empty,
}

impl Answer {
    /// 200 with a value as JSON.
    #[must_use]
    pub fn json(value: &impl Serialize) -> Self {
        // Answers are made of maps with text keys, which always can be written.
        Self::raw(serde_json::to_vec(value).unwrap_or_default())
    }

    /// 200 with JSON that is written already.
    #[must_use]
    pub fn raw(json: impl Into<Bytes>) -> Self {
        Self { status: 200, headers: Vec::new(), content: Content::Json(json.into()) }
    }

    /// 200 with lines of text.
    #[must_use]
    pub fn text(text: String) -> Self {
        Self { status: 200, headers: Vec::new(), content: Content::Text(text) }
    }

    /// 200 without a body.
    #[must_use]
    pub fn empty() -> Self {
        Self { status: 200, headers: Vec::new(), content: Content::Empty }
    }

    /// Whether it takes long to filter, indent or compress.
    #[must_use]
    pub fn is_large(&self) -> bool {
        matches!(&self.content, Content::Json(json) if json.len() >= LARGE_BYTES_MIN)
    }

    /// `{"acknowledged": true}`.
    #[must_use]
    pub fn acknowledged() -> Self {
        Self::raw(r#"{"acknowledged":true}"#)
    }

    /// The same with another status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// The same with one more header.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// An error as clients read it. One that came from outside Elasticsearch's own kinds is a
    /// sentence alone.
    #[must_use]
    pub fn error(error: &Error, has_trace: bool) -> Self {
        let mut body = if error.kind == media::BARE {
            json!({ "error": error.reason, "status": error.status() })
        } else {
            json!({ "error": error.rooted_json(), "status": error.status() })
        };
        if let Some(object) = body["error"].as_object_mut().filter(|_| has_trace) {
            // There is no stack to show; the sum of the error stands where clients look.
            object.insert("stack_trace".to_owned(), json!(error.to_string()));
        }
        let mut answer = Self::json(&body).with_status(error.status());
        if error.class == ErrorClass::Overloaded {
            answer = answer.with_header(header::RETRY_AFTER, retry_after_s(error).to_string());
        }
        answer
    }
}

/// After how many seconds there may be room: what the error or a cause of it says, at least 1.
fn retry_after_s(error: &Error) -> u64 {
    let own_ms = error.extra.get("retry_after_ms").and_then(serde_json::Value::as_u64);
    let causes = [&error.root, &error.caused_by].into_iter().flatten();
    let causes_s = causes.map(|cause| retry_after_s(cause)).max().unwrap_or(1);
    own_ms.map_or(1, |ms| ms.div_ceil(1000)).max(causes_s)
}

/// How a client wants its answer.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// Lines and indents.
    pub is_pretty: bool,
    /// Which parts.
    pub filter: Option<FilterPath>,
    /// HEAD: the headers alone.
    pub is_head: bool,
    /// The client takes gzip.
    pub takes_gzip: bool,
    /// The content type of JSON.
    pub json_type: String,
    /// What the client called its request, to be said again.
    pub opaque_id: Option<HeaderValue>,
}

/// Bytes that are their request's until they are sent.
struct Owned {
    bytes: Bytes,
    _account: Account,
}

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The response to send. The account, where there is one, lasts until that is done.
#[must_use]
pub fn response(answer: Answer, wishes: &Wishes, account: Option<Account>) -> Response<Body> {
    let _working = account.as_ref().map(Account::enter);
    let (content_type, bytes) = match answer.content {
        Content::Json(json) => (wishes.json_type.as_str(), shaped(json, wishes)),
        Content::Text(text) => (media::TEXT, Bytes::from(text)),
        Content::Empty => (media::TEXT, Bytes::new()),
    };
    let mut headers = HeaderMap::with_capacity(8);
    for (name, value) in answer.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.append(name, value);
        }
    }
    headers.insert("x-elastic-product", HeaderValue::from_static("Elasticsearch"));
    if let Some(opaque_id) = &wishes.opaque_id {
        headers.insert("x-opaque-id", opaque_id.clone());
    }
    if !headers.contains_key(header::CONTENT_TYPE) {
        let content_type = HeaderValue::from_str(content_type);
        let content_type = content_type.unwrap_or(HeaderValue::from_static(media::JSON));
        headers.insert(header::CONTENT_TYPE, content_type);
    }
    let mut bytes = bytes;
    if wishes.takes_gzip
        && bytes.len() >= COMPRESSED_BYTES_MIN
        && let Ok(compressed) = compress(&bytes)
    {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        bytes = compressed;
    }
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
    if let Some(account) = &account {
        action::tell(&mut headers, account);
    }
    let body = match &account {
        _ if wishes.is_head || bytes.is_empty() => Body::empty(),
        Some(account) => Body::from(Bytes::from_owner(Owned { bytes, _account: account.clone() })),
        None => Body::from(bytes),
    };
    let mut response = Response::new(body);
    *response.headers_mut() = headers;
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}

fn shaped(json: Bytes, wishes: &Wishes) -> Bytes {
    let json = match &wishes.filter {
        Some(filter) => Bytes::from(filter.apply(&json)),
        None => json,
    };
    if wishes.is_pretty { Bytes::from(pretty(&json)) } else { json }
}

fn compress(bytes: &[u8]) -> std::io::Result<Bytes> {
    let room = Vec::with_capacity(bytes.len() / 4);
    let mut encoder = GzEncoder::new(room, Compression::new(COMPRESSION_LEVEL));
    encoder.write_all(bytes)?;
    encoder.finish().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_when_to_come_back() {
        let refusal = |ms: u64| Error::overloaded("x", "full").with("retry_after_ms", ms);
        let whole = Error::overloaded("search_phase_execution_exception", "all shards failed");
        for (error, seconds) in [
            (whole.clone(), "1"),
            (refusal(0), "1"),
            (refusal(1_001), "2"),
            (whole.rooted_in(refusal(4_200)), "5"),
        ] {
            let answer = Answer::error(&error, false);
            assert_eq!(answer.headers, [(header::RETRY_AFTER, seconds.to_owned())]);
        }
        let missing = Answer::error(&Error::not_found("x", "not there"), false);
        assert!(missing.headers.is_empty());
    }
}
