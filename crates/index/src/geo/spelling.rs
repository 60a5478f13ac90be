//! Places and distances in all the ways that JSON may spell them: `{"lat": 1, "lon": 2}`, `"1,2"`, `[2, 1]`,
//! GeoJSON, `"POINT (2 1)"`, a geohash; `10km`. Whether a place is on earth is asked by `GeoPoint::check`.

use serde_json::Value;

use super::cells;
use super::error::{DistanceError, PlaceError};
use super::point::GeoPoint;

/// Reads a place.
///
/// # Errors
/// Why it is none.
pub fn parse_point(value: &Value) -> Result<GeoPoint, PlaceError> {
    match value {
        Value::Object(map) => {
            if let Some(coordinates) = map.get("coordinates") {
                let kind = map.get("type").and_then(Value::as_str);
                if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("point")) {
                    return Err(PlaceError::OtherShape);
                }
                if !coordinates.is_array() {
                    return Err(PlaceError::NoCoordinates);
                }
                return parse_point(coordinates);
            }
            if let Some(hash) = map.get("geohash").and_then(Value::as_str) {
                return cells::middle(hash);
            }
            if let Some(key) = map.keys().find(|key| *key != "lat" && *key != "lon") {
                return Err(PlaceError::UnknownField(key.clone()));
            }
            let number = |name: &'static str| {
                let value = map.get(name).filter(|value| !value.is_null());
                degrees(value.ok_or(PlaceError::MissingField(name))?)
                    .ok_or(PlaceError::NoDouble(name))
            };
            Ok(GeoPoint { lat: number("lat")?, lon: number("lon")? })
        }
        Value::Array(items) => match items.as_slice() {
            [lon, lat] | [lon, lat, _] => match (lat.as_f64(), lon.as_f64()) {
                (Some(lat), Some(lon)) => Ok(GeoPoint { lat, lon }),
                _ => Err(PlaceError::NoNumbers),
            },
            [] | [_] => Err(PlaceError::NoNumbers),
            _ => Err(PlaceError::TooManyNumbers),
        },
        Value::String(text) => of_text(text),
        _ => Err(PlaceError::NoPlace),
    }
}

/// Reads all places of a value, which is one or a list of them: a list of numbers is one place. Nulls are
/// left out.
///
/// # Errors
/// As [`parse_point`].
pub fn parse_points(value: &Value) -> Result<Vec<GeoPoint>, PlaceError> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) if !items.first().is_some_and(Value::is_number) => {
            items.iter().filter(|item| !item.is_null()).map(parse_point).collect()
        }
        one => Ok(vec![parse_point(one)?]),
    }
}

fn of_text(text: &str) -> Result<GeoPoint, PlaceError> {
    let trimmed = text.trim();
    if let Some(start) = trimmed.get(..5).filter(|start| start.eq_ignore_ascii_case("point")) {
        let inside = trimmed[start.len()..].trim().strip_prefix('(');
        let inside = inside.and_then(|inside| inside.strip_suffix(')'));
        let numbers = inside.map(|inside| {
            inside.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()
        });
        return match numbers.transpose().ok().flatten().as_deref() {
            Some([lon, lat] | [lon, lat, _]) => Ok(GeoPoint { lat: *lat, lon: *lon }),
            _ => Err(PlaceError::NoWkt(text.to_owned())),
        };
    }
    let Some((lat, lon)) = trimmed.split_once(',') else { return cells::middle(trimmed) };
    // A third is a height, which nobody keeps.
    let lon = lon.split(',').next().unwrap_or_default();
    let number = |name: &'static str, text: &str| {
        text.trim().parse::<f64>().map_err(|_| PlaceError::NoNumber(name))
    };
    Ok(GeoPoint { lat: number("latitude", lat)?, lon: number("longitude", lon)? })
}

fn degrees(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// Reads a distance such as `10km`, in metres; a bare number is in `unit`, by default metres.
///
/// # Errors
/// Why it is none.
pub fn parse_distance_m(text: &str, unit: Option<&str>) -> Result<f64, DistanceError> {
    let text = text.trim();
    let split = text
        .char_indices()
        .find(|(at, letter)| {
            letter.is_ascii_alphabetic() && !(matches!(letter, 'e' | 'E') && exponent(text, *at))
        })
        .map_or(text.len(), |(at, _)| at);
    let (number, suffix) = text.split_at(split);
    let no_number = |_| DistanceError::NoNumber(text.to_owned());
    let number: f64 = number.trim().parse().map_err(no_number)?;
    let suffix = if suffix.is_empty() { unit.unwrap_or("m") } else { suffix };
    unit_m(suffix)
        .map(|metres| number * metres)
        .ok_or_else(|| DistanceError::NoUnit(suffix.to_owned()))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn places_are_read_in_every_spelling() {
        let place = GeoPoint { lat: 41.12, lon: -71.34 };
        for value in [
            json!({"lat": 41.12, "lon": -71.34}),
            json!({"lat": "41.12", "lon": "-71.34"}),
            json!("41.12,-71.34"),
            json!("41.12, -71.34, 8"),
            json!([-71.34, 41.12]),
            json!([-71.34, 41.12, 8]),
            json!("POINT (-71.34 41.12)"),
            json!("point(-71.34 41.12 8)"),
            json!({"type": "Point", "coordinates": [-71.34, 41.12]}),
        ] {
            assert_eq!(parse_point(&value), Ok(place), "{value}");
        }
        let hash = parse_point(&json!("drm3btev3e86")).unwrap();
        assert!((hash.lat - 41.12).abs() < 1e-6 && (hash.lon + 71.34).abs() < 1e-6);
        assert_eq!(parse_points(&json!([[1, 2], "3,4", null])).unwrap().len(), 2);
        assert_eq!(parse_points(&json!([1, 2])).unwrap().len(), 1);
        assert_eq!(parse_points(&json!(null)), Ok(vec![]));
    }

    #[test]
    fn what_is_no_place_says_why() {
        for (value, reason) in [
            (json!({"lat": 1}), "field [lon] missing"),
            (
                json!({"lat": 1, "lon": 2, "x": 3}),
                "field must be either [lat], [lon] or [geohash], got [x]",
            ),
            (json!({"lat": "x", "lon": 2}), "[lat] must be a valid double value"),
            (
                json!({"type": "Line", "coordinates": [1, 2]}),
                "[type] for geo_point can only be 'Point'",
            ),
            (json!("a,b"), "latitude must be a number"),
            (json!("POINT (1)"), "Invalid WKT format, [POINT (1)]"),
            (json!("POINT (1 x)"), "Invalid WKT format, [POINT (1 x)]"),
            (json!("!"), "unsupported symbol [!] in geohash [!]"),
            (json!([1]), "numeric value expected"),
            (json!(true), "geo_point expected"),
        ] {
            assert_eq!(parse_point(&value).unwrap_err().to_string(), reason, "{value}");
        }
    }

    #[test]
    fn distances_have_units() {
        assert_eq!(parse_distance_m("10km", None), Ok(10_000.0));
        assert_eq!(parse_distance_m("10", Some("mi")), Ok(16_093.44));
        assert_eq!(parse_distance_m("1e3", None), Ok(1000.0));
        assert!(parse_distance_m("10 parsec", None).is_err());
    }
}
