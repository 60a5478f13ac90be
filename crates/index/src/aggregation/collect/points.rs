//! Points on the earth: bounds, centroids, and the cells of grids.

use tantivy::SegmentReader;

use super::collector::Env;
use super::collector::{Batch, Collector};
use super::values::{PointColumns, open_point, wrong_type};
use crate::Error;
use crate::aggregation::fields::{Field, FieldKind};
use crate::aggregation::geo;
use crate::aggregation::partial::{Key, Partial, Print};
use crate::aggregation::request::{GeoGrid, Metric, Source};
use crate::geo::cells;

/// Reads a field's points.
#[derive(Default)]
pub(super) struct PointReader {
    field: Option<Field>,
    columns: Option<PointColumns>,
}

impl PointReader {
    /// # Errors
    /// 400 where the field holds no points; a field that is not mapped has none.
    pub(super) fn new(env: &Env<'_>, path: &str, kind: &str) -> Result<Self, Error> {
        let field = env.fields.field(path);
        if let Some(field) = &field {
            field.column()?;
            if field.kind != FieldKind::GeoPoint {
                return Err(wrong_type(field, kind));
            }
        }
        Ok(Self { field, columns: None })
    }

    pub(super) fn segment(&mut self, segment: &SegmentReader) -> Result<(), Error> {
        self.columns = match &self.field {
            Some(field) => open_point(segment, field)?,
            None => None,
        };
        Ok(())
    }

    /// Calls `each` with position, latitude and longitude of every point.
    pub(super) fn each(&self, batch: &Batch, mut each: impl FnMut(usize, f64, f64)) {
        let Some((latitudes, longitudes)) = &self.columns else { return };
        for (position, doc) in batch.docs.iter().enumerate() {
            for (latitude, longitude) in
                latitudes.values_for_doc(*doc).zip(longitudes.values_for_doc(*doc))
            {
                each(position, latitude, longitude);
            }
        }
    }
}

/// `geo_bounds` and `geo_centroid`.
pub(super) struct Points {
    reader: PointReader,
    is_bounds: bool,
    bounds: Vec<Option<[f64; 4]>>,
    sums: Vec<(f64, f64, u64)>,
    accounted: usize,
}

impl Points {
    pub(super) fn new(env: &Env<'_>, metric: &Metric, source: &Source) -> Result<Self, Error> {
        let is_bounds = matches!(metric, Metric::GeoBounds);
        let kind = if is_bounds { "geo_bounds" } else { "geo_centroid" };
        Ok(Self {
            reader: PointReader::new(env, &source.field, kind)?,
            is_bounds,
            bounds: Vec::new(),
            sums: Vec::new(),
            accounted: 0,
        })
    }

    pub(super) fn each(&self, batch: &Batch, each: impl FnMut(usize, f64, f64)) {
        self.reader.each(batch, each);
    }
}

impl Collector for Points {
    fn segment(&mut self, _: &Env<'_>, segment: &SegmentReader) -> Result<(), Error> {
        self.reader.segment(segment)
    }

    fn collect(&mut self, env: &Env<'_>, batch: &Batch) -> Result<(), Error> {
        let wanted = batch.buckets.iter().max().map_or(0, |max| *max as usize + 1);
        if self.is_bounds && self.bounds.len() < wanted {
            self.bounds.resize(wanted, None);
        } else if !self.is_bounds && self.sums.len() < wanted {
            self.sums.resize(wanted, (0.0, 0.0, 0));
        }
        let (bounds, sums) = (&mut self.bounds, &mut self.sums);
        let is_bounds = self.is_bounds;
        self.reader.each(batch, |position, latitude, longitude| {
            let bucket = batch.buckets[position] as usize;
            if is_bounds {
                let bounds =
                    bounds[bucket].get_or_insert([latitude, longitude, latitude, longitude]);
                bounds[0] = bounds[0].max(latitude);
                bounds[1] = bounds[1].min(longitude);
                bounds[2] = bounds[2].min(latitude);
                bounds[3] = bounds[3].max(longitude);
            } else {
                let sum = &mut sums[bucket];
                sum.0 += latitude;
                sum.1 += longitude;
                sum.2 += 1;
            }
        });
        let now = self.bounds.capacity() * size_of::<Option<[f64; 4]>>()
            + self.sums.capacity() * size_of::<(f64, f64, u64)>();
        env.account.adjust(&mut self.accounted, now)
    }

    fn result(&mut self, _: &Env<'_>, bucket: u32) -> Result<Partial, Error> {
        let at = bucket as usize;
        Ok(if self.is_bounds {
            Partial::GeoBounds(self.bounds.get(at).copied().flatten())
        } else {
            let (latitude, longitude, count) = self.sums.get(at).copied().unwrap_or_default();
            Partial::GeoCentroid { latitude, longitude, count }
        })
    }
}

/// Reads points as the cells of a grid that hold them.
#[derive(Default)]
pub(super) struct Cells {
    reader: PointReader,
    tiles: bool,
    precision: u8,
    bounds: Option<[f64; 4]>,
    /// Of the last batch: positions and as many cells; a position has no cell twice.
    pub(super) positions: Vec<u32>,
    pub(super) keys: Vec<u64>,
}

impl Cells {
    pub(super) fn new(env: &Env<'_>, grid: &GeoGrid) -> Result<Self, Error> {
        let kind = if grid.tiles { "geotile_grid" } else { "geohash_grid" };
        Ok(Self {
            reader: PointReader::new(env, &grid.field, kind)?,
            tiles: grid.tiles,
            precision: grid.precision,
            bounds: grid.bounds,
            positions: Vec::new(),
            keys: Vec::new(),
        })
    }

    pub(super) fn segment(&mut self, segment: &SegmentReader) -> Result<(), Error> {
        self.reader.segment(segment)
    }

    pub(super) fn read(&mut self, batch: &Batch) {
        self.positions.clear();
        self.keys.clear();
        let (positions, keys) = (&mut self.positions, &mut self.keys);
        self.reader.each(batch, |position, latitude, longitude| {
            if self.bounds.is_some_and(|bounds| !geo::box_holds(&bounds, latitude, longitude)) {
                return;
            }
            let key = if self.tiles {
                cells::tile_key(latitude, longitude, self.precision)
            } else {
                cells::hash_key(latitude, longitude, self.precision)
            };
            // A batch's positions fit into 32 bits.
            let position = u32::try_from(position).unwrap_or(u32::MAX);
            let own = positions.iter().rev().take_while(|other| **other == position).count();
            if !keys[keys.len() - own..].contains(&key) {
                positions.push(position);
                keys.push(key);
            }
        });
    }

    pub(super) fn names(&self, keys: &[u64]) -> Vec<Key> {
        let text = |key: &u64| {
            if self.tiles { cells::tile_text(*key) } else { cells::hash_text(*key, self.precision) }
        };
        keys.iter().map(|key| Key::Str(text(key))).collect()
    }

    pub(super) fn print(&self) -> Print {
        if self.tiles { Print::Tile } else { Print::Geohash }
    }
}
