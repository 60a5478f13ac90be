//! One client's connection: a task that reads what is there, runs all whole commands in order,
//! and writes all their replies at once.
//!
//! Back-pressure: nothing more is read while replies wait to be written, and a long batch stops
//! to write when its replies pass [`OUTPUT_BYTES_HIGH`].

mod dispatch;
pub mod permission;
mod room;
pub mod state;
pub mod transaction;

use std::{
    io,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use bytes::{Buf, BytesMut};
use plimsoll_cluster::{ClientSession, Request};
use plimsoll_storage::{Argv, ErrorKind, ErrorReply, Reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, sleep_until};

use self::room::Room;
use self::state::ConnectionState;
use crate::{
    clients::{Client, Noted},
    commands::Entry,
    linger::linger,
    logins::stranger_pause,
    node::Shared,
    resp::{Decoder, Limits},
    rest::body::Held,
    tls::stream::Stream,
};

/// The most commands that are decoded before they run.
const BATCH_COMMANDS_MAX: usize = 1024;
/// Bytes asked of the socket at first, and at most, at once. The buffer grows while reads fill
/// it, so that an idle connection holds little.
const READ_BYTES_MIN: usize = 4 * 1024;
const READ_BYTES_MAX: usize = 256 * 1024;
/// What a connection may hold of requests that have not come whole without asking for it, bytes.
const FREE_BYTES: usize = 64 * 1024;
/// How long a connection has to log in, where clients need a password: as long as for a handshake of TLS.
const LOGIN_TIME: Duration = Duration::from_secs(10);
/// Replies are written before more commands run when they take this much. No request's account holds it.
const OUTPUT_BYTES_HIGH: usize = 128 * 1024;
/// How soon a client that does not read a large answer is looked at again.
const LARGE_ANSWER_PAUSE: Duration = Duration::from_millis(100);
/// A buffer that grew beyond this is let go once it is empty.
const BUFFER_BYTES_KEPT: usize = 256 * 1024;

/// A connection and its task's memory.
pub struct Connection {
    stream: Stream,
    state: ConnectionState,
    session: ClientSession,
    input: BytesMut,
    decoder: Decoder,
    /// What requests that have not come whole or wait for EXEC hold beyond [`FREE_BYTES`].
    held: Held,
    commands: Vec<Argv>,
    /// Row commands that run together, what is known of each, and their replies.
    requests: Vec<Request>,
    entries: Vec<&'static Entry>,
    row_replies: Vec<Reply>,
    /// How many of them may run together, by the size of recent replies.
    run_max: usize,
    read_bytes: usize,
    room: Room,
    last_command: Option<usize>,
    /// Commands answered before it logged in.
    answered_stranger: u32,
    /// Since when it has not logged in, or is again as if it had just connected.
    stranger_since: Option<Instant>,
}

/// The end of a connection that nobody has to hear of.
enum End {
    /// The client or the network ended it.
    Gone,
    /// Someone told it to end.
    Killed,
}

impl Connection {
    /// A connection that was just accepted.
    #[must_use]
    pub fn new(stream: Stream, shared: Arc<Shared>, client: Arc<Client>) -> Self {
        let session = shared.coordinator.session();
        let held = Held::new(Arc::clone(&shared.in_flight));
        let room = Room::new(shared.time.clone());
        Self {
            stream,
            state: ConnectionState::new(shared, client),
            session,
            input: BytesMut::new(),
            decoder: Decoder::default(),
            held,
            commands: Vec::new(),
            requests: Vec::new(),
            entries: Vec::new(),
            row_replies: Vec::new(),
            run_max: dispatch::RUN_COMMANDS_FIRST,
            read_bytes: READ_BYTES_MIN,
            room,
            last_command: None,
            answered_stranger: 0,
            stranger_since: None,
        }
    }

    /// Serves the client until either side ends it.
    pub async fn serve(mut self) {
        let why = match self.run().await {
            Ok(()) => "closed",
            Err(End::Gone) => "gone",
            Err(End::Killed) => "told to end",
        };
        let client = &self.state.client;
        tracing::debug!(client = client.id, remote = %client.remote, why, "connection ended");
    }

    async fn run(&mut self) -> Result<(), End> {
        loop {
            if self.is_late() {
                self.refuse_late();
                self.flush().await?;
                return self.close().await;
            }
            let (limits, commands_max) = if self.state.is_authenticated() {
                (Limits::FULL, BATCH_COMMANDS_MAX)
            } else {
                // One at a time, because AUTH changes the limits for what comes after it.
                (Limits::UNAUTHENTICATED, 1)
            };
            let mut commands = std::mem::take(&mut self.commands);
            let decoded =
                self.decoder.decode(&mut self.input, &limits, commands_max, &mut commands);
            let had_commands = !commands.is_empty();
            if had_commands {
                self.run_batch(&mut commands).await?;
            }
            self.commands = commands;
            if let Err(error) = decoded {
                let error = ErrorReply::err(error.to_string());
                tracing::debug!(client = self.state.client.id, %error, "not the protocol");
                self.state.shared.usage.rejected(None, &error);
                self.state.protocol.error(&mut self.state.output, &error);
                self.state.is_closing = true;
            }
            self.flush().await?;
            if self.state.is_closing {
                return self.close().await;
            }
            if self.state.client.is_killed() {
                return Err(End::Killed);
            }
            if !had_commands {
                self.read().await?;
            } else if !self.state.is_authenticated() {
                self.pause_stranger().await?;
            }
        }
    }

    /// Ends the connection; the client reads the last words before it sees the end.
    async fn close(&mut self) -> Result<(), End> {
        (self.input, self.state.output) = (BytesMut::new(), BytesMut::new());
        tokio::select! {
            biased;
            () = linger(&mut self.stream) => Ok(()),
            () = self.state.client.killed() => Err(End::Killed),
        }
    }

    /// Whether it has taken too long to log in.
    fn is_late(&mut self) -> bool {
        if self.state.is_authenticated() {
            self.state.client.know();
            self.stranger_since = None;
            return false;
        }
        self.stranger_since.get_or_insert_with(Instant::now).elapsed() >= LOGIN_TIME
    }

    /// Holds up who goes on without logging in.
    async fn pause_stranger(&mut self) -> Result<(), End> {
        self.answered_stranger = self.answered_stranger.saturating_add(1);
        let Some(pause) = stranger_pause(self.answered_stranger) else { return Ok(()) };
        tokio::select! {
            biased;
            () = self.state.client.killed() => Err(End::Killed),
            () = sleep(pause) => Ok(()),
        }
    }

    /// Runs commands, and notes what others may see of it.
    async fn run_batch(&mut self, commands: &mut Vec<Argv>) -> Result<(), End> {
        self.state.follow_users();
        for argv in commands.drain(..) {
            if self.state.is_closing {
                break;
            }
            self.dispatch(argv).await?;
        }
        self.run_rows().await?;
        let state = &self.state;
        state.client.note(
            Instant::now(),
            Noted {
                db: state.db,
                protocol: state.protocol.number(),
                queued: state.transaction.queued(),
                command: self.last_command,
            },
        );
        Ok(())
    }

    /// Makes room for the next bytes, and asks for it where it is much: where there is none, the
    /// request that is coming is refused, and passed over as it comes.
    fn make_room(&mut self) {
        let is_small = !self.state.is_authenticated() || self.decoder.is_passing_over();
        let missing = self.decoder.missing(&self.input);
        let wanted = match is_small {
            true => READ_BYTES_MIN,
            false => self.read_bytes.max(missing.min(READ_BYTES_MAX)),
        };
        let (len, capacity) = (self.input.len(), self.input.capacity());
        let mut next = capacity;
        if capacity - len < wanted {
            // As much again by half, so that a large value is not copied often; and no more than it
            // takes, so that a header costs nothing.
            let grown = if is_small { 0 } else { (len / 2).min(missing) };
            next = len + wanted.max(grown);
        }
        let queued = self.state.transaction.queued_bytes();
        let charged = |buffer: usize| buffer.saturating_sub(FREE_BYTES) + queued;
        if let Err(error) = self.held.resize(charged(next)) {
            if self.decoder.refuse(ErrorReply::new(ErrorKind::OutOfMemory, error.reason)) {
                // Drops what has come of it. What is wrong with the rest is found again later.
                let _ = self.decoder.decode(&mut self.input, &Limits::FULL, 1, &mut self.commands);
            }
            next = self.input.len() + READ_BYTES_MIN;
            // What is left fits in what is free.
            let _ = self.held.resize(charged(next));
        }
        if next == capacity {
            return;
        }
        if self.input.len() < READ_BYTES_MIN && next >= capacity {
            // Takes the same buffer again where nothing refers to it any more.
            self.input.reserve(next - self.input.len());
            return;
        }
        let mut moved = BytesMut::with_capacity(next);
        moved.extend_from_slice(&self.input);
        self.input = moved;
    }

    /// Waits for bytes.
    async fn read(&mut self) -> Result<(), End> {
        if self.state.client.take_users_changed() {
            // Who is nobody by now has as long to log in as who has just connected.
            self.state.follow_users();
            return Ok(());
        }
        self.make_room();
        let room = self.input.capacity() - self.input.len();
        let login_by = self.stranger_since.map(|since| since + LOGIN_TIME);
        let late = async {
            match login_by {
                Some(at) => sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        let read = tokio::select! {
            biased;
            read = self.stream.read_buf(&mut self.input) => read,
            () = self.state.client.woken() => return match self.state.client.is_killed() {
                true => Err(End::Killed),
                false => Ok(()),
            },
            () = late, if login_by.is_some() => return Ok(()),
        };
        let read = gone(read)?;
        if read == 0 {
            return Err(End::Gone);
        }
        self.state.shared.usage.bytes_in.fetch_add(read as u64, Relaxed);
        if read == room {
            self.read_bytes = (self.read_bytes * 2).min(READ_BYTES_MAX);
        } else if read < self.read_bytes / 4 {
            self.read_bytes = (self.read_bytes / 2).max(READ_BYTES_MIN);
        }
        Ok(())
    }

    /// Says why a connection ends that took too long to log in.
    fn refuse_late(&mut self) {
        let words = "Authentication required: there was no login within 10 s.";
        let error = ErrorReply::named("NOAUTH", words);
        self.state.shared.usage.rejected(None, &error);
        self.state.protocol.error(&mut self.state.output, &error);
    }

    /// Writes all replies that wait. A client that does not read them is cut off when it is told
    /// to end, unless that is because the node stops: then it has until the node does.
    async fn flush(&mut self) -> Result<(), End> {
        let len = self.state.output.len();
        // What is written through TLS may wait in a buffer there.
        let mut is_flushed = len == 0 || !self.stream.is_tls();
        while self.state.output.has_remaining() || !is_flushed {
            let (has_large, is_given_up) = self.session.answers_held();
            if is_given_up {
                tracing::warn!(
                    client = self.state.client.id,
                    "a breaker needs the memory of an answer that is not read; connection closed"
                );
                return Err(End::Killed);
            }
            let is_draining = self.state.shared.is_draining();
            // Not `write_buf`: there is one piece, and the gathering call costs more for it.
            let written = tokio::select! {
                biased;
                written = push(&mut self.stream, &self.state.output) => gone(written)?,
                () = self.state.client.killed(), if !is_draining => {
                    if self.state.shared.is_draining() {
                        continue;
                    }
                    return Err(End::Killed);
                }
                () = async { sleep(LARGE_ANSWER_PAUSE).await }, if has_large => continue,
            };
            is_flushed |= !self.state.output.has_remaining();
            self.state.output.advance(written);
        }
        self.state.shared.usage.bytes_out.fetch_add(len as u64, Relaxed);
        if len > BUFFER_BYTES_KEPT {
            self.state.output = BytesMut::new();
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.state.shared.clients.remove(&self.state.client);
    }
}

/// Writes some of the bytes, or, where there are none, sends what waits to be sent.
async fn push(stream: &mut Stream, bytes: &[u8]) -> io::Result<usize> {
    match bytes {
        [] => stream.flush().await.map(|()| 0),
        bytes => stream.write(bytes).await,
    }
}

fn gone<T>(outcome: io::Result<T>) -> Result<T, End> {
    outcome.map_err(|_| End::Gone)
}
