//! A log that another process of this machine holds: `plimsoll://host:port`. The one with the
//! log is its [`Holder`]; every other opens a [`Shared`] one and uses it as its own.
//!
//! For development and the lab. It is as durable as the log that is held, and it is not fault
//! tolerant: without the process that holds it nobody writes, and nobody reads on.

mod frame;
mod holder;
mod reader;

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;

use self::frame::{FORMAT, Frame, Frames};
pub use self::holder::Holder;
use crate::{
    AppendDone, AppendError, Bounds, GroupId, Incarnation, Log, LogError, Lsn, RECORD_BYTES_MAX,
    Reader, Stats,
};

/// How long a holder has to let one in, and to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a holder that is gone is looked for.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(100);
/// Bytes of appends that may wait for their outcome; what comes beyond is refused.
const APPEND_BYTES_MAX: usize = 64 << 20;
/// Appends that may wait: fewer than the answers that a holder keeps, so that it never waits for
/// this side to read while this side waits for it.
const APPENDS_MAX: usize = 1 << 15;
/// Counted for an append beyond its record's bytes.
const APPEND_OVERHEAD_BYTES: usize = 128;

/// What a holder answers to anything but an append: two positions.
type Answer = Result<(Lsn, Lsn), LogError>;

/// A log that another process holds.
pub struct Shared {
    core: Arc<Core>,
}

struct Core {
    /// `host:port` of the holder.
    address: String,
    incarnation: Incarnation,
    groups: u16,
    state: Mutex<HolderLink>,
}

#[derive(Default)]
struct HolderLink {
    /// The way to the holder; `None` while it is gone.
    connection: Option<TcpStream>,
    last_number: u64,
    appends: HashMap<u64, (AppendDone, usize)>,
    append_bytes: usize,
    requests: HashMap<u64, SyncSender<Answer>>,
    is_closed: bool,
    /// Why the holder's log is not the one that was opened.
    fault: Option<String>,
}

impl Shared {
    /// Opens the log that the process at `address` (`plimsoll://host:port`, or `host:port`)
    /// holds, trying until `timeout`. Blocks.
    ///
    /// # Errors
    /// Where nobody holds a log there.
    pub fn open(address: &str, timeout: Duration) -> Result<Self, LogError> {
        let address = address.strip_prefix("plimsoll://").unwrap_or(address);
        let address = address.trim_end_matches('/').to_owned();
        let deadline = Instant::now() + timeout;
        let (connection, frames, welcome) = loop {
            match connect(&address) {
                Ok(connected) => break connected,
                Err(error) if Instant::now() >= deadline => {
                    return Err(LogError::Failed(format!(
                        "no log is shared at {address}: {error}"
                    )));
                }
                Err(_) => std::thread::sleep(RECONNECT_INTERVAL),
            }
        };
        let state = HolderLink { connection: Some(connection), ..HolderLink::default() };
        let core = Arc::new(Core {
            address,
            incarnation: welcome.0,
            groups: welcome.1,
            state: Mutex::new(state),
        });
        let listening = Arc::clone(&core);
        std::thread::Builder::new()
            .name("log-shared".to_owned())
            .spawn(move || listening.listen(frames))
            .map_err(|error| LogError::Failed(error.to_string()))?;
        Ok(Self { core })
    }

    /// How many groups the log has.
    #[must_use]
    pub fn groups(&self) -> u16 {
        self.core.groups
    }
}

/// Connects and hears whose log it is: incarnation and groups.
fn connect(address: &str) -> io::Result<(TcpStream, Frames<TcpStream>, (Incarnation, u16))> {
    let connection = TcpStream::connect(address)?;
    connection.set_nodelay(true)?;
    connection.set_read_timeout(Some(CONNECT_TIMEOUT))?;
    // A holder that is stopped does not read: what is under way then is unknown.
    connection.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    let mut frames = Frames::new(connection.try_clone()?);
    let Frame::Welcome { format, incarnation, groups } = frames.next()? else {
        return Err(io::Error::other("it does not hold a log"));
    };
    if format != FORMAT {
        return Err(io::Error::other(format!("it speaks format {format}, this one {FORMAT}")));
    }
    connection.set_read_timeout(None)?;
    Ok((connection, frames, (incarnation, groups)))
}

impl Core {
    fn gone(&self) -> String {
        format!("the process that holds the log, at {}, is gone", self.address)
    }

    /// Hears answers, and looks for the holder again where it is gone, until it is closed.
    fn listen(&self, mut frames: Frames<TcpStream>) {
        loop {
            while let Ok(frame) = frames.next() {
                self.hear(frame);
            }
            self.lose();
            frames = loop {
                if self.state.lock().is_closed {
                    return;
                }
                std::thread::sleep(RECONNECT_INTERVAL);
                let Ok((connection, frames, (incarnation, _))) = connect(&self.address) else {
                    continue;
                };
                let mut state = self.state.lock();
                if state.is_closed {
                    return;
                }
                if incarnation != self.incarnation {
                    state.fault = Some(format!(
                        "the process at {} holds log {incarnation} now, it was {}",
                        self.address, self.incarnation
                    ));
                    return;
                }
                state.connection = Some(connection);
                break frames;
            };
        }
    }

