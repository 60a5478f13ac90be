//! The parameters behind the `?` of a request: decoded, and read as what they are meant to be.
//! Which parameters a request may have is the routes' to say.

use std::borrow::Cow;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use plimsoll_index::Error;
use plimsoll_stdx::units;

/// The parameters of one request. A name that comes twice counts once, the last time.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Takes apart what stands behind the `?`.
    ///
    /// # Errors
    /// 400 where an escape is broken or its bytes are not UTF-8.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut pairs = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            pairs.push((decode_form(name)?, decode_form(value)?));
        }
        Ok(Self { pairs })
    }

    /// A parameter as it was given; empty where it stands as a flag.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The names that were given.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pairs.iter().map(|(name, _)| name.as_str())
    }

    /// A parameter that is true or false; a bare name means true.
    ///
    /// # Errors
    /// 400 where it is neither.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, Error> {
        match self.get(name) {
            None => Ok(None),
            Some("" | "true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(other) => Err(Error::illegal_argument(format!(
                "Failed to parse value [{other}] as only [true] or [false] are allowed."
            ))),
        }
    }

    /// The same with a default.
    ///
    /// # Errors
    /// As [`Self::flag`].
    pub fn flag_or(&self, name: &str, default: bool) -> Result<bool, Error> {
        Ok(self.flag(name)?.unwrap_or(default))
    }

    /// A whole number.
    ///
    /// # Errors
    /// 400 where it is none, or does not fit the type.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Error> {
        let Some(text) = self.get(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            Error::illegal_argument(format!(
                "Failed to parse int parameter [{name}] with value [{text}]"
            ))
            .caused_by(Error::invalid(
                "number_format_exception",
                format!("For input string: \"{text}\""),
            ))
        })
    }

    /// A time such as `30s`.
    ///
    /// # Errors
    /// 400 where it is none.
    pub fn duration(&self, name: &str) -> Result<Option<Duration>, Error> {
        self.get(name).map(|text| duration(name, text)).transpose()
    }

    /// A list between commas; empty where it is not given.
    #[must_use]
    pub fn list(&self, name: &str) -> Vec<&str> {
        let text = self.get(name).unwrap_or_default();
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect()
    }
}

/// A time such as `30s`, given as `name`.
///
/// # Errors
/// 400 where it is none.
pub fn duration(name: &str, text: &str) -> Result<Duration, Error> {
    parse_duration(text).ok_or_else(|| Error::no_duration(name, text))
}

/// A time as Elasticsearch writes it: `1d`, `30s`, `500ms`, `0` and `-1` (no time at all) without
/// a unit.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    match text {
        "0" | "-1" => Some(Duration::ZERO),
        _ => units::duration(text).ok(),
    }
}

/// One segment of a path, with its escapes resolved.
///
/// # Errors
/// 400 where its bytes are not UTF-8.
pub fn decode_segment(text: &str) -> Result<Cow<'_, str>, Error> {
    percent_decode_str(text)
        .decode_utf8()
        .map_err(|_| Error::illegal_argument(format!("[{text}] is not UTF-8 when decoded")))
}

/// Names and values may have `+` for a space.
fn decode_form(text: &str) -> Result<String, Error> {
    let spaced = text.replace('+', " ");
    Ok(decode_segment(&spaced)?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::http_status::HttpStatus;

    #[test]
    fn parameters_are_decoded_and_read() {
        let query = Query::parse("pretty&q=a%3Ab+c&size=5&size=7&x=no&timeout=1m&e=%FF");
        assert_eq!(query.unwrap_err().status(), 400);
        let query = Query::parse("pretty&q=a%3Ab+c&size=5&size=7&x=no&timeout=1m&l=a,,b").unwrap();
        assert_eq!(query.flag("pretty").unwrap(), Some(true));
        assert_eq!(query.get("q"), Some("a:b c"));
        assert_eq!(query.number::<usize>("size").unwrap(), Some(7));
        assert_eq!(query.duration("timeout").unwrap(), Some(Duration::from_secs(60)));
        assert_eq!(query.list("l"), ["a", "b"]);
        assert!(query.flag("x").is_err() && query.number::<usize>("q").is_err());
        assert_eq!(query.flag("none").unwrap(), None);
    }
}
