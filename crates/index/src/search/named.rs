//! Which of a request's named queries (`_name`) the hits match. Each query is run once over the segments
//! that have a hit, however many there are: a query may walk through many terms before its first match.

use std::collections::HashMap;

use serde_json::Value;
use tantivy::DocSet as _;
use tantivy::query::EnableScoring;

use super::failure::internal;
use super::request::SearchRequest;
use super::result::Hit;
use crate::error::Error;
use crate::query::Context;

/// The names that hits match, in the order of the request.
#[derive(Default)]
pub(super) struct Named<'a> {
    of: HashMap<(u32, u32), Vec<&'a str>>,
}

impl<'a> Named<'a> {
    pub(super) fn new(
        context: &Context<'_>,
        request: &'a SearchRequest,
        hits: &[Hit],
    ) -> Result<Self, Error> {
        let mut found = Self::default();
        let named = request.query().map(|query| query.named()).unwrap_or_default();
        if named.is_empty() {
            return Ok(found);
        }
        let searcher = context.view.searcher();
        let mut addresses: Vec<(u32, u32)> = hits.iter().map(|hit| hit.address).collect();
        addresses.sort_unstable();
        for (name, query) in named {
            let query = query.compile(context)?;
            let scoring = EnableScoring::disabled_from_searcher(searcher);
            let weight = query.weight(scoring).map_err(internal)?;
            for of_segment in addresses.chunk_by(|a, b| a.0 == b.0) {
                let reader = searcher.segment_reader(of_segment[0].0);
                let mut scorer = weight.scorer(reader, 1.0).map_err(internal)?;
                for address in of_segment {
                    if scorer.doc() < address.1 {
                        scorer.seek(address.1);
                    }
                    if scorer.doc() == address.1 {
                        found.of.entry(*address).or_default().push(name);
                    }
                }
            }
            context.check()?;
        }
        Ok(found)
    }

    /// Those of one hit.
    pub(super) fn of(&self, address: (u32, u32)) -> Vec<Value> {
        let names = self.of.get(&address).map(Vec::as_slice).unwrap_or_default();
        names.iter().map(|name| Value::from(*name)).collect()
    }
}
