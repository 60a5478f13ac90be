//! A file that is open, and what is told of one without reading it.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use super::simulated::OpenFile;

/// A file that is open. Where in it is read or written is said each time. It can be read and written until it
/// is dropped, whatever becomes of its names.
pub struct DiskFile(pub(super) Opened);

pub(super) enum Opened {
    Machine(File),
    Simulated(OpenFile),
}

/// What stands under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundKind {
    /// A file.
    File,
    /// A folder.
    Dir,
    /// What is neither.
    Other,
}

/// What is told of a file or a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub kind: FoundKind,
    /// How long a file is.
    pub bytes: u64,
    /// How many names a file has.
    pub names: u64,
    /// Tells a file as it is now from every other that was ever written on the machine, and from what it was
    /// before it was written to. All of its names share it.
    pub identity: [u64; 5],
}

impl Found {
    /// Whether it is a file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.kind == FoundKind::File
    }

    pub(super) fn of_the_machine(found: &Metadata) -> Self {
        let modified = [found.mtime().cast_unsigned(), found.mtime_nsec().cast_unsigned()];
        let kind = match () {
            () if found.is_file() => FoundKind::File,
            () if found.is_dir() => FoundKind::Dir,
            () => FoundKind::Other,
        };
        Self {
            kind,
            bytes: found.len(),
            names: found.nlink(),
            identity: [found.dev(), found.ino(), found.len(), modified[0], modified[1]],
        }
    }
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
