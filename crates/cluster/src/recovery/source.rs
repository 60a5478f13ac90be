//! The node that is copied from: checkpoints of its partitions, made for other nodes, and their
//! files in chunks. They are hard links and cost no room until the store rewrites its files, so
//! they are few, and those that nobody reads end by themselves.
//!
//! A node has one checkpoint of a partition at a time: where it asks again, because an answer was
//! lost or it was started anew, it gets the same one and goes on where it was.
//!
//! Nodes of other clusters have limits of their own, so that they use up nothing that the nodes of
//! this one need; and more patience, as their way is long.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::World;
use plimsoll_base::random::Draws;
use plimsoll_base::time::Instant;
use plimsoll_log::PartitionId;
use plimsoll_storage::ErrorKind;
use plimsoll_storage::partition::Checksum;
use tokio::sync::{Semaphore, watch};

use super::checkpoint::{Checkpoint, CheckpointError, PREFIX, Subject};
use super::hashing::Known;
use super::kept::{Kept, own_bytes};
use super::options::CHECKSUMS_MAX;
use super::packing::{Packed, Packer};
use crate::wire::{Problem, Question, Reply, checksum_of, chunk_checksum};

/// The largest chunk, bytes.
const CHUNK_BYTES_MAX: u32 = 5 << 20;
/// How many checkpoints may be there at once.
const CHECKPOINTS_MAX: usize = 4;
/// The same for nodes of other clusters.
const FOLLOWERS_CHECKPOINTS_MAX: usize = 8;
/// After how long without a chunk a checkpoint is closed.
const IDLE_MAX: Duration = Duration::from_secs(5 * 60);
/// The same for nodes of other clusters.
const FOLLOWERS_IDLE_MAX: Duration = Duration::from_secs(3600);
/// What of the disk the checkpoints of other clusters' nodes may keep that nothing else does, the
/// reciprocal of the part.
const FOLLOWERS_DISK_PART: u64 = 10;
/// How often it is looked how much that is.
const SIZES_INTERVAL: Duration = Duration::from_secs(10);
/// How many chunks are read at once; others wait.
const READS_MAX: usize = 16;
/// The same for nodes of other clusters.
const FOLLOWERS_READS_MAX: usize = 8;

/// A node's checkpoints for others.
pub(crate) struct Checkpoints {
    world: World,
    /// Their numbers: drawn, so that one of an earlier run is not taken for another.
    numbers: Draws,
    dir: PathBuf,
    open: Mutex<BTreeMap<u64, Entry>>,
    reads: Arc<Semaphore>,
    followers_reads: Arc<Semaphore>,
    known: Arc<Known>,
    packer: Arc<Packer>,
    /// When it was looked how much followers' checkpoints keep.
    sizes_at: Mutex<Option<Instant>>,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker<'a> {
    /// A node of this cluster, by its name.
    Node(&'a str),
    /// One of another, by a name that no other asker has.
    Follower(&'a str),
}

impl Asker<'_> {
    fn checkpoints_max(self) -> usize {
        match self {
            Self::Node(_) => CHECKPOINTS_MAX,
            Self::Follower(_) => FOLLOWERS_CHECKPOINTS_MAX,
        }
    }

    fn is_follower(self) -> bool {
        matches!(self, Self::Follower(_))
    }
}

struct Entry {
    /// The node that it was made for.
    from: String,
    /// Whether that is of another cluster.
    is_follower: bool,
    partition: PartitionId,
    used_at: Instant,
    made: watch::Receiver<Option<Made>>,
}

/// Bytes of a file, with the checksum of all of it where they are its last.
type Piece = (Vec<u8>, Option<u64>);

/// A piece as it is in the file.
fn plain(_: &Checkpoint, _: usize, piece: Piece) -> Piece {
    piece
}

/// What came of making a checkpoint.
type Made = Result<Arc<Checkpoint>, Arc<CheckpointError>>;

impl Checkpoints {
    /// Those of other clusters' nodes that an earlier run left below the node's data folder; what else it
    /// left is deleted. Blocks.
    ///
    /// # Errors
    /// Where the folder cannot be made or read, or what is left not be deleted.
    pub(crate) fn new(world: &World, data_dir: &Path) -> io::Result<Self> {
        let (dir, disk) = (data_dir.join("recovery"), &world.disk);
        disk.create_dir(&dir)?;
        let (mut open, known) = (BTreeMap::new(), Arc::default());
        for name in disk.list_dirs(&dir)? {
            let folder = dir.join(&name);
            let Some(number) = name.to_str().and_then(|it| it.strip_prefix(PREFIX)) else {
                continue;
            };
            let kept = Kept::read(disk, &folder);
            let kept = kept.filter(|it| number.parse() == Ok(it.listing.number));
            match kept.filter(|_| open.len() < FOLLOWERS_CHECKPOINTS_MAX) {
                Some(kept) => {
                    let number = kept.listing.number;
                    open.insert(number, Entry::kept(world, kept, folder, &known));
                }
                None => disk.remove_dir(&folder)?,
            }
        }
        disk.sync_dir(data_dir)?;
        let reads = Arc::new(Semaphore::new(READS_MAX));
        let followers_reads = Arc::new(Semaphore::new(FOLLOWERS_READS_MAX));
        let (open, packer) = (Mutex::new(open), Arc::new(Packer::new(&world.time)));
        let (world, numbers) = (world.clone(), world.random.draws("checkpoints"));
        let sizes_at = Mutex::default();
        Ok(Self { world, numbers, dir, open, reads, followers_reads, known, packer, sizes_at })
    }

