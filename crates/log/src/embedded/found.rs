//! Making what recovery found durable before anybody reads it: after a crash its last records
//! may never have been synced.
//!
//! After a failed sync that takes more than another sync: the system may hold pages in memory
//! that never reached the disk, and call them clean. So a log that stops leaves a note, and the
//! next open writes the ends of its files once more.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::damage::appended;
use super::identity::{records_dir, sync_dir};
use crate::LogError;

const NOTE_FILE: &str = "stopped";
/// The file being written when a sync failed, and the one before, whose own last sync it may
/// have been.
const FILES_IN_DOUBT: usize = 2;

/// Leaves the note, as far as the disk still allows it.
pub(super) fn note_stop(dir: &Path, reason: &str) {
    let path = dir.join(NOTE_FILE);
    let noted = File::create(&path).and_then(|mut file| {
        io::Write::write_all(&mut file, reason.as_bytes())?;
        file.sync_all()
    });
    if let Err(error) = noted {
        tracing::warn!(%error, file = %path.display(), "cannot note why the log stopped");
    }
}

/// Makes the log as it is found durable.
pub(super) fn make_durable(dir: &Path) -> Result<(), LogError> {
    let note = dir.join(NOTE_FILE);
    let noted = note.exists();
    let synced = sync_files(dir, noted);
    synced.map_err(|error| LogError::Failed(format!("cannot sync the log: {error}")))?;
    sync_dir(&records_dir(dir))?;
    if noted {
        fs::remove_file(&note)
            .map_err(|error| LogError::Failed(format!("cannot remove the note: {error}")))?;
    }
    sync_dir(dir)
}

fn sync_files(dir: &Path, noted: bool) -> io::Result<()> {
    let files = appended(dir)?;
    for (_, path) in files.iter().rev().take(if noted { FILES_IN_DOUBT } else { 1 }) {
        let file = File::options().read(true).write(true).open(path)?;
        if noted {
            file.write_all_at(&fs::read(path)?, 0)?;
        }
        file.sync_all()?;
    }
    Ok(())
}
