//! A node's data folder: for its owner alone, and for one node at a time. What lies in it is others'.

use std::fs::{DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Keeps other nodes out of a data folder for as long as it is there, the end of the process included.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "held, never read")] File);

/// Makes a data folder where there is none, for its owner alone: documents and hashes of passwords lie there.
///
/// # Errors
/// Where it cannot be made.
pub fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Takes a data folder for this process.
///
/// # Errors
/// Where another node runs on it, or it cannot be opened.
pub fn hold(path: &Path) -> io::Result<Held> {
    let named =
        |why: String| io::Error::other(format!("the data folder `{}` {why}", path.display()));
    let folder = File::open(path).map_err(|error| named(format!("cannot be opened: {error}")))?;
    match folder.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(named(
                "is that of a node that runs: give this one its own (path.data, --data)".to_owned(),
            ));
        }
        // Some file systems lock no folders; the stores in it have locks of their own.
        Err(TryLockError::Error(error)) => tracing::debug!(%error, "the data folder is not locked"),
    }
    Ok(Held(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_node_has_it_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        make(&path).unwrap();
        let held = hold(&path).unwrap();
        let refused = hold(&path).unwrap_err().to_string();
        assert!(
            refused.contains("a/b` is that of a node that runs") && refused.contains("path.data")
        );
        drop(held);
        hold(&path).unwrap();
    }
}
