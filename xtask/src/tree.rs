//! The files of the tree, read once: every text file below the root that is not built or fetched.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Folders that hold no source: version control, build results, data of a running node.
const SKIPPED: [&str; 8] =
    [".git", "target", "data", "corpus", "artifacts", "__pycache__", ".pytest_cache", "sample"];

/// Why the tree could not be read.
#[derive(Debug)]
pub struct TreeError(String);

impl TreeError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl std::fmt::Display for TreeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TreeError {}

/// One text file.
pub(crate) struct SourceFile {
    /// Relative to the root, with `/` between its parts.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl SourceFile {
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Test files may be longer and are read with the code they test.
    pub(crate) fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs")
            || self.path.contains("/tests/")
            || self.path.contains("/benches/")
    }
}

/// The text files of the working copy.
pub struct Tree {
    pub(crate) root: PathBuf,
    pub(crate) files: Vec<SourceFile>,
}

impl Tree {
    /// Reads the working copy that cargo runs this crate in.
    ///
    /// # Errors
    /// Where a folder or file cannot be read.
    pub fn read() -> Result<Self, TreeError> {
        // Not where it was compiled: several copies of the tree share what is compiled.
        let here = std::env::var_os("CARGO_MANIFEST_DIR")
            .ok_or_else(|| TreeError::new("it is run by cargo"))?;
        let root = Path::new(&here)
            .parent()
            .ok_or_else(|| TreeError::new("the crate lies in no workspace"))?
            .to_path_buf();
        let mut files = Vec::new();
        walk(&root, &root, &mut files).map_err(|e| TreeError::new(e.to_string()))?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { root, files })
    }

    pub(crate) fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The folders below `crates/`.
    pub(crate) fn crates(&self) -> impl Iterator<Item = &str> {
        self.files
            .iter()
            .filter_map(|file| file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
    }
}

fn walk(root: &Path, folder: &Path, files: &mut Vec<SourceFile>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if !SKIPPED.contains(&name.as_ref()) {
                walk(root, &path, files)?;
            }
            continue;
        }
        // What is not UTF-8 is no source; nothing here has a say about it.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let relative = path.strip_prefix(root).unwrap_or(&path);
        files.push(SourceFile { path: relative.to_string_lossy().into_owned(), text });
    }
    Ok(())
}
