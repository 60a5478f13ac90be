//! What a node says of itself on `GET /`: the first thing that clients ask, and by which some of
//! them decide whether to go on.

use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::call::Call;
use super::identity::{BUILD_HASH, LUCENE_VERSION};
use super::needs::CLUSTER_MONITOR;
use super::route::{Route, Verb, route};

/// The routes of this module.
pub const ROUTES: &[Route] =
    &[route(&[Verb::Get], "/", &[], CLUSTER_MONITOR, |call| Box::pin(root(call)))];

pub(super) async fn root(call: Call) -> Result<Answer, Error> {
    let settings = &call.rest.node.settings;
    let mut version = Map::new();
    let mut say = |key: &str, value: Value| version.insert(key.to_owned(), value);
    if !settings.rest_distribution.is_empty() {
        say("distribution", json!(settings.rest_distribution));
    }
    say("number", json!(settings.rest_version));
    say("build_flavor", json!("default"));
    say("build_type", json!("tar"));
    say("build_hash", json!(BUILD_HASH));
    say("build_date", json!("2026-01-01T00:00:00.000000Z"));
    say("build_snapshot", json!(false));
    say("lucene_version", json!(LUCENE_VERSION));
    say("minimum_wire_compatibility_version", json!("6.8.0"));
    say("minimum_index_compatibility_version", json!("6.0.0-beta1"));
    Ok(Answer::json(&json!({
        "name": settings.node_name,
        "cluster_name": settings.cluster_name,
        "cluster_uuid": call.rest.identity.cluster_uuid,
        "version": version,
        "tagline": settings.rest_tagline,
    })))
}
