//! Which nodes an operator wants copies on: Elasticsearch's
//! `cluster.routing.allocation.(exclude|include|require).*`. Pure; a node that is not wanted keeps
//! its copies until others have them, as one without the role does (`placement.rs`).

use std::collections::BTreeMap;

use plimsoll_stdx::wildcard_matches;

/// Where all such settings begin.
const PREFIX: &str = "cluster.routing.allocation.";

/// What was asked for, as lists of values by kind and attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    kind: Kind,
    attribute: String,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// None of the values.
    Exclude,
    /// One of all values of all such rules.
    Include,
    /// All of the values.
    Require,
}

/// What of a node can be named.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'a> {
    pub name: &'a str,
    /// `host:port`, or a host alone: where other nodes ask it, and clients.
    pub addresses: [&'a str; 2],
    pub zone: &'a str,
}

impl Filter {
    /// The filter of the cluster's settings.
    pub(crate) fn of(settings: &BTreeMap<String, String>) -> Self {
        let rule = |(name, text): (&String, &String)| {
            let (kind, attribute) = name.strip_prefix(PREFIX)?.split_once('.')?;
            let kind = match kind {
                "exclude" => Kind::Exclude,
                "include" => Kind::Include,
                "require" => Kind::Require,
                _ => return None,
            };
            let values = text.split(',').map(str::trim).filter(|value| !value.is_empty());
            let values: Vec<String> = values.map(str::to_owned).collect();
            // An empty list is no rule.
            (!values.is_empty()).then(|| Rule { kind, attribute: attribute.to_owned(), values })
        };
        Self { rules: settings.iter().filter_map(rule).collect() }
    }

    /// Whether copies may be on a node.
    pub(crate) fn allows(&self, node: Named<'_>) -> bool {
        let of = |kind: Kind| self.rules.iter().filter(move |rule| rule.kind == kind);
        let has = |rule: &Rule, value: &String| node.is(&rule.attribute, value);
        let is_excluded = of(Kind::Exclude).any(|rule| rule.values.iter().any(|v| has(rule, v)));
        let lacks = of(Kind::Require).any(|rule| !rule.values.iter().all(|v| has(rule, v)));
        let mut included = of(Kind::Include).peekable();
        let is_left_out = included.peek().is_some()
            && !included.any(|rule| rule.values.iter().any(|value| has(rule, value)));
        !(is_excluded || lacks || is_left_out)
    }
}

impl Named<'_> {
    /// Whether an attribute has a value, in which a `*` stands for anything. One that nodes do not
    /// have has none.
    fn is(&self, attribute: &str, value: &str) -> bool {
        let is_host = |address: &str| {
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
            wildcard_matches(value, host.trim_start_matches('[').trim_end_matches(']'))
        };
        match attribute {
            "_name" => wildcard_matches(value, self.name),
            "_ip" | "_host" => self.addresses.into_iter().any(is_host),
            "zone" => wildcard_matches(value, self.zone),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(rules: &[(&str, &str)]) -> Filter {
        let named = |(name, value): &(&str, &str)| (format!("{PREFIX}{name}"), (*value).to_owned());
        Filter::of(&rules.iter().map(named).collect())
    }

    fn names(filter: &Filter) -> Vec<&'static str> {
        let nodes = [("hot-1", "a"), ("hot-2", "b"), ("cold-1", "a")];
        let named = |(name, zone): &(&'static str, &'static str)| Named {
            name,
            addresses: ["10.0.0.1:9300", "[::1]:9200"],
            zone,
        };
        nodes.iter().filter(|it| filter.allows(named(it))).map(|(name, _)| *name).collect()
    }

    #[test]
    fn nodes_are_left_out_by_name_address_and_zone() {
        assert_eq!(names(&filter(&[])).len(), 3);
        assert_eq!(names(&filter(&[("exclude._name", "hot-1, cold-1")])), ["hot-2"]);
        assert_eq!(names(&filter(&[("exclude._name", "hot-*")])), ["cold-1"]);
        assert_eq!(names(&filter(&[("exclude._name", "")])).len(), 3);
        assert!(names(&filter(&[("exclude._ip", "10.0.0.1")])).is_empty());
        assert!(names(&filter(&[("exclude._host", "::1")])).is_empty());
        assert_eq!(names(&filter(&[("include.zone", "a")])), ["hot-1", "cold-1"]);
        let both = [("include.zone", "b"), ("include._name", "cold-1")];
        assert_eq!(names(&filter(&both)), ["hot-2", "cold-1"]);
        let both = [("require.zone", "a"), ("exclude._name", "cold*")];
        assert_eq!(names(&filter(&both)), ["hot-1"]);
        // What no node has excludes none and is required of all.
        assert_eq!(names(&filter(&[("exclude.rack", "x")])).len(), 3);
        assert!(names(&filter(&[("require.rack", "x")])).is_empty());
        assert_eq!(names(&filter(&[("enable", "all")])).len(), 3);
    }
}
