//! The fetch phase: what is shown of each hit.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tantivy::columnar::StrColumn;
use tantivy::query::EnableScoring;
use tantivy::schema::Value as _;
use tantivy::{DocAddress, DocSet as _, TantivyDocument};

use super::failure::internal;
use super::highlight::Highlighter;
use super::named::Named;
use super::request::{SearchRequest, ShownField};
use super::result::{Hit, SortValue, score_json};
use super::script_field::ScriptField;
use super::sort::SortBy;
use super::source::SourceFilter;
use super::values;
use crate::aggregation::Memory;
use crate::error::Error;
use crate::json::{self, Unread};
use crate::mapping::IGNORED;
use crate::mapping::date::{DateFormat, Moment, Zone};
use crate::partition::{Kind, View};
use crate::query::Context;
use crate::query::exec::run::Cancelled;

/// About how many bytes a value takes for each byte of its JSON, at most: a digit and a comma are one.
const KEPT_TIMES: u64 = size_of::<Value>() as u64 / 2;

/// What a row gives to the answer.
#[derive(Clone, Debug)]
pub struct FetchedRow {
    /// The document, byte for byte.
    pub source: Bytes,
    /// `_version`
    pub version: u64,
    /// `_seq_no`
    pub seq_no: u64,
}

/// Gives the row of a hash key and an id.
pub type RowOf<'a> = &'a dyn Fn(&[u8], &str) -> Result<Option<FetchedRow>, Error>;

/// Renders hits: one JSON object each, in the order given. The source of a document that is shown
/// whole is shown byte for byte.
///
/// `rows` gives the row of a hash key and an id as of the view; a hit whose row is not there, because
/// it has expired since, is `None`.
///
/// Sources of which parts are shown are read as values, for whose bytes `memory` is asked. `cancelled`
/// is asked before each hit.
///
/// # Errors
/// Those of `rows`, of the index's files and of `memory`, and 400 where what is to be shown does not fit the
/// mapping, or it was cancelled.
pub fn fetch_phase(
    view: &View,
    request: &SearchRequest,
    index_name: &str,
    hits: &[Hit],
    rows: RowOf<'_>,
    memory: &dyn Memory,
    cancelled: &Cancelled,
) -> Result<Vec<Option<Box<RawValue>>>, Error> {
    let context = Context::new(view, 0, cancelled);
    let named = Named::new(&context, request, hits)?;
    let mut fetcher = Fetcher::new(context, request, index_name, named, memory)?;
    let mut fetched = vec![None; hits.len()];
    // What is opened for a segment serves all of its hits.
    let mut order: Vec<usize> = (0..hits.len()).collect();
    order.sort_unstable_by_key(|at| hits[*at].address);
    for at in order {
        if fetcher.context.run().is_over() {
            break;
        }
        fetched[at] = fetcher.hit(&hits[at], rows)?;
    }
    fetcher.context.check()?;
    Ok(fetched)
}

/// What is the same for all hits of one request.
struct Fetcher<'a> {
    view: &'a View,
    request: &'a SearchRequest,
    index_name: &'a str,
    source: SourceFilter,
    shows_metadata: bool,
    highlighter: Option<Highlighter>,
    fields: Vec<(String, Option<DateFormat>)>,
    docvalue_fields: Vec<(String, Option<DateFormat>)>,
    named: Named<'a>,
    scripts: Vec<ScriptField<'a>>,
    /// The columns of `_ignored` of the segments that hits were shown of.
    ignored: RefCell<BTreeMap<u32, Option<StrColumn>>>,
    context: Context<'a>,
    memory: &'a dyn Memory,
}

