//! Lengths of texts (norms) for fields that are younger than their segments.
//!
//! Tantivy merges segments only if each has the norms of every field that keeps norms, and a
//! segment from before a field was added has none. So the segments' norm files get them: a zero
//! for each document, which is the length of a text that is not there. An old `meta.json` does
//! not know the field and does not read them, so that the order in which the disk gets both does
//! not matter.

use std::io::Write;
use std::path::PathBuf;

use tantivy::Directory;
use tantivy::directory::{CompositeFile, CompositeWrite, ManagedDirectory};
use tantivy::schema::{Field as Slot, Schema};

use super::IndexError;
use super::files::Files;
use super::meta;

/// Gives every segment that `meta` names the norms of all fields of `schema` that keep norms.
pub(super) fn grow(
    meta: &[u8],
    schema: &Schema,
    files: &Files,
    directory: &ManagedDirectory,
) -> Result<(), IndexError> {
    let wanted: Vec<Slot> = schema
        .fields()
        .filter(|(_, entry)| entry.is_indexed() && entry.has_fieldnorms())
        .map(|(slot, _)| slot)
        .collect();
    for segment in meta::segments(meta)? {
        let path = PathBuf::from(format!("{}.fieldnorm", segment.name));
        let file = directory.open_read(&path).map_err(tantivy::TantivyError::from)?;
        let norms = CompositeFile::open(&file)?;
        if wanted.iter().all(|slot| norms.open_read(*slot).is_some()) {
            continue;
        }
        let grown = PathBuf::from(format!("{}.grown", segment.name));
        let writer = directory.open_write(&grown).map_err(tantivy::TantivyError::from)?;
        let mut composite = CompositeWrite::wrap(writer);
        for slot in &wanted {
            let out = composite.for_field(*slot);
            match norms.open_read(*slot) {
                Some(old) => out.write_all(old.read_bytes()?.as_slice())?,
                None => {
                    let zeros = [0_u8; 4096];
                    let mut left = segment.docs;
                    while left > 0 {
                        let now = left.min(4096);
                        out.write_all(&zeros[..usize::try_from(now).unwrap_or(4096)])?;
                        left -= now;
                    }
                }
            }
        }
        composite.close()?;
        files.replace(&grown, &path)?;
    }
    Ok(())
}
