//! TLS between clusters: what either side shows and what it asks of the other, from files in PEM.
//!
//! It owns these rules: TLS 1.3 and nothing older; the follower checks the leader's certificate
//! against its authorities and the name that it asked for; the leader, where it has authorities,
//! checks the follower's. Sessions are not resumed: connections last, and a session resumed would
//! pass by a certificate that was replaced. Files are taken anew when they change ([`Watched`]).
//!
//! It opens no connection, and does not know what goes through one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, Error, InvalidMessage, RootCertStore,
    ServerConfig, version::TLS13,
};

use super::watched::{FileError, Watched, read_file};

/// The protocol that both sides name, so that a client of another one is told in the handshake.
const ALPN: &[u8] = b"h2";
/// The most certificates in one file.
const CERTIFICATES_MAX: usize = 1000;

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, those between it and its authority behind it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Identity {
    fn files(&self) -> [PathBuf; 2] {
        [self.certificate.clone(), self.key.clone()]
    }
}

/// The files of the side that is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFiles {
    /// What it shows.
    pub identity: Identity,
    /// Whose certificates the other side must show; where there are none, it shows none.
    pub authorities: Vec<PathBuf>,
}

/// The files of the side that connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFiles {
    /// Who may have signed what the other side shows.
    pub authorities: Vec<PathBuf>,
    /// What it shows itself, where the other side asks for it.
    pub identity: Option<Identity>,
}

/// What the leader's side accepts connections with.
///
/// # Errors
/// Names the file that does not do.
pub fn server(files: ServerFiles, now: Instant) -> Result<Watched<ServerConfig>, FileError> {
    let all = files.identity.files().into_iter().chain(files.authorities.clone()).collect();
    Watched::new(all, now, move || server_config(&files))
}

/// What the follower's side connects with.
///
/// # Errors
/// Names the file that does not do.
pub fn client(files: ClientFiles, now: Instant) -> Result<Watched<ClientConfig>, FileError> {
    let own = files.identity.iter().flat_map(Identity::files);
    let all = files.authorities.iter().cloned().chain(own).collect();
    Watched::new(all, now, move || client_config(&files))
}

/// The one provider; the process has no default, which whoever links another could change.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn server_config(files: &ServerFiles) -> Result<ServerConfig, FileError> {
    let Identity { certificate, key } = &files.identity;
    let refused = |error: Error| FileError::new(certificate, in_words(&error));
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(refused)?;
    let builder = match files.authorities.first() {
        Some(first) => {
            let roots = Arc::new(roots(&files.authorities)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
            let verifier = verifier.map_err(|error| FileError::new(first, error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
        None => builder.with_no_client_auth(),
    };
    let (chain, key) = (certificates(certificate)?, private_key(key)?);
    let mut config = builder.with_single_cert(chain, key).map_err(refused)?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

fn client_config(files: &ClientFiles) -> Result<ClientConfig, FileError> {
    let roots = roots(&files.authorities)?;
    let first = files.authorities.first().cloned().unwrap_or_default();
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| FileError::new(&first, in_words(&error)))?
        .with_root_certificates(roots);
    let mut config = match &files.identity {
        Some(Identity { certificate, key }) => {
            let (chain, key) = (certificates(certificate)?, private_key(key)?);
            let config = builder.with_client_auth_cert(chain, key);
            config.map_err(|error| FileError::new(certificate, in_words(&error)))?
        }
        None => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let text = read_file(path)?;
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(&text).take(CERTIFICATES_MAX + 1).collect();
    match found {
        Ok(found) if found.is_empty() => Err(FileError::new(path, "has no certificate in PEM")),
        Ok(found) if found.len() > CERTIFICATES_MAX => {
            Err(FileError::new(path, format!("has more than {CERTIFICATES_MAX} certificates")))
        }
        Ok(found) => Ok(found),
        Err(_) => Err(FileError::new(path, "is damaged or not in PEM")),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    PrivateKeyDer::from_pem_slice(&read_file(path)?)
        .map_err(|_| FileError::new(path, "has no private key in PEM (without a password)"))
}

fn roots(paths: &[PathBuf]) -> Result<RootCertStore, FileError> {
    let mut roots = RootCertStore::empty();
    for path in paths {
        for certificate in certificates(path)? {
            let added = roots.add(certificate);
            added.map_err(|error| FileError::new(path, in_words(&error)))?;
        }
    }
    Ok(roots)
}

/// What went wrong between two sides, for those who have to mend it.
#[must_use]
pub fn in_words(error: &Error) -> String {
    let words = match error {
        // Two authorities may have one name: then the other's signature is found to be wrong.
        Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => "the certificate of the other side is signed by none of the authorities given here",
        Error::InvalidCertificate(CertificateError::NotValidForName) => {
            "the certificate of the other side is for another name"
        }
        Error::InvalidCertificate(CertificateError::NotValidForNameContext {
            expected,
            presented,
        }) => {
            let expected = expected.to_str();
            let presented = presented.join(", ");
            return format!(
                "the certificate of the other side is not for `{expected}`, but for {presented}"
            );
        }
        Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => "the certificate of the other side has expired",
        Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => "the certificate of the other side does not hold yet: compare the clocks",
        Error::InvalidCertificate(
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. },
        ) => "the certificate of the other side is for another purpose",
        Error::NoCertificatesPresented
        | Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "a certificate of the side that connects is wanted, and it shows none"
        }
        Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::DecryptError
            | AlertDescription::CertificateUnknown,
        ) => "the other side does not take the certificate shown to it",
        Error::AlertReceived(AlertDescription::CertificateExpired) => {
            "the other side finds the certificate shown to it expired"
        }
        Error::AlertReceived(AlertDescription::ProtocolVersion) | Error::PeerIncompatible(_) => {
            "the two sides have no version of TLS in common: TLS 1.3 is wanted"
        }
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => "the other side does not speak TLS",
        Error::InconsistentKeys(_) => "the key does not belong to the certificate",
        _ => return error.to_string(),
    };
    words.to_owned()
}

/// The same of an error that may have one of TLS within.
#[must_use]
pub fn cause_in_words(error: &(dyn std::error::Error + 'static)) -> String {
    let mut next = Some(error);
    let mut innermost = String::new();
    while let Some(error) = next {
        if let Some(tls) = error.downcast_ref::<Error>() {
            return in_words(tls);
        }
        innermost = error.to_string();
        // An error of the system's is its own source's shell: what it holds is not its source.
        let held = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        next = match held {
            Some(held) => Some(held),
            None => error.source(),
        };
    }
    innermost
}

#[cfg(test)]
mod tests;
