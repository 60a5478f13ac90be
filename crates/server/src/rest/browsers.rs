//! Which requests of web pages are served. A browser sends a page's requests with whatever its
//! user may reach: a node on loopback without a password would be open to every page that the
//! user looks at. It knows nothing of passwords; those are [`super::access`]'s.
//!
//! - A page can have its own name lead to this node (DNS rebinding); its requests then carry that
//!   name as `Host`. Without a password only names that no page can own are served. With one, such
//!   a page is served nothing anyway: a browser keeps credentials by name, and has none for it.
//! - A page of another origin sends `Origin`: refused unless `http.cors.*` lets it in, with or
//!   without a password, which the browser may send along.
//! - What a page fetches without an `Origin`, such as an image, shows it nothing, but it runs: where
//!   `Sec-Fetch-Site` names another site it is refused.
//! - What changes something and has no body could be sent by a mere form: where there is an
//!   `Origin` at all, such a request needs a header that forms cannot send.

use std::net::{IpAddr, Ipv6Addr};

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use plimsoll_index::Error;

use super::answer::Answer;
use crate::settings::{Cors, Origins, Settings};

/// Headers that no form can send, by any of which a script shows that it is one.
const SCRIPTED: [&str; 6] = [
    "authorization",
    "x-requested-with",
    "x-opaque-id",
    "kbn-xsrf",
    "osd-xsrf",
    "x-elastic-client-meta",
];
/// The content types of forms.
const FORMS: [&str; 3] = ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"];

/// What a node asks of browsers.
#[derive(Clone, Debug)]
pub struct Doors {
    hosts: Vec<String>,
    takes_any_host: bool,
    cors: Option<Cors>,
}

/// Who a request comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visitor {
    /// No page, or none that says so.
    Unknown,
    /// A page that came from this node.
    Own,
    /// A page of another origin that may ask.
    Guest(HeaderValue),
}

impl Doors {
    /// The doors of a node with these settings.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self {
            hosts: settings.http_allowed_hosts.clone(),
            takes_any_host: takes_any_host(settings),
            cors: settings.cors.clone(),
        }
    }

    /// Checks `Host`, `Origin` and `Sec-Fetch-Site`.
    ///
    /// # Errors
    /// 403 for a name or an origin that is not served, 400 for a request with several.
    pub fn check(&self, head: &Parts, has_password: bool) -> Result<Visitor, Error> {
        let host = match only(&head.headers, header::HOST)? {
            Some(host) => Some(host),
            None => head.uri.authority().map(|authority| authority.as_str()),
        };
        if let Some(host) = host
            && !has_password
            && !self.takes_any_host
            && !self.is_known(name(host))
        {
            return Err(refused(format!(
                "the request is for the host [{host}], which is neither an address nor localhost \
                 nor in [http.allowed_hosts]: without a password, a web page could have sent it"
            )));
        }
        let Some(origin) = only(&head.headers, header::ORIGIN)? else {
            check_site(head)?;
            return Ok(Visitor::Unknown);
        };
        let lower = origin.to_ascii_lowercase();
        let own = lower.strip_prefix("http://").or_else(|| lower.strip_prefix("https://"));
        if host.is_some() && own == host.map(str::to_ascii_lowercase).as_deref() {
            return Ok(Visitor::Own);
        }
        let is_guest = self.cors.as_ref().is_some_and(|cors| match &cors.origins {
            Origins::Any => true,
            Origins::Listed(origins) => origins.contains(&lower),
        });
        match head.headers.get(header::ORIGIN) {
            Some(origin) if is_guest => Ok(Visitor::Guest(origin.clone())),
            _ => Err(refused(format!(
                "the request comes from a web page of [{origin}], and [http.cors.enabled] and \
                 [http.cors.allow-origin] do not let that in"
            ))),
        }
    }

    fn is_known(&self, name: &str) -> bool {
        let name = name.strip_suffix('.').unwrap_or(name);
        let v6 = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok()
            || v6.is_some_and(|v6| v6.parse::<Ipv6Addr>().is_ok())
            || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// The answer to a browser that asks what its page may do; none where it does not.
    #[must_use]
    pub fn preflight(&self, head: &Parts, visitor: &Visitor) -> Option<Answer> {
        let asks = head.method == Method::OPTIONS
            && head.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        let cors = self.cors.as_ref().filter(|_| asks)?;
        matches!(visitor, Visitor::Guest(_)).then(|| {
            Answer::empty()
                .with_header(header::ACCESS_CONTROL_ALLOW_METHODS, cors.methods.as_str())
                .with_header(header::ACCESS_CONTROL_ALLOW_HEADERS, cors.headers.as_str())
                .with_header(header::ACCESS_CONTROL_MAX_AGE, cors.max_age_s.to_string())
        })
    }

    /// Adds what a browser wants to see before it shows an answer to a guest.
    pub fn introduce(&self, visitor: &Visitor, headers: &mut HeaderMap) {
        let (Visitor::Guest(origin), Some(cors)) = (visitor, &self.cors) else { return };
        let mut insert = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        if cors.has_credentials {
            insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, "true");
        }
        if !cors.exposed.is_empty() {
            insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, &cors.exposed);
        }
        insert(header::VARY, "Origin");
        let allowed = match cors.origins {
            Origins::Any => HeaderValue::from_static("*"),
            Origins::Listed(_) => origin.clone(),
        };
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
    }
}

