//! The node that is copied from: checkpoints of its partitions, made for other nodes, and their
//! files in chunks. They are hard links and cost no room until the store rewrites its files, so
//! they are few, and those that nobody reads end by themselves.
//!
//! A node has one checkpoint of a partition at a time: where it asks again, because an answer was
//! lost or it was started anew, it gets the same one and goes on where it was.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use plimsoll_log::PartitionId;
use plimsoll_storage::partition::{Checksum, STORE_FORMAT, Store, position_of};
use tokio::sync::{Semaphore, watch};

use crate::node::sync_dir;
use crate::rpc::{CheckpointFile, CheckpointListing, Problem, Question, Reply};
use crate::session::random_u64;

/// The largest chunk, bytes.
pub(super) const CHUNK_BYTES_MAX: u32 = 4 << 20;
/// How many checkpoints may be there at once.
const CHECKPOINTS_MAX: usize = 4;
/// After how long without a chunk a checkpoint is closed.
const IDLE_MAX: Duration = Duration::from_secs(5 * 60);
/// How many chunks are read at once; others wait.
const READS_MAX: usize = 16;
/// What the folders of checkpoints are called before their numbers.
const PREFIX: &str = "out-";

/// A node's checkpoints for others.
pub(crate) struct Checkpoints {
    dir: PathBuf,
    open: Mutex<HashMap<u64, Entry>>,
    reads: Arc<Semaphore>,
}

struct Entry {
    /// The node that it was made for.
    from: String,
    partition: PartitionId,
    used_at: Instant,
    made: watch::Receiver<Option<Made>>,
}

/// What came of making a checkpoint.
type Made = Result<Arc<Checkpoint>, String>;

struct Checkpoint {
    folder: Folder,
    made_at: Instant,
    listing: CheckpointListing,
}

/// A folder that is deleted with the last who reads in it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0)
            && error.kind() != io::ErrorKind::NotFound
        {
            let folder = self.0.display();
            tracing::warn!(%folder, %error, "a checkpoint cannot be deleted");
        }
    }
}

