//! A node that makes itself secure: `plimsoll serve --secure` on an empty folder. It makes an authority, a certificate
//! and a password, sets TLS on for clients, and says once what a client needs. On a folder that has them it takes
//! those that are there.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::certificates::Hosts;
use crate::certificates::command::{CommandError, make_own};
use crate::data_folder;
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
    /// The data folder.
    #[error("the data folder cannot be written: {0}")]
    Data(#[from] io::Error),
    /// Something else is in the place of the certificates.
    #[error("{} is there and has no ca.crt: move it away, or name certificates by http.tls.* and resp.tls.* ({})", .0.display(), .1)]
    InPlace(PathBuf, io::Error),
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
        data_folder::make(&data)?;
        let addresses = ["http.address", "resp.address"].map(|key| raw.text_or_default(key));
        // First: where the certificates are there, so is a way in.
        let way_in = match was_used(&data) {
            true => "users stay as they are; where elastic has no password, `plimsoll users reset` gives it one"
                .to_owned(),
            false => {
                let password = reset::draw(draw)?;
                reset::leave(&data, &password, true, draw)?;
                format!("password of elastic (REST) and default (RESP): {password}")
            }
        };
        // All of them at once: a node that is killed meanwhile begins anew.
        let beside = data.join(format!("{FOLDER}.new"));
        if beside.exists() {
            fs::remove_dir_all(&beside)?;
        }
        let fingerprint = make_own(&beside, &name, &cluster, hosts(&addresses), now)?;
        fs::rename(&beside, &folder)
            .map_err(|error| SecureError::InPlace(folder.clone(), error))?;
        said = Some(format!(
            "The node is secure: clients come by TLS and log in. This is said once.\n\
             {way_in}\n\
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

/// Whether a node ran on this data folder: its users may have passwords then.
fn was_used(data: &Path) -> bool {
    let names = fs::read_dir(data).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let is_own = |name: &str| name.starts_with(FOLDER) || reset::is_file(name);
    names.into_iter().any(|name| !name.to_str().is_some_and(is_own))
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
