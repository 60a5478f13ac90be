//! Why a value is no place and no distance, in Elasticsearch's words.

/// Why a value is no place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// It is none of what spells a place.
    #[error("geo_point expected")]
    NoPlace,
    /// It is another shape of GeoJSON's.
    #[error("[type] for geo_point can only be 'Point'")]
    OtherShape,
    /// It is GeoJSON whose coordinates are no list.
    #[error("GeoJSON 'coordinates' must be an array")]
    NoCoordinates,
    /// It is an object with a field that no place has.
    #[error("field must be either [lat], [lon] or [geohash], got [{0}]")]
    UnknownField(String),
    /// It is an object that lacks a field.
    #[error("field [{0}] missing")]
    MissingField(&'static str),
    /// A field is no number.
    #[error("[{0}] must be a valid double value")]
    NoDouble(&'static str),
    /// It is a list of something else than numbers, or of too few.
    #[error("numeric value expected")]
    NoNumbers,
    /// It is a list of too many numbers.
    #[error("[geo_point] field type does not accept more than 3 values")]
    TooManyNumbers,
    /// It begins as well-known text does, and is none.
    #[error("Invalid WKT format, [{0}]")]
    NoWkt(String),
    /// A half of a text with a comma is no number.
    #[error("{0} must be a number")]
    NoNumber(&'static str),
    /// It is the geohash of nothing.
    #[error("empty geohash")]
    EmptyHash,
    /// It has a letter that is none of a geohash's.
    #[error("unsupported symbol [{symbol}] in geohash [{hash}]")]
    HashSymbol {
        /// The letter.
        symbol: char,
        /// All of it.
        hash: String,
    },
    /// One of its numbers is none, such as what `1e999` comes to.
    #[error("a coordinate is not a number")]
    NotFinite,
}

/// A place is not on earth.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum OffEarth {
    /// It is beyond a pole, degrees.
    #[error("illegal latitude value [{0:?}]")]
    Latitude(f64),
    /// It is beyond the date line, degrees.
    #[error("illegal longitude value [{0:?}]")]
    Longitude(f64),
}

/// Why a text is no distance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DistanceError {
    /// It begins with no number; Java's words.
    #[error("For input string: \"{0}\"")]
    NoNumber(String),
    /// It ends with no unit of distance.
    #[error("No distance unit match [{0}]")]
    NoUnit(String),
}
