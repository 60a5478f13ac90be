//! Filters on geo points: within a distance, within a box.

use std::ops::Range;

use tantivy::columnar::ColumnIndex;
use tantivy::{DocId, SegmentReader};

use super::column::Points;
use super::filter::{Filter, Matches, SegmentFilter};
use crate::geo::circle::Circle;
use crate::partition::Target;

/// Where points have to be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Area {
    Circle(Circle),
    /// `left` is more than `right` where the box crosses the date line.
    Box {
        top: f64,
        left: f64,
        bottom: f64,
        right: f64,
    },
}

impl Area {
    #[inline]
    fn contains(&self, lat: f64, lon: f64) -> bool {
        match self {
            Self::Circle(circle) => circle.contains(lat, lon),
            Self::Box { top, left, bottom, right } => {
                lat <= *top
                    && lat >= *bottom
                    && if left <= right {
                        lon >= *left && lon <= *right
                    } else {
                        lon >= *left || lon <= *right
                    }
            }
        }
    }
}

/// Points inside an area.
#[derive(Clone, Debug)]
pub(crate) struct Inside {
    pub target: Target,
    pub area: Area,
}

impl Filter for Inside {
    fn segment(&self, reader: &SegmentReader) -> tantivy::Result<Matches> {
        Ok(match Points::open(reader, &self.target)? {
            Some(points) => {
                let scratch = Box::new([[0.0; SCRATCH]; 2]);
                Matches::Filter(Box::new(SegmentInside { points, area: self.area, scratch }))
            }
            None => Matches::None,
        })
    }
}

const SCRATCH: usize = 256;

struct SegmentInside {
    points: Points,
    area: Area,
    scratch: Box<[[f64; SCRATCH]; 2]>,
}

impl SegmentFilter for SegmentInside {
    fn matches(&mut self, doc: DocId) -> bool {
        self.points.of(doc).any(|(lat, lon)| self.area.contains(lat, lon))
    }

    fn collect(&mut self, window: Range<DocId>, out: &mut Vec<DocId>) {
        if !matches!(self.points.latitude.index, ColumnIndex::Full) {
            for doc in window {
                if self.matches(doc) {
                    out.push(doc);
                }
            }
            return;
        }
        let mut start = window.start;
        while start < window.end {
            let length = usize::try_from(window.end - start).unwrap_or(SCRATCH).min(SCRATCH);
            let [lats, lons] = self.scratch.as_mut();
            let (lats, lons) = (&mut lats[..length], &mut lons[..length]);
            self.points.latitude.values.get_range(u64::from(start), lats);
            self.points.longitude.values.get_range(u64::from(start), lons);
            for ((doc, lat), lon) in (start..).zip(lats.iter()).zip(lons.iter()) {
                if self.area.contains(*lat, *lon) {
                    out.push(doc);
                }
            }
            start += u32::try_from(length).unwrap_or(u32::MAX);
        }
    }

    fn cost(&self) -> u64 {
        8
    }
}
