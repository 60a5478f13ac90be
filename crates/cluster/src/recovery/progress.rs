//! What is told about copies of replicas: one record each, kept for a while after it ended. A copy
//! is of one partition at a time: who holds its [`Recovery`] has its folders to himself.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::time::Instant;
use plimsoll_base::{Time, World};
use plimsoll_log::PartitionId;

use super::bound::{Bound, Bounds};
use super::window::Ahead;
use crate::wire::{CopyFile, FileKind};

/// How many that have ended are kept.
const ENDED_MAX: usize = 100;
/// Over how many seconds the speed is measured.
const RATE_SECONDS: usize = 10;

/// How far a copy is, in Elasticsearch's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Nothing was copied yet.
    Init,
    /// Files are being copied.
    Index,
    /// The log is being read on from where the copy stands.
    Translog,
    /// It is about to serve.
    Finalize,
    /// It serves.
    Done,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Init => "INIT",
            Self::Index => "INDEX",
            Self::Translog => "TRANSLOG",
            Self::Finalize => "FINALIZE",
            Self::Done => "DONE",
        })
    }
}

/// What is told about one copy.
#[derive(Clone, Debug, PartialEq)]
pub struct RecoveryStatus {
    /// Which partition is copied.
    pub partition: PartitionId,
    /// The node that is copied from.
    pub source: Arc<str>,
    /// The node that it is copied to.
    pub target: Arc<str>,
    /// How far it is; of one that failed, how far it came.
    pub stage: Stage,
    /// Why it ended before it was done.
    pub failure: Option<String>,
    /// Files of the checkpoint.
    pub files_total: u64,
    /// Those that were there before, whole.
    pub files_reused: u64,
    /// Those that were copied, whole.
    pub files_recovered: u64,
    /// Bytes of the checkpoint.
    pub bytes_total: u64,
    /// Those that were there before.
    pub bytes_reused: u64,
    /// Those that were copied and written.
    pub bytes_recovered: u64,
    /// Bytes of chunks as they came: compressed, and more than once where one was damaged.
    pub bytes_wire: u64,
    /// When it began, ms since 1970.
    pub started_ms: u64,
    /// When it ended, ms since 1970; none while it goes on.
    pub stopped_ms: Option<u64>,
    /// How long it has gone on, or took, ms.
    pub took_ms: u64,
    /// Bytes per second that arrived of late; over all of its time once it has ended.
    pub bytes_s: u64,
    /// How much longer files are copied, by that, those of copies before it included; none where nothing
    /// arrives.
    pub left_ms: Option<u64>,
    /// How long it held back for other work of the node, ms.
    pub throttled_ms: u64,
    /// How long the source says that it held its chunks back, one after the other, ms.
    pub source_throttled_ms: u64,
    /// What has kept it from going faster of late; none once it has ended.
    pub limited_by: Option<Bound>,
}

/// The copies that a node makes and has made.
pub(crate) struct Recoveries {
    node: Arc<str>,
    world: World,
    /// In the order of their beginnings.
    records: Mutex<VecDeque<Arc<Mutex<Record>>>>,
}

/// A copy of this partition is being made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("partition {0} is being copied already")]
pub(crate) struct AlreadyRunning(pub PartitionId);

/// A copy being made; where it is dropped unfinished, it has failed.
pub(crate) struct Recovery {
    /// What the copy has of time and tasks.
    pub(super) world: World,
    record: Arc<Mutex<Record>>,
}

/// A file's kind and name.
type FileKey = (FileKind, String);

fn key(file: &CopyFile) -> FileKey {
    (file.kind, file.name.clone())
}

struct Record {
    status: RecoveryStatus,
    /// Of files, the bytes that were there before.
    before: HashMap<FileKey, u64>,
    rate: Rate,
    bounds: Bounds,
    received: u64,
    /// Up to when waits at the source are counted, since the beginning.
    source_held_until: Duration,
    time: Time,
    began: Instant,
    /// What comes before it, where other copies do.
    ahead: Option<Ahead>,
}

impl Recoveries {
    /// None yet; `node` is the name of this node.
    pub(crate) fn new(node: &str, world: &World) -> Self {
        Self { node: node.into(), world: world.clone(), records: Mutex::default() }
    }

