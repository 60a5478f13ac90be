//! The settings of the breakers as the cluster has them, made those of this node's process.

use std::collections::BTreeMap;

use plimsoll_memory::breakers::{self, Limit, Settings, Type};
use plimsoll_memory::machine::machine;
use plimsoll_stdx::units;

use super::settings_table::find;
use crate::node::cache_bytes;
use crate::rest::shared::Rest;

/// Takes over what the cluster has set.
pub fn take_settings(rest: &Rest, set: &BTreeMap<String, String>) {
    let set = Set(set);
    let settings = set.settings();
    if settings != breakers::settings() {
        tracing::info!(?settings, "breakers set");
        breakers::set(settings);
    }
    // What lasts must not take all that is left for requests.
    let memory_bytes = settings.total.bytes().min(machine().total_bytes);
    rest.node.coordinator.resize_caches(cache_bytes(&rest.node.settings, memory_bytes));
    let bodies = match set.given("network.breaker.inflight_requests.limit") {
        None => Limit::Bytes(rest.node.settings.http_in_flight_bytes as u64),
        Some(text) => limit(text),
    };
    let overhead = set.factor("network.breaker.inflight_requests.overhead");
    rest.in_flight.set(bodies.bytes(), overhead);
}

/// What is set, by name.
struct Set<'a>(&'a BTreeMap<String, String>);

impl Set<'_> {
    fn settings(&self) -> Settings {
        let limit_of = |name| limit(self.text(name));
        Settings {
            total: limit_of("indices.breaker.total.limit"),
            request: limit_of("indices.breaker.request.limit"),
            request_overhead: self.factor("indices.breaker.request.overhead"),
            request_type: match self.text("indices.breaker.request.type") {
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

    fn given(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// What is set, or the default; values were checked when they were set.
    fn text(&self, name: &str) -> &str {
        let default = || find(name).map_or("", |(_, _, default)| default);
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
    #[test]
    fn nothing_set_is_elasticsearchs_defaults() {
        let none = BTreeMap::new();
        let set = Set(&none);
        assert_eq!(set.settings(), Settings::default());
        assert!((set.factor("network.breaker.inflight_requests.overhead") - 2.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_set_goes_over_the_defaults() {
        let given = [
            ("indices.breaker.request.limit", "30mb"),
            ("indices.breaker.request.type", "drawn"),
            ("indices.breaker.total.limit", "70%"),
            ("indices.breaker.fielddata.limit", "-1"),
        ];
        let given = given.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
        let settings = Set(&given).settings();
        assert_eq!(settings.request, Limit::Bytes(30 << 20));
        assert_eq!(settings.request_type, Type::Drawn);
        assert_eq!(settings.total, Limit::Percent(70.0));
        assert_eq!(settings.fielddata, Limit::None);
    }
}
