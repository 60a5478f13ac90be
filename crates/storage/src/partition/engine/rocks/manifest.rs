//! A look at the file by which RocksDB finds all its others, before RocksDB reads it: a record of a kind
//! that is never written there has it read the same place again and again, and the node would never
//! start. What the records say, and their checksums, is RocksDB's to judge.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A manifest is a log in blocks of this size (RocksDB, `db/log_format.h`).
const BLOCK_BYTES: usize = 32 << 10;
/// Checksum (4), length (2), kind (1).
const HEADER_BYTES: usize = 7;
/// Whole, first, middle and last; 0 is room that was reserved. Higher ones are of logs that are used
/// again, and of ones that are compressed: a manifest is neither.
const KIND_MAX: u8 = 4;

/// What is wrong with the manifest of the store in `dir`, if it is one that RocksDB must not read. One
/// that cannot be read is left to RocksDB too, which names the reason.
pub(super) fn fault(dir: &Path) -> Option<String> {
    let name = std::fs::read_to_string(dir.join("CURRENT")).ok()?;
    let mut file = File::open(dir.join(name.trim_end())).ok()?;
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    let mut begin = 0;
    loop {
        block.clear();
        file.by_ref().take(BLOCK_BYTES as u64).read_to_end(&mut block).ok()?;
        if block.is_empty() {
            return None;
        }
        if let Some(at) = unknown_record(&block) {
            let at = begin + at as u64;
            return Some(format!("{} has no record at byte {at}", name.trim_end()));
        }
        begin += block.len() as u64;
    }
}

/// Where in a block a record is of no kind that can be there.
fn unknown_record(block: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(header) = block.get(at..at + HEADER_BYTES) {
        if header[6] > KIND_MAX {
            return Some(at);
        }
        at += HEADER_BYTES + usize::from(u16::from_le_bytes([header[4], header[5]]));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::super::super::store::Store;
    use super::super::super::super::tests::resources;
    use super::*;
    use crate::rows::StoreError;

    #[test]
    fn a_record_of_a_kind_that_is_never_there_is_found_before_rocksdb_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        drop(Store::open(dir.path(), &resources()).unwrap());
        assert_eq!(fault(dir.path()), None);
        let name = std::fs::read_to_string(dir.path().join("CURRENT")).unwrap();
        let path = dir.path().join(name.trim_end());
        let whole = std::fs::read(&path).unwrap();
        let mut kinds = Vec::new();
        let mut at = 0;
        while at + HEADER_BYTES <= whole.len() {
            kinds.push(at + 6);
            at += HEADER_BYTES + usize::from(u16::from_le_bytes([whole[at + 4], whole[at + 5]]));
        }
        assert!(kinds.len() > 1, "{kinds:?}");
        for kind in kinds {
            let mut damaged = whole.clone();
            damaged[kind] ^= 4;
            std::fs::write(&path, &damaged).unwrap();
            assert!(fault(dir.path()).is_some(), "{kind}");
            let opened = Store::open(dir.path(), &resources()).err();
            assert!(matches!(opened, Some(StoreError::Damaged(_))), "{kind}: {opened:?}");
        }
        // What was being written when the machine stopped is RocksDB's to leave out.
        for end in [whole.len() - 1, whole.len() - 20, 3, 0] {
            std::fs::write(&path, &whole[..end]).unwrap();
            assert_eq!(fault(dir.path()), None, "{end}");
        }
        std::fs::write(&path, [&whole[..], &[0; 100]].concat()).unwrap();
        assert_eq!(fault(dir.path()), None);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(fault(dir.path()), None);
    }
}
