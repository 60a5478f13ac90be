//! Places: how they are written, and how far they are apart.

use serde_json::Value;

use super::ast::Point;

/// The earth's mean radius in metres, as Lucene's `SloppyMath` and `GeoUtils` take it.
pub const EARTH_RADIUS_M: f64 = 6_371_008.771_4;

/// The distance of two places in metres, by the haversine formula.
#[must_use]
pub fn distance_m(a: Point, b: Point) -> f64 {
    let (lat_a, lat_b) = (a.lat.to_radians(), b.lat.to_radians());
    let half_lat = ((lat_b - lat_a) * 0.5).sin();
    let half_lon = ((b.lon - a.lon).to_radians() * 0.5).sin();
    let h = half_lat * half_lat + lat_a.cos() * lat_b.cos() * half_lon * half_lon;
    2.0 * EARTH_RADIUS_M * h.min(1.0).sqrt().asin()
}

/// Reads a place: `{lat, lon}`, `[lon, lat]`, `"lat,lon"`, `"POINT (lon lat)"`, GeoJSON or a
/// geohash.
///
/// # Errors
/// Why it is none.
pub fn parse_point(value: &Value) -> Result<Point, String> {
    match value {
        Value::Object(map) => {
            if let Some(coordinates) = map.get("coordinates") {
                return parse_point(coordinates);
            }
            if let Some(geohash) = map.get("geohash").and_then(Value::as_str) {
                return parse_geohash(geohash);
            }
            for key in map.keys() {
                if key != "lat" && key != "lon" {
                    return Err(format!(
                        "field must be either [lat], [lon] or [geohash], got [{key}]"
                    ));
                }
            }
            let lat = map.get("lat").ok_or("field [lat] missing")?;
            let lon = map.get("lon").ok_or("field [lon] missing")?;
            let lat = number(lat).ok_or("[lat] must be a valid double value")?;
            let lon = number(lon).ok_or("[lon] must be a valid double value")?;
            Ok(Point { lat, lon })
        }
        Value::Array(items) => match items.as_slice() {
            [lon, lat] | [lon, lat, _] => match (number(lat), number(lon)) {
                (Some(lat), Some(lon)) => Ok(Point { lat, lon }),
                _ => Err("numeric value expected".to_owned()),
            },
            _ => Err("[geo_point] field type does not accept more than 3 values".to_owned()),
        },
        Value::String(text) => parse_point_text(text),
        _ => Err("geo_point expected".to_owned()),
    }
}

/// Reads a place from text.
///
/// # Errors
/// Why it is none.
pub fn parse_point_text(text: &str) -> Result<Point, String> {
    let trimmed = text.trim();
    if trimmed.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("point")) {
        let inner = trimmed[5..].trim().trim_start_matches('(').trim_end_matches(')');
        let mut parts = inner.split_whitespace().map(str::parse::<f64>);
        return match (parts.next(), parts.next()) {
            (Some(Ok(lon)), Some(Ok(lat))) => Ok(Point { lat, lon }),
            _ => Err(format!("failed to parse WKT [{text}]")),
        };
    }
    if let Some((lat, lon)) = trimmed.split_once(',') {
        let lat = lat.trim().parse().map_err(|_| "latitude must be a number".to_owned())?;
        let lon = lon.split(',').next().unwrap_or("").trim();
        let lon = lon.parse().map_err(|_| "longitude must be a number".to_owned())?;
        return Ok(Point { lat, lon });
    }
    parse_geohash(trimmed)
}

