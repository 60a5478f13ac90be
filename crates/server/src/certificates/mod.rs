//! Makes certificates for a cluster: an authority (CA), and certificates of nodes and clients that
//! it signs, all with ECDSA keys on P-256.
//!
//! It owns what stands in them (names, purposes, how long they hold). The time is handed in; files
//! and flags are [`command`]'s. It checks no connection and reads no certificate of a running node:
//! that is TLS's business.

pub mod command;

use std::{
    collections::BTreeSet,
    net::IpAddr,
    time::{Duration, SystemTime},
};

use crate::tls::member::node_uri;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType,
};
use ring::digest::{SHA256, digest};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// How long an authority holds unless told otherwise.
pub const CA_DAYS: u32 = 3650;
/// How long a certificate of a node or client holds unless told otherwise: the longest that all
/// TLS libraries take.
pub const LEAF_DAYS: u32 = 825;
/// The most days that may be asked for.
pub const DAYS_MAX: u32 = 36_500;
/// How far back certificates hold: machines whose clocks are behind take them too.
const BACKDATED: Duration = Duration::from_secs(3600);
/// The longest name, a limit of X.509 for common names.
pub const NAME_BYTES_MAX: usize = 64;

/// Why no certificate was made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// A name that cannot stand in a certificate.
    #[error("`{0}` cannot be a name in a certificate")]
    Name(String),
    /// The authority's files are damaged, or are no authority's.
    #[error("{0}")]
    Authority(&'static str),
    /// The library refused; a defect here rather than in what was given.
    #[error("the certificate cannot be made: {0}")]
    Library(#[from] rcgen::Error),
}

/// A certificate and its private key, in PEM.
pub struct Made {
    /// The certificate, and behind it that of the authority that signed it.
    pub certificate: String,
    /// The private key, PKCS#8. Nothing shows or logs it.
    pub key: String,
    /// The last moment at which the certificate holds.
    pub until: SystemTime,
}

impl Made {
    /// The SHA-256 of the certificate, hexadecimal. That of an authority is what Elasticsearch's clients take in the
    /// place of its file: they look for it among what a server shows.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let der = CertificateDer::from_pem_slice(self.certificate.as_bytes());
        let digest = digest(&SHA256, der.as_deref().unwrap_or_default());
        digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The names of hosts and the addresses in a certificate in PEM; none where it is damaged.
fn host_names(certificate: &str) -> BTreeSet<String> {
    let der = CertificateDer::from_pem_slice(certificate.as_bytes());
    let der = der.as_deref().unwrap_or_default();
    let parsed = X509Certificate::from_der(der).map(|(_, parsed)| parsed).ok();
    let names = parsed.as_ref().and_then(|it| it.subject_alternative_name().ok().flatten());
    let names = names.map(|it| it.value.general_names.as_slice()).unwrap_or_default();
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => <[u8; 4]>::try_from(*bytes)
            .map(|it| IpAddr::from(it).to_string())
            .or_else(|_| <[u8; 16]>::try_from(*bytes).map(|it| IpAddr::from(it).to_string()))
            .ok(),
        _ => None,
    };
    names.iter().filter_map(name).collect()
}

/// What a certificate is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A node answers and asks; clients look for one of these names.
    Node {
        /// Where it is reached.
        hosts: Hosts,
        /// The name of its cluster, to whose other nodes it shows who it is.
        cluster: String,
    },
    /// Another server, such as the log's, answers its clients and asks others of its kind. Nodes do not take
    /// it for one of theirs.
    Server(Hosts),
    /// A client only asks.
    Client,
}

/// By which names and addresses a server is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    /// Names of hosts; `*.example` is taken.
    pub dns: Vec<String>,
    /// Addresses.
    pub ips: Vec<IpAddr>,
}

/// Makes an authority, which may sign certificates of nodes and clients but no other authorities.
///
/// # Errors
/// Where the name is too long or empty.
pub fn make_ca(name: &str, days: u32, now: SystemTime) -> Result<Made, MakeError> {
    let mut params = params(name)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let until = hold(&mut params, now, days);
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let certificate = params.self_signed(&key)?;
    Ok(Made { certificate: certificate.pem(), key: key.serialize_pem(), until })
}

