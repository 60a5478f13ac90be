//! What a stranger says to a port with TLS before it is let in: a handshake that was changed or cut, and a
//! certificate that may be a node's. The port refuses it, within the memory that a stranger may cost.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use plimsoll_base::Time;
use plimsoll_server::certificates::{Authority, Hosts, Purpose, make_ca};
use plimsoll_server::tls::member::Members;
use plimsoll_server::tls::{self, ClientFiles, Identity, Rules, ServerFiles};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConnection, ServerConfig, ServerConnection};

const CLUSTER: &str = "east";

struct Port {
    config: Arc<ServerConfig>,
    /// What a client of it says first.
    hello: Vec<u8>,
    /// A node's certificate.
    certificate: Vec<u8>,
}

fn port() -> &'static Port {
    static PORT: OnceLock<Port> = OnceLock::new();
    PORT.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| -> PathBuf {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("a file");
            path
        };
        let now = SystemTime::now();
        let ca = make_ca("ca", 10, now).expect("an authority");
        let authority = Authority::read(&ca.certificate, &ca.key).expect("an authority");
        let hosts = Hosts { dns: vec!["localhost".to_owned()], ips: Vec::new() };
        let purpose = Purpose::Node { hosts, cluster: CLUSTER.to_owned() };
        let made = authority.make("node", &purpose, 10, now).expect("a certificate");
        let identity = Identity {
            certificate: write("node.crt", &made.certificate),
            key: write("node.key", &made.key),
        };
        let authorities = vec![write("ca.crt", &ca.certificate)];
        let time = Time::of_the_machine();
        let files = ServerFiles { identity: identity.clone(), authorities: authorities.clone() };
        let rules = Rules::Nodes(Members::of(CLUSTER, "node"));
        let config = tls::server("fuzzed", files, rules, &time).expect("a port").get();
        let files = ClientFiles { authorities, identity: Some(identity) };
        let client = tls::client(files, &time).expect("a client").get();
        let name = ServerName::try_from("localhost").expect("a name");
        let mut client = ClientConnection::new(client, name).expect("a client");
        let mut hello = Vec::new();
        client.write_tls(&mut hello).expect("bytes in memory");
        let pem = rustls::pki_types::pem::PemObject::from_pem_slice(made.certificate.as_bytes());
        let der: CertificateDer<'static> = pem.expect("a certificate");
        Port { config, hello, certificate: der.to_vec() }
    })
}

/// The same with changes: pairs of a place and what is added to the byte there.
fn changed(bytes: &[u8], changes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % bytes.len();
        bytes[at] = bytes[at].wrapping_add(change[2]);
    }
    bytes
}

fn say(bytes: &[u8]) {
    let mut connection = ServerConnection::new(Arc::clone(&port().config)).expect("a connection");
    let mut rest = bytes;
    while !rest.is_empty() {
        if !matches!(connection.read_tls(&mut rest), Ok(1..)) {
            break;
        }
        if connection.process_new_packets().is_err() {
            break;
        }
    }
    assert!(connection.is_handshaking(), "a stranger was let in");
    // Alerts, and no more than a first flight.
    let mut said = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut said).expect("bytes in memory");
    }
    assert!(said.len() < 16 << 10, "{} bytes for a stranger", said.len());
    let _ = connection.writer().flush();
}

/// Bytes as they come, a handshake with changes, a certificate with changes.
pub fn handshake(data: &[u8]) {
    let port = port();
    say(data);
    say(&changed(&port.hello, data));
    let half = data.first().map_or(0, |it| usize::from(*it)) * port.hello.len() / 255;
    say(&[&port.hello[..half], data].concat());
    let members = Members::of(CLUSTER, "node");
    let _ = members.node_of(&CertificateDer::from(data));
    let certificate = changed(&port.certificate, data);
    let _ = members.node_of(&CertificateDer::from(certificate.as_slice()));
}
