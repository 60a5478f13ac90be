//! Documents in memory, spread over partitions and segments as a test wishes.

use serde_json::{Value, json};
use tantivy::indexer::NoMergePolicy;
use tantivy::query::{AllQuery, Query, TermQuery};
use tantivy::schema::{
    FAST, Field as Slot, INDEXED, IndexRecordOption, IpAddrOptions, Schema, TextFieldIndexing,
    TextOptions,
};
use tantivy::{Index, Searcher, TantivyDocument, Term};

use crate::Error;
use crate::aggregation::fields::{Field, FieldKind, Fields};
use crate::aggregation::memory::{Memory, Unlimited};
use crate::aggregation::{
    Aggregations, Context, Intermediate, MAX_BUCKETS_DEFAULT, collect, dates,
};

#[derive(Clone, Debug, Default)]
pub(super) struct Doc {
    pub(super) k: Vec<String>,
    pub(super) n: Vec<i64>,
    pub(super) x: Vec<f64>,
    pub(super) d: Vec<i64>,
    pub(super) b: Vec<bool>,
    pub(super) ip: Vec<String>,
    /// Latitude, longitude.
    pub(super) p: Vec<(f64, f64)>,
}

pub(super) struct Slots {
    schema: Schema,
    list: Vec<(&'static str, Slot, FieldKind)>,
}

pub(super) fn slots() -> Slots {
    let mut builder = Schema::builder();
    let raw = TextFieldIndexing::default()
        .set_tokenizer("raw")
        .set_index_option(IndexRecordOption::Basic)
        .set_fieldnorms(false);
    let keyword = TextOptions::default().set_indexing_options(raw).set_fast("raw");
    let date = FieldKind::Date { format: dates::FORMAT_DEFAULT.to_owned(), nanos: false };
    let list = vec![
        ("k", builder.add_text_field("k", keyword), FieldKind::Keyword),
        ("n", builder.add_i64_field("n", FAST | INDEXED), FieldKind::Long),
        ("x", builder.add_f64_field("x", FAST), FieldKind::Double),
        ("d", builder.add_i64_field("d", FAST), date),
        ("b", builder.add_u64_field("b", FAST), FieldKind::Boolean),
        ("ip", builder.add_ip_addr_field("ip", IpAddrOptions::default().set_fast()), FieldKind::Ip),
        ("p", builder.add_f64_field("p_lat", FAST), FieldKind::GeoPoint),
        ("t", builder.add_text_field("t", tantivy::schema::TEXT), FieldKind::Text),
    ];
    builder.add_f64_field("p_lon", FAST);
    Slots { schema: builder.build(), list }
}

impl Fields for Slots {
    fn field(&self, path: &str) -> Option<Field> {
        let (name, slot, kind) = self.list.iter().find(|(name, ..)| *name == path)?;
        let column = match kind {
            FieldKind::Text => None,
            FieldKind::GeoPoint => Some("p_lat".to_owned()),
            _ => Some((*name).to_owned()),
        };
        let longitude = (*kind == FieldKind::GeoPoint).then(|| "p_lon".to_owned());
        Some(Field { path: path.to_owned(), field: *slot, column, longitude, kind: kind.clone() })
    }
}

/// One partition whose segments have so many documents each.
pub(super) fn partition(docs: &[Doc], segment_docs: usize) -> Searcher {
    let slots = slots();
    let index = Index::create_in_ram(slots.schema.clone());
    let mut writer = index.writer_with_num_threads::<TantivyDocument>(1, 20_000_000).unwrap();
    writer.set_merge_policy(Box::new(NoMergePolicy));
    let slot = |name: &str| slots.schema.get_field(name).unwrap();
    for chunk in docs.chunks(segment_docs.max(1)) {
        for doc in chunk {
            let mut row = TantivyDocument::new();
            doc.k.iter().for_each(|value| row.add_text(slot("k"), value));
            doc.n.iter().for_each(|value| row.add_i64(slot("n"), *value));
            doc.x.iter().for_each(|value| row.add_f64(slot("x"), *value));
            doc.d.iter().for_each(|value| row.add_i64(slot("d"), *value));
            doc.b.iter().for_each(|value| row.add_u64(slot("b"), u64::from(*value)));
            for value in &doc.ip {
                let address = u128::to_be_bytes(crate::aggregation::parse_ip(value).unwrap());
                row.add_ip_addr(slot("ip"), address.into());
            }
            for (latitude, longitude) in &doc.p {
                row.add_f64(slot("p_lat"), *latitude);
                row.add_f64(slot("p_lon"), *longitude);
            }
            writer.add_document(row).unwrap();
        }
        writer.commit().unwrap();
    }
    index.reader().unwrap().searcher()
}

fn resolve(query: &Value) -> Result<Box<dyn Query>, Error> {
    match query.pointer("/term/k").and_then(Value::as_str) {
        Some(text) => {
            let slot = slots().schema.get_field("k").unwrap();
            Ok(Box::new(TermQuery::new(
                Term::from_field_text(slot, text),
                IndexRecordOption::Basic,
            )))
        }
        None => Ok(Box::new(AllQuery)),
    }
}

/// Runs a request over partitions; what they send goes through its bytes.
pub(super) fn run_with(
    partitions: &[Searcher],
    body: &Value,
    memory: &dyn Memory,
    cancelled: &dyn Fn() -> bool,
    typed_keys: bool,
) -> Result<Value, Error> {
    let aggregations = Aggregations::parse(body)?;
    let fetch = |addresses: &[(u32, u32, f32)], _: &Value| {
        Ok(vec![json!({ "_source": {} }); addresses.len()])
    };
    let context = Context {
        now_ms: 1_704_067_200_000,
        max_buckets: MAX_BUCKETS_DEFAULT,
        memory,
        cancelled,
        resolve_query: &resolve,
        fetch: Some(&fetch),
    };
    let mut whole = Intermediate::default();
    for searcher in partitions {
        let found =
            collect::collect(searcher, &slots(), &aggregations.request.nodes, &AllQuery, &context)?;
        let sent = serde_json::to_vec(&Intermediate { partials: found }).unwrap();
        aggregations.merge(&mut whole, serde_json::from_slice(&sent).unwrap());
    }
    aggregations.finish(whole, context.max_buckets, typed_keys, context.memory)
}

pub(super) fn run(partitions: &[Searcher], body: &Value) -> Result<Value, Error> {
    run_with(partitions, body, &Unlimited, &|| false, false)
}
