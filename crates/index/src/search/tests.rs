//! Searches over small indexes: the golden answers, scores computed by hand, each kind of query.

mod golden;
mod hits;
mod phrases;
mod queries;
mod sorted_ranges;
mod values;

use std::collections::HashMap;

use bytes::Bytes;
use plimsoll_base::Disk;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    Cancelled, FetchedRow, PartitionResult, SearchRequest, fetch_phase, query_phase, reduce,
};
use crate::error::Error;
use crate::mapping::Mapping;
use crate::partition::{Options, PartitionIndex, View};

/// What `now` is in tests: 2024-03-10T12:00:00Z.
const NOW_MS: u64 = 1_710_072_000_000;

/// Documents in an index of their own.
struct Fixture {
    _dir: TempDir,
    view: View,
    rows: HashMap<String, Bytes>,
}

impl Fixture {
    /// An index of documents whose ids are `1`, `2`, …; a refresh after every `segment` of them.
    fn with_segments(mapping: Value, documents: &[Value], segment: usize) -> Self {
        let dir = TempDir::new().unwrap();
        let mapping = Mapping::parse(&mapping).unwrap();
        let mut index =
            PartitionIndex::open(&Disk::of_the_machine(), dir.path(), &mapping, Options::default())
                .unwrap();
        let mut rows = HashMap::new();
        let mut view = None;
        for (at, document) in documents.iter().enumerate() {
            let id = (at + 1).to_string();
            let source = Bytes::from(document.to_string());
            index.put(id.as_bytes(), &id, &source, true).unwrap();
            rows.insert(id, source);
            if (at + 1) % segment == 0 {
                view = Some(index.refresh(at as u64 + 1).unwrap());
            }
        }
        let view = match view {
            Some(view) if documents.len().is_multiple_of(segment) => view,
            _ => index.refresh(documents.len() as u64 + 1).unwrap(),
        };
        Self { _dir: dir, view, rows }
    }

    fn new(mapping: Value, documents: &[Value]) -> Self {
        Self::with_segments(mapping, documents, usize::MAX)
    }

    fn query(&self, body: &Value) -> Result<PartitionResult, Error> {
        let request = SearchRequest::parse(body)?;
        query_phase(&self.view, &request, NOW_MS, &Cancelled::never())
    }

    /// The answer's `hits` and `aggregations`, as one partition alone gives them.
    fn search(&self, body: &Value) -> Result<Value, Error> {
        let request = SearchRequest::parse(body)?;
        let result = query_phase(&self.view, &request, NOW_MS, &Cancelled::never())?;
        let reduced = reduce(&request, vec![result])?;
        let rows = |_: &[u8], id: &str| {
            let row = |source: &Bytes| FetchedRow { source: source.clone(), version: 4, seq_no: 6 };
            Ok(self.rows.get(id).map(row))
        };
        let hits: Vec<_> = reduced.hits.iter().map(|(_, hit)| hit.clone()).collect();
        let rendered: Vec<Value> = fetch_phase(
            &self.view,
            &request,
            "g",
            &hits,
            &rows,
            &crate::aggregation::Unlimited,
            &Cancelled::never(),
        )?
        .iter()
        .flatten()
        .map(|hit| serde_json::from_str(hit.get()).unwrap())
        .collect();
        let max_score = reduced.max_score.map_or(Value::Null, super::result::score_json);
        let mut answer = json!({"max_score": max_score, "hits": rendered});
        if let Some(total) = reduced.total_json() {
            answer["total"] = total;
        }
        Ok(answer)
    }

    /// The ids that a query finds, in their order.
    fn ids(&self, body: &Value) -> Vec<String> {
        let answer = self.search(body).unwrap_or_else(|error| panic!("{body}: {error}"));
        let hits = answer["hits"].as_array().unwrap();
        hits.iter().map(|hit| hit["_id"].as_str().unwrap().to_owned()).collect()
    }

    /// Checks the ids that a query finds, whatever their order.
    fn check(&self, query: Value, expected: &[&str]) {
        let body = json!({"query": query, "size": 1000});
        let mut ids = self.ids(&body);
        ids.sort();
        assert_eq!(ids, expected, "{body}");
        let request = SearchRequest::parse(&body).unwrap();
        let count = super::count(&self.view, request.query(), NOW_MS, &Cancelled::never()).unwrap();
        assert_eq!(count, expected.len() as u64, "count of {body}");
    }

    fn score(&self, query: &Value, id: &str) -> f64 {
        let answer = self.search(&json!({"query": query, "size": 100})).unwrap();
        let hit = answer["hits"].as_array().unwrap().iter().find(|hit| hit["_id"] == id);
        hit.unwrap_or_else(|| panic!("{id} is not among the hits of {query}"))["_score"]
            .as_f64()
            .unwrap()
    }
}
