//! Mappings, the query language, the inverted index and aggregations. Nothing of it is here yet:
//! this version holds rows only.
