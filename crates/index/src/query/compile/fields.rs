//! Names of fields as a query has them, and where their values are.

use tantivy::columnar::ColumnIndex;

use super::context::Context;
use crate::mapping::{Field, FieldType};
use crate::partition::{Kind, Target};
use crate::query::limits;

/// A field that the mapping has and the index holds.
#[derive(Clone, Copy)]
pub(crate) struct Resolved<'a> {
    /// Its path; of an alias, the path that it stands for.
    pub path: &'a str,
    pub field: &'a Field,
    pub target: &'a Target,
}

impl<'a> Context<'a> {
    /// The field of a name; none where it is not mapped or holds nothing that can be asked.
    pub(crate) fn resolve(&self, name: &str) -> Option<Resolved<'a>> {
        let field = self.view.mapping().searched_field(name)?;
        let target = self.view.layout().target(field.path())?;
        Some(Resolved { path: field.path(), field, target })
    }

    /// The fields that a list of names and patterns means, with their boosts; none: all fields
    /// that a text can be asked of. The flag tells whether a pattern was used, which makes values
    /// that do not fit a field no error.
    pub(crate) fn expand(&self, names: &[(String, f32)]) -> (Vec<(String, f32)>, bool) {
        let mut found: Vec<(String, f32)> = Vec::new();
        let mut has_pattern = false;
        let all = [("*".to_owned(), 1.0)];
        for (name, boost) in if names.is_empty() { &all[..] } else { names } {
            if !name.contains('*') {
                push(&mut found, name, *boost);
                continue;
            }
            has_pattern = true;
            for path in self.view.mapping().paths(name) {
                let Some(resolved) = self.resolve(path) else { continue };
                let is_askable = resolved.field.is_indexed()
                    && !matches!(resolved.target.kind, Kind::GeoPoint { .. } | Kind::Binary)
                    && resolved.field.field_type() != FieldType::Alias;
                if is_askable && found.len() < limits::FIELD_COUNT_MAX {
                    push(&mut found, path, *boost);
                }
            }
        }
        (found, has_pattern)
    }

    /// The documents that have a text, deleted ones included: Lucene's count of documents.
    pub(crate) fn doc_count(&self, target: &Target) -> u64 {
        let searcher = self.view.searcher();
        let term = self.view.layout().exists_term(target);
        match searcher.doc_freq(&term) {
            Ok(0) | Err(_) => {
                let readers = searcher.segment_readers();
                readers.iter().map(|reader| u64::from(reader.max_doc())).sum()
            }
            Ok(count) => count,
        }
    }

    /// The documents that have a value in a column of strings or of whole numbers without sign,
    /// and how many values these are.
    pub(crate) fn column_counts(&self, target: &Target) -> (u64, u64) {
        let Some(name) = target.column.as_deref() else {
            let documents = self.doc_count(target);
            return (documents, documents);
        };
        let (mut documents, mut values) = (0, 0);
        for reader in self.view.searcher().segment_readers() {
            let fast = reader.fast_fields();
            let column = match fast.str(name) {
                Ok(Some(strings)) => Some(strings.ords().clone()),
                _ => fast.column_opt::<u64>(name).ok().flatten(),
            };
            let Some(column) = column else { continue };
            let count = column.values.num_vals();
            values += u64::from(count);
            documents += u64::from(match &column.index {
                ColumnIndex::Empty { .. } => 0,
                ColumnIndex::Full | ColumnIndex::Optional(_) => count,
                // One start for each document that has values, and the end.
                ColumnIndex::Multivalued(index) => {
                    index.get_start_index_column().num_vals().saturating_sub(1)
                }
            });
        }
        (documents, values)
    }
}

fn push(found: &mut Vec<(String, f32)>, name: &str, boost: f32) {
    match found.iter_mut().find(|(known, _)| known == name) {
        Some((_, known)) => *known = boost,
        None => found.push((name.to_owned(), boost)),
    }
}