impl<'a> Fetcher<'a> {
    fn new(
        context: Context<'a>,
        request: &'a SearchRequest,
        index_name: &'a str,
        named: Named<'a>,
        memory: &'a dyn Memory,
    ) -> Result<Self, Error> {
        let view = context.view;
        let highlighter = match &request.highlight {
            Some(spec) => Some(Highlighter::new(&context, spec, request.query())?),
            None => None,
        };
        let scripts = request
            .script_fields
            .iter()
            .map(|spec| ScriptField::new(&context, spec))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            view,
            request,
            index_name,
            source: source_filter(view, request),
            shows_metadata: request
                .stored_fields
                .as_ref()
                .is_none_or(|fields| !fields.iter().any(|field| field == "_none_")),
            highlighter,
            fields: expand(view, &request.fields)?,
            docvalue_fields: expand(view, &request.docvalue_fields)?,
            named,
            scripts,
            ignored: RefCell::default(),
            context,
            memory,
        })
    }

    fn hit(&mut self, hit: &Hit, rows: RowOf<'_>) -> Result<Option<Box<RawValue>>, Error> {
        let (id, key) = identity(self.view, hit.address)?;
        let Some(row) = rows(key.as_deref().unwrap_or(id.as_bytes()), &id)? else {
            return Ok(None);
        };
        let mut head = Map::new();
        if self.request.explain {
            head.insert("_shard".to_owned(), json!(format!("[{}][0]", self.index_name)));
        }
        head.insert("_index".to_owned(), json!(self.index_name));
        if self.shows_metadata {
            head.insert("_id".to_owned(), json!(id));
        }
        if self.request.version {
            head.insert("_version".to_owned(), json!(row.version));
        }
        if self.request.seq_no_primary_term {
            head.insert("_seq_no".to_owned(), json!(row.seq_no));
            head.insert("_primary_term".to_owned(), json!(1));
        }
        head.insert("_score".to_owned(), hit.score.map_or(Value::Null, score_json));
        if let (Some(key), true) = (&key, self.shows_metadata) {
            head.insert("_routing".to_owned(), json!(String::from_utf8_lossy(key)));
        }
        let ignored = if self.shows_metadata { self.ignored(hit.address)? } else { Vec::new() };
        if !ignored.is_empty() {
            head.insert("_ignored".to_owned(), Value::from(ignored));
        }
        let read = self.read(&row)?;
        let tail = self.tail(hit, read.as_ref().unwrap_or(&Value::Null))?;
        let shown =
            if self.source.enabled { self.shown_source(&row, read.as_ref())? } else { None };
        assemble(&head, shown.as_deref(), &tail).map(Some)
    }

    /// The fields of a document whose values were left out when it was indexed.
    fn ignored(&self, (segment, doc): (u32, u32)) -> Result<Vec<Value>, Error> {
        let mut columns = self.ignored.borrow_mut();
        let column = match columns.entry(segment) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let fast = self.view.searcher().segment_reader(segment).fast_fields();
                unknown.insert(fast.str(IGNORED).map_err(internal)?)
            }
        };
        column.as_ref().map_or_else(|| Ok(Vec::new()), |column| values::strings(column, doc))
    }

    /// The source as a value, where parts of it are wanted. A row that is no JSON has none.
    fn read(&self, row: &FetchedRow) -> Result<Option<Value>, Error> {
        let has_parts = self.source.enabled && !self.source.is_whole();
        if !has_parts && self.fields.is_empty() && self.highlighter.is_none() {
            return Ok(None);
        }
        let mut ask = |bytes: usize| self.memory.take(bytes as u64);
        match json::read(&row.source, usize::MAX, &mut ask) {
            Ok(source) => Ok(Some(source)),
            Err(Unread::Broken(_)) => Ok(None),
            Err(Unread::Refused(error)) => Err(error),
        }
    }

    /// `_source` as text.
    fn shown_source(
        &self,
        row: &FetchedRow,
        read: Option<&Value>,
    ) -> Result<Option<String>, Error> {
        if self.source.is_whole() {
            // A line break would end the line of a streamed answer, but JSON is shown as it is.
            let raw = serde_json::from_slice::<&RawValue>(&row.source);
            return Ok(raw.ok().map(|raw| raw.get().to_owned()));
        }
        let Some(read) = read else { return Ok(None) };
        // What is kept is copied, and then written.
        self.memory.take(row.source.len() as u64 * KEPT_TIMES)?;
        Ok(Some(self.source.apply(read).to_string()))
    }

    /// What comes after `_source`.
    fn tail(&mut self, hit: &Hit, source: &Value) -> Result<Map<String, Value>, Error> {
        let mut tail = Map::new();
        let fields = self.shown_fields(hit, source)?;
        if !fields.is_empty() {
            tail.insert("fields".to_owned(), Value::Object(fields));
        }
        if let Some(highlighter) = &self.highlighter {
            let found = highlighter.highlight(source);
            if !found.is_empty() {
                tail.insert("highlight".to_owned(), Value::Object(found));
            }
        }
        if !hit.sort.is_empty() {
            let values: Vec<Value> =
                hit.sort.iter().enumerate().map(|(at, value)| self.sort_value(at, value)).collect();
            tail.insert("sort".to_owned(), Value::from(values));
        }
        let matched = self.named.of(hit.address);
        if !matched.is_empty() {
            tail.insert("matched_queries".to_owned(), Value::from(matched));
        }
        if self.request.explain {
            let explanation = explained(&self.context, self.request, hit.address)?;
            tail.insert("_explanation".to_owned(), explanation.unwrap_or(Value::Null));
        }
        Ok(tail)
    }

    fn shown_fields(&mut self, hit: &Hit, source: &Value) -> Result<Map<String, Value>, Error> {
        let mut shown = Map::new();
        let reader = self.view.searcher().segment_reader(hit.address.0);
        for (path, format) in &self.docvalue_fields {
            let found =
                values::of_columns(self.view, reader, hit.address.1, path, format.as_ref())?;
            if !found.is_empty() {
                shown.insert(path.clone(), Value::from(found));
            }
        }
        for (path, format) in &self.fields {
            let found = values::of_source(self.view, source, path, format.as_ref());
            if !found.is_empty() {
                shown.insert(path.clone(), Value::from(found));
            }
        }
        for script in &mut self.scripts {
            script.show(self.view, reader, hit, &mut shown)?;
        }
        if let (Some(name), Some(group)) = (&self.request.collapse, &hit.group) {
            shown.insert(name.clone(), json!([group.to_json()]));
        }
        Ok(shown)
    }

    /// A value of `sort`, with the format of its clause.
    fn sort_value(&self, at: usize, value: &SortValue) -> Value {
        if let (Some(clause), SortValue::Long(number)) = (self.request.sort.get(at), value)
            && let SortBy::Field(field) = &clause.by
            && let Some(format) = &field.format
            && let Some(target) = self.view.target(&field.name)
            && let Kind::Date { nanos } = target.kind
            && let Ok(format) = DateFormat::parse_pattern(format)
        {
            let moment =
                if nanos { Moment::from_nanos(*number) } else { Moment::from_millis(*number) };
            return Value::from(format.format(moment, &Zone::utc()));
        }
        value.to_json()
    }
}

