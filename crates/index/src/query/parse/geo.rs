//! `geo_distance` and `geo_bounding_box`.

use serde_json::{Map, Value};

use super::{Body, as_text};
use crate::geo::{GeoPoint, parse_distance_m, parse_point};
use crate::query::ast::{GeoBoundingBox, GeoDistance, Kind, Query};
use crate::query::problem::{Parsed, Problem};

/// What is done with places that are not on earth.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Validation {
    Strict,
    IgnoreMalformed,
    Coerce,
}

fn validation(value: &Value) -> Parsed<Validation> {
    Ok(match as_text(value).to_ascii_uppercase().as_str() {
        "STRICT" => Validation::Strict,
        "IGNORE_MALFORMED" => Validation::IgnoreMalformed,
        "COERCE" => Validation::Coerce,
        other => {
            let list = "[COERCE, IGNORE_MALFORMED, STRICT]";
            return Err(Problem::illegal(format!(
                "operator needs to be either {list}, but not [{other}]"
            )));
        }
    })
}

fn checked(mut point: GeoPoint, validation: Validation, name: &str) -> Parsed<GeoPoint> {
    match validation {
        Validation::Strict => {
            point.check().map_err(|error| Problem::illegal(format!("{error} for [{name}]")))?;
        }
        Validation::IgnoreMalformed => {}
        Validation::Coerce => {
            point.lat = point.lat.clamp(-90.0, 90.0);
            point.lon = wrap_lon(point.lon);
        }
    }
    Ok(point)
}

fn wrap_lon(lon: f64) -> f64 {
    if (-180.0..=180.0).contains(&lon) { lon } else { (lon + 180.0).rem_euclid(360.0) - 180.0 }
}

fn point(node: &Value) -> Parsed<GeoPoint> {
    parse_point(node).map_err(|reason| {
        let reason = format!("failed to parse geo_point: {reason}");
        Problem::at(node, crate::error::Error::invalid("parse_exception", reason))
    })
}

pub(super) fn parse_distance(body: &Body<'_>) -> Parsed<Query> {
    let mut query = Query::of(Kind::MatchNone);
    let (mut field, mut center, mut distance, mut unit) = (None, None, None, None);
    let mut partial: (Option<f64>, Option<f64>) = (None, None);
    let mut method = Validation::Strict;
    let mut ignore_unmapped = false;
    for (key, value) in body.map {
        match key.as_str() {
            "distance" => distance = Some(as_text(value)),
            "unit" => unit = Some(as_text(value)),
            "distance_type" => {
                let kind = as_text(value).to_ascii_lowercase();
                if !matches!(kind.as_str(), "arc" | "plane" | "sloppy_arc") {
                    return Err(Problem::illegal(format!("No geo distance for [{kind}]")));
                }
            }
            "validation_method" => method = validation(value)?,
            "ignore_unmapped" => ignore_unmapped = body.bool(value)?,
            _ if body.shared(&mut query, key, value)? => {}
            _ if key.ends_with(".lat") => {
                partial.0 = Some(body.f64(value)?);
                field = Some(key.trim_end_matches(".lat").to_owned());
            }
            _ if key.ends_with(".lon") => {
                partial.1 = Some(body.f64(value)?);
                field = Some(key.trim_end_matches(".lon").to_owned());
            }
            _ => {
                if let Some(first) = &field {
                    return Err(Problem::parsing(
                        value,
                        format!(
                            "[geo_distance] query doesn't support multiple fields, found [{first}] and [{key}]"
                        ),
                    ));
                }
                field = Some(key.clone());
                center = Some(point(value)?);
            }
        }
    }
    if let (Some(lat), Some(lon)) = partial {
        center = Some(GeoPoint { lat, lon });
    }
    let Some(distance) = distance else {
        return Err(Problem::parsing(
            body.node,
            "geo_distance requires 'distance' to be specified",
        ));
    };
    let (Some(field), Some(center)) = (field, center) else {
        return Err(Problem::illegal("point must not be null"));
    };
    let distance_m = parse_distance_m(&distance, unit.as_deref()).map_err(Problem::illegal)?;
    if distance_m.is_nan() || distance_m <= 0.0 {
        return Err(Problem::illegal("distance must be greater than zero"));
    }
    let center = checked(center, method, "geo_distance")?;
    query.kind =
        Kind::GeoDistance(Box::new(GeoDistance { field, center, distance_m, ignore_unmapped }));
    Ok(query)
}

