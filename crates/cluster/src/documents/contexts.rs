//! Search contexts: views that are held between requests, for scroll and for a point in time.
//! Each is let go when nobody asks for it in time; there is a limit to how many there are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::Time;
use plimsoll_base::time::Instant;
use plimsoll_index::Error;
use plimsoll_index::search::SearchRequest;
use serde_json::Value;

use super::options::{ContextId, Last};
use super::parts::Part;

/// The most contexts at once. Elasticsearch's `search.max_open_scroll_context`.
const CONTEXTS_MAX: usize = 500;
/// The longest time that one may be held between two requests. Elasticsearch's.
const KEEP_ALIVE_MAX: Duration = Duration::from_secs(24 * 3600);

/// What a context holds.
pub(crate) struct Context {
    pub parts: Arc<Vec<Part>>,
    /// What a scroll goes on with; `None` for a point in time.
    pub scroll: Option<Scroll>,
    pub created_ms: u64,
    keep_alive: Duration,
    expires: Instant,
}

/// A context that somebody came back to.
pub(crate) struct Open {
    pub parts: Arc<Vec<Part>>,
    pub scroll: Option<Scroll>,
    /// How long it is held from now on.
    pub keep_alive: Duration,
}

/// Where a scroll is.
#[derive(Clone)]
pub(crate) struct Scroll {
    pub request: Arc<SearchRequest>,
    /// Those of [`super::SearchOptions`].
    pub filters: BTreeMap<String, Value>,
    pub last: Last,
    pub total: Option<(u64, bool)>,
}

/// The contexts of a node.
pub(crate) struct Contexts {
    time: Time,
    open: Mutex<BTreeMap<ContextId, Context>>,
}

impl Contexts {
    pub(super) fn new(time: &Time) -> Self {
        Self { time: time.clone(), open: Mutex::default() }
    }

    /// Holds a new context.
    pub(crate) fn add(
        &self,
        parts: Arc<Vec<Part>>,
        scroll: Option<Scroll>,
        keep_alive: Duration,
        owner: &str,
    ) -> Result<ContextId, Error> {
        check(keep_alive)?;
        let mut open = self.open.lock();
        if open.len() >= CONTEXTS_MAX {
            let reason = format!(
                "Trying to create too many scroll contexts. Must be less than or equal to: \
                 [{CONTEXTS_MAX}]. This limit can be set by changing the \
                 [search.max_open_scroll_context] setting."
            );
            return Err(Error::overloaded("rejected_execution_exception", reason));
        }
        let id = ContextId::new(owner);
        let expires = self.time.now() + keep_alive;
        let created_ms = self.time.wall_ms();
        open.insert(id.clone(), Context { parts, scroll, created_ms, keep_alive, expires });
        Ok(id)
    }

    /// A context, whose time begins anew.
    pub(crate) fn get(&self, id: &ContextId, keep_alive: Option<Duration>) -> Result<Open, Error> {
        keep_alive.map_or(Ok(()), check)?;
        let mut open = self.open.lock();
        let context = open.get_mut(id).ok_or_else(|| missing(id))?;
        context.keep_alive = keep_alive.unwrap_or(context.keep_alive);
        context.expires = self.time.now() + context.keep_alive;
        let Context { parts, scroll, keep_alive, .. } = context;
        Ok(Open { parts: Arc::clone(parts), scroll: scroll.clone(), keep_alive: *keep_alive })
    }

    /// A scroll has gone on.
    pub(crate) fn moved(&self, id: &ContextId, last: Last) {
        if let Some(scroll) = self.open.lock().get_mut(id).and_then(|it| it.scroll.as_mut()) {
            scroll.last = last;
        }
    }

    pub(crate) fn remove(&self, id: &ContextId) -> bool {
        // Outside the lock: other nodes are told to let go of their views.
        let removed = self.open.lock().remove(id);
        removed.is_some()
    }

    /// Name, creation and keep-alive of each point in time (or scroll).
    pub(crate) fn list(&self, scrolls: bool) -> Vec<(ContextId, u64, Duration)> {
        let open = self.open.lock();
        let wanted = open.iter().filter(|(_, context)| context.scroll.is_some() == scrolls);
        wanted.map(|(id, context)| (id.clone(), context.created_ms, context.keep_alive)).collect()
    }

    /// Lets go of those whose time is over.
    pub(crate) fn expire(&self) {
        let now = self.time.now();
        let expired: Vec<Context> = {
            let mut open = self.open.lock();
            let is_over = |(_, context): &(&ContextId, &Context)| context.expires <= now;
            let ids: Vec<ContextId> =
                open.iter().filter(is_over).map(|(id, _)| id.clone()).collect();
            ids.iter().filter_map(|id| open.remove(id)).collect()
        };
        drop(expired);
    }
}

fn check(keep_alive: Duration) -> Result<(), Error> {
    if keep_alive <= KEEP_ALIVE_MAX {
        return Ok(());
    }
    let reason = format!(
        "Keep alive for request ({}) is too large. It must be less than (1d). This limit can be \
         set by changing the [search.max_keep_alive] cluster level setting.",
        shown(keep_alive)
    );
    Err(Error::illegal_argument(reason))
}

fn shown(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        s if s % 86_400 == 0 => format!("{}d", s / 86_400),
        s if s % 3_600 == 0 => format!("{}h", s / 3_600),
        s if s % 60 == 0 => format!("{}m", s / 60),
        s => format!("{s}s"),
    }
}

/// 404: nobody holds this context any more.
pub(crate) fn missing(id: &ContextId) -> Error {
    let reason = format!("No search context found for id [{id}]");
    let cause = Error::not_found("search_context_missing_exception", reason);
    Error::not_found("search_phase_execution_exception", "all shards failed")
        .with("phase", "query")
        .with("grouped", true)
        .with(
            "failed_shards",
            serde_json::json!([{
                "shard": -1, "index": null, "reason": cause.cause_json()
            }]),
        )
        .rooted_in(cause.clone())
        .caused_by(cause)
}
