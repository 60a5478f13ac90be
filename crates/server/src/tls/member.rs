//! Which certificates are those of nodes of this cluster, and of which node: said by a name in the certificate,
//! beside names of hosts, that only the cluster's authority signs.
//!
//! The name is `urn:plimsoll:node:CLUSTER:NODE`. CLUSTER is a hash of the cluster's name, as a certificate is
//! shown to whoever connects, and a stranger is not told the name. Addresses are not looked at: a node may
//! move, and who it is does not change. A client's certificate of the same authority is no node's. A node checks
//! that its own certificate is its own, and of others that they are of its cluster: which of its nodes is asked,
//! whoever asks does not say.
//!
//! It wraps the checks that rustls makes (signatures, validity, purpose) and adds this one.

use std::fmt::Write as _;
use std::sync::Arc;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use ring::digest::{SHA256, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{
    WebPkiSupportedAlgorithms, ring as provider, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore,
    SignatureScheme,
};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// What the name of a node begins with.
const PREFIX: &str = "urn:plimsoll:node:";
/// Bytes of the hash of the cluster's name.
const HASH_BYTES: usize = 16;

/// Why a certificate is no node's of this cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// No name of a node is in it, or more than one.
    #[error(
        "the certificate of the other side is no node's: make one with `plimsoll certificates node`"
    )]
    NoNode,
    /// It is of a node of another cluster.
    #[error("the certificate of the other side is that of a node of another cluster")]
    OtherCluster,
}

/// The name that stands in a node's certificate.
#[must_use]
pub fn node_uri(cluster: &str, node: &str) -> String {
    let node = utf8_percent_encode(node, NON_ALPHANUMERIC);
    format!("{PREFIX}{}:{node}", hash(cluster))
}

fn hash(cluster: &str) -> String {
    let digest = digest(&SHA256, format!("plimsoll cluster {cluster}").as_bytes());
    digest.as_ref().iter().take(HASH_BYTES).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The cluster whose nodes are let in, as one of them sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    hash: String,
    own: String,
}

impl Members {
    /// Of a cluster of this name, for a node of it.
    #[must_use]
    pub fn of(cluster: &str, node: &str) -> Self {
        Self { hash: hash(cluster), own: node.to_owned() }
    }

    /// The node whose own certificate is checked.
    #[must_use]
    pub fn own(&self) -> &str {
        &self.own
    }

    /// The name of the node whose certificate it is.
    ///
    /// # Errors
    /// Where it is no node's of this cluster.
    pub fn node_of(&self, certificate: &CertificateDer<'_>) -> Result<String, MemberError> {
        let (cluster, node) = named(certificate).ok_or(MemberError::NoNode)?;
        if cluster == self.hash { Ok(node) } else { Err(MemberError::OtherCluster) }
    }

    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        let refused = |why: MemberError| {
            Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(why))))
        };
        self.node_of(certificate).map(drop).map_err(refused)
    }
}

/// The node whose certificate it is, of whichever cluster: what a handshake let through is of this one.
#[must_use]
pub fn node_in(certificate: &CertificateDer<'_>) -> Option<String> {
    named(certificate).map(|(_, node)| node)
}

/// The hash of the cluster and the name of the node that a certificate names; none where it names more than one.
fn named(certificate: &CertificateDer<'_>) -> Option<(String, String)> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let names = parsed.subject_alternative_name().ok().flatten();
    let names = names.iter().flat_map(|it| &it.value.general_names);
    let mut uris = names.filter_map(|name| match name {
        GeneralName::URI(uri) => uri.strip_prefix(PREFIX),
        _ => None,
    });
    let (cluster, node) = uris.next().filter(|_| uris.next().is_none())?.split_once(':')?;
    let node = percent_decode_str(node).decode_utf8().ok()?;
    Some((cluster.to_owned(), node.into_owned()))
}

/// Checks the node that was connected to.
#[derive(Debug)]
pub(super) struct MembersAsServers {
    members: Members,
    roots: RootCertStore,
    algorithms: WebPkiSupportedAlgorithms,
}

impl MembersAsServers {
    pub(super) fn new(members: Members, roots: RootCertStore) -> Self {
        let algorithms = provider::default_provider().signature_verification_algorithms;
        Self { members, roots, algorithms }
    }
}

impl ServerCertVerifier for MembersAsServers {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(end_entity)?,
            &self.roots,
            intermediates,
            now,
            self.algorithms.all,
        )?;
        self.members.check(end_entity)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Checks the node that connects.
#[derive(Debug)]
pub(super) struct MembersAsClients {
    members: Members,
    checks: Arc<dyn ClientCertVerifier>,
}

impl MembersAsClients {
    pub(super) fn new(members: Members, checks: Arc<dyn ClientCertVerifier>) -> Self {
        Self { members, checks }
    }
}

impl ClientCertVerifier for MembersAsClients {
    /// Names of authorities are not told: they may have the cluster's within.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.checks.verify_client_cert(end_entity, intermediates, now)?;
        self.members.check(end_entity)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.checks.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.checks.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.checks.supported_verify_schemes()
    }
}
