//! Checksums of a checkpoint's files, made of the chunks as they are read, so that no file is read
//! for its checksum alone before anything is sent; and what is known of files that were read before.
//!
//! When a checksum is needed is not decided here.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use plimsoll_base::disk::{DiskFile, Found};
use plimsoll_storage::partition::Checksum;

/// How much is read at once.
const READ_BYTES: u64 = 1 << 20;
/// So much before a chunk is read for the checksum alone where chunks come out of order. A file that
/// is gone on with far from its beginning is read when its checksum is needed.
const CATCH_UP_BYTES: u64 = 64 << 20;
/// How many checksums are kept. Beyond, all are forgotten, and made again when they are needed.
const KNOWN_MAX: usize = 200_000;

/// The checksums of files that were read whole, by [`identity`]. RocksDB's files and the index' are
/// written once, and are the same in every checkpoint.
#[derive(Default)]
pub(super) struct Known(Mutex<HashMap<u64, u64>>);

impl Known {
    fn get(&self, identity: u64) -> Option<u64> {
        self.0.lock().get(&identity).copied()
    }

    fn put(&self, identity: u64, checksum: u64) {
        let mut known = self.0.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(identity, checksum);
    }
}

/// Tells a file from every other that was ever written on this node. Names of one file share it.
pub(super) fn identity(file: &Found) -> u64 {
    let mut checksum = Checksum::default();
    file.identity.iter().for_each(|number| checksum.update(&number.to_le_bytes()));
    checksum.value()
}

/// The checksum of one file, as far as the file was read.
pub(super) struct Hashing {
    bytes: u64,
    identity: u64,
    known: Arc<Known>,
    state: Mutex<HashProgress>,
}

enum HashProgress {
    /// Of so many bytes from the beginning.
    Part(Box<Checksum>, u64),
    Whole(u64),
}

impl Hashing {
    /// Of a file that is so long, which may be known from before.
    pub(super) fn new(bytes: u64, identity: u64, known: &Arc<Known>) -> Self {
        let state = match known.get(identity) {
            Some(checksum) => HashProgress::Whole(checksum),
            None => HashProgress::Part(Box::default(), 0),
        };
        Self { bytes, identity, known: Arc::clone(known), state: Mutex::new(state) }
    }

    /// The checksum, where it takes no reading.
    pub(super) fn ready(&self) -> Option<u64> {
        match *self.state.lock() {
            HashProgress::Whole(checksum) => Some(checksum),
            HashProgress::Part(..) => None,
        }
    }

    /// Takes in a chunk that was read of the file.
    pub(super) fn take(&self, file: &DiskFile, offset: u64, chunk: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        let HashProgress::Part(checksum, read) = &mut *state else { return Ok(()) };
        if *read < offset && offset - *read <= CATCH_UP_BYTES {
            advance(checksum, read, file, offset)?;
        }
        let skipped = read.checked_sub(offset).and_then(|skipped| usize::try_from(skipped).ok());
        if let Some(rest) = skipped.and_then(|skipped| chunk.get(skipped..)) {
            checksum.update(rest);
            *read += rest.len() as u64;
        }
        Ok(())
    }

    /// The checksum of the whole file, after reading what no chunk has brought. Blocks.
    pub(super) fn finish(&self, file: &DiskFile) -> io::Result<u64> {
        let mut state = self.state.lock();
        let value = match &mut *state {
            HashProgress::Whole(value) => return Ok(*value),
            HashProgress::Part(checksum, read) => {
                advance(checksum, read, file, self.bytes)?;
                checksum.value()
            }
        };
        *state = HashProgress::Whole(value);
        self.known.put(self.identity, value);
        Ok(value)
    }
}

/// Reads on up to `to`. What was read before an error counts.
fn advance(checksum: &mut Checksum, read: &mut u64, file: &DiskFile, to: u64) -> io::Result<()> {
    let mut buffer = Vec::new();
    while *read < to {
        let bytes = (to - *read).min(READ_BYTES);
        buffer.resize(usize::try_from(bytes).map_err(io::Error::other)?, 0);
        file.read_exact_at(&mut buffer, *read)?;
        checksum.update(&buffer);
        *read += bytes;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use plimsoll_base::Disk;

    use super::*;

    /// A file of so many bytes, and the bytes.
    fn file(dir: &tempfile::TempDir, bytes: usize) -> (DiskFile, Vec<u8>) {
        let path = dir.path().join(bytes.to_string());
        let data: Vec<u8> = (0..=250).cycle().take(bytes).collect();
        std::fs::write(&path, &data).unwrap();
        (Disk::of_the_machine().open(&path).unwrap(), data)
    }

    fn hashing(data: &[u8], known: &Arc<Known>) -> Hashing {
        Hashing::new(data.len() as u64, 7, known)
    }

    #[test]
    fn chunks_in_any_order_and_twice_and_none_give_the_checksum_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let (file, data) = file(&dir, 10_000);
        let orders: [&[usize]; 5] = [&[0, 1, 2, 3], &[3, 2, 1, 0], &[1, 0, 0, 3, 2], &[2], &[]];
        for order in orders {
            let hashing = hashing(&data, &Arc::default());
            for at in order {
                let from = at * 2500;
                hashing.take(&file, from as u64, &data[from..from + 2500]).unwrap();
            }
            assert_eq!(hashing.ready(), None, "it was not asked for");
            assert_eq!(hashing.finish(&file).unwrap(), Checksum::of(&data), "{order:?}");
            assert_eq!(hashing.ready(), Some(Checksum::of(&data)));
        }
    }

    #[test]
    fn what_chunks_have_brought_is_not_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let (file, data) = file(&dir, 10_000);
        let hashing = hashing(&data, &Arc::default());
        hashing.take(&file, 0, &data[..6000]).unwrap();
        hashing.take(&file, 6000, &data[6000..]).unwrap();
        let empty = Disk::of_the_machine().open(Path::new("/dev/null")).unwrap();
        assert_eq!(hashing.finish(&empty).unwrap(), Checksum::of(&data));
        let hashing = self::hashing(&data, &Arc::default());
        hashing.take(&file, 0, &data[..6000]).unwrap();
        assert!(hashing.finish(&empty).is_err(), "something is missing");
        assert_eq!(hashing.finish(&file).unwrap(), Checksum::of(&data), "and may come later");
    }

    #[test]
    fn a_file_that_was_read_before_is_known_until_there_are_too_many() {
        let dir = tempfile::tempdir().unwrap();
        let (file, data) = file(&dir, 100);
        let known = Arc::default();
        let checksum = hashing(&data, &known).finish(&file).unwrap();
        assert_eq!(hashing(&data, &known).ready(), Some(checksum));
        assert_eq!(Hashing::new(100, 8, &known).ready(), None, "another file");
        (0..KNOWN_MAX as u64).for_each(|identity| known.put(identity + 100, 1));
        assert!(known.0.lock().len() <= KNOWN_MAX);
        assert_eq!(hashing(&data, &known).ready(), None);
    }

    #[test]
    fn names_of_one_file_share_its_identity_and_another_file_has_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let of = |name: &str| identity(&Disk::of_the_machine().find(&path(name)).unwrap());
        std::fs::write(path("a"), "1").unwrap();
        std::fs::hard_link(path("a"), path("b")).unwrap();
        std::fs::copy(path("a"), path("c")).unwrap();
        assert_eq!(of("a"), of("b"));
        assert_ne!(of("a"), of("c"));
    }
}
