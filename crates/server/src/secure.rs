//! A node that makes itself secure: `plimsoll serve --secure` on an empty folder. It makes an authority, a certificate
//! and a password, sets TLS on for clients, and says once what a client needs. On a folder that has them it takes
//! those that are there.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::SystemTime;

use crate::certificates::Hosts;
use crate::certificates::command::{CommandError, make_own};
use crate::node::draw;
use crate::security::reset;
use crate::settings::{Raw, SettingsError};

/// The folder of the certificates, in the data folder.
const FOLDER: &str = "certificates";
/// What the settings say they are from.
const ORIGIN: &str = "--secure";

/// Why a node cannot make itself secure.
#[derive(Debug, thiserror::Error)]
pub enum SecureError {
    /// The certificates.
    #[error(transparent)]
    Certificates(#[from] CommandError),
    /// The settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The password.
    #[error("the password cannot be left in the data folder: {0}")]
    Password(#[from] std::io::Error),
}

/// Makes what is not there yet, where the settings ask for it, and has the settings use it. Gives what is to be
/// said, once.
///
/// # Errors
/// Names the file or the setting.
pub fn prepare(raw: &mut Raw, now: SystemTime) -> Result<Option<String>, SecureError> {
    if raw.text_or_default("node.secure") != "true" {
        return Ok(None);
    }
    let data = PathBuf::from(raw.text_or_default("path.data"));
    let folder = data.join(FOLDER);
    let (name, cluster) = (raw.text_or_default("node.name"), raw.text_or_default("cluster.name"));
    let is_new = !folder.join("ca.crt").exists();
    let mut said = None;
    if is_new {
        let addresses = ["http.address", "resp.address"].map(|key| raw.text_or_default(key));
        let password = reset::draw(draw)?;
        // First: where the certificates are there, so is a way in.
        reset::leave(&data, &password, true, draw)?;
        let fingerprint = make_own(&folder, &name, &cluster, hosts(&addresses), now)?;
        said = Some(format!(
            "The node is secure: clients come by TLS and log in. This is said once.\n\
             password of elastic (REST) and default (RESP): {password}\n\
             authority for clients: {}\n\
             sha256 of it: {fingerprint}\n",
            folder.join("ca.crt").display()
        ));
    }
    let file = |end: &str| folder.join(format!("{name}.{end}")).display().to_string();
    for port in ["http", "resp"] {
        raw.set_unless_given(&format!("{port}.tls.enabled"), "true", ORIGIN)?;
        raw.set_unless_given(&format!("{port}.tls.certificate"), &file("crt"), ORIGIN)?;
        raw.set_unless_given(&format!("{port}.tls.key"), &file("key"), ORIGIN)?;
    }
    raw.set_unless_given("security.enabled", "true", ORIGIN)?;
    Ok(said)
}

/// Where the node is reached, as far as its settings say it: always from this machine.
fn hosts(addresses: &[String]) -> Hosts {
    let mut ips = vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])];
    for address in addresses {
        if let Ok(address) = address.parse::<SocketAddr>()
            && !address.ip().is_unspecified()
            && !ips.contains(&address.ip())
        {
            ips.push(address.ip());
        }
    }
    let mut dns = vec!["localhost".to_owned()];
    if let Ok(name) = std::fs::read_to_string("/etc/hostname") {
        let name = name.trim();
        if !name.is_empty()
            && name != "localhost"
            && rustls::pki_types::DnsName::try_from(name).is_ok()
        {
            dns.push(name.to_owned());
        }
    }
    Hosts { dns, ips }
}
