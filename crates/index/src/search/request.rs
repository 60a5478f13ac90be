//! A search request: the JSON body, and what it says.

use std::sync::OnceLock;

use plimsoll_stdx::units;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::highlight::HighlightSpec;
use super::options::{flag, float, token, whole};
use super::rescore::Rescore;
use super::script_field::ScriptSpec;
use super::sort::{self, SortBy, SortClause};
use super::source::SourceFilter;
use crate::aggregation::Aggregations;
use crate::error::Error;
use crate::query::ast::Query;
use crate::query::parse::{self, as_text};
use crate::query::problem::{Parsed, Problem};

/// The most that `from + size` may be (`index.max_result_window`), by default.
pub const RESULT_WINDOW_MAX: usize = 10_000;

/// How far hits are counted where a request does not say.
pub const TRACK_TOTAL_DEFAULT: u64 = 10_000;

/// Fields that one request may ask for (`index.max_docvalue_fields_search`).
const FIELDS_MAX: usize = 100;

/// How far hits are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackTotal {
    /// Not at all; the answer has no total.
    No,
    /// All.
    Exact,
    /// Up to this many; where there are more, the answer says "at least".
    UpTo(u64),
}

/// A field that is shown, and how.
#[derive(Clone, Debug)]
pub(crate) struct ShownField {
    pub pattern: String,
    pub format: Option<String>,
}

/// A search request. It is serialised as its JSON body.
#[derive(Clone, Debug)]
pub struct SearchRequest {
    body: Value,
    text: OnceLock<String>,
    pub(crate) query: Option<Query>,
    pub(crate) post_filter: Option<Query>,
    pub(crate) from: usize,
    pub(crate) size: usize,
    pub(crate) sort: Vec<SortClause>,
    pub(crate) search_after: Option<Vec<Value>>,
    pub(crate) source: Option<SourceFilter>,
    pub(crate) track_total: TrackTotal,
    pub(crate) track_scores: bool,
    pub(crate) min_score: Option<f32>,
    pub(crate) terminate_after: u64,
    pub(crate) collapse: Option<String>,
    pub(crate) rescore: Vec<Rescore>,
    pub(crate) highlight: Option<HighlightSpec>,
    pub(crate) fields: Vec<ShownField>,
    pub(crate) docvalue_fields: Vec<ShownField>,
    pub(crate) stored_fields: Option<Vec<String>>,
    pub(crate) script_fields: Vec<ScriptSpec>,
    pub(crate) explain: bool,
    pub(crate) version: bool,
    pub(crate) seq_no_primary_term: bool,
    pub(crate) aggregations: Option<Aggregations>,
    /// `timeout` in milliseconds, where there is one.
    pub(crate) timeout_ms: Option<u64>,
    window_max: usize,
}

impl Serialize for SearchRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.text(), self.window_max as u64).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SearchRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let (text, window) = <(String, u64)>::deserialize(deserializer)?;
        let body: Value = serde_json::from_str(&text).map_err(D::Error::custom)?;
        let mut request = Self::parse(&body).map_err(D::Error::custom)?;
        request.window_max = usize::try_from(window).unwrap_or(RESULT_WINDOW_MAX);
        Ok(request)
    }
}

impl SearchRequest {
    /// A request of a body that is known as a tree only.
    ///
    /// # Errors
    /// Elasticsearch's; positions are those in the JSON written compactly.
    pub fn parse(body: &Value) -> Result<Self, Error> {
        Self::read(body).map_err(|problem| problem.locate(body, &body.to_string()))
    }

    /// A request of a body and the text that it was read from, so that errors have the positions
    /// that the client knows.
    ///
    /// # Errors
    /// Elasticsearch's.
    pub fn parse_text(text: &str, body: &Value) -> Result<Self, Error> {
        Self::read(body).map_err(|problem| problem.locate(body, text))
    }

