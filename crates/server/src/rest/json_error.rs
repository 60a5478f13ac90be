//! Broken JSON, said in the words of Elasticsearch's parser: what was met, in which line and
//! column.

use plimsoll_index::Error;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

/// How the parser names where the text came from.
const SOURCE: &str = "[Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled)";

/// Reads JSON.
///
/// # Errors
/// 400 `json_parse_exception` or `json_e_o_f_exception`, or `x_content_parse_exception` where it
/// is JSON of another shape.
pub fn from_json<T: DeserializeOwned>(json: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(json).map_err(|error| json_error(json, &error))
}

/// The error for JSON that could not be read.
#[must_use]
pub fn json_error(json: &[u8], error: &serde_json::Error) -> Error {
    let (line, column) = (error.line(), error.column());
    match error.classify() {
        Category::Eof => {
            let column = last_column(json);
            let reason = format!("{}\n at {SOURCE}; line: {line}, column: {column}]", met(json));
            Error::invalid("json_e_o_f_exception", reason)
        }
        Category::Data => {
            let words = error.to_string();
            let (words, _) = words.rsplit_once(" at line ").unwrap_or((&words, ""));
            Error::invalid("x_content_parse_exception", format!("[{line}:{column}] {words}"))
        }
        Category::Syntax | Category::Io => {
            let at = offset(json, line, column);
            let found = String::from_utf8_lossy(json.get(at..).unwrap_or_default());
            let shown = found.chars().next().map_or_else(String::new, |found| {
                format!("Unexpected character ('{found}' (code {})): ", u32::from(found))
            });
            let words = error.to_string();
            let (words, _) = words.rsplit_once(" at line ").unwrap_or((&words, ""));
            let reason = format!("{shown}{words}\n at {SOURCE}; line: {line}, column: {column}]");
            Error::invalid("json_parse_exception", reason)
        }
    }
}

/// The byte that the parser stopped at.
fn offset(json: &[u8], line: usize, column: usize) -> usize {
    let mut lines = json.split_inclusive(|byte| *byte == b'\n');
    let before: usize = lines.by_ref().take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    (before + column.saturating_sub(1)).min(json.len().saturating_sub(1))
}

/// The column after the last byte, from 1.
fn last_column(json: &[u8]) -> usize {
    let line = json.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    json.len() - line + 1
}

/// What was open when the text ended.
fn met(json: &[u8]) -> &'static str {
    let mut open = Vec::new();
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => {
                let end = super::pretty::string_end(json, at);
                if end == json.len() && (end < at + 2 || json[end - 1] != b'"') {
                    return "Unexpected end-of-input in VALUE_STRING";
                }
                at = end;
                continue;
            }
            b'{' | b'[' => open.push(byte),
            b'}' | b']' => {
                open.pop();
            }
            _ => (),
        }
        at += 1;
    }
    match open.last() {
        Some(b'{') => "Unexpected end-of-input within/between Object entries",
        Some(_) => "Unexpected end-of-input within/between Array entries",
        None => "No content to map due to end-of-input",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::http_status::HttpStatus;
    use serde_json::Value;

    #[test]
    fn broken_json_is_located() {
        for (json, kind, reason) in [
            (
                "{\"query\":",
                "json_e_o_f_exception",
                "Unexpected end-of-input within/between Object entries\n at [Source: REDACTED \
                 (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: 1, column: 10]",
            ),
            (
                "[1,",
                "json_e_o_f_exception",
                "Unexpected end-of-input within/between Array entries\n at [Source: REDACTED \
                 (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: 1, column: 4]",
            ),
            (
                "{\n  x: 1}",
                "json_parse_exception",
                "Unexpected character ('x' (code 120)): key must be a string\n at [Source: \
                 REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: 2, \
                 column: 3]",
            ),
        ] {
            let error = from_json::<Value>(json.as_bytes()).unwrap_err();
            assert_eq!((error.kind.as_ref(), error.reason.as_str()), (kind, reason), "{json}");
        }
        assert_eq!(from_json::<bool>(b"1").unwrap_err().kind, "x_content_parse_exception");
        assert_eq!(from_json::<Value>(b"").unwrap_err().status(), 400);
    }
}
