//! The index of one partition as its owner works with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_base::Disk;
use tantivy::index::SegmentId;
use tantivy::indexer::{IndexWriterOptions, MergePolicy as _, NoMergePolicy, UserOperation};
use tantivy::query::{BooleanQuery, Occur, Query, TermQuery};
use tantivy::schema::IndexRecordOption;
use tantivy::{Index, IndexReader, IndexWriter, Term};

use super::IndexError;
use super::bounds::Bounds;
use super::files::{self, Files};
use super::layout::Layout;
use super::merges::{self, MergesByAge};
use super::meta::{self, Payload};
use super::opening::open_index;
use super::options::{Grown, IndexStatistics, Options};
use super::record::Record;
use super::sink::RecordSink;
use super::view::View;
use crate::document;
use crate::mapping::{FieldType, Mapping};

/// So many operations go to the writer's thread at once.
const BATCH_OPERATIONS: usize = 128;
/// After so many refreshes without a change the writer is let go, with its threads and memory.
const IDLE_REFRESHES: u32 = 3;
/// The least that Tantivy works with.
const WRITER_BYTES_MIN: usize = 15_000_000;

/// Checks the durable files of an index by their checksums, one at a time.
pub struct Checker(Files);

impl Checker {
    /// The names of the files that are to be checked.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        self.0.persisted()
    }

    /// Reads a file whole, unless it is no longer needed; `pace` is given the bytes of each block
    /// and says whether to go on. False where it said no.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] where it is not what was written, [`IndexError::Io`] where it
    /// cannot be read now.
    pub fn check(
        &self,
        file: &Path,
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool, IndexError> {
        self.0.check(file, pace)
    }
}

/// The index of one partition. One owner puts, refreshes and persists; views can be searched by
/// any thread at any time.
pub struct PartitionIndex {
    files: Files,
    options: Options,
    mapping: Mapping,
    layout: Arc<Layout>,
    bounds: Arc<Bounds>,
    index: Index,
    reader: IndexReader,
    writer: Option<IndexWriter<Record>>,
    batch: Vec<UserOperation<Record>>,
    /// Operations since the last commit.
    dirty: bool,
    /// Whether there ever was a document whose key is not its id.
    routed: bool,
    /// The fields that every document has.
    constants: Vec<usize>,
    persisted: u64,
    /// The position of the last refresh.
    refreshed: u64,
    /// The `meta.json` of the last refresh, where there was a commit since that no refresh asked
    /// for.
    behind: Option<Vec<u8>>,
    /// `Files::meta_writes` when the reader was loaded.
    loaded: u64,
    commits: u64,
    idle_refreshes: u32,
    statistics: IndexStatistics,
}

impl PartitionIndex {
    /// Opens the index in a folder, as it was persisted last; makes an empty one where there is
    /// none. The mapping may have grown since.
    ///
    /// # Errors
    /// Where [`IndexError::is_damage`]: [`Self::destroy`] it, open it again and put all documents
    /// in. Any other: open it again later.
    pub fn open(
        disk: &Disk,
        dir: &Path,
        mapping: &Mapping,
        options: Options,
    ) -> Result<Self, IndexError> {
        let files = Files::open(disk, dir)?;
        let persisted = files.meta().map(|meta| Payload::of(&meta)).transpose()?;
        let payload = persisted.unwrap_or_else(|| Payload::new(0, false, &[]));
        let layout = Layout::new(mapping, &payload.slots).map_err(|_| IndexError::NeedsRebuild)?;
        let layout = Arc::new(layout);
        let (index, reader) = open_index(&files, &layout, &payload, &options)?;
        Ok(Self {
            constants: constants(mapping),
            mapping: mapping.clone(),
            loaded: files.meta_writes(),
            files,
            options,
            layout,
            bounds: Arc::default(),
            index,
            reader,
            writer: None,
            batch: Vec::new(),
            dirty: false,
            routed: payload.routed,
            persisted: payload.position,
            refreshed: payload.position,
            behind: None,
            commits: 0,
            idle_refreshes: 0,
            statistics: IndexStatistics::default(),
        })
    }

