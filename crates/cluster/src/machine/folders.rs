//! Folders of the machine's disk.

use std::path::Path;

/// Makes the entries of a folder durable.
pub(crate) fn sync_dir(dir: &Path) -> std::io::Result<()> {
    std::fs::File::open(dir)?.sync_all()
}
