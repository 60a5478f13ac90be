//! A bare RocksDB beside the stores of `mixes`: in the lab's own process, without a network, a log or other copies,
//! so that what a node adds to it can be told. It owns the database and how one request is made on it. Which
//! requests there are is `source.rs`'s, when they are made the load generator's.
//!
//! Its options are those of a partition. Its WAL is on and synced before a write returns, as a node's log is;
//! writes that wait share a sync, as RocksDB has it. Its process is the lab's: the processor time of a lap has
//! RocksDB's threads in it, as a node's has, and the clients that draw requests and call it.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use plimsoll_control::Random;
use plimsoll_storage::partition::{StoreOptions, rocksdb_options};
use rust_rocksdb::{DB, WriteBatch, WriteOptions};

use super::disk::SlowDisk;
use super::server::Server;
use super::source::Rows;
use super::store::Told;
use crate::LabError;
use crate::keys::name;
use crate::live::guardian::Guardian;
use crate::live::load::{Called, Source};
use crate::live::shares::Throttled;
use crate::live::wire::Ended;

/// As `cache.size` and `write_buffer.size` of the nodes (`peers::DEFAULTS`).
const CACHE_BYTES: usize = 64 << 20;
const WRITE_BUFFER_BYTES: usize = 128 << 20;
/// Rows that are written at once while it is filled.
const FILLED_AT_ONCE: usize = 256;
/// A row that was written and is not there.
const MISSING: &str = "missing";

/// The database, with its folder.
pub(super) struct Bare {
    db: DB,
    synced: WriteOptions,
    /// Removes the folder, once the database is closed.
    _guardian: Guardian,
}

impl Bare {
    /// An empty one in `folder`, which is made and removed again.
    ///
    /// # Errors
    /// The folder cannot be made, or RocksDB does not open it.
    pub(super) fn open(folder: &Path) -> Result<Self, LabError> {
        let failed = |error| LabError::live("make a folder for RocksDB".to_owned(), error);
        std::fs::create_dir_all(folder).map_err(failed)?;
        let guardian = Guardian::start().map_err(failed)?;
        guardian.tree(&folder.to_string_lossy()).map_err(failed)?;
        let options = StoreOptions {
            block_cache_bytes: CACHE_BYTES,
            write_buffer_bytes: WRITE_BUFFER_BYTES,
            ..StoreOptions::default()
        };
        let db = DB::open(&rocksdb_options(options), folder)
            .map_err(|error| LabError::live("open RocksDB".to_owned(), error))?;
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        Ok(Self { db, synced, _guardian: guardian })
    }

    /// Writes every row once.
    ///
    /// # Errors
    /// A row is not taken.
    pub(super) fn fill(&self, rows: &Rows, keys: u64, seed: u64) -> Result<(), LabError> {
        let failed = |error| LabError::live("fill RocksDB".to_owned(), error);
        let mut random = Random::new(seed);
        let mut batch = WriteBatch::default();
        for number in 0..keys {
            batch.put(name(number), rows.value(&mut random));
            if batch.len() >= FILLED_AT_ONCE || number + 1 == keys {
                self.db.write(&batch).map_err(failed)?;
                batch.clear();
            }
        }
        // So that the first lap pays for none of it.
        self.db.flush_wal(true).map_err(failed)
    }

    fn read(&self, key: &str) -> Ended {
        match self.db.get_pinned(key) {
            Ok(Some(_)) => Ended::Answered,
            Ok(None) => Ended::Failed(MISSING.to_owned()),
            Err(error) => Ended::Failed(format!("{:?}", error.kind())),
        }
    }

    fn write(&self, key: &str, value: &[u8]) -> Ended {
        match self.db.put_opt(key, value, &self.synced) {
            Ok(()) => Ended::Answered,
            Err(error) => Ended::Failed(format!("{:?}", error.kind())),
        }
    }
}

impl Server for Bare {
    fn addresses(&self) -> Vec<String> {
        Vec::new()
    }

    fn processes(&self) -> Vec<u32> {
        vec![std::process::id()]
    }

    fn names(&self) -> Vec<String> {
        vec!["lab".to_owned()]
    }

    fn throttled(&self) -> Vec<Option<Throttled>> {
        vec![None]
    }

    fn told(&self, disk: Option<Arc<SlowDisk>>) -> Told {
        Told { process: std::process::id(), address: String::new(), disk }
    }
}

/// The requests of a store of rows as calls of a database.
pub(super) struct Calls<'a> {
    pub(super) on: &'a Bare,
    /// With one command in each request.
    pub(super) rows: &'a Rows,
}

impl Source for Calls<'_> {
    fn next<'a>(&'a self, random: &mut Random, room: &'a mut Vec<u8>) -> (usize, &'a [u8]) {
        self.rows.next(random, room)
    }

    fn call(&self, random: &mut Random) -> Option<Called> {
        let (kind, key, value) = self.rows.draw(random);
        let sent = Instant::now();
        let ended = match value {
            Some(value) => self.on.write(&key, value),
            None => self.on.read(&key),
        };
        Some(Called { kind, sent, ended })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::plan::{Ask, Lengths, lap};
    use super::super::source::{READS, WRITES};
    use super::*;
    use crate::live::options::LiveOptions;

    #[test]
    fn calls_read_and_write_the_rows_that_were_filled_in() {
        let folder = tempfile::tempdir().unwrap();
        let bare = Bare::open(&folder.path().join("rocksdb")).unwrap();
        let rows = Rows::new(300, 100, 0.5, 1);
        assert_eq!(bare.read(&name(0)), Ended::Failed(MISSING.to_owned()));
        bare.fill(&rows, 300, 1).unwrap();
        assert!((0..300).all(|number| bare.read(&name(number)) == Ended::Answered));
        let (calls, mut random) = (Calls { on: &bare, rows: &rows }, Random::new(2));
        let mut kinds = [0; 2];
        for _ in 0..100 {
            let called = calls.call(&mut random).unwrap();
            assert_eq!(called.ended, Ended::Answered);
            kinds[called.kind] += 1;
        }
        assert!(kinds[READS] > 0 && kinds[WRITES] > 0, "{kinds:?}");
        bare.write("key", b"value");
        assert_eq!(bare.db.get("key").unwrap().unwrap(), b"value");
    }

    #[test]
    fn a_lap_is_of_the_labs_own_process() {
        let folder = tempfile::tempdir().unwrap();
        let bare = Bare::open(&folder.path().join("rocksdb")).unwrap();
        let rows = Rows::new(300, 100, 0.5, 1);
        bare.fill(&rows, 300, 1).unwrap();
        let calls = Calls { on: &bare, rows: &rows };
        let (warm_up, window) = (Duration::from_millis(50), Duration::from_millis(500));
        let ask = Ask { lengths: Lengths { warm_up, window }, ..Ask::closed(&bare, &calls, 3) };
        let lap = lap(&LiveOptions::new("kv-throughput").unwrap(), &ask, 0).unwrap().lap;
        assert!(lap.n > 0 && lap.errors.is_empty(), "{lap:?}");
        let of_rows = lap.rows.unwrap();
        assert!(of_rows.reads_ms.p50.is_some() && of_rows.writes_ms.p50.is_some(), "{of_rows:?}");
        // The load and the store are one process: it is told once, as the store.
        assert!(lap.cpu_s.is_some() && lap.nodes[0].name == "lab");
        assert_eq!((of_rows.load_processors, lap.rss_peak_bytes), (None, None));
    }
}
