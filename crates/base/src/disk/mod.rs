//! Files, in two kinds: the machine's, and a simulation's, which a loss of power leaves as far as they
//! were synced. Files are written whole: what grows is several of them.
//!
//! A name that is given or taken holds after a loss of power once its folder was synced, as on Linux
//! (fsync(2)). Folders themselves are not lost.

mod simulated;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub use simulated::SimulatedDisk;

/// Reads and writes files; handles of a simulation's die with the process that they were given to.
#[derive(Clone)]
pub struct Disk(Kind);

#[derive(Clone)]
enum Kind {
    Machine,
    Simulated(simulated::Handle),
}

impl Disk {
    /// The machine's.
    #[must_use]
    pub fn of_the_machine() -> Self {
        Self(Kind::Machine)
    }

    /// Whether it is the machine's.
    #[must_use]
    pub fn is_the_machines(&self) -> bool {
        matches!(self.0, Kind::Machine)
    }

    /// Writes a file that is not there yet. It is not durable before it is synced, and neither is its name.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`]; whatever the disk says. A part of the file may be there then.
    pub fn write_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        match &self.0 {
            Kind::Machine => {
                OpenOptions::new().write(true).create_new(true).open(path)?.write_all(bytes)
            }
            Kind::Simulated(handle) => handle.write_new(path, bytes),
        }
    }

    /// What a file holds.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; whatever the disk says.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match &self.0 {
            Kind::Machine => fs::read(path),
            Kind::Simulated(handle) => handle.read(path),
        }
    }

    /// Whether there is a file of that name.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        match &self.0 {
            Kind::Machine => path.is_file(),
            Kind::Simulated(handle) => handle.has(path),
        }
    }

    /// Makes what a file holds durable, but not its name.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; whatever the disk says.
    pub fn sync(&self, path: &Path) -> io::Result<()> {
        match &self.0 {
            Kind::Machine => File::open(path)?.sync_data(),
            Kind::Simulated(handle) => handle.sync(path),
        }
    }

    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// Whatever the disk says.
    pub fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        match &self.0 {
            Kind::Machine => File::open(dir)?.sync_all(),
            Kind::Simulated(handle) => handle.sync_dir(dir),
        }
    }

    /// Gives a file another name, in the place of the file that had it. Its own name changes nothing.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; whatever the disk says.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match &self.0 {
            Kind::Machine => fs::rename(from, to),
            Kind::Simulated(handle) => handle.rename(from, to),
        }
    }

    /// Gives a file a second name, which nothing has yet.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`], [`io::ErrorKind::AlreadyExists`]; whatever the disk says.
    pub fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        match &self.0 {
            Kind::Machine => fs::hard_link(from, to),
            Kind::Simulated(handle) => handle.link(from, to),
        }
    }

    /// Takes a name away, and the file with its last.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; whatever the disk says.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        match &self.0 {
            Kind::Machine => fs::remove_file(path),
            Kind::Simulated(handle) => handle.remove(path),
        }
    }

    /// Makes a folder, and those above it, where they are not there.
    ///
    /// # Errors
    /// Whatever the disk says.
    pub fn create_dir(&self, dir: &Path) -> io::Result<()> {
        match &self.0 {
            Kind::Machine => fs::create_dir_all(dir),
            Kind::Simulated(handle) => handle.create_dir(dir),
        }
    }

    /// Whether there is a folder of that name.
    ///
    /// # Errors
    /// Where that cannot be told.
    pub fn has_dir(&self, dir: &Path) -> io::Result<bool> {
        match &self.0 {
            Kind::Machine => match fs::metadata(dir) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                found => found.map(|it| it.is_dir()),
            },
            Kind::Simulated(handle) => handle.has_dir(dir),
        }
    }

    /// Gives a folder with all that is in it another name, which nothing has yet. It holds after a loss of power
    /// once the folder that it is in was synced.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; whatever the disk says, so where there is something of that name.
    pub fn rename_dir(&self, from: &Path, to: &Path) -> io::Result<()> {
        match &self.0 {
            Kind::Machine => fs::rename(from, to),
            Kind::Simulated(handle) => handle.rename_dir(from, to),
        }
    }

    /// Takes a folder away with all that is in it.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; [`io::ErrorKind::DirectoryNotEmpty`] where files come into it meanwhile;
    /// whatever the disk says.
    pub fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        match &self.0 {
            Kind::Machine => fs::remove_dir_all(dir),
            Kind::Simulated(handle) => handle.remove_dir(dir),
        }
    }

    /// The names of the folders in a folder, in order.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; whatever the disk says.
    pub fn list_dirs(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        match &self.0 {
            Kind::Machine => listed(dir, fs::FileType::is_dir),
            Kind::Simulated(handle) => handle.list_dirs(dir),
        }
    }

    /// The names of the files in a folder, in order.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; whatever the disk says.
    pub fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        match &self.0 {
            Kind::Machine => listed(dir, fs::FileType::is_file),
            Kind::Simulated(handle) => handle.list(dir),
        }
    }
}

