//! How the aggregations are read on ranges of numbers, dates, addresses and distances, and on cells of a grid.

use serde_json::Value;

use super::ast::{DateRange, GeoDistance, GeoGrid, IpRange, Kind, NumericRange, RangeOf};
use super::options::{LIST_MAX, Options};
use crate::Error;
use crate::aggregation::geo;
use crate::geo::unit_m;

fn range_list(options: &mut Options<'_>) -> Result<Vec<Value>, Error> {
    let list = options.list("ranges")?.unwrap_or_default();
    if list.is_empty() {
        return Err(Error::illegal_argument(format!(
            "No [ranges] specified for the [{}] aggregation",
            options.name
        )));
    }
    if list.len() > LIST_MAX {
        return Err(Error::illegal_argument(format!(
            "[ranges] may hold no more than [{LIST_MAX}] ranges"
        )));
    }
    Ok(list)
}

fn numeric_ranges(options: &mut Options<'_>) -> Result<Vec<NumericRange>, Error> {
    let mut ranges = Vec::new();
    for one in range_list(options)? {
        let mut inner = Options::new(options.name, options.kind, &one)?;
        ranges.push(NumericRange {
            key: inner.string("key")?,
            from: inner.f64("from")?,
            to: inner.f64("to")?,
        });
        inner.finish()?;
    }
    // The answer lists ranges by where they begin, and those that begin together by where they end.
    ranges.sort_by(|a, b| {
        let from = |range: &NumericRange| range.from.unwrap_or(f64::NEG_INFINITY);
        let to = |range: &NumericRange| range.to.unwrap_or(f64::INFINITY);
        from(a).total_cmp(&from(b)).then(to(a).total_cmp(&to(b)))
    });
    Ok(ranges)
}

pub(super) fn range(options: &mut Options<'_>) -> Result<Kind, Error> {
    let source = options.source()?;
    let ranges = RangeOf::Numbers(numeric_ranges(options)?);
    Ok(Kind::Range { source, ranges, keyed: options.bool("keyed", false)? })
}

pub(super) fn date_range(options: &mut Options<'_>) -> Result<Kind, Error> {
    let source = options.source()?;
    let mut ranges = Vec::new();
    for one in range_list(options)? {
        let mut inner = Options::new(options.name, options.kind, &one)?;
        ranges.push(DateRange {
            key: inner.string("key")?,
            from: inner.take("from"),
            to: inner.take("to"),
        });
        inner.finish()?;
    }
    Ok(Kind::Range { source, ranges: RangeOf::Dates(ranges), keyed: options.bool("keyed", false)? })
}

pub(super) fn ip_range(options: &mut Options<'_>) -> Result<Kind, Error> {
    let source = options.source()?;
    let mut ranges = Vec::new();
    for one in range_list(options)? {
        let mut inner = Options::new(options.name, options.kind, &one)?;
        let mut key = inner.string("key")?;
        let (from, to) = match inner.string("mask")? {
            Some(mask) => {
                let (from, to) = ip_mask(&mask).ok_or_else(|| {
                    Error::illegal_argument(format!(
                        "invalid CIDR mask [{mask}] in aggregation [{}]",
                        options.name
                    ))
                })?;
                key = key.or(Some(mask));
                (Some(from), to)
            }
            None => {
                let mut side = |name: &str| match inner.string(name)? {
                    None => Ok(None),
                    Some(text) => read_ip(&text).map(Some),
                };
                (side("from")?, side("to")?)
            }
        };
        inner.finish()?;
        ranges.push(IpRange { key, from, to });
    }
    ranges.sort_by_key(|range| (range.from.unwrap_or(0), range.to.unwrap_or(u128::MAX)));
    Ok(Kind::Range { source, ranges: RangeOf::Ips(ranges), keyed: options.bool("keyed", false)? })
}

/// An address as the number that columns hold: IPv4 mapped into IPv6.
pub(crate) fn parse_ip(text: &str) -> Option<u128> {
    Some(match text.trim().parse::<std::net::IpAddr>().ok()? {
        std::net::IpAddr::V4(address) => u128::from(address.to_ipv6_mapped()),
        std::net::IpAddr::V6(address) => u128::from(address),
    })
}

