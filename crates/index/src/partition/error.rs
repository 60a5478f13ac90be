//! What can go wrong with the index's own files.

use std::{fmt, io};

use tantivy::TantivyError;
use tantivy::directory::error::OpenReadError;

/// Why the index of a partition cannot go on. After any of these the index is opened again (it is
/// then as it was persisted last), or thrown away and built from the rows.
#[derive(Debug)]
pub enum IndexError {
    /// The disk failed or is full: open it again when it is well.
    Io(io::Error),
    /// Tantivy failed: open it again.
    Tantivy(TantivyError),
    /// The files are not what this code writes: throw them away and build the index from rows.
    Corrupt(String),
    /// The mapping does not fit the index any more: as above.
    NeedsRebuild,
}

impl IndexError {
    /// Whether an index that could not be opened for this is of no use. What else fails, such as
    /// too many open files, says nothing about the files, and the index is not to be lost by it.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Corrupt(_) | Self::NeedsRebuild => true,
            Self::Io(error) => is_unreadable(error),
            Self::Tantivy(error) => match error {
                TantivyError::IoError(error) => is_unreadable(error),
                TantivyError::OpenReadError(OpenReadError::IoError { io_error, .. }) => {
                    is_unreadable(io_error)
                }
                TantivyError::OpenReadError(_)
                | TantivyError::DataCorruption(_)
                | TantivyError::IncompatibleIndex(_)
                | TantivyError::SchemaError(_)
                | TantivyError::DeserializeError(_) => true,
                _ => false,
            },
        }
    }
}

/// The system's number for a device that cannot read what was written: `EIO`, 5 on every Unix.
const DEVICE_CANNOT_READ: i32 = 5;

/// Whether a file is there, but not what it said. A sector that cannot be read stays so: an index on
/// it is made anew from rows, or it would be tried again for ever.
fn is_unreadable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData)
        || error.raw_os_error() == Some(DEVICE_CANNOT_READ)
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "index files: {error}"),
            Self::Tantivy(error) => write!(f, "index: {error}"),
            Self::Corrupt(what) => write!(f, "index files are damaged: {what}"),
            Self::NeedsRebuild => write!(f, "the mapping does not fit the index"),
        }
    }
}

impl std::error::Error for IndexError {}

impl From<io::Error> for IndexError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<TantivyError> for IndexError {
    fn from(error: TantivyError) -> Self {
        Self::Tantivy(error)
    }
}