    /// Begins the record of a copy from the node `source`.
    ///
    /// # Errors
    /// While another copy of the partition is being made, be it that the last of its writes has
    /// not ended after it was given up.
    pub(crate) fn begin(
        &self,
        partition: PartitionId,
        source: &str,
    ) -> Result<Arc<Recovery>, AlreadyRunning> {
        let mut records = self.records.lock();
        let runs = |record: &Arc<Mutex<Record>>| {
            let record = record.lock();
            record.status.partition == partition && record.status.stopped_ms.is_none()
        };
        if records.iter().any(runs) {
            return Err(AlreadyRunning(partition));
        }
        let (world, time) = (self.world.clone(), self.world.time.clone());
        let (began, began_ms) = (time.now(), time.wall_ms());
        let nodes = (source.into(), Arc::clone(&self.node));
        let status = RecoveryStatus::new(partition, nodes, began_ms);
        let (before, rate, bounds) = (HashMap::new(), Rate::default(), Bounds::new());
        let (source_held_until, ahead) = (Duration::ZERO, None);
        let record = Record {
            status,
            before,
            rate,
            bounds,
            received: 0,
            source_held_until,
            time,
            began,
            ahead,
        };
        let record = Arc::new(Mutex::new(record));
        records.push_back(Arc::clone(&record));
        let is_ended = |it: &Arc<Mutex<Record>>| it.lock().status.stopped_ms.is_some();
        if records.iter().filter(|it| is_ended(it)).count() > ENDED_MAX
            && let Some(oldest) = records.iter().position(is_ended)
        {
            records.remove(oldest);
        }
        Ok(Arc::new(Recovery { world, record }))
    }

    /// All that are kept, the earliest first.
    pub(crate) fn all(&self) -> Vec<RecoveryStatus> {
        self.records.lock().iter().map(|record| record.lock().status()).collect()
    }
}

impl Recovery {
    /// What is told about it now.
    #[cfg(test)]
    pub(crate) fn status(&self) -> RecoveryStatus {
        self.record.lock().status()
    }

    /// It has come this far.
    pub(crate) fn enter(&self, stage: Stage) {
        if stage > Stage::Index {
            self.bounded(Bound::Target);
        }
        let mut record = self.record.lock();
        let (partition, elapsed_ms) = (record.status.partition, whole_ms(record.elapsed()));
        tracing::debug!(%partition, %stage, elapsed_ms, "a copy is in its next stage");
        record.status.stage = stage;
        if stage == Stage::Done {
            record.end();
        }
    }

    /// It ends without being done.
    pub(crate) fn fail(&self, reason: &str) {
        let mut record = self.record.lock();
        if record.status.stopped_ms.is_none() {
            record.status.failure = Some(reason.to_owned());
            record.end();
        }
    }

    /// The checkpoint's files, each with how much of it is there. Known anew when the source has
    /// opened another: what was copied before that counts as copied.
    pub(super) fn planned<'a>(&self, files: impl Iterator<Item = (&'a CopyFile, u64)>) {
        let mut record = self.record.lock();
        let Record { status, before, .. } = &mut *record;
        let [mut total, mut reused, mut recovered] = [(0, 0); 3];
        let add = |sum: &mut (u64, u64), is_whole: bool, bytes: u64| {
            sum.0 += u64::from(is_whole);
            sum.1 += bytes;
        };
        for (file, there) in files {
            // Of a file that only a later checkpoint has, what is there now was there before.
            let of_before = before.entry(key(file)).or_insert(there);
            // What is gone was another file of that name.
            *of_before = there.min(*of_before);
            let of_before = *of_before;
            let is_whole = there == file.bytes;
            let was_whole = is_whole && of_before == there && there > 0;
            add(&mut total, true, file.bytes);
            add(&mut reused, was_whole, of_before);
            add(&mut recovered, is_whole && !was_whole, there - of_before);
        }
        (status.files_total, status.bytes_total) = total;
        (status.files_reused, status.bytes_reused) = reused;
        (status.files_recovered, status.bytes_recovered) = recovered;
    }

    /// A chunk came, as so many bytes.
    pub(super) fn came(&self, bytes: u64) {
        self.record.lock().status.bytes_wire += bytes;
    }

    /// Bytes have arrived.
    pub(super) fn received(&self, bytes: u64) {
        let mut record = self.record.lock();
        let at = record.elapsed().as_secs();
        record.received += bytes;
        record.rate.add(at, bytes);
    }

    /// Bytes of a file were written, and with them all of it where `is_whole`.
    pub(super) fn stored(&self, bytes: u64, is_whole: bool) {
        let status = &mut self.record.lock().status;
        status.bytes_recovered += bytes;
        status.files_recovered += u64::from(is_whole);
    }

    /// All of a file was there and written, and was not what it should be: it begins anew.
    pub(super) fn undone(&self, file: &CopyFile) {
        let mut record = self.record.lock();
        let Record { status, before, .. } = &mut *record;
        let reused = before.insert(key(file), 0).unwrap_or(0);
        status.bytes_reused = status.bytes_reused.saturating_sub(reused);
        status.bytes_recovered = status.bytes_recovered.saturating_sub(file.bytes - reused);
    }

    /// Other copies come before it, or none.
    pub(super) fn is_behind(&self, ahead: Option<Ahead>) {
        self.record.lock().ahead = ahead;
    }

    /// What keeps it from going faster from now on.
    pub(super) fn bounded(&self, by: Bound) {
        let mut record = self.record.lock();
        let elapsed = record.elapsed();
        record.bounds.note(by, elapsed);
    }

    /// It waited for other work.
    pub(super) fn throttled(&self, time: Duration) {
        self.record.lock().status.throttled_ms += whole_ms(time);
    }

    /// A chunk came that waited at its source for the other work there. Of chunks that waited side by side
    /// each counts for the time that it waited longer than the one before.
    pub(super) fn throttled_at_source(&self, held: Duration) {
        let mut record = self.record.lock();
        let now = record.elapsed();
        let since = record.source_held_until.max(now.saturating_sub(held));
        record.source_held_until = now;
        record.status.source_throttled_ms += whole_ms(now.saturating_sub(since));
    }
}

