//! `_source`: whether a document's text is answered, and which parts of it.

use plimsoll_index::Error;
use serde_json::Value;

use crate::rest::filter_path::FilterPath;
use crate::rest::query::Query;

/// What is answered of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceFilter {
    /// All of it, byte for byte.
    Whole,
    /// Nothing.
    Nothing,
    /// These parts.
    Parts(FilterPath),
}

impl SourceFilter {
    /// Reads the parameters.
    ///
    /// # Errors
    /// 400 where they name too many fields.
    pub fn of_query(query: &Query) -> Result<Self, Error> {
        let mut includes: Vec<String> = Vec::new();
        match query.get("_source") {
            Some("false") => return Ok(Self::Nothing),
            None | Some("true" | "") => (),
            Some(_) => includes.extend(query.list("_source").into_iter().map(str::to_owned)),
        }
        let mut excludes = Vec::new();
        for (list, names) in [
            (&mut includes, ["_source_includes", "_source_include"]),
            (&mut excludes, ["_source_excludes", "_source_exclude"]),
        ] {
            for name in names {
                list.extend(query.list(name).into_iter().map(str::to_owned));
            }
        }
        Self::parts(&includes, &excludes)
    }

    /// Reads what a body says as `_source`; none where it says nothing.
    ///
    /// # Errors
    /// 400 where it is of no known shape.
    pub fn of_body(body: Option<&Value>) -> Result<Option<Self>, Error> {
        let list = |value: Option<&Value>| match value {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(Value::String(one)) => Some(vec![one.clone()]),
            Some(Value::Array(items)) => {
                items.iter().map(|item| item.as_str().map(str::to_owned)).collect()
            }
            Some(_) => None,
        };
        let filter = match body {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Bool(true)) => Some(Self::Whole),
            Some(Value::Bool(false)) => Some(Self::Nothing),
            Some(Value::Object(object)) => {
                let either = |names: [&str; 2]| names.iter().find_map(|name| object.get(*name));
                list(either(["includes", "include"]))
                    .zip(list(either(["excludes", "exclude"])))
                    .map(|(includes, excludes)| Self::parts(&includes, &excludes))
                    .transpose()?
            }
            value => list(value).map(|includes| Self::parts(&includes, &[])).transpose()?,
        };
        filter.map(Some).ok_or_else(|| {
            Error::parsing("[_source] is neither true or false, nor a list, nor has it includes and excludes as lists")
        })
    }

    /// What a mapping leaves of each source that is answered; its size is the mapping's concern.
    #[must_use]
    pub fn of_mapping(includes: &[String], excludes: &[String]) -> Self {
        FilterPath::of(&joined(includes, excludes)).map_or(Self::Whole, Self::Parts)
    }

    /// These parts, or all of it where nothing is said.
    fn parts(includes: &[String], excludes: &[String]) -> Result<Self, Error> {
        Ok(FilterPath::parse(&joined(includes, excludes))?.map_or(Self::Whole, Self::Parts))
    }

    /// What is answered of a source; none for nothing at all.
    #[must_use]
    pub fn apply(&self, source: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Whole => Some(source.to_vec()),
            Self::Nothing => None,
            Self::Parts(filter) => Some(filter.apply(source)),
        }
    }
}

fn joined(includes: &[String], excludes: &[String]) -> String {
    let excludes = excludes.iter().map(|pattern| format!("-{}", deep(pattern)));
    let patterns: Vec<String> =
        includes.iter().map(|pattern| deep(pattern)).chain(excludes).collect();
    patterns.join(",")
}

/// In patterns of fields a `*` between dots stands for any depth.
fn deep(pattern: &str) -> String {
    let words: Vec<&str> =
        pattern.split('.').map(|word| if word == "*" { "*.**" } else { word }).collect();
    let pattern = words.join(".");
    pattern.strip_suffix(".**").map(str::to_owned).unwrap_or(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::http_status::HttpStatus;
    use serde_json::json;

    #[test]
    fn parts_of_a_source() {
        let source = br#"{"a": 1, "o": {"x": 1.0, "y": {"z": [ 1 ]}}}"#;
        for (query, expected) in [
            ("", Some(r#"{"a": 1, "o": {"x": 1.0, "y": {"z": [ 1 ]}}}"#)),
            ("_source=false", None),
            ("_source=a", Some(r#"{"a":1}"#)),
            ("_source_includes=o.*&_source_excludes=o.y", Some(r#"{"o":{"x":1.0}}"#)),
            ("_source_excludes=o", Some(r#"{"a":1}"#)),
            ("_source=*.z", Some(r#"{"o":{"y":{"z":[ 1 ]}}}"#)),
            ("_source=none", Some("{}")),
        ] {
            let filter = SourceFilter::of_query(&Query::parse(query).unwrap()).unwrap();
            let found = filter.apply(source).map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(found.as_deref(), expected, "{query}");
        }
        let of = |body: Value| SourceFilter::of_body(Some(&body)).map_err(|error| error.status());
        assert_eq!(of(json!(false)), Ok(Some(SourceFilter::Nothing)));
        assert_eq!(of(json!(["a"])), of(json!({"includes": "a"})));
        assert_eq!((of(json!(1)), of(json!([1]))), (Err(400), Err(400)));
        assert_eq!(SourceFilter::of_body(None), Ok(None));
    }
}
