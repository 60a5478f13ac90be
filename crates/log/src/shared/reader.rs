//! An ordered read over a connection of its own. Where the holder is gone it waits for it to come
//! back, and goes on where it was.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::frame::{Frame, Frames};
use crate::{Entry, GroupId, Incarnation, LogError, Lsn, Reader, Wake};

/// A holder says something this often, even if nothing is appended; after as long as this
/// without a word it is gone.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// How often a holder that is gone is looked for.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(100);
/// How soon a reader that waits for its holder notices that it was woken.
const WAKE_INTERVAL: Duration = Duration::from_millis(50);

/// A reader of a shared log.
pub(super) struct RemoteReader {
    address: String,
    incarnation: Incarnation,
    /// The next position of each group.
    positions: Vec<(GroupId, Lsn)>,
    stream: Option<(TcpStream, Frames<TcpStream>)>,
    heard: Instant,
    /// It is to wait no longer.
    is_woken: Arc<AtomicBool>,
}

impl RemoteReader {
    /// A reader from these positions on.
    pub fn new(address: String, incarnation: Incarnation, from: &[(GroupId, Lsn)]) -> Self {
        let positions = from.to_vec();
        let (stream, heard, is_woken) = (None, Instant::now(), Arc::default());
        Self { address, incarnation, positions, stream, heard, is_woken }
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
        if (Frame::Read { from }).write(&mut connection).is_err() {
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
                if left.is_zero() || self.is_woken.swap(false, Ordering::Relaxed) {
                    return Ok(None);
                }
                std::thread::sleep(RECONNECT_INTERVAL.min(left));
                continue;
            }
            let Some((connection, frames)) = &mut self.stream else { continue };
            // 0 would be without a limit.
            let timeout = left.clamp(Duration::from_millis(1), WAKE_INTERVAL);
            let frame = connection.set_read_timeout(Some(timeout)).and_then(|()| frames.next());
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
            if Instant::now() >= deadline || self.is_woken.swap(false, Ordering::Relaxed) {
                return Ok(None);
            }
        }
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
        let is_woken = Arc::clone(&self.is_woken);
        Arc::new(move || is_woken.store(true, Ordering::Relaxed))
    }
}
