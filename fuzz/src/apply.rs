//! Records applied to a replica on a disk, within a limit of memory: what one record makes a node
//! hold must be bounded by the budget of records, whatever its operations are. It says nothing of
//! RocksDB's own memory, which is not allocated here.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use plimsoll_log::record::{Anchor, Item, LeadStamp, Record};
use plimsoll_log::rules::chain::Position;
use plimsoll_log::{Incarnation, LeadId, Lsn, PartitionId, SessionId};
use plimsoll_storage::Argv;
use plimsoll_storage::operation::Operation;
use plimsoll_storage::partition::{
    Applied, BUDGETED_SINCE, OverBudget, RECORD_BYTES_MAX, Replica, Resources, StoreOptions,
};

/// What apply may hold beside the budget of a record: its bytes, the row that it has in hand, and
/// what was there before.
const BESIDE_BYTES: usize = 96 << 20;
/// The longest argument that a number stands for, bytes.
const ARGUMENT_BYTES_MAX: usize = 1 << 20;
/// The most operations of a record.
const OPERATIONS_MAX: usize = 2_000;

/// Counts what is allocated, and the most of it.
pub struct Peak;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator, counted.
unsafe impl GlobalAlloc for Peak {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(held, Relaxed);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's.
        unsafe { System.dealloc(block, layout) }
    }
}

struct World {
    _dir: tempfile::TempDir,
    replica: Replica,
    lsn: u64,
}

static WORLD: Mutex<Option<World>> = Mutex::new(None);

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder can be made");
        let resources = Resources::new(StoreOptions::default(), std::sync::Arc::new(|| {}));
        let id = PartitionId { table: 1, ordinal: 0 };
        let initial = Position { lsn: Lsn(0), hash: 0, log_time_ms: 0 };
        let replica = Replica::open(id, dir.path(), &resources, Incarnation(1), initial);
        Self { _dir: dir, replica: replica.expect("an empty replica opens"), lsn: 0 }
    }

    fn apply(&mut self, payloads: Vec<Bytes>) {
        self.lsn += 1;
        let stamp_ms = 1_700_000_000_000 + self.lsn;
        let session = SessionId(self.lsn);
        let items = vec![Item::Operations { session, first: 1, acked: 0, stamp_ms, payloads }];
        let lead = LeadStamp { lead: LeadId(7), epoch: 1, n: self.lsn };
        let partition = PartitionId { table: 1, ordinal: 0 };
        let (version, anchor) = (BUDGETED_SINCE, Anchor::default());
        let record = Record { partition, version, lead, stamp_ms, anchor, items };
        let position = Position { lsn: Lsn(self.lsn), hash: self.lsn, log_time_ms: stamp_ms };
        let before = HELD.load(Relaxed);
        MOST.store(before, Relaxed);
        let applied = self.replica.apply(position, &record, OverBudget::Refuse, &mut ());
        assert_eq!(applied, Ok(Applied::Taken), "a record has a deterministic outcome");
        let most = MOST.load(Relaxed).saturating_sub(before);
        let allowed = usize::try_from(RECORD_BYTES_MAX).unwrap_or(usize::MAX) + BESIDE_BYTES;
        assert!(most <= allowed, "{most} bytes for one record, {allowed} are allowed");
    }
}

/// One record: a line is a command, its words stand between spaces; `~n` is a word of n bytes, and
/// `n*` before a command repeats it. The first byte says whether all is one transaction.
pub fn apply(data: &[u8]) {
    let Some((first, text)) = data.split_first() else { return };
    let mut commands = Vec::new();
    let mut bytes = 0;
    for line in text.split(|byte| *byte == b'\n') {
        let mut words: Vec<Vec<u8>> = line.split(|byte| *byte == b' ').map(word).collect();
        let mut times = 1;
        if let Some(count) = words.first().and_then(|it| it.strip_suffix(b"*")) {
            times = number(count).unwrap_or(1);
            words.remove(0);
        }
        let argv = Argv::of(&words);
        if words.is_empty() || plimsoll_storage::command::lookup(&argv).is_err() {
            continue;
        }
        let size: usize = words.iter().map(Vec::len).sum();
        for _ in 0..times.min(OPERATIONS_MAX) {
            bytes += size + 16;
            if bytes > plimsoll_log::RECORD_BYTES_MAX / 2 || commands.len() >= OPERATIONS_MAX {
                break;
            }
            commands.push(argv.clone());
        }
    }
    if commands.is_empty() {
        return;
    }
    let payloads = if first % 2 == 0 {
        vec![Operation::Transaction { watched: Vec::new(), commands }.encode()]
    } else {
        commands.into_iter().map(|argv| Operation::Command(argv).encode()).collect()
    };
    let mut world = WORLD.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    world.get_or_insert_with(World::new).apply(payloads);
}

fn word(word: &[u8]) -> Vec<u8> {
    match word.strip_prefix(b"~").and_then(number) {
        Some(length) => vec![b'x'; length.min(ARGUMENT_BYTES_MAX)],
        None => word.to_vec(),
    }
}

fn number(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
