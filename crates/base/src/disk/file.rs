//! A file that is open.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::simulated::OpenFile;

/// A file that is open. Where in it is read or written is said each time. It can be read and written until it
/// is dropped, whatever becomes of its names.
pub struct DiskFile(pub(super) Opened);

pub(super) enum Opened {
    Machine(File),
    Simulated(OpenFile),
}

impl DiskFile {
    /// Reads what is there from `offset` on, up to the length of `buffer`; says how many bytes that was, 0 at
    /// the end.
    ///
    /// # Errors
    /// Whatever the disk says.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.0 {
            Opened::Machine(file) => file.read_at(buffer, offset),
            Opened::Simulated(file) => file.read_at(buffer, offset),
        }
    }

    /// Fills `buffer` with what is there from `offset` on.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] where that is less; whatever the disk says.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match &self.0 {
            Opened::Machine(file) => file.read_exact_at(buffer, offset),
            Opened::Simulated(file) if file.read_at(buffer, offset)? < buffer.len() => {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            Opened::Simulated(_) => Ok(()),
        }
    }

    /// Writes at `offset`, in the place of what was there; the file is as long as it has to be then. It is not
    /// durable before it is synced.
    ///
    /// # Errors
    /// Whatever the disk says. A part may be written then.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match &self.0 {
            Opened::Machine(file) => file.write_all_at(bytes, offset),
            Opened::Simulated(file) => file.write_all_at(bytes, offset),
        }
    }

    /// How long it is.
    ///
    /// # Errors
    /// Whatever the disk says.
    pub fn length(&self) -> io::Result<u64> {
        match &self.0 {
            Opened::Machine(file) => Ok(file.metadata()?.len()),
            Opened::Simulated(file) => file.length(),
        }
    }

    /// Makes it so long: it is cut, or zeros follow.
    ///
    /// # Errors
    /// Whatever the disk says.
    pub fn set_length(&self, bytes: u64) -> io::Result<()> {
        match &self.0 {
            Opened::Machine(file) => file.set_len(bytes),
            Opened::Simulated(file) => file.set_length(bytes),
        }
    }

    /// Makes what it holds durable, but none of its names.
    ///
    /// # Errors
    /// Whatever the disk says.
    pub fn sync(&self) -> io::Result<()> {
        match &self.0 {
            Opened::Machine(file) => file.sync_data(),
            Opened::Simulated(file) => file.sync(),
        }
    }
}
