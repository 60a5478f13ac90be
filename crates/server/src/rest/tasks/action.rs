//! What a request is called where requests are listed, what may be done to it for the sake of
//! others, and what its answer says of what it cost.

use axum::http::{HeaderMap, HeaderValue};
use plimsoll_memory::{Account, Standing, TaskAction};

use Standing::{Control, Read, Write};

/// The action of a request that lists requests.
pub(super) const LISTING: &str = "cluster:monitor/tasks/lists";
/// The longest name of a client's for its request that is kept, bytes.
const OPAQUE_ID_BYTES_MAX: usize = 256;

/// What a request is called, and what may be done to it.
pub type Kind = (&'static str, Standing);

/// The action of a request of this kind, by the index that it names, or else its method and path.
#[must_use]
pub fn of(
    kind: Kind,
    index: Option<&str>,
    (method, path): (&str, &str),
    headers: &HeaderMap,
) -> TaskAction {
    let (name, standing) = kind;
    let description = match index {
        Some(index) => format!("indices[{index}]"),
        None => format!("{method} {path}"),
    };
    let opaque_id = headers.get("x-opaque-id").and_then(|value| value.to_str().ok());
    let opaque_id = opaque_id.filter(|id| id.len() <= OPAQUE_ID_BYTES_MAX).map(str::to_owned);
    TaskAction { name, description, standing, opaque_id }
}

/// Elasticsearch's name, by the path and the method. What is neither a read nor a write of
/// documents is the cluster's own: an operator has to get through when memory is short.
#[must_use]
pub fn kind(path: &str, method: &str) -> Kind {
    let path = path.strip_prefix("/{index}").unwrap_or(path);
    let first = path.split('/').nth(1).unwrap_or_default();
    let is_read = matches!(method, "GET" | "HEAD");
    match first {
        "_search" | "_count" | "_rank_eval" if path.contains("scroll") => match method {
            "DELETE" => ("indices:data/read/scroll/clear", Control),
            _ => ("indices:data/read/scroll", Read),
        },
        "_search" | "_pit" if path.contains("pit") || path.contains("point_in_time") => {
            ("indices:data/read/open_point_in_time", Control)
        }
        "_search" | "_count" | "_rank_eval" => ("indices:data/read/search", Read),
        "_msearch" => ("indices:data/read/msearch", Read),
        "_mget" => ("indices:data/read/mget", Read),
        "_explain" => ("indices:data/read/explain", Read),
        "_analyze" => ("indices:admin/analyze", Read),
        "_field_caps" => ("indices:data/read/field_caps", Read),
        "_validate" => ("indices:admin/validate/query", Read),
        "_doc" | "_source" if is_read => ("indices:data/read/get", Read),
        "_doc" if method == "DELETE" => ("indices:data/write/delete", Write),
        "_doc" | "_create" => ("indices:data/write/index", Write),
        "_update" => ("indices:data/write/update", Write),
        "_bulk" => ("indices:data/write/bulk", Write),
        "_delete_by_query" => ("indices:data/write/delete/byquery", Write),
        "_update_by_query" => ("indices:data/write/update/byquery", Write),
        "_reindex" => ("indices:data/write/reindex", Write),
        "_tasks" if is_read => (LISTING, Control),
        "_tasks" => ("cluster:admin/tasks/cancel", Control),
        "_nodes" if path.contains("stats") => ("cluster:monitor/nodes/stats", Control),
        "_nodes" => ("cluster:monitor/nodes/info", Control),
        "_cluster" if path.contains("health") => ("cluster:monitor/health", Control),
        "_cluster" if path.contains("settings") && !is_read => {
            ("cluster:admin/settings/update", Control)
        }
        "_cluster" if path.contains("state") => ("cluster:monitor/state", Control),
        "_stats" => ("indices:monitor/stats", Control),
        "_recovery" => ("indices:monitor/recovery", Control),
        "_segments" => ("indices:monitor/segments", Control),
        "_refresh" => ("indices:admin/refresh", Control),
        "_flush" => ("indices:admin/flush", Control),
        "_forcemerge" => ("indices:admin/forcemerge", Control),
        _ if is_read => ("cluster:monitor/get", Control),
        "" => ("indices:admin/change", Control),
        _ => ("cluster:admin/change", Control),
    }
}

/// What an answer says of its request's cost so far: processor time in microseconds, the most
/// bytes that it held, and whether it was counted.
pub fn tell(headers: &mut HeaderMap, account: &Account) {
    let micros = u64::try_from(account.cpu().as_micros()).unwrap_or(u64::MAX);
    headers.insert("x-plimsoll-cpu-micros", HeaderValue::from(micros));
    let counted = if account.is_counted() { "memory" } else { "noop" };
    headers.insert("x-plimsoll-breaker", HeaderValue::from_static(counted));
    headers.insert("x-plimsoll-peak-bytes", HeaderValue::from(account.peak_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::routes::all;

    #[test]
    fn requests_have_elasticsearchs_names() {
        for (path, method, name, standing) in [
            ("/{index}/_search", "POST", "indices:data/read/search", Read),
            ("/_search/scroll", "DELETE", "indices:data/read/scroll/clear", Control),
            ("/_search/scroll", "POST", "indices:data/read/scroll", Read),
            ("/{index}/_doc/{id}", "GET", "indices:data/read/get", Read),
            ("/{index}/_doc/{id}", "PUT", "indices:data/write/index", Write),
            ("/_bulk", "POST", "indices:data/write/bulk", Write),
            ("/{index}", "PUT", "indices:admin/change", Control),
            ("/_cluster/settings", "PUT", "cluster:admin/settings/update", Control),
        ] {
            assert_eq!(kind(path, method), (name, standing), "{method} {path}");
        }
    }

    #[test]
    fn what_an_operator_needs_is_never_stopped() {
        for route in all() {
            let path = route.path;
            let is_own = ["/_cluster", "/_cat", "/_nodes", "/_tasks", "/_plimsoll"];
            if is_own.iter().any(|own| path.starts_with(own)) {
                for verb in route.verbs {
                    assert_eq!(kind(path, verb.name()).1, Control, "{path}");
                }
            }
        }
    }
}