    /// Deletes the index in a folder, and the folder.
    ///
    /// # Errors
    /// [`IndexError::Io`].
    pub fn destroy(disk: &Disk, dir: &Path) -> Result<(), IndexError> {
        match disk.remove_dir(dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Gives what is durable of the index in a folder, which nobody has open, another position: it came
    /// from where positions are others. An index of position 0 keeps it, since its documents are to be
    /// put in anew, and where there is none, nothing is done. May be called again.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn set_position(disk: &Disk, dir: &Path, position: u64) -> Result<(), IndexError> {
        let Some(meta) = files::read_meta(disk, dir)? else { return Ok(()) };
        let payload = Payload::of(&meta)?;
        if payload.position == 0 || payload.position == position {
            return Ok(());
        }
        let payload = Payload::new(position, payload.routed, &payload.slots);
        files::write_meta(disk, dir, &meta::changed(&meta, &payload, None)?)
    }

    /// What checks the files of this index beside its owner.
    #[must_use]
    pub fn checker(&self) -> Checker {
        Checker(self.files.clone())
    }

    /// Whether a checker is this index' own, and not that of one that was in its folder before.
    #[must_use]
    pub fn owns(&self, checker: &Checker) -> bool {
        self.files.is_same(&checker.0)
    }

    /// The position of the last refresh that is durable; 0 for a new index.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.persisted
    }

    /// The documents of the last refresh; after opening, of the last persisted one.
    #[must_use]
    pub fn view(&self) -> View {
        let searcher = self.reader.searcher();
        let (layout, bounds) = (Arc::clone(&self.layout), Arc::clone(&self.bounds));
        View::new(searcher, layout, bounds, self.mapping.clone(), self.refreshed)
    }

    /// Goes on by another mapping. Documents put before keep what they were indexed with.
    ///
    /// # Errors
    /// See [`IndexError`].
    pub fn set_mapping(&mut self, mapping: &Mapping) -> Result<Grown, IndexError> {
        let Ok(layout) = Layout::new(mapping, self.layout.slots()) else {
            return Ok(Grown::NeedsRebuild);
        };
        let layout = Arc::new(layout);
        let grown = if layout.slots().len() > self.layout.slots().len() {
            self.reopen(&layout)?;
            Grown::Extended
        } else {
            Grown::Same
        };
        self.constants = constants(mapping);
        self.mapping = mapping.clone();
        self.layout = layout;
        Ok(grown)
    }

    /// Puts the document `id` of the hash key `key` in, in place of the one that is there. With
    /// `is_new` the caller knows that there is none since the index was empty, which is faster.
    /// The document is visible after the next refresh.
    ///
    /// # Errors
    /// See [`IndexError`]. A source that the mapping cannot parse is no error: the document is
    /// then found by its id alone, and counted.
    pub fn put(
        &mut self,
        key: &[u8],
        id: &str,
        source: &[u8],
        is_new: bool,
    ) -> Result<(), IndexError> {
        if !is_new {
            self.delete(key, id)?;
        }
        let mut sink = RecordSink::new(&self.layout, key, id);
        if document::index(&self.mapping, id, source, &mut sink).is_err() {
            sink = RecordSink::new(&self.layout, key, id);
            self.statistics.unparsed += 1;
        }
        for ordinal in &self.constants {
            sink.constant(self.mapping.by_ordinal(*ordinal));
        }
        let record = sink.record;
        self.routed |= key != id.as_bytes();
        self.statistics.puts += 1;
        self.push(UserOperation::Add(record))
    }

    /// Deletes a document, if it is there.
    ///
    /// # Errors
    /// See [`IndexError`].
    pub fn delete(&mut self, key: &[u8], id: &str) -> Result<(), IndexError> {
        let by_id = Term::from_field_text(self.layout.id_field(), id);
        if key == id.as_bytes() && !self.routed {
            return self.push(UserOperation::Delete(by_id));
        }
        let by_key = if key == id.as_bytes() {
            // A document of the same id that has a key of its own is another one.
            (Occur::MustNot, self.any_key())
        } else {
            (Occur::Must, term(Term::from_field_bytes(self.layout.key_field(), key)))
        };
        self.delete_by(vec![(Occur::Must, term(by_id)), by_key])
    }

