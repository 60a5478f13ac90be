//! REST: Elasticsearch's words over HTTP. How a request becomes a [`call`] and an [`answer`] a
//! response stands here and in the small modules beside it; which paths there are, in
//! [`routes`]; what they do, in [`admin`] and [`documents`].
//!
//! It turns words into the coordinator's operations and back. It knows nothing of how documents
//! are stored or found.

pub mod access;
pub mod admin;
pub mod answer;
pub mod body;
pub mod browsers;
pub mod call;
pub mod cat;
pub mod ccr;
pub mod cluster;
pub mod documents;
pub mod expressions;
pub mod filter_path;
pub mod http_status;
pub mod identity;
pub mod json_error;
pub mod json_read;
pub mod large;
pub mod media;
pub mod names;
pub mod needs;
pub mod nodes;
pub mod peer;
pub mod plimsoll;
pub mod pretty;
pub mod query;
pub mod remote;
pub mod root;
pub mod route;
pub mod routes;
pub mod search;
pub mod security;
pub mod server;
pub mod shared;
pub mod stats;
pub mod tasks;
pub mod types;

pub use shared::Rest;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts as Head;
use axum::http::{HeaderValue, Method, Response, Version, header};
use futures_util::FutureExt;
use plimsoll_cluster::stopped;
use plimsoll_index::{Error, ErrorClass};
use plimsoll_memory::{Account, Charged};
use serde_json::json;
use tracing::{Instrument as _, field};

use crate::security::audit::What;
use crate::security::principal::Principal;
use crate::spans::numbered;
use answer::{Answer, Wishes};
use body::{End, RequestBody};
use browsers::Visitor;
use call::Call;
use filter_path::FilterPath;
use http_status::HttpStatus;
use peer::Peer;
use query::Query;
use route::Verb;
use routes::Found;
use shared::as_known;

/// The content type that Prometheus asks for.
const PROMETHEUS: &str = "text/plain; version=0.0.4";

impl Rest {
    /// Has the node tell others what is told here of its process.
    pub fn tell_others(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        let figures = move || {
            weak.upgrade().map_or(serde_json::Value::Null, |it| nodes::process::process(&it))
        };
        self.node.coordinator.tell_process_figures(Box::new(figures));
    }
}

