//! Which path and method lead where, and which parameters each takes. The tables stand in the
//! modules that answer; here they are put together and searched.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::http::Method;

use super::call::Parts;
pub use super::route::Route;
use super::route::Verb;
use super::{
    admin, cat, ccr, cluster, documents, nodes, plimsoll, remote, root, search, security, stats,
    tasks,
};

/// Where a request leads.
pub enum Found {
    /// To a route.
    Route(&'static Route, Parts),
    /// The path is known, but not with this method; these are.
    Methods(Vec<Verb>),
    /// The path is not known.
    Nothing,
}

/// Every route.
pub fn all() -> impl Iterator<Item = &'static Route> {
    let tables: [&'static [Route]; 13] = [
        root::ROUTES,
        admin::ROUTES,
        documents::ROUTES,
        search::ROUTES,
        cluster::ROUTES,
        nodes::ROUTES,
        stats::ROUTES,
        tasks::ROUTES,
        cat::ROUTES,
        plimsoll::ROUTES,
        remote::ROUTES,
        ccr::ROUTES,
        security::ROUTES,
    ];
    tables.into_iter().flatten()
}

static TREE: LazyLock<Tree> = LazyLock::new(|| Tree::new(all()));

/// Finds the route of a request; the segments of the path are decoded.
#[must_use]
pub fn find(method: &Method, segments: &[&str]) -> Found {
    match *segments {
        [index, "_doc", api] if TYPED.contains(&api) => TREE.find(method, &[index, api]),
        [index, "_doc", id, api] if TYPED_BY_ID.contains(&api) => {
            TREE.find(method, &[index, api, id])
        }
        _ => TREE.find(method, segments),
    }
}

/// What clients of Elasticsearch 7 ask of `/{index}/_doc`: the same as of the index. These are no
/// ids of documents, as little as there.
const TYPED: [&str; 8] = [
    "_bulk",
    "_mget",
    "_search",
    "_msearch",
    "_count",
    "_mapping",
    "_update_by_query",
    "_delete_by_query",
];
/// What they ask of `/{index}/_doc/{id}`.
const TYPED_BY_ID: [&str; 3] = ["_update", "_source", "_explain"];

#[derive(Default)]
struct Tree {
    nodes: Vec<Branch>,
}

#[derive(Default)]
struct Branch {
    words: HashMap<&'static str, usize>,
    any: Option<usize>,
    routes: Vec<&'static Route>,
}

impl Tree {
    fn new(routes: impl Iterator<Item = &'static Route>) -> Self {
        let mut tree = Self { nodes: vec![Branch::default()] };
        for route in routes {
            let mut at = 0;
            for word in route.path.split('/').filter(|word| !word.is_empty()) {
                let next = tree.nodes.len();
                let branch = &mut tree.nodes[at];
                at = if word.starts_with('{') {
                    *branch.any.get_or_insert(next)
                } else {
                    *branch.words.entry(word).or_insert(next)
                };
                if at == next {
                    tree.nodes.push(Branch::default());
                }
            }
            let taken = tree.nodes[at]
                .routes
                .iter()
                .find(|known| known.verbs.iter().any(|verb| route.verbs.contains(verb)));
            assert!(taken.is_none(), "two routes answer {}", route.path);
            tree.nodes[at].routes.push(route);
        }
        tree
    }

    /// The path with the most words of its own decides, as in Elasticsearch: `DELETE /_bulk` is
    /// a wrong method and not the deletion of an index of that name.
    fn find(&self, method: &Method, segments: &[&str]) -> Found {
        let mut matches = Vec::new();
        self.walk(0, segments, &mut matches);
        let Some(at) = matches.into_iter().find(|at| !self.nodes[*at].routes.is_empty()) else {
            return Found::Nothing;
        };
        let routes = &self.nodes[at].routes;
        // What says HEAD itself comes before GET.
        let is_head = *method == Method::HEAD;
        for name in [method.as_str(), if is_head { "GET" } else { method.as_str() }] {
            let answers = |route: &&&Route| route.verbs.iter().any(|verb| verb.name() == name);
            if let Some(route) = routes.iter().find(answers) {
                return Found::Route(route, parts(route, segments));
            }
        }
        let mut verbs: Vec<Verb> = routes.iter().flat_map(|route| route.verbs).copied().collect();
        verbs.sort_unstable();
        verbs.dedup();
        Found::Methods(verbs)
    }

