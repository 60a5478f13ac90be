//! What of a store can be carried to another node: the checksum that its files are compared by. Their format is
//! `format.rs`', making a checkpoint the store's ([`super::Store::checkpoint`]), carrying it `cluster`'s.

use std::io;

use plimsoll_base::disk::DiskFile;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// How much of a file is read at once.
const READ_BYTES: usize = 1 << 20;

/// XXH3-64 of bytes that come in parts.
#[derive(Clone, Default)]
pub struct Checksum(Xxh3Default);

impl Checksum {
    /// That of bytes which are there all at once.
    #[must_use]
    pub fn of(bytes: &[u8]) -> u64 {
        xxh3_64(bytes)
    }

    /// That of a whole file, and how long the file is. Blocks.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn of_file(file: &DiskFile) -> io::Result<(u64, u64)> {
        let mut checksum = Self::default();
        let bytes = checksum.read(file)?;
        Ok((checksum.value(), bytes))
    }

    /// Takes in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Takes in all of a file, and says how much that was. Blocks.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn read(&mut self, file: &DiskFile) -> io::Result<u64> {
        let mut buffer = vec![0; READ_BYTES];
        let mut total = 0;
        loop {
            match file.read_at(&mut buffer, total) {
                Ok(0) => return Ok(total),
                Ok(read) => {
                    self.0.update(&buffer[..read]);
                    total += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The checksum of what was taken in so far.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.digest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_a_whole_and_a_file_have_one_checksum() {
        let bytes: Vec<u8> = (0..=250).cycle().take(3 * READ_BYTES + 7).collect();
        let mut parts = Checksum::default();
        bytes.chunks(1000).for_each(|part| parts.update(part));
        assert_eq!(parts.value(), Checksum::of(&bytes));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, &bytes).unwrap();
        let file = plimsoll_base::Disk::of_the_machine().open(&path).unwrap();
        assert_eq!(Checksum::of_file(&file).unwrap(), (parts.value(), bytes.len() as u64));
    }
}
