//! `cluster.remote.NAME.*`: which other clusters this one knows, and how they are reached. Values are
//! checked when they are set, and read again from their texts whenever one changes. Nothing is opened
//! or read here: whether a file or an address does is found out when the cluster is connected to.

use std::collections::BTreeMap;
use std::path::PathBuf;

use plimsoll_cluster::following::CopyCompression;
use rustls::pki_types::ServerName;

/// What they begin with; in the table of the cluster's settings they are `"cluster.remote.*"`.
const PREFIX: &str = "cluster.remote.";
/// The most remote clusters.
const CLUSTERS_MAX: usize = 16;
/// The longest name of one, bytes.
const NAME_BYTES_MAX: usize = 64;
/// The most seeds or files in one setting.
const LIST_MAX: usize = 32;
/// The most connections that a setting may ask for.
const CONNECTIONS_MAX: usize = 64;

/// Why a setting of a remote cluster does not take a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoteSettingError {
    /// The name is of another form, or the cluster's in it is none.
    #[error("it is no setting of a remote cluster")]
    NoSetting,
    /// There is no such option.
    #[error("there is no option `{0}` of a remote cluster")]
    NoOption(String),
    /// It is no [`Mode`].
    #[error("`{0}` is none of sniff, proxy")]
    Mode(String),
    /// It is neither true nor false.
    #[error("takes only true or false")]
    Flag,
    /// It is no number of connections.
    #[error("`{0}` is not a whole number from 1 to {CONNECTIONS_MAX}")]
    Count(String),
    /// It is no address with a port.
    #[error("`{0}` is no address such as leader.example:9443")]
    Address(String),
    /// No certificate can be for it.
    #[error("`{0}` is no name of a host and no address")]
    ServerName(String),
    /// It is no path that is the same for all nodes.
    #[error("`{0}` does not begin with `/`")]
    RelativePath(String),
    /// It is a list that is too long.
    #[error("has more than {LIST_MAX} items")]
    TooManyItems,
}

/// Why settings of remote clusters do not go together; in Elasticsearch's words where it has some.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TogetherError {
    /// A cluster, by its name, has a certificate without its key, or a key without its certificate.
    #[error(
        "Settings [{PREFIX}{0}.certificate] and [{PREFIX}{0}.key] belong together: set both or none"
    )]
    HalfACertificate(String),
    /// A cluster is reached in another way than by this option.
    #[error(
        "Setting [{PREFIX}{name}.{option}] cannot be used with the setting [{PREFIX}{name}.mode] \
         [required={required}, configured={configured}]"
    )]
    OtherMode {
        /// The cluster.
        name: String,
        /// Its option.
        option: &'static str,
        /// The mode that the option is of.
        required: &'static str,
        /// The mode that the cluster has.
        configured: &'static str,
    },
    /// There are too many.
    #[error("there are more than {CLUSTERS_MAX} remote clusters")]
    TooManyClusters,
}

/// How the nodes of the other cluster are reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// By their own addresses, which the first one reached knows.
    #[default]
    Sniff,
    /// Through one address, behind which any of them answers.
    Proxy,
}

/// The settings of one remote cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteSettings {
    /// `mode`
    pub mode: Mode,
    /// `seeds`: nodes that are asked first, `host:port`
    pub seeds: Vec<String>,
    /// `node_connections`
    pub node_connections: usize,
    /// `proxy_address`
    pub proxy_address: Option<String>,
    /// `proxy_socket_connections`
    pub proxy_connections: usize,
    /// `server_name`: the name that certificates are for, where that is not the address asked
    pub server_name: Option<String>,
    /// `skip_unavailable`
    pub skip_unavailable: bool,
    /// `transport.compress`: where it is not set, as measured
    pub compress: Option<bool>,
    /// `credentials_file`: holds the key
    pub credentials_file: Option<PathBuf>,
    /// `certificate_authorities`
    pub authorities: Vec<PathBuf>,
    /// `certificate`
    pub certificate: Option<PathBuf>,
    /// `key`
    pub key: Option<PathBuf>,
}

impl Default for RemoteSettings {
    fn default() -> Self {
        Self {
            mode: Mode::Sniff,
            seeds: Vec::new(),
            node_connections: 3,
            proxy_address: None,
            proxy_connections: 18,
            server_name: None,
            skip_unavailable: false,
            compress: None,
            credentials_file: None,
            authorities: Vec::new(),
            certificate: None,
            key: None,
        }
    }
}

