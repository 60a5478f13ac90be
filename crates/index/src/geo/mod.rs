//! Places on the earth: how far they are apart, how JSON spells them (`spelling`), the cells of a geohash or a
//! map that hold them (`cells`), and whether they are within a distance (`circle`).
//!
//! Which documents lie where is the query's and the aggregation's.

pub mod cells;
pub mod circle;
mod error;
mod point;
mod spelling;

pub use error::{DistanceError, OffEarth, PlaceError};
pub use point::GeoPoint;
pub use spelling::{parse_distance_m, parse_point, parse_points, unit_m};

/// The earth's mean radius in metres, as Lucene's `SloppyMath` and `GeoUtils` take it.
pub const EARTH_RADIUS_M: f64 = 6_371_008.771_4;

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