impl Drop for Recovery {
    fn drop(&mut self) {
        self.fail("it was given up");
    }
}

impl RecoveryStatus {
    fn new(
        partition: PartitionId,
        (source, target): (Arc<str>, Arc<str>),
        started_ms: u64,
    ) -> Self {
        Self {
            partition,
            source,
            target,
            stage: Stage::Init,
            failure: None,
            files_total: 0,
            files_reused: 0,
            files_recovered: 0,
            bytes_total: 0,
            bytes_reused: 0,
            bytes_recovered: 0,
            bytes_wire: 0,
            started_ms,
            stopped_ms: None,
            took_ms: 0,
            bytes_s: 0,
            left_ms: None,
            throttled_ms: 0,
            source_throttled_ms: 0,
            limited_by: None,
        }
    }
}

impl Record {
    fn elapsed(&self) -> Duration {
        self.time.now() - self.began
    }

    fn status(&self) -> RecoveryStatus {
        let mut status = self.status.clone();
        if status.stopped_ms.is_none() {
            let elapsed = self.elapsed();
            status.took_ms = whole_ms(elapsed);
            status.bytes_s = self.rate.bytes_s(elapsed);
            let there = status.bytes_reused + status.bytes_recovered;
            status.limited_by = Some(self.bounds.longest(elapsed));
            let left = status.bytes_total.saturating_sub(there);
            status.left_ms = match self.ahead {
                Some(Ahead { bytes, bytes_s }) => left_ms(left + bytes, bytes_s),
                None => left_ms(left, status.bytes_s),
            };
        }
        status
    }

    fn end(&mut self) {
        let elapsed = self.elapsed();
        self.status.took_ms = whole_ms(elapsed);
        self.status.stopped_ms = Some(self.status.started_ms + self.status.took_ms);
        self.status.bytes_s = self.received * 1000 / self.status.took_ms.max(1);
        self.status.left_ms = Some(0).filter(|_| self.status.failure.is_none());
        self.before = HashMap::new();
    }
}

/// How long so many bytes take at this speed, ms.
fn left_ms(bytes: u64, bytes_s: u64) -> Option<u64> {
    if bytes == 0 { Some(0) } else { bytes.saturating_mul(1000).checked_div(bytes_s) }
}

fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Bytes that arrived in each of the last seconds.
#[derive(Default)]
struct Rate {
    seconds: [u64; RATE_SECONDS],
    /// The latest second that is counted.
    last: u64,
}

impl Rate {
    fn add(&mut self, second: u64, bytes: u64) {
        // Those passed over since the last had nothing.
        let passed = second.saturating_sub(self.last).min(RATE_SECONDS as u64);
        for ago in 0..passed {
            *self.slot(second - ago) = 0;
        }
        self.last = self.last.max(second);
        *self.slot(second) += bytes;
    }

    fn slot(&mut self, second: u64) -> &mut u64 {
        let at = usize::try_from(second % RATE_SECONDS as u64).unwrap_or(0);
        &mut self.seconds[at]
    }