impl RemoteSettings {
    /// Whether it says where the cluster is: before that there is none.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        match self.mode {
            Mode::Sniff => !self.seeds.is_empty(),
            Mode::Proxy => self.proxy_address.is_some(),
        }
    }

    /// Whether files of it are compressed on the way.
    #[must_use]
    pub fn compression(&self) -> CopyCompression {
        match self.compress {
            None => CopyCompression::Measured,
            Some(true) => CopyCompression::Deflate,
            Some(false) => CopyCompression::Off,
        }
    }

    /// Takes over one option.
    fn set(&mut self, option: &str, text: &str) -> Result<(), RemoteSettingError> {
        match option {
            "mode" => {
                self.mode = match text {
                    "sniff" => Mode::Sniff,
                    "proxy" => Mode::Proxy,
                    _ => return Err(RemoteSettingError::Mode(text.to_owned())),
                }
            }
            "seeds" => self.seeds = list(text, |it| address(it).map(str::to_owned))?,
            "node_connections" => self.node_connections = count(text)?,
            "proxy_address" => self.proxy_address = given(text, address)?.map(str::to_owned),
            "proxy_socket_connections" => self.proxy_connections = count(text)?,
            "server_name" => self.server_name = given(text, server_name)?.map(str::to_owned),
            "skip_unavailable" => self.skip_unavailable = flag(text)?,
            "transport.compress" => self.compress = given(text, flag)?,
            "credentials_file" => self.credentials_file = given(text, path)?,
            "certificate_authorities" => self.authorities = list(text, path)?,
            "certificate" => self.certificate = given(text, path)?,
            "key" => self.key = given(text, path)?,
            _ => return Err(RemoteSettingError::NoOption(option.to_owned())),
        }
        Ok(())
    }
}

/// Whether a setting is one of a remote cluster: its name and the option.
fn parts(name: &str) -> Option<(&str, &str)> {
    let (cluster, option) = name.strip_prefix(PREFIX)?.split_once('.')?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let is_name = (1..=NAME_BYTES_MAX).contains(&cluster.len()) && cluster.bytes().all(fits);
    is_name.then_some((cluster, option))
}

/// Whether there is a setting of this name.
#[must_use]
pub fn is_known(name: &str) -> bool {
    const OPTIONS: [&str; 12] = [
        "mode",
        "seeds",
        "node_connections",
        "proxy_address",
        "proxy_socket_connections",
        "server_name",
        "skip_unavailable",
        "transport.compress",
        "credentials_file",
        "certificate_authorities",
        "certificate",
        "key",
    ];
    parts(name).is_some_and(|(_, option)| OPTIONS.contains(&option))
}

/// Checks the value of one setting.
///
/// # Errors
/// Where the setting does not take it.
pub fn check(name: &str, text: &str) -> Result<(), RemoteSettingError> {
    let (_, option) = parts(name).ok_or(RemoteSettingError::NoSetting)?;
    RemoteSettings::default().set(option, text)
}

/// Checks what is set in all: settings that do not go together, too many clusters.
///
/// # Errors
/// The first that is wrong.
pub fn check_together(set: &BTreeMap<String, String>) -> Result<(), TogetherError> {
    let clusters = parse(set);
    for (name, settings) in &clusters {
        let (option, required, configured) = match settings.mode {
            Mode::Sniff if settings.proxy_address.is_some() => ("proxy_address", "PROXY", "SNIFF"),
            Mode::Proxy if !settings.seeds.is_empty() => ("seeds", "SNIFF", "PROXY"),
            _ if settings.certificate.is_some() != settings.key.is_some() => {
                return Err(TogetherError::HalfACertificate(name.clone()));
            }
            _ => continue,
        };
        let name = name.clone();
        return Err(TogetherError::OtherMode { name, option, required, configured });
    }
    if clusters.len() > CLUSTERS_MAX {
        return Err(TogetherError::TooManyClusters);
    }
    Ok(())
}

/// The remote clusters of all that is set, by name, also those that are not complete. Values were
/// checked when they were set; one that is not understood all the same is passed over.
#[must_use]
pub fn parse(set: &BTreeMap<String, String>) -> BTreeMap<String, RemoteSettings> {
    let mut clusters: BTreeMap<String, RemoteSettings> = BTreeMap::new();
    for (name, text) in set.range(PREFIX.to_owned()..).take_while(|it| it.0.starts_with(PREFIX)) {
        let Some((cluster, option)) = parts(name) else { continue };
        let settings = clusters.entry(cluster.to_owned()).or_default();
        if let Err(why) = settings.set(option, text) {
            tracing::warn!(name, %why, "the cluster's setting is passed over");
        }
    }
    clusters
}

fn given<'a, T>(
    text: &'a str,
    read: impl Fn(&'a str) -> Result<T, RemoteSettingError>,
) -> Result<Option<T>, RemoteSettingError> {
    if text.is_empty() { Ok(None) } else { read(text).map(Some) }
}

fn list<'a, T>(
    text: &'a str,
    read: impl Fn(&'a str) -> Result<T, RemoteSettingError>,
) -> Result<Vec<T>, RemoteSettingError> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    let items = items.map(read).collect::<Result<Vec<T>, RemoteSettingError>>()?;
    if items.len() > LIST_MAX { Err(RemoteSettingError::TooManyItems) } else { Ok(items) }
}

fn flag(text: &str) -> Result<bool, RemoteSettingError> {
    text.parse().map_err(|_| RemoteSettingError::Flag)
}

fn count(text: &str) -> Result<usize, RemoteSettingError> {
    let number = text.parse().ok().filter(|number| (1..=CONNECTIONS_MAX).contains(number));
    number.ok_or_else(|| RemoteSettingError::Count(text.to_owned()))
}

