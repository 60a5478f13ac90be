//! A store of rows under the lab: one node that is stopped, given files that were prepared once, and
//! started again with other settings, so that every lap begins from the same files.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_control::Random;
use plimsoll_control::average::whole;
use serde_json::Value;

use super::disk::SlowDisk;
use crate::LabError;
use crate::files::copy_folder;
use crate::live::cluster::{self, Cluster, Rest};
use crate::live::node::NodeSpec;
use crate::live::processes;
use crate::live::wire::{Connection, Ended, Protocol, http};

/// Clients that fill a store.
const FILLING_CLIENTS: u64 = 16;
/// How often a command that was refused for load is sent again while the store is filled.
const FILL_TRIES: usize = 200;
const FILL_PAUSE: Duration = Duration::from_millis(100);
/// How long copies of all partitions are waited for.
const COPIES_WITHIN: Duration = Duration::from_secs(90);
/// How long figures are waited for.
const TOLD_WAIT: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_secs(30);
/// When a store that was filled is at rest.
pub(super) const REST: Rest =
    Rest { within: Duration::from_secs(120), look: Duration::from_secs(1), below: 0.05 };
/// Files of rows: once written they are never changed, so that copies may share them.
const SHARED_FILES: Option<&str> = Some("sst");

/// What a store tells at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figures {
    /// Bytes that its process wrote to the disk.
    pub(super) written_bytes: u64,
    pub(super) debt: Option<f64>,
    pub(super) stops: Option<u64>,
    /// Bytes of the files of rows.
    pub(super) rows_bytes: u64,
    /// Rows that were written.
    pub(super) writes: u64,
    /// Reads of rows that were in memory, and that were not.
    pub(super) hits: u64,
    pub(super) misses: u64,
}

impl Figures {
    /// The share of reads since an earlier look that were in the cache of rows; none where none was made.
    pub(super) fn hits_since(&self, earlier: Self) -> Option<f64> {
        let hits = self.hits.saturating_sub(earlier.hits);
        let all = hits + self.misses.saturating_sub(earlier.misses);
        (all > 0).then(|| hits as f64 / all as f64)
    }
}

/// A running store, as far as figures are asked of it.
pub(super) struct Told {
    pub(super) process: u32,
    /// Of its REST.
    pub(super) address: String,
    /// Holds its writes, where it is held: it counts them too.
    pub(super) disk: Option<Arc<SlowDisk>>,
}

impl Told {
    /// What it tells now; a store that hangs tells nothing.
    pub(super) fn figures(&self) -> Figures {
        let text = metrics(&self.address).unwrap_or_default();
        let of = |name: &str| figure(&text, name);
        Figures {
            written_bytes: self
                .disk
                .as_ref()
                .and_then(|disk| disk.written_bytes())
                .or_else(|| processes::written_bytes(self.process))
                .unwrap_or(0),
            debt: of("plimsoll_write_debt"),
            stops: of("plimsoll_store_stops_total").map(whole),
            rows_bytes: of("plimsoll_rows_files_bytes").map_or(0, whole),
            hits: of("plimsoll_row_cache_hits_total").map_or(0, whole),
            misses: of("plimsoll_row_cache_misses_total").map_or(0, whole),
            writes: of("plimsoll_resp_commands_total{command=\"set\"}").map_or(0, whole),
        }
    }
}

/// The node.
pub(super) struct Store {
    pub(super) cluster: Cluster,
    /// Holds its writes, where this machine can.
    pub(super) disk: Option<Arc<SlowDisk>>,
    data: PathBuf,
    prepared: PathBuf,
    settings: Vec<String>,
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> LabError {
    move |error| LabError::live(what.to_owned(), error)
}

impl Store {
    /// Starts an empty store; `settings` go for all laps.
    ///
    /// # Errors
    /// Names the step that failed, with what the node said.
    pub(super) fn start(
        binary: &Path,
        folder: &Path,
        settings: Vec<String>,
    ) -> Result<Self, LabError> {
        let ports = cluster::free_ports(3)?;
        let spec = NodeSpec {
            name: "store".to_owned(),
            share: None,
            settings: settings.clone(),
            log: "embedded".to_owned(),
            ports: [ports[0], ports[1], ports[2]],
        };
        let cluster = Cluster::start_apart(vec![spec], binary, folder)?;
        let disk = SlowDisk::make(folder, &cluster.guardian).map(Arc::new);
        let (data, prepared) = (folder.join("store"), folder.join("prepared"));
        Ok(Self { cluster, disk, data, prepared, settings })
    }

    /// Where its RESP listens.
    pub(super) fn resp(&self) -> String {
        format!("127.0.0.1:{}", self.cluster.nodes[0].spec.ports[1])
    }

    /// Fills it with every row once, waits until it rests, and keeps its files for the laps.
    ///
    /// # Errors
    /// A row is not taken, or files cannot be copied.
    pub(super) fn prepare(
        &mut self,
        rows: &dyn Fill,
        keys: u64,
        seed: u64,
        stop: &AtomicBool,
    ) -> Result<(), LabError> {
        fill_all(&self.resp(), rows, keys, seed)?;
        self.await_rest(stop);
        self.cluster.nodes[0].stop(true);
        fs::rename(&self.data, &self.prepared).map_err(failed("keep the files of the store"))
    }

    /// Waits until it has written anew all that it put off.
    pub(super) fn await_rest(&self, stop: &AtomicBool) {
        self.cluster.await_rest(&REST, stop);
    }

