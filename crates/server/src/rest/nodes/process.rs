//! What this node says of its process, to itself and to others.

use serde_json::{Value, json};

use super::{info, stats};
use crate::rest::shared::Rest;
use crate::rest::{ccr, tasks};

/// What this node says of its process, to itself and to others.
#[must_use]
pub fn process(rest: &Rest) -> Value {
    let cache = rest.node.coordinator.documents().request_cache();
    let contexts = |scrolls: bool| rest.node.coordinator.documents().contexts(scrolls).len();
    json!({
        "info": info::one(rest, None, false),
        "flat_settings": info::settings(rest, true),
        "stats": stats::own(rest),
        "tasks": tasks::own(rest),
        "cache": [cache.bytes, cache.hits, cache.misses],
        "contexts": [contexts(true), contexts(false), rest.node.coordinator.documents().held_views()],
        "following": ccr::across::own(rest),
    })
}
