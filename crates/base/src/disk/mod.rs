//! Files, in two kinds: the machine's, and a simulation's, which a loss of power leaves as far as they
//! were synced.
//!
//! A name that is given or taken holds after a loss of power once its folder was synced, as on Linux
//! (fsync(2)). Folders themselves are not lost.

mod file;
mod found;
mod simulated;
mod space;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

pub use file::DiskFile;
pub use found::{Found, FoundKind};
pub use simulated::SimulatedDisk;
pub use space::Space;

use file::Opened;

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
        self.create_new(path)?.write_all_at(bytes, 0)
    }

    /// Makes an empty file, which is not there yet, to write it. Neither what is written nor its name is
    /// durable before it is synced.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`]; whatever the disk says.
    pub fn create_new(&self, path: &Path) -> io::Result<DiskFile> {
        Ok(DiskFile(match &self.0 {
            Kind::Machine => {
                let mut options = OpenOptions::new();
                Opened::Machine(options.read(true).write(true).create_new(true).open(path)?)
            }
            Kind::Simulated(handle) => Opened::Simulated(handle.create_new(path)?),
        }))
    }

    /// Opens a file to read it.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; whatever the disk says.
    pub fn open(&self, path: &Path) -> io::Result<DiskFile> {
        Ok(DiskFile(match &self.0 {
            Kind::Machine => Opened::Machine(File::open(path)?),
            Kind::Simulated(handle) => Opened::Simulated(handle.open(path)?),
        }))
    }

    /// Opens a file to read and write it; makes an empty one where there is none.
    ///
    /// # Errors
    /// Whatever the disk says.
    pub fn open_to_write(&self, path: &Path) -> io::Result<DiskFile> {
        Ok(DiskFile(match &self.0 {
            Kind::Machine => {
                let mut options = OpenOptions::new();
                options.create(true).truncate(false).read(true).write(true);
                Opened::Machine(options.open(path)?)
            }
            Kind::Simulated(handle) => Opened::Simulated(handle.open_to_write(path)?),
        }))
    }

    /// Makes `to` a file of its own that holds what `from` does; what was there is overwritten.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; whatever the disk says. A part of the file may be there then.
    pub fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        match &self.0 {
            Kind::Machine => fs::copy(from, to).map(drop),
            Kind::Simulated(handle) => handle.copy(from, to),
        }
    }

    /// What is told of a file or a folder without reading it.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; whatever the disk says.
    pub fn find(&self, path: &Path) -> io::Result<Found> {
        match &self.0 {
            Kind::Machine => fs::metadata(path).map(|found| Found::of_the_machine(&found)),
            Kind::Simulated(handle) => handle.find(path),
        }
    }

    /// What is in a folder, by name and in that order. What goes away meanwhile may be left out.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; whatever the disk says.
    pub fn find_in(&self, dir: &Path) -> io::Result<Vec<(PathBuf, Found)>> {
        match &self.0 {
            Kind::Machine => found_in(dir),
            Kind::Simulated(handle) => handle.find_in(dir),
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
        match self.find(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            found => found.map(|it| it.kind == FoundKind::Dir),
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

    /// How much room the disk has that a folder is on.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; whatever the disk says.
    pub fn space(&self, dir: &Path) -> io::Result<Space> {
        match &self.0 {
            Kind::Machine => Space::of_the_machine(dir),
            Kind::Simulated(handle) => handle.space(dir),
        }
    }

    /// The names of the folders in a folder, in order.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; whatever the disk says.
    pub fn list_dirs(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.names_in(dir, FoundKind::Dir)
    }

    /// The names of the files in a folder, in order.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; whatever the disk says.
    pub fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.names_in(dir, FoundKind::File)
    }

    fn names_in(&self, dir: &Path, kind: FoundKind) -> io::Result<Vec<PathBuf>> {
        let found = self.find_in(dir)?.into_iter();
        Ok(found.filter(|(_, found)| found.kind == kind).map(|(name, _)| name).collect())
    }
}

impl SimulatedDisk {
    /// What a process that starts now reads and writes by. Handles from before change nothing any more: what
    /// a process does while it is being taken apart, a process that was killed does not do.
    #[must_use]
    pub fn started(&self) -> Disk {
        Disk(Kind::Simulated(self.start_process()))
    }
}

fn found_in(dir: &Path) -> io::Result<Vec<(PathBuf, Found)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => {
                let found = Found::of_the_machine(&found?);
                all.push((PathBuf::from(entry.file_name()), found));
            }
        }
    }
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(all)
}

#[cfg(test)]
mod tests;
