//! Points on the earth in all the ways that JSON may spell them: `{"lat": 1, "lon": 2}`,
//! `"1,2"`, `[2, 1]`, GeoJSON, `"POINT (2 1)"`, a geohash.

use serde_json::Value;

use crate::Error;

/// A point in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// -90 to 90, north positive.
    pub latitude: f64,
    /// -180 to 180, east positive.
    pub longitude: f64,
}

/// The letters of a geohash, 5 bits each.
const GEOHASH: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

impl Point {
    /// Reads one point.
    ///
    /// # Errors
    /// 400 `parse_exception`, as Elasticsearch words it.
    pub fn parse(value: &Value) -> Result<Self, Error> {
        match value {
            Value::Object(object) => {
                if object.contains_key("coordinates") {
                    let point = object.get("type").and_then(Value::as_str);
                    if !point.is_some_and(|kind| kind.eq_ignore_ascii_case("point")) {
                        return Err(wrong("[type] for geo_point can only be 'Point'"));
                    }
                    return Self::parse(object.get("coordinates").unwrap_or(&Value::Null));
                }
                if let Some(hash) = object.get("geohash").and_then(Value::as_str) {
                    return Self::from_geohash(hash);
                }
                if let Some(key) = object.keys().find(|key| *key != "lat" && *key != "lon") {
                    return Err(wrong(format!(
                        "field must be either [lat], [lon] or [geohash], got [{key}]"
                    )));
                }
                let number = |name: &str| {
                    let value = object.get(name).filter(|value| !value.is_null());
                    let value = value.ok_or_else(|| wrong(format!("field [{name}] missing")))?;
                    degrees(value)
                        .ok_or_else(|| wrong(format!("[{name}] must be a valid double value")))
                };
                Self { latitude: number("lat")?, longitude: number("lon")? }.checked()
            }
            Value::Array(all) => {
                let number = |at: usize| {
                    all.get(at)
                        .and_then(Value::as_f64)
                        .ok_or_else(|| wrong("numeric value expected"))
                };
                if all.len() > 3 {
                    return Err(wrong("[geo_point] field type does not accept more than 3 values"));
                }
                Self { latitude: number(1)?, longitude: number(0)? }.checked()
            }
            Value::String(text) => Self::from_text(text),
            _ => Err(wrong("geo_point expected")),
        }
    }

    /// Reads all points of a value, which is one point or a list of points: a list of numbers is
    /// one point.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_all(value: &Value) -> Result<Vec<Self>, Error> {
        match value {
            Value::Null => Ok(Vec::new()),
            Value::Array(all) if !all.first().is_some_and(Value::is_number) => {
                let all = all.iter().filter(|one| !one.is_null());
                all.map(Self::parse).collect()
            }
            one => Ok(vec![Self::parse(one)?]),
        }
    }

    fn from_text(text: &str) -> Result<Self, Error> {
        let trimmed = text.trim();
        if let Some(inner) = trimmed.get(..5).filter(|start| start.eq_ignore_ascii_case("point")) {
            let inside = trimmed[inner.len()..].trim().strip_prefix('(');
            let inside = inside.and_then(|inside| inside.strip_suffix(')'));
            let numbers: Option<Vec<f64>> = inside
                .map(|inside| inside.split_whitespace().map_while(|n| n.parse().ok()).collect());
            return match numbers.as_deref() {
                Some([longitude, latitude] | [longitude, latitude, _]) => {
                    Self { latitude: *latitude, longitude: *longitude }.checked()
                }
                _ => Err(wrong(format!("Invalid WKT format, [{text}]"))),
            };
        }
        let Some((latitude, longitude)) = trimmed.split_once(',') else {
            return Self::from_geohash(trimmed);
        };
        let longitude = longitude.split(',').next().unwrap_or_default();
        let number = |name: &str, text: &str| {
            text.trim().parse::<f64>().map_err(|_| wrong(format!("{name} must be a number")))
        };
        Self { latitude: number("latitude", latitude)?, longitude: number("longitude", longitude)? }
            .checked()
    }

    /// The middle of a geohash's cell.
    ///
    /// # Errors
    /// 400 where it has a letter that is not of the geohash alphabet, or more than 12.
    pub fn from_geohash(hash: &str) -> Result<Self, Error> {
        let ([south, north], [west, east]) = geohash_cell(hash)?;
        Ok(Self { latitude: f64::midpoint(south, north), longitude: f64::midpoint(west, east) })
    }

    fn checked(self) -> Result<Self, Error> {
        if !(-90.0..=90.0).contains(&self.latitude) {
            return Err(Error::illegal_argument(format!(
                "illegal latitude value [{:?}]",
                self.latitude
            )));
        }
        if !(-180.0..=180.0).contains(&self.longitude) {
            return Err(Error::illegal_argument(format!(
                "illegal longitude value [{:?}]",
                self.longitude
            )));
        }
        Ok(self)
    }
}

/// The bounds of a geohash's cell: south and north, west and east.
///
/// # Errors
/// As [`Point::from_geohash`].
pub fn geohash_cell(hash: &str) -> Result<([f64; 2], [f64; 2]), Error> {
    if hash.is_empty() || hash.len() > 12 {
        return Err(wrong(format!("unsupported symbol in geohash [{hash}]")));
    }
    let mut latitude = [-90.0, 90.0];
    let mut longitude = [-180.0, 180.0];
    let mut east_west = true;
    for byte in hash.bytes() {
        let letter = byte.to_ascii_lowercase();
        let value = GEOHASH.iter().position(|known| *known == letter);
        let value = value.ok_or_else(|| {
            wrong(format!("unsupported symbol [{}] in geohash [{hash}]", char::from(byte)))
        })?;
        for bit in (0..5).rev() {
            let range = if east_west { &mut longitude } else { &mut latitude };
            let middle = f64::midpoint(range[0], range[1]);
            range[usize::from(value >> bit & 1 == 0)] = middle;
            east_west = !east_west;
        }
    }
    Ok((latitude, longitude))
}

fn degrees(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())
}

fn wrong(reason: impl Into<String>) -> Error {
    Error::new(400, "parse_exception", reason)
}
