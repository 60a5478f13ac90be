//! What a search reads: the documents of one refresh.

use std::sync::Arc;

use tantivy::Searcher;

use super::bounds::Bounds;
use super::layout::{Layout, Target};
use crate::mapping::Mapping;

/// The documents of a partition as of one refresh. Cheap to clone; what it reads does not change.
#[derive(Clone)]
pub struct View {
    searcher: Searcher,
    layout: Arc<Layout>,
    bounds: Arc<Bounds>,
    mapping: Mapping,
    position: u64,
}

impl View {
    pub(super) fn new(
        searcher: Searcher,
        layout: Arc<Layout>,
        bounds: Arc<Bounds>,
        mapping: Mapping,
        position: u64,
    ) -> Self {
        Self { searcher, layout, bounds, mapping, position }
    }

    /// Reads the segments.
    #[must_use]
    pub fn searcher(&self) -> &Searcher {
        &self.searcher
    }

    /// What is known of columns.
    #[must_use]
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Where the fields are.
    #[must_use]
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// What the fields are.
    #[must_use]
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// The position that was given to the refresh.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Where a path's values are; an alias is followed.
    #[must_use]
    pub fn target(&self, path: &str) -> Option<&Target> {
        match self.mapping.field(path) {
            Some(field) => self.layout.target(field.path()),
            None => self.layout.target(path),
        }
    }
}