pub(super) fn parse_bounding_box(body: &Body<'_>) -> Parsed<Query> {
    let mut query = Query::of(Kind::MatchNone);
    let mut found: Option<(&str, &Value)> = None;
    let mut method = Validation::Strict;
    let mut ignore_unmapped = false;
    for (key, value) in body.map {
        match key.as_str() {
            "validation_method" => method = validation(value)?,
            "ignore_unmapped" => ignore_unmapped = body.bool(value)?,
            "type" => {}
            _ if body.shared(&mut query, key, value)? => {}
            _ if value.is_object() => found = Some((key, value)),
            _ => return Err(body.unsupported(key, value)),
        }
    }
    let Some((field, node)) = found else {
        return Err(Problem::parsing(
            body.node,
            "failed to parse [geo_bounding_box] query. bounding box not provided",
        ));
    };
    let mut edges = match node {
        Value::Object(map) => bounding_box(body, node, map)?,
        _ => return Err(body.unexpected(field, node)),
    };
    field.clone_into(&mut edges.field);
    edges.ignore_unmapped = ignore_unmapped;
    let top_left = GeoPoint { lat: edges.top, lon: edges.left };
    let bottom_right = GeoPoint { lat: edges.bottom, lon: edges.right };
    let is_whole_turn = edges.right - edges.left >= 360.0;
    let top_left = checked(top_left, method, "geo_bounding_box")?;
    let bottom_right = checked(bottom_right, method, "geo_bounding_box")?;
    (edges.top, edges.left) = (top_left.lat, top_left.lon);
    (edges.bottom, edges.right) = (bottom_right.lat, bottom_right.lon);
    if is_whole_turn {
        (edges.left, edges.right) = (-180.0, 180.0);
    }
    if method == Validation::Strict && edges.bottom > edges.top {
        return Err(Problem::illegal(format!(
            "top is below bottom corner: {} vs. {}",
            edges.top, edges.bottom
        )));
    }
    query.kind = Kind::GeoBoundingBox(Box::new(edges));
    Ok(query)
}

fn bounding_box(body: &Body<'_>, node: &Value, map: &Map<String, Value>) -> Parsed<GeoBoundingBox> {
    let (mut top, mut left, mut bottom, mut right) = (None, None, None, None);
    for (key, value) in map {
        match key.as_str() {
            "top" => top = Some(body.f64(value)?),
            "left" => left = Some(body.f64(value)?),
            "bottom" => bottom = Some(body.f64(value)?),
            "right" => right = Some(body.f64(value)?),
            "top_left" | "topLeft" => {
                let corner = point(value)?;
                (top, left) = (Some(corner.lat), Some(corner.lon));
            }
            "bottom_right" | "bottomRight" => {
                let corner = point(value)?;
                (bottom, right) = (Some(corner.lat), Some(corner.lon));
            }
            "top_right" | "topRight" => {
                let corner = point(value)?;
                (top, right) = (Some(corner.lat), Some(corner.lon));
            }
            "bottom_left" | "bottomLeft" => {
                let corner = point(value)?;
                (bottom, left) = (Some(corner.lat), Some(corner.lon));
            }
            "wkt" => {
                let edges = envelope(&as_text(value))
                    .ok_or_else(|| Problem::parsing(value, "failed to parse WKT bounding box"))?;
                (left, right, top, bottom) =
                    (Some(edges[0]), Some(edges[1]), Some(edges[2]), Some(edges[3]));
            }
            _ => {
                let reason = format!("failed to parse bounding box. unexpected field [{key}]");
                return Err(Problem::parsing(value, reason));
            }
        }
    }
    let (Some(top), Some(left), Some(bottom), Some(right)) = (top, left, bottom, right) else {
        let reason = "failed to parse bounding box. Conflicting definition found using well-known text and explicit corners.";
        return Err(Problem::parsing(node, reason));
    };
    let field = String::new();
    Ok(GeoBoundingBox { field, top, left, bottom, right, ignore_unmapped: false })
}

/// `BBOX (left, right, top, bottom)` or `ENVELOPE (…)`.
fn envelope(text: &str) -> Option<[f64; 4]> {
    let open = text.find('(')?;
    let name = text[..open].trim();
    if !name.eq_ignore_ascii_case("bbox") && !name.eq_ignore_ascii_case("envelope") {
        return None;
    }
    let inner = text[open + 1..].trim().trim_end_matches(')');
    let numbers: Vec<f64> =
        inner.split(',').map(|part| part.trim().parse().ok()).collect::<Option<_>>()?;
    numbers.try_into().ok()
}