    /// Deletes all documents of a hash key.
    ///
    /// # Errors
    /// See [`IndexError`].
    pub fn delete_key(&mut self, key: &[u8]) -> Result<(), IndexError> {
        if self.routed {
            let by_key = Term::from_field_bytes(self.layout.key_field(), key);
            self.push(UserOperation::Delete(by_key))?;
        }
        match std::str::from_utf8(key) {
            Ok(id) => self.delete(key, id),
            Err(_) => Ok(()),
        }
    }

    /// Deletes all documents.
    ///
    /// # Errors
    /// See [`IndexError`].
    pub fn delete_all(&mut self) -> Result<(), IndexError> {
        self.batch.clear();
        // The writer's own way forgets operations of before and after; a query does not.
        let query: Box<dyn Query> = Box::new(tantivy::query::AllQuery);
        self.flush()?;
        self.writer()?.delete_query(query)?;
        self.dirty = true;
        Ok(())
    }

    /// Makes everything put and deleted so far visible, as of `position`. Nothing is durable yet.
    ///
    /// # Errors
    /// See [`IndexError`].
    pub fn refresh(&mut self, position: u64) -> Result<View, IndexError> {
        self.flush()?;
        if self.dirty {
            self.commit()?;
            self.idle_refreshes = 0;
        } else {
            self.idle_refreshes = self.idle_refreshes.saturating_add(1);
            if self.idle_refreshes >= IDLE_REFRESHES && !self.files.is_writing() {
                self.release();
            }
        }
        let writes = self.files.meta_writes();
        if writes != self.loaded || self.behind.is_some() {
            self.reader.reload()?;
            self.loaded = writes;
            self.behind = None;
            self.files.capture()?;
            self.statistics.refreshes += 1;
        }
        // Many that are made one after the other would have one each until it had rested.
        if self.writer.is_some()
            && self.reader.searcher().num_docs() == 0
            && !self.files.is_writing()
        {
            self.release();
        }
        self.refreshed = position;
        Ok(self.view())
    }

    /// Makes the last refresh durable and gives its position.
    ///
    /// # Errors
    /// See [`IndexError`]; what was durable before still is.
    pub fn persist(&mut self) -> Result<u64, IndexError> {
        let meta = match &self.behind {
            Some(meta) => meta.clone(),
            None => self.files.capture()?,
        };
        let slots = match &self.behind {
            Some(meta) => Payload::of(meta)?.slots,
            None => self.layout.slots().to_vec(),
        };
        // The position may have moved without a commit, and so may `routed`, which is harmless.
        let payload = Payload::new(self.refreshed, self.routed, &slots);
        let meta = meta::changed(&meta, &payload, None)?;
        self.files.persist(&meta)?;
        self.persisted = self.refreshed;
        Ok(self.persisted)
    }

    /// Makes the folder `dir` an index of what was persisted last: hard links where the file system
    /// allows it. Blocks.
    ///
    /// # Errors
    /// [`IndexError::Io`], also where nothing was persisted yet; `dir` is then not to be used.
    pub fn link(&self, dir: &Path) -> Result<(), IndexError> {
        Ok(self.files.link(dir)?)
    }