fn address(text: &str) -> Result<&str, RemoteSettingError> {
    let wrong = || RemoteSettingError::Address(text.to_owned());
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    if is_port && server_name(unbracketed(host)).is_ok() { Ok(text) } else { Err(wrong()) }
}

/// Whether a text is an address that can be connected to; one that another cluster names, too.
#[must_use]
pub fn is_address(text: &str) -> bool {
    address(text).is_ok()
}

/// The host of an address, without the brackets that an IPv6 address has there.
#[must_use]
pub fn host(address: &str) -> &str {
    unbracketed(address.rsplit_once(':').map_or(address, |(host, _)| host))
}

fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host)
}

fn server_name(text: &str) -> Result<&str, RemoteSettingError> {
    match ServerName::try_from(text) {
        Ok(_) => Ok(text),
        Err(_) => Err(RemoteSettingError::ServerName(text.to_owned())),
    }
}

/// Nodes run in folders of their own: a path that depends on those would be another file in each.
fn path(text: &str) -> Result<PathBuf, RemoteSettingError> {
    let path = PathBuf::from(text);
    let is_absolute = path.is_absolute();
    if is_absolute { Ok(path) } else { Err(RemoteSettingError::RelativePath(text.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn values_are_checked_and_names_known() {
        for (option, good, bad) in [
            ("mode", "proxy", "PROXY"),
            ("seeds", "a.example:9443, [::1]:9443,10.0.0.1:1", "a.example"),
            ("seeds", "", "a:9443:b"),
            ("node_connections", "1", "0"),
            ("proxy_address", "p.example:443", "p.example:0"),
            ("proxy_socket_connections", "18", "65"),
            ("server_name", "leader.example", "two words"),
            ("server_name", "10.0.0.1", "a:1"),
            ("skip_unavailable", "true", "maybe"),
            ("transport.compress", "true", "indexing_data"),
            ("transport.compress", "", "zstd"),
            ("credentials_file", "/etc/plimsoll/leader.key", "leader.key"),
            ("certificate_authorities", "/a/ca.crt,/b/ca.crt", "/a/ca.crt,ca.crt"),
            ("certificate", "/a.crt", "a.crt"),
            ("key", "/a.key", "./a.key"),
        ] {
            let name = format!("cluster.remote.west-1.{option}");
            assert!(is_known(&name), "{name}");
            assert_eq!(check(&name, good), Ok(()), "{name}");
            assert!(check(&name, bad).is_err(), "{name} {bad}");
        }
        for name in [
            "cluster.remote",
            "cluster.remote.x",
            "cluster.remote..seeds",
            "cluster.remote.a b.seeds",
            "cluster.remote.x.seed",
            "cluster.remote.x.transport.compression_scheme",
            "cluster.remote.x.",
        ] {
            assert!(!is_known(name), "{name}");
        }
    }

    #[test]
    fn clusters_are_read_from_all_that_is_set() {
        let clusters = parse(&set(&[
            ("cluster.remote.a.seeds", "h:1,h:2"),
            ("cluster.remote.a.server_name", "leader"),
            ("cluster.remote.b.mode", "proxy"),
            ("cluster.remote.c.skip_unavailable", "true"),
            ("cluster.remotely.a.seeds", "h:1"),
            ("cluster.routing.hedging", "on"),
        ]));
        assert_eq!(clusters.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(clusters["a"].seeds, ["h:1", "h:2"]);
        assert_eq!(clusters["a"].server_name.as_deref(), Some("leader"));
        let complete = clusters.iter().filter(|(_, it)| it.is_complete());
        assert_eq!(complete.map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a"]);
        assert!(is_address("a.example:1") && !is_address(""));
        assert!(!is_address("a\nb:1") && !is_address(&format!("{}:1", "a".repeat(300))));
        assert_eq!((host("[::1]:9443"), host("a.example:1")), ("::1", "a.example"));
    }

    #[test]
    fn what_does_not_go_together_is_named() {
        let proxied = set(&[
            ("cluster.remote.a.mode", "proxy"),
            ("cluster.remote.a.seeds", "h:1"),
            ("cluster.remote.a.proxy_address", "h:1"),
        ]);
        let refused = check_together(&proxied).unwrap_err().to_string();
        assert!(refused.contains("[cluster.remote.a.seeds] cannot be used"), "{refused}");
        let sniffed = set(&[("cluster.remote.a.proxy_address", "h:1")]);
        assert!(check_together(&sniffed).unwrap_err().to_string().contains("required=PROXY"));
        let half = set(&[("cluster.remote.a.seeds", "h:1"), ("cluster.remote.a.key", "/k")]);
        assert!(check_together(&half).unwrap_err().to_string().contains("belong together"));
        let many: BTreeMap<String, String> = (0..17)
            .map(|number| (format!("cluster.remote.c{number}.seeds"), "h:1".to_owned()))
            .collect();
        assert!(check_together(&many).unwrap_err().to_string().contains("more than 16"));
        assert_eq!(check_together(&set(&[("cluster.remote.a.seeds", "h:1")])), Ok(()));
    }
}
