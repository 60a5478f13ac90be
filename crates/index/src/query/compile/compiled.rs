//! A query that Tantivy can run, and what is known of its scores. What it is made of is the compilers'.

use tantivy::query::{AllQuery, BoostQuery, ConstScoreQuery, EmptyQuery, Query as TantivyQuery};

/// A compiled query and, where all matches score alike, their score.
pub(crate) struct Compiled {
    pub query: Box<dyn TantivyQuery>,
    /// Where this is known, the query's own scores mean nothing.
    pub score: Option<f32>,
}

impl Compiled {
    /// Matches that all score 1.
    pub(crate) fn constant(query: impl TantivyQuery) -> Self {
        Self { query: Box::new(query), score: Some(1.0) }
    }

    pub(crate) fn scored(query: impl TantivyQuery) -> Self {
        Self { query: Box::new(query), score: None }
    }

    pub(crate) fn all() -> Self {
        Self::constant(AllQuery)
    }

    pub(crate) fn none() -> Self {
        Self { query: Box::new(EmptyQuery), score: Some(0.0) }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.query.is::<EmptyQuery>()
    }

    #[expect(clippy::float_cmp, reason = "a boost of exactly 1 changes nothing")]
    pub(crate) fn boosted(self, boost: f32) -> Self {
        match self.score {
            Some(score) => Self { query: self.query, score: Some(score * boost) },
            None if boost == 1.0 => self,
            None => Self { query: Box::new(BoostQuery::new(self.query, boost)), score: None },
        }
    }

    /// The query with its scores.
    pub(crate) fn into_query(self) -> Box<dyn TantivyQuery> {
        match self.score {
            Some(_) if self.is_none() => self.query,
            Some(score) => Box::new(ConstScoreQuery::new(self.query, score)),
            None => self.query,
        }
    }
}
