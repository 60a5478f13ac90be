//! The raw copy: as many bytes as a follower copies, of the leader's own files, over one or several
//! TLS connections through the same link, to a file that is on disk at the end. It shows what the
//! link, the encryption and the disk let through where nothing is decided. The connections stand when
//! the clock starts, as those of the follower do.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};

use crate::LabError;

const BUFFER_BYTES: usize = 64 << 10;
/// What a question is: where the part begins, and how long it is.
const ASK_BYTES: usize = 16;
const ACCEPT_POLL: Duration = Duration::from_millis(10);
/// How long nothing may come.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Serves parts of a file over TLS until it is dropped.
pub(crate) struct RawServer {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
}

fn other(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

impl RawServer {
    /// Serves this file with a certificate and its key.
    ///
    /// # Errors
    /// One of the files is not what it should be, or there is no port.
    pub(crate) fn start(file: &Path, certificate: &Path, key: &Path) -> io::Result<Self> {
        let chain = CertificateDer::pem_file_iter(certificate).map_err(other)?;
        let chain = chain.collect::<Result<Vec<_>, _>>().map_err(other)?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(other)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(other)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(other)?;
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (flag, path) = (Arc::clone(&is_over), file.to_owned());
        let accept = move || {
            while !flag.load(Ordering::Relaxed) {
                let Ok((stream, _)) = listener.accept() else {
                    thread::sleep(ACCEPT_POLL);
                    continue;
                };
                let (config, path) = (Arc::clone(&config), path.clone());
                // A copy that breaks off is told by who reads it.
                thread::spawn(move || serve(stream, config, &path));
            }
        };
        thread::Builder::new().name("raw".to_owned()).spawn(accept)?;
        Ok(Self { address, is_over })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn serve(stream: TcpStream, config: Arc<ServerConfig>, path: &Path) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let connection = ServerConnection::new(config).map_err(other)?;
    let mut stream = StreamOwned::new(connection, stream);
    let mut asked = [0; ASK_BYTES];
    stream.read_exact(&mut asked)?;
    let number = u128::from_le_bytes(asked);
    let mask = u128::from(u64::MAX);
    let [mut at, mut left] =
        [number & mask, number >> 64].map(|half| u64::try_from(half).unwrap_or(u64::MAX));
    let file = File::open(path)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    while left > 0 {
        let most = BUFFER_BYTES.min(usize::try_from(left).unwrap_or(BUFFER_BYTES));
        let read = file.read_at(&mut buffer[..most], at)?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        stream.write_all(&buffer[..read])?;
        (at, left) = (at + read as u64, left - read as u64);
    }
    stream.flush()
}

/// Copies so many bytes.
#[derive(Clone, Debug)]
pub(crate) struct RawCopy<'a> {
    /// The near end of the link.
    pub(crate) address: SocketAddr,
    /// The authority that vouches for the other side.
    pub(crate) authority: &'a Path,
    pub(crate) connections: usize,
    pub(crate) bytes: u64,
    pub(crate) to: PathBuf,
}

/// A copy that was made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RawCopied {
    pub(crate) seconds: f64,
    /// The time after 95 % of the bytes, of the connection that took longest; the sync is part of it.
    pub(crate) tail_seconds: f64,
}