/// An address as a request writes it.
///
/// # Errors
/// 400 where it is none.
pub(crate) fn read_ip(text: &str) -> Result<u128, Error> {
    parse_ip(text)
        .ok_or_else(|| Error::illegal_argument(format!("'{text}' is not an IP string literal.")))
}

/// The first address of a block, and the first after it where there is one.
fn ip_mask(text: &str) -> Option<(u128, Option<u128>)> {
    let (address, length) = text.split_once('/')?;
    let is_v4 = address.trim().parse::<std::net::Ipv4Addr>().is_ok();
    let address = parse_ip(address)?;
    let length: u32 = length.trim().parse().ok()?;
    let length = if is_v4 { length.checked_add(96).filter(|_| length <= 32)? } else { length };
    let span = match 128u32.checked_sub(length)? {
        128 => return Some((0, None)),
        bits => 1u128 << bits,
    };
    let from = address & !(span - 1);
    Some((from, from.checked_add(span)))
}

pub(super) fn geo_distance(options: &mut Options<'_>) -> Result<Kind, Error> {
    let origin = options.take("origin");
    let name = &options.name;
    let origin = origin.as_ref().ok_or_else(|| {
        Error::illegal_argument(format!("Required [origin] in geo_distance aggregation [{name}]"))
    })?;
    let origin = geo::place(origin).map_err(|reason| {
        let reason = format!("[origin] in geo_distance aggregation [{name}]: {reason}");
        Error::invalid("parse_exception", reason)
    })?;
    let unit = options.string("unit")?.unwrap_or_else(|| "m".to_owned());
    let unit_m = unit_m(&unit)
        .ok_or_else(|| Error::illegal_argument(format!("No distance unit match [{unit}]")))?;
    let plane = match options.string("distance_type")?.as_deref() {
        None | Some("arc") => false,
        Some("plane") => true,
        Some(other) => {
            return Err(Error::illegal_argument(format!("No geo distance for [{other}]")));
        }
    };
    options.refuse("missing")?;
    let source = options.source()?;
    let ranges = numeric_ranges(options)?;
    let distance = GeoDistance { origin, unit_m, plane };
    Ok(Kind::Range {
        source,
        ranges: RangeOf::Distance(distance, ranges),
        keyed: options.bool("keyed", false)?,
    })
}

pub(super) fn tile_precision(options: &mut Options<'_>) -> Result<u8, Error> {
    let precision = options.i64("precision")?.unwrap_or(7);
    u8::try_from(precision).ok().filter(|precision| *precision <= 29).ok_or_else(|| {
        Error::illegal_argument(format!(
            "Invalid geotile_grid precision of {precision}. Must be between 0 and 29."
        ))
    })
}

pub(super) fn geo_grid(options: &mut Options<'_>) -> Result<Kind, Error> {
    let tiles = options.kind == "geotile_grid";
    let precision = if tiles {
        tile_precision(options)?
    } else {
        match options.take("precision") {
            None => 5,
            Some(value) => match geo::hash_precision(&value) {
                Some(precision) => precision,
                None => {
                    return Err(Error::illegal_argument(format!(
                        "Invalid geohash aggregation precision of {value}. Must be between 1 and 12."
                    )));
                }
            },
        }
    };
    let bounds = match options.take("bounds") {
        None => None,
        Some(value) => Some(geo::parse_box(&value).ok_or_else(|| options.bad("bounds"))?),
    };
    let field = options.required_field()?;
    let size = options.positive("size")?.unwrap_or(10_000);
    let shard_size = match options.i64("shard_size")? {
        None | Some(-1) => None,
        Some(value) => Some(usize::try_from(value).map_err(|_| options.bad("shard_size"))?),
    };
    let shard_size =
        shard_size.unwrap_or_else(|| size.saturating_add(size / 2).saturating_add(10)).max(size);
    Ok(Kind::GeoGrid(GeoGrid { field, tiles, precision, size, shard_size, bounds }))
}
