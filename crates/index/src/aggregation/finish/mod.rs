//! The answer: what all partitions found, turned into Elasticsearch's JSON.
//!
//! Results are first a tree ([`Output`]) that pipeline aggregations read and change, then JSON.

mod auto_date;
mod buckets;
mod metrics;
mod pipelines;
mod print;

use std::cell::Cell;

use serde_json::{Map, Value, json};

use super::limits::too_many;
use super::memory::Memory;
use super::partial::{Key, Partial};
use super::request::{Kind, Node, Pipeline};
use crate::Error;
use crate::json;

/// One aggregation's place in an answer.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    /// The kind of result, as `typed_keys` names it.
    pub(super) kind: &'static str,
    pub(super) meta: Option<Value>,
    pub(super) output: Output,
}

/// One aggregation's result.
#[derive(Clone, Debug)]
pub(super) enum Output {
    /// JSON, and its numbers by name for pipelines and orders; the first is the one that is meant
    /// where no name is given.
    Leaf {
        json: Map<String, Value>,
        numbers: Vec<(String, f64)>,
    },
    Single {
        count: u64,
        subs: Vec<Entry>,
    },
    Multi {
        head: Map<String, Value>,
        buckets: Vec<OutBucket>,
        keyed: bool,
        tail: Map<String, Value>,
    },
}

/// One bucket of many.
#[derive(Clone, Debug)]
pub(super) struct OutBucket {
    /// What it is called where buckets are an object.
    pub(super) name: String,
    pub(super) key: Key,
    /// What it says before its count, and after.
    pub(super) json: Map<String, Value>,
    pub(super) count: u64,
    pub(super) after: Map<String, Value>,
    pub(super) subs: Vec<Entry>,
}

/// What is counted while an answer is made.
pub(super) struct Budget<'a> {
    memory: &'a dyn Memory,
    buckets_max: usize,
    buckets: Cell<usize>,
}

impl Budget<'_> {
    /// A hit that was sent as JSON; memory is asked for it while it is read.
    fn read(&self, hit: &str) -> Result<Value, Error> {
        json::read_own(hit, self.memory)
    }

    /// Counts buckets.
    ///
    /// # Errors
    /// [`too_many`].
    fn add(&self, buckets: usize) -> Result<(), Error> {
        let now = self.buckets.get() + buckets;
        self.buckets.set(now);
        if now > self.buckets_max { Err(too_many(self.buckets_max, now)) } else { Ok(()) }
    }
}

/// Makes the answer.
pub(crate) fn finish(
    nodes: &[Node],
    pipelines: &[Pipeline],
    partials: Vec<Partial>,
    (buckets_max, memory): (usize, &dyn Memory),
    typed_keys: bool,
) -> Result<Value, Error> {
    let budget = Budget { memory, buckets_max, buckets: Cell::new(0) };
    let entries = level(nodes, pipelines, partials, &budget)?;
    Ok(Value::Object(entries_json(entries, typed_keys)))
}

/// The results of aggregations side by side, with what siblings compute of them.
fn level(
    nodes: &[Node],
    pipelines: &[Pipeline],
    mut partials: Vec<Partial>,
    budget: &Budget<'_>,
) -> Result<Vec<Entry>, Error> {
    // A bucket's results may be many times what they are made of.
    budget.memory.take(0)?;
    partials.resize_with(nodes.len(), Partial::default);
    let mut entries = Vec::with_capacity(nodes.len() + pipelines.len());
    for (node, partial) in nodes.iter().zip(partials) {
        entries.push(finish_node(node, partial, budget)?);
    }
    pipelines::siblings(pipelines, &mut entries);
    Ok(entries)
}

fn finish_node(node: &Node, partial: Partial, budget: &Budget<'_>) -> Result<Entry, Error> {
    let (kind, output) = match (&node.kind, partial) {
        (Kind::Metric { metric, .. }, partial) => metrics::finish(metric, partial),
        (Kind::Weighted(spec), partial) => metrics::weighted(spec, &partial),
        (Kind::TopHits(spec), partial) => metrics::top_hits(spec, partial, budget)?,
        (kind, partial) if kind.is_single_bucket() => {
            let (count, subs) = match partial {
                Partial::Single { count, subs } => (count, subs),
                _ => (0, Vec::new()),
            };
            let subs = level(&node.subs, &node.pipelines, subs, budget)?;
            (single_kind(kind), Output::Single { count, subs })
        }
        (_, Partial::Buckets(found)) => buckets::finish(node, *found, budget)?,
        _ => buckets::finish(node, buckets::none(node), budget)?,
    };
    Ok(Entry { name: node.name.clone(), kind, meta: node.meta.clone(), output })
}

fn single_kind(kind: &Kind) -> &'static str {
    match kind {
        Kind::Filter(_) => "filter",
        Kind::Missing(_) => "missing",
        _ => "global",
    }
}

fn entries_json(entries: Vec<Entry>, typed_keys: bool) -> Map<String, Value> {
    let mut map = Map::new();
    for entry in entries {
        let mut object = Map::new();
        if let Some(meta) = entry.meta {
            object.insert("meta".to_owned(), meta);
        }
        object.append(&mut output_json(entry.output, typed_keys));
        let name = if typed_keys { format!("{}#{}", entry.kind, entry.name) } else { entry.name };
        map.insert(name, Value::Object(object));
    }
    map
}

fn output_json(output: Output, typed_keys: bool) -> Map<String, Value> {
    match output {
        Output::Leaf { json, .. } => json,
        Output::Single { count, subs } => {
            let mut map = Map::new();
            map.insert("doc_count".to_owned(), json!(count));
            map.append(&mut entries_json(subs, typed_keys));
            map
        }
        Output::Multi { mut head, buckets, keyed, mut tail } => {
            let each = buckets
                .into_iter()
                .map(|bucket| (bucket.name.clone(), bucket_json(bucket, typed_keys)));
            let value = if keyed {
                Value::Object(each.collect())
            } else {
                Value::Array(each.map(|(_, bucket)| bucket).collect())
            };
            head.insert("buckets".to_owned(), value);
            head.append(&mut tail);
            head
        }
    }
}

fn bucket_json(mut bucket: OutBucket, typed_keys: bool) -> Value {
    let mut map = bucket.json;
    map.insert("doc_count".to_owned(), json!(bucket.count));
    map.append(&mut bucket.after);
    map.append(&mut entries_json(bucket.subs, typed_keys));
    Value::Object(map)
}

/// A metric of an aggregation below, for orders: as pipelines see it.
fn entry_number(entries: &[Entry], path: &[String], property: Option<&str>) -> f64 {
    pipelines::number(entries, path, property).unwrap_or(f64::NAN)
}
