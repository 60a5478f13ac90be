//! What aggregations answer, against known answers, against computing them plainly, and against
//! themselves: however documents are spread over partitions and segments, the answer is the same.

mod errors;
mod harness;
mod known;
mod plain;
mod speed;
mod spread;
mod terms;

/// A partition without documents, for tests of parts.
pub(super) fn partition_of_nothing() -> tantivy::Searcher {
    harness::partition(&[], 1)
}

/// The fields of the tests' documents.
pub(super) fn any_fields() -> impl super::fields::Fields {
    harness::slots()
}
