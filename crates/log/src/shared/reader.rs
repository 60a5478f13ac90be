//! An ordered read over a connection of its own. Where the holder is gone it waits for it to come
//! back, and goes on where it was. It waits for the connection and for its waker at once.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::frame::{Frame, Frames};
use crate::{Entry, GroupId, Incarnation, LogError, Lsn, Reader, Wake};

/// A holder says something this often, even if nothing is appended; after as long as this
/// without a word it is gone.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// How often a holder that is gone is looked for.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(100);
/// How long the rest of a frame may take before the reader looks whether it was woken.
const FRAME_TIMEOUT: Duration = Duration::from_millis(50);

/// A reader of a shared log.
pub(super) struct RemoteReader {
    address: String,
    incarnation: Incarnation,
    /// The next position of each group.
    positions: Vec<(GroupId, Lsn)>,
    stream: Option<(TcpStream, Frames<TcpStream>)>,
    heard: Instant,
    /// A byte comes here where it is to wait no longer; the other end is its wakers'.
    rung: UnixStream,
    bell: Arc<UnixStream>,
}

impl RemoteReader {
    /// A reader from these positions on.
    ///
    /// # Errors
    /// Where the process has no files left.
    pub fn new(
        address: String,
        incarnation: Incarnation,
        from: &[(GroupId, Lsn)],
    ) -> io::Result<Self> {
        let (rung, bell) = UnixStream::pair()?;
        rung.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        let (positions, stream, heard, bell) =
            (from.to_vec(), None, Instant::now(), Arc::new(bell));
        Ok(Self { address, incarnation, positions, stream, heard, rung, bell })
    }

    fn connect(&mut self) -> Result<bool, LogError> {
        let Ok((mut connection, frames, (incarnation, _))) = super::connect(&self.address) else {
            return Ok(false);
        };
        if incarnation != self.incarnation {
            return Err(LogError::Damaged(format!(
                "the process at {} holds log {incarnation} now, it was {}",
                self.address, self.incarnation
            )));
        }
        let from = self.positions.clone();
        let has_timeout = connection.set_read_timeout(Some(FRAME_TIMEOUT));
        if has_timeout.and_then(|()| Frame::Read { from }.write(&mut connection)).is_err() {
            return Ok(false);
        }
        self.stream = Some((connection, frames));
        self.heard = Instant::now();
        Ok(true)
    }

    /// The next entry; nothing where there is none until `deadline`, or it was woken.
    fn next_entry(&mut self, deadline: Instant) -> Result<Option<Entry>, LogError> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.stream.is_none() && !self.connect()? {
                if left.is_zero() || self.was_woken() {
                    return Ok(None);
                }
                std::thread::sleep(RECONNECT_INTERVAL.min(left));
                continue;
            }
            if let Some(entry) = self.buffered_entry()? {
                return Ok(Some(entry));
            }
            let Some((connection, _)) = &self.stream else { continue };
            let is_readable = self.wait(connection, left);
            if self.was_woken() {
                return Ok(None);
            }
            let Some((_, frames)) = &mut self.stream else { continue };
            let frame =
                if is_readable { frames.next() } else { Err(io::ErrorKind::TimedOut.into()) };
            match frame {
                Ok(frame) => {
                    self.heard = Instant::now();
                    if let Some(entry) = self.take(frame)? {
                        return Ok(Some(entry));
                    }
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    if self.heard.elapsed() > SILENCE_MAX {
                        self.stream = None;
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "the process that holds the log is gone");
                    self.stream = None;
                }
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
        }
    }

    /// Waits until the connection has something, up to `timeout` or until it is woken. Says whether it has.
    fn wait(&self, connection: &TcpStream, timeout: Duration) -> bool {
        let timeout = Timespec::try_from(timeout).ok();
        let mut waits =
            [PollFd::new(connection, PollFlags::IN), PollFd::new(&self.rung, PollFlags::IN)];
        // Where the system cannot wait, the connection is asked.
        poll(&mut waits, timeout.as_ref()).is_err() || !waits[0].revents().is_empty()
    }

    fn was_woken(&self) -> bool {
        (&self.rung).read(&mut [0; 64]).is_ok_and(|count| count > 0)
    }

    /// An entry that is here already.
    fn buffered_entry(&mut self) -> Result<Option<Entry>, LogError> {
        loop {
            let Some((_, frames)) = &mut self.stream else { return Ok(None) };
            let Ok(Some(frame)) = frames.buffered() else { return Ok(None) };
            if let Some(entry) = self.take(frame)? {
                return Ok(Some(entry));
            }
        }
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
            Frame::Failed(failure) => {
                self.stream = None;
                Err(failure.into())
            }
            _ => Ok(None),
        }
    }
}

impl Reader for RemoteReader {
    fn next(
        &mut self,
        entries: &mut Vec<Entry>,
        bytes_max: usize,
        timeout: Duration,
    ) -> Result<(), LogError> {
        let Some(first) = self.next_entry(Instant::now() + timeout)? else { return Ok(()) };
        let mut bytes_left = bytes_max.saturating_sub(first.record.len().max(1));
        entries.push(first);
        while bytes_left > 0
            && let Some(entry) = self.buffered_entry()?
        {
            bytes_left = bytes_left.saturating_sub(entry.record.len().max(1));
            entries.push(entry);
        }
        Ok(())
    }

    fn waker(&self) -> Wake {
        let bell = Arc::clone(&self.bell);
        Arc::new(move || {
            // One that is full has rung.
            let _ = (&*bell).write(&[1]);
        })
    }
}