impl RawCopy<'_> {
    /// Makes it; what it wrote is removed again. How many bytes are there is said in `there`.
    ///
    /// # Errors
    /// A connection or the disk fails, or it is to stop.
    pub(crate) fn run(&self, there: &AtomicU64, stop: &AtomicBool) -> Result<RawCopied, LabError> {
        let made = self.copy(there, stop);
        let _ = std::fs::remove_file(&self.to);
        made.map_err(|error| LabError::live("make a raw copy".to_owned(), error))
    }

    fn copy(&self, there: &AtomicU64, stop: &AtomicBool) -> io::Result<RawCopied> {
        let mut roots = RootCertStore::empty();
        for found in CertificateDer::pem_file_iter(self.authority).map_err(other)? {
            roots.add(found.map_err(other)?).map_err(other)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let config = Arc::new(config);
        let streams = thread::scope(|scope| {
            let open = |_| scope.spawn(|| self.open(&config));
            let opening: Vec<_> = (0..self.connections).map(open).collect();
            let joined =
                opening.into_iter().map(|one| one.join().map_err(|_| other("panicked"))?);
            joined.collect::<io::Result<Vec<_>>>()
        })?;
        let file = File::create(&self.to)?;
        let began = Instant::now();
        let tails = thread::scope(|scope| {
            let file = &file;
            let parts = parts(self.bytes, self.connections).into_iter().zip(streams);
            let take = |(part, stream)| {
                scope.spawn(move || take(stream, part, file, (began, there), stop))
            };
            let taking: Vec<_> = parts.map(take).collect();
            let joined = taking.into_iter().map(|one| one.join().map_err(|_| other("panicked"))?);
            joined.collect::<io::Result<Vec<f64>>>()
        })?;
        file.sync_all()?;
        let seconds = began.elapsed().as_secs_f64();
        let tail_from = tails.into_iter().fold(0.0, f64::max);
        Ok(RawCopied { seconds, tail_seconds: (seconds - tail_from).max(0.0) })
    }

    fn open(
        &self,
        config: &Arc<ClientConfig>,
    ) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let name = ServerName::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST).into());
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let mut connection = ClientConnection::new(Arc::clone(config), name).map_err(other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(StreamOwned::new(connection, stream))
    }
}

/// The parts of so many bytes, as even as can be: where each begins and how long it is.
fn parts(bytes: u64, count: usize) -> Vec<(u64, u64)> {
    let count = count.max(1) as u64;
    let at = |number: u64| bytes / count * number + (bytes % count).min(number);
    (0..count).map(|number| (at(number), at(number + 1) - at(number))).collect()
}

/// Takes one part; when 95 % of it were there, s.
fn take(
    mut stream: StreamOwned<ClientConnection, TcpStream>,
    (mut at, bytes): (u64, u64),
    file: &File,
    (began, there): (Instant, &AtomicU64),
    stop: &AtomicBool,
) -> io::Result<f64> {
    let asked = u128::from(bytes) << 64 | u128::from(at);
    stream.write_all(&asked.to_le_bytes())?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut left, mut tail_from) = (bytes, 0.0);
    while left > 0 {
        if stop.load(Ordering::Relaxed) {
            return Err(ErrorKind::Interrupted.into());
        }
        let most = BUFFER_BYTES.min(usize::try_from(left).unwrap_or(BUFFER_BYTES));
        let read = stream.read(&mut buffer[..most])?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        file.write_all_at(&buffer[..read], at)?;
        there.fetch_add(read as u64, Ordering::Relaxed);
        (at, left) = (at + read as u64, left - read as u64);
        if left >= bytes / 20 {
            tail_from = began.elapsed().as_secs_f64();
        }
    }
    Ok(tail_from)
}

/// Writes a file of so many bytes, of the files of a folder one after another and, where those are
/// too few, again from the first.
pub(crate) fn gather(folder: &Path, bytes: u64, to: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && entry.metadata()?.len() > 0 {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    let mut out = File::create(to)?;
    let mut left = bytes;
    while left > 0 {
        let before = left;
        for path in &files {
            // One that a compaction took away meanwhile is passed over.
            let Ok(file) = File::open(path) else { continue };
            left -= io::copy(&mut file.take(left), &mut out)?;
        }
        if left == before {
            return Err(other("there is nothing to copy"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_even_and_whole() {
        assert_eq!(parts(10, 1), [(0, 10)]);
        assert_eq!(parts(10, 4), [(0, 3), (3, 3), (6, 2), (8, 2)]);
        assert_eq!(parts(0, 2), [(0, 0), (0, 0)]);
    }

    #[test]
    fn a_file_is_gathered_of_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("data");
        std::fs::create_dir_all(inner.join("a")).unwrap();
        std::fs::write(inner.join("a/1"), b"abc").unwrap();
        std::fs::write(inner.join("b"), b"de").unwrap();
        std::fs::write(inner.join("c"), b"").unwrap();
        let to = folder.path().join("out");
        gather(&inner, 7, &to).unwrap();
        assert_eq!(std::fs::read(&to).unwrap(), b"abcdeab");
        let empty = folder.path().join("empty");
        std::fs::create_dir(&empty).unwrap();
        assert!(gather(&empty, 1, &to).is_err());
    }
}
