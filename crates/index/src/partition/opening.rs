//! Opening Tantivy's index on the files of a partition.

use tantivy::tokenizer::RawTokenizer;
use tantivy::{Index, IndexReader, IndexSettings, ReloadPolicy};

use super::IndexError;
use super::files::{Files, FilesHandle};
use super::layout::{Kind, Layout};
use super::meta::{self, Payload};
use super::norms;
use super::options::Options;
use crate::analysis::IndexTokenizer;

/// Opens Tantivy's index with the schema of a layout, or makes it.
pub(super) fn open_index(
    files: &Files,
    layout: &Layout,
    payload: &Payload,
    options: &Options,
) -> Result<(Index, IndexReader), IndexError> {
    let handle: FilesHandle = files.next_generation()?;
    let payload = Payload::new(payload.position, payload.routed, layout.slots());
    let index = match files.meta() {
        Some(old) => {
            let meta = meta::changed(&old, &payload, Some(layout.schema()))?;
            files.set_meta(meta.clone());
            let index = Index::open(handle)?;
            norms::grow(&meta, layout.schema(), files, index.directory())?;
            index
        }
        None => {
            let settings = IndexSettings {
                docstore_compress_dedicated_thread: false,
                ..IndexSettings::default()
            };
            let index = Index::create(handle, layout.schema().clone(), settings)?;
            let meta =
                files.meta().ok_or_else(|| IndexError::Corrupt("no meta.json".to_owned()))?;
            files.set_meta(meta::changed(&meta, &payload, None)?);
            index
        }
    };
    for (_, target) in layout.targets() {
        if let Kind::Text { analyzer, .. } = &target.kind {
            let name = layout.schema().get_field_name(target.field);
            index.tokenizers().register(name, IndexTokenizer::new(analyzer.clone()));
        }
    }
    for slot in layout.unused_text_slots() {
        index.tokenizers().register(&slot, RawTokenizer::default());
    }
    let reader = index
        .reader_builder()
        .reload_policy(ReloadPolicy::Manual)
        .doc_store_cache_num_blocks(options.stored_blocks)
        .try_into()?;
    Ok((index, reader))
}
