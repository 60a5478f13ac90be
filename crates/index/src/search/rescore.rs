//! `rescore`: the best hits are scored again by another, dearer query.

use serde_json::Value;
use tantivy::query::{EnableScoring, Query as TantivyQuery, Scorer};
use tantivy::{DocId, Searcher};

use super::result::Hit;
use crate::error::Error;
use crate::query::Context;
use crate::query::ast::Query;
use crate::query::parse::{self, as_text};
use crate::query::problem::{Parsed, Problem};

/// The most hits that are scored again (`index.max_rescore_window`).
const WINDOW_MAX: usize = 10_000;

/// Replaces the scores of hits by those of a query that matches them, and orders them.
pub(super) fn replace(
    searcher: &Searcher,
    query: &dyn TantivyQuery,
    hits: &mut [Hit],
) -> Result<(), Error> {
    second_scores(searcher, query, hits, |first, second| second.unwrap_or(first))
}

/// What a scorer says of a document, each after the one before; none where it does not match.
pub(super) fn score_of(scorer: &mut Box<dyn Scorer>, doc: DocId) -> Option<f32> {
    if scorer.doc() < doc {
        scorer.seek(doc);
    }
    (scorer.doc() == doc).then(|| scorer.score())
}

/// Scores hits by a second query and orders them by what `join` makes of both scores; the second
/// is none where the query does not match.
fn second_scores(
    searcher: &Searcher,
    query: &dyn TantivyQuery,
    hits: &mut [Hit],
    join: impl Fn(f32, Option<f32>) -> f32,
) -> Result<(), Error> {
    let internal = |error: tantivy::TantivyError| Error::internal(error.to_string());
    let weight = query.weight(EnableScoring::enabled_from_searcher(searcher)).map_err(internal)?;
    hits.sort_by_key(|hit| hit.address);
    let mut scorer = None;
    for hit in hits.iter_mut() {
        let (segment, doc) = hit.address;
        let scorer = match &mut scorer {
            Some((at, scorer)) if *at == segment => scorer,
            slot => {
                let reader = searcher.segment_reader(segment);
                let opened = weight.scorer(reader, 1.0).map_err(internal)?;
                &mut slot.insert((segment, opened)).1
            }
        };
        hit.score = Some(join(hit.score.unwrap_or(0.0), score_of(scorer, doc)));
    }
    hits.sort_by(|a, b| {
        let (a_score, b_score) = (a.score.unwrap_or(0.0), b.score.unwrap_or(0.0));
        b_score.total_cmp(&a_score).then(a.address.cmp(&b.address))
    });
    Ok(())
}

/// How both scores become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Total,
    Multiply,
    Avg,
    Max,
    Min,
}

/// One `rescore`.
#[derive(Clone, Debug)]
pub(crate) struct Rescore {
    pub window: usize,
    query: Query,
    query_weight: f32,
    rescore_weight: f32,
    mode: Mode,
}

impl Rescore {
    pub(crate) fn parse(node: &Value) -> Parsed<Vec<Self>> {
        match node {
            Value::Array(items) => items.iter().map(Self::one).collect(),
            other => Ok(vec![Self::one(other)?]),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "scores are floats of 32 bits")]
    fn one(node: &Value) -> Parsed<Self> {
        let Value::Object(map) = node else {
            return Err(Problem::parsing(node, "[rescore] must be an object"));
        };
        let mut window = 10;
        let mut found = None;
        for (key, value) in map {
            match key.as_str() {
                "window_size" => {
                    window = value
                        .as_u64()
                        .and_then(|size| usize::try_from(size).ok())
                        .ok_or_else(|| {
                            Problem::illegal(format!("illegal window_size [{}]", as_text(value)))
                        })?;
                }
                "query" => found = Some(value),
                _ => {
                    let reason = format!("rescore doesn't support rescorer [{key}]");
                    return Err(Problem::parsing(value, reason));
                }
            }
        }
        if window > WINDOW_MAX {
            return Err(Problem::illegal(format!(
                "Rescore window [{window}] is too large. It must be less than [{WINDOW_MAX}]. This prevents allocating massive heaps for storing the results to be rescored. This limit can be set by changing the [index.max_rescore_window] index level setting."
            )));
        }
        let spec = found.ok_or_else(|| Problem::parsing(node, "missing rescore type"))?;
        let query = spec
            .get("rescore_query")
            .ok_or_else(|| Problem::parsing(spec, "[query] requires [rescore_query]"))?;
        let weight =
            |key: &str| spec.get(key).and_then(Value::as_f64).map_or(1.0, |weight| weight as f32);
        let mode = match spec.get("score_mode").map(as_text).as_deref() {
            None | Some("total") => Mode::Total,
            Some("multiply") => Mode::Multiply,
            Some("avg") => Mode::Avg,
            Some("max") => Mode::Max,
            Some("min") => Mode::Min,
            Some(other) => {
                return Err(Problem::illegal(format!("illegal score_mode [{other}]")));
            }
        };
        Ok(Self {
            window,
            query: parse::query(query, 0)?,
            query_weight: weight("query_weight"),
            rescore_weight: weight("rescore_query_weight"),
            mode,
        })
    }

    /// Scores the first hits again and orders them.
    pub(crate) fn apply(&self, context: &Context<'_>, hits: &mut [Hit]) -> Result<(), Error> {
        let window = self.window.min(hits.len());
        let query = self.query.compile(context)?;
        let join = |first: f32, second: Option<f32>| {
            let first = first * self.query_weight;
            let Some(second) = second.map(|second| second * self.rescore_weight) else {
                return first;
            };
            match self.mode {
                Mode::Total => first + second,
                Mode::Multiply => first * second,
                Mode::Avg => f32::midpoint(first, second),
                Mode::Max => first.max(second),
                Mode::Min => first.min(second),
            }
        };
        second_scores(context.view.searcher(), query.as_ref(), &mut hits[..window], join)
    }
}
