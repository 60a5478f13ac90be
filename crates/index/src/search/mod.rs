//! Searches: a request as REST has it ([`request`]), its hits in one partition ([`phase`] with
//! [`top`] and [`sorted`]), the hits of all partitions ([`reduce`]), and what is shown of each
//! ([`fetch`]).
//!
//! A request is sent to every partition, which answers with a [`PartitionResult`]; these are
//! reduced; and the partitions that have hits among the best render them.

mod collapse;
mod failure;
mod fetch;
mod highlight;
mod limits;
mod matching;
mod named;
mod numbers;
mod options;
mod phase;
mod ranges;
mod reduce;
mod request;
mod rescore;
mod result;
mod script_field;
mod segment_sort;
mod sort;
mod sorted;
mod source;
#[cfg(test)]
mod tests;
mod top;
mod values;
mod walk;

pub use fetch::{FetchedRow, RowOf, explain, fetch_phase};
pub use numbers::{among_all, asked_of, in_its_own};
pub use phase::{Surroundings, count, query_phase, query_phase_in};
pub use reduce::{Reduced, reduce, reduce_with};
pub use request::{RESULT_WINDOW_MAX, SearchRequest, TRACK_TOTAL_DEFAULT, TrackTotal};
pub use result::{Hit, PartitionResult, SortValue};
pub use source::SourceFilter;

pub use crate::query::exec::run::Cancelled;
