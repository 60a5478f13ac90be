//! Filters on terms and on columns of strings: sets of terms, ranges, presence.

use std::fmt::Debug;
use std::ops::Bound;
use std::sync::Arc;

use tantivy::postings::BlockSegmentPostings;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{BitSet, SegmentReader};

use super::filter::{Filter, Matches};
use super::number::{self, Value as _};
use crate::partition::{Kind, Target};

/// The documents that have one of many terms. Terms are looked up one after the other in their
/// order, which keeps the walk through the dictionary in the processor's cache.
#[derive(Clone, Debug)]
pub(crate) struct TermSet {
    pub field: Field,
    /// Sorted, without doubles.
    pub terms: Arc<Vec<Vec<u8>>>,
}

impl TermSet {
    pub(crate) fn new(field: Field, mut terms: Vec<Vec<u8>>) -> Self {
        terms.sort_unstable();
        terms.dedup();
        Self { field, terms: Arc::new(terms) }
    }
}

impl Filter for TermSet {
    fn segment(&self, reader: &SegmentReader) -> tantivy::Result<Matches> {
        let index = reader.inverted_index(self.field)?;
        let dictionary = index.terms();
        let mut docs = None;
        let mut postings: Option<BlockSegmentPostings> = None;
        for term in self.terms.iter() {
            let Some(info) = dictionary.get(term)? else { continue };
            let docs = docs.get_or_insert_with(|| BitSet::with_max_value(reader.max_doc()));
            match &mut postings {
                Some(postings) => index.reset_block_postings_from_terminfo(&info, postings)?,
                None => {
                    let option = IndexRecordOption::Basic;
                    postings = Some(index.read_block_postings_from_terminfo(&info, option)?);
                }
            }
            if let Some(postings) = &mut postings {
                insert_all(postings, docs);
            }
        }
        Ok(docs.map_or(Matches::None, Matches::Docs))
    }
}

/// Adds all documents of a posting list.
pub(crate) fn insert_all(postings: &mut BlockSegmentPostings, docs: &mut BitSet) {
    loop {
        let block = postings.docs();
        if block.is_empty() {
            return;
        }
        for doc in block {
            docs.insert(*doc);
        }
        postings.advance();
    }
}

/// Strings from one to another, by the numbers that they have in the column's dictionary.
#[derive(Clone, Debug)]
pub(crate) struct StringRange {
    pub column: String,
    pub lower: Bound<Vec<u8>>,
    pub upper: Bound<Vec<u8>>,
}

impl Filter for StringRange {
    fn segment(&self, reader: &SegmentReader) -> tantivy::Result<Matches> {
        let Some(column) = reader.fast_fields().str(&self.column)? else {
            return Ok(Matches::None);
        };
        let dictionary = column.dictionary();
        let count = dictionary.num_terms() as u64;
        let bounds = dictionary.term_bounds_to_ord(self.lower.as_ref(), self.upper.as_ref())?;
        let from = match bounds.0 {
            Bound::Included(ord) => ord,
            Bound::Excluded(ord) => ord.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let to = match bounds.1 {
            Bound::Included(ord) => ord.saturating_add(1),
            Bound::Excluded(ord) => ord,
            Bound::Unbounded => count,
        };
        if from >= to.min(count) {
            return Ok(Matches::None);
        }
        let ords = column.ords().clone();
        Ok(number::range_of(ords, from..=to.min(count) - 1, reader.max_doc()))
    }
}

/// The documents that have a value in a target's column.
#[derive(Clone, Debug)]
pub(crate) struct HasValue {
    pub target: Target,
}

impl Filter for HasValue {
    fn segment(&self, reader: &SegmentReader) -> tantivy::Result<Matches> {
        let max_doc = reader.max_doc();
        let fast = reader.fast_fields();
        let name = self.target.column.as_deref().unwrap_or("");
        Ok(match &self.target.kind {
            Kind::GeoPoint { latitude, .. } => f64::open(reader, latitude)?
                .map_or(Matches::None, |column| number::having(&column, max_doc)),
            Kind::Long | Kind::Date { .. } => i64::open(reader, name)?
                .map_or(Matches::None, |column| number::having(&column, max_doc)),
            Kind::UnsignedLong | Kind::Boolean => u64::open(reader, name)?
                .map_or(Matches::None, |column| number::having(&column, max_doc)),
            Kind::Double => f64::open(reader, name)?
                .map_or(Matches::None, |column| number::having(&column, max_doc)),
            Kind::Keyword { .. } => fast
                .str(name)?
                .map_or(Matches::None, |column| number::having(column.ords(), max_doc)),
            Kind::Ip => fast
                .column_opt::<std::net::Ipv6Addr>(name)?
                .map_or(Matches::None, |column| number::present(column.index, max_doc)),
            Kind::Text { .. } | Kind::Binary => Matches::None,
        })
    }
}

/// Addresses from one to another, both included.
#[derive(Clone, Debug)]
pub(crate) struct IpRange {
    pub column: String,
    pub from: std::net::Ipv6Addr,
    pub to: std::net::Ipv6Addr,
}

impl Filter for IpRange {
    fn segment(&self, reader: &SegmentReader) -> tantivy::Result<Matches> {
        let column = reader.fast_fields().column_opt::<std::net::Ipv6Addr>(&self.column)?;
        Ok(match column {
            Some(column) => {
                Matches::Filter(Box::new(SegmentIpRange { column, range: self.from..=self.to }))
            }
            None => Matches::None,
        })
    }
}

struct SegmentIpRange {
    column: tantivy::fastfield::Column<std::net::Ipv6Addr>,
    range: std::ops::RangeInclusive<std::net::Ipv6Addr>,
}

impl super::filter::SegmentFilter for SegmentIpRange {
    fn matches(&mut self, doc: tantivy::DocId) -> bool {
        self.column.values_for_doc(doc).any(|value| self.range.contains(&value))
    }

    fn collect(&mut self, window: std::ops::Range<tantivy::DocId>, out: &mut Vec<tantivy::DocId>) {
        self.column.get_docids_for_value_range(self.range.clone(), window, out);
    }
}
