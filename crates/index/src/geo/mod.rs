//! Places on the earth: how far they are apart, how JSON spells them (`spelling`), the cells of a geohash or a
//! map that hold them (`cells`), and whether they are within a distance (`circle`).
//!
//! Which documents lie where is the query's and the aggregation's.

pub mod cells;
pub mod circle;
mod error;
mod spelling;

pub use error::{DistanceError, OffEarth, PlaceError};
pub use spelling::{parse_distance_m, parse_point, parse_points};

/// The earth's mean radius in metres, as Lucene's `SloppyMath` and `GeoUtils` take it.
pub const EARTH_RADIUS_M: f64 = 6_371_008.771_4;

/// A place, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeoPoint {
    /// -90 to 90, north positive.
    pub lat: f64,
    /// -180 to 180, east positive.
    pub lon: f64,
}

impl GeoPoint {
    /// Whether it is on earth.
    ///
    /// # Errors
    /// Which coordinate is not.
    pub fn check(self) -> Result<(), OffEarth> {
        if !(-90.0..=90.0).contains(&self.lat) {
            return Err(OffEarth::Latitude(self.lat));
        }
        if !(-180.0..=180.0).contains(&self.lon) {
            return Err(OffEarth::Longitude(self.lon));
        }
        Ok(())
    }
}

/// The distance of two places in metres, by the haversine formula.
#[must_use]
pub fn distance_m(a: GeoPoint, b: GeoPoint) -> f64 {
    let (lat_a, lat_b) = (a.lat.to_radians(), b.lat.to_radians());
    let half_lat = ((lat_b - lat_a) * 0.5).sin();
    let half_lon = ((b.lon - a.lon).to_radians() * 0.5).sin();
    let h = half_lat * half_lat + lat_a.cos() * lat_b.cos() * half_lon * half_lon;
    2.0 * EARTH_RADIUS_M * h.min(1.0).sqrt().asin()
}

/// The distance of two places in metres, as if the earth were flat between them: wrong where they are far
/// apart or near a pole, and cheaper.
#[must_use]
pub fn plane_distance_m(a: GeoPoint, b: GeoPoint) -> f64 {
    let down = (b.lat - a.lat).to_radians();
    let across = (b.lon - a.lon).to_radians() * f64::midpoint(a.lat, b.lat).to_radians().cos();
    EARTH_RADIUS_M * down.hypot(across)
}

/// The metres of a unit of distance.
#[must_use]
pub fn unit_m(unit: &str) -> Option<f64> {
    Some(match unit {
        "in" | "inch" => 0.0254,
        "yd" | "yards" => 0.9144,
        "ft" | "feet" => 0.3048,
        "km" | "kilometers" => 1000.0,
        "NM" | "nmi" | "nauticalmiles" => 1852.0,
        "mm" | "millimeters" => 0.001,
        "cm" | "centimeters" => 0.01,
        "mi" | "miles" => 1609.344,
        "m" | "meters" => 1.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_degree_of_latitude_is_111_kilometres() {
        let (from, to) = (GeoPoint { lat: 0.0, lon: 0.0 }, GeoPoint { lat: 1.0, lon: 0.0 });
        assert!((distance_m(from, to) - 111_195.08).abs() < 0.1);
        assert!((plane_distance_m(from, to) - 111_195.08).abs() < 0.1);
    }

    #[test]
    fn what_is_not_on_earth_is_named() {
        let check = |lat, lon| GeoPoint { lat, lon }.check().map_err(|error| error.to_string());
        assert_eq!(check(90.0, -180.0), Ok(()));
        assert_eq!(check(91.0, 0.0).unwrap_err(), "illegal latitude value [91.0]");
        assert_eq!(check(0.0, 180.5).unwrap_err(), "illegal longitude value [180.5]");
        assert!(check(f64::NAN, 0.0).is_err());
    }
}
