//! TLS on all ports: what either side shows and what it asks of the other, from files in PEM.
//!
//! | file | owns |
//! |---|---|
//! | [`watched`] | files taken anew when they change |
//! | [`door`], [`stream`] | the handshake of a port, and the bytes behind it |
//! | [`member`] | what makes a certificate that of a node of this cluster |
//!
//! It owns these rules ([`Rules`]):
//! - Between clusters and between nodes TLS 1.3 and nothing older; clients may have TLS 1.2, with forward
//!   secrecy and authenticated ciphers alone (rustls has no others), and no renegotiation.
//! - Who connects to another cluster checks the certificate against its authorities and the name that it
//!   asked for. The other side, where it has authorities, checks the certificate of who connects.
//! - Between clusters and nodes sessions are not resumed: connections last, and a session resumed would pass
//!   by a certificate that was replaced. Clients' are, until the files change.
//!
//! It opens no connection, and does not know what goes through one.

pub mod door;
pub mod member;
pub mod stream;
pub mod watched;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use plimsoll_base::Time;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{
    AlertDescription, CertificateError, CipherSuite, ClientConfig, Error, InvalidMessage,
    OtherError, PeerIncompatible, RootCertStore, ServerConfig, SupportedProtocolVersion,
    version::{TLS12, TLS13},
};

use member::{MemberError, Members, MembersAsClients, MembersAsServers};
use watched::{FileError, Watched, read_file};

/// HTTP/2, as both sides name it, so that a client of another protocol is told in the handshake.
pub const H2: &[u8] = b"h2";
/// HTTP/1.1.
const HTTP_1: &[u8] = b"http/1.1";
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

/// Who connects to a port, which decides what is asked there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rules {
    /// Followers of other clusters.
    Clusters,
    /// Nodes of this cluster, by certificates that say so. Authorities are wanted.
    Nodes(Members),
    /// Clients of REST.
    Http,
    /// Clients of RESP.
    Resp,
}

impl Rules {
    fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        static NEW: [&SupportedProtocolVersion; 1] = [&TLS13];
        static BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
        match self {
            Self::Clusters | Self::Nodes(_) => &NEW,
            Self::Http | Self::Resp => &BOTH,
        }
    }

    fn protocols(&self) -> &'static [&'static [u8]] {
        match self {
            Self::Clusters | Self::Nodes(_) => &[H2],
            Self::Http => &[H2, HTTP_1],
            // Clients of Redis name none.
            Self::Resp => &[],
        }
    }

    fn resumes(&self) -> bool {
        matches!(self, Self::Http | Self::Resp)
    }
}

/// What a port accepts connections with; `port` is its setting, as the log names it.
///
/// # Errors
/// Names the file that does not do.
pub fn server(
    port: &'static str,
    files: ServerFiles,
    rules: Rules,
    time: &Time,
) -> Result<Watched<ServerConfig>, FileError> {
    let all = files.identity.files().into_iter().chain(files.authorities.clone()).collect();
    Watched::new(port, all, time, move || server_config(&files, &rules))
}

/// What a node connects to another one with: both show certificates of nodes.
///
/// # Errors
/// Names the file that does not do.
pub fn node_client(
    files: ClientFiles,
    members: Members,
    time: &Time,
) -> Result<Watched<ClientConfig>, FileError> {
    let own = files.identity.iter().flat_map(Identity::files);
    let all = files.authorities.iter().cloned().chain(own).collect();
    Watched::new("other nodes", all, time, move || {
        if let Some(own) = &files.identity {
            check_own(own, &members)?;
        }
        let mut config = client_config(&files)?;
        let verifier = MembersAsServers::new(members.clone(), roots(&files.authorities)?);
        config.dangerous().set_certificate_verifier(Arc::new(verifier));
        Ok(config)
    })
}

/// What the follower's side connects with.
///
/// # Errors
/// Names the file that does not do.
pub fn client(files: ClientFiles, time: &Time) -> Result<Watched<ClientConfig>, FileError> {
    let own = files.identity.iter().flat_map(Identity::files);
    let all = files.authorities.iter().cloned().chain(own).collect();
    Watched::new("other clusters", all, time, move || client_config(&files))
}

