//! The cells of a geohash, and the tiles of the square map of the world.

use super::error::PlaceError;
use super::point::GeoPoint;

/// The letters of a geohash, 5 bits each.
const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
/// The most letters of a geohash that count: more say less than a number can, and Elasticsearch reads no more.
const LETTERS_MAX: usize = 12;
/// The latitude at which the square map of the world ends, degrees.
const TILE_LATITUDE_MAX: f64 = 85.051_128_779_806_59;

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
        .filter_map(|digit| LETTERS.get(digit))
        .map(|digit| char::from(*digit))
        .collect()
}

/// The middle of a geohash's cell.
///
/// # Errors
/// Where there is nothing, or a letter that is none of a geohash's.
pub fn middle(hash: &str) -> Result<GeoPoint, PlaceError> {
    let ([south, north], [west, east]) = bounds(hash)?;
    Ok(GeoPoint { lat: f64::midpoint(south, north), lon: f64::midpoint(west, east) })
}

/// The bounds of a geohash's cell: south and north, west and east.
fn bounds(hash: &str) -> Result<([f64; 2], [f64; 2]), PlaceError> {
    if hash.is_empty() {
        return Err(PlaceError::EmptyHash);
    }
    let (mut latitude, mut longitude) = ([-90.0, 90.0], [-180.0, 180.0]);
    let mut is_longitude = true;
    for symbol in hash.chars().take(LETTERS_MAX) {
        let letter = u8::try_from(symbol.to_ascii_lowercase()).ok();
        let value = letter.and_then(|letter| LETTERS.iter().position(|known| *known == letter));
        let unknown = || PlaceError::HashSymbol { symbol, hash: hash.to_owned() };
        let value = value.ok_or_else(unknown)?;
        for bit in (0..5).rev() {
            let range = if is_longitude { &mut longitude } else { &mut latitude };
            let middle = f64::midpoint(range[0], range[1]);
            range[usize::from(value >> bit & 1 == 0)] = middle;
            is_longitude = !is_longitude;
        }
    }
    Ok((latitude, longitude))
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

    #[test]
    fn cells_are_the_known_ones() {
        // The example of the geohash article: Jutland.
        assert_eq!(hash_text(hash_key(57.649_11, 10.407_44, 11), 11), "u4pruydqqvj");
        let place = middle("u4pruydqqvj").unwrap();
        assert!((place.lat - 57.649_11).abs() < 1e-4 && (place.lon - 10.407_44).abs() < 1e-4);
        assert_eq!(tile_text(tile_key(52.376, 4.894, 8)), "8/131/84");
        assert_eq!(tile_place("8/131/84"), Some([8, 131, 84]));
        for text in ["8/131", "8/256/0", "30/0/0", "1/0/0/0", "1/x/0", ""] {
            assert_eq!(tile_place(text), None, "{text}");
        }
    }

    #[test]
    fn twelve_letters_of_a_geohash_count() {
        assert_eq!(middle("u4pruydqqvj8xyz"), middle("u4pruydqqvj8"));
        for wrong in ["", "a", "\u{e9}", "u4pruydqqvjl"] {
            assert!(middle(wrong).is_err(), "{wrong}");
        }
    }
}
