//! The first stage of settings: which keys were given, by whom, as text. Files, `--set` and
//! flags end up here alike; a key that nobody knows is refused here.

use std::{collections::BTreeMap, path::Path};

use config::{Config, File, FileFormat, Value, ValueKind};

use super::table;
use super::value_error::ValueError;

/// Whether nodes talk to each other through TLS.
const TRANSPORT_ENABLED: &str = "xpack.security.transport.ssl.enabled";
/// What settings end in that name files between commas.
const AUTHORITIES: &str = "certificate_authorities";

/// What is wrong with the settings, by key and by who gave it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read or is neither TOML nor YAML.
    #[error("the settings file {path}: {message}")]
    File {
        /// As it was given.
        path: String,
        /// What the parser or the system says.
        message: String,
    },
    /// No setting has this name.
    #[error("unknown setting `{key}` (from {origin}){}", similar(.key))]
    Unknown {
        /// As it was given.
        key: String,
        /// The file, `--set` or the flag.
        origin: String,
    },
    /// The value does not fit.
    #[error("setting `{key}` (from {origin}): {why}")]
    Value {
        /// The setting.
        key: String,
        /// The file, `--set` or the flag.
        origin: String,
        /// What does not fit.
        #[source]
        why: ValueError,
    },
}

/// Keys and their text, the last giver's.
#[derive(Clone, Debug, Default)]
pub struct Raw {
    given: BTreeMap<&'static str, Given>,
}

#[derive(Clone, Debug)]
pub(super) struct Given {
    pub text: String,
    pub origin: String,
}

impl Raw {
    /// Takes over every key of a settings file: TOML where it ends in `.toml`, else YAML. Keys
    /// may be nested or written with dots.
    ///
    /// # Errors
    /// Where it cannot be read, or has a key that nobody knows.
    pub fn file(&mut self, path: &Path) -> Result<(), SettingsError> {
        let toml = path.extension().is_some_and(|extension| extension == "toml");
        let format = if toml { FileFormat::Toml } else { FileFormat::Yaml };
        let origin = path.display().to_string();
        let failed = |message: String| SettingsError::File { path: origin.clone(), message };
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        let parsed = Config::builder()
            .add_source(File::from_str(&text, format))
            .build()
            .map_err(|error| failed(error.to_string()))?;
        self.flatten("", parsed.cache, &origin)
    }

    /// Takes over one key.
    ///
    /// # Errors
    /// Where nobody knows it.
    pub fn set(&mut self, key: &str, text: &str, origin: &str) -> Result<(), SettingsError> {
        let (key, text) = match (key, text) {
            // Elasticsearch has a switch where there are three modes here.
            (TRANSPORT_ENABLED, "true") => ("rpc.tls.mode", "required"),
            (TRANSPORT_ENABLED, "false") => ("rpc.tls.mode", "off"),
            given => given,
        };
        let unknown = || SettingsError::Unknown { key: key.to_owned(), origin: origin.to_owned() };
        let definition = table::find(key).ok_or_else(unknown)?;
        let given = Given { text: text.to_owned(), origin: origin.to_owned() };
        self.given.insert(definition.key, given);
        Ok(())
    }

    /// Takes over `key=value`, as `--set` has it.
    ///
    /// # Errors
    /// Where there is no `=`, or nobody knows the key.
    pub fn assignment(&mut self, text: &str) -> Result<(), SettingsError> {
        let (key, value) = text.split_once('=').ok_or_else(|| SettingsError::Value {
            key: text.to_owned(),
            origin: "--set".to_owned(),
            why: ValueError::Missing,
        })?;
        self.set(key.trim(), value.trim(), "--set")
    }

    /// Takes over one key that nobody gave.
    ///
    /// # Errors
    /// Where nobody knows it.
    pub fn set_unless_given(
        &mut self,
        key: &str,
        text: &str,
        origin: &str,
    ) -> Result<(), SettingsError> {
        match table::find(key).is_some_and(|it| self.given.contains_key(it.key)) {
            true => Ok(()),
            false => self.set(key, text, origin),
        }
    }

    /// What was given for a key, or else its default, unchecked.
    #[must_use]
    pub fn text_or_default(&self, key: &str) -> String {
        let default = || table::find(key).map_or_else(String::new, |it| it.default.to_owned());
        self.given.get(key).map_or_else(default, |given| given.text.clone())
    }

    pub(super) fn get(&self, key: &str) -> Option<&Given> {
        self.given.get(key)
    }

    fn flatten(&mut self, prefix: &str, value: Value, origin: &str) -> Result<(), SettingsError> {
        let text = match value.kind {
            ValueKind::Table(entries) => {
                for (name, value) in entries {
                    let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
                    self.flatten(&key, value, origin)?;
                }
                return Ok(());
            }
            // Elasticsearch has them as lists.
            ValueKind::Array(items) if prefix.ends_with(AUTHORITIES) => {
                items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(",")
            }
            ValueKind::Array(_) => {
                return Err(SettingsError::Value {
                    key: prefix.to_owned(),
                    origin: origin.to_owned(),
                    why: ValueError::List,
                });
            }
            ValueKind::Nil => String::new(),
            other => other.to_string(),
        };
        self.set(prefix, &text, origin)
    }
}

/// The nearest name that exists, as a question: of the same section, where there is such a section.
fn similar(key: &str) -> String {
    let section = key.split('.').next();
    let is_alike = |other: &&str| other.split('.').next() == section;
    let all = || table::SETTINGS.iter().map(|definition| definition.key);
    let is_section = all().any(|other| is_alike(&other));
    all()
        .filter(|other| !is_section || is_alike(other))
        .map(|other| (strsim::damerau_levenshtein(key, other), other))
        .min()
        .filter(|(distance, _)| *distance <= 4)
        .map(|(_, other)| format!("; did you mean `{other}`?"))
        .unwrap_or_default()
}
