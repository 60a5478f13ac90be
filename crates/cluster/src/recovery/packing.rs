//! Chunks that are compressed at the source: at which level, on which threads. The rule is
//! `plimsoll_control::compression`'s; here it gets what it measures with. The source decides, as it is its
//! processors that are used; what the link carries is said by who asks.
//!
//! Compressing is done on a few threads of low priority. How much of a processor they get is seen from
//! their own time, so that a limit of the node's group and neighbours on the machine count as well;
//! and where searches wait for processors, the load line says so and less is compressed, or nothing.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::{Arc, OnceLock};

use flate2::Compression as DeflateLevel;
use flate2::write::DeflateEncoder;
use parking_lot::Mutex;
use plimsoll_base::Time;
use plimsoll_control::average::FadingMean;
use plimsoll_control::compression::{Bounds, Compression};
use rustix::time::{ClockId, clock_gettime};

use crate::machine::low_priority::LowPriority;
use crate::wire::{CopyFile, Encoding, FileKind, Packing};

/// The most threads that compress; half of the processors where those are fewer.
const THREADS_MAX: usize = 8;
/// Chunks below this many bytes are not compressed: the answer around them is as long.
const BYTES_MIN: usize = 1 << 10;
/// The published level of deflate.
const DEFLATE_LEVEL: u32 = 3;
/// What is seen of the processors fades by e within this time.
const SHARE_SPAN_NS: u64 = 2_000_000_000;
/// Runnable work for each processor, in thousandths, at which none of them counts as free.
const DEMAND_MAX_PERMILLE: u32 = 2_000;

/// The kinds of files that are known apart, by what their names end in: rows' tables, the parts of an
/// index' segments, and all others.
const ENDINGS: [&str; 8] =
    [".sst", ".store", ".fast", ".idx", ".pos", ".term", ".fieldnorm", ".del"];
/// How many kinds there are.
const KINDS: usize = ENDINGS.len() + 1;

/// What is known of a checkpoint's kinds of files.
pub(super) type Known = Mutex<Compression>;

/// Nothing yet.
pub(super) fn unknown() -> Known {
    Mutex::new(Compression::new(KINDS))
}

fn kind_of(file: &CopyFile) -> usize {
    let known = ENDINGS.iter().position(|ending| file.name.ends_with(ending));
    known.filter(|kind| (*kind == 0) == (file.kind == FileKind::Rows)).unwrap_or(KINDS - 1)
}

/// The threads that compress chunks, and how much of the processors they get.
pub(super) struct Packer {
    threads: usize,
    /// Started with the first chunk; none where the system has no room for any.
    aside: OnceLock<Option<LowPriority>>,
    time: Time,
    /// Of the time that they worked, how much they had a processor.
    share: Arc<Mutex<FadingMean>>,
}

/// A chunk as it goes out.
pub(super) struct Packed {
    pub encoding: Encoding,
    pub bytes: Vec<u8>,
}

/// What compressing gave, and what it took.
struct Outcome {
    bytes: io::Result<Vec<u8>>,
    ran_ns: u64,
}

impl Packer {
    pub(super) fn new(time: &Time) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) / 2;
        Self {
            threads: threads.clamp(1, THREADS_MAX),
            aside: OnceLock::new(),
            time: time.clone(),
            share: Arc::new(Mutex::new(FadingMean::new(SHARE_SPAN_NS))),
        }
    }

    /// Compresses a chunk of a file as it is asked for, unless that does not pay; `demand_permille` is
    /// the node's load line's. Blocks.
    pub(super) fn pack(
        &self,
        known: &Known,
        file: &CopyFile,
        bytes: Vec<u8>,
        packing: Packing,
        demand_permille: u32,
    ) -> Packed {
        let plain = |bytes| Packed { encoding: Encoding::Plain, bytes };
        if bytes.len() < BYTES_MIN {
            return plain(bytes);
        }
        let kind = kind_of(file);
        let (level, encoding) = match packing {
            Packing::Measured { link_bytes_s } => {
                let bounds = Bounds {
                    link_bytes_s: Some(link_bytes_s as f64),
                    free_processors: self.free_processors(demand_permille),
                };
                (known.lock().choose(kind, &bounds), Encoding::Zstd)
            }
            Packing::Deflate => (0, Encoding::Deflate),
        };
        if encoding == Encoding::Zstd && level == 0 {
            return plain(bytes);
        }
        let bytes = Arc::new(bytes);
        let outcome = self.compress(&bytes, encoding, level);
        let bytes = Arc::unwrap_or_clone(bytes);
        let Outcome { bytes: packed, ran_ns } = outcome;
        match packed {
            Ok(packed) => {
                let (before, after) = (bytes.len() as u64, packed.len() as u64);
                known.lock().on_chunk(kind, level, before, after, ran_ns);
                if packed.len() < bytes.len() {
                    return Packed { encoding, bytes: packed };
                }
                plain(bytes)
            }
            Err(error) => {
                tracing::warn!(%error, "a chunk goes out as it is");
                plain(bytes)
            }
        }
    }

    /// How many processors could compress, as far as can be seen.
    fn free_processors(&self, demand_permille: u32) -> f64 {
        let now_ns = self.now_ns();
        let share = {
            let share = self.share.lock();
            // What was seen long ago says nothing of now.
            let fresh = share.weight(now_ns).min(1.0);
            1.0 + (share.mean().unwrap_or(1.0) - 1.0) * fresh
        };
        let left = DEMAND_MAX_PERMILLE.saturating_sub(demand_permille.max(1_000));
        self.threads as f64 * share * f64::from(left) / f64::from(DEMAND_MAX_PERMILLE - 1_000)
    }

    /// Has one of the threads do it, and waits for it.
    fn compress(&self, bytes: &Arc<Vec<u8>>, encoding: Encoding, level: u8) -> Outcome {
        let aside = self.aside.get_or_init(|| LowPriority::start(self.threads));
        let Some(aside) = aside else { return compressed(bytes, encoding, level) };
        let (tell, told) = crossbeam_channel::bounded(1);
        let (bytes, share) = (Arc::clone(bytes), Arc::clone(&self.share));
        let time = self.time.clone();
        aside.give(move || {
            let from = time.now();
            let outcome = compressed(&bytes, encoding, level);
            drop(bytes);
            let now = time.now();
            let took_ns = now.0.saturating_sub(from.0).max(1);
            let had = (outcome.ran_ns as f64 / took_ns as f64).min(1.0);
            share.lock().add(now.0, had);
            let _ = tell.send(outcome);
        });
        let gone = || Outcome { bytes: Err(io::Error::other("compressing panicked")), ran_ns: 0 };
        told.recv().unwrap_or_else(|_| gone())
    }

    fn now_ns(&self) -> u64 {
        self.time.now().0
    }
}

