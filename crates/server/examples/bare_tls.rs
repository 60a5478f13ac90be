//! What TLS costs at the least to send bytes from one process to another: the floor of what `bench_tls_nodes.py`
//! measures of a copy. One thread writes chunks to a connection, another reads them, with the library and the suite
//! that nodes use between each other, and nothing else; laps with TLS and without take turns.
//!
//! `bare_tls [MEGABYTES] [LAPS]`: prints processor seconds a gigabyte (10^9 bytes) of each side, medians, and what
//! TLS adds.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program to measure with")]
#![expect(clippy::disallowed_methods, reason = "it measures the machine")]

use std::error::Error;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::SystemTime;

use plimsoll_server::certificates::{Authority, Hosts, Made, Purpose, make_ca};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};

/// What a node asks another for at once of a file.
const CHUNK_BYTES: usize = 1 << 20;
/// What is read at once.
const READ_BYTES: usize = 64 << 10;
const GIGABYTE: f64 = 1e9;

type Failed = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failed> {
    let mut given = std::env::args().skip(1);
    let mut number =
        |otherwise: usize| given.next().map_or(Ok(otherwise), |text| text.parse::<usize>());
    let (megabytes, laps) = (number(1000)?, number(5)?);
    let bytes = megabytes * 1_000_000;
    let (server, client) = configs()?;
    let mut costs: [[Vec<f64>; 2]; 2] = Default::default();
    for lap in 0..2 * laps {
        let with_tls = lap % 2;
        let tls = (with_tls == 1).then(|| (Arc::clone(&server), Arc::clone(&client)));
        for (side, seconds) in copy(bytes, tls)?.into_iter().enumerate() {
            costs[with_tls][side].push(seconds * GIGABYTE / bytes as f64);
        }
    }
    let [plain, tls] = costs.map(|sides| sides.map(median));
    for (side, name) in ["source", "target"].into_iter().enumerate() {
        let (off, on) = (plain[side], tls[side]);
        println!("{name}: {off:.2} s a GB without TLS, {on:.2} with, {:+.2}", on - off);
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn configs() -> Result<(Arc<ServerConfig>, Arc<ClientConfig>), Failed> {
    let now = SystemTime::now();
    let ca = make_ca("bare", 1, now)?;
    let hosts = Hosts { dns: vec!["localhost".to_owned()], ips: Vec::new() };
    let Made { certificate, key, .. } =
        Authority::read(&ca.certificate, &ca.key)?.make("bare", &Purpose::Server(hosts), 1, now)?;
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
    let provider = Arc::new(default_provider());
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.certificate.as_bytes())?)?;
    let client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok((Arc::new(server), Arc::new(client)))
}

/// Sends so many bytes; processor seconds of the source and of the target.
fn copy(
    bytes: usize,
    tls: Option<(Arc<ServerConfig>, Arc<ClientConfig>)>,
) -> Result<[f64; 2], Failed> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let (server, client) = tls.unzip();
    let source = thread::spawn(move || -> Result<f64, Failed> {
        let (stream, _) = listener.accept()?;
        let began = thread_seconds()?;
        match server {
            None => send(stream, bytes)?,
            Some(config) => send(StreamOwned::new(ServerConnection::new(config)?, stream), bytes)?,
        }
        Ok(thread_seconds()? - began)
    });
    let stream = TcpStream::connect(address)?;
    let began = thread_seconds()?;
    match client {
        None => receive(stream, bytes)?,
        Some(config) => {
            let name = ServerName::try_from("localhost")?;
            receive(StreamOwned::new(ClientConnection::new(config, name)?, stream), bytes)?;
        }
    }
    let target = thread_seconds()? - began;
    Ok([source.join().unwrap()?, target])
}

fn send(mut stream: impl Write, bytes: usize) -> Result<(), Failed> {
    let chunk = vec![7; CHUNK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let next = left.min(chunk.len());
        stream.write_all(&chunk[..next])?;
        left -= next;
    }
    Ok(stream.flush()?)
}

fn receive(mut stream: impl Read, bytes: usize) -> Result<(), Failed> {
    let mut buffer = vec![0; READ_BYTES];
    let mut left = bytes;
    while left > 0 {
        match stream.read(&mut buffer)? {
            0 => return Err("the source ended early".into()),
            count => left -= count,
        }
    }
    Ok(())
}

/// Processor time of this thread, the system's included.
fn thread_seconds() -> Result<f64, Failed> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let ns: f64 = told.split_whitespace().next().unwrap_or_default().parse()?;
    Ok(ns / 1e9)
}