    /// Answers the node `from` where the question is one about checkpoints. `find` gives what
    /// this node serves of a partition.
    pub(crate) async fn answer(
        &self,
        from: &str,
        question: &Question,
        find: impl FnOnce(PartitionId) -> Option<Subject>,
    ) -> Option<Reply> {
        match question {
            // Within a cluster nothing is compressed.
            Question::PackedChunk { .. } => None,
            _ => self.answer_to(Asker::Node(from), question, 0, find).await,
        }
    }

    /// The same for a node of another cluster, by a name that no other asker has. Whether it may have
    /// what it asks for is not looked at here. `demand_permille` is how much this node's processors are
    /// wanted: its load line's.
    pub(crate) async fn answer_follower(
        &self,
        from: &str,
        question: &Question,
        demand_permille: u32,
        find: impl FnOnce(PartitionId) -> Option<Subject>,
    ) -> Option<Reply> {
        self.answer_to(Asker::Follower(from), question, demand_permille, find).await
    }

    /// The partition of a checkpoint that a node of another cluster had made; `None` where there is
    /// none of this number, or it is another's.
    pub(crate) fn opened_by_follower(&self, from: &str, number: u64) -> Option<PartitionId> {
        let open = self.open.lock();
        let entry = open.get(&number).filter(|it| it.is_of(Asker::Follower(from)))?;
        Some(entry.partition)
    }