/// Whether a name by which the node is reached is not looked at: it was said on the command line
/// that anyone who reaches the port may do everything.
#[must_use]
pub fn takes_any_host(settings: &Settings) -> bool {
    settings.insecure && !settings.http.ip().is_loopback()
}

/// Checks that a request of a page that changes something, and has no body, is not a mere form.
///
/// # Errors
/// 403, naming what is missing.
pub fn check_bodyless(visitor: &Visitor, headers: &HeaderMap, has_body: bool) -> Result<(), Error> {
    if *visitor == Visitor::Unknown || has_body {
        // The type of a body is checked: forms have others.
        return Ok(());
    }
    let essence = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = essence.map(|given| given.split(';').next().unwrap_or_default().trim());
    let is_form = |given: &str| FORMS.iter().any(|form| form.eq_ignore_ascii_case(given));
    let is_scripted = SCRIPTED.iter().any(|name| headers.contains_key(*name));
    if is_scripted || essence.is_some_and(|given| !is_form(given)) {
        return Ok(());
    }
    Err(refused(
        "a request of a web page that changes something and has no body needs a header that no \
         form can send, such as [X-Requested-With]"
            .to_owned(),
    ))
}

/// Refuses what a page of another site has its browser fetch. A link that its user follows is
/// served: it reads only, the page does not see the answer, and it can be no more than one.
fn check_site(head: &Parts) -> Result<(), Error> {
    let value = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let Some(site @ ("cross-site" | "same-site")) = value("sec-fetch-site") else {
        return Ok(());
    };
    let is_link = matches!(head.method, Method::GET | Method::HEAD)
        && value("sec-fetch-mode") == Some("navigate")
        && value("sec-fetch-dest") == Some("document");
    if is_link {
        return Ok(());
    }
    Err(refused(format!(
        "the request comes from a web page of another origin ([Sec-Fetch-Site: {site}]) and has no \
         [Origin] that [http.cors.enabled] and [http.cors.allow-origin] let in"
    )))
}

