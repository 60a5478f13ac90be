//! `filter_path`: which parts of an answer are sent. It works on the bytes: parts that are kept
//! whole are copied, not read.
//!
//! All patterns together are one automaton without memory: a state is a place in a pattern, and a
//! set of states has no state twice. So a field costs at most one comparison for each word of the
//! patterns, however many `**` are among them.

use plimsoll_index::Error;
use plimsoll_stdx::wildcard_matches;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The most patterns that one request may have.
const PATTERNS_MAX: usize = 256;
/// The most words between dots that all patterns of a request may have together.
const WORDS_MAX: usize = 512;
/// The most bytes of all patterns of a request.
const BYTES_MAX: usize = 16 << 10;

/// Paths to keep and paths to leave out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterPath {
    includes: Patterns,
    excludes: Patterns,
}

/// Words of patterns one behind the other; a pattern ends where its last word stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Patterns {
    words: Vec<Word>,
    /// Where patterns begin.
    starts: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    text: String,
    is_last: bool,
}

/// What a set of patterns says of one field: kept or left out whole, or where patterns go on
/// inside it, in their order and each place once.
enum Verdict {
    Whole,
    Inside(Vec<usize>),
}

/// Patterns, and the words that may fit next.
#[derive(Clone, Copy)]
struct At<'a> {
    patterns: &'a Patterns,
    states: &'a [usize],
}

impl Patterns {
    fn push(&mut self, pattern: &str) {
        self.starts.push(self.words.len());
        let words = pattern.split('.').map(|text| Word { text: text.to_owned(), is_last: false });
        self.words.extend(words);
        if let Some(last) = self.words.last_mut() {
            last.is_last = true;
        }
    }

    /// What patterns say of a field; none where no pattern goes there.
    fn verdict(&self, states: &[usize], name: &str) -> Option<Verdict> {
        let mut inside: Vec<usize> = Vec::new();
        for &start in states {
            let mut at = start;
            // `**` stands for any number of fields, none included: what follows it may fit too.
            while self.words[at].text == "**" {
                if self.words[at].is_last {
                    return Some(Verdict::Whole);
                }
                inside.push(at);
                at += 1;
            }
            if wildcard_matches(&self.words[at].text, name) {
                if self.words[at].is_last {
                    return Some(Verdict::Whole);
                }
                inside.push(at + 1);
            }
        }
        inside.sort_unstable();
        inside.dedup();
        (!inside.is_empty()).then_some(Verdict::Inside(inside))
    }
}

impl FilterPath {
    /// Reads `a.b,-c.*`; none where nothing is filtered.
    ///
    /// # Errors
    /// 400 where there are too many patterns, or they are too long.
    pub fn parse(text: &str) -> Result<Option<Self>, Error> {
        let refused = |what: String| {
            Err(Error::illegal_argument(format!(
                "too much in a list of fields such as [filter_path]: {what}"
            )))
        };
        if text.len() > BYTES_MAX {
            return refused(format!("[{}] bytes, and at most [{BYTES_MAX}] are taken", text.len()));
        }
        let count = patterns(text).count();
        if count > PATTERNS_MAX {
            return refused(format!("[{count}] patterns, and at most [{PATTERNS_MAX}] are taken"));
        }
        let filter = Self::of(text);
        let words = |filter: &Self| filter.includes.words.len() + filter.excludes.words.len();
        match filter.as_ref().map_or(0, words) {
            words if words > WORDS_MAX => refused(format!(
                "[{words}] names between dots, and at most [{WORDS_MAX}] are taken"
            )),
            _ => Ok(filter),
        }
    }

    /// The same, of any size.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let mut filter = Self::default();
        for pattern in patterns(text) {
            match pattern.strip_prefix('-') {
                Some(pattern) => filter.excludes.push(pattern),
                None => filter.includes.push(pattern),
            }
        }
        (filter != Self::default()).then_some(filter)
    }

    /// The parts of a JSON value that are kept; `{}` where nothing is.
    #[must_use]
    pub fn apply(&self, json: &[u8]) -> Vec<u8> {
        let Ok(value) = serde_json::from_slice::<&RawValue>(json) else { return json.to_vec() };
        let includes = At { patterns: &self.includes, states: &self.includes.starts };
        let excludes = At { patterns: &self.excludes, states: &self.excludes.starts };
        let includes = (!includes.states.is_empty()).then_some(includes);
        let mut out = Vec::with_capacity(json.len().min(1 << 16));
        if !filtered(value.get(), includes, excludes, &mut out) {
            out.extend_from_slice(b"{}");
        }
        out
    }
}

fn patterns(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|pattern| !pattern.is_empty())
}

/// Writes what is kept of a value; false where that is nothing. Without `includes` everything is
/// kept that is not left out.
fn filtered(json: &str, includes: Option<At<'_>>, excludes: At<'_>, out: &mut Vec<u8>) -> bool {
    if includes.is_none() && excludes.states.is_empty() {
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

fn object(json: &str, includes: Option<At<'_>>, excludes: At<'_>, out: &mut Vec<u8>) -> bool {
    let Ok(Fields(fields)) = serde_json::from_str::<Fields<'_>>(json) else { return false };
    let start = out.len();
    out.push(b'{');
    for (name, value) in &fields {
        let inner_excludes = match excludes.patterns.verdict(excludes.states, name) {
            Some(Verdict::Whole) => continue,
            Some(Verdict::Inside(inside)) => inside,
            None => Vec::new(),
        };
        let verdict = includes.map(|includes| includes.patterns.verdict(includes.states, name));
        let inner_includes = match verdict {
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
        let inner_includes = includes.zip(inner_includes.as_deref());
        let inner_includes = inner_includes.map(|(outer, states)| At { states, ..outer });
        let inner_excludes = At { states: &inner_excludes, ..excludes };
        if !filtered(value.get(), inner_includes, inner_excludes, out) {
            out.truncate(mark);
        }
    }
    let is_kept = out.len() > start + 1 || (includes.is_none() && fields.is_empty());
    finish(out, start, b'}', is_kept)
}

fn array(json: &str, includes: Option<At<'_>>, excludes: At<'_>, out: &mut Vec<u8>) -> bool {
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
    use crate::rest::http_status::HttpStatus;

    fn check(filter: &str, json: &str, expected: &str) {
        let filter = FilterPath::parse(filter).unwrap().unwrap();
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
        check("**.x.**.y", r#"{"x":{"a":{"y":1},"z":2},"y":3}"#, r#"{"x":{"a":{"y":1}}}"#);
        check("a.**", r#"{"a":{"b":[1]},"c":1}"#, r#"{"a":{"b":[1]}}"#);
        assert_eq!(FilterPath::parse(" , "), Ok(None));
    }

    #[test]
    fn any_depth_many_times_costs_no_more_than_its_words() {
        // The old way followed each `**` on its own: two to the power of their number.
        let deep = |levels: usize| "{\"a\":".repeat(levels) + "1" + &"}".repeat(levels);
        let json = deep(100);
        check(&("**.".repeat(500) + "a"), &json, &json);
        check(&("**.".repeat(90) + "b"), &json, "{}");
        check(&("*.**.".repeat(50) + "a"), &deep(60), &deep(60));
        for (many, what) in [
            ("a,".repeat(257), "patterns"),
            ("**.".repeat(600) + "a", "names between dots"),
            ("a".repeat(20_000), "bytes"),
        ] {
            let refused = FilterPath::parse(&many).unwrap_err();
            assert_eq!(refused.status(), 400);
            assert!(refused.reason.contains(what), "{}", refused.reason);
        }
    }
}
