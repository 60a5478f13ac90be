//! What Tantivy does not have: filters over columns that are read in blocks ([`filter`] with
//! [`number`], [`geo`], [`keyword`]), automata over terms ([`automaton`]), scores of functions and
//! scripts ([`score`]), phrases with slop ([`phrase`]), those without where few can be good enough
//! ([`exact_phrase`]), BM25 whose statistics are those of the field ([`statistics`]), and a query's end before its time
//! ([`run`]).
//! Nothing here knows the query DSL.

pub(crate) mod automaton;
pub(crate) mod column;
pub(crate) mod decay;
pub(crate) mod exact;
pub(crate) mod exact_phrase;
pub(crate) mod filter;
pub(crate) mod geo;
pub(crate) mod keyword;
pub(crate) mod number;
pub(crate) mod phrase;
pub(crate) mod run;
pub(crate) mod score;
pub(crate) mod statistics;

/// Documents that are computed at once.
pub(crate) const BLOCK: usize = tantivy::COLLECT_BLOCK_BUFFER_LEN;