/// Answers a request.
pub async fn handle(rest: Arc<Rest>, request: Request, peer: Arc<Peer>) -> Response<Body> {
    let wishes = wishes(&rest, &request);
    let has_trace = request.uri().query().is_some_and(|query| {
        Query::parse(query).is_ok_and(|query| query.flag_or("error_trace", false).unwrap_or(false))
    });
    let is_http_2 = request.version() == Version::HTTP_2;
    let (head, body) = request.into_parts();
    let (body, end) = End::watch(body);
    let mut visitor = Visitor::Unknown;
    // A fault of ours ends this request, not the connection with all that wait on it.
    let mut account = None;
    let opaque_id = head.headers.get("x-opaque-id").and_then(|it| it.to_str().ok());
    let (method, path) = (head.method.as_str(), head.uri.path());
    let span = numbered(tracing::debug_span!("rest", id = field::Empty, method, path, opaque_id));
    let answering = answer(&rest, head, body, &peer, &mut visitor, &mut account);
    let answered = AssertUnwindSafe(answering).catch_unwind().instrument(span.clone()).await;
    let answered = answered.unwrap_or_else(|_| Err(Error::internal("the request met a fault")));
    let answer = answered.map_err(|error| as_known(&rest, error)).unwrap_or_else(|error| {
        let answer = Answer::error(&error, has_trace);
        match error.class {
            ErrorClass::Unauthenticated => {
                answer.with_header(header::WWW_AUTHENTICATE, access::CHALLENGE)
            }
            _ => answer,
        }
    });
    span.in_scope(|| tracing::debug!(status = answer.status, "answered"));
    let mut response = respond(answer, wishes, account).await;
    rest.doors.introduce(&visitor, response.headers_mut());
    if !end.reach().await && !is_http_2 {
        // The rest of the body stands where the next request would be.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// An answer as it is sent.
async fn respond(answer: Answer, wishes: Wishes, account: Option<Account>) -> Response<Body> {
    if !answer.is_large() {
        return answer::response(answer, &wishes, account);
    }
    // Filtering, indenting and compressing it takes long; this thread serves other connections.
    let (status, kept) = (answer.status, wishes.clone());
    let shaping = tokio::task::spawn_blocking(move || answer::response(answer, &wishes, account));
    shaping.await.unwrap_or_else(|_| {
        tracing::error!(status, "an answer could not be written");
        let error = Error::internal("the answer could not be written");
        answer::response(Answer::error(&error, false), &kept, None)
    })
}

/// How the client wants its answer, whatever that will be.
fn wishes(rest: &Rest, request: &Request) -> Wishes {
    let headers = request.headers();
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let query = request.uri().query().map(Query::parse).and_then(Result::ok).unwrap_or_default();
    let encodings = text(header::ACCEPT_ENCODING).unwrap_or_default();
    let takes_gzip = encodings.split(',').any(|encoding| {
        let (name, weight) = encoding.split_once(';').unwrap_or((encoding, ""));
        name.trim().eq_ignore_ascii_case("gzip") && weight.trim() != "q=0"
    });
    Wishes {
        is_pretty: query.flag("pretty").is_ok_and(|flag| flag == Some(true)),
        // One that is wrong is refused in `answer`.
        filter: query.get("filter_path").and_then(|text| FilterPath::parse(text).ok().flatten()),
        is_head: *request.method() == Method::HEAD,
        takes_gzip: takes_gzip && rest.node.settings.http_compression,
        json_type: media::answer_type(text(header::ACCEPT)),
        opaque_id: headers.get("x-opaque-id").cloned(),
    }
}

/// `visitor` and `account` become those of the request, once it is known what it is.
async fn answer(
    rest: &Arc<Rest>,
    head: Head,
    body: Body,
    peer: &Peer,
    visitor: &mut Visitor,
    account: &mut Option<Account>,
) -> Result<Answer, Error> {
    let path = head.uri.path().to_owned();
    *visitor = rest.doors.check(&head, !rest.node.security.is_open())?;
    if let Some(answer) = rest.doors.preflight(&head, visitor) {
        return Ok(answer);
    }
    let mut principal = access::check(&rest.node, peer, &head.headers, &path).await?;
    if path == "/_metrics" && head.method == Method::GET {
        needs::CLUSTER_MONITOR.check(&principal, "cluster:monitor/metrics", &Vec::new())?;
        return Ok(Answer::text(rest.node.metrics.render(&rest.node))
            .with_header(header::CONTENT_TYPE, PROMETHEUS));
    }
    let decoded: Vec<_> = path
        .split('/')
        .filter(|word| !word.is_empty())
        .map(query::decode_segment)
        .collect::<Result<_, _>>()?;
    let segments: Vec<&str> = decoded.iter().map(AsRef::as_ref).collect();
    let (route, parts) = match routes::find(&head.method, &segments) {
        Found::Route(route, parts) => (route, parts),
        Found::Methods(verbs) => return Ok(wrong_method(&head.method, &head.uri, &verbs)),
        Found::Nothing => return Ok(no_handler(&head.method, &head.uri)),
    };
    let kind = tasks::action::kind(route.path, method_name(&head.method));
    let request = || format!("{} {}", head.method, head.uri.path());
    let check = |principal: &Arc<Principal>| {
        route.needs.check(principal, kind.0, &parts).inspect_err(|error| {
            let detail = error.reason.clone();
            rest.node.note(What::Denied, &principal.named(), peer.address, request(), detail);
        })
    };
    check(&principal)?;
    let is_of_operator = route.needs.is_of_operator() || route.path.ends_with("/_password");
    let is_change = is_of_operator && !route.only_reads(&head.method);
    if is_change {
        principal = access::confirm(&rest.node, &principal).await?;
        check(&principal)?;
    }
    let who = Arc::clone(&principal);
    let query = Query::parse(head.uri.query().unwrap_or_default())?;
    FilterPath::parse(query.get("filter_path").unwrap_or_default())?;
    route.check_parameters(&path, query.names())?;
    if !route.only_reads(&head.method) {
        browsers::check_bodyless(visitor, &head.headers, body::is_announced(&head.headers))?;
        check_source(&query)?;
    }
    check_format(&query)?;
    if route.is_of_tables() {
        // Where that is not known, what is known here is told of; see `as_known`.
        rest.node.coordinator.become_current().await;
    }
    let is_large = large::is_announced(&head.headers);
    let bytes_max = body::bytes_max(kind, rest.node.settings.http_max_content_bytes);
    let body = access::sent_by(body, &rest.node, &principal, is_change);
    let body = RequestBody::new(body, &head.headers, bytes_max, Arc::clone(&rest.in_flight))?;
    let accept = head.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let call = Call {
        rest: Arc::clone(rest),
        method: method_name(&head.method),
        path,
        query,
        accept: accept.map(str::to_owned),
        body,
        parts,
        grant: route.needs.grant(&principal, kind.0),
        principal,
    };
    let action =
        tasks::action::of(kind, call.part("index"), (call.method, &call.path), &head.headers);
    let account = account.insert(Account::open(action));
    let answering = Charged::new(account.clone(), || (route.handler)(call));
    let answered = if is_large {
        let answered = rest.large.run(answering).await;
        answered.map_err(|_| Error::internal("the request met a fault"))?
    } else {
        answering.await
    };
    let answered = answered.unwrap_or_else(|stop| Err(stopped(&stop)));
    let note = |what, detail| rest.node.note(what, &who.named(), peer.address, request(), detail);
    match &answered {
        Err(error)
            if error.kind == "security_exception" && error.class == ErrorClass::Forbidden =>
        {
            note(What::Denied, error.reason.clone());
        }
        outcome if is_change => {
            let status = outcome.as_ref().map_or_else(HttpStatus::status, |answer| answer.status);
            let what = if status < 400 { What::Changed } else { What::NotChanged };
            note(what, format!("status {status}"));
        }
        _ => {}
    }
    answered
}

/// Whether a request goes on when its client hangs up: what changes something does, once it is here.
#[must_use]
pub fn goes_on(request: &Request) -> bool {
    let path = request.uri().path().split('/').filter(|word| !word.is_empty());
    let Ok(decoded) = path.map(query::decode_segment).collect::<Result<Vec<_>, _>>() else {
        return false;
    };
    let segments: Vec<&str> = decoded.iter().map(AsRef::as_ref).collect();
    match routes::find(request.method(), &segments) {
        Found::Route(route, _) => !route.only_reads(request.method()),
        _ => false,
    }
}

/// Whoever makes others follow a link should not have them change something by it.
fn check_source(query: &Query) -> Result<(), Error> {
    match query.get("source") {
        None => Ok(()),
        Some(_) => Err(Error::illegal_argument(
            "[source] stands for the body only of requests that change nothing; send a body",
        )),
    }
}

/// The formats that answers have. Plain text is the handler's own choice.
fn check_format(query: &Query) -> Result<(), Error> {
    match query.get("format") {
        None | Some("json" | "text" | "") => Ok(()),
        Some(other) => Err(Error::illegal_argument(format!(
            "[format] is [{other}], and answers have only [json] and, from _cat, [text]"
        ))),
    }
}

fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ => "HEAD",
    }
}

fn wrong_method(method: &Method, uri: &axum::http::Uri, verbs: &[Verb]) -> Answer {
    let names: Vec<&str> = verbs.iter().map(|verb| verb.name()).collect();
    if *method == Method::OPTIONS {
        return Answer::empty().with_header(header::ALLOW, names.join(","));
    }
    let error = format!(
        "Incorrect HTTP method for uri [{uri}] and method [{method}], allowed: [{}]",
        names.join(", ")
    );
    let body = json!({ "error": error, "status": 405 });
    Answer::json(&body).with_status(405).with_header(header::ALLOW, names.join(","))
}

fn no_handler(method: &Method, uri: &axum::http::Uri) -> Answer {
    let error = format!("no handler found for uri [{uri}] and method [{method}]");
    Answer::json(&json!({ "error": error })).with_status(400)
}
