//! What was found out about the values of columns, segment by segment: a segment's files do not change, so it holds as
//! long as the segment is there. What is found out, and what for, is `search`'s.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tantivy::Searcher;
use tantivy::index::SegmentId;

/// So many columns of segments are remembered; then those of other segments than are searched are forgotten, or all.
const COLUMNS_MAX: usize = 256;

/// A number for each range of documents of a segment, by the segment and by what tells the numbers apart.
type Kept = HashMap<(SegmentId, String), Arc<[u64]>>;

/// The bounds that an index remembers. 8 bytes for each range of a segment.
#[derive(Default)]
pub struct Bounds(Mutex<Kept>);

impl Bounds {
    /// The bounds of a segment's column, found out where they are not known; none where they could not be.
    pub fn of(
        &self,
        searcher: &Searcher,
        segment: SegmentId,
        column: &str,
        find: impl FnOnce() -> Option<Arc<[u64]>>,
    ) -> Option<Arc<[u64]>> {
        let key = (segment, column.to_owned());
        if let Some(known) = self.0.lock().get(&key) {
            return Some(Arc::clone(known));
        }
        // Others go on meanwhile.
        let found = find()?;
        let mut kept = self.0.lock();
        if kept.len() >= COLUMNS_MAX {
            let readers = searcher.segment_readers().iter();
            let there: HashSet<SegmentId> = readers.map(|reader| reader.segment_id()).collect();
            kept.retain(|(segment, _), _| there.contains(segment));
        }
        if kept.len() >= COLUMNS_MAX {
            kept.clear();
        }
        kept.insert(key, Arc::clone(&found));
        Some(found)
    }
}