/// The value of a header that may be there once.
fn only(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Error> {
    let mut values = headers.get_all(&name).iter();
    let (first, second) = (values.next(), values.next());
    let wrong = |what: &str| Err(Error::illegal_argument(format!("the header [{name}] {what}")));
    match (first.map(HeaderValue::to_str), second) {
        (None, _) => Ok(None),
        (Some(Ok(text)), None) => Ok(Some(text)),
        (Some(Ok(_)), Some(_)) => wrong("is there more than once"),
        (Some(Err(_)), _) => wrong("is no text"),
    }
}

/// A host without its port.
fn name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn refused(reason: String) -> Error {
    Error::forbidden("security_exception", reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::http_status::HttpStatus;
    use crate::settings::Raw;
    use axum::http::Request;

    fn doors(words: &[&str]) -> Doors {
        let mut raw = Raw::default();
        for word in words {
            raw.assignment(word).unwrap();
        }
        Doors::new(&Settings::resolve(&raw).unwrap())
    }

    fn head(method: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri("/i/_search");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_names_that_no_page_can_own_are_served() {
        let doors = doors(&["http.allowed_hosts=Search.example"]);
        let status = |doors: &Doors, host: &str, has_password: bool| {
            let checked = doors.check(&head("GET", &[("host", host)]), has_password);
            checked.map_or_else(|error| error.status(), |_| 200)
        };
        for host in [
            "127.0.0.1",
            "127.0.0.1:9200",
            "[::1]:9200",
            "[::1]",
            "localhost",
            "LOCALHOST:9200",
            "localhost.:9200",
            "10.1.2.3",
            "search.example:80",
        ] {
            assert_eq!(status(&doors, host, false), 200, "{host}");
        }
        for host in [
            "evil.example:9200",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            "evil:9200",
            "search.example.evil",
            "[::1].evil:1",
            "127.0.0.1:9200:evil",
        ] {
            assert_eq!(status(&doors, host, false), 403, "{host}");
            assert_eq!(status(&doors, host, true), 200, "{host}");
        }
        assert!(doors.check(&head("GET", &[]), false).is_ok());
        let twice = head("GET", &[("host", "localhost"), ("host", "evil.example")]);
        assert_eq!(doors.check(&twice, false).unwrap_err().status(), 400);
        let open = self::doors(&["node.insecure=true", "http.address=0.0.0.0:0"]);
        assert_eq!(status(&open, "anything.example", false), 200);
        let local = self::doors(&["node.insecure=true"]);
        assert_eq!(status(&local, "anything.example", false), 403);
    }

    #[test]
    fn pages_of_other_origins_are_served_where_cors_lets_them_in() {
        let ask = |doors: &Doors, origin: &str| {
            let head = head("POST", &[("host", "localhost:9200"), ("origin", origin)]);
            doors.check(&head, true).map_err(|error| error.status())
        };
        let closed = doors(&["http.cors.allow-origin=*"]);
        assert_eq!(ask(&closed, "http://localhost:9200"), Ok(Visitor::Own));
        for origin in ["http://evil.example", "null", "http://localhost:9201", "localhost:9200"] {
            assert_eq!(ask(&closed, origin), Err(403), "{origin}");
        }
        let listed = doors(&[
            "http.cors.enabled=true",
            "http.cors.allow-origin=https://A.example:5601, http://b",
            "http.cors.allow-credentials=true",
        ]);
        let guest = ask(&listed, "https://a.example:5601").unwrap();
        assert_eq!(guest, Visitor::Guest(HeaderValue::from_static("https://a.example:5601")));
        assert_eq!(ask(&listed, "https://a.example"), Err(403));
        let mut headers = HeaderMap::new();
        listed.introduce(&guest, &mut headers);
        assert_eq!(headers["access-control-allow-origin"], "https://a.example:5601");
        assert_eq!(headers["access-control-allow-credentials"], "true");
        assert_eq!(headers["vary"], "Origin");
        let asks = head("OPTIONS", &[("access-control-request-method", "POST")]);
        let answer = listed.preflight(&asks, &guest).unwrap();
        let names: Vec<&str> = answer.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.contains(&"access-control-allow-methods"), "{names:?}");
        assert!(listed.preflight(&head("OPTIONS", &[]), &guest).is_none());
        let any = doors(&["http.cors.enabled=true", "http.cors.allow-origin=*"]);
        assert!(matches!(ask(&any, "null"), Ok(Visitor::Guest(_))));
    }

    #[test]
    fn what_pages_fetch_without_an_origin_is_refused() {
        let ask = |method: &str, headers: &[(&str, &str)]| {
            let head = head(method, &[&[("host", "localhost:9200")], headers].concat());
            doors(&[]).check(&head, true).map_err(|error| error.status())
        };
        for site in ["cross-site", "same-site"] {
            let image = [("sec-fetch-site", site), ("sec-fetch-mode", "no-cors")];
            assert_eq!(ask("GET", &image), Err(403), "{site}");
            let mut frame =
                [image[0], ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
            assert_eq!(ask("GET", &frame), Err(403), "{site}");
            frame[2].1 = "document";
            assert_eq!(ask("GET", &frame), Ok(Visitor::Unknown), "{site}");
            assert_eq!(ask("POST", &frame), Err(403), "{site}");
        }
        for site in ["none", "same-origin"] {
            let own = [("sec-fetch-site", site), ("sec-fetch-mode", "no-cors")];
            assert_eq!(ask("GET", &own), Ok(Visitor::Unknown), "{site}");
        }
        let own = [("origin", "http://localhost:9200"), ("sec-fetch-site", "same-origin")];
        assert_eq!(ask("POST", &own), Ok(Visitor::Own));
    }

    #[test]
    fn a_form_without_a_body_changes_nothing() {
        let check = |headers: &[(&str, &str)], has_body| {
            check_bodyless(&Visitor::Own, &head("POST", headers).headers, has_body).is_ok()
        };
        assert!(!check(&[], false) && check(&[], true));
        assert!(!check(&[("content-type", "text/plain; charset=utf-8")], false));
        assert!(check(&[("content-type", "application/json")], false));
        assert!(check(&[("x-requested-with", "x")], false));
        assert!(check_bodyless(&Visitor::Unknown, &HeaderMap::new(), false).is_ok());
    }
}