    async fn answer_to(
        &self,
        from: Asker<'_>,
        question: &Question,
        demand_permille: u32,
        find: impl FnOnce(PartitionId) -> Option<Subject>,
    ) -> Option<Reply> {
        let reads = if from.is_follower() { &self.followers_reads } else { &self.reads };
        let answer = match question {
            Question::OpenCheckpoint { partition } => {
                match self.open(from, (*partition).into(), find).await {
                    Ok(checkpoint) => self.plain(reads, checkpoint).await,
                    Err(problem) => Err(problem),
                }
            }
            Question::OpenCopy { partition } => {
                let opened = self.open(from, (*partition).into(), find).await;
                opened.map(|checkpoint| {
                    let listing = checkpoint.listing.clone();
                    let checksum = listing.checksum();
                    Reply::Copy { listing, checksum }
                })
            }
            Question::Chunk { checkpoint, file, offset, bytes_max } => {
                let place = |checkpoint: &Checkpoint| checkpoint.place(file);
                let chunk = self.chunk(reads, *checkpoint, place, *offset, *bytes_max, plain).await;
                chunk.map(|(bytes, _)| {
                    let checksum = Checksum::of(&bytes);
                    Reply::Chunk { bytes, checksum }
                })
            }
            Question::CopyChunk { checkpoint, file, offset, bytes_max } => {
                let place = |_: &Checkpoint| usize::try_from(*file).ok();
                let chunk = self.chunk(reads, *checkpoint, place, *offset, *bytes_max, plain).await;
                chunk.map(|(bytes, file_checksum)| {
                    let checksum = chunk_checksum(&bytes, file_checksum);
                    Reply::CopyChunk { bytes, file_checksum, checksum }
                })
            }
            Question::PackedChunk { checkpoint, file, offset, bytes_max, packing } => {
                let place = |_: &Checkpoint| usize::try_from(*file).ok();
                let (packer, packing) = (Arc::clone(&self.packer), *packing);
                let pack = move |from: &Checkpoint, at: usize, (bytes, file_checksum): Piece| {
                    let checksum = chunk_checksum(&bytes, file_checksum);
                    let (known, file) = (&from.shrinking, &from.listing.files[at]);
                    let Packed { encoding, bytes } =
                        packer.pack(known, file, bytes, packing, demand_permille);
                    Reply::PackedChunk { encoding, bytes, file_checksum, checksum }
                };
                self.chunk(reads, *checkpoint, place, *offset, *bytes_max, pack).await
            }
            Question::FileChecksums { checkpoint, files } => {
                self.checksums(reads, *checkpoint, files.clone()).await
            }
            Question::CloseCheckpoint { checkpoint } => {
                self.close(*checkpoint).await;
                Ok(Reply::Done)
            }
            _ => return None,
        };
        Some(answer.unwrap_or_else(Reply::Problem))
    }

    /// Closes the checkpoints of which no chunk was asked for since long before `now`, and those of
    /// other clusters' nodes that keep too much; says how many. Blocks while files are deleted.
    pub(crate) fn expire(&self, now: Instant) -> usize {
        let is_due = {
            let mut at = self.sizes_at.lock();
            let is_due = at.is_none_or(|at| now - at >= SIZES_INTERVAL);
            *at = if is_due { Some(now) } else { *at };
            is_due
        };
        let large = || {
            let space = self.world.disk.space(&self.dir);
            self.expire_large(space.map_or(u64::MAX, |it| it.total_bytes / FOLLOWERS_DISK_PART))
        };
        self.expire_idle(now) + if is_due { large() } else { 0 }
    }

    /// Closes checkpoints of other clusters' nodes while what they alone keep on disk is more than
    /// that: first the one of which no chunk was asked for the longest.
    pub(super) fn expire_large(&self, bytes_max: u64) -> usize {
        let of_followers = |(number, entry): (&u64, &Entry)| match &*entry.made.borrow() {
            Some(Ok(made)) if entry.is_follower => Some((entry.used_at, *number, Arc::clone(made))),
            _ => None,
        };
        let mut kept: Vec<_> = self.open.lock().iter().filter_map(of_followers).collect();
        kept.sort_unstable_by_key(|(used_at, number, _)| (*used_at, *number));
        let disk = &self.world.disk;
        let sizes = kept.iter().map(|(.., made)| own_bytes(disk, made.folder(), &made.listing));
        let sizes: Vec<u64> = sizes.collect();
        let mut bytes: u64 = sizes.iter().sum();
        let mut closed = 0;
        for ((_, number, made), size) in kept.into_iter().zip(sizes) {
            if bytes <= bytes_max {
                break;
            }
            bytes -= size;
            if size == 0 {
                continue;
            }
            let folder = made.folder().display();
            tracing::warn!(%folder, size, bytes_max, "a checkpoint for a follower keeps too much");
            let entry = self.open.lock().remove(&number);
            closed += usize::from(entry.is_some());
        }
        closed
    }

