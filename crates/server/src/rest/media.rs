//! Media types: which a body may have, and which an answer is asked for.

use plimsoll_index::Error;

/// What an answer in JSON says that it is.
pub const JSON: &str = "application/json; charset=UTF-8";
/// What an answer in plain text says that it is.
pub const TEXT: &str = "text/plain; charset=UTF-8";

/// The types under which JSON or lines of JSON may be sent.
const BODIES: [&str; 4] = [
    "application/json",
    "application/x-ndjson",
    "application/vnd.elasticsearch+json",
    "application/vnd.elasticsearch+x-ndjson",
];

/// Checks the type of a body that is not empty.
///
/// # Errors
/// 406, as a bare sentence.
pub fn check_body(content_type: Option<&str>) -> Result<(), Error> {
    let refused = |reason: String| Err(Error::not_acceptable(BARE, reason));
    let Some(given) = content_type else {
        return refused("Content-Type header is missing".to_owned());
    };
    let (essence, _) = given.split_once(';').unwrap_or((given, ""));
    if BODIES.iter().any(|known| essence.trim().eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    refused(format!("Content-Type header [{given}] is not supported"))
}

/// The kind of an error that is sent as a sentence alone: `{"error": "…", "status": …}`.
pub const BARE: &str = "";

/// What an answer in JSON says that it is, for a client that accepts this: the versioned type if
/// the client asks for it by name.
#[must_use]
pub fn answer_type(accept: Option<&str>) -> String {
    let wanted = accept.unwrap_or_default().split(',').map(str::trim).find(|part| {
        part.get(..VERSIONED.len()).is_some_and(|name| name.eq_ignore_ascii_case(VERSIONED))
    });
    let version = wanted.and_then(|part| {
        let parameters = part.split(';').skip(1).map(str::trim);
        parameters.filter_map(|parameter| parameter.strip_prefix("compatible-with=")).next()
    });
    match version {
        Some(version) if version.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{VERSIONED};compatible-with={version}")
        }
        _ => JSON.to_owned(),
    }
}

const VERSIONED: &str = "application/vnd.elasticsearch+json";

/// Whether a client that accepts this wants JSON where text is usual. `text/plain` beside it
/// means text.
#[must_use]
pub fn prefers_json(accept: Option<&str>) -> bool {
    let accept = accept.unwrap_or_default();
    !accept.contains("text/plain")
        && (accept.contains("application/json") || accept.contains(VERSIONED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::http_status::HttpStatus;

    #[test]
    fn bodies_are_json_or_lines_of_it() {
        for good in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/x-ndjson",
            "application/vnd.elasticsearch+json; compatible-with=8",
            "application/vnd.elasticsearch+x-ndjson; compatible-with=9",
        ] {
            assert!(check_body(Some(good)).is_ok(), "{good}");
        }
        let refused = check_body(Some("application/x-www-form-urlencoded")).unwrap_err();
        assert_eq!(
            refused.reason,
            "Content-Type header [application/x-www-form-urlencoded] is not supported"
        );
        assert_eq!(refused.status(), 406);
        assert!(check_body(None).is_err() && check_body(Some("application/jsonx")).is_err());
    }

    #[test]
    fn answers_have_the_type_that_was_asked_for() {
        let versioned = "application/vnd.elasticsearch+json; compatible-with=8";
        assert_eq!(
            answer_type(Some(versioned)),
            "application/vnd.elasticsearch+json;compatible-with=8"
        );
        assert_eq!(answer_type(Some("*/*")), JSON);
        assert_eq!(answer_type(Some(&format!("{versioned}\r\nx: y"))), JSON);
        assert!(prefers_json(Some("application/json")));
        assert!(!prefers_json(Some("text/plain,application/json")) && !prefers_json(None));
    }
}