    /// Merges the segments until there are no more than `max_segments`, and forgets deleted
    /// documents. Takes long, and blocks. The next refresh shows the result.
    ///
    /// # Errors
    /// See [`IndexError`].
    pub fn force_merge(&mut self, max_segments: usize) -> Result<(), IndexError> {
        self.commit_unasked()?;
        // Merges that run are let finish, and no others started, so that no segment is in two.
        self.writer()?;
        if let Some(writer) = self.writer.take() {
            writer.set_merge_policy(Box::new(NoMergePolicy));
            writer.wait_merging_threads()?;
        }
        let mut segments = self.index.searchable_segment_metas()?;
        segments.sort_by_key(|segment| segment.num_docs());
        let max_segments = max_segments.max(1);
        let has_deleted = segments.iter().any(|segment| segment.has_deletes());
        if segments.len() <= max_segments && !(has_deleted && max_segments == 1) {
            return Ok(());
        }
        let count = if segments.len() > max_segments {
            segments.len() - max_segments + 1
        } else {
            segments.len()
        };
        let mut smallest: Vec<SegmentId> =
            segments.iter().take(count).map(|segment| segment.id()).collect();
        merges::sort_by_age(&self.files, &mut smallest);
        // What is merged away is deleted only when nobody holds its description.
        drop(segments);
        let mut writer = self.new_writer()?;
        writer.set_merge_policy(Box::new(NoMergePolicy));
        writer.merge(&smallest).wait()?;
        writer.wait_merging_threads()?;
        Ok(())
    }

    /// Counts, as of now.
    #[must_use]
    pub fn statistics(&self) -> IndexStatistics {
        let searcher = self.reader.searcher();
        let deleted =
            searcher.segment_readers().iter().map(|segment| u64::from(segment.num_deleted_docs()));
        IndexStatistics {
            docs: searcher.num_docs(),
            deleted: deleted.sum(),
            segments: searcher.segment_readers().len() as u64,
            bytes: self.files.bytes_by_part(),
            merges: self.files.meta_writes().saturating_sub(self.commits),
            writing: self.files.is_writing(),
            has_writer: self.writer.is_some(),
            ..self.statistics.clone()
        }
    }

    /// Lets the writer go, with its threads and memory, where nothing waits for a refresh. Merges
    /// that run are given up. The next put makes a new one.
    pub fn release(&mut self) {
        if !self.dirty && self.batch.is_empty() && self.writer.is_some() {
            // The thread that ends a merge outlives its writer, and would name what is swept here.
            self.files.end_generation();
            self.writer = None;
            self.files.sweep(true);
        }
    }

    /// A query for documents whose key is not their id.
    fn any_key(&self) -> Box<dyn Query> {
        Box::new(tantivy::query::TermQuery::new(
            self.layout.routed_term(),
            IndexRecordOption::Basic,
        ))
    }

    fn delete_by(&mut self, clauses: Vec<(Occur, Box<dyn Query>)>) -> Result<(), IndexError> {
        self.flush()?;
        self.writer()?.delete_query(Box::new(BooleanQuery::new(clauses)))?;
        self.dirty = true;
        Ok(())
    }

    fn push(&mut self, operation: UserOperation<Record>) -> Result<(), IndexError> {
        self.dirty = true;
        self.batch.push(operation);
        if self.batch.len() >= BATCH_OPERATIONS { self.flush() } else { Ok(()) }
    }