fn compressed(bytes: &[u8], encoding: Encoding, level: u8) -> Outcome {
    let before_ns = thread_ns();
    let bytes = match encoding {
        Encoding::Plain => Ok(bytes.to_vec()),
        Encoding::Zstd => zstd_compressed(bytes, level),
        Encoding::Deflate => deflated(bytes),
    };
    Outcome { bytes, ran_ns: thread_ns().saturating_sub(before_ns) }
}

fn zstd_compressed(bytes: &[u8], level: u8) -> io::Result<Vec<u8>> {
    thread_local! {
        /// Its tables take up to some 10 MB: made once for a thread.
        static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> =
            const { RefCell::new(None) };
    }
    COMPRESSOR.with_borrow_mut(|kept| {
        let level = i32::from(level);
        let mut compressor = match kept.take() {
            Some(compressor) => compressor,
            None => zstd::bulk::Compressor::new(level)?,
        };
        compressor.set_compression_level(level)?;
        let compressed = compressor.compress(bytes);
        *kept = Some(compressor);
        compressed
    })
}

fn deflated(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), DeflateLevel::new(DEFLATE_LEVEL));
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// The processor time of the calling thread.
fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let of = |number: i64| u64::try_from(number).unwrap_or(0);
    of(time.tv_sec).saturating_mul(1_000_000_000).saturating_add(of(time.tv_nsec))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// 8 MiB of nothing in a few bytes.
    pub(in crate::recovery) fn deflated_zeros() -> Vec<u8> {
        deflated(&vec![0; 8 << 20]).unwrap()
    }

    fn file(kind: FileKind, name: &str) -> CopyFile {
        CopyFile { kind, name: name.to_owned(), bytes: 1, identity: 1, checksum: None }
    }

    #[test]
    fn kinds_are_told_apart_by_names() {
        let kinds = [
            (FileKind::Rows, "000012.sst"),
            (FileKind::Index, "0f.store"),
            (FileKind::Index, "0f.fast"),
            (FileKind::Rows, "MANIFEST-000001"),
        ]
        .map(|(kind, name)| kind_of(&file(kind, name)));
        assert_eq!(kinds, [0, 1, 2, KINDS - 1]);
        assert_eq!(kind_of(&file(FileKind::Rows, "x.store")), KINDS - 1);
        assert_eq!(kind_of(&file(FileKind::Index, "x.sst")), KINDS - 1);
    }

    #[test]
    fn what_does_not_pay_goes_out_as_it_is() {
        let (packer, known) = (Packer::new(&Time::of_the_machine()), unknown());
        let file = file(FileKind::Rows, "000012.sst");
        let text = b"the same words again and again ".repeat(2_000);
        let pack = |bytes: &[u8], packing, demand| {
            packer.pack(&known, &file, bytes.to_vec(), packing, demand)
        };
        let slow = Packing::Measured { link_bytes_s: 1_000_000 };
        let packed = pack(&text, slow, 1_000);
        assert_eq!(packed.encoding, Encoding::Zstd);
        assert!(packed.bytes.len() < text.len() / 10);
        assert_eq!(pack(&text, Packing::Deflate, 9_000).encoding, Encoding::Deflate);
        for (bytes, packing, demand) in [
            (&text[..], slow, DEMAND_MAX_PERMILLE),
            (&text[..], Packing::Measured { link_bytes_s: u64::MAX }, 1_000),
            (&text[..100], slow, 1_000),
            (&text[..0], Packing::Deflate, 1_000),
        ] {
            let packed = pack(bytes, packing, demand);
            assert_eq!((packed.encoding, packed.bytes.as_slice()), (Encoding::Plain, bytes));
        }
    }

    #[test]
    fn random_bytes_go_out_as_they_are() {
        let (packer, known) = (Packer::new(&Time::of_the_machine()), unknown());
        let mut random = plimsoll_control::Random::new(3);
        let noise: Vec<u8> = (0..5_000).flat_map(|_| random.next_u64().to_le_bytes()).collect();
        let file = file(FileKind::Index, "0f.idx");
        for packing in [Packing::Deflate, Packing::Measured { link_bytes_s: 1_000 }] {
            let packed = packer.pack(&known, &file, noise.clone(), packing, 0);
            assert_eq!((packed.encoding, packed.bytes), (Encoding::Plain, noise.clone()));
        }
    }
}
