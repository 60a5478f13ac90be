//! The numbers that Elasticsearch tunes following by: they are taken, checked, kept and shown. The
//! window of a connection and what may wait for the log bound batches here; none of these makes
//! them larger.

use plimsoll_index::Error;
use plimsoll_stdx::units;
use serde_json::{Map, Value, json};

use crate::rest::query::parse_duration;

/// What a number is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// 1 and up.
    Count,
    /// A size, at least a byte.
    Size,
    /// A duration.
    Duration,
}

/// Elasticsearch's, with its defaults.
const ALL: [(&str, Kind, &str); 10] = [
    ("max_read_request_operation_count", Kind::Count, "5120"),
    ("max_read_request_size", Kind::Size, "32mb"),
    ("max_outstanding_read_requests", Kind::Count, "12"),
    ("max_write_request_operation_count", Kind::Count, "5120"),
    ("max_write_request_size", Kind::Size, "9223372036854775807b"),
    ("max_outstanding_write_requests", Kind::Count, "9"),
    ("max_write_buffer_count", Kind::Count, "2147483647"),
    ("max_write_buffer_size", Kind::Size, "512mb"),
    ("max_retry_delay", Kind::Duration, "500ms"),
    ("read_poll_timeout", Kind::Duration, "1m"),
];

/// Those of a body that has nothing else.
///
/// # Errors
/// 400 where one is not known, or is none of what it should be.
pub fn parse(body: Map<String, Value>, request: &str) -> Result<Map<String, Value>, Error> {
    let mut parameters = Map::new();
    for (name, value) in body {
        let Some((_, kind, _)) = ALL.iter().find(|(known, ..)| *known == name) else {
            let reason = format!("[1:1] [{request}] unknown field [{name}]");
            return Err(Error::invalid("x_content_parse_exception", reason));
        };
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let is_right = match kind {
            Kind::Count => text.parse::<i64>().is_ok_and(|count| count >= 1),
            Kind::Size => units::bytes(&text).is_ok_and(|bytes| bytes >= 1),
            Kind::Duration => parse_duration(&text).is_some(),
        };
        if !is_right {
            let reason = format!("[{request}] failed to parse field [{name}]: [{text}]");
            return Err(Error::invalid("x_content_parse_exception", reason));
        }
        parameters.insert(name, value);
    }
    Ok(parameters)
}

/// All of them: those that were given, and the defaults of the others.
pub fn with_defaults(given: &Map<String, Value>) -> Map<String, Value> {
    let parameter = |(name, kind, default): &(&str, Kind, &str)| {
        let value = given.get(*name).cloned().unwrap_or_else(|| match kind {
            Kind::Count => default.parse::<i64>().map_or(Value::Null, |count| json!(count)),
            Kind::Size | Kind::Duration => json!(default),
        });
        ((*name).to_owned(), value)
    };
    ALL.iter().map(parameter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::http_status::HttpStatus;

    #[test]
    fn each_is_checked_and_shown_with_its_default() {
        let body = |text: Value| text.as_object().cloned().unwrap();
        let given = parse(body(json!({ "max_retry_delay": "1s" })), "r").unwrap();
        let shown = with_defaults(&given);
        assert_eq!(shown.len(), 10);
        assert_eq!(shown["max_retry_delay"], json!("1s"));
        assert_eq!(shown["max_read_request_operation_count"], json!(5120));
        for wrong in [
            json!({ "bogus": 1 }),
            json!({ "max_read_request_operation_count": 0 }),
            json!({ "max_read_request_size": "many" }),
            json!({ "read_poll_timeout": "soon" }),
        ] {
            assert_eq!(parse(body(wrong), "r").unwrap_err().status(), 400);
        }
    }
}
