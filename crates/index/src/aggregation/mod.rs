//! Aggregations: Elasticsearch's request, collected per partition, merged, and answered.
//!
//! ```text
//! JSON --parse--> Aggregations --collect (each partition)--> Intermediate --merge--> --finish--> JSON
//! ```
//!
//! The engine is Plimsoll's own, over Tantivy's columns: it tells a [`Memory`] of every byte it
//! holds, before or right after it takes it, asks after every batch of documents whether it is
//! cancelled, and rounds dates, breaks ties and words its answers as Elasticsearch does. It knows no
//! network and fetches no rows.

mod auto_date;
mod bits;
mod collect;
mod dates;
mod fields;
mod finish;
mod geo;
mod limits;
mod memory;
mod merge;
mod number;
mod order;
mod partial;
mod request;
mod rounding;
mod script;
mod sketch;
mod statistic;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tantivy::query::Query;

pub use self::collect::{Context, FetchHits, HitAddress, ResolveQuery};
use self::fields::{Field, FieldKind, Fields};
pub use self::memory::{Memory, Unlimited};
use self::partial::Partial;
use self::request::{Request, parse_ip, request_number};
use crate::Error;
use crate::mapping::{IGNORED, Mapping};
use crate::partition::{Kind as TargetKind, View};

/// How many buckets an answer may have where nothing else is set: `search.max_buckets`.
pub const MAX_BUCKETS_DEFAULT: usize = 65_535;

/// The aggregations of a request.
#[derive(Clone, Debug, Default)]
pub struct Aggregations {
    request: Request,
}

/// What one partition, or several merged, found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Intermediate {
    partials: Vec<Partial>,
}

impl Aggregations {
    /// Reads what stands below `aggs` or `aggregations`.
    ///
    /// # Errors
    /// 400, as Elasticsearch words it; what is not supported is named.
    pub fn parse(body: &Value) -> Result<Self, Error> {
        Request::parse(body).map(|request| Self { request })
    }

    /// Collects every document of a partition that a query matches.
    ///
    /// # Errors
    /// 400 where a field cannot be aggregated so; the breaker's error where memory is refused; 400
    /// `task_cancelled_exception`.
    pub fn collect(
        &self,
        view: &View,
        query: &dyn Query,
        context: &Context<'_>,
    ) -> Result<Intermediate, Error> {
        let fields = ViewFields { view };
        let partials =
            collect::collect(view.searcher(), &fields, &self.request.nodes, query, context)?;
        Ok(Intermediate { partials })
    }

    /// Adds what another partition found.
    pub fn merge(&self, into: &mut Intermediate, from: Intermediate) {
        merge::merge_all(&self.request.nodes, &mut into.partials, from.partials);
    }

    /// The JSON of the answer's `aggregations`. `typed_keys`: names say kinds, such as `lterms#a`.
    ///
    /// # Errors
    /// 400 `too_many_buckets_exception`; the breaker's error where memory is refused.
    pub fn finish(
        &self,
        found: Intermediate,
        max_buckets: usize,
        typed_keys: bool,
        memory: &dyn Memory,
    ) -> Result<Value, Error> {
        let Request { nodes, pipelines } = &self.request;
        finish::finish(nodes, pipelines, found.partials, (max_buckets, memory), typed_keys)
    }
}

/// The fields of a partition's view.
struct ViewFields<'a> {
    view: &'a View,
}

impl ViewFields<'_> {
    fn make(&self, mapping: &Mapping, path: &str) -> Option<Field> {
        let target = self.view.target(path)?;
        if path == IGNORED {
            let (path, kind) = (path.to_owned(), FieldKind::Other(IGNORED));
            return Some(Field { path, field: target.field, column: None, longitude: None, kind });
        }
        let mapped = mapping.field(path);
        let mut column = target.column.clone();
        let mut longitude = None;
        let kind = match &target.kind {
            TargetKind::Text { .. } => FieldKind::Text,
            TargetKind::Keyword { .. } => FieldKind::Keyword,
            TargetKind::Long => FieldKind::Long,
            TargetKind::UnsignedLong => FieldKind::UnsignedLong,
            TargetKind::Double => FieldKind::Double,
            TargetKind::Date { nanos } => {
                let format = mapped.and_then(|field| field.date_format());
                let format = format.map_or(dates::FORMAT_DEFAULT, |format| format.pattern());
                FieldKind::Date { format: format.to_owned(), nanos: *nanos }
            }
            TargetKind::Boolean => FieldKind::Boolean,
            TargetKind::Ip => FieldKind::Ip,
            TargetKind::GeoPoint { latitude, longitude: other } => {
                column = Some(latitude.clone());
                longitude = Some(other.clone());
                FieldKind::GeoPoint
            }
            TargetKind::Binary => FieldKind::Other("binary"),
        };
        Some(Field { path: path.to_owned(), field: target.field, column, longitude, kind })
    }
}

impl Fields for ViewFields<'_> {
    fn field(&self, path: &str) -> Option<Field> {
        self.make(self.view.mapping(), path)
    }
}
