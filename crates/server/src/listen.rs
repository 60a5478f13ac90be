//! Ports: who may listen where, and who holds one that is busy. It accepts no connections.

use std::{fs, io, net::SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

use crate::settings::Settings;

/// Connections that the kernel holds before they are accepted: Redis' 511.
const BACKLOG: u32 = 511;

/// Why a port cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// It would be open to the network without a password.
    #[error("{0}")]
    Exposed(String),
    /// The system refuses it.
    #[error("cannot listen on {address} ({setting}): {message}")]
    Refused {
        /// Where.
        address: SocketAddr,
        /// The setting that asked for it.
        setting: &'static str,
        /// Why; names the process that holds a busy port.
        message: String,
    },
}

/// Checks that nobody beyond this machine gets in without authentication.
///
/// # Errors
/// Says which address is open, and the ways out.
pub fn check_exposure(settings: &Settings) -> Result<(), ListenError> {
    if settings.insecure {
        return Ok(());
    }
    let exposed = |message: String| Err(ListenError::Exposed(message));
    if !settings.resp.ip().is_loopback() && !settings.asks_who() {
        return exposed(format!(
            "resp.address {} is not loopback and there is no password: set resp.password_file, \
             resp.password or security.enabled, or pass --insecure",
            settings.resp
        ));
    }
    if !settings.http.ip().is_loopback() && !settings.asks_who() {
        return exposed(format!(
            "http.address {} is not loopback and there is no password: listen on loopback, set \
             resp.password or security.enabled, or pass --insecure",
            settings.http
        ));
    }
    if let Some(rpc) = settings.rpc
        && !rpc.ip().is_loopback()
        && settings.rpc_secret.is_none()
        && settings.rpc_tls.as_ref().is_none_or(|tls| tls.is_optional)
    {
        return exposed(format!(
            "rpc.address {rpc} is not loopback and there is no secret: set rpc.tls.mode to required, or \
             rpc.secret_file, alike in all nodes, or pass --insecure"
        ));
    }
    Ok(())
}

/// A port that is taken but not open yet: nobody can connect until it listens.
#[derive(Debug)]
pub struct Port {
    socket: TcpSocket,
    address: SocketAddr,
    setting: &'static str,
}

impl Port {
    /// Takes a port. To be called on an async runtime.
    ///
    /// # Errors
    /// Names the process that holds it, where that can be seen.
    pub fn take(address: SocketAddr, setting: &'static str) -> Result<Self, ListenError> {
        let socket = Self::bind(address).map_err(|error| refused(address, setting, &error))?;
        Ok(Self { socket, address, setting })
    }

    /// Where it is: the number that the system chose, where it was asked for any.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A node that restarts gets its port back at once.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    }

    /// Opens it to clients.
    ///
    /// # Errors
    /// Where another process opened it in between.
    pub fn listen(self) -> Result<TcpListener, ListenError> {
        let (address, setting) = (self.address, self.setting);
        self.socket.listen(BACKLOG).map_err(|error| refused(address, setting, &error))
    }
}

fn refused(address: SocketAddr, setting: &'static str, error: &io::Error) -> ListenError {
    let mut message = error.to_string();
    if error.kind() == io::ErrorKind::AddrInUse {
        message = match owner(address.port()) {
            Some(owner) => format!("the port is held by {owner}"),
            None => "the port is held by a process that this user cannot see".to_owned(),
        };
    }
    ListenError::Refused { address, setting, message }
}

/// The process that listens on a port: `pid 4242 (redis-server)`.
fn owner(port: u16) -> Option<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let inode = tables.iter().flatten().find_map(|table| listener_inode(table, port))?;
    let wanted = format!("socket:[{inode}]");
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().filter(|name| name.bytes().all(|b| b.is_ascii_digit()))
        else {
            continue;
        };
        // The files of another user's processes cannot be seen; those are passed over.
        let Ok(files) = fs::read_dir(process.path().join("fd")) else { continue };
        let holds = |file: fs::DirEntry| {
            fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == wanted.as_str())
        };
        if files.flatten().any(holds) {
            let command = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some(format!("pid {pid} ({})", command.trim()));
        }
    }
    None
}

/// The inode of the socket that listens on a port, in the kernel's table of sockets.
fn listener_inode(table: &str, port: u16) -> Option<u64> {
    /// The state of a socket that listens.
    const LISTENING: &str = "0A";
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, found) = fields.get(1)?.rsplit_once(':')?;
        let is_it = u16::from_str_radix(found, 16) == Ok(port) && fields.get(3) == Some(&LISTENING);
        is_it.then(|| fields.get(9)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Raw;

    fn settings(words: &[&str]) -> Settings {
        let mut raw = Raw::default();
        for word in words {
            raw.assignment(word).unwrap();
        }
        Settings::resolve(&raw).unwrap()
    }

    #[test]
    fn nothing_is_open_to_the_network_by_accident() {
        assert!(check_exposure(&settings(&[])).is_ok());
        let open = "resp.address=0.0.0.0:0";
        assert!(check_exposure(&settings(&[open])).unwrap_err().to_string().contains("--insecure"));
        assert!(check_exposure(&settings(&[open, "resp.password=x"])).is_ok());
        assert!(check_exposure(&settings(&[open, "node.insecure=true"])).is_ok());
        let http = "http.address=[::]:0";
        let refused = check_exposure(&settings(&[http])).unwrap_err().to_string();
        assert!(refused.contains("http.address"));
        assert!(check_exposure(&settings(&[http, "resp.password=x"])).is_ok());
        let rpc = "rpc.address=0.0.0.0:0";
        // What clients know lets no node in.
        let refused = check_exposure(&settings(&[rpc, "resp.password=x"])).unwrap_err().to_string();
        assert!(refused.contains("rpc.secret"), "{refused}");
        assert!(check_exposure(&settings(&[rpc, "rpc.secret=x"])).is_ok());
        assert!(check_exposure(&settings(&[rpc, "node.insecure=true"])).is_ok());
        assert!(check_exposure(&settings(&["rpc.address=127.0.0.1:0"])).is_ok());
    }

    #[tokio::test]
    async fn a_busy_port_is_reported_with_its_owner() {
        let any = "127.0.0.1:0".parse().unwrap();
        let held = Port::take(any, "resp.address").unwrap().listen().unwrap();
        let address = held.local_addr().unwrap();
        let refused = Port::take(address, "resp.address").unwrap_err().to_string();
        let pid = std::process::id();
        assert!(refused.contains(&format!("the port is held by pid {pid} (")), "{refused}");
        assert!(refused.contains("resp.address") && refused.contains(&address.to_string()));
    }
}
