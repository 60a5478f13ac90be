//! The analyzers and normalizers that one index knows: the built-in ones and those of its
//! settings (`analysis.analyzer`, `.normalizer`, `.tokenizer`, `.filter`, `.char_filter`).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::analyzer::Analyzer;
use super::builtin::{built_in, configured, standard};
use super::filter::{CharFilter, Filter};
use super::parts;
use super::tokenizer::TokenizerKind;
use crate::Error;

/// An index's analyzers and normalizers. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Analysis(Arc<Custom>);

#[derive(Debug, Default)]
struct Custom {
    analyzers: BTreeMap<String, Analyzer>,
    normalizers: BTreeMap<String, Analyzer>,
    /// `tokenizer`, `filter` and `char_filter` of the settings, for `_analyze`.
    parts: Map<String, Value>,
}

impl Analysis {
    /// The analyzers that an index's settings define, which are given by their full names:
    /// `index.analysis.filter.mine.type` stands where `{"filter": {"mine": {"type": …}}}` would.
    ///
    /// # Errors
    /// As [`Self::parse`], and where one name is the beginning of another.
    pub fn of_settings(settings: &Map<String, Value>) -> Result<Self, Error> {
        let mut analysis = json!({});
        for (key, value) in settings {
            let Some(path) = key.strip_prefix("index.analysis.") else { continue };
            let mut place = &mut analysis;
            for part in path.split('.') {
                if !place.is_object() {
                    let reason = format!("setting [{key}] has no place");
                    return Err(Error::illegal_argument(reason));
                }
                place = &mut place[part];
                if place.is_null() {
                    *place = json!({});
                }
            }
            *place = value.clone();
        }
        Self::parse(&analysis)
    }

    /// The analyzers that `settings` define: the object under `index.analysis` or `analysis`.
    ///
    /// # Errors
    /// 400 where a definition names a part that is not there or a value that does not fit.
    pub fn parse(settings: &Value) -> Result<Self, Error> {
        let parts = settings.as_object().cloned().unwrap_or_default();
        let mut custom = Custom { parts, ..Custom::default() };
        for (name, body) in section(&custom.parts, "analyzer") {
            let analyzer = custom.analyzer(&name, &body)?;
            custom.analyzers.insert(name, analyzer);
        }
        for (name, body) in section(&custom.parts, "normalizer") {
            let normalizer = custom.normalizer(&name, &body)?;
            custom.normalizers.insert(name, normalizer);
        }
        Ok(Self(Arc::new(custom)))
    }

    /// The analyzer of this name, own or built in.
    #[must_use]
    pub fn analyzer(&self, name: &str) -> Option<Analyzer> {
        self.0.analyzers.get(name).cloned().or_else(|| built_in(name))
    }

    /// The normalizer of this name; `lowercase` is built in.
    #[must_use]
    pub fn normalizer(&self, name: &str) -> Option<Analyzer> {
        let own = self.0.normalizers.get(name).cloned();
        own.or_else(|| {
            (name == "lowercase").then(|| {
                Analyzer::new(name, Vec::new(), TokenizerKind::Keyword, vec![Filter::Lowercase])
            })
        })
    }

    /// The analyzer of a field that names none.
    #[must_use]
    pub fn default_analyzer(&self) -> Analyzer {
        self.analyzer("default").unwrap_or_else(standard)
    }

    /// What `_analyze` asks for: `body` names an `analyzer`, a `normalizer`, or a `tokenizer` with
    /// `filter` and `char_filter`.
    ///
    /// # Errors
    /// 400 where a name is not known.
    pub fn for_request(&self, body: &Value) -> Result<Analyzer, Error> {
        if let Some(name) = body.get("analyzer").and_then(Value::as_str) {
            return self.analyzer(name).ok_or_else(|| {
                Error::illegal_argument(format!("failed to find global analyzer [{name}]"))
            });
        }
        if let Some(name) = body.get("normalizer").and_then(Value::as_str) {
            return self.normalizer(name).ok_or_else(|| {
                Error::illegal_argument(format!("failed to find normalizer under [{name}]"))
            });
        }
        if body.get("tokenizer").is_none() && body.get("filter").is_none() {
            return Ok(self.default_analyzer());
        }
        self.0.analyzer("_custom_", body)
    }
}

impl Custom {
    fn analyzer(&self, name: &str, body: &Value) -> Result<Analyzer, Error> {
        let kind = body.get("type").and_then(Value::as_str).unwrap_or("custom");
        if kind != "custom" {
            return configured(name, kind, body);
        }
        let tokenizer = match body.get("tokenizer") {
            Some(tokenizer) => self.tokenizer(tokenizer)?,
            None if body.get("filter").is_some() && name == "_custom_" => TokenizerKind::Keyword,
            None => {
                return Err(Error::illegal_argument(format!(
                    "analyzer [{name}] must specify either an analyzer type, or a tokenizer"
                )));
            }
        };
        let char_filters = self.char_filters(body)?;
        let filters = self.filters(body)?;
        Ok(Analyzer::new(name, char_filters, tokenizer, filters))
    }

    fn normalizer(&self, name: &str, body: &Value) -> Result<Analyzer, Error> {
        if body.get("tokenizer").is_some() {
            return Err(Error::illegal_argument(format!(
                "Custom normalizer [{name}] cannot configure a tokenizer"
            )));
        }
        let char_filters = self.char_filters(body)?;
        let filters = self.filters(body)?;
        Ok(Analyzer::new(name, char_filters, TokenizerKind::Keyword, filters))
    }

    fn filters(&self, body: &Value) -> Result<Vec<Filter>, Error> {
        let mut filters = Vec::new();
        for part in list(body.get("filter")) {
            let (name, definition) = self.definition("filter", &part);
            filters.extend(parts::filter(&name, &definition)?);
        }
        Ok(filters)
    }

    fn char_filters(&self, body: &Value) -> Result<Vec<CharFilter>, Error> {
        let parts = list(body.get("char_filter")).into_iter();
        parts
            .map(|part| {
                let (name, definition) = self.definition("char_filter", &part);
                parts::char_filter(&name, &definition)
            })
            .collect()
    }

    fn tokenizer(&self, part: &Value) -> Result<TokenizerKind, Error> {
        let (name, definition) = self.definition("tokenizer", part);
        parts::tokenizer(&name, &definition)
    }

    /// What a part's name stands for: its kind and its body. A part can also be given in full.
    fn definition(&self, section: &str, part: &Value) -> (String, Value) {
        let name = part.as_str().unwrap_or_default();
        let own = self.parts.get(section).and_then(|all| all.get(name));
        let body = own.cloned().unwrap_or_else(|| part.clone());
        let kind = body.get("type").and_then(Value::as_str).unwrap_or(name).to_owned();
        (kind, body)
    }
}

fn section(parts: &Map<String, Value>, name: &str) -> Vec<(String, Value)> {
    let object = parts.get(name).and_then(Value::as_object);
    object.into_iter().flatten().map(|(name, body)| (name.clone(), body.clone())).collect()
}

fn list(value: Option<&Value>) -> Vec<Value> {
    match value {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(all)) => all.clone(),
        Some(one) => vec![one.clone()],
    }
}
