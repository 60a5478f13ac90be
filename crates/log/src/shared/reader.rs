//! An ordered read over a connection of its own, on a thread that fills the reader's buffer. Where the holder
//! is gone it waits for it to come back, and goes on where it was.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use plimsoll_base::Tasks;
use plimsoll_base::tasks::parked::Patience;

use super::frame::{Frame, Frames};
use crate::buffer::{Buffer, BufferReader};
use crate::{Entry, GroupId, Incarnation, LogError, Lsn, Reader};

/// A holder says something this often, even if nothing is appended; after as long as this
/// without a word it is gone.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// How often a holder that is gone is looked for.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(100);

/// Begins a reader from these positions on.
///
/// # Errors
/// Where the process has no thread left.
pub(super) fn begin(
    address: String,
    incarnation: Incarnation,
    from: &[(GroupId, Lsn)],
) -> io::Result<Box<dyn Reader>> {
    let (buffer, connection) = (Arc::<Buffer>::default(), Arc::<Connection>::default());
    let reading = Reading {
        address,
        incarnation,
        positions: from.to_vec(),
        buffer: Arc::clone(&buffer),
        connection: Arc::clone(&connection),
    };
    // It ends with the reader, and blocks its thread.
    Tasks::of_the_machine().role("log-read", |_| async move { reading.run() })?;
    Ok(Box::new(BufferReader::new(buffer, Cut(connection))))
}

/// The connection that is read.
type Connection = Mutex<Option<TcpStream>>;

/// Ends the read of a connection with the reader.
struct Cut(Arc<Connection>);

impl Drop for Cut {
    fn drop(&mut self) {
        if let Some(connection) = self.0.lock().take() {
            // One that is gone has ended.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

/// What the thread reads.
struct Reading {
    address: String,
    incarnation: Incarnation,
    /// The next position of each group.
    positions: Vec<(GroupId, Lsn)>,
    buffer: Arc<Buffer>,
    connection: Arc<Connection>,
}

impl Reading {
    fn run(mut self) {
        while !self.buffer.is_closed() {
            match self.read_on() {
                Ok(()) => std::thread::sleep(RECONNECT_INTERVAL),
                Err(error) => return self.buffer.fail(error),
            }
        }
    }

    /// Reads until the holder is gone.
    ///
    /// # Errors
    /// Why nothing will come any more.
    fn read_on(&mut self) -> Result<(), LogError> {
        let Some(mut frames) = self.connect()? else { return Ok(()) };
        let mut heard = Instant::now();
        while !self.buffer.is_closed() {
            match frames.next() {
                Ok(frame) => {
                    heard = Instant::now();
                    if let Some(entry) = self.take(frame)? {
                        Patience::without_end()
                            .wait(|context| self.buffer.poll_room(entry.group, context));
                        self.buffer.push(entry);
                    }
                }
                Err(error) if heard.elapsed() < SILENCE_MAX && is_late(&error) => {}
                Err(error) => {
                    tracing::debug!(%error, "the process that holds the log is gone");
                    break;
                }
            }
        }
        self.connection.lock().take();
        Ok(())
    }

    fn connect(&self) -> Result<Option<Frames<TcpStream>>, LogError> {
        let Ok((mut connection, frames, (incarnation, _))) = super::connect(&self.address) else {
            return Ok(None);
        };
        if incarnation != self.incarnation {
            return Err(LogError::Damaged(format!(
                "the process at {} holds log {incarnation} now, it was {}",
                self.address, self.incarnation
            )));
        }
        let from = self.positions.clone();
        let asked = connection.set_read_timeout(Some(SILENCE_MAX));
        if asked.and_then(|()| Frame::Read { from }.write(&mut connection)).is_err() {
            return Ok(None);
        }
        *self.connection.lock() = Some(connection);
        Ok(Some(frames))
    }

    fn take(&mut self, frame: Frame) -> Result<Option<Entry>, LogError> {
        match frame {
            Frame::Entry(entry) => {
                let unexpected = || {
                    LogError::Damaged(format!(
                        "the process at {} sends position {} of group {}, which is not next",
                        self.address, entry.lsn, entry.group
                    ))
                };
                let at = self.positions.iter().position(|(group, _)| *group == entry.group);
                let at = at.ok_or_else(unexpected)?;
                if entry.lsn < self.positions[at].1 {
                    return Err(unexpected());
                }
                self.positions[at].1 = entry.lsn.next();
                Ok(Some(entry))
            }
            Frame::Failed(failure) => Err(failure),
            _ => Ok(None),
        }
    }
}

/// Whether only nothing came in time.
fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
