//! The files of a store in memory: each is the changes of one flush, or a part of all rows, under its
//! checksum; `CURRENT` names them in their order. A file never changes, so that a second name for it is a copy.

use std::io;
use std::path::{Path, PathBuf};

use bytes::{Buf, BufMut, Bytes};
use plimsoll_base::Disk;
use xxhash_rust::xxh3::xxh3_64;

use super::rows::{Change, Rows};
use crate::rows::StoreError;

const CURRENT: &str = "CURRENT";
const CURRENT_NEW: &str = "CURRENT.new";
/// Beyond so many files all rows are written anew.
const FILES_MAX: usize = 8;
/// A file of rows that are written anew is about as large, so that a store is a handful of files.
const FILE_BYTES: usize = 16 << 10;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const DELETE_RANGE: u8 = 3;

/// The files of one store.
pub(super) struct Files {
    disk: Disk,
    dir: PathBuf,
    /// The numbers that the files are named by, and their bytes, in the order in which they were written.
    named: Vec<(u64, u64)>,
    next: u64,
    is_abandoned: bool,
}

impl Files {
    /// Whether there are any in `dir`, whole or not.
    pub fn are_in(disk: &Disk, dir: &Path) -> bool {
        disk.has(&dir.join(CURRENT))
    }

    /// Those in `dir` and the rows that they hold; makes the folder where there is none.
    pub fn open(disk: &Disk, dir: &Path) -> Result<(Self, Rows), StoreError> {
        let failed = |error: io::Error| StoreError::Failed(error.to_string());
        let mut files = Self {
            disk: disk.clone(),
            dir: dir.to_owned(),
            named: Vec::new(),
            next: 1,
            is_abandoned: false,
        };
        if !Self::are_in(disk, dir) {
            disk.create_dir(dir).map_err(failed)?;
            files.name_all(Vec::new()).map_err(failed)?;
        }
        let current = files.read(CURRENT)?;
        let mut numbers = &current[..];
        while numbers.has_remaining() {
            files.named.push((numbers.get_u64_le(), numbers.get_u64_le()));
        }
        let rows = files.rows()?;
        // What a process began and did not end.
        for found in disk.list(dir).map_err(failed)? {
            let number = found.to_str().and_then(|it| it.strip_suffix(".sst")?.parse().ok());
            let is_named = files.named.iter().any(|(named, _)| Some(*named) == number);
            files.next = files.next.max(number.unwrap_or(0) + 1);
            if found != Path::new(CURRENT) && !is_named {
                disk.remove(&dir.join(found)).map_err(failed)?;
            }
        }
        // Only then is their room free for good.
        disk.sync_dir(dir).map_err(failed)?;
        Ok((files, rows))
    }

    /// Adds a file of changes that come after all others.
    pub fn add(&mut self, changes: &[Change]) -> io::Result<()> {
        let added = self.write(changes)?;
        let named = self.name_all([&self.named[..], &[added]].concat());
        named.inspect_err(|_| self.remove_unnamed(&[added]))
    }

    /// Whether it is time to write them anew.
    pub fn are_many(&self) -> bool {
        self.named.len() > FILES_MAX
    }

    /// Writes all rows anew, each once.
    pub fn rewrite(&mut self) -> Result<(), StoreError> {
        let (rows, old) = (self.rows()?, self.named.clone());
        let mut written = Vec::new();
        let named =
            self.write_all(&rows, &mut written).and_then(|()| self.name_all(written.clone()));
        let over = if named.is_ok() { old } else { written };
        self.remove_unnamed(&over);
        named.map_err(|error| StoreError::Failed(error.to_string()))
    }

    /// Writes rows to files that nothing names yet, each noted in `written`.
    fn write_all(&mut self, rows: &Rows, written: &mut Vec<(u64, u64)>) -> io::Result<()> {
        let (mut part, mut bytes) = (Vec::new(), 0);
        for (key, value) in rows.iter() {
            bytes += key.len() + value.len();
            part.push(Change::Put(key.clone(), value.clone()));
            if bytes >= FILE_BYTES {
                written.push(self.write(&std::mem::take(&mut part))?);
                bytes = 0;
            }
        }
        if !part.is_empty() {
            written.push(self.write(&part)?);
        }
        Ok(())
    }

    /// Removes files that are named no longer, or not yet; what cannot be removed now is at the next opening.
    fn remove_unnamed(&self, files: &[(u64, u64)]) {
        for (number, _) in files.iter().filter(|file| !self.named.contains(file)) {
            let _ = self.disk.remove(&self.dir.join(name(*number)));
        }
        let _ = self.disk.sync_dir(&self.dir);
    }

