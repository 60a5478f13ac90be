//! What a search asks, put together from its body, the parameters of its URI (or, in a
//! `_msearch`, its header) and the indices that its expression means.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_cluster::{ContextId, Coordinator, IndexMetadata, Preference, SearchOptions};
use plimsoll_index::Error;
use plimsoll_index::search::{RESULT_WINDOW_MAX, SearchRequest};
use serde_json::{Map, Value, json};

use crate::rest::expressions::{self, Expand, Target};
use crate::rest::json_read;
use crate::rest::query::{Query, duration};
use crate::security::principal::Grant;

/// A search that is ready to be carried out.
pub struct Asked {
    /// The indices, in the order of their names.
    pub targets: Vec<Arc<IndexMetadata>>,
    /// What is asked of them.
    pub request: SearchRequest,
    /// How it is carried out.
    pub options: SearchOptions,
    /// `hits.total` is a number.
    pub total_as_int: bool,
}

/// What stands beside the body of a search.
#[derive(Clone, Debug)]
pub struct Around {
    /// The index expression.
    pub index: Option<String>,
    /// How it is understood.
    pub expand: Expand,
    /// Documents of these routings alone.
    pub routing: Vec<String>,
    /// `request_cache`.
    pub request_cache: Option<bool>,
    /// `allow_partial_search_results`.
    pub allow_partial: bool,
    /// How long a scroll is held.
    pub scroll: Option<Duration>,
    /// `typed_keys`.
    pub typed_keys: bool,
    /// `rest_total_hits_as_int`.
    pub total_as_int: bool,
    /// `search_type`.
    pub search_type: Option<String>,
    /// `preference`.
    pub preference: Preference,
}

impl Around {
    /// As the parameters of a request say it.
    ///
    /// # Errors
    /// 400 for one that is not what it should be.
    pub fn of_query(index: Option<&str>, query: &Query) -> Result<Self, Error> {
        if query.get("search_pipeline").is_some_and(|name| name != "_none") {
            return Err(Error::illegal_argument("[search_pipeline] is not supported"));
        }
        if query.names().any(|name| name.starts_with("suggest_")) {
            return Err(Error::illegal_argument("[suggest] is not supported"));
        }
        Ok(Self {
            index: index.map(str::to_owned),
            expand: Expand::search().with_query(query)?,
            routing: query.list("routing").into_iter().map(str::to_owned).collect(),
            request_cache: query.flag("request_cache")?,
            allow_partial: query.flag_or("allow_partial_search_results", true)?,
            scroll: query.duration("scroll")?,
            typed_keys: query.flag_or("typed_keys", false)?,
            total_as_int: query.flag_or("rest_total_hits_as_int", false)?,
            search_type: query.get("search_type").map(str::to_owned),
            preference: preference(query.get("preference"))?,
        })
    }
}

/// Which copies a search asks: those of the node that is asked (`_local`), the same for the same
/// words, or the best.
///
/// # Errors
/// 400 for what would have to choose partitions or nodes.
pub fn preference(text: Option<&str>) -> Result<Preference, Error> {
    match text {
        Some(text) if text.starts_with("_shards") || text.starts_with("_only_nodes") => {
            Err(Error::illegal_argument(format!("[preference] [{text}] is not supported")))
        }
        Some("_local" | "_only_local") => Ok(Preference::Local),
        Some(words) if !words.is_empty() && !words.starts_with('_') => {
            let mut hasher = DefaultHasher::new();
            words.hash(&mut hasher);
            Ok(Preference::Same(hasher.finish()))
        }
        _ => Ok(Preference::Best),
    }
}

/// Reads a body, applies what the URI says on top, and finds the indices.
///
/// # Errors
/// 400 for what is not understood, 404 for an index that is not there.
pub fn asked(
    coordinator: &Coordinator,
    grant: &Grant,
    body: &[u8],
    mut changes: Map<String, Value>,
    around: &Around,
) -> Result<Asked, Error> {
    let mut body_value = read(body)?;
    refuse(&body_value)?;
    let owner = grant.principal().owner();
    let point = take_point(&mut body_value, &owner)?;
    if point.is_some() {
        break_ties(&mut body_value, &mut changes);
    }
    let timeout = timeout(&changes, &body_value)?;
    let mut request = parse(body, &body_value, changes, point.is_some(), around.total_as_int)?;
    check_scroll(around, &request)?;
    // A scroll says how many there are to come, however many.
    if around.scroll.is_some() && request.body().get("track_total_hits").is_none() {
        request = request.with("track_total_hits", json!(true))?;
    }
    let (targets, options) = match point {
        Some(point) => {
            check_point(around)?;
            let options = SearchOptions { context: Some(point), ..SearchOptions::default() };
            (Vec::new(), options)
        }
        None => placed(coordinator, grant, around)?,
    };
    check_search_type(around.search_type.as_deref(), &targets, &mut request)?;
    request.set_window_max(window_max(&targets));
    let options = SearchOptions {
        request_cache: around.request_cache.or_else(|| cache_of(&targets)),
        timeout,
        allow_partial: around.allow_partial,
        scroll: around.scroll,
        owner,
        preference: around.preference,
        typed_keys: around.typed_keys,
        ..options
    };
    Ok(Asked { targets, request, options, total_as_int: around.total_as_int })
}

