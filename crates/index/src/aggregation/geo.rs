//! Points on the earth: how they are written, how far they are apart, which cell holds them.
//! Which documents lie where is the query's business.

use serde_json::Value;

/// The mean radius of the earth, metres, as Lucene takes it.
const EARTH_RADIUS_M: f64 = 6_371_008.771_4;
/// The latitude at which the square map of the world ends, degrees.
const TILE_LATITUDE_MAX: f64 = 85.051_128_779_806_59;
const BASE32: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

/// Latitude and longitude of a point: `{lat, lon}`, `[lon, lat]`, `"lat,lon"`, a geohash or WKT.
pub(crate) fn parse_point(value: &Value) -> Option<(f64, f64)> {
    let coordinate = |value: &Value| super::request_number(value).filter(|value| value.is_finite());
    match value {
        Value::Object(map) => {
            if let Some(list) = map.get("coordinates") {
                return parse_point(list);
            }
            Some((coordinate(map.get("lat")?)?, coordinate(map.get("lon")?)?))
        }
        Value::Array(list) => Some((coordinate(list.get(1)?)?, coordinate(list.first()?)?)),
        Value::String(text) => {
            if let Some((lat, lon)) = text.split_once(',') {
                return Some((lat.trim().parse().ok()?, lon.trim().parse().ok()?));
            }
            if let Some(inside) = text.trim().strip_prefix("POINT") {
                let inside = inside.trim().strip_prefix('(')?.strip_suffix(')')?;
                let (lon, lat) = inside.trim().split_once(char::is_whitespace)?;
                return Some((lat.trim().parse().ok()?, lon.trim().parse().ok()?));
            }
            let [top, left, bottom, right] = hash_cell(text)?;
            Some((f64::midpoint(top, bottom), f64::midpoint(left, right)))
        }
        _ => None,
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
    let corner = |name: &str| map.get(name).and_then(parse_point);
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

/// Metres in a unit of distance.
pub(crate) fn unit_m(unit: &str) -> Option<f64> {
    Some(match unit {
        "m" | "meters" => 1.0,
        "km" | "kilometers" => 1_000.0,
        "cm" | "centimeters" => 0.01,
        "mm" | "millimeters" => 0.001,
        "mi" | "miles" => 1_609.344,
        "yd" | "yards" => 0.914_4,
        "ft" | "feet" => 0.304_8,
        "in" | "inch" => 0.025_4,
        "nmi" | "NM" | "nauticalmiles" => 1_852.0,
        _ => return None,
    })
}

/// Metres between two points by the haversine formula, or on a plane.
pub(crate) fn distance_m(from: (f64, f64), to: (f64, f64), plane: bool) -> f64 {
    let (latitude, longitude) = (from.0.to_radians(), from.1.to_radians());
    let (other_latitude, other_longitude) = (to.0.to_radians(), to.1.to_radians());
    let down = other_latitude - latitude;
    let across = other_longitude - longitude;
    if plane {
        let across = across * f64::midpoint(latitude, other_latitude).cos();
        return EARTH_RADIUS_M * down.hypot(across);
    }
    let half = (down / 2.0).sin().powi(2)
        + latitude.cos() * other_latitude.cos() * (across / 2.0).sin().powi(2);
    2.0 * EARTH_RADIUS_M * half.sqrt().min(1.0).asin()
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

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float to integer cast saturates, and the result is clamped"
)]
fn cell(fraction: f64, cells: u64) -> u64 {
    ((fraction * cells as f64).floor() as u64).min(cells - 1)
}

/// The geohash cell of a point as a number of `5 * precision` bits.
pub(crate) fn hash_key(latitude: f64, longitude: f64, precision: u8) -> u64 {
    let bits = u32::from(precision) * 5;
    let wide = bits.div_ceil(2);
    let high = bits / 2;
    let x = cell((longitude + 180.0) / 360.0, 1 << wide);
    let y = cell((latitude + 90.0) / 180.0, 1 << high);
    let mut key = 0;
    // Bits alternate, longitude first.
    for bit in 0..bits {
        let next = if bit % 2 == 0 { x >> (wide - 1 - bit / 2) } else { y >> (high - 1 - bit / 2) };
        key = (key << 1) | (next & 1);
    }
    key
}

/// The geohash that [`hash_key`]'s number stands for.
pub(crate) fn hash_text(key: u64, precision: u8) -> String {
    (0..precision)
        .rev()
        .filter_map(|place| usize::try_from((key >> (u32::from(place) * 5)) & 31).ok())
        .filter_map(|digit| BASE32.get(digit))
        .map(|digit| char::from(*digit))
        .collect()
}

/// Top, left, bottom, right of a geohash's cell.
fn hash_cell(text: &str) -> Option<[f64; 4]> {
    if text.is_empty() || text.len() > 12 {
        return None;
    }
    let (mut south, mut north, mut west, mut east) = (-90.0, 90.0, -180.0, 180.0);
    let mut longitude = true;
    for character in text.bytes() {
        let digit = BASE32.iter().position(|known| *known == character.to_ascii_lowercase())?;
        for bit in (0..5).rev() {
            let upper = digit >> bit & 1 == 1;
            let (low, high) =
                if longitude { (&mut west, &mut east) } else { (&mut south, &mut north) };
            let middle = f64::midpoint(*low, *high);
            *(if upper { low } else { high }) = middle;
            longitude = !longitude;
        }
    }
    Some([north, west, south, east])
}

/// The map tile of a point: zoom in the top 6 bits, then x and y in 29 bits each.
pub(crate) fn tile_key(latitude: f64, longitude: f64, zoom: u8) -> u64 {
    let tiles = 1u64 << zoom.min(29);
    let x = cell((longitude + 180.0) / 360.0, tiles);
    let clamped = latitude.clamp(-TILE_LATITUDE_MAX, TILE_LATITUDE_MAX).to_radians();
    let y = cell((1.0 - (clamped.tan().asinh() / std::f64::consts::PI)) / 2.0, tiles);
    u64::from(zoom) << 58 | x << 29 | y
}

/// `zoom/x/y` of [`tile_key`]'s number.
pub(crate) fn tile_text(key: u64) -> String {
    let mask = (1 << 29) - 1;
    format!("{}/{}/{}", key >> 58, key >> 29 & mask, key & mask)
}

/// The zoom, x and y of [`tile_text`]'s text, by which tiles are sorted.
pub(crate) fn tile_place(text: &str) -> Option<[u64; 3]> {
    let mut parts = text.split('/').map(|part| part.parse::<u64>().ok());
    let (zoom, x, y) = (parts.next()??, parts.next()??, parts.next()??);
    let tiles = 1u64 << u32::try_from(zoom).ok().filter(|zoom| *zoom <= 29)?;
    (parts.next().is_none() && x < tiles && y < tiles).then_some([zoom, x, y])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells_are_the_known_ones() {
        // The example of the geohash article: Jutland.
        assert_eq!(hash_text(hash_key(57.649_11, 10.407_44, 11), 11), "u4pruydqqvj");
        assert_eq!(tile_text(tile_key(52.376, 4.894, 8)), "8/131/84");
        assert_eq!(tile_place("8/131/84"), Some([8, 131, 84]));
        for text in ["8/131", "8/256/0", "30/0/0", "1/0/0/0", "1/x/0", ""] {
            assert_eq!(tile_place(text), None, "{text}");
        }
        let (latitude, longitude) = parse_point(&json!("u4pruydqqvj")).unwrap();
        assert!((latitude - 57.649_11).abs() < 1e-4 && (longitude - 10.407_44).abs() < 1e-4);
        assert_eq!(hash_precision(&json!("1km")), Some(7));
        assert_eq!(hash_precision(&json!(13)), None);
    }

    #[test]
    fn points_are_read_in_every_spelling() {
        for value in
            [json!({"lat": 1, "lon": "2"}), json!([2, 1]), json!("1,2"), json!("POINT (2 1)")]
        {
            assert_eq!(parse_point(&value), Some((1.0, 2.0)), "{value}");
        }
        assert_eq!(parse_point(&json!("a,b")), None);
    }

    #[test]
    fn a_degree_of_latitude_is_111_kilometres() {
        assert!((distance_m((0.0, 0.0), (1.0, 0.0), false) - 111_195.08).abs() < 0.1);
        assert!((distance_m((0.0, 0.0), (1.0, 0.0), true) - 111_195.08).abs() < 0.1);
    }
}
