//! Where the log's servers are and how one shows who one is, read from the text of `--log`.
//!
//! `nats://[user:password@|token@]host[:port][,host[:port]…][?cluster=NAME&creds=FILE&ca=FILE&cert=FILE&key=FILE]`;
//! `tls://` insists on TLS. A server may repeat what stands before the first one, as in
//! `nats://token@a,nats://token@b`. Secrets are kept out of everything that is printed.

use std::fmt;
use std::path::PathBuf;

/// The port of a server that names none.
const PORT_DEFAULT: u16 = 4222;
/// Servers that one address may name.
const SERVERS_MAX: usize = 64;
/// The longest name of a cluster: it is a part of the streams' names.
const CLUSTER_NAME_BYTES_MAX: usize = 64;
/// The cluster of an address that names none.
const CLUSTER_DEFAULT: &str = "plimsoll";

/// The servers of a JetStream log. Printing it shows no secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// `host:port` of each server.
    pub(super) servers: Vec<String>,
    pub(super) login: Login,
    pub(super) is_tls: bool,
    /// The cluster whose log it is: clusters with different names may share servers.
    pub(super) cluster: String,
    pub(super) credentials_file: Option<PathBuf>,
    pub(super) ca_file: Option<PathBuf>,
    /// The client's certificate and its key.
    pub(super) certificate_files: Option<(PathBuf, PathBuf)>,
}

/// How the client shows who it is.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Login {
    Nobody,
    Token(String),
    Password { user: String, password: String },
}

/// Why a text is no address. Never repeats the part that may hold a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an address of NATS servers: {0}")]
pub struct AddressError(String);

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// Where the text is none, or names what is not known here.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let wrong = |what: &str| AddressError(what.to_owned());
        let (is_tls, rest) = match text.split_once("://") {
            Some(("nats", rest)) => (false, rest),
            Some(("tls", rest)) => (true, rest),
            _ => return Err(wrong("it begins with neither `nats://` nor `tls://`")),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let rest = rest.trim_end_matches('/');
        let (login, hosts) = match rest.contains("://") {
            true => each_whole(text, rest)?,
            false => login_and_rest(rest)?,
        };
        let servers: Vec<String> = hosts.split(',').map(server).collect::<Result<_, _>>()?;
        if servers.len() > SERVERS_MAX {
            return Err(AddressError(format!("more than {SERVERS_MAX} servers")));
        }
        let mut address = Self {
            servers,
            login,
            is_tls,
            cluster: CLUSTER_DEFAULT.to_owned(),
            credentials_file: None,
            ca_file: None,
            certificate_files: None,
        };
        address.take_query(query)?;
        Ok(address)
    }

    /// The same servers for the cluster of this name: 1 to 64 letters, digits, `-` and `_`.
    ///
    /// # Errors
    /// Where the name cannot be a part of a stream's name.
    pub fn with_cluster(mut self, name: &str) -> Result<Self, AddressError> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty() || name.len() > CLUSTER_NAME_BYTES_MAX || !name.bytes().all(is_name) {
            return Err(AddressError(format!(
                "a cluster's name has 1 to {CLUSTER_NAME_BYTES_MAX} letters, digits, `-` and `_`"
            )));
        }
        name.clone_into(&mut self.cluster);
        Ok(self)
    }

    fn take_query(&mut self, query: &str) -> Result<(), AddressError> {
        let (mut certificate, mut key) = (None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode_percent(value)?;
            match name {
                "cluster" => *self = self.clone().with_cluster(&value)?,
                "creds" => self.credentials_file = Some(value.into()),
                "ca" => self.ca_file = Some(value.into()),
                "cert" => certificate = Some(value.into()),
                "key" => key = Some(value.into()),
                _ => return Err(AddressError(format!("the option `{name}` is not known"))),
            }
        }
        self.certificate_files = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(AddressError("`cert` and `key` go together".to_owned())),
        };
        Ok(())
    }
}

impl Login {
    fn parse(text: &str) -> Result<Self, AddressError> {
        match text.split_once(':') {
            Some((user, password)) => Ok(Self::Password {
                user: decode_percent(user)?,
                password: decode_percent(password)?,
            }),
            None => Ok(Self::Token(decode_percent(text)?)),
        }
    }
}

/// What stands before the last `@`, and what behind it.
fn login_and_rest(text: &str) -> Result<(Login, String), AddressError> {
    match text.rsplit_once('@') {
        Some((login, rest)) => Ok((Login::parse(login)?, rest.to_owned())),
        None => Ok((Login::Nobody, text.to_owned())),
    }
}

