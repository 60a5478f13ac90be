//! `remote_cluster_server.enabled`, `remote_cluster.*` and the files of its TLS: the port for other
//! clusters. The other clusters that this one knows are settings of the cluster (`remote::clusters`).

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use super::raw::{Raw, SettingsError};
use super::value::{parsed, text, words};
use super::value_error::ValueError;

/// Whether it is opened.
const ENABLED: &str = "remote_cluster_server.enabled";
/// What it shows.
const CERTIFICATE: &str = "xpack.security.remote_cluster_server.ssl.certificate";
/// The key of that.
const KEY: &str = "xpack.security.remote_cluster_server.ssl.key";

/// The port for other clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemotePort {
    /// `remote_cluster.host` and `remote_cluster.port`
    pub address: SocketAddr,
    /// `remote_cluster.publish_host`; empty where that is the address
    pub publish_host: String,
    /// `xpack.security.remote_cluster_server.ssl.certificate`
    pub certificate: PathBuf,
    /// `xpack.security.remote_cluster_server.ssl.key`
    pub key: PathBuf,
    /// `xpack.security.remote_cluster_server.ssl.certificate_authorities`
    pub authorities: Vec<PathBuf>,
}

impl RemotePort {
    /// Reads the settings; none where the port stays closed.
    pub(super) fn resolve(raw: &Raw) -> Result<Option<Self>, SettingsError> {
        let host = parsed(raw, "remote_cluster.host", host)?;
        let port = parsed(raw, "remote_cluster.port", |text| Ok(text.parse::<u16>()?))?;
        let authorities = "xpack.security.remote_cluster_server.ssl.certificate_authorities";
        let files = text(raw, authorities)?;
        let this = Self {
            address: SocketAddr::new(host, port),
            publish_host: parsed(raw, "remote_cluster.publish_host", publish_host)?,
            certificate: text(raw, CERTIFICATE)?.into(),
            key: text(raw, KEY)?.into(),
            authorities: words(&files).map(PathBuf::from).collect(),
        };
        let is_enabled = parsed(raw, ENABLED, |text| {
            let lacks = [(CERTIFICATE, &this.certificate), (KEY, &this.key)]
                .into_iter()
                .find(|(_, path)| path.as_os_str().is_empty());
            match lacks {
                Some((name, _)) if text == "true" => Err(ValueError::NoTls(name)),
                _ => Ok(text == "true"),
            }
        })?;
        Ok(is_enabled.then_some(this))
    }

    /// What others are told of where it is, once it is open there.
    #[must_use]
    pub fn published(&self, open: SocketAddr) -> String {
        let port = open.port();
        match self.publish_host.as_str() {
            "" => open.to_string(),
            host if host.contains(':') => format!("[{host}]:{port}"),
            host => format!("{host}:{port}"),
        }
    }
}

fn host(text: &str) -> Result<IpAddr, ValueError> {
    let text = if text == "localhost" { "127.0.0.1" } else { text };
    text.parse().map_err(|_| ValueError::Card(text.to_owned()))
}

fn publish_host(text: &str) -> Result<String, ValueError> {
    if text.is_empty() || rustls::pki_types::ServerName::try_from(text).is_ok() {
        return Ok(text.to_owned());
    }
    Err(ValueError::PublishHost(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn resolve(words: &[&str]) -> Result<Option<RemotePort>, String> {
        let mut raw = Raw::default();
        for word in words {
            raw.assignment(word).map_err(|error| error.to_string())?;
        }
        Settings::resolve(&raw).map(|it| it.remote).map_err(|error| error.to_string())
    }

    #[test]
    fn the_port_is_opened_with_a_certificate_or_not_at_all() {
        let ssl = |name: &str, path: &str| {
            format!("xpack.security.remote_cluster_server.ssl.{name}={path}")
        };
        let (certificate, key) = (ssl("certificate", "/c"), ssl("key", "/k"));
        let authorities = ssl("certificate_authorities", "/a, /b");
        let enabled = "remote_cluster_server.enabled=true";
        assert_eq!(resolve(&[]), Ok(None));
        assert_eq!(resolve(&[&certificate, &key]), Ok(None));
        let refused = resolve(&[enabled, &key]).unwrap_err();
        assert!(refused.contains("ssl.certificate") && refused.contains("TLS"), "{refused}");
        assert!(resolve(&[enabled, &certificate]).unwrap_err().contains("ssl.key"));
        let open = resolve(&[enabled, &certificate, &key, &authorities]).unwrap().unwrap();
        assert_eq!(open.address, "127.0.0.1:9443".parse().unwrap());
        assert_eq!(open.authorities, [PathBuf::from("/a"), PathBuf::from("/b")]);
        for wrong in ["remote_cluster.host=leader", "remote_cluster.port=70000"] {
            assert!(resolve(&[wrong]).is_err(), "{wrong}");
        }
        assert!(resolve(&["remote_cluster.publish_host=two words"]).is_err());
    }

    #[test]
    fn others_are_told_the_host_that_is_given() {
        let published = |publish_host: &str, open: &str| {
            let publish_host = publish_host.to_owned();
            let port = RemotePort {
                address: "127.0.0.1:0".parse().unwrap(),
                publish_host,
                certificate: PathBuf::new(),
                key: PathBuf::new(),
                authorities: Vec::new(),
            };
            port.published(open.parse().unwrap())
        };
        for (publish_host, open, expected) in [
            ("", "10.0.0.1:9443", "10.0.0.1:9443"),
            ("leader.example", "0.0.0.0:7", "leader.example:7"),
            ("2001:db8::1", "[::]:7", "[2001:db8::1]:7"),
        ] {
            assert_eq!(published(publish_host, open), expected, "{publish_host} {open}");
        }
    }
}
