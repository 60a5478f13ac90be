//! A route: a path, the methods that it takes, its parameters, and who answers. Which there are is
//! [`super::routes`]' to say.

use axum::http::Method;
use futures_util::future::BoxFuture;
use plimsoll_index::Error;

use super::answer::Answer;
use super::call::Call;
use super::needs::Needs;

/// A method as routes know it. HEAD is answered by GET, without the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// POST
    Post,
    /// GET
    Get,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// HEAD, where it is not GET without a body
    Head,
}

impl Verb {
    /// As it stands in a request.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Head => "HEAD",
        }
    }
}

/// What answers a request.
pub type Handler = fn(Call) -> BoxFuture<'static, Result<Answer, Error>>;

/// A path, the methods that it takes, and who answers.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The methods.
    pub verbs: &'static [Verb],
    /// Words between slashes; `{name}` stands for one of any kind.
    pub path: &'static str,
    /// The names of its parameters, in groups, beside those that every request may have.
    pub parameters: &'static [&'static [&'static str]],
    /// What whoever asks has to be allowed.
    pub needs: Needs,
    /// Who answers.
    pub handler: Handler,
}

/// Where routes begin that tell of the node and its cluster, whatever becomes of the log.
pub(super) const OF_NODES: [&str; 6] =
    ["/_cluster", "/_cat", "/_nodes", "/_plimsoll", "/_tasks", "/_security"];

impl Route {
    /// Whether it asks which tables there are.
    #[must_use]
    pub fn is_of_tables(&self) -> bool {
        self.path != "/" && !OF_NODES.iter().any(|of_nodes| self.path.starts_with(of_nodes))
    }
}

/// Makes a row of a table of routes.
#[must_use]
pub const fn route(
    verbs: &'static [Verb],
    path: &'static str,
    parameters: &'static [&'static [&'static str]],
    needs: Needs,
    handler: Handler,
) -> Route {
    Route { verbs, path, parameters, needs, handler }
}

/// What every request may have.
pub(super) const GENERAL: &[&str] =
    &["pretty", "human", "error_trace", "filter_path", "format", "source", "source_content_type"];

/// The words of paths whose POST changes nothing: it is there for those who cannot send a body
/// with GET.
pub(super) const READS: &[&str] = &[
    "_analyze",
    "_count",
    "_explain",
    "_field_caps",
    "_has_privileges",
    "_mget",
    "_msearch",
    "_mtermvectors",
    "_rank_eval",
    "_search",
    "_search_shards",
    "_termvectors",
    "_validate",
];

/// How long a request may wait for the cluster. There is nothing to wait for that long: they are
/// accepted and do nothing.
pub const WAITS: &[&str] =
    &["timeout", "master_timeout", "cluster_manager_timeout", "wait_for_active_shards"];

/// How an index expression is understood.
pub const INDICES: &[&str] =
    &["ignore_unavailable", "allow_no_indices", "expand_wildcards", "ignore_throttled"];

impl Route {
    /// Whether requests with this method change nothing, whatever they say.
    #[must_use]
    pub fn only_reads(&self, method: &Method) -> bool {
        matches!(*method, Method::GET | Method::HEAD)
            || (*method == Method::POST && self.path.split('/').any(|word| READS.contains(&word)))
    }

    /// Checks that every parameter is one that the route has.
    ///
    /// # Errors
    /// 400, naming the first that it has not.
    pub fn check_parameters<'a>(
        &self,
        path: &str,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<(), Error> {
        let known = |name: &str| {
            GENERAL.contains(&name) || self.parameters.iter().any(|group| group.contains(&name))
        };
        let mut unknown: Vec<&str> = names.filter(|name| !known(name)).collect();
        unknown.sort_unstable();
        unknown.dedup();
        if unknown.is_empty() {
            return Ok(());
        }
        let shown: Vec<String> = unknown.iter().map(|name| self.shown(name)).collect();
        let plural = if unknown.len() > 1 { "parameters" } else { "parameter" };
        let shown = shown.join(", ");
        Err(Error::illegal_argument(format!(
            "request [{path}] contains unrecognized {plural}: {shown}"
        )))
    }

    /// A name that is not known, with the one that may have been meant.
    fn shown(&self, name: &str) -> String {
        let known = GENERAL.iter().chain(self.parameters.iter().copied().flatten());
        let nearest = known
            .map(|known| (strsim::jaro_winkler(name, known), known))
            .filter(|(likeness, _)| *likeness > 0.9)
            .max_by(|a, b| a.0.total_cmp(&b.0));
        match nearest {
            Some((_, known)) => format!("[{name}] -> did you mean [{known}]?"),
            None => format!("[{name}]"),
        }
    }
}