    fn expire_idle(&self, now: Instant) -> usize {
        let mut open = self.open.lock();
        let idle = |at: Instant, max: Duration| now - at >= max;
        let expired: Vec<Entry> = open
            .extract_if(.., |_, entry| match &*entry.made.borrow() {
                Some(Ok(checkpoint)) => {
                    let idle_max = if entry.is_follower { FOLLOWERS_IDLE_MAX } else { IDLE_MAX };
                    idle(entry.used_at.max(checkpoint.made_at), idle_max)
                }
                Some(Err(_)) => true,
                // One that is being made ends by itself, unless its maker is gone.
                None => entry.made.has_changed().is_err(),
            })
            .map(|(_, entry)| entry)
            .collect();
        drop(open);
        expired.len()
    }

    async fn open(
        &self,
        from: Asker<'_>,
        partition: PartitionId,
        find: impl FnOnce(PartitionId) -> Option<Subject>,
    ) -> Result<Arc<Checkpoint>, Problem> {
        let subject = find(partition)
            .ok_or_else(|| Problem::NotHere(format!("partition {partition} is not served here")))?;
        let (number, mut made) = self.begin(from, partition, subject)?;
        let outcome = match made.wait_for(Option::is_some).await {
            Ok(made) => made.clone(),
            Err(_) => None,
        };
        match outcome.unwrap_or_else(|| Err(Arc::new(CheckpointError::GivenUp))) {
            Ok(checkpoint) => Ok(checkpoint),
            Err(reason) => {
                self.close(number).await;
                tracing::warn!(%partition, %reason, "a checkpoint cannot be made");
                Err(failed(
                    ErrorKind::General,
                    format!("no checkpoint of partition {partition}: {reason}"),
                ))
            }
        }
    }

    /// The listing with all checksums, for which every file is read.
    async fn plain(
        &self,
        reads: &Arc<Semaphore>,
        checkpoint: Arc<Checkpoint>,
    ) -> Result<Reply, Problem> {
        let listing = self.reading(reads, move || checkpoint.plain()).await;
        let listing = listing
            .map_err(|error| failed(ErrorKind::General, format!("a checkpoint: {error}")))?;
        let checksum = listing.checksum();
        Ok(Reply::Checkpoint { listing, checksum })
    }

    async fn checksums(
        &self,
        reads: &Arc<Semaphore>,
        number: u64,
        files: Vec<u32>,
    ) -> Result<Reply, Problem> {
        let checkpoint = self.used(number).ok_or(Problem::CheckpointGone)?;
        let places: Option<Vec<usize>> = files
            .iter()
            .map(|file| usize::try_from(*file).ok().filter(|at| checkpoint.bytes(*at).is_some()))
            .collect();
        let places = places.filter(|places| places.len() <= CHECKSUMS_MAX).ok_or_else(no_file)?;
        let read = move || places.into_iter().map(|at| checkpoint.checksum(at)).collect();
        let checksums: io::Result<Vec<u64>> = self.reading(reads, read).await;
        let checksums = checksums.map_err(|error| {
            failed(ErrorKind::General, format!("a file cannot be read: {error}"))
        })?;
        let checksum = checksum_of(&checksums);
        Ok(Reply::FileChecksums { checksums, checksum })
    }

    /// Has a checkpoint made on a thread that may block, unless there is one.
    fn begin(
        &self,
        from: Asker<'_>,
        partition: PartitionId,
        subject: Subject,
    ) -> Result<(u64, watch::Receiver<Option<Made>>), Problem> {
        let mut open = self.open.lock();
        let known = open.iter_mut().find(|(_, it)| it.is_of(from) && it.partition == partition);
        if let Some((number, entry)) = known {
            entry.used_at = self.world.time.now();
            return Ok((*number, entry.made.clone()));
        }
        let same = open.values().filter(|it| it.is_follower == from.is_follower()).count();
        if same >= from.checkpoints_max() {
            let message = format!("{same} checkpoints are open already: come again");
            return Err(failed(ErrorKind::TryAgain, message));
        }
        let number = self.numbers.next_u64();
        let (tell, made) = watch::channel(None);
        let (world, dir, known) = (self.world.clone(), self.dir.clone(), Arc::clone(&self.known));
        let (Asker::Node(name) | Asker::Follower(name)) = from;
        let (from, is_follower) = (name.to_owned(), from.is_follower());
        let kept_for = is_follower.then(|| from.clone());
        self.world.tasks.begin_blocking("make a checkpoint", move || {
            let making = Checkpoint::make(&world, &dir, number, &subject, &known);
            if let (Ok(made), Some(from)) = (&making, kept_for)
                && let Err(error) = Kept::new(from, partition, made.listing.clone())
                    .write(&world.disk, made.folder())
            {
                // Without that it ends with this run.
                tracing::warn!(%partition, %error, "a checkpoint is not kept over a restart");
            }
            tell.send_replace(Some(making.map(Arc::new).map_err(Arc::new)));
        });
        let used_at = self.world.time.now();
        let entry = Entry { from, is_follower, partition, used_at, made: made.clone() };
        open.insert(number, entry);
        Ok((number, made))
    }