/// Refuses what a body may say to Elasticsearch and nobody here would heed.
fn refuse(body: &Value) -> Result<(), Error> {
    let is_empty = |value: &Value| match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        other => matches!(other, Value::Null | Value::Bool(false)),
    };
    for key in ["profile", "indices_boost", "ext"] {
        if body.get(key).is_some_and(|value| !is_empty(value)) {
            return Err(Error::illegal_argument(format!("[{key}] is not supported")));
        }
    }
    Ok(())
}

fn read(body: &[u8]) -> Result<Value, Error> {
    if body.trim_ascii().is_empty() { Ok(json!({})) } else { json_read::value(body) }
}

/// Positions in errors are those of the text as it was sent, as long as nothing was changed.
fn parse(
    body: &[u8],
    value: &Value,
    mut changes: Map<String, Value>,
    had_point: bool,
    total_as_int: bool,
) -> Result<SearchRequest, Error> {
    if total_as_int {
        let tracked = changes.get("track_total_hits").or_else(|| value.get("track_total_hits"));
        match tracked {
            None => {
                changes.insert("track_total_hits".to_owned(), json!(true));
            }
            Some(Value::Bool(true)) => (),
            Some(other) if other == "true" => (),
            Some(other) => {
                let shown =
                    if *other == json!(false) { "-1".to_owned() } else { other.to_string() };
                return Err(Error::illegal_argument(format!(
                    "[rest_total_hits_as_int] cannot be used if the tracking of total hits is \
                     not accurate, got {shown}"
                )));
            }
        }
    }
    let text = std::str::from_utf8(body).unwrap_or_default();
    if changes.is_empty() && !had_point && !text.is_empty() {
        return SearchRequest::parse_text(text, value);
    }
    let mut merged = match value {
        Value::Object(map) => map.clone(),
        // What is no object is refused in the parser's words.
        other => return SearchRequest::parse_text(text, other),
    };
    if changes.contains_key("query") {
        merged.remove("query");
    }
    merged.extend(changes);
    SearchRequest::parse(&Value::Object(merged)).map_err(|error| {
        // An error of the body itself is told with the position that the client knows.
        SearchRequest::parse_text(text, value).err().unwrap_or(error)
    })
}

/// The indices of an expression with the filters and routings of its aliases.
///
/// # Errors
/// 403 where an index is not granted, 404 where it is not there, 400 where it is closed.
pub fn placed(
    coordinator: &Coordinator,
    grant: &Grant,
    around: &Around,
) -> Result<(Vec<Arc<IndexMetadata>>, SearchOptions), Error> {
    let found = expressions::resolve(coordinator, grant, around.index.as_deref(), &around.expand)?;
    let routing =
        if around.routing.is_empty() { alias_routing(&found) } else { around.routing.clone() };
    let filters: BTreeMap<String, Value> = found
        .iter()
        .filter_map(|target| Some((target.index.name.clone(), alias_filter(target)?)))
        .collect();
    let targets = found.into_iter().map(|target| target.index).collect();
    Ok((targets, SearchOptions { routing, filters, ..SearchOptions::default() }))
}

/// The routings of aliases, where every index was reached through one that has some.
fn alias_routing(found: &[Target]) -> Vec<String> {
    let mut all = Vec::new();
    for target in found {
        let routing = target.search_routing();
        if routing.is_empty() {
            return Vec::new();
        }
        all.extend(routing.into_iter().map(str::to_owned));
    }
    all.sort_unstable();
    all.dedup();
    all
}

fn alias_filter(target: &Target) -> Option<Value> {
    match target.filters().as_slice() {
        [] => None,
        [one] => Some((*one).clone()),
        several => Some(json!({ "bool": { "should": several, "minimum_should_match": 1 } })),
    }
}

