//! The checksum that Tantivy puts at the end of each file, compared with what the file holds. The
//! file is read in blocks and not through a map: there a disk that fails would end the process.

use std::io;
use std::path::Path;

use plimsoll_base::Disk;
use plimsoll_base::disk::DiskFile;
use tantivy::HasLen as _;
use tantivy::directory::FileSlice;
use tantivy::directory::footer::Footer;

use super::IndexError;

/// How much is read at once.
const BLOCK_BYTES: u64 = 1 << 20;
/// More than the longest end (Tantivy's `Footer`) that a file may have.
const END_BYTES: u64 = 64 << 10;
/// The least, with which Tantivy reads it: two numbers.
const END_BYTES_MIN: u64 = 8;

/// Reads a whole file; `pace` is given the bytes of each block and says whether to go on. False
/// where it said no.
///
/// # Errors
/// [`IndexError::Corrupt`] where the file is not there, too short, or not what was written;
/// [`IndexError::Io`] where it cannot be read now, which tells nothing of what it holds.
pub(super) fn check(
    disk: &Disk,
    path: &Path,
    pace: &mut dyn FnMut(u64) -> bool,
) -> Result<bool, IndexError> {
    let failed = |error: io::Error| {
        let what = format!("{}: {error}", path.display());
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof => IndexError::Corrupt(what),
            kind => IndexError::Io(io::Error::new(kind, what)),
        }
    };
    let damaged = |what: &str| IndexError::Corrupt(format!("{}: {what}", path.display()));
    let file = disk.open(path).map_err(failed)?;
    // Of what is open: another file may take its name meanwhile.
    let bytes = file.length().map_err(failed)?;
    if bytes < END_BYTES_MIN {
        return Err(damaged("it is too short"));
    }
    let end = read(&file, bytes.saturating_sub(END_BYTES), bytes).map_err(failed)?;
    let end_bytes = end.len();
    let (footer, rest) = Footer::extract_footer(FileSlice::from(end))
        .map_err(|error| damaged(&error.to_string()))?;
    let body_bytes = bytes - (end_bytes - rest.len()) as u64;
    let mut hasher = crc32fast::Hasher::new();
    let mut at = 0;
    while at < body_bytes {
        let block = read(&file, at, body_bytes.min(at + BLOCK_BYTES)).map_err(failed)?;
        hasher.update(&block);
        at += block.len() as u64;
        if !pace(block.len() as u64) {
            return Ok(false);
        }
    }
    if hasher.finalize() == footer.crc { Ok(true) } else { Err(damaged("its checksum is wrong")) }
}

fn read(file: &DiskFile, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let mut block = vec![0; usize::try_from(to - from).map_err(io::Error::other)?];
    file.read_exact_at(&mut block, from)?;
    Ok(block)
}
