//! A place, and whether it is on earth. How it is spelt is `spelling`'s.

use super::error::OffEarth;

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
