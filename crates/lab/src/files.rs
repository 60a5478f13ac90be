//! The files of a run: read back with a limit on their size, written into a folder that is made. And folders of
//! servers, copied.

use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;

use crate::LabError;

/// The largest `result.json` or `plots.json` that is read back, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Reads `DIR/<name>`.
pub(crate) fn read<T: for<'a> Deserialize<'a>>(dir: &Path, name: &str) -> Result<T, LabError> {
    let path = dir.join(name);
    let fail = |source| LabError::Read { path: path.clone(), source };
    let size = fs::metadata(&path).map_err(fail)?.len();
    if size > FILE_BYTES_MAX {
        return Err(LabError::TooLarge { path, bytes: size });
    }
    let text = fs::read_to_string(&path).map_err(fail)?;
    serde_json::from_str(&text).map_err(|source| LabError::Parse { path, source })
}

/// Writes `DIR/<name>`; the folder is made if it is not there.
pub(crate) fn write(dir: &Path, name: &str, text: &str) -> Result<(), LabError> {
    let path = dir.join(name);
    fs::create_dir_all(dir)
        .and_then(|()| fs::write(&path, text))
        .map_err(|source| LabError::Write { path, source })
}

/// Copies a folder with all that is in it; files with the extension `shared`, which are never changed, as further
/// names of the same.
pub(crate) fn copy_folder(from: &Path, to: &Path, shared: Option<&str>) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_folder(&from, &to, shared)?;
        } else if shared.is_some_and(|shared| from.extension().is_some_and(|it| it == shared)) {
            fs::hard_link(&from, &to)?;
        } else {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}
