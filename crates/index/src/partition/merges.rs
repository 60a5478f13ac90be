//! Which segments are merged, and in the order of age: a merge keeps the order in which documents came.

use tantivy::index::{SegmentId, SegmentMeta};
use tantivy::indexer::{LogMergePolicy, MergeCandidate, MergePolicy};

use super::files::Files;
use super::order::names;

/// Segments to be merged, in the order of their age, in which their documents will follow each
/// other. Those that no commit has yet come last.
pub(super) fn sort_by_age(files: &Files, segments: &mut [SegmentId]) {
    let meta = files.meta().unwrap_or_default();
    // A table that cannot be read stops the commit itself; here it only costs the order.
    let names = names(&meta).unwrap_or_default();
    let place = |id: &SegmentId| names.iter().position(|name| *name == id.uuid_string());
    segments.sort_by_cached_key(|id| place(id).unwrap_or(names.len()));
}

/// Tantivy's choice of what to merge, merged in the order of age.
pub(super) struct MergesByAge {
    policy: LogMergePolicy,
    files: Files,
}

impl MergesByAge {
    /// Also merges what has lost more than `deleted_ratio` (0 to 1) of its documents.
    pub fn new(files: Files, deleted_ratio: f32) -> Self {
        let mut policy = LogMergePolicy::default();
        policy.set_del_docs_ratio_before_merge(deleted_ratio);
        Self { policy, files }
    }
}

impl std::fmt::Debug for MergesByAge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.policy.fmt(f)
    }
}

impl MergePolicy for MergesByAge {
    fn compute_merge_candidates(&self, segments: &[SegmentMeta]) -> Vec<MergeCandidate> {
        let mut candidates = self.policy.compute_merge_candidates(segments);
        for candidate in &mut candidates {
            sort_by_age(&self.files, &mut candidate.0);
        }
        candidates
    }
}
