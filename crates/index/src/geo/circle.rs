//! Whether places are within a distance of one: what a query asks of every document.

use super::EARTH_RADIUS_M;
use super::point::GeoPoint;

/// A ready test of whether places are within a distance: most are decided by a box.
#[derive(Clone, Copy, Debug)]
pub struct Circle {
    center: GeoPoint,
    cos_center: f64,
    distance_m: f64,
    /// The largest haversine (sin² of half the angle) that is inside.
    haversine_max: f64,
    lat_min: f64,
    lat_max: f64,
    lon_delta: f64,
}

impl Circle {
    /// The places within a distance of one.
    #[must_use]
    pub fn new(center: GeoPoint, distance_m: f64) -> Self {
        let angle = distance_m / EARTH_RADIUS_M;
        let half = (angle / 2.0).min(std::f64::consts::FRAC_PI_2).sin();
        let lat_delta = angle.to_degrees() * (1.0 + 1e-9) + 1e-9;
        let touches_pole = center.lat + lat_delta >= 90.0 || center.lat - lat_delta <= -90.0;
        let ratio = angle.sin() / center.lat.to_radians().cos();
        let lon_delta = if touches_pole || angle >= std::f64::consts::FRAC_PI_2 || ratio >= 1.0 {
            360.0
        } else {
            ratio.asin().to_degrees() * (1.0 + 1e-9) + 1e-9
        };
        Self {
            center,
            cos_center: center.lat.to_radians().cos(),
            distance_m,
            haversine_max: half * half,
            lat_min: center.lat - lat_delta,
            lat_max: center.lat + lat_delta,
            lon_delta,
        }
    }

    /// Whether a place is inside.
    #[must_use]
    #[inline]
    pub fn contains(&self, lat: f64, lon: f64) -> bool {
        if lat < self.lat_min || lat > self.lat_max {
            return false;
        }
        let mut lon_distance = (lon - self.center.lon).abs();
        if lon_distance > 180.0 {
            lon_distance = 360.0 - lon_distance;
        }
        if lon_distance > self.lon_delta {
            return false;
        }
        if self.distance_m >= EARTH_RADIUS_M * std::f64::consts::PI {
            return true;
        }
        let half_lat = ((lat - self.center.lat).to_radians() * 0.5).sin();
        let half_lon = (lon_distance.to_radians() * 0.5).sin();
        let h =
            half_lat * half_lat + lat.to_radians().cos() * self.cos_center * half_lon * half_lon;
        h <= self.haversine_max
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::geo::distance_m;

    proptest! {
        #[test]
        fn the_circle_agrees_with_the_distance(
            lat in -90.0f64..90.0, lon in -180.0f64..180.0,
            clat in -90.0f64..90.0, clon in -180.0f64..180.0, distance in 1.0f64..2e7,
        ) {
            let center = GeoPoint { lat: clat, lon: clon };
            let true_m = distance_m(center, GeoPoint { lat, lon });
            let inside = Circle::new(center, distance).contains(lat, lon);
            if (true_m - distance).abs() > 1.0 {
                prop_assert_eq!(inside, true_m <= distance);
            }
        }
    }
}