    fn hear(&self, frame: Frame) {
        match frame {
            Frame::Appended { number, outcome } => {
                let mut state = self.state.lock();
                let Some((done, bytes)) = state.appends.remove(&number) else { return };
                state.append_bytes -= bytes;
                drop(state);
                done(outcome);
            }
            Frame::Answer { number, first, last } => self.answered(number, Ok((first, last))),
            Frame::NoAnswer { number, reason } => {
                self.answered(number, Err(LogError::Failed(reason)));
            }
            _ => tracing::debug!("a holder does not say this"),
        }
    }

    fn answered(&self, number: u64, answer: Answer) {
        if let Some(asked) = self.state.lock().requests.remove(&number) {
            // Who asked may have given up.
            let _ = asked.try_send(answer);
        }
    }

    /// The holder is gone: what was on its way is unknown.
    fn lose(&self) {
        let mut state = self.state.lock();
        if let Some(connection) = state.connection.take() {
            let _ = connection.shutdown(Shutdown::Both);
        }
        let appends = std::mem::take(&mut state.appends);
        state.append_bytes = 0;
        state.requests.clear();
        drop(state);
        for (_, (done, _)) in appends {
            done(Err(AppendError::Unknown(self.gone())));
        }
    }

    fn request(&self, frame: impl FnOnce(u64) -> Frame) -> Answer {
        let (tell, told) = sync_channel(1);
        let failed = || LogError::Failed(self.gone());
        let mut state = self.state.lock();
        state.last_number += 1;
        let number = state.last_number;
        let connection = state.connection.as_mut().ok_or_else(failed)?;
        frame(number).write(connection).map_err(|_| failed())?;
        state.requests.insert(number, tell);
        drop(state);
        told.recv_timeout(ANSWER_TIMEOUT).unwrap_or_else(|_| Err(failed()))
    }

    /// Sends an append; gives it back with the outcome where that is clear at once.
    fn send(
        &self,
        group: GroupId,
        record: Bytes,
        done: AppendDone,
    ) -> Result<(), (AppendDone, AppendError)> {
        let bytes = record.len() + APPEND_OVERHEAD_BYTES;
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let is_full = state.appends.len() >= APPENDS_MAX
            || state.append_bytes > 0 && state.append_bytes + bytes > APPEND_BYTES_MAX;
        let refusal = if record.len() > RECORD_BYTES_MAX {
            Some(format!("a record of {} bytes is too large", record.len()))
        } else if is_full {
            Some(format!("{} appends wait for the log already", state.appends.len()))
        } else {
            state.fault.clone()
        };
        let connection = match (refusal, state.connection.as_mut()) {
            (Some(reason), _) => return Err((done, AppendError::Refused(reason))),
            (None, None) => return Err((done, AppendError::Refused(self.gone()))),
            (None, Some(connection)) => connection,
        };
        state.last_number += 1;
        let number = state.last_number;
        if (Frame::Append { number, group, record }).write(connection).is_err() {
            // A part of it may be there; the one that listens notices the end as well.
            let _ = connection.shutdown(Shutdown::Both);
            return Err((done, AppendError::Unknown(self.gone())));
        }
        state.append_bytes += bytes;
        state.appends.insert(number, (done, bytes));
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.core.state.lock().is_closed = true;
        self.core.lose();
    }
}

impl Log for Shared {
    fn incarnation(&self) -> Incarnation {
        self.core.incarnation
    }

    /// Where the outcome is clear at once, `done` is called before this returns.
    fn append(&self, group: GroupId, record: Bytes, done: AppendDone) {
        if let Err((done, error)) = self.core.send(group, record, done) {
            done(Err(error));
        }
    }

    /// Returns at once: that a position is no longer held is told by the reader's first call.
    fn read(&self, from: &[(GroupId, Lsn)]) -> Result<Box<dyn Reader>, LogError> {
        let (address, incarnation) = (self.core.address.clone(), self.core.incarnation);
        let reader = reader::begin(address, incarnation, from);
        reader.map_err(|error| LogError::Failed(error.to_string()))
    }

    fn bounds(&self, group: GroupId) -> Result<Bounds, LogError> {
        let (first, last) = self.core.request(|number| Frame::Bounds { number, group })?;
        Ok(Bounds { first, last })
    }

    fn trim(&self, group: GroupId, up_to: Lsn) -> Result<(), LogError> {
        self.core.request(|number| Frame::Trim { number, group, up_to }).map(|_| ())
    }

    /// It is the holder's to sync; what it gives to readers it has made as durable as it is set
    /// to.
    fn sync(&self) -> Result<(), LogError> {
        Ok(())
    }

    fn health(&self) -> Result<(), LogError> {
        let state = self.core.state.lock();
        match (&state.fault, &state.connection) {
            (Some(fault), _) => Err(LogError::Failed(fault.clone())),
            (None, None) => Err(LogError::Failed(self.core.gone())),
            (None, Some(_)) => Ok(()),
        }
    }

    fn stats(&self) -> Stats {
        let state = self.core.state.lock();
        Stats {
            queue_length: state.appends.len(),
            queue_bytes: state.append_bytes,
            stopped: state.fault.clone(),
            ..Stats::default()
        }
    }
}
