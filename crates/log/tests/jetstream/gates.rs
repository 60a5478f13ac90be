//! Gates between servers: every connection from one to another goes through one, so that servers
//! can be cut off from each other and not from their clients.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

/// A gate from one server to another.
pub struct Gate {
    pub from: usize,
    pub to: usize,
    pub port: u16,
    passing: Arc<Mutex<Passing>>,
}

#[derive(Default)]
struct Passing {
    is_closed: bool,
    connections: Vec<TcpStream>,
}

impl Gate {
    /// A gate to the server that listens at `target`.
    pub fn new(from: usize, to: usize, target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let passing: Arc<Mutex<Passing>> = Arc::default();
        let shared = Arc::clone(&passing);
        // It ends with the process of the test.
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                // A server that is down, or a gate that is closed: the other side tries again.
                let _ = pass(&shared, &connection, target);
            }
        });
        Self { from, to, port, passing }
    }

    /// Cuts what passes, and lets nothing through.
    pub fn close(&self) {
        let mut passing = self.passing.lock();
        passing.is_closed = true;
        for connection in passing.connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    pub fn open(&self) {
        self.passing.lock().is_closed = false;
    }
}

/// Lets a connection through.
fn pass(shared: &Mutex<Passing>, connection: &TcpStream, target: u16) -> io::Result<()> {
    let mut passing = shared.lock();
    if passing.is_closed {
        return connection.shutdown(Shutdown::Both);
    }
    let onward = TcpStream::connect(("127.0.0.1", target))?;
    for (from, to) in [(connection, &onward), (&onward, connection)] {
        let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
        std::thread::spawn(move || {
            // However it ends, both directions end.
            let _ = io::copy(&mut from, &mut to);
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
    passing.connections.push(connection.try_clone()?);
    passing.connections.push(onward);
    Ok(())
}