/// The login and the servers of a list of which others than the first begin with the scheme too, that of
/// `text`. One client has one login: whoever says one says the same.
fn each_whole(text: &str, list: &str) -> Result<(Login, String), AddressError> {
    let scheme = text.split_inclusive("://").next().unwrap_or_default();
    let (mut login, mut hosts) = (Login::Nobody, Vec::new());
    for one in list.split(',') {
        let one = one.trim();
        let one = one.strip_prefix(scheme).unwrap_or(one).trim_end_matches('/');
        if one.contains("://") {
            return Err(AddressError("servers are reached in different ways".to_owned()));
        }
        let (found, host) = login_and_rest(one)?;
        if found != Login::Nobody {
            if login != Login::Nobody && login != found {
                return Err(AddressError("servers have different logins".to_owned()));
            }
            login = found;
        }
        hosts.push(host);
    }
    Ok((login, hosts.join(",")))
}

/// `host:port`; the port may be left away.
fn server(text: &str) -> Result<String, AddressError> {
    let after_address = text.rsplit_once(']').map_or(text, |(_, rest)| rest);
    let (host, port) = match after_address.rsplit_once(':') {
        Some((_, port)) => (&text[..text.len() - port.len() - 1], Some(port)),
        None => (text, None),
    };
    if host.is_empty() || host.contains(['/', ' ', '@']) {
        return Err(AddressError("a server has no name".to_owned()));
    }
    let port = match port {
        Some(port) => {
            // What stands there may be a part of a secret that was written wrong.
            port.parse().map_err(|_| AddressError(format!("the port of `{host}` is no number")))?
        }
        None => PORT_DEFAULT,
    };
    Ok(format!("{host}:{port}"))
}

/// Takes `%41` for `A`.
fn decode_percent(text: &str) -> Result<String, AddressError> {
    let wrong = || AddressError("a `%` is not followed by two hexadecimal digits".to_owned());
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = [bytes.next().ok_or_else(wrong)?, bytes.next().ok_or_else(wrong)?];
        let digits = std::str::from_utf8(&digits).map_err(|_| wrong())?;
        out.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
    }
    String::from_utf8(out).map_err(|_| AddressError("it is not UTF-8".to_owned()))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "tls" } else { "nats" };
        write!(f, "{scheme}://{}?cluster={}", self.servers.join(","), self.cluster)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_shows_no_secret() {
        let address = Address::parse(
            "nats://ann:s%40crt@one:4001,two,[::1]:7?cluster=west&creds=/a%20b&cert=c&key=k",
        )
        .unwrap();
        assert_eq!(address.servers, ["one:4001", "two:4222", "[::1]:7"]);
        let password = Login::Password { user: "ann".to_owned(), password: "s@crt".to_owned() };
        assert!(address.login == password);
        assert_eq!(address.credentials_file, Some("/a b".into()));
        assert_eq!(address.certificate_files, Some(("c".into(), "k".into())));
        assert!(!address.is_tls);
        let shown = "nats://one:4001,two:4222,[::1]:7?cluster=west";
        assert_eq!(address.to_string(), shown);
        assert_eq!(format!("{address:?}"), format!("Address({shown})"));
    }

    #[test]
    fn one_word_before_the_host_is_a_token() {
        let address = Address::parse("tls://t0ken@host").unwrap();
        assert!(address.login == Login::Token("t0ken".to_owned()));
        assert!(address.is_tls);
        assert_eq!(address.cluster, "plimsoll");
    }

    #[test]
    fn servers_may_each_be_whole_addresses() {
        let address =
            Address::parse("nats://t0ken@a,nats://t0ken@b:1/,nats://c?cluster=x").unwrap();
        assert_eq!(address.servers, ["a:4222", "b:1", "c:4222"]);
        assert!(address.login == Login::Token("t0ken".to_owned()));
        assert_eq!(address.to_string(), "nats://a:4222,b:1,c:4222?cluster=x");
    }

    #[test]
    fn what_is_no_address_is_refused_without_showing_the_secret() {
        for text in [
            "http://host",
            "host:4222",
            "nats://",
            "nats://secret:word@",
            "nats://a,,b",
            "nats://secret:word@a:99999",
            "nats://a?cluster=",
            "nats://a?cluster=x.y",
            "nats://a?color=red",
            "nats://a?cert=only",
            "nats://secret%zz@a",
            "nats://secret@a,nats://word@b",
            "nats://a,tls://b",
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(!error.contains("secret") && !error.contains("word"), "{text}: {error}");
        }
    }
}