/// The id of a document, and its hash key where that is another.
pub(super) fn identity(
    view: &View,
    address: (u32, u32),
) -> Result<(String, Option<Vec<u8>>), Error> {
    let address = DocAddress::new(address.0, address.1);
    let stored: TantivyDocument = view.searcher().doc(address).map_err(internal)?;
    let id = stored.get_first(view.layout().id_field());
    let id = id.and_then(|value| value.as_str()).unwrap_or_default().to_owned();
    let key = stored.get_first(view.layout().key_field());
    Ok((id, key.and_then(|value| value.as_bytes()).map(<[u8]>::to_vec)))
}

fn source_filter(view: &View, request: &SearchRequest) -> SourceFilter {
    let (is_kept, includes, excludes) = view.mapping().source_filter();
    let mut filter = request.source.clone().unwrap_or_default();
    if request.source.is_none()
        && let Some(stored) = &request.stored_fields
    {
        filter.enabled = stored.iter().any(|field| field == "_source");
    } else if request.source.is_none() && !request.script_fields.is_empty() {
        // Who asks for what a script computes is shown the source only where that is asked for too.
        filter.enabled = false;
    }
    filter.enabled &= is_kept;
    if filter.includes.is_empty() {
        filter.includes = includes.to_vec();
    }
    filter.excludes.extend_from_slice(excludes);
    filter
}

