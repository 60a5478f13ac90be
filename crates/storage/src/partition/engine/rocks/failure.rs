//! RocksDB's failures, as the store tells them.

use crate::rows::StoreError;

pub(super) fn failed(error: rust_rocksdb::Error) -> StoreError {
    match error.kind() {
        rust_rocksdb::ErrorKind::Incomplete => StoreError::NotCached,
        rust_rocksdb::ErrorKind::Corruption => StoreError::Damaged(error.into_string()),
        _ => StoreError::Failed(error.into_string()),
    }
}
