//! What aggregations say of places: a place as an origin, a box, how fine a geohash is to be.

use serde_json::Value;

use crate::geo::{EARTH_RADIUS_M, GeoPoint, PlaceError, parse_point, unit_m};

/// A place that a request names.
///
/// # Errors
/// Why it is none.
pub(crate) fn place(value: &Value) -> Result<GeoPoint, PlaceError> {
    let place = parse_point(value)?;
    match place.lat.is_finite() && place.lon.is_finite() {
        true => Ok(place),
        false => Err(PlaceError::NotFinite),
    }
}

/// Top, left, bottom, right of a box.
pub(crate) fn parse_box(value: &Value) -> Option<[f64; 4]> {
    let map = value.as_object()?;
    let side = |name: &str| map.get(name).and_then(super::request_number);
    if let (Some(top), Some(left), Some(bottom), Some(right)) =
        (side("top"), side("left"), side("bottom"), side("right"))
    {
        return Some([top, left, bottom, right]);
    }
    let corner = |name: &str| place(map.get(name)?).ok().map(|it| (it.lat, it.lon));
    match (corner("top_left"), corner("bottom_right")) {
        (Some((top, left)), Some((bottom, right))) => Some([top, left, bottom, right]),
        _ => {
            let (top, right) = corner("top_right")?;
            let (bottom, left) = corner("bottom_left")?;
            Some([top, left, bottom, right])
        }
    }
}

/// Whether a box (top, left, bottom, right; it may cross the date line) holds a point.
pub(crate) fn box_holds(bounds: &[f64; 4], latitude: f64, longitude: f64) -> bool {
    let [top, left, bottom, right] = *bounds;
    let across = if left <= right {
        (left..=right).contains(&longitude)
    } else {
        longitude >= left || longitude <= right
    };
    (bottom..=top).contains(&latitude) && across
}

/// The length of a geohash (1 to 12): as given, or the shortest whose cells fit into a distance.
pub(crate) fn hash_precision(value: &Value) -> Option<u8> {
    if let Some(length) = super::request_number(value) {
        return (1u8..=12).find(|candidate| f64::from(*candidate) == length);
    }
    let text = value.as_str()?.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(digits);
    let metres = number.parse::<f64>().ok()? * unit_m(unit.trim())?;
    let circumference_m = 2.0 * std::f64::consts::PI * EARTH_RADIUS_M;
    // A cell of n characters has ceil(5n/2) bits of longitude and floor(5n/2) of latitude.
    let fits = |length: u8| {
        let bits = i32::from(length) * 5;
        let width = circumference_m / 2f64.powi((bits + 1) / 2);
        let height = circumference_m / 2.0 / 2f64.powi(bits / 2);
        width.hypot(height) <= metres
    };
    Some((1u8..=12).find(|length| fits(*length)).unwrap_or(12))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_are_as_fine_as_a_distance_asks() {
        assert_eq!(hash_precision(&json!("1km")), Some(7));
        assert_eq!(hash_precision(&json!(13)), None);
    }

    #[test]
    fn a_box_has_two_corners_or_four_sides() {
        let wanted = Some([2.0, 1.0, 1.0, 3.0]);
        for value in [
            json!({"top_left": [1, 2], "bottom_right": "1,3"}),
            json!({"top_right": [3, 2], "bottom_left": {"lat": 1, "lon": 1}}),
            json!({"top": 2, "left": 1, "bottom": 1, "right": 3}),
        ] {
            assert_eq!(parse_box(&value), wanted, "{value}");
        }
        assert!(box_holds(&[2.0, 170.0, 1.0, -170.0], 1.5, 179.0), "across the date line");
        assert!(!box_holds(&[2.0, 170.0, 1.0, -170.0], 1.5, 0.0));
    }
}
