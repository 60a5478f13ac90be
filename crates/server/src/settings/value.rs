//! Values out of what was given, or defaults: within their range, and parsed.

use std::net::SocketAddr;
use std::time::Duration;

use plimsoll_stdx::units;

use super::raw::{Raw, SettingsError};
use super::table::{self, Kind};
use super::value_error::ValueError;

/// What a key was set to, or its default, in its range.
pub(super) fn text(raw: &Raw, key: &'static str) -> Result<String, SettingsError> {
    parsed(raw, key, |text| Ok(text.to_owned()))
}

pub(super) fn size(raw: &Raw, key: &'static str) -> Result<usize, SettingsError> {
    parsed(raw, key, |text| Ok(text.parse::<usize>()?))
}

pub(super) fn bytes(raw: &Raw, key: &'static str) -> Result<usize, SettingsError> {
    parsed(raw, key, |text| Ok(usize::try_from(bytes_of(text)?)?))
}

pub(super) fn bytes_of(text: &str) -> Result<u64, ValueError> {
    units::bytes(text).map_err(|why| ValueError::Unit { text: text.to_owned(), why })
}

pub(super) fn duration(text: &str) -> Result<Duration, ValueError> {
    units::duration(text).map_err(|why| ValueError::Unit { text: text.to_owned(), why })
}

/// What stands between commas.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

pub(super) fn parsed<T>(
    raw: &Raw,
    key: &'static str,
    parse: impl FnOnce(&str) -> Result<T, ValueError>,
) -> Result<T, SettingsError> {
    let definition = table::find(key).expect("the key stands in the table");
    let (text, origin) = match raw.get(key) {
        Some(given) => (given.text.as_str(), given.origin.as_str()),
        None => (definition.default, "its default"),
    };
    check(definition.kind, text).and_then(|()| parse(text)).map_err(|why| SettingsError::Value {
        key: key.to_owned(),
        origin: origin.to_owned(),
        why,
    })
}

/// Whether a text is what a setting takes.
pub(super) fn check(kind: Kind, text: &str) -> Result<(), ValueError> {
    let within = |value: u64, min: u64, max: u64, show: &dyn Fn(u64) -> String| {
        if (min..=max).contains(&value) {
            Ok(())
        } else {
            let text = text.to_owned();
            Err(ValueError::Outside { text, min: show(min), max: show(max) })
        }
    };
    match kind {
        Kind::Text | Kind::Path | Kind::Secret => Ok(()),
        Kind::Address => address(text).map(drop),
        Kind::Count(min, max) => match text.parse() {
            Ok(value) => within(value, min, max, &|value| value.to_string()),
            Err(_) => Err(ValueError::NotWhole(text.to_owned())),
        },
        Kind::Bytes(min, max) => within(bytes_of(text)?, min, max, &units::show_bytes),
        Kind::Duration(min, max) => {
            let micros = duration(text)?.as_micros();
            let show = |micros| units::show_duration(Duration::from_micros(micros));
            within(u64::try_from(micros).unwrap_or(u64::MAX), min, max, &show)
        }
        Kind::Toggle => check(Kind::Choice(&["true", "false"]), text),
        Kind::Choice(words) if words.contains(&text) => Ok(()),
        Kind::Choice(words) => Err(ValueError::NoneOf { text: text.to_owned(), words }),
    }
}

pub(super) fn address(text: &str) -> Result<SocketAddr, ValueError> {
    let text = text.replace("localhost:", "127.0.0.1:");
    text.parse().map_err(|_| ValueError::Address(text))
}