    /// Starts it from the prepared files with these settings too, and a disk of so many bytes a second.
    ///
    /// # Errors
    /// Names the step that failed, with what the node said.
    pub(super) fn begin(
        &mut self,
        settings: &[String],
        disk_bytes_s: Option<u64>,
    ) -> Result<(), LabError> {
        self.end();
        copy_folder(&self.prepared, &self.data, SHARED_FILES)
            .map_err(failed("copy the files of the store"))?;
        sync(&self.data).map_err(failed("sync the files of the store"))?;
        let node = &mut self.cluster.nodes[0];
        node.spec.settings = self.settings.iter().chain(settings).cloned().collect();
        node.start()?;
        node.await_ready()?;
        if let (Some(disk), Some(bytes_s)) = (&self.disk, disk_bytes_s) {
            let held = disk.limit(Some(bytes_s)).and_then(|()| disk.hold(node.process()));
            held.map_err(failed("hold the disk"))?;
        }
        Ok(())
    }

    /// Ends it and removes its files.
    pub(super) fn end(&mut self) {
        if let Some(disk) = &self.disk {
            let _ = disk.limit(None);
        }
        self.cluster.nodes[0].stop(false);
        let _ = fs::remove_dir_all(&self.data);
    }

    /// Bytes of its log.
    pub(super) fn log_bytes(&self) -> u64 {
        bytes_of(&self.data.join("log"))
    }
}

/// What a store is filled with.
pub(super) trait Fill: Sync {
    /// Commands that set the rows of these numbers, and how many they are.
    fn fill(&self, numbers: Range<u64>, random: &mut Random) -> (Vec<u8>, usize);

    /// Rows that are set at once.
    fn at_once(&self) -> u64 {
        16
    }
}

/// Writes every row once.
///
/// # Errors
/// A row is not taken.
pub(super) fn fill_all(
    address: &str,
    rows: &dyn Fill,
    keys: u64,
    seed: u64,
) -> Result<(), LabError> {
    thread::scope(|scope| {
        let fill = |client: u64| {
            let each = keys.div_ceil(FILLING_CLIENTS);
            let mut random = Random::new(seed ^ (client << 32));
            let numbers = (client * each).min(keys)..((client + 1) * each).min(keys);
            scope.spawn(move || fill(address, rows, numbers, &mut random))
        };
        let clients: Vec<_> = (0..FILLING_CLIENTS).map(fill).collect();
        clients.into_iter().try_for_each(|client| {
            client.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
        })
    })
    .map_err(failed("fill the store"))
}

fn fill(
    address: &str,
    rows: &dyn Fill,
    numbers: Range<u64>,
    random: &mut Random,
) -> io::Result<()> {
    let mut connection = Connection::open(address, Protocol::Resp, TIMEOUT)?;
    let mut from = numbers.start;
    while from < numbers.end {
        let to = (from + rows.at_once()).min(numbers.end);
        let (commands, count) = rows.fill(from..to, random);
        let mut tries = 0;
        loop {
            match connection.ask_all(&commands, count)? {
                Ended::Answered => break,
                Ended::Refused if tries < FILL_TRIES => thread::sleep(FILL_PAUSE),
                other => return Err(io::Error::other(format!("{other:?}"))),
            }
            tries += 1;
        }
        from = to;
    }
    Ok(())
}

/// Waits until there are so many copies of the rows' partitions, all of which can be read. Tables of rows are
/// in no health of an index; the nodes' digests of copies count them.
///
/// # Errors
/// They are not there in time.
pub(super) fn await_copies(cluster: &Cluster, count: usize) -> Result<(), LabError> {
    let began = Instant::now();
    loop {
        let path = "/_plimsoll/digest?index=db0&timeout=10s";
        let told = cluster.coordinator().ask("GET", path, None, TIMEOUT)?;
        let is_there = |copy: &&Value| copy["error"].is_null();
        let there = told.as_array().map_or(0, |all| all.iter().filter(is_there).count());
        if there == count {
            return Ok(());
        }
        if began.elapsed() > COPIES_WITHIN {
            let why = format!("{there} of {count} are there");
            return Err(LabError::live("wait for the copies of rows".to_owned(), why));
        }
        thread::sleep(FILL_PAUSE);
    }
}

fn metrics(address: &str) -> io::Result<String> {
    let mut connection = Connection::open(address, Protocol::Http, TOLD_WAIT)?;
    connection.status(&http("GET", "/_metrics", address, b""))?;
    Ok(String::from_utf8_lossy(&connection.body).into_owned())
}

/// The figure of this name that has no labels.
fn figure(text: &str, name: &str) -> Option<f64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    value.trim().parse().ok()
}

/// Has everything in a folder on the disk, so that a lap pays for nothing that was before it.
fn sync(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => sync(&entry.path())?,
            false => fs::File::open(entry.path())?.sync_all()?,
        }
    }
    Ok(())
}

fn bytes_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_of(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_files_of_rows_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("b"));
        fs::create_dir_all(from.join("rows")).unwrap();
        fs::write(from.join("rows/1.sst"), "rows").unwrap();
        fs::write(from.join("rows/log"), "log").unwrap();
        copy_folder(&from, &to, SHARED_FILES).unwrap();
        fs::write(to.join("rows/log"), "longer log").unwrap();
        assert_eq!(fs::read_to_string(from.join("rows/log")).unwrap(), "log");
        assert_eq!(bytes_of(&to), 14);
        fs::remove_dir_all(&to).unwrap();
        assert_eq!(bytes_of(&from), 7);
    }

    #[test]
    fn figures_are_read_by_their_whole_name() {
        let text = "# TYPE a gauge\na_b 3\na{x=\"1\"} 4\na 2.5\n";
        assert_eq!(
            (figure(text, "a"), figure(text, "a_b"), figure(text, "b")),
            (Some(2.5), Some(3.0), None)
        );
    }
}
