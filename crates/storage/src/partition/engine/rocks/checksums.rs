//! Compares the files of a store with the checksums of their blocks, without unpacking them, which is most of
//! the work of reading all rows. RocksDB can, but its Rust binding does not say how; this asks the C
//! interface that the binding itself is made of.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::ptr;

use rust_rocksdb::{AsRawPtr, DB, ffi_raw};

use crate::rows::StoreError;

/// Reads all files of `db` once; caches are left alone. Blocks.
///
/// # Errors
/// What RocksDB says of the first block that is not what was written, or of a file that cannot be read.
pub(super) fn verify(db: &DB) -> Result<(), StoreError> {
    let mut error: *mut c_char = ptr::null_mut();
    // SAFETY: the handle is valid as long as `db` is borrowed, and RocksDB takes calls of any thread. Of a
    // failure it leaves a string that ends in zero and is ours to free.
    unsafe {
        ffi_raw::rocksdb_verify_checksum(db.as_raw_ptr(), &raw mut error);
        if error.is_null() {
            return Ok(());
        }
        let words = CStr::from_ptr(error).to_string_lossy().into_owned();
        ffi_raw::rocksdb_free(error.cast());
        match words.starts_with("Corruption") {
            true => Err(StoreError::Damaged(words)),
            false => Err(StoreError::Failed(words)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn one_bit_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let db = DB::open_default(dir.path()).unwrap();
        for number in 0..5_000_u32 {
            db.put(number.to_be_bytes(), number.to_string().repeat(20)).unwrap();
        }
        db.flush().unwrap();
        assert_eq!(verify(&db), Ok(()));
        let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let table = names.into_iter().find(|it| it.extension().is_some_and(|it| it == "sst"));
        let table = table.unwrap();
        let mut bytes = fs::read(&table).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&table, bytes).unwrap();
        let found = verify(&db).unwrap_err();
        assert!(matches!(found, StoreError::Damaged(_)), "{found}");
    }
}
