//! Who may send requests: HTTP's basic authentication with the node's one password.

use std::time::Instant;

use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plimsoll_index::Error;
use serde_json::json;

use super::peer::Peer;
use crate::auth::{Password, USER};
use crate::logins::Turn;
use crate::node::Shared;

/// The second name of the one user: what clients of Elasticsearch write by habit.
const USER_ELASTIC: &str = "elastic";
/// The setting of the port, as the log names it.
const PORT: &str = "http.address";
/// What a client is asked for.
pub const CHALLENGE: &str = "Basic realm=\"security\" charset=\"UTF-8\"";

/// Checks a request's credentials where the node has a password; failed logins from the same
/// address slow it.
///
/// # Errors
/// 401 `security_exception`, 429 where too many from there wait already.
pub async fn check(
    node: &Shared,
    peer: &Peer,
    headers: &HeaderMap,
    path: &str,
) -> Result<(), Error> {
    if !node.password.is_required() {
        return Ok(());
    }
    if !headers.contains_key(header::AUTHORIZATION) {
        // Nobody guesses here.
        peer.know(false);
        return verify(&node.password, headers, path);
    }
    let from = peer.address.ip();
    // Who logged in before is no guesser.
    let turn = match peer.is_known() {
        true => Turn::Now,
        false => node.logins.turn(from, Instant::now()),
    };
    match turn {
        Turn::Now => {}
        Turn::After(wait) => tokio::time::sleep(wait).await,
        Turn::Refused(wait) => {
            node.logins.failed(from, turn, PORT, Instant::now());
            let reason = "too many failed logins from this address";
            let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            return Err(
                Error::overloaded("security_exception", reason).with("retry_after_ms", wait_ms)
            );
        }
    }
    let verified = verify(&node.password, headers, path);
    peer.know(verified.is_ok());
    match verified {
        Ok(()) => node.logins.passed(from, turn),
        Err(_) => node.logins.failed(from, turn, PORT, Instant::now()),
    }
    verified
}

/// Compares a request's credentials with the password.
fn verify(password: &Password, headers: &HeaderMap, path: &str) -> Result<(), Error> {
    if !password.is_required() {
        return Ok(());
    }
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(given) = given else {
        return Err(refused(format!(
            "missing authentication credentials for REST request [{path}]"
        )));
    };
    let (user, offered) = credentials(given)
        .ok_or_else(|| refused(format!("unable to authenticate for REST request [{path}]")))?;
    let name = if user == USER_ELASTIC { USER } else { &user };
    password.check(Some(name.as_bytes()), offered.as_bytes()).map_err(|_| {
        refused(format!("unable to authenticate user [{user}] for REST request [{path}]"))
    })
}

/// The name and password of `Basic …`.
fn credentials(given: &str) -> Option<(String, String)> {
    let (scheme, encoded) = given.split_once(' ')?;
    let decoded = STANDARD.decode(encoded.trim()).ok()?;
    let (user, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    scheme.eq_ignore_ascii_case("basic").then(|| (user.to_owned(), password.to_owned()))
}

fn refused(reason: String) -> Error {
    Error::unauthenticated("security_exception", reason)
        .with("header", json!({ "WWW-Authenticate": CHALLENGE }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::http_status::HttpStatus;

    #[test]
    fn the_password_is_asked_for() {
        let password = Password::new(Some("s:ecret"));
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            verify(&password, &headers, "/")
        };
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        assert!(with(&basic("default:s:ecret")).is_ok());
        assert!(with(&basic("elastic:s:ecret")).is_ok());
        for wrong in ["elastic:", "elastic:x", "admin:s:ecret", "nothing"] {
            assert_eq!(with(&basic(wrong)).unwrap_err().status(), 401);
        }
        assert!(with("Bearer x").is_err() && with("Basic").is_err());
        assert!(verify(&password, &HeaderMap::new(), "/").is_err());
        assert!(verify(&Password::new(None), &HeaderMap::new(), "/").is_ok());
    }
}