/// Whether a certificate is this node's: with another one it would be refused by all others, or pass for
/// another node.
fn check_own(own: &Identity, members: &Members) -> Result<(), FileError> {
    let path = &own.certificate;
    let first = certificates(path)?.into_iter().next();
    let named = first.ok_or(MemberError::NoNode).and_then(|it| members.node_of(&it));
    let node = members.own();
    match named {
        Ok(named) if named == node => Ok(()),
        Ok(named) => Err(FileError::new(path, format!("is for the node `{named}`, not `{node}`"))),
        Err(MemberError::NoNode) => Err(FileError::new(path, "is no node's certificate")),
        Err(MemberError::OtherCluster) => {
            Err(FileError::new(path, "is for a node of another cluster (cluster.name)"))
        }
    }
}

/// The one provider; the process has no default, which whoever links another could change.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let made = PROVIDER.get_or_init(|| {
        let mut provider = ring::default_provider();
        // AES-128 and SHA-256 have instructions of their own, SHA-384 has none: it is the dearest part of a
        // handshake. Both are strong enough.
        provider.cipher_suites.sort_by_key(|it| !is_cheap(it.suite()));
        Arc::new(provider)
    });
    Arc::clone(made)
}

fn is_cheap(suite: CipherSuite) -> bool {
    matches!(
        suite,
        CipherSuite::TLS13_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
    )
}

fn server_config(files: &ServerFiles, rules: &Rules) -> Result<ServerConfig, FileError> {
    let Identity { certificate, key } = &files.identity;
    if let Rules::Nodes(members) = rules {
        check_own(&files.identity, members)?;
    }
    let refused = |error: Error| FileError::new(certificate, in_words(&error));
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(rules.versions())
        .map_err(refused)?;
    let builder = match files.authorities.first() {
        Some(first) => {
            let roots = Arc::new(roots(&files.authorities)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
            let verifier = verifier.map_err(|error| FileError::new(first, error.to_string()))?;
            builder.with_client_cert_verifier(match rules {
                Rules::Nodes(members) => Arc::new(MembersAsClients::new(members.clone(), verifier)),
                _ => verifier,
            })
        }
        None => builder.with_no_client_auth(),
    };
    let (chain, key) = (certificates(certificate)?, private_key(key)?);
    let mut config = builder.with_single_cert(chain, key).map_err(refused)?;
    config.ignore_client_order = true;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if rules.resumes() {
        // Its keys are this configuration's own: files that change end what could be resumed.
        config.ticketer = ring::Ticketer::new().map_err(refused)?;
        config.send_tls13_tickets = 1;
    } else {
        config.send_tls13_tickets = 0;
    }
    config.alpn_protocols = rules.protocols().iter().map(|it| it.to_vec()).collect();
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
    config.alpn_protocols = vec![H2.to_vec()];
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
        Error::AlertReceived(AlertDescription::ProtocolVersion)
        | Error::PeerIncompatible(
            PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::Tls13RequiredForQuic
            | PeerIncompatible::SupportedVersionsExtensionRequired
            | PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
        ) => "the two sides have no version of TLS in common",
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => "the other side does not speak TLS",
        Error::InvalidCertificate(CertificateError::Other(OtherError(why))) => {
            return why.to_string();
        }
        Error::InconsistentKeys(_) => "the key does not belong to the certificate",
        _ => return error.to_string(),
    };
    words.to_owned()
}

/// The same of an error that may have one of TLS within.
#[must_use]
pub fn cause_in_words(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = String::new();
    for error in causes(error) {
        if let Some(tls) = error.downcast_ref::<Error>() {
            return in_words(tls);
        }
        innermost = error.to_string();
    }
    innermost
}

/// An error of TLS within another, if there is one.
#[must_use]
pub fn cause<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
    causes(error).find_map(|error| error.downcast_ref::<Error>())
}

type AnyError<'a> = &'a (dyn std::error::Error + 'static);

fn causes<'a>(error: AnyError<'a>) -> impl Iterator<Item = AnyError<'a>> {
    std::iter::successors(Some(error), |error| {
        // An error of the system's is its own source's shell: what it holds is not its source.
        let held = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        match held {
            Some(held) => Some(held as AnyError<'a>),
            None => error.source(),
        }
    })
}

#[cfg(test)]
mod tests;
