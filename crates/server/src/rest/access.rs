//! Who sends a request: HTTP's basic authentication with a user's password, or an API key; and that it still may while
//! its body comes.

use std::sync::Arc;

use axum::body::{Body, HttpBody as _};
use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt as _, StreamBody};
use plimsoll_index::Error;
use serde_json::json;

use super::body::Taken;
use super::peer::Peer;
use crate::node::Shared;
use crate::security::audit::What;
use crate::security::keys::Credential;
use crate::security::passwords::Unproven;
use crate::security::principal::{Principal, Via};
use crate::security::user::{DEFAULT, kept_name};
use crate::security::{Refused, Security};

/// The setting of the port, as the log names it.
const PORT: &str = "http.address";
/// The longest header that is looked at, bytes: a name and a password in base64.
const HEADER_BYTES_MAX: usize = 2048;
/// So much of a path a stranger is told again: it may leave the answer waiting in memory.
const PATH_BYTES_SHOWN: usize = 256;
/// By which Elasticsearch takes somebody for another: whoever sends it counts on having less.
const RUN_AS: &str = "es-security-runas-user";
/// What a client is asked for.
pub const CHALLENGE: &str = "Basic realm=\"security\" charset=\"UTF-8\", ApiKey";

/// The same somebody as the whole cluster knows now, for what operators do.
///
/// # Errors
/// See [`is_gone`].
pub async fn confirm(node: &Shared, principal: &Principal) -> Result<Arc<Principal>, Error> {
    node.security.confirm(principal).await.map_err(|why| is_gone(why, principal))
}

/// 401 `security_exception`: somebody is not there any more or may not log in; 503 where that cannot be found out.
#[must_use]
pub fn is_gone(why: Refused, principal: &Principal) -> Error {
    match why {
        Refused::Unheard => Error::unavailable("security_exception", why),
        _ => refused(format!("unable to authenticate user [{}] any more", principal.name)),
    }
}

/// Finds out who sends a request; failed logins from the same address slow it. Where everybody is taken, the
/// password of the user that everybody is is not looked at.
///
/// # Errors
/// 401 `security_exception`; 429 where too many from there wait already, or a password cannot be checked now; 503
/// where nobody is known here.
pub async fn check(
    node: &Shared,
    peer: &Peer,
    headers: &HeaderMap,
    path: &str,
) -> Result<Arc<Principal>, Error> {
    if headers.contains_key(RUN_AS) {
        let reason = format!("[{RUN_AS}] is not supported: log in as the user");
        return Err(Error::illegal_argument(reason));
    }
    let anonymous = node.security.anonymous();
    let Some(given) = headers.get(header::AUTHORIZATION) else {
        // Nobody guesses here.
        peer.know(None);
        if anonymous.is_some() {
            peer.let_in();
        }
        let path = shown_part(path);
        let words = format!("missing authentication credentials for REST request [{path}]");
        return anonymous.ok_or_else(|| refused(words));
    };
    let shown = given.to_str().ok().filter(|it| it.len() <= HEADER_BYTES_MAX).and_then(Shown::read);
    if let Some(anonymous) = anonymous
        && shown.as_ref().is_none_or(Shown::is_of_first)
    {
        peer.know(None);
        peer.let_in();
        return Ok(anonymous);
    }
    let from = peer.address.ip();
    // Who logged in before as the same user is no guesser, unless it has another password by now.
    let name = shown.as_ref().map_or("", Shown::name);
    let is_known = peer.known_as(name).is_some_and(|it| node.security.is_proven(&it));
    let attempt = match is_known {
        true => Ok(node.logins.untaken(from, PORT)),
        false => node.logins.attempt(from, PORT).await,
    };
    let attempt = attempt.map_err(|wait| {
        let reason = "too many failed logins from this address";
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        Error::overloaded("security_exception", reason).with("retry_after_ms", wait_ms)
    })?;
    let known = match &shown {
        Some(shown) => shown.who(&node.security).await,
        None => Err(Refused::Unknown),
    };
    peer.know(known.as_ref().ok().map(|principal| (name, principal)));
    match known {
        Ok(principal) => {
            attempt.passed();
            if !is_known {
                let request = format!("REST {path}");
                node.note(What::LoggedIn, &principal.named(), peer.address, request, String::new());
            }
            Ok(principal)
        }
        Err(Refused::Unknown) => {
            drop(attempt);
            let request = format!("REST {path}");
            node.note(What::LoginFailed, name, peer.address, request, String::new());
            let who = shown.as_ref().map_or_else(String::new, Shown::words);
            let path = shown_part(path);
            Err(refused(format!("unable to authenticate{who} for REST request [{path}]")))
        }
        Err(why @ Refused::Unheard) => {
            attempt.passed();
            Err(Error::unavailable("security_exception", why))
        }
        Err(Refused::Unproven(why)) => {
            // Whoever fills the queue is slowed as whoever guesses.
            if why != Unproven::Queue {
                attempt.passed();
            }
            Err(busy(why))
        }
    }
}