    /// The request with one key of its body replaced, as a URI parameter does.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn with(&self, key: &str, value: Value) -> Result<Self, Error> {
        let mut body = match &self.body {
            Value::Object(map) => map.clone(),
            _ => Map::new(),
        };
        body.insert(key.to_owned(), value);
        let mut request = Self::parse(&Value::Object(body))?;
        request.window_max = self.window_max;
        Ok(request)
    }

    /// The value of `sort` in a body that means what the URI parameter `sort=a:desc,_score` does.
    #[must_use]
    pub fn sort_of_uri(text: &str) -> Value {
        SortClause::of_uri(text).unwrap_or(Value::Null)
    }

    /// Sets the most that `from + size` may be (`index.max_result_window`).
    pub fn set_window_max(&mut self, window_max: usize) {
        self.window_max = window_max;
    }

    /// The body as compact JSON, which is made once.
    #[must_use]
    pub fn text(&self) -> &str {
        self.text.get_or_init(|| self.body.to_string())
    }

    /// The body.
    #[must_use]
    pub const fn body(&self) -> &Value {
        &self.body
    }

    /// The hits that are skipped.
    #[must_use]
    pub const fn from(&self) -> usize {
        self.from
    }

    /// The hits that are wanted, by default 10.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// How many matches of a partition are collected at most; all where it is 0.
    #[must_use]
    pub const fn terminate_after(&self) -> u64 {
        self.terminate_after
    }

    /// How far hits are counted.
    #[must_use]
    pub const fn track_total(&self) -> TrackTotal {
        self.track_total
    }

    /// The time after which the search tells what it has, in milliseconds.
    #[must_use]
    pub const fn timeout_ms(&self) -> Option<u64> {
        self.timeout_ms
    }

    /// The query; none: everything.
    #[must_use]
    pub const fn query(&self) -> Option<&Query> {
        self.query.as_ref()
    }

    /// The aggregations.
    #[must_use]
    pub const fn aggregations(&self) -> Option<&Aggregations> {
        self.aggregations.as_ref()
    }

    /// Whether hits are in the order of their scores.
    pub(crate) fn is_by_score(&self) -> bool {
        match self.sort.as_slice() {
            [] => true,
            [only] => matches!(only.by, SortBy::Score) && only.descending,
            _ => false,
        }
    }

    /// Whether hits have scores.
    pub(crate) fn has_scores(&self) -> bool {
        self.track_scores
            || self.sort.is_empty()
            || self.sort.iter().any(|clause| matches!(clause.by, SortBy::Score))
    }

    /// The hits that a partition finds: those that are skipped, and those that are wanted.
    ///
    /// # Errors
    /// 400 where that is more than `index.max_result_window`.
    pub fn window(&self) -> Result<usize, Error> {
        let window = self.from.saturating_add(self.size);
        if window > self.window_max {
            let limit = self.window_max;
            return Err(Error::illegal_argument(format!(
                "Result window is too large, from + size must be less than or equal to: [{limit}] but was [{window}]. See the scroll api for a more efficient way to request large data sets. This limit can be set by changing the [index.max_result_window] index level setting."
            )));
        }
        Ok(window)
    }

    fn empty(body: &Value) -> Self {
        Self {
            body: body.clone(),
            text: OnceLock::new(),
            query: None,
            post_filter: None,
            from: 0,
            size: 10,
            sort: Vec::new(),
            search_after: None,
            source: None,
            track_total: TrackTotal::UpTo(TRACK_TOTAL_DEFAULT),
            track_scores: false,
            min_score: None,
            terminate_after: 0,
            collapse: None,
            rescore: Vec::new(),
            highlight: None,
            fields: Vec::new(),
            docvalue_fields: Vec::new(),
            stored_fields: None,
            script_fields: Vec::new(),
            explain: false,
            version: false,
            seq_no_primary_term: false,
            aggregations: None,
            timeout_ms: None,
            window_max: RESULT_WINDOW_MAX,
        }
    }

    fn read(body: &Value) -> Parsed<Self> {
        let mut request = Self::empty(body);
        let map = match body {
            Value::Object(map) => map,
            Value::Null => return Ok(request),
            _ => {
                let reason = format!("Expected [START_OBJECT] but found [{}]", token(body));
                return Err(Problem::parsing(body, reason));
            }
        };
        for (key, value) in map {
            if !request.read_key(key, value)? && !request.read_shown(key, value)? {
                let token = token(value);
                let reason = format!("Unknown key for a {token} in [{key}].");
                return Err(Problem::parsing(value, reason));
            }
        }
        request.check()?;
        Ok(request)
    }

    /// Reads a key that says which documents are found; whether it was one.
    fn read_key(&mut self, key: &str, value: &Value) -> Parsed<bool> {
        match key {
            "query" => {
                self.query = if value.is_null() { None } else { Some(parse::query(value, 0)?) };
            }
            "post_filter" => self.post_filter = Some(parse::query(value, 0)?),
            "from" => self.from = whole(key, value)?,
            "size" => self.size = whole(key, value)?,
            "sort" => self.sort = sort::parse(value)?,
            "search_after" => {
                let Value::Array(values) = value else {
                    let reason = "Expected [VALUE_STRING, VALUE_NUMBER, …] inside search_after.";
                    return Err(Problem::parsing(value, reason));
                };
                if values.is_empty() {
                    return Err(Problem::illegal("Values must contains at least one value."));
                }
                self.search_after = Some(values.clone());
            }
            "track_total_hits" => self.track_total = track_total(value)?,
            "track_scores" => self.track_scores = flag(key, value)?,
            "min_score" => self.min_score = Some(float(key, value)?),
            "terminate_after" => self.terminate_after = whole(key, value)? as u64,
            "timeout" => self.timeout_ms = duration_ms(value)?,
            "collapse" => {
                let field = value.get("field").and_then(Value::as_str);
                let field = field
                    .ok_or_else(|| Problem::parsing(value, "[collapse] requires a [field]"))?;
                if value.get("inner_hits").is_some() {
                    return Err(Problem::illegal("[collapse] inner_hits are not supported"));
                }
                self.collapse = Some(field.to_owned());
            }
            "rescore" => self.rescore = Rescore::parse(value)?,
            "aggs" | "aggregations" => {
                self.aggregations = Some(Aggregations::parse(value)?);
            }
            "indices_boost"
            | "profile"
            | "stats"
            | "ext"
            | "pit"
            | "point_in_time"
            | "include_named_queries_score"
            | "request_cache" => {}
            "slice" => {
                let max = value.get("max").and_then(Value::as_u64).unwrap_or(1);
                if max > 1 {
                    return Err(Problem::illegal("[slice] is not supported"));
                }
            }
            "suggest" | "runtime_mappings" | "derived" | "knn" | "search_pipeline"
            | "retriever" => {
                return Err(Problem::illegal(format!("[{key}] is not supported")));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads a key that says what is shown of a hit; whether it was one.
    fn read_shown(&mut self, key: &str, value: &Value) -> Parsed<bool> {
        match key {
            "_source" => {
                let filter = SourceFilter::parse(value).ok_or_else(|| {
                    let reason = format!(
                        "Expected one of [VALUE_BOOLEAN, START_OBJECT] but found [{}]",
                        token(value)
                    );
                    Problem::parsing(value, reason)
                })?;
                self.source = Some(filter);
            }
            "highlight" => self.highlight = Some(HighlightSpec::parse(value)?),
            "fields" => self.fields = shown_fields(key, value)?,
            "docvalue_fields" => self.docvalue_fields = shown_fields(key, value)?,
            "stored_fields" => {
                self.stored_fields = Some(match value {
                    Value::Array(items) => items.iter().map(as_text).collect(),
                    other => vec![as_text(other)],
                });
            }
            "script_fields" => {
                let Value::Object(map) = value else {
                    return Err(Problem::parsing(value, "[script_fields] must be an object"));
                };
                self.script_fields = ScriptSpec::parse_all(map)?;
            }
            "explain" => self.explain = flag(key, value)?,
            "version" => self.version = flag(key, value)?,
            "seq_no_primary_term" => self.seq_no_primary_term = flag(key, value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn check(&self) -> Parsed<()> {
        if let Some(after) = &self.search_after {
            if self.from > 0 {
                let reason = "`from` parameter must be set to 0 when `search_after` is used.";
                return Err(Problem::illegal(reason));
            }
            let clauses = self.sort.len().max(1);
            if self.sort.is_empty() {
                let reason = "Sort must contain at least one field.";
                return Err(Problem::illegal(reason));
            }
            if after.len() != clauses {
                return Err(Problem::illegal(format!(
                    "search_after has {} value(s) but sort has {clauses}.",
                    after.len()
                )));
            }
        }
        if !self.rescore.is_empty() && !self.is_by_score() {
            return Err(Problem::illegal(
                "Cannot use [sort] option in conjunction with [rescore].",
            ));
        }
        if self.collapse.is_some() && !self.rescore.is_empty() {
            return Err(Problem::illegal("cannot use `collapse` in conjunction with `rescore`"));
        }
        Ok(())
    }
}

fn track_total(value: &Value) -> Parsed<TrackTotal> {
    let text = as_text(value);
    match text.as_str() {
        "true" => return Ok(TrackTotal::Exact),
        "false" => return Ok(TrackTotal::No),
        _ => {}
    }
    match text.parse::<i64>() {
        Ok(-1) => Ok(TrackTotal::No),
        Ok(limit) => u64::try_from(limit).map(TrackTotal::UpTo).map_err(|_| {
            Problem::illegal(format!(
                "[track_total_hits] parameter must be positive or equals to -1, got {limit}"
            ))
        }),
        Err(_) => {
            Err(Problem::illegal(format!("Failed to parse value [{text}] for [track_total_hits]")))
        }
    }
}

/// A duration such as `10s`; -1 is none.
fn duration_ms(value: &Value) -> Parsed<Option<u64>> {
    let text = as_text(value);
    if text == "-1" || value.is_null() {
        return Ok(None);
    }
    let time = units::duration(&text).map_err(|_| Error::no_duration("timeout", &text))?;
    Ok(Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
}

fn shown_fields(key: &str, value: &Value) -> Parsed<Vec<ShownField>> {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        other => std::slice::from_ref(other),
    };
    if items.len() > FIELDS_MAX {
        return Err(Problem::illegal(format!(
            "Trying to retrieve too many {key}. Must be less than or equal to: [{FIELDS_MAX}] but was [{}].",
            items.len()
        )));
    }
    items
        .iter()
        .map(|item| match item {
            Value::String(pattern) => Ok(ShownField { pattern: pattern.clone(), format: None }),
            Value::Object(map) => {
                let pattern = map
                    .get("field")
                    .and_then(Value::as_str)
                    .ok_or_else(|| Problem::parsing(item, format!("[{key}] requires a [field]")))?;
                let format = map.get("format").and_then(Value::as_str).map(str::to_owned);
                Ok(ShownField { pattern: pattern.to_owned(), format })
            }
            _ => Err(Problem::parsing(item, format!("[{key}] must be strings or objects"))),
        })
        .collect()
}