fn listed(dir: &Path, of_kind: impl Fn(&fs::FileType) -> bool) -> io::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if of_kind(&entry.file_type()?) {
            names.push(PathBuf::from(entry.file_name()));
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    /// What both kinds do alike, in an empty folder.
    fn does_what_files_do(disk: &Disk, dir: &Path) {
        let (one, two, three) = (dir.join("one"), dir.join("two"), dir.join("three"));
        disk.create_dir(dir).unwrap();
        assert!(disk.has_dir(dir).unwrap() && disk.list(dir).unwrap().is_empty());
        let kind = |result: io::Result<()>| result.unwrap_err().kind();
        assert_eq!(kind(disk.sync(&one)), io::ErrorKind::NotFound);
        disk.write_new(&one, b"1").unwrap();
        assert_eq!(kind(disk.write_new(&one, b"2")), io::ErrorKind::AlreadyExists);
        disk.sync(&one).unwrap();
        disk.link(&one, &two).unwrap();
        assert_eq!(kind(disk.link(&one, &two)), io::ErrorKind::AlreadyExists);
        disk.write_new(&three, b"3").unwrap();
        disk.rename(&three, &one).unwrap();
        disk.sync_dir(dir).unwrap();
        assert_eq!(disk.list(dir).unwrap(), [Path::new("one"), Path::new("two")]);
        assert_eq!((disk.read(&one).unwrap(), disk.read(&two).unwrap()), (vec![b'3'], vec![b'1']));
        disk.remove(&one).unwrap();
        assert_eq!(kind(disk.remove(&one)), io::ErrorKind::NotFound);
        assert_eq!(disk.read(&one).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(kind(disk.rename(&one, &three)), io::ErrorKind::NotFound);
        assert_eq!(kind(disk.link(&one, &three)), io::ErrorKind::NotFound);
        assert_eq!(disk.list(&dir.join("no")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(disk.has(&two) && !disk.has(&one) && !disk.has(dir));
        let (inner, moved) = (dir.join("inner"), dir.join("moved"));
        disk.create_dir(&inner.join("deep")).unwrap();
        disk.write_new(&inner.join("deep/file"), b"4").unwrap();
        disk.rename_dir(&inner, &moved).unwrap();
        assert_eq!(disk.read(&moved.join("deep/file")).unwrap(), b"4");
        assert!(
            !disk.has_dir(&inner).unwrap() && disk.list_dirs(dir).unwrap() == [Path::new("moved")]
        );
        assert_eq!(kind(disk.rename_dir(&inner, &moved)), io::ErrorKind::NotFound);
        disk.create_dir(&inner).unwrap();
        assert_eq!(kind(disk.rename_dir(&inner, &moved)), io::ErrorKind::DirectoryNotEmpty);
        disk.remove_dir(&moved).unwrap();
        assert_eq!(kind(disk.remove_dir(&moved)), io::ErrorKind::NotFound);
        assert!(disk.has_dir(&inner).unwrap() && !disk.has(&moved.join("deep/file")));
    }

    #[test]
    fn both_kinds_do_what_files_do() {
        let dir = std::env::temp_dir().join(format!("plimsoll-disk-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        does_what_files_do(&Disk::of_the_machine(), &dir);
        fs::remove_dir_all(&dir).unwrap();
        let simulated = SimulatedDisk::new(&Random::seeded(1));
        does_what_files_do(&simulated.started(), &dir);
    }
}
