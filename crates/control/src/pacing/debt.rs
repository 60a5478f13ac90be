//! How far a store is towards the point where it can take no more, from what it has put off: files that
//! wait to be merged, and rows that wait to be in files. 0 is nothing, 1 is the end; from
//! [`REFUSED_FROM`] on, writes are refused, so that nobody who applies what the log has comes to that
//! end.

/// From here on writes are refused.
pub const REFUSED_FROM: f64 = 0.95;

/// Files of level 0 at which a read of a store looks at so many that it is slow.
const LEVEL_0_FILES_MAX: u64 = 64;
/// Bytes that wait to be merged, at which the levels are out of shape: RocksDB slows down there by
/// itself.
const PENDING_BYTES_MAX: u64 = 64 << 30;
/// What the shape of a store's levels is worth where as much waits to be merged as the store has: from here
/// on the law pays for all that comes in ([`super::disk`]). Reads look into more files meanwhile, and rows lie
/// there twice, but no write has to wait for that: it never counts for more than [`SHAPE_MAX`].
const SHAPE_OF_ALL: f64 = 0.5;
const SHAPE_MAX: f64 = 0.65;
/// A store is taken for as large as this at least.
const SHAPE_BYTES_MIN: u64 = 64 << 20;

/// What a store has put off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Files of level 0.
    pub level_0_files: u64,
    /// Bytes that are to be written anew until every level is as small as it should be.
    pub pending_bytes: u64,
    /// Bytes of the files that there are now.
    pub files_bytes: u64,
}

/// The debt of one store.
#[must_use]
pub fn of_store(backlog: &Backlog) -> f64 {
    let files = backlog.level_0_files as f64 / LEVEL_0_FILES_MAX as f64;
    let pending = backlog.pending_bytes as f64;
    let shape = SHAPE_OF_ALL * pending / backlog.files_bytes.max(SHAPE_BYTES_MIN) as f64;
    files.max(pending / PENDING_BYTES_MAX as f64).max(shape.min(SHAPE_MAX))
}

/// The debt that all stores of a node share: rows that are in no file. At twice their budget no more are
/// taken.
#[must_use]
pub fn of_node(unflushed_bytes: u64, budget_bytes: u64) -> f64 {
    unflushed_bytes as f64 / (budget_bytes.max(1) as f64 * 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_counts() {
        assert!(of_store(&Backlog::default()).abs() < f64::EPSILON);
        let files = Backlog { level_0_files: 61, ..Backlog::default() };
        assert!(of_store(&files) > REFUSED_FROM);
        let bytes = |pending_bytes, files_bytes| {
            of_store(&Backlog { level_0_files: 4, pending_bytes, files_bytes })
        };
        assert!((bytes(32 << 30, 1 << 40) - 0.5).abs() < 1e-9);
        assert!((bytes(1 << 30, 1 << 30) - 0.5).abs() < 1e-9);
        assert!((bytes(9 << 30, 1 << 30) - SHAPE_MAX).abs() < 1e-9, "no write waits for it");
        assert!(bytes(1 << 20, 0) < 0.1, "a small store is no burden");
        assert!(of_node(150, 100) < REFUSED_FROM && of_node(191, 100) > REFUSED_FROM);
        assert!(of_node(1, 0) >= 0.5, "no budget is no division by nothing");
    }
}
