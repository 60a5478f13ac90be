//! `http.cors.*` and `http.allowed_hosts`: which web pages may use the REST port. What is asked of
//! each request stands in `rest::browsers`.

use super::raw::{Raw, SettingsError};
use super::value::{parsed, text, words};
use super::value_error::ValueError;

/// What pages of other origins may do, where `http.cors.enabled` says that they may do anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// `http.cors.allow-origin`
    pub origins: Origins,
    /// `http.cors.allow-methods`
    pub methods: String,
    /// `http.cors.allow-headers`
    pub headers: String,
    /// `http.cors.expose-headers`
    pub exposed: String,
    /// `http.cors.allow-credentials`
    pub has_credentials: bool,
    /// `http.cors.max-age`, in seconds
    pub max_age_s: u64,
}

/// Which origins are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origins {
    /// All.
    Any,
    /// These, in lower case, such as `https://kibana.example:5601`.
    Listed(Vec<String>),
}

impl Cors {
    /// Reads the settings; none where no other origin is let in.
    pub(super) fn resolve(raw: &Raw) -> Result<Option<Self>, SettingsError> {
        let has_credentials = text(raw, "http.cors.allow-credentials")? == "true";
        let cors = Self {
            origins: parsed(raw, "http.cors.allow-origin", |text| origins(text, has_credentials))?,
            methods: list(raw, "http.cors.allow-methods")?,
            headers: list(raw, "http.cors.allow-headers")?,
            exposed: list(raw, "http.cors.expose-headers")?,
            has_credentials,
            max_age_s: parsed(raw, "http.cors.max-age", |text| Ok(text.parse::<u64>()?))?,
        };
        Ok((text(raw, "http.cors.enabled")? == "true").then_some(cors))
    }
}

/// The names of `http.allowed_hosts`, in lower case.
pub(super) fn allowed_hosts(raw: &Raw) -> Result<Vec<String>, SettingsError> {
    parsed(raw, "http.allowed_hosts", |text| {
        let wrong = |name: &&str| name.contains(['/', '*', ':', ' ']);
        let names: Vec<&str> = words(text).collect();
        match names.iter().find(|name| wrong(name)) {
            Some(name) => Err(ValueError::HostName((*name).to_owned())),
            None => Ok(names.iter().map(|name| name.to_ascii_lowercase()).collect()),
        }
    })
}

fn origins(text: &str, has_credentials: bool) -> Result<Origins, ValueError> {
    if text == "*" && has_credentials {
        return Err(ValueError::AnyOriginWithCredentials);
    }
    if text == "*" {
        return Ok(Origins::Any);
    }
    if text.starts_with('/') {
        return Err(ValueError::OriginPattern(text.to_owned()));
    }
    let is_origin = |origin: &str| {
        let host = origin.split_once("://").map(|(_, host)| host);
        host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '*', ' ']))
    };
    match words(text).find(|origin| !is_origin(origin)) {
        Some(wrong) => Err(ValueError::Origin(wrong.to_owned())),
        None => Ok(Origins::Listed(words(text).map(str::to_ascii_lowercase).collect())),
    }
}

/// A list that stands in a header.
fn list(raw: &Raw, key: &'static str) -> Result<String, SettingsError> {
    parsed(raw, key, |text| {
        let is_word = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        match words(text).find(|word| !word.chars().all(is_word)) {
            Some(wrong) => Err(ValueError::HeaderWord(wrong.to_owned())),
            None => Ok(words(text).collect::<Vec<_>>().join(",")),
        }
    })
}