    /// Gives the operations that wait to the writer.
    fn flush(&mut self) -> Result<(), IndexError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH_OPERATIONS));
        self.writer()?.run(batch)?;
        Ok(())
    }

    fn writer(&mut self) -> Result<&mut IndexWriter<Record>, IndexError> {
        if self.writer.is_none() {
            self.writer = Some(self.new_writer()?);
        }
        self.writer.as_mut().ok_or_else(|| IndexError::Corrupt("no writer".to_owned()))
    }

    fn new_writer(&self) -> Result<IndexWriter<Record>, IndexError> {
        let options = IndexWriterOptions::builder()
            .num_worker_threads(1)
            .memory_budget_per_thread(self.options.writer_bytes.max(WRITER_BYTES_MIN))
            .num_merge_threads(self.options.merge_threads.max(1))
            .build();
        // By a generation of its own, which ends with it. The reader's goes on reading.
        let mut index = Index::open(self.files.next_generation()?)?;
        index.set_tokenizers(self.index.tokenizers().clone());
        let writer = index.writer_with_options(options)?;
        // The first operation of a new writer would have the number of the last commit. A merge
        // that starts before the next commit then takes a delete of that number for done with in
        // the segments that the commit changed and for to be done in the others, and the merged
        // segment for all done. An empty run uses the number up.
        writer.run(Vec::new())?;
        writer.set_merge_policy(if self.options.merges_in_step {
            Box::new(NoMergePolicy)
        } else {
            Box::new(self.merges())
        });
        Ok(writer)
    }

    fn commit(&mut self) -> Result<(), IndexError> {
        let payload = Payload::new(self.refreshed, self.routed, self.layout.slots()).to_text();
        let mut prepared = self.writer()?.prepare_commit()?;
        prepared.set_payload(&payload);
        prepared.commit()?;
        self.commits += 1;
        self.dirty = false;
        if self.options.merges_in_step { self.merge_in_step() } else { Ok(()) }
    }

    /// Which segments are merged.
    fn merges(&self) -> MergesByAge {
        MergesByAge::new(self.files.clone(), 0.3)
    }

    /// Merges now what a thread would merge some time.
    fn merge_in_step(&mut self) -> Result<(), IndexError> {
        let mut segments = self.index.searchable_segment_metas()?;
        let mut ages: Vec<SegmentId> = segments.iter().map(|segment| segment.id()).collect();
        merges::sort_by_age(&self.files, &mut ages);
        segments.sort_by_key(|segment| ages.iter().position(|id| *id == segment.id()));
        let candidates = self.merges().compute_merge_candidates(&segments);
        // What is merged away is deleted only when nobody holds its description.
        drop(segments);
        for candidate in candidates {
            self.writer()?.merge(&candidate.0).wait()?;
        }
        Ok(())
    }

    /// Commits what waits although no refresh asked for it: it is not persisted before one does.
    fn commit_unasked(&mut self) -> Result<(), IndexError> {
        self.flush()?;
        if self.dirty {
            if self.behind.is_none() {
                self.behind = Some(self.files.capture()?);
            }
            self.commit()?;
        }
        Ok(())
    }

    /// Opens the index again with a schema that has more fields.
    fn reopen(&mut self, layout: &Arc<Layout>) -> Result<(), IndexError> {
        self.commit_unasked()?;
        // From here on the writer's threads can change nothing any more.
        self.files.end_generation();
        self.writer = None;
        let payload = Payload::new(self.refreshed, self.routed, layout.slots());
        let (index, reader) = open_index(&self.files, layout, &payload, &self.options)?;
        self.index = index;
        self.reader = reader;
        Ok(())
    }
}

fn term(term: Term) -> Box<dyn Query> {
    Box::new(TermQuery::new(term, IndexRecordOption::Basic))
}

fn constants(mapping: &Mapping) -> Vec<usize> {
    let constant =
        mapping.fields().filter(|field| field.field_type() == FieldType::ConstantKeyword);
    constant.filter(|field| field.constant().is_some()).map(|field| field.ordinal()).collect()
}

impl Drop for PartitionIndex {
    fn drop(&mut self) {
        // A merge may still run: it must not write where the index may be opened again.
        self.files.end_generation();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tantivy::Directory;

    use super::*;

    #[test]
    fn what_a_writer_left_running_changes_nothing_once_it_is_let_go() {
        let dir = tempfile::tempdir().unwrap();
        let mapping = Mapping::parse(&json!({ "properties": {} })).unwrap();
        let mut index =
            PartitionIndex::open(&Disk::of_the_machine(), dir.path(), &mapping, Options::default())
                .unwrap();
        index.put(b"1", "1", b"{}", true).unwrap();
        index.refresh(1).unwrap();
        // As the thread has it that ends a merge: it outlives the writer.
        let left = index.writer.as_ref().unwrap().index().directory().clone();
        index.release();
        let meta = index.files.meta().unwrap();
        assert!(left.atomic_write(Path::new("meta.json"), &meta).is_err());
        for name in meta::files(&meta).unwrap() {
            left.delete(&name).unwrap();
            assert!(dir.path().join(&name).exists(), "{}", name.display());
        }
        index.put(b"2", "2", b"{}", true).unwrap();
        assert_eq!(index.refresh(2).unwrap().searcher().num_docs(), 2);
    }
}
