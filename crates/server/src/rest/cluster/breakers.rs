//! The settings of the breakers as the cluster has them, made those of this node's process.

use plimsoll_memory::breakers::{self, Limit, Settings, Type};
use serde_json::{Map, Value};

use super::settings_table::find;
use crate::rest::Rest;
use crate::settings::units;

/// Takes over what the cluster has set, where it is another than before.
pub fn apply(rest: &Rest) {
    let stored = |kind| match rest.node.coordinator.stored("settings", kind) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    };
    let set = Set { transient: stored("transient"), persistent: stored("persistent") };
    let settings = set.settings();
    if settings != breakers::settings() {
        tracing::info!(?settings, "breakers set");
        breakers::set(settings);
    }
    let bodies = match set.given("network.breaker.inflight_requests.limit") {
        None => Limit::Bytes(rest.node.settings.http_in_flight_bytes as u64),
        Some(text) => limit(&text),
    };
    let overhead = set.factor("network.breaker.inflight_requests.overhead");
    rest.in_flight.set(bodies.bytes(), overhead);
}

/// What is set: what is transient comes first.
struct Set {
    transient: Map<String, Value>,
    persistent: Map<String, Value>,
}

impl Set {
    fn settings(&self) -> Settings {
        let limit_of = |name| limit(&self.text(name));
        Settings {
            total: limit_of("indices.breaker.total.limit"),
            request: limit_of("indices.breaker.request.limit"),
            request_overhead: self.factor("indices.breaker.request.overhead"),
            request_type: match self.text("indices.breaker.request.type").as_str() {
                "noop" => Type::Noop,
                "drawn" => Type::Drawn,
                _ => Type::Memory,
            },
            fielddata: limit_of("indices.breaker.fielddata.limit"),
            fielddata_overhead: self.factor("indices.breaker.fielddata.overhead"),
            accounting: limit_of("indices.breaker.accounting.limit"),
            accounting_overhead: self.factor("indices.breaker.accounting.overhead"),
        }
    }

    fn given(&self, name: &str) -> Option<String> {
        let found = self.transient.get(name).or_else(|| self.persistent.get(name))?;
        found.as_str().map(str::to_owned)
    }

    /// What is set, or the default; values were checked when they were set.
    fn text(&self, name: &str) -> String {
        let default = || find(name).map_or("", |(_, _, default)| default).to_owned();
        self.given(name).unwrap_or_else(default)
    }

    fn factor(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or(1.0)
    }
}

fn limit(text: &str) -> Limit {
    if text == "-1" {
        return Limit::None;
    }
    if let Some(percent) = text.strip_suffix('%') {
        return Limit::Percent(percent.trim().parse().unwrap_or(100.0));
    }
    units::bytes(text).map_or(Limit::None, Limit::Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn nothing_set_is_elasticsearchs_defaults() {
        let set = Set { transient: Map::new(), persistent: Map::new() };
        assert_eq!(set.settings(), Settings::default());
        assert!((set.factor("network.breaker.inflight_requests.overhead") - 2.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_transient_comes_first() {
        let set = Set {
            transient: object(json!({
                "indices.breaker.request.limit": "30mb",
                "indices.breaker.request.type": "drawn",
            })),
            persistent: object(json!({
                "indices.breaker.request.limit": "20mb",
                "indices.breaker.total.limit": "70%",
                "indices.breaker.fielddata.limit": "-1",
            })),
        };
        let settings = set.settings();
        assert_eq!(settings.request, Limit::Bytes(30 << 20));
        assert_eq!(settings.request_type, Type::Drawn);
        assert_eq!(settings.total, Limit::Percent(70.0));
        assert_eq!(settings.fielddata, Limit::None);
    }
}
