//! One request as a handler sees it: its path, parameters and body, and the node behind it.

use std::sync::Arc;

use bytes::Bytes;
use plimsoll_cluster::Coordinator;
use plimsoll_index::Error;
use serde_json::Value;

use super::body::RequestBody;
use super::json_read;
use super::query::Query;
use super::shared::Rest;
use crate::security::principal::{Grant, Principal};

/// The parts of a path that stand for `{names}`.
pub type Parts = Vec<(&'static str, String)>;

/// A request that has found its route.
pub struct Call {
    /// What all requests share.
    pub rest: Arc<Rest>,
    /// As it was sent: `GET`, `HEAD`, …
    pub method: &'static str,
    /// The path as it was sent, without parameters.
    pub path: String,
    /// The parameters; their names were checked.
    pub query: Query,
    /// The `Accept` header.
    pub accept: Option<String>,
    /// The body, read as far as the handler wants.
    pub body: RequestBody,
    /// What stands in the path for `{names}`.
    pub parts: Parts,
    /// Who asks.
    pub principal: Arc<Principal>,
    /// What the route does to indices, in the name of whoever asks.
    pub grant: Grant,
}

impl Call {
    /// Where documents and indices are.
    #[must_use]
    pub fn coordinator(&self) -> &Arc<Coordinator> {
        &self.rest.node.coordinator
    }

    /// A part of the path, `index` for `/{index}/…`; none where the route has no such part.
    #[must_use]
    pub fn part(&self, name: &str) -> Option<&str> {
        self.parts.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// The whole body, or what the `source` parameter says in its place; empty where there is
    /// neither.
    ///
    /// # Errors
    /// Where the body cannot be read.
    pub async fn bytes(&mut self) -> Result<Bytes, Error> {
        let body = self.body.all().await?;
        match self.query.get("source") {
            Some(source) if body.is_empty() => Ok(Bytes::copy_from_slice(source.as_bytes())),
            _ => Ok(body),
        }
    }

    /// The body as JSON; none where it is empty.
    ///
    /// # Errors
    /// Where it cannot be read or is not JSON.
    pub async fn json(&mut self) -> Result<Option<Value>, Error> {
        let body = self.bytes().await?;
        if body.trim_ascii().is_empty() { Ok(None) } else { json_read::value(&body).map(Some) }
    }

    /// The body as JSON, which there must be.
    ///
    /// # Errors
    /// 400 `parse_exception` where it is empty; else as [`Self::json`].
    pub async fn json_required(&mut self) -> Result<Value, Error> {
        let body = self.json().await?;
        body.ok_or_else(|| Error::invalid("parse_exception", "request body is required"))
    }

    /// A setting of the whole cluster that was changed while it runs: the transient one, else
    /// the persistent one.
    #[must_use]
    pub fn cluster_setting(&self, name: &str) -> Option<String> {
        self.coordinator().cluster_setting(name)
    }
}