    fn bytes_s(&self, elapsed: Duration) -> u64 {
        let second = elapsed.as_secs();
        let length = RATE_SECONDS as u64;
        let counts = |second: &u64| self.last.saturating_sub(*second) < length;
        let first = (second + 1).saturating_sub(length);
        let of = |second: u64| self.seconds[usize::try_from(second % length).unwrap_or(0)];
        let bytes: u64 = (first..=second.min(self.last)).filter(counts).map(of).sum();
        let time_ms = whole_ms(elapsed).saturating_sub(first * 1000).max(1);
        bytes.saturating_mul(1000) / time_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: PartitionId = PartitionId { table: 1, ordinal: 0 };

    fn file(name: &str, bytes: u64) -> CopyFile {
        let (kind, name) = (FileKind::Rows, name.to_owned());
        CopyFile { kind, name, bytes, identity: 1, checksum: None }
    }

    fn id(ordinal: u32) -> PartitionId {
        PartitionId { ordinal, ..ID }
    }

    #[test]
    fn a_rate_is_that_of_the_last_seconds() {
        let mut rate = Rate::default();
        let at = |ms| Duration::from_millis(ms);
        assert_eq!(rate.bytes_s(at(0)), 0);
        rate.add(0, 500);
        assert_eq!(rate.bytes_s(at(500)), 1000);
        (1..10).for_each(|second| rate.add(second, 1000));
        assert_eq!(rate.bytes_s(at(9_500)), 1000);
        assert_eq!(rate.bytes_s(at(10_500)), 947, "the first has passed out of it");
        (10..30).for_each(|second| rate.add(second, 2000));
        assert_eq!(rate.bytes_s(at(30_000)), 2000);
        assert_eq!(rate.bytes_s(at(34_999)), 1000, "five seconds without any");
        assert_eq!(rate.bytes_s(at(60_000)), 0);
        rate.add(100, 50);
        assert_eq!(rate.bytes_s(at(101_000)), 5, "what lies between is forgotten");
    }

    #[test]
    fn stages_have_the_words_that_clients_know() {
        let stages = [Stage::Init, Stage::Index, Stage::Translog, Stage::Finalize, Stage::Done];
        let words = stages.map(|stage| stage.to_string());
        assert_eq!(words, ["INIT", "INDEX", "TRANSLOG", "FINALIZE", "DONE"]);
        assert!(stages.is_sorted());
    }

    #[test]
    fn what_is_left_takes_as_long_as_it_has_taken() {
        assert_eq!(left_ms(0, 0), Some(0));
        assert_eq!(left_ms(10, 0), None);
        assert_eq!(left_ms(3000, 2000), Some(1500));
    }

    #[test]
    fn bytes_are_reused_or_recovered_also_when_the_source_begins_anew() {
        let recoveries = Recoveries::new("here", &World::of_the_machine());
        let recovery = recoveries.begin(ID, "there").unwrap();
        let files = [file("a", 10), file("b", 20), file("c", 30)];
        recovery.planned(files.iter().zip([10, 5, 0]));
        recovery.stored(15, true);
        recovery.stored(7, false);
        let counts = || {
            let status = recovery.status();
            [
                (status.files_total, status.bytes_total),
                (status.files_reused, status.bytes_reused),
                (status.files_recovered, status.bytes_recovered),
            ]
        };
        assert_eq!(counts(), [(3, 60), (1, 15), (1, 22)]);
        // The second checkpoint has another file, of which a part happens to be there.
        let files = [file("a", 10), file("b", 20), file("c", 30), file("d", 9)];
        recovery.planned(files.iter().zip([10, 20, 7, 2]));
        assert_eq!(counts(), [(4, 69), (1, 17), (1, 22)]);
        recovery.stored(23, true);
        recovery.stored(7, true);
        assert_eq!(counts(), [(4, 69), (1, 17), (3, 52)]);
        recovery.undone(&files[3]);
        assert_eq!(counts()[1..], [(1, 15), (3, 45)]);
    }

    #[test]
    fn one_copy_of_a_partition_goes_on_at_a_time_and_the_last_hundred_are_kept() {
        let recoveries = Recoveries::new("here", &World::of_the_machine());
        let running = recoveries.begin(id(1000), "there").unwrap();
        assert_eq!(recoveries.begin(id(1000), "elsewhere").err(), Some(AlreadyRunning(id(1000))));
        for ordinal in 0..150 {
            let recovery = recoveries.begin(id(ordinal), "there").unwrap();
            if ordinal % 2 == 0 {
                recovery.enter(Stage::Done);
            }
        }
        let all = recoveries.all();
        assert_eq!(all[0].partition, id(1000), "one that goes on is never forgotten");
        assert_eq!((all[0].stopped_ms, all[0].stage.to_string().as_str()), (None, "INIT"));
        let ended: Vec<&RecoveryStatus> = all[1..].iter().collect();
        assert!((ENDED_MAX..=ENDED_MAX + 1).contains(&ended.len()), "{}", ended.len());
        for status in ended {
            let is_done = status.partition.ordinal % 2 == 0;
            assert_eq!(status.failure.is_none(), is_done);
            assert_eq!(status.stage == Stage::Done, is_done);
            assert!(status.stopped_ms.is_some_and(|at| at >= status.started_ms));
        }
        running.fail("the source is gone");
        assert_eq!(running.status().failure.as_deref(), Some("the source is gone"));
        assert!(recoveries.begin(id(1000), "elsewhere").is_ok());
    }
}
