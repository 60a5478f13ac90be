//! HTTP, as far as this version has it: `GET /_metrics`. Everything else is refused in
//! Elasticsearch's words, so that its clients show why.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    http::{Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::json;

use crate::node::Shared;

/// The content type that Prometheus asks for.
const PROMETHEUS: &str = "text/plain; version=0.0.4";

/// Everything that HTTP answers.
pub fn router(shared: Arc<Shared>) -> Router {
    Router::new().route("/_metrics", get(metrics)).fallback(refuse).with_state(shared)
}

async fn metrics(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, PROMETHEUS)], shared.metrics.render(&shared))
}

async fn refuse(method: Method, uri: Uri) -> Response {
    let reason = format!(
        "no handler found for uri [{uri}] and method [{method}]: documents and search are not in \
         this version, which serves rows to Redis clients and GET /_metrics"
    );
    let error = json!({ "type": "illegal_argument_exception", "reason": reason });
    let body = json!({
        "error": { "root_cause": [error], "type": error["type"], "reason": error["reason"] },
        "status": 400,
    });
    let content_type = [(header::CONTENT_TYPE, "application/json; charset=UTF-8")];
    (StatusCode::BAD_REQUEST, content_type, body.to_string()).into_response()
}