/// The middle of a geohash's cell.
fn parse_geohash(text: &str) -> Result<Point, String> {
    const ALPHABET: &[u8] = b"0123456789bcdefghjkmnpqrstuvwxyz";
    if text.is_empty() || text.len() > 22 {
        return Err(format!("failed to parse geohash [{text}]"));
    }
    let (mut lat, mut lon) = ((-90.0, 90.0), (-180.0, 180.0));
    let mut is_lon = true;
    for byte in text.bytes() {
        let digit = ALPHABET
            .iter()
            .position(|letter| *letter == byte.to_ascii_lowercase())
            .ok_or_else(|| format!("unsupported symbol [{}] in geohash [{text}]", byte as char))?;
        for bit in (0..5).rev() {
            let range = if is_lon { &mut lon } else { &mut lat };
            let middle = (range.0 + range.1) / 2.0;
            if digit >> bit & 1 == 1 {
                range.0 = middle;
            } else {
                range.1 = middle;
            }
            is_lon = !is_lon;
        }
    }
    Ok(Point { lat: (lat.0 + lat.1) / 2.0, lon: (lon.0 + lon.1) / 2.0 })
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Whether a place is on earth; the error names what is not.
///
/// # Errors
/// Elasticsearch's words for a place that is not.
pub fn check_point(point: Point, what: &str) -> Result<(), String> {
    if !(-90.0..=90.0).contains(&point.lat) {
        return Err(format!("illegal latitude value [{}] for [{what}]", java(point.lat)));
    }
    if !(-180.0..=180.0).contains(&point.lon) {
        return Err(format!("illegal longitude value [{}] for [{what}]", java(point.lon)));
    }
    Ok(())
}

fn java(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e7 {
        format!("{value:.1}")
    } else {
        format!("{value}")
    }
}

/// Reads a distance such as `10km`, in metres; a bare number is in `unit`, by default metres.
///
/// # Errors
/// Elasticsearch's words for a distance that is none.
pub fn parse_distance_m(text: &str, unit: Option<&str>) -> Result<f64, String> {
    let text = text.trim();
    let split = text
        .char_indices()
        .find(|(at, letter)| {
            letter.is_ascii_alphabetic() && !(matches!(letter, 'e' | 'E') && exponent(text, *at))
        })
        .map_or(text.len(), |(at, _)| at);
    let (number, suffix) = text.split_at(split);
    let number: f64 = number.trim().parse().map_err(|_| format!("For input string: \"{text}\""))?;
    let suffix = if suffix.is_empty() { unit.unwrap_or("m") } else { suffix };
    unit_m(suffix)
        .map(|metres| number * metres)
        .ok_or_else(|| format!("No distance unit match [{suffix}]"))
}

fn exponent(text: &str, at: usize) -> bool {
    at > 0 && text[at + 1..].starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+')
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

/// A ready test of whether places are within a distance: most are decided by a box.
#[derive(Clone, Copy, Debug)]
pub struct Circle {
    center: Point,
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
    pub fn new(center: Point, distance_m: f64) -> Self {
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
    use serde_json::json;

    use super::*;

    #[test]
    fn places_are_read_in_every_spelling() {
        let place = Point { lat: 1.0, lon: 2.0 };
        for value in [
            json!({"lat": 1, "lon": 2}),
            json!({"lat": "1", "lon": "2"}),
            json!([2, 1]),
            json!("1,2"),
            json!("POINT (2 1)"),
            json!({"type": "Point", "coordinates": [2, 1]}),
        ] {
            assert_eq!(parse_point(&value), Ok(place), "{value}");
        }
        let hash = parse_point(&json!("u4pruydqqvj")).unwrap();
        assert!((hash.lat - 57.64911).abs() < 1e-4 && (hash.lon - 10.40744).abs() < 1e-4);
        assert!(parse_point(&json!(3)).is_err());
        assert!(parse_point(&json!("a!")).is_err());
    }

    #[test]
    fn distances_have_units() {
        assert_eq!(parse_distance_m("10km", None), Ok(10_000.0));
        assert_eq!(parse_distance_m("10", Some("mi")), Ok(16_093.44));
        assert_eq!(parse_distance_m("1e3", None), Ok(1000.0));
        assert!(parse_distance_m("10 parsec", None).is_err());
    }

    proptest! {
        #[test]
        fn the_circle_agrees_with_the_distance(
            lat in -90.0f64..90.0, lon in -180.0f64..180.0,
            clat in -90.0f64..90.0, clon in -180.0f64..180.0, distance in 1.0f64..2e7,
        ) {
            let center = Point { lat: clat, lon: clon };
            let true_m = distance_m(center, Point { lat, lon });
            let inside = Circle::new(center, distance).contains(lat, lon);
            if (true_m - distance).abs() > 1.0 {
                prop_assert_eq!(inside, true_m <= distance);
            }
        }
    }
}
