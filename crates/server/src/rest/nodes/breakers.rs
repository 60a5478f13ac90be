//! `_nodes/stats/breaker`: the breakers, and beyond Elasticsearch's figures who holds the process'
//! memory: every owner, and whether their sums are what is allocated.

use plimsoll_memory::account::request_sums;
use plimsoll_memory::breakers::{Figures, Which, figures};
use plimsoll_memory::ledger::{Heir, OWNERS};
use plimsoll_memory::watch::{best_balance, breach};
use serde_json::{Map, Value, json};

use crate::rest::cat::units::bytes;
use crate::rest::shared::Rest;

fn breaker(figures: &Figures) -> Value {
    json!({
        "limit_size_in_bytes": figures.limit,
        "limit_size": bytes(figures.limit),
        "estimated_size_in_bytes": figures.used,
        "estimated_size": bytes(figures.used),
        "overhead": figures.overhead,
        "tripped": figures.tripped,
    })
}

/// All breakers by name.
#[must_use]
pub fn breakers(rest: &Rest) -> Value {
    let mut all = Map::new();
    for which in Which::ALL {
        let mut shown = breaker(&figures(which));
        if which == Which::Parent {
            shown["owners"] = owners();
        }
        all.insert(which.name().to_owned(), shown);
    }
    let bodies = &rest.in_flight;
    let limit = bodies.bytes_max() as u64;
    let (used, overhead) = (bodies.bytes() as u64, bodies.overhead());
    let in_flight = json!({
        "limit_size_in_bytes": limit,
        "limit_size": bytes(limit),
        "estimated_size_in_bytes": used,
        "estimated_size": bytes(used),
        "overhead": overhead,
        "tripped": bodies.tripped(),
    });
    all.insert("in_flight_requests".to_owned(), in_flight);
    Value::Object(all)
}

/// Who holds the bytes that were allocated, and how far the sum is off.
fn owners() -> Value {
    let mut all: Map<String, Value> =
        OWNERS.iter().map(|owner| (owner.name().to_owned(), json!(owner.bytes()))).collect();
    let requests = request_sums();
    all.insert("requests".to_owned(), json!(requests.open));
    for heir in Heir::ALL {
        all.insert(heir.name().to_owned(), json!(requests.left[heir as usize]));
    }
    let balance = best_balance();
    json!({
        "bytes": all,
        "open_requests": requests.open_count,
        "closed_requests_with_bytes": requests.closed_count,
        "live_bytes": balance.live,
        "off_bytes": balance.off(),
        "slack_bytes": balance.slack,
        "is_sound": breach().is_none(),
    })
}
