//! Where the log's servers are and how one shows who one is, read from the text of `--log`.
//!
//! `nats://[user:password@|token@]host[:port][,host[:port]…][?cluster=NAME&creds=FILE&nkey=FILE&ca=FILE&cert=FILE&key=FILE]`;
//! `tls://`, and files of TLS, insist on TLS. Files may be given beside it as well ([`Files`]). A server may repeat what stands before the first one, as in
//! `nats://token@a,nats://token@b`. Secrets are kept out of everything that is printed.

use std::fmt;
use std::path::PathBuf;

use super::login::Login;

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
    pub(super) ca_file: Option<PathBuf>,
    /// The client's certificate and its key.
    pub(super) certificate_files: Option<(PathBuf, PathBuf)>,
}

/// Files that are given beside an address. Each may stand in one of the two alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Who may have signed the servers' certificates. Where it is given, TLS is insisted on.
    pub ca: Option<PathBuf>,
    /// The client's certificate.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// A JWT and a seed, as `nsc` writes them.
    pub credentials: Option<PathBuf>,
    /// The seed of an NKey.
    pub nkey_seed: Option<PathBuf>,
    /// The password of the user that the address names, or the token where it names none.
    pub password: Option<PathBuf>,
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

    /// The same with files that are given beside it.
    ///
    /// # Errors
    /// Where one is given twice, or what belongs together is not.
    pub fn with_files(mut self, files: Files) -> Result<Self, AddressError> {
        let twice = |what: &str| AddressError(format!("{what} is given in it and beside it"));
        if let Some(file) = files.ca
            && self.ca_file.replace(file).is_some()
        {
            return Err(twice("`ca`"));
        }
        let before = self.certificate_files.take();
        self.certificate_files = match (files.certificate, files.key, before) {
            (Some(certificate), Some(key), None) => Some((certificate, key)),
            (None, None, before) => before,
            (_, _, Some(_)) => return Err(twice("`cert`")),
            _ => return Err(AddressError("a certificate and its key go together".to_owned())),
        };
        self.insist_on_tls();
        if let Some(file) = files.password {
            self.login = match std::mem::replace(&mut self.login, Login::Nobody) {
                Login::Nobody => Login::TokenFile(file),
                // One word before an `@` is a user where the password stands elsewhere.
                Login::Token(user) => Login::PasswordFile { user, file },
                _ => return Err(twice("a password")),
            };
        }
        if let Some(file) = files.credentials {
            self.log_in(Login::Credentials(file))?;
        }
        if let Some(file) = files.nkey_seed {
            self.log_in(Login::Nkey(file))?;
        }
        Ok(self)
    }

    /// Files of TLS are there to be used: a server that says it has none gets nothing.
    fn insist_on_tls(&mut self) {
        self.is_tls |= self.ca_file.is_some() || self.certificate_files.is_some();
    }

    /// Takes over how to log in, which is said once.
    fn log_in(&mut self, login: Login) -> Result<(), AddressError> {
        if self.login.is_anybody() {
            return Err(AddressError("there is more than one way to log in".to_owned()));
        }
        self.login = login;
        Ok(())
    }

    fn take_query(&mut self, query: &str) -> Result<(), AddressError> {
        let (mut certificate, mut key) = (None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode_percent(value)?;
            match name {
                "cluster" => *self = self.clone().with_cluster(&value)?,
                "creds" => self.log_in(Login::Credentials(value.into()))?,
                "nkey" => self.log_in(Login::Nkey(value.into()))?,
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
        self.insist_on_tls();
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
            "nats://ann:s%40crt@one:4001,two,[::1]:7?cluster=west&ca=/a%20b&cert=c&key=k",
        )
        .unwrap();
        assert_eq!(address.servers, ["one:4001", "two:4222", "[::1]:7"]);
        let password = Login::Password { user: "ann".to_owned(), password: "s@crt".to_owned() };
        assert!(address.login == password);
        assert_eq!(address.ca_file, Some("/a b".into()));
        assert_eq!(address.certificate_files, Some(("c".into(), "k".into())));
        assert!(address.is_tls, "where files of TLS are given");
        let shown = "tls://one:4001,two:4222,[::1]:7?cluster=west";
        assert_eq!(address.to_string(), shown);
        assert_eq!(format!("{address:?}"), format!("Address({shown})"));
    }

    #[test]
    fn files_may_be_given_beside_it() {
        let read = |text: &str, files: Files| {
            Address::parse(text).unwrap().with_files(files).map_err(|error| error.to_string())
        };
        let file = |name: &str| Some(PathBuf::from(name));
        let tls = || Files {
            ca: file("ca"),
            certificate: file("cert"),
            key: file("key"),
            ..Files::default()
        };
        let address = read("nats://host", tls()).unwrap();
        assert!(address.is_tls && address.ca_file == file("ca"));
        assert_eq!(address.certificate_files, Some(("cert".into(), "key".into())));
        let password = || Files { password: file("p"), ..Files::default() };
        assert!(read("nats://host", password()).unwrap().login == Login::TokenFile("p".into()));
        let by_user = Login::PasswordFile { user: "ann".to_owned(), file: "p".into() };
        assert!(read("nats://ann@host", password()).unwrap().login == by_user);
        let nkey = || Files { nkey_seed: file("n"), ..Files::default() };
        assert!(read("tls://host", nkey()).unwrap().login == Login::Nkey("n".into()));
        for (text, files) in [
            ("nats://host?ca=x", tls()),
            ("nats://host?cert=x&key=y", tls()),
            ("nats://host", Files { key: None, ..tls() }),
            ("nats://ann:secret@host", password()),
            ("nats://host?creds=x", nkey()),
            ("nats://t0ken@host", nkey()),
        ] {
            let refused = read(text, files).unwrap_err();
            assert!(!refused.contains("secret") && !refused.contains("t0ken"), "{refused}");
        }
    }

    #[test]
    fn one_word_before_the_host_is_a_token() {
        let address = Address::parse("tls://t0ken@host").unwrap();
        assert!(address.login == Login::Token("t0ken".to_owned()));
        assert!(address.is_tls);
        assert_eq!(address.cluster, "plimsoll");
        assert!(!Address::parse("nats://t0ken@host").unwrap().is_tls);
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