    /// Makes `dir`, which is not there yet, a folder of the same files.
    pub fn link(&self, dir: &Path) -> io::Result<()> {
        if self.disk.has_dir(dir)? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.disk.create_dir(dir)?;
        for (number, _) in &self.named {
            let name = name(*number);
            self.disk.link(&self.dir.join(&name), &dir.join(&name))?;
        }
        let current = self.disk.read(&self.dir.join(CURRENT))?;
        self.disk.write_new(&dir.join(CURRENT), &current)?;
        self.disk.sync(&dir.join(CURRENT))?;
        self.disk.sync_dir(dir)
    }

    /// Compares every file with its checksum.
    pub fn verify(&self) -> Result<(), StoreError> {
        self.rows().map(drop)
    }

    /// Lets no more be written.
    pub fn abandon(&mut self) {
        self.is_abandoned = true;
    }

    pub fn count(&self) -> u64 {
        self.named.len() as u64
    }

    pub fn bytes(&self) -> u64 {
        self.named.iter().map(|(_, bytes)| bytes).sum()
    }

    fn rows(&self) -> Result<Rows, StoreError> {
        let mut rows = Rows::default();
        for (number, _) in &self.named {
            for change in decode(self.read(&name(*number))?)? {
                rows.change(&change);
            }
        }
        Ok(rows)
    }

    /// Writes a file that nothing names yet; its number and bytes.
    fn write(&mut self, changes: &[Change]) -> io::Result<(u64, u64)> {
        let number = self.next;
        self.next += 1;
        let bytes = sealed(encode(changes));
        let file = (number, bytes.len() as u64);
        let written = self.write_durably(&name(number), &bytes);
        written.inspect_err(|_| self.remove_unnamed(&[file]))?;
        Ok(file)
    }

    /// From now on these are the files.
    fn name_all(&mut self, named: Vec<(u64, u64)>) -> io::Result<()> {
        let mut current = Vec::with_capacity(named.len() * 16);
        for (number, bytes) in &named {
            current.put_u64_le(*number);
            current.put_u64_le(*bytes);
        }
        self.write_durably(CURRENT_NEW, &sealed(current))?;
        // The files' names first: `CURRENT` must not be there without them.
        self.disk.sync_dir(&self.dir)?;
        self.disk.rename(&self.dir.join(CURRENT_NEW), &self.dir.join(CURRENT))?;
        self.named = named;
        self.disk.sync_dir(&self.dir)
    }

    fn write_durably(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if self.is_abandoned {
            return Err(io::Error::other("the store is given up"));
        }
        let path = self.dir.join(name);
        // What a try before this one left of `CURRENT`.
        if self.disk.has(&path) {
            self.disk.remove(&path)?;
        }
        self.disk.write_new(&path, bytes)?;
        self.disk.sync(&path)
    }

    /// What is under the checksum of a file.
    fn read(&self, name: &str) -> Result<Bytes, StoreError> {
        let damaged = |why: &str| StoreError::Damaged(format!("{name}: {why}"));
        let bytes = match self.disk.read(&self.dir.join(name)) {
            Ok(bytes) => Bytes::from(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(damaged("the file is gone"));
            }
            Err(error) => return Err(StoreError::Failed(error.to_string())),
        };
        let Some((body, checksum)) = bytes.split_last_chunk() else {
            return Err(damaged("it is cut"));
        };
        if u64::from_le_bytes(*checksum) != xxh3_64(body) {
            return Err(damaged("its checksum is another"));
        }
        Ok(bytes.slice(..body.len()))
    }
}

fn name(number: u64) -> String {
    format!("{number:06}.sst")
}

/// Bytes with their checksum after them.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = xxh3_64(&bytes);
    bytes.put_u64_le(checksum);
    bytes
}

fn encode(changes: &[Change]) -> Vec<u8> {
    let mut to = Vec::new();
    for change in changes {
        let (kind, parts): (u8, &[&Bytes]) = match change {
            Change::Put(key, value) => (PUT, &[key, value]),
            Change::Delete(key) => (DELETE, &[key]),
            Change::DeleteRange(from, to) => (DELETE_RANGE, &[from, to]),
        };
        to.put_u8(kind);
        for part in parts {
            to.put_u64_le(part.len() as u64);
            to.put_slice(part);
        }
    }
    to
}

fn decode(mut from: Bytes) -> Result<Vec<Change>, StoreError> {
    let mut changes = Vec::new();
    while from.has_remaining() {
        let change = match from.get_u8() {
            PUT => Change::Put(part(&mut from)?, part(&mut from)?),
            DELETE => Change::Delete(part(&mut from)?),
            DELETE_RANGE => Change::DeleteRange(part(&mut from)?, part(&mut from)?),
            kind => return Err(StoreError::Damaged(format!("a change of kind {kind}"))),
        };
        changes.push(change);
    }
    Ok(changes)
}

fn part(from: &mut Bytes) -> Result<Bytes, StoreError> {
    let cut = || StoreError::Damaged("a change is cut".to_owned());
    let length = from.try_get_u64_le().map_err(|_| cut())?;
    let length = usize::try_from(length).ok().filter(|length| *length <= from.len());
    Ok(from.split_to(length.ok_or_else(cut)?))
}
