//! The limits of a query: what is refused before it can cost much. They are Elasticsearch's
//! defaults where it has one.

use crate::error::Error;

/// Clauses of one `bool` query, and terms that one text may be cut into
/// (`indices.query.bool.max_clause_count`).
pub const CLAUSE_COUNT_MAX: usize = 1024;

/// The refusal of more.
pub(crate) fn too_many_clauses() -> Error {
    Error::invalid(
        "too_many_clauses",
        format!(
            "maxClauseCount is set to {CLAUSE_COUNT_MAX} [indices.query.bool.max_clause_count]"
        ),
    )
}

/// Clauses of a whole query, with the terms that its texts are cut into: each has its reader in every
/// segment while that is searched.
pub const CLAUSES_IN_ALL_MAX: usize = 16 * CLAUSE_COUNT_MAX;

/// The refusal of more.
pub(crate) fn too_many_nested_clauses() -> Error {
    Error::invalid(
        "too_many_nested_clauses",
        format!(
            "Query contains too many nested clauses; maxClauseCount is set to {CLAUSES_IN_ALL_MAX}"
        ),
    )
}

/// Values of one `terms` query (`index.max_terms_count`).
pub const TERMS_COUNT_MAX: usize = 65_536;

/// Queries inside queries.
pub const DEPTH_MAX: usize = 50;

/// Characters of a regular expression (`index.max_regex_length`).
pub const REGEX_LENGTH_MAX: usize = 1000;

/// Bytes that the automaton of one regular expression, wildcard or prefix may take.
pub const AUTOMATON_BYTES_MAX: usize = 4 << 20;

/// Characters of a wildcard pattern.
pub const WILDCARD_LENGTH_MAX: usize = 4096;

/// Terms that a fuzzy query or the last word of a phrase is widened to.
pub const EXPANSIONS_MAX_DEFAULT: usize = 50;

/// The most that `max_expansions` may ask for.
pub const EXPANSIONS_MAX: usize = 1024;

/// Functions of one `function_score` query.
pub const FUNCTION_COUNT_MAX: usize = 256;

/// Nodes of a script's tree.
pub const SCRIPT_NODES_MAX: usize = 4096;

/// Nodes on the longest way down in it: each takes about 1.3 KiB of the stack of 2 MiB that a search has.
pub const SCRIPT_HEIGHT_MAX: usize = 500;

/// Fields that a pattern of a query may name.
pub const FIELD_COUNT_MAX: usize = 1024;
