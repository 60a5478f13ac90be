//! `filter_path`: which parts of an answer are sent. It works on the bytes: parts that are kept
//! whole are copied, not read.

use plimsoll_stdx::wildcard_matches;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The most patterns that one request may have.
const PATTERNS_MAX: usize = 256;

/// Paths to keep and paths to leave out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterPath {
    includes: Vec<Vec<String>>,
    excludes: Vec<Vec<String>>,
}

/// What a set of patterns says of one field: kept or left out whole, or which patterns go on
/// inside it.
enum Verdict<'a> {
    Whole,
    Inside(Vec<&'a [String]>),
}

impl FilterPath {
    /// Reads `a.b,-c.*`; none where nothing is filtered.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut filter = Self::default();
        let patterns = text.split(',').map(str::trim).filter(|pattern| !pattern.is_empty());
        for pattern in patterns.take(PATTERNS_MAX) {
            let (list, pattern) = match pattern.strip_prefix('-') {
                Some(pattern) => (&mut filter.excludes, pattern),
                None => (&mut filter.includes, pattern),
            };
            list.push(pattern.split('.').map(str::to_owned).collect());
        }
        (filter != Self::default()).then_some(filter)
    }

    /// The parts of a JSON value that are kept; `{}` where nothing is.
    #[must_use]
    pub fn apply(&self, json: &[u8]) -> Vec<u8> {
        let Ok(value) = serde_json::from_slice::<&RawValue>(json) else { return json.to_vec() };
        let includes: Vec<&[String]> = self.includes.iter().map(Vec::as_slice).collect();
        let excludes: Vec<&[String]> = self.excludes.iter().map(Vec::as_slice).collect();
        let includes = (!includes.is_empty()).then_some(includes.as_slice());
        let mut out = Vec::with_capacity(json.len().min(1 << 16));
        if !filtered(value.get(), includes, &excludes, &mut out) {
            out.extend_from_slice(b"{}");
        }
        out
    }
}

/// Writes what is kept of a value; false where that is nothing. Without `includes` everything is
/// kept that is not left out.
fn filtered(
    json: &str,
    includes: Option<&[&[String]]>,
    excludes: &[&[String]],
    out: &mut Vec<u8>,
) -> bool {
    if includes.is_none() && excludes.is_empty() {
        out.extend_from_slice(json.as_bytes());
        return true;
    }
    match json.as_bytes().first() {
        Some(b'{') => object(json, includes, excludes, out),
        Some(b'[') => array(json, includes, excludes, out),
        _ if includes.is_some() => false,
        _ => {
            out.extend_from_slice(json.as_bytes());
            true
        }
    }
}

fn object(
    json: &str,
    includes: Option<&[&[String]]>,
    excludes: &[&[String]],
    out: &mut Vec<u8>,
) -> bool {
    let Ok(Fields(fields)) = serde_json::from_str::<Fields<'_>>(json) else { return false };
    let start = out.len();
    out.push(b'{');
    for (name, value) in &fields {
        let inner_excludes = match verdict(excludes, name) {
            Some(Verdict::Whole) => continue,
            Some(Verdict::Inside(inside)) => inside,
            None => Vec::new(),
        };
        let inner_includes = match includes.map(|includes| verdict(includes, name)) {
            Some(None) => continue,
            Some(Some(Verdict::Inside(inside))) => Some(inside),
            None | Some(Some(Verdict::Whole)) => None,
        };
        let mark = out.len();
        if mark > start + 1 {
            out.push(b',');
        }
        // The name was a string in JSON, so it can be written as one.
        let _ = serde_json::to_writer(&mut *out, name);
        out.push(b':');
        if !filtered(value.get(), inner_includes.as_deref(), &inner_excludes, out) {
            out.truncate(mark);
        }
    }
    let is_kept = out.len() > start + 1 || (includes.is_none() && fields.is_empty());
    finish(out, start, b'}', is_kept)
}

fn array(
    json: &str,
    includes: Option<&[&[String]]>,
    excludes: &[&[String]],
    out: &mut Vec<u8>,
) -> bool {
    let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(json) else { return false };
    let start = out.len();
    out.push(b'[');
    for item in &items {
        let mark = out.len();
        if mark > start + 1 {
            out.push(b',');
        }
        if !filtered(item.get(), includes, excludes, out) {
            out.truncate(mark);
        }
    }
    let is_kept = out.len() > start + 1 || (includes.is_none() && items.is_empty());
    finish(out, start, b']', is_kept)
}

fn finish(out: &mut Vec<u8>, start: usize, end: u8, is_kept: bool) -> bool {
    if is_kept {
        out.push(end);
    } else {
        out.truncate(start);
    }
    is_kept
}

/// What patterns say of a field; none where no pattern goes there.
fn verdict<'a>(patterns: &[&'a [String]], name: &str) -> Option<Verdict<'a>> {
    let mut inside: Vec<&'a [String]> = Vec::new();
    for pattern in patterns {
        let Some((first, rest)) = pattern.split_first() else { continue };
        if first == "**" {
            // `**` stands for any number of fields, none included.
            if rest.is_empty() {
                return Some(Verdict::Whole);
            }
            inside.push(pattern);
            match verdict(&[rest], name) {
                Some(Verdict::Whole) => return Some(Verdict::Whole),
                Some(Verdict::Inside(more)) => inside.extend(more),
                None => (),
            }
        } else if wildcard_matches(first, name) {
            if rest.is_empty() {
                return Some(Verdict::Whole);
            }
            inside.push(rest);
        }
    }
    (!inside.is_empty()).then_some(Verdict::Inside(inside))
}

/// The fields of an object in their order.
struct Fields<'a>(Vec<(std::borrow::Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        #[derive(Deserialize, PartialEq, Eq, Hash)]
        struct Name<'a>(#[serde(borrow)] std::borrow::Cow<'a, str>);
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Vec<(std::borrow::Cow<'de, str>, &'de RawValue)>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((Name(name), value)) =
                    map.next_entry::<Name<'de>, &'de RawValue>()?
                {
                    fields.push((name, value));
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Visitor).map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(filter: &str, json: &str, expected: &str) {
        let filter = FilterPath::parse(filter).unwrap();
        let found = filter.apply(json.as_bytes());
        assert_eq!(String::from_utf8(found).unwrap(), expected, "{filter:?}");
    }

    #[test]
    fn parts_are_kept_and_left_out() {
        let json = r#"{"took":1,"hits":{"total":{"value":2.50},"hits":[{"_id":"1","_source":{"a":1}},{"_id":"2"}]},"e":[]}"#;
        check("took", json, r#"{"took":1}"#);
        check("hits.total.value", json, r#"{"hits":{"total":{"value":2.50}}}"#);
        check("hits.hits._id", json, r#"{"hits":{"hits":[{"_id":"1"},{"_id":"2"}]}}"#);
        check("hits.hits._source", json, r#"{"hits":{"hits":[{"_source":{"a":1}}]}}"#);
        check("*.t*", json, r#"{"hits":{"total":{"value":2.50}}}"#);
        check("**._id", json, r#"{"hits":{"hits":[{"_id":"1"},{"_id":"2"}]}}"#);
        check("-hits,-e", json, r#"{"took":1}"#);
        check("hits,-hits.hits", json, r#"{"hits":{"total":{"value":2.50}}}"#);
        check("none", json, "{}");
        check("-none", r#"{"a":{},"b":[]}"#, r#"{"a":{},"b":[]}"#);
        check("a", r#"[{"a":1},{"b":1}]"#, r#"[{"a":1}]"#);
        assert_eq!(FilterPath::parse(" , "), None);
    }
}
