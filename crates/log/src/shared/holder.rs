//! The process that holds the log: it lets others on the same machine append to it and read it.
//! One thread accepts, and each connection has two: one that obeys and one that answers.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::BytesMut;
use parking_lot::{Condvar, Mutex};

use super::frame::{FORMAT, Frame, Frames};
use crate::{GroupId, Log, LogError, Lsn};

/// Connections at once: one for each process, and one for each group that it reads.
const CONNECTIONS_MAX: usize = 1024;
/// Answers that may wait for one client, those to come for what is being appended included.
const ANSWERS_MAX: usize = 1 << 16;
/// Bytes read from the log at once, and how often a reader without news says that it lives.
const READ_BYTES_MAX: usize = 1 << 20;
const IDLE_INTERVAL: Duration = Duration::from_millis(500);
/// How long one write to a client that does not read may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Shares a log with other processes of this machine. Dropping it lets go of them.
pub struct Holder {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// `None` only while it is dropped.
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    log: Arc<dyn Log>,
    groups: u16,
    is_closed: AtomicBool,
    connections: Mutex<Vec<(TcpStream, JoinHandle<()>)>>,
}

impl Holder {
    /// Listens at `address` for others that want to share `log`, which has `groups` groups. It
    /// asks nobody who they are, so the address must be a loopback one.
    ///
    /// # Errors
    /// Where the address is not a loopback one, or in use.
    pub fn start(log: Arc<dyn Log>, groups: u16, address: SocketAddr) -> Result<Self, LogError> {
        let failed = |error: io::Error| {
            LogError::Failed(format!("the log cannot be shared at {address}: {error}"))
        };
        if !address.ip().is_loopback() {
            return Err(LogError::Failed(format!("{address} is no address of this machine alone")));
        }
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let connections = Mutex::default();
        let shared =
            Arc::new(Shared { log, groups, is_closed: AtomicBool::new(false), connections });
        let own = Arc::clone(&shared);
        let accepting = spawn("log-share", move || accept(&own, &listener)).map_err(failed)?;
        Ok(Self { address, shared, accepting: Some(accepting) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Holder {
    /// Blocks until nobody uses the log through it any more.
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Release);
        // The thread that accepts looks up at the next connection, which is this one.
        let _ = TcpStream::connect(self.address);
        let accepting = self.accepting.take();
        if accepting.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that shares the log panicked");
        }
        let connections = std::mem::take(&mut *self.shared.connections.lock());
        for (connection, _) in &connections {
            let _ = connection.shutdown(Shutdown::Both);
        }
        for (_, thread) in connections {
            if thread.join().is_err() {
                tracing::error!("a thread that shares the log panicked");
            }
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    for connection in listener.incoming() {
        if shared.is_closed.load(Ordering::Acquire) {
            return;
        }
        let begun = connection.and_then(|connection| begin(shared, connection));
        if let Err(error) = begun {
            tracing::warn!(%error, "a process cannot share the log");
        }
    }
}

fn begin(shared: &Arc<Shared>, connection: TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    connection.set_write_timeout(Some(WRITE_TIMEOUT))?;
    let kept = connection.try_clone()?;
    let mut connections = shared.connections.lock();
    connections.retain(|(_, thread)| !thread.is_finished());
    if connections.len() >= CONNECTIONS_MAX {
        return Err(io::Error::other(format!("there are {CONNECTIONS_MAX} connections already")));
    }
    let shared = Arc::clone(shared);
    let thread = spawn("log-share", move || {
        if let Err(error) = serve(&shared, &connection)
            && error.kind() != io::ErrorKind::UnexpectedEof
        {
            tracing::debug!(%error, "a process that shared the log is gone");
        }
        let _ = connection.shutdown(Shutdown::Both);
    })?;
    connections.push((kept, thread));
    Ok(())
}

/// Obeys a client until it is gone.
fn serve(shared: &Shared, connection: &TcpStream) -> io::Result<()> {
    let mut out = connection.try_clone()?;
    let incarnation = shared.log.incarnation();
    Frame::Welcome { format: FORMAT, incarnation, groups: shared.groups }.write(&mut out)?;
    let answers = Arc::new(Answers::default());
    let answering = Arc::clone(&answers);
    let mut answering_out = connection.try_clone()?;
    let sending = spawn("log-share", move || {
        if answering.send(&mut answering_out).is_err() {
            let _ = answering_out.shutdown(Shutdown::Both);
        }
    })?;
    let obeyed = obey(shared, connection, &answers);
    answers.close();
    if sending.join().is_err() {
        tracing::error!("a thread that answers for the log panicked");
    }
    obeyed
}

fn obey(shared: &Shared, connection: &TcpStream, answers: &Arc<Answers>) -> io::Result<()> {
    let mut frames = Frames::new(connection.try_clone()?);
    loop {
        match frames.next()? {
            Frame::Append { number, group, record } => {
                answers.reserve()?;
                let answers = Arc::clone(answers);
                let done =
                    move |outcome| answers.push_reserved(Frame::Appended { number, outcome });
                shared.log.append(group, record, Box::new(done));
            }
            Frame::Bounds { number, group } => {
                let bounds = shared.log.bounds(group);
                answers.answer(number, bounds.map(|bounds| (bounds.first, bounds.last)))?;
            }
            Frame::Trim { number, group, up_to } => {
                let trimmed = shared.log.trim(group, up_to);
                answers.answer(number, trimmed.map(|()| (Lsn(0), Lsn(0))))?;
            }
            Frame::Read { from } => return stream(shared, connection, &from),
            _ => return Err(io::Error::other("a client does not say this")),
        }
    }
}

/// Sends entries until the client is gone. Where it does not read, nor does this.
fn stream(shared: &Shared, connection: &TcpStream, from: &[(GroupId, Lsn)]) -> io::Result<()> {
    let mut out = connection.try_clone()?;
    let mut reader = match shared.log.read(from) {
        Ok(reader) => reader,
        Err(error) => return Frame::Failed(error).write(&mut out),
    };
    let (mut entries, mut bytes) = (Vec::new(), BytesMut::new());
    while !shared.is_closed.load(Ordering::Acquire) {
        if let Err(error) = reader.next(&mut entries, READ_BYTES_MAX, IDLE_INTERVAL) {
            return Frame::Failed(error).write(&mut out);
        }
        if entries.is_empty() {
            Frame::Idle.encode(&mut bytes);
        }
        entries.drain(..).for_each(|entry| Frame::Entry(entry).encode(&mut bytes));
        out.write_all(&bytes)?;
        bytes.clear();
    }
    Ok(())
}

/// Answers on their way to one client.
#[derive(Default)]
struct Answers {
    state: Mutex<AnswerQueue>,
    changed: Condvar,
}

#[derive(Default)]
struct AnswerQueue {
    frames: VecDeque<Frame>,
    /// Appends whose outcome is not known yet.
    reserved: usize,
    is_closed: bool,
}

impl Answers {
    /// Waits for room for one more answer: the outcome of an append comes on a thread of the
    /// log's, which must not wait.
    fn reserve(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        while state.frames.len() + state.reserved >= ANSWERS_MAX {
            if state.is_closed {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            self.changed.wait(&mut state);
        }
        state.reserved += 1;
        Ok(())
    }

    fn push_reserved(&self, frame: Frame) {
        let mut state = self.state.lock();
        state.reserved -= 1;
        if !state.is_closed {
            state.frames.push_back(frame);
        }
        drop(state);
        self.changed.notify_all();
    }

    fn answer(&self, number: u64, result: Result<(Lsn, Lsn), LogError>) -> io::Result<()> {
        self.reserve()?;
        self.push_reserved(match result {
            Ok((first, last)) => Frame::Answer { number, first, last },
            Err(error) => Frame::NoAnswer { number, reason: error.to_string() },
        });
        Ok(())
    }

    fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Sends answers until the client is gone.
    fn send(&self, out: &mut impl Write) -> io::Result<()> {
        let mut bytes = BytesMut::new();
        loop {
            let mut state = self.state.lock();
            while state.frames.is_empty() {
                if state.is_closed {
                    return Ok(());
                }
                self.changed.wait(&mut state);
            }
            state.frames.drain(..).for_each(|frame| frame.encode(&mut bytes));
            drop(state);
            self.changed.notify_all();
            if let Err(error) = out.write_all(&bytes) {
                self.close();
                return Err(error);
            }
            bytes.clear();
        }
    }
}