    /// A piece of a file, with what is made of it where that may block.
    async fn chunk<T: Send + 'static>(
        &self,
        reads: &Arc<Semaphore>,
        number: u64,
        place: impl Fn(&Checkpoint) -> Option<usize>,
        offset: u64,
        bytes_max: u32,
        make: impl FnOnce(&Checkpoint, usize, Piece) -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let checkpoint = self.used(number).ok_or(Problem::CheckpointGone)?;
        // No file is ever opened that is not in the listing.
        let file = place(&checkpoint).and_then(|at| Some((at, checkpoint.bytes(at)?)));
        let (at, total) = file.ok_or_else(no_file)?;
        let left = total.checked_sub(offset).ok_or_else(|| {
            failed(
                ErrorKind::General,
                format!("byte {offset} is beyond the end of a file of {total} bytes"),
            )
        })?;
        let bytes = left.min(u64::from(bytes_max.min(CHUNK_BYTES_MAX)));
        let read = move || Ok(make(&checkpoint, at, checkpoint.read(at, offset, bytes)?));
        let read = self.reading(reads, read).await;
        read.map_err(|error| failed(ErrorKind::General, format!("a file cannot be read: {error}")))
    }

    /// Reads where that may block, once there is room for one more.
    async fn reading<T: Send + 'static>(
        &self,
        reads: &Arc<Semaphore>,
        read: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let permit = Arc::clone(reads).acquire_owned().await;
        let read = move || {
            let _permit = permit;
            read()
        };
        self.world.tasks.blocking(read).await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    async fn close(&self, number: u64) {
        let closed = self.open.lock().remove(&number);
        if closed.is_some() {
            // Its files are deleted where that may block; whether this is waited for or not.
            let tasks = &self.world.tasks;
            let _ = tasks.begin_blocking("close a checkpoint", move || drop(closed)).await;
        }
    }

    /// The checkpoint that has this number, which is in use from now on.
    fn used(&self, number: u64) -> Option<Arc<Checkpoint>> {
        let mut open = self.open.lock();
        let entry = open.get_mut(&number)?;
        entry.used_at = self.world.time.now();
        entry.made.borrow().as_ref()?.as_ref().ok().cloned()
    }
}

impl Drop for Checkpoints {
    /// What followers read goes on after this run of the node.
    fn drop(&mut self) {
        for entry in self.open.get_mut().values().filter(|entry| entry.is_follower) {
            if let Some(Ok(checkpoint)) = &*entry.made.borrow() {
                checkpoint.outlive();
            }
        }
    }
}

impl Entry {
    fn kept(world: &World, kept: Kept, folder: PathBuf, known: &Arc<Known>) -> Self {
        let partition = kept.partition();
        let Kept { from, listing, .. } = kept;
        let checkpoint = Checkpoint::kept(world, folder, listing, known);
        let (_, made) = watch::channel(Some(Ok(Arc::new(checkpoint))));
        Self { from, is_follower: true, partition, used_at: world.time.now(), made }
    }

    fn is_of(&self, asker: Asker<'_>) -> bool {
        let (Asker::Node(name) | Asker::Follower(name)) = asker;
        self.from == name && self.is_follower == asker.is_follower()
    }
}

fn no_file() -> Problem {
    failed(ErrorKind::General, "no such file in the checkpoint".to_owned())
}

fn failed(kind: ErrorKind, message: String) -> Problem {
    Problem::Row { kind, message }
}