impl Checkpoints {
    /// None, below the node's data folder; what an earlier run left there is deleted. Blocks.
    ///
    /// # Errors
    /// Where the folder cannot be made or read, or what is left not be deleted.
    pub(crate) fn new(data_dir: &Path) -> io::Result<Self> {
        let dir = data_dir.join("recovery");
        std::fs::create_dir_all(&dir)?;
        for entry in std::fs::read_dir(&dir)? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) {
                std::fs::remove_dir_all(entry.path())?;
            }
        }
        sync_dir(data_dir)?;
        let reads = Arc::new(Semaphore::new(READS_MAX));
        Ok(Self { dir, open: Mutex::default(), reads })
    }

    /// Answers the node `from` where the question is one about checkpoints. `find` gives the rows
    /// of a partition that this node serves.
    pub(crate) async fn answer(
        &self,
        from: &str,
        question: &Question,
        find: impl FnOnce(PartitionId) -> Option<Store>,
    ) -> Option<Reply> {
        let answer = match question {
            Question::OpenCheckpoint { partition } => {
                let partition = PartitionId::from(*partition);
                match find(partition) {
                    Some(store) => self.open(from, partition, store).await,
                    None => {
                        Err(Problem::NotHere(format!("partition {partition} is not served here")))
                    }
                }
            }
            Question::Chunk { checkpoint, file, offset, bytes_max } => {
                self.chunk(*checkpoint, file, *offset, *bytes_max).await
            }
            Question::CloseCheckpoint { checkpoint } => {
                self.close(*checkpoint).await;
                Ok(Reply::Done)
            }
            _ => return None,
        };
        Some(answer.unwrap_or_else(Reply::Problem))
    }

    /// Closes the checkpoints of which no chunk was asked for since long before `now`, and says
    /// how many. Blocks while files are deleted.
    pub(crate) fn expire(&self, now: Instant) -> usize {
        let mut open = self.open.lock();
        let idle = |at: Instant| now.saturating_duration_since(at) >= IDLE_MAX;
        let expired: Vec<Entry> = open
            .extract_if(|_, entry| match &*entry.made.borrow() {
                Some(Ok(checkpoint)) => idle(entry.used_at.max(checkpoint.made_at)),
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
        from: &str,
        partition: PartitionId,
        store: Store,
    ) -> Result<Reply, Problem> {
        let (number, mut made) = self.begin(from, partition, store)?;
        let outcome = match made.wait_for(Option::is_some).await {
            Ok(made) => made.clone(),
            Err(_) => None,
        };
        match outcome.unwrap_or_else(|| Err("its making was given up".to_owned())) {
            Ok(checkpoint) => {
                let listing = checkpoint.listing.clone();
                let checksum = listing.checksum();
                Ok(Reply::Checkpoint { listing, checksum })
            }
            Err(reason) => {
                self.close(number).await;
                tracing::warn!(%partition, reason, "a checkpoint cannot be made");
                Err(failed("ERR", format!("no checkpoint of partition {partition}: {reason}")))
            }
        }
    }

    /// Has a checkpoint made on a thread that may block, unless there is one.
    fn begin(
        &self,
        from: &str,
        partition: PartitionId,
        store: Store,
    ) -> Result<(u64, watch::Receiver<Option<Made>>), Problem> {
        let mut open = self.open.lock();
        let known = open.iter_mut().find(|(_, it)| it.from == from && it.partition == partition);
        if let Some((number, entry)) = known {
            entry.used_at = Instant::now();
            return Ok((*number, entry.made.clone()));
        }
        if open.len() >= CHECKPOINTS_MAX {
            let message = format!("{CHECKPOINTS_MAX} checkpoints are open already: come again");
            return Err(failed("TRYAGAIN", message));
        }
        // Drawn at random, so that one of an earlier run is not taken for another.
        let number = random_u64();
        let (tell, made) = watch::channel(None);
        let dir = self.dir.clone();
        tokio::task::spawn_blocking(move || {
            let making = Checkpoint::make(&dir, number, &store);
            tell.send_replace(Some(making.map(Arc::new)));
        });
        let used_at = Instant::now();
        let entry = Entry { from: from.to_owned(), partition, used_at, made: made.clone() };
        open.insert(number, entry);
        Ok((number, made))
    }

    async fn chunk(
        &self,
        number: u64,
        file: &str,
        offset: u64,
        bytes_max: u32,
    ) -> Result<Reply, Problem> {
        let checkpoint = self.used(number).ok_or(Problem::CheckpointGone)?;
        let index = checkpoint.index_of(file)?;
        let left = checkpoint.listing.files[index].bytes.checked_sub(offset);
        let left = left.ok_or_else(|| {
            failed("ERR", format!("byte {offset} is beyond the end of {file} in the checkpoint"))
        })?;
        let bytes = left.min(u64::from(bytes_max.min(CHUNK_BYTES_MAX)));
        let permit = Arc::clone(&self.reads).acquire_owned().await;
        let read = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let bytes = checkpoint.read(index, offset, bytes)?;
            let checksum = Checksum::of(&bytes);
            Ok((bytes, checksum))
        });
        let read = read.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        let (bytes, checksum) =
            read.map_err(|error| failed("ERR", format!("{file} cannot be read: {error}")))?;
        Ok(Reply::Chunk { bytes, checksum })
    }

    async fn close(&self, number: u64) {
        let closed = self.open.lock().remove(&number);
        if closed.is_some() {
            // Its files are deleted where that may block; whether this is waited for or not.
            let _ = tokio::task::spawn_blocking(move || drop(closed)).await;
        }
    }

    /// The checkpoint that has this number, which is in use from now on.
    fn used(&self, number: u64) -> Option<Arc<Checkpoint>> {
        let mut open = self.open.lock();
        let entry = open.get_mut(&number)?;
        entry.used_at = Instant::now();
        entry.made.borrow().as_ref()?.as_ref().ok().cloned()
    }
}

impl Checkpoint {
    /// Makes one in a folder of its own, and reads all of it once. Blocks.
    fn make(dir: &Path, number: u64, store: &Store) -> Result<Self, String> {
        let folder = Folder(dir.join(format!("{PREFIX}{number}")));
        // Read before: what is applied meanwhile may be in the checkpoint as well.
        let position = store.snapshot().and_then(|rows| position_of(&rows));
        let position = position.map_err(|error| error.to_string())?;
        let lsn = position.ok_or("nothing says yet where its rows are in the log")?.lsn.0;
        store.checkpoint(&folder.0).map_err(|error| error.to_string())?;
        let files = list(&folder.0).map_err(|error| error.to_string())?;
        let listing = CheckpointListing { number, format: STORE_FORMAT, lsn, files };
        Ok(Self { folder, made_at: Instant::now(), listing })
    }

    /// Where a file is in the listing: no other is ever opened.
    fn index_of(&self, name: &str) -> Result<usize, Problem> {
        let files = &self.listing.files;
        let found = files.binary_search_by(|file| file.name.as_str().cmp(name));
        found.map_err(|_| failed("ERR", "no such file in the checkpoint".to_owned()))
    }

    fn read(&self, index: usize, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
        let file = File::open(self.folder.0.join(&self.listing.files[index].name))?;
        let mut buffer = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
        file.read_exact_at(&mut buffer, offset)?;
        Ok(buffer)
    }
}

/// The files in a folder, by name, with their checksums.
fn list(dir: &Path) -> io::Result<Vec<CheckpointFile>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().into_string();
        let name = name.map_err(|_| io::Error::other("a file's name is not text"))?;
        let (checksum, bytes) = Checksum::of_file(&entry.path())?;
        files.push(CheckpointFile { name, bytes, checksum });
    }
    files.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(files)
}

fn failed(code: &str, message: String) -> Problem {
    Problem::Row { code: code.to_owned(), message }
}