/// An authority that was made before.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// In PEM.
    certificate: String,
    until: SystemTime,
}

impl Authority {
    /// Reads it from PEM.
    ///
    /// # Errors
    /// Where they are damaged, do not belong together, or are those of a node or client.
    pub fn read(certificate: &str, key: &str) -> Result<Self, MakeError> {
        let damaged = |_| MakeError::Authority("the certificate is damaged or not in PEM");
        let der = CertificateDer::from_pem_slice(certificate.as_bytes())
            .map_err(|_| MakeError::Authority("the certificate is damaged or not in PEM"))?;
        let (_, parsed) = X509Certificate::from_der(&der).map_err(damaged)?;
        let key = KeyPair::from_pem(key)
            .map_err(|_| MakeError::Authority("the key is damaged or not in PEM"))?;
        if !parsed.is_ca() {
            return Err(MakeError::Authority("the certificate is not an authority's"));
        }
        if parsed.public_key().raw != key.subject_public_key_info() {
            return Err(MakeError::Authority("the key does not belong to the certificate"));
        }
        let until = parsed.validity().not_after.to_datetime().into();
        let issuer = Issuer::from_ca_cert_der(&der, key)?;
        Ok(Self { issuer, certificate: certificate.to_owned(), until })
    }

    /// Makes a certificate with a new key. It does not outlive the authority.
    ///
    /// # Errors
    /// Where a name does not fit, or the authority has expired.
    pub fn make(
        &self,
        name: &str,
        purpose: &Purpose,
        days: u32,
        now: SystemTime,
    ) -> Result<Made, MakeError> {
        if self.until <= now {
            return Err(MakeError::Authority("the authority has expired: make another"));
        }
        let mut params = params(name)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        params.extended_key_usages = match purpose {
            Purpose::Node { .. } | Purpose::Server(_) => {
                vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth]
            }
            Purpose::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        if let Purpose::Node { hosts, .. } | Purpose::Server(hosts) = purpose {
            for name in &hosts.dns {
                params.subject_alt_names.push(SanType::DnsName(dns_name(name)?));
            }
            params.subject_alt_names.extend(hosts.ips.iter().copied().map(SanType::IpAddress));
        }
        if let Purpose::Node { cluster, .. } = purpose {
            let uri = node_uri(cluster, name).try_into()?;
            params.subject_alt_names.push(SanType::URI(uri));
        }
        let mut until = hold(&mut params, now, days);
        if until > self.until {
            until = self.until;
            params.not_after = until.into();
        }
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let own = params.signed_by(&key, &self.issuer)?.pem();
        let certificate = format!("{own}{}", self.certificate);
        Ok(Made { certificate, key: key.serialize_pem(), until })
    }
}

fn params(name: &str) -> Result<CertificateParams, MakeError> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(char::is_control) {
        return Err(MakeError::Name(name.to_owned()));
    }
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}

/// A name of a host, as rustls takes it: checked here, since a certificate with another is refused
/// only when somebody connects.
fn dns_name(name: &str) -> Result<rcgen::string::Ia5String, MakeError> {
    let wrong = || MakeError::Name(name.to_owned());
    let plain = name.strip_prefix("*.").unwrap_or(name);
    // A number with dots is an address, which clients look for elsewhere.
    if plain.parse::<IpAddr>().is_ok() {
        return Err(wrong());
    }
    rustls::pki_types::DnsName::try_from(plain).map_err(|_| wrong())?;
    name.try_into().map_err(|_| wrong())
}

/// Sets how long a certificate holds; gives its end in whole seconds, as certificates have it.
fn hold(params: &mut CertificateParams, now: SystemTime, days: u32) -> SystemTime {
    let now = OffsetDateTime::from(now);
    let now = now.replace_nanosecond(0).unwrap_or(now);
    params.not_before = now - BACKDATED;
    params.not_after = now + Duration::from_secs(u64::from(days.min(DAYS_MAX)) * 86_400);
    params.not_after.into()
}

#[cfg(test)]
mod tests;
