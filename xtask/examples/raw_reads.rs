//! Random reads on a bare RocksDB in this process: what `make bench-rows` holds reads through RESP
//! against. Keys and values are those of `redis-benchmark -r`; options are those of a replica's
//! rows. It knows nothing of Plimsoll's key layout, and measures no writes.
//!
//! `raw_reads FOLDER KEYS VALUE_BYTES SECONDS THREADS` prints reads per second.

#![expect(clippy::disallowed_methods, reason = "an example measures the machine")]

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rust_rocksdb::{BlockBasedOptions, Cache, DB, DBCompressionType, Options, WriteBatch};

/// Reads between two looks at the clock.
const BATCH: u64 = 16;
const CACHE_BYTES: usize = 64 << 20;
const WRITE_BUFFER_BYTES: usize = 32 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, keys, value_bytes, seconds, threads] = words.as_slice() else {
        return Err("usage: raw_reads FOLDER KEYS VALUE_BYTES SECONDS THREADS".into());
    };
    let keys: u64 = keys.parse()?;
    let db = load(Path::new(folder), keys, value_bytes.parse()?)?;
    let (reads, elapsed) = read(&db, keys, seconds.parse()?, threads.parse()?);
    writeln!(std::io::stdout(), "{:.0}", f64::from(u32::try_from(reads)?) / elapsed.as_secs_f64())?;
    Ok(())
}

fn key(number: u64) -> String {
    format!("key:{number:012}")
}

/// Fills a new database and leaves it as writes leave it: the newest rows in memory.
fn load(folder: &Path, keys: u64, value_bytes: usize) -> Result<DB, rust_rocksdb::Error> {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache(CACHE_BYTES));
    table.set_bloom_filter(10.0, false);
    table.set_block_size(8 << 10);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.set_write_buffer_size(WRITE_BUFFER_BYTES / 2);
    options.set_memtable_whole_key_filtering(true);
    options.set_memtable_prefix_bloom_ratio(0.02);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_bottommost_compression_type(DBCompressionType::Zstd);
    let db = DB::open(&options, folder)?;
    let value = vec![b'x'; value_bytes];
    for first in (0..keys).step_by(1000) {
        let mut batch = WriteBatch::default();
        for number in first..keys.min(first + 1000) {
            batch.put(key(number), &value);
        }
        db.write(&batch)?;
    }
    Ok(db)
}

/// Reads keys drawn at random from every thread until the time is over.
fn read(db: &DB, keys: u64, seconds: f64, threads: u64) -> (u64, Duration) {
    let (stop, total, begin) = (AtomicBool::new(false), AtomicU64::new(0), Instant::now());
    thread::scope(|scope| {
        for thread in 0..threads {
            let (stop, total) = (&stop, &total);
            scope.spawn(move || {
                let mut state = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(thread + 1);
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..BATCH {
                        // Xorshift: a generator whose cost does not show beside a read.
                        state ^= state << 13;
                        state ^= state >> 7;
                        state ^= state << 17;
                        let found = db.get_pinned(key(state % keys));
                        assert!(matches!(found, Ok(Some(_))), "every key was written");
                    }
                    total.fetch_add(BATCH, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
    });
    (total.load(Ordering::Relaxed), begin.elapsed())
}