    /// Collects where a path may lead, words before `{names}`.
    fn walk(&self, at: usize, segments: &[&str], matches: &mut Vec<usize>) {
        let branch = &self.nodes[at];
        let Some((first, rest)) = segments.split_first() else {
            matches.push(at);
            return;
        };
        for next in branch.words.get(first).into_iter().chain(&branch.any) {
            self.walk(*next, rest, matches);
        }
    }
}

fn parts(route: &Route, segments: &[&str]) -> Parts {
    let words = route.path.split('/').filter(|word| !word.is_empty());
    let names = words.zip(segments).filter_map(|(word, segment)| {
        let name = word.strip_prefix('{')?.strip_suffix('}')?;
        Some((name, (*segment).to_owned()))
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::route::READS;

    fn lead(method: &Method, path: &str) -> String {
        let segments: Vec<&str> = path.split('/').filter(|word| !word.is_empty()).collect();
        match find(method, &segments) {
            Found::Route(route, parts) => format!("{} {parts:?}", route.path),
            Found::Methods(verbs) => {
                verbs.into_iter().map(Verb::name).collect::<Vec<_>>().join(",")
            }
            Found::Nothing => "nothing".to_owned(),
        }
    }

    #[test]
    fn paths_lead_to_their_routes() {
        assert_eq!(lead(&Method::GET, "/"), "/ []");
        assert_eq!(lead(&Method::HEAD, "/g/"), r#"/{index} [("index", "g")]"#);
        assert_eq!(lead(&Method::PUT, "/_bulk"), "/_bulk []");
        assert_eq!(lead(&Method::GET, "/_bulk"), "POST,PUT");
        assert_eq!(lead(&Method::POST, "/g/_bogus"), "nothing");
        assert_eq!(
            lead(&Method::PUT, "/g/_doc/a b"),
            r#"/{index}/_doc/{id} [("index", "g"), ("id", "a b")]"#
        );
    }

    #[test]
    fn requests_that_change_something_are_known() {
        let reading: Vec<&str> = all()
            .filter(|route| route.verbs.contains(&Verb::Post) && route.only_reads(&Method::POST))
            .map(|route| route.path.rsplit('/').find(|word| !word.starts_with('{')).unwrap_or(""))
            .collect();
        for word in &reading {
            let is_read = ["scroll", "point_in_time", "query", "template"].contains(word)
                || READS.contains(word);
            assert!(is_read, "{word}");
        }
        for word in ["_search", "_count", "_msearch", "_mget", "scroll", "_analyze"] {
            assert!(reading.contains(&word), "{word}: {reading:?}");
        }
        for word in ["_bulk", "_delete_by_query", "_doc", "_aliases", "_reindex", "settings"] {
            assert!(!reading.contains(&word), "{word}");
        }
    }

    #[test]
    fn parameters_are_those_of_the_route() {
        let Found::Route(route, _) = find(&Method::POST, &["g", "_doc", "_bulk"]) else { panic!() };
        assert_eq!(route.path, "/{index}/_bulk");
        let path = ["g", "_doc", "9", "_update"];
        let Found::Route(route, parts) = find(&Method::POST, &path) else { panic!() };
        assert_eq!(route.path, "/{index}/_update/{id}");
        assert_eq!(parts, [("index", "g".to_owned()), ("id", "9".to_owned())]);
        let Found::Route(route, _) = find(&Method::PUT, &["g", "_doc", "9"]) else { panic!() };
        assert!(route.check_parameters("/g/_doc/9", ["refresh", "pretty"].into_iter()).is_ok());
        let refused = route.check_parameters("/g/_doc/9", ["bogus"].into_iter()).unwrap_err();
        assert_eq!(refused.reason, "request [/g/_doc/9] contains unrecognized parameter: [bogus]");
        let refused = route.check_parameters("/", ["refesh"].into_iter()).unwrap_err();
        assert!(refused.reason.ends_with("[refesh] -> did you mean [refresh]?"));
    }
}