/// The smallest `index.max_result_window` of the indices.
fn window_max(targets: &[Arc<IndexMetadata>]) -> usize {
    let of = |index: &Arc<IndexMetadata>| {
        let value = index.settings.get("index.max_result_window")?;
        match value {
            Value::Number(number) => usize::try_from(number.as_u64()?).ok(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        }
    };
    targets
        .iter()
        .map(|index| of(index).unwrap_or(RESULT_WINDOW_MAX))
        .min()
        .unwrap_or(RESULT_WINDOW_MAX)
}

/// `index.requests.cache.enable: false` of one index keeps the search out of the cache.
fn cache_of(targets: &[Arc<IndexMetadata>]) -> Option<bool> {
    let is_off = |index: &Arc<IndexMetadata>| {
        let value = index.settings.get("index.requests.cache.enable");
        value.is_some_and(|value| *value == json!(false) || *value == json!("false"))
    };
    targets.iter().any(is_off).then_some(false)
}

/// `pit` of a body: the point in time and how long it is held from now on.
fn take_point(
    body: &mut Value,
    owner: &str,
) -> Result<Option<(ContextId, Option<Duration>)>, Error> {
    let Some(object) = body.as_object_mut() else { return Ok(None) };
    let Some(point) = object.remove("pit") else { return Ok(None) };
    let id = point
        .get("id")
        .and_then(Value::as_str)
        .ok_or_else(|| Error::invalid("x_content_parse_exception", "Required [id]"))?;
    let keep_alive = match point.get("keep_alive").and_then(Value::as_str) {
        None => None,
        Some(text) => Some(duration("keep_alive", text)?),
    };
    Ok(Some((ContextId::of(owner, id)?, keep_alive)))
}

/// A search of a point in time that is sorted goes by the number of the document in the end, as in Elasticsearch:
/// what ties is not lost between two pages. Not where it does so anyway, and not where the values that it goes on
/// after are those of its own clauses alone.
fn break_ties(body: &mut Value, changes: &mut Map<String, Value>) {
    const NUMBERS: [&str; 2] = ["_doc", "_shard_doc"];
    let after = body.get("search_after").and_then(Value::as_array).map(Vec::len);
    let sort = changes.get_mut("sort").or_else(|| body.get_mut("sort"));
    let Some(sort) = sort else { return };
    if !sort.is_array() {
        *sort = Value::Array(vec![sort.take()]);
    }
    let Some(items) = sort.as_array_mut() else { return };
    let names = items.iter().flat_map(|item| match item {
        Value::Object(clauses) => clauses.keys().map(String::as_str).collect(),
        item => vec![item.as_str().unwrap_or_default()],
    });
    let (mut clauses, mut is_by_number) = (0, false);
    for name in names {
        clauses += 1;
        is_by_number |= NUMBERS.contains(&name);
    }
    if clauses > 0 && !is_by_number && after.is_none_or(|after| after != clauses) {
        items.push(Value::from("_shard_doc"));
    }
}

fn timeout(changes: &Map<String, Value>, body: &Value) -> Result<Option<Duration>, Error> {
    let given = changes.get("timeout").or_else(|| body.get("timeout")).and_then(Value::as_str);
    match given {
        None | Some("-1") => Ok(None),
        Some(text) => duration("timeout", text).map(Some),
    }
}

fn check_point(around: &Around) -> Result<(), Error> {
    let wrong = if around.index.is_some() {
        "[indices] cannot be used with point in time"
    } else if around.scroll.is_some() {
        "using [point in time] is not allowed in a scroll context"
    } else if !around.routing.is_empty() {
        "[routing] cannot be used with point in time"
    } else {
        return Ok(());
    };
    Err(invalid(wrong))
}

fn check_scroll(around: &Around, request: &SearchRequest) -> Result<(), Error> {
    if around.scroll.is_none() {
        return Ok(());
    }
    let is = |key: &str, value: Value| request.body().get(key) == Some(&value);
    let wrong = if request.from() > 0 {
        "using [from] is not allowed in a scroll context"
    } else if request.size() == 0 {
        "[size] cannot be [0] in a scroll context"
    } else if around.request_cache == Some(true) {
        "[request_cache] cannot be used in a scroll context"
    } else if is("track_total_hits", json!(false)) {
        "disabling [track_total_hits] is not allowed in a scroll context"
    } else {
        return Ok(());
    };
    Err(invalid(wrong))
}

fn invalid(wrong: &str) -> Error {
    let reason = format!("Validation Failed: 1: {wrong};");
    Error::invalid("action_request_validation_exception", reason)
}

/// `dfs_query_then_fetch` would have to count terms over all partitions before it scores; over
/// one partition that is what every search does.
fn check_search_type(
    search_type: Option<&str>,
    targets: &[Arc<IndexMetadata>],
    request: &mut SearchRequest,
) -> Result<(), Error> {
    match search_type {
        None | Some("query_then_fetch") => Ok(()),
        Some("count") => {
            *request = request.with("size", json!(0))?;
            Ok(())
        }
        Some("dfs_query_then_fetch") => {
            let partitions: u32 = targets.iter().map(|index| index.partitions).sum();
            if partitions <= 1 {
                return Ok(());
            }
            Err(Error::illegal_argument(
                "[search_type] [dfs_query_then_fetch] is not supported over more than one shard",
            ))
        }
        Some(other) => Err(Error::illegal_argument(format!("No search type for [{other}]"))),
    }
}

/// What the parameters of a URI change in the body of a search.
///
/// # Errors
/// 400 for one that is not what it should be.
pub fn changes(query: &Query) -> Result<Map<String, Value>, Error> {
    let mut changes = Map::new();
    let mut set = |key: &str, value: Value| changes.insert(key.to_owned(), value);
    for name in ["from", "size", "terminate_after"] {
        if let Some(number) = query.number::<i64>(name)? {
            set(name, json!(number));
        }
    }
    if let Some(score) = query.number::<f32>("min_score")? {
        set("min_score", json!(score));
    }
    for name in ["track_scores", "explain", "version", "seq_no_primary_term"] {
        if let Some(flag) = query.flag(name)? {
            set(name, json!(flag));
        }
    }
    if let Some(text) = query.get("track_total_hits") {
        let is_flag = matches!(text, "" | "true" | "false");
        set("track_total_hits", if is_flag { json!(text != "false") } else { json!(text) });
    }
    if let Some(text) = query.get("timeout") {
        set("timeout", json!(text));
    }
    if let Some(text) = query.get("sort").filter(|text| !text.is_empty()) {
        set("sort", SearchRequest::sort_of_uri(text));
    }
    for name in ["stored_fields", "docvalue_fields"] {
        if query.get(name).is_some() {
            set(name, json!(query.list(name)));
        }
    }
    if let Some(source) = source(query) {
        set("_source", source);
    }
    if let Some(text) = text_query(query)? {
        set("query", text);
    }
    Ok(changes)
}

fn source(query: &Query) -> Option<Value> {
    let (includes, excludes) = (query.list("_source_includes"), query.list("_source_excludes"));
    if !includes.is_empty() || !excludes.is_empty() {
        return Some(json!({ "includes": includes, "excludes": excludes }));
    }
    match query.get("_source")? {
        "" | "true" => Some(json!(true)),
        "false" => Some(json!(false)),
        _ => Some(json!(query.list("_source"))),
    }
}

/// `q` and its like as a query.
///
/// # Errors
/// 400 for one that is not what it should be.
pub fn text_query(query: &Query) -> Result<Option<Value>, Error> {
    let Some(text) = query.get("q") else { return Ok(None) };
    let mut body = Map::new();
    body.insert("query".to_owned(), json!(text));
    for (name, key) in [("df", "default_field"), ("analyzer", "analyzer")] {
        if let Some(value) = query.get(name) {
            body.insert(key.to_owned(), json!(value));
        }
    }
    if let Some(operator) = query.get("default_operator") {
        body.insert("default_operator".to_owned(), json!(operator));
    }
    for name in ["analyze_wildcard", "lenient"] {
        if let Some(flag) = query.flag(name)? {
            body.insert(name.to_owned(), json!(flag));
        }
    }
    Ok(Some(json!({ "query_string": body })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uri_changes_the_body() {
        let query = Query::parse(
            "q=a:b&df=t&default_operator=AND&size=5&_source_includes=x,y&track_total_hits=7\
             &sort=n:desc&timeout=3s&explain&request_cache=false",
        )
        .unwrap();
        let changes = Value::Object(changes(&query).unwrap());
        assert_eq!(changes["size"], 5);
        assert_eq!(changes["query"]["query_string"]["default_field"], "t");
        assert_eq!(changes["_source"]["includes"], json!(["x", "y"]));
        assert_eq!(changes["track_total_hits"], "7");
        assert_eq!((&changes["explain"], &changes["timeout"]), (&json!(true), &json!("3s")));
        assert!(changes.get("request_cache").is_none());
        assert!(super::changes(&Query::parse("size=x").unwrap()).is_err());
    }

    #[test]
    fn totals_as_numbers_are_exact() {
        let parse = |body: &str| {
            let value: Value = serde_json::from_str(body).unwrap();
            super::parse(body.as_bytes(), &value, Map::new(), false, true)
        };
        assert_eq!(parse("{}").unwrap().body()["track_total_hits"], true);
        let reason = parse(r#"{"track_total_hits":100}"#).unwrap_err().reason;
        assert!(reason.ends_with("not accurate, got 100"), "{reason}");
    }

    #[test]
    fn what_is_not_supported_is_refused() {
        assert!(preference(Some("_shards:0")).is_err());
        assert_eq!(preference(Some("_local")), Ok(Preference::Local));
        let same = preference(Some("abc")).unwrap();
        assert!(matches!(same, Preference::Same(_)) && preference(Some("abc")) == Ok(same));
        assert_ne!(preference(Some("abd")), Ok(same));
        assert_eq!(preference(None), Ok(Preference::Best));
        let query = Query::parse("search_pipeline=p").unwrap();
        assert!(Around::of_query(None, &query).unwrap_err().reason.contains("search_pipeline"));
    }
}