/// The body of a request that somebody sends: it ends where who that is, or what it may do, is another by then. So
/// nobody goes on with what it began for longer than its rights last. `is_change`: the request is what operators do,
/// and at its end that is looked at as the whole cluster knows it.
pub fn sent_by(body: Body, node: &Arc<Shared>, sender: &Arc<Principal>, is_change: bool) -> Body {
    if body.is_end_stream() {
        return body;
    }
    let (node, sender) = (Arc::clone(node), Arc::clone(sender));
    // A key ends by itself, and the settings change beside the metadata.
    let may_end = !matches!(sender.via, Via::Password(_));
    // Looked at with the first bytes too: the request may have waited since it was found out who sends it.
    let began = (body, None, is_change);
    let frames = futures_util::stream::unfold(began, move |(mut body, seen, mut is_change)| {
        let (node, sender) = (Arc::clone(&node), Arc::clone(&sender));
        async move {
            let frame = body.frame().await;
            let version = Some(node.security.version());
            let again = match (&frame, is_change) {
                (None, true) => node.security.confirm(&sender).await,
                _ if version == seen && !may_end => Ok(Arc::clone(&sender)),
                _ => node.security.again(&sender),
            };
            is_change = is_change && frame.is_some();
            // The very same, mostly: looked at with every frame where anybody may come.
            let is_same = |again| Arc::ptr_eq(&again, &sender) || *again == *sender;
            match again.is_ok_and(is_same) {
                true => frame.map(|frame| (frame, (body, version, is_change))),
                false => Some((Err(axum::Error::new(Taken)), (Body::empty(), version, false))),
            }
        }
    });
    Body::new(StreamBody::new(frames))
}

/// 429: a password cannot be checked, or hashed, now.
#[must_use]
pub fn busy(why: Unproven) -> Error {
    match why {
        Unproven::Queue => Error::overloaded("es_rejected_execution_exception", why),
        Unproven::Memory => Error::overloaded("circuit_breaking_exception", why),
    }
}

/// What a client shows of itself.
enum Shown {
    /// A name and a password.
    Password(String, String),
    /// An API key.
    Key(Credential),
}

impl Shown {
    fn read(given: &str) -> Option<Self> {
        let (scheme, encoded) = given.split_once(' ')?;
        let encoded = encoded.trim();
        if scheme.eq_ignore_ascii_case("apikey") {
            return Credential::decode(encoded.as_bytes()).map(Self::Key);
        }
        let decoded = STANDARD.decode(encoded).ok()?;
        let (user, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
        scheme
            .eq_ignore_ascii_case("basic")
            .then(|| Self::Password(user.to_owned(), password.to_owned()))
    }

    /// Whether it is the user that is there from the start.
    fn is_of_first(&self) -> bool {
        matches!(self, Self::Password(user, _) if kept_name(user) == DEFAULT)
    }

    async fn who(&self, security: &Security) -> Result<Arc<Principal>, Refused> {
        match self {
            Self::Password(user, password) => security.log_in(user, password.as_bytes()).await,
            Self::Key(credential) => security.by_key(credential),
        }
    }

    /// Who it says it is: the user's name, or the key's id.
    fn name(&self) -> &str {
        match self {
            Self::Password(user, _) => user,
            Self::Key(credential) => &credential.id,
        }
    }

    /// The same in the words of a refusal.
    fn words(&self) -> String {
        match self {
            Self::Password(user, _) => format!(" user [{user}]"),
            Self::Key(_) => " with the API key".to_owned(),
        }
    }
}

fn shown_part(path: &str) -> &str {
    &path[..path.floor_char_boundary(PATH_BYTES_SHOWN)]
}

fn refused(reason: String) -> Error {
    Error::unauthenticated("security_exception", reason)
        .with("header", json!({ "WWW-Authenticate": CHALLENGE }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read() {
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        let read = |text: &str| match Shown::read(text)? {
            Shown::Password(user, password) => Some(format!("{user} {password}")),
            Shown::Key(credential) => Some(credential.id),
        };
        assert_eq!(read(&basic("bob:s:ecret")).as_deref(), Some("bob s:ecret"));
        assert_eq!(read(&basic("bob:")).as_deref(), Some("bob "));
        assert_eq!(
            read(&format!("ApiKey {}", STANDARD.encode("id:secret"))).as_deref(),
            Some("id")
        );
        for wrong in ["", "Basic", "Basic x", &basic("nothing"), "Bearer YTpi", "ApiKey Og=="] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert!(Shown::read(&basic("elastic:x")).is_some_and(|it| it.is_of_first()));
        assert!(!Shown::read(&basic("bob:x")).is_some_and(|it| it.is_of_first()));
    }
}
