//! The files of a run: read back with a limit on their size, written into a folder that is made.

use std::path::Path;

use serde::Deserialize;

use crate::LabError;

/// The largest `result.json` or `plots.json` that is read back, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Reads `DIR/<name>`.
pub(crate) fn read<T: for<'a> Deserialize<'a>>(dir: &Path, name: &str) -> Result<T, LabError> {
    let path = dir.join(name);
    let fail = |source| LabError::Read { path: path.clone(), source };
    let size = std::fs::metadata(&path).map_err(fail)?.len();
    if size > FILE_BYTES_MAX {
        return Err(LabError::TooLarge { path, bytes: size });
    }
    let text = std::fs::read_to_string(&path).map_err(fail)?;
    serde_json::from_str(&text).map_err(|source| LabError::Parse { path, source })
}

/// Writes `DIR/<name>`; the folder is made if it is not there.
pub(crate) fn write(dir: &Path, name: &str, text: &str) -> Result<(), LabError> {
    let path = dir.join(name);
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|source| LabError::Write { path, source })
}