/// The paths that patterns mean, with their formats.
fn expand(view: &View, shown: &[ShownField]) -> Result<Vec<(String, Option<DateFormat>)>, Error> {
    let mut found = Vec::new();
    for field in shown {
        let format = match field.format.as_deref() {
            None | Some("use_field_mapping") => None,
            Some(format) => DateFormat::parse_pattern(format).ok(),
        };
        let paths: Vec<String> = if field.pattern.contains('*') {
            view.mapping().paths(&field.pattern).into_iter().map(str::to_owned).collect()
        } else {
            vec![field.pattern.clone()]
        };
        for path in paths {
            let own = || {
                let field = view.mapping().field(&path)?;
                field.date_format().map(|format| format.as_ref().clone())
            };
            let format = format.clone().or_else(own);
            found.push((path, format));
        }
    }
    Ok(found)
}

/// The text of a hit: what comes before the source, the source, what comes after.
fn assemble(
    head: &Map<String, Value>,
    source: Option<&str>,
    tail: &Map<String, Value>,
) -> Result<Box<RawValue>, Error> {
    let wrong = |error: serde_json::Error| Error::internal(error.to_string());
    let mut text = serde_json::to_string(head).map_err(wrong)?;
    text.pop();
    if let Some(source) = source {
        text.push_str(",\"_source\":");
        text.push_str(source);
    }
    if tail.is_empty() {
        text.push('}');
    } else {
        text.push(',');
        let tail = serde_json::to_string(tail).map_err(wrong)?;
        text.push_str(&tail[1..]);
    }
    RawValue::from_string(text).map_err(wrong)
}

/// How the score of one document of a view comes about (`_explain`); none where it does not match.
///
/// # Errors
/// As the query phase.
pub fn explain(
    view: &View,
    request: &SearchRequest,
    now_ms: u64,
    id: &str,
) -> Result<Option<Value>, Error> {
    let never = Cancelled::never();
    let context = Context::new(view, now_ms, &never);
    let term = tantivy::Term::from_field_text(view.layout().id_field(), id);
    for (segment, reader) in (0u32..).zip(view.searcher().segment_readers()) {
        let index = reader.inverted_index(view.layout().id_field()).map_err(internal)?;
        let option = tantivy::schema::IndexRecordOption::Basic;
        let postings = index
            .read_postings(&term, option)
            .map_err(|error| Error::internal(error.to_string()))?;
        let Some(mut postings) = postings else { continue };
        while postings.doc() != tantivy::TERMINATED {
            if !reader.is_deleted(postings.doc()) {
                return explained(&context, request, (segment, postings.doc()));
            }
            postings.advance();
        }
    }
    Ok(None)
}

fn explained(
    context: &Context<'_>,
    request: &SearchRequest,
    address: (u32, u32),
) -> Result<Option<Value>, Error> {
    let searcher = context.view.searcher();
    let context = context.anew_exact();
    let query = super::matching::compiled(&context, request.query())?.into_query();
    let weight = query.weight(EnableScoring::enabled_from_searcher(searcher)).map_err(internal)?;
    let reader = searcher.segment_reader(address.0);
    let mut scorer = weight.scorer(reader, 1.0).map_err(internal)?;
    let is_found = scorer.doc() <= address.1 && scorer.seek(address.1) == address.1;
    context.check()?;
    if !is_found {
        return Ok(None);
    }
    let found = match weight.explain(reader, address.1) {
        Ok(explanation) => serde_json::from_str(&explanation.to_pretty_json()).ok(),
        Err(_) => None,
    };
    Ok(Some(found.map_or_else(
        || json!({"value": score_json(scorer.score()), "description": "score", "details": []}),
        with_details,
    )))
}

/// A count as a whole number.
#[expect(clippy::cast_possible_truncation, reason = "counts are whole and far below 2^63")]
fn whole(count: f64) -> Value {
    Value::from(count as i64)
}

/// Clients read `details` at every level, and no other lists.
fn with_details(mut node: Value) -> Value {
    if let Value::Object(map) = &mut node {
        map.remove("context");
        let is_count = map
            .get("description")
            .and_then(Value::as_str)
            .is_some_and(|text| text.contains("number of documents"));
        if let (true, Some(count)) = (is_count, map.get("value").and_then(Value::as_f64)) {
            map.insert("value".to_owned(), whole(count));
        }
        let details = map.remove("details");
        let details = match details {
            Some(Value::Array(items)) => items.into_iter().map(with_details).collect(),
            _ => Vec::new(),
        };
        map.insert("details".to_owned(), Value::Array(details));
    }
    node
}
