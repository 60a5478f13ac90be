//! A simulation's files, and what befalls them: a loss of power, no room, a sync that fails, a bit that turns.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::{Disk, Kind};
use crate::random::{Random, Stream};

/// The disk of a machine that is simulated: it outlives the processes on it. Cloned handles are the same disk.
#[derive(Clone)]
pub struct SimulatedDisk(Arc<Mutex<State>>);

/// What one process reads and writes by.
#[derive(Clone)]
pub(super) struct Handle {
    state: Arc<Mutex<State>>,
    process: u64,
}

struct State {
    contents: BTreeMap<u64, Content>,
    /// The files by name, as processes see them.
    names: BTreeMap<PathBuf, u64>,
    /// The same as a loss of power leaves them.
    durable_names: BTreeMap<PathBuf, u64>,
    dirs: BTreeSet<PathBuf>,
    durable_dirs: BTreeSet<PathBuf>,
    /// Folders that were renamed or removed, which a loss of power may not know of yet, in their order.
    unsynced: Vec<DirChange>,
    next: u64,
    /// The process whose handles are good.
    process: u64,
    bytes_max: u64,
    syncs_fail: bool,
    /// After so many calls that change something the power goes.
    calls_left: Option<u64>,
    chance: Stream,
}

/// What became of a folder.
struct DirChange {
    from: PathBuf,
    /// None where it was removed.
    to: Option<PathBuf>,
}

impl DirChange {
    /// Whether a sync of `dir` makes it hold: it is what it is in, or lies in it, as systems keep the order of
    /// such changes.
    fn is_synced_by(&self, dir: &Path) -> bool {
        self.from.parent() == Some(dir) || self.to.as_ref().is_some_and(|to| dir.starts_with(to))
    }

    /// Makes it in names and folders.
    fn make(&self, names: &mut BTreeMap<PathBuf, u64>, dirs: &mut BTreeSet<PathBuf>) {
        let is_within = |path: &Path| path.starts_with(&self.from);
        let names_of: Vec<_> = names.extract_if(.., |name, _| is_within(name)).collect();
        let dirs_of: Vec<_> = dirs.extract_if(.., |dir| is_within(dir)).collect();
        let Some(to) = &self.to else { return };
        let moved = |path: &Path| match path.strip_prefix(&self.from) {
            Ok(rest) if rest.as_os_str().is_empty() => to.clone(),
            Ok(rest) => to.join(rest),
            Err(_) => path.to_owned(),
        };
        names.extend(names_of.into_iter().map(|(name, file)| (moved(&name), file)));
        dirs.extend(dirs_of.iter().map(|dir| moved(dir)));
    }

    /// Takes it back: what was removed is there as far as it was durable.
    fn undo(
        self,
        names: &mut BTreeMap<PathBuf, u64>,
        dirs: &mut BTreeSet<PathBuf>,
        durable: &BTreeMap<PathBuf, u64>,
    ) {
        match self.to {
            Some(to) => Self { from: to, to: Some(self.from) }.make(names, dirs),
            None => {
                let removed = durable.iter().filter(|(name, _)| name.starts_with(&self.from));
                names.extend(removed.map(|(name, file)| (name.clone(), *file)));
            }
        }
    }
}

#[derive(Default)]
struct Content {
    bytes: Vec<u8>,
    /// What a loss of power leaves for sure.
    synced: Vec<u8>,
    /// A sync failed: the system has forgotten that it is to be written, and later syncs say nothing of it
    /// (as on Linux; Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020).
    is_forgotten: bool,
}

impl SimulatedDisk {
    /// An empty disk, of no limit.
    #[must_use]
    pub fn new(random: &Random) -> Self {
        Self(Arc::new(Mutex::new(State {
            contents: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            dirs: BTreeSet::new(),
            durable_dirs: BTreeSet::new(),
            unsynced: Vec::new(),
            next: 0,
            process: 0,
            bytes_max: u64::MAX,
            syncs_fail: false,
            calls_left: None,
            chance: random.of("disk"),
        })))
    }

    /// What a process that starts now reads and writes by. Handles from before change nothing any more: what
    /// a process does while it is being taken apart, a process that was killed does not do.
    #[must_use]
    pub fn started(&self) -> Disk {
        let mut state = self.0.lock();
        state.process += 1;
        Disk(Kind::Simulated(Handle { state: Arc::clone(&self.0), process: state.process }))
    }

    /// The process is gone; what it wrote is there.
    pub fn kill(&self) {
        self.0.lock().process += 1;
    }

    /// The process is gone, and with it what was not synced: of each file that was being written and of each
    /// name that was changed, chance says how much is there.
    pub fn lose_power(&self) {
        self.0.lock().lose_power();
    }

    /// Has the power go at the end of so many calls that change something, in the middle of whatever a process is
    /// about then.
    pub fn lose_power_after(&self, calls: u64) {
        self.0.lock().calls_left = Some(calls);
    }

    /// Bytes of all files.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.0.lock().bytes()
    }

    /// From now on no file is written that would make them more than so many bytes together.
    pub fn limit(&self, bytes_max: u64) {
        self.0.lock().bytes_max = bytes_max;
    }

    /// Whether from now on every sync fails.
    pub fn fail_syncs(&self, do_fail: bool) {
        self.0.lock().syncs_fail = do_fail;
    }

    /// Turns one bit of a file, where there is one of that name that holds anything; says whether there was.
    pub fn turn_bit(&self, path: &Path) -> bool {
        let mut held = self.0.lock();
        let state = &mut *held;
        let Some(content) = state.names.get(path).and_then(|file| state.contents.get_mut(file))
        else {
            return false;
        };
        if content.bytes.is_empty() {
            return false;
        }
        let at = state.chance.below(content.bytes.len() as u64);
        let at = usize::try_from(at).unwrap_or_default();
        let bit = 1 << state.chance.below(8);
        content.bytes[at] ^= bit;
        if let Some(byte) = content.synced.get_mut(at) {
            *byte ^= bit;
        }
        true
    }

    /// The files, as the process sees them, in the order of their names.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        self.0.lock().names.keys().cloned().collect()
    }
}

impl Content {
    /// Leaves what was synced, or what was written cut off, or that with nothing in the place of what was cut.
    fn tear(&mut self, chance: &mut Stream) {
        let length = self.bytes.len();
        let kept = usize::try_from(chance.below(length as u64 + 1)).unwrap_or_default();
        match chance.below(3) {
            0 => self.bytes.clone_from(&self.synced),
            1 => self.bytes.truncate(kept),
            _ => self.bytes[kept..].fill(0),
        }
        self.synced.clone_from(&self.bytes);
        self.is_forgotten = false;
    }
}

impl State {
    /// As [`SimulatedDisk::lose_power`].
    fn lose_power(&mut self) {
        self.process += 1;
        self.calls_left = None;
        let known = self.chance.below(self.unsynced.len() as u64 + 1);
        self.keep_changes(usize::try_from(known).unwrap_or_default());
        while let Some(change) = self.unsynced.pop() {
            change.undo(&mut self.names, &mut self.dirs, &self.durable_names);
        }
        self.dirs.clone_from(&self.durable_dirs);
        let changed: BTreeSet<PathBuf> = self
            .names
            .iter()
            .chain(&self.durable_names)
            .filter(|(name, _)| self.names.get(*name) != self.durable_names.get(*name))
            .map(|(name, _)| name.clone())
            .collect();
        for name in changed {
            if self.chance.once_in(2) {
                match self.names.get(&name) {
                    Some(file) => self.durable_names.insert(name, *file),
                    None => self.durable_names.remove(&name),
                };
            }
        }
        self.names = self.durable_names.clone();
        self.forget_unnamed();
        for content in self.contents.values_mut() {
            if content.bytes != content.synced {
                content.tear(&mut self.chance);
            }
        }
    }

    /// The first so many changes of folders hold from now on.
    fn keep_changes(&mut self, count: usize) {
        for change in self.unsynced.drain(..count) {
            change.make(&mut self.durable_names, &mut self.durable_dirs);
        }
    }

    /// Changes folders as the process sees them.
    fn change_dir(&mut self, change: DirChange) {
        change.make(&mut self.names, &mut self.dirs);
        self.unsynced.push(change);
    }

    /// A call that changes something is over.
    fn called(&mut self) -> io::Result<()> {
        match &mut self.calls_left {
            None => Ok(()),
            Some(left) if *left > 1 => {
                *left -= 1;
                Ok(())
            }
            Some(_) => {
                self.lose_power();
                Err(io::Error::other("the power is gone"))
            }
        }
    }

    fn find(&mut self, path: &Path) -> io::Result<&mut Content> {
        let file = self.names.get(path);
        let content = file.and_then(|file| self.contents.get_mut(file));
        content.ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn bytes(&self) -> u64 {
        self.contents.values().map(|content| content.bytes.len() as u64).sum()
    }

    fn name(&mut self, path: &Path, file: u64) -> io::Result<()> {
        if !path.parent().is_some_and(|dir| self.dirs.contains(dir)) {
            return Err(ErrorKind::NotFound.into());
        }
        if self.names.contains_key(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.names.insert(path.to_owned(), file);
        Ok(())
    }

    fn forget_unnamed(&mut self) {
        let named: BTreeSet<u64> =
            self.names.values().chain(self.durable_names.values()).copied().collect();
        self.contents.retain(|file, _| named.contains(file));
    }
}

impl Handle {
    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state.lock();
        if state.process != self.process {
            return Err(io::Error::other("the process is gone"));
        }
        Ok(state)
    }

    /// The same, where there is such a folder.
    fn state_of(&self, dir: &Path) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state()?;
        if state.dirs.contains(dir) { Ok(state) } else { Err(ErrorKind::NotFound.into()) }
    }

    pub(super) fn write_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state()?;
        let file = state.next;
        state.name(path, file)?;
        state.next += 1;
        let room = state.bytes_max.saturating_sub(state.bytes());
        let fits = usize::try_from(room).map_or(bytes.len(), |room| room.min(bytes.len()));
        let content = Content { bytes: bytes[..fits].to_vec(), ..Content::default() };
        state.contents.insert(file, content);
        state.called()?;
        if fits < bytes.len() { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    pub(super) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Ok(self.state()?.find(path)?.bytes.clone())
    }

    pub(super) fn has(&self, path: &Path) -> bool {
        self.state().is_ok_and(|state| state.names.contains_key(path))
    }

    pub(super) fn sync(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state()?;
        let do_fail = state.syncs_fail;
        let content = state.find(path)?;
        if do_fail {
            content.is_forgotten = true;
            return Err(io::Error::other("the disk fails"));
        }
        if !content.is_forgotten {
            content.synced.clone_from(&content.bytes);
        }
        state.called()
    }

    pub(super) fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut held = self.state()?;
        let state = &mut *held;
        if state.syncs_fail {
            return Err(io::Error::other("the disk fails"));
        }
        if !state.dirs.contains(dir) {
            return Err(ErrorKind::NotFound.into());
        }
        let last = state.unsynced.iter().rposition(|change| change.is_synced_by(dir));
        state.keep_changes(last.map_or(0, |at| at + 1));
        state.durable_names.retain(|name, _| name.parent() != Some(dir));
        let here = state.names.iter().filter(|(name, _)| name.parent() == Some(dir));
        state.durable_names.extend(here.map(|(name, file)| (name.clone(), *file)));
        state.forget_unnamed();
        state.called()
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state()?;
        if from == to {
            return state.find(from).map(drop);
        }
        let file = *state.names.get(from).ok_or(ErrorKind::NotFound)?;
        let replaced = state.names.remove(to);
        if let Err(error) = state.name(to, file) {
            if let Some(replaced) = replaced {
                state.names.insert(to.to_owned(), replaced);
            }
            return Err(error);
        }
        state.names.remove(from);
        state.called()
    }

    pub(super) fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state()?;
        let file = *state.names.get(from).ok_or(ErrorKind::NotFound)?;
        state.name(to, file)?;
        state.called()
    }

    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state()?;
        state.names.remove(path).ok_or(ErrorKind::NotFound)?;
        state.forget_unnamed();
        state.called()
    }

    pub(super) fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state()?;
        let missing: Vec<PathBuf> =
            dir.ancestors().filter(|it| !state.dirs.contains(*it)).map(Path::to_owned).collect();
        state.dirs.extend(missing.iter().cloned());
        // Of one that is made again where another was, what became of that holds as well.
        let is_again = |it: &DirChange| missing.iter().any(|dir| it.from.starts_with(dir));
        let known = state.unsynced.iter().rposition(is_again).map_or(0, |at| at + 1);
        state.keep_changes(known);
        state.durable_dirs.extend(missing);
        Ok(())
    }

    pub(super) fn rename_dir(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state_of(from)?;
        if state.dirs.contains(to) {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        state.change_dir(DirChange { from: from.to_owned(), to: Some(to.to_owned()) });
        state.called()
    }

    pub(super) fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state_of(dir)?;
        state.change_dir(DirChange { from: dir.to_owned(), to: None });
        state.forget_unnamed();
        state.called()
    }

    pub(super) fn list_dirs(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.state_of(dir)?;
        let here = state.dirs.iter().filter(|it| it.parent() == Some(dir));
        Ok(here.filter_map(|it| it.file_name().map(PathBuf::from)).collect())
    }

    pub(super) fn has_dir(&self, dir: &Path) -> io::Result<bool> {
        Ok(self.state()?.dirs.contains(dir))
    }

    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.state_of(dir)?;
        let here = state.names.keys().filter(|name| name.parent() == Some(dir));
        Ok(here.filter_map(|name| name.file_name().map(PathBuf::from)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: &str = "/data";

    fn path(name: &str) -> PathBuf {
        Path::new(DIR).join(name)
    }

    /// A disk with a file whose content and name are durable.
    fn disk(seed: u64) -> (SimulatedDisk, Disk) {
        let simulated = SimulatedDisk::new(&Random::seeded(seed));
        let disk = simulated.started();
        disk.create_dir(Path::new(DIR)).unwrap();
        disk.write_new(&path("kept"), b"kept").unwrap();
        disk.sync(&path("kept")).unwrap();
        disk.sync_dir(Path::new(DIR)).unwrap();
        (simulated, disk)
    }

    #[test]
    fn a_loss_of_power_leaves_what_was_synced_and_chance_says_of_the_rest() {
        let (mut names, mut contents) = (BTreeSet::new(), BTreeSet::new());
        for seed in 0..200 {
            let (simulated, disk) = disk(seed);
            disk.write_new(&path("new"), b"12345678").unwrap();
            disk.write_new(&path("other"), b"other").unwrap();
            disk.sync(&path("other")).unwrap();
            disk.rename(&path("other"), &path("kept")).unwrap();
            simulated.lose_power();
            assert!(disk.read(&path("kept")).is_err(), "the process is gone");
            let disk = simulated.started();
            let kept = disk.read(&path("kept")).unwrap();
            assert!([&b"kept"[..], b"other"].contains(&&kept[..]), "renaming is whole");
            names.insert((disk.has(&path("new")), kept));
            if let Ok(new) = disk.read(&path("new")) {
                assert!(new.len() <= 8);
                contents.insert(new);
            }
            let listed = disk.list(Path::new(DIR)).unwrap();
            simulated.lose_power();
            let again = simulated.started().list(Path::new(DIR)).unwrap();
            assert_eq!(again, listed, "what a loss of power left is durable");
        }
        assert_eq!(names.len(), 4, "{names:?}");
        assert!(contents.contains(&b""[..]) && contents.contains(&b"12345678"[..]));
        assert!(contents.len() > 8, "{contents:?}");
    }

    #[test]
    fn a_process_that_is_over_changes_nothing() {
        let (simulated, old) = disk(1);
        let new = simulated.started();
        assert!(old.write_new(&path("late"), b"1").is_err() && !new.has(&path("late")));
        assert!(old.remove(&path("kept")).is_err() && new.has(&path("kept")));
    }

    #[test]
    fn a_disk_without_room_takes_the_beginning() {
        let (simulated, disk) = disk(1);
        simulated.limit(6);
        let refused = disk.write_new(&path("new"), b"123").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::StorageFull);
        assert_eq!(disk.read(&path("new")).unwrap(), b"12");
        disk.remove(&path("new")).unwrap();
        simulated.limit(7);
        disk.write_new(&path("new"), b"123").unwrap();
    }

    #[test]
    fn what_a_failed_sync_forgot_no_later_one_brings_back() {
        let (simulated, disk) = disk(1);
        disk.write_new(&path("new"), b"123").unwrap();
        simulated.fail_syncs(true);
        assert!(disk.sync(&path("new")).is_err() && disk.sync_dir(Path::new(DIR)).is_err());
        simulated.fail_syncs(false);
        disk.sync(&path("new")).unwrap();
        disk.sync_dir(Path::new(DIR)).unwrap();
        let left = |seed: u64| {
            let mut content = Content { bytes: b"123".to_vec(), ..Content::default() };
            content.tear(&mut Random::seeded(seed).of("tear"));
            content.bytes
        };
        assert!((0..20).any(|seed| left(seed) != b"123"));
        simulated.lose_power();
        assert!(simulated.started().has(&path("new")));
    }

    #[test]
    fn a_folder_that_was_renamed_is_there_once_by_its_old_name_or_its_new_one() {
        let mut seen = BTreeSet::new();
        for seed in 0..40 {
            let (simulated, disk) = disk(seed);
            let dir = |name: &str| path("dirs").join(name);
            disk.create_dir(&dir("old")).unwrap();
            disk.write_new(&dir("old").join("file"), b"1").unwrap();
            disk.sync(&dir("old").join("file")).unwrap();
            disk.sync_dir(&dir("old")).unwrap();
            disk.rename_dir(&dir("old"), &dir("new")).unwrap();
            disk.rename_dir(&dir("new"), &dir("newer")).unwrap();
            if seed % 2 == 0 {
                disk.sync_dir(&path("dirs")).unwrap();
            }
            simulated.lose_power();
            let disk = simulated.started();
            let found = disk.list_dirs(&path("dirs")).unwrap();
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(disk.read(&path("dirs").join(&found[0]).join("file")).unwrap(), b"1");
            seen.insert((seed % 2, found));
        }
        assert_eq!(seen.len(), 4, "{seen:?}");
    }

    #[test]
    fn the_power_goes_in_the_middle() {
        let (simulated, disk) = disk(1);
        simulated.lose_power_after(2);
        disk.write_new(&path("one"), b"1").unwrap();
        assert!(disk.sync(&path("one")).is_err(), "nobody hears of it");
        assert!(disk.write_new(&path("two"), b"2").is_err());
        assert!(simulated.started().write_new(&path("two"), b"2").is_ok());
    }

    #[test]
    fn a_bit_turns_for_good() {
        let (simulated, disk) = disk(1);
        assert!(simulated.turn_bit(&path("kept")) && !simulated.turn_bit(&path("none")));
        let turned = disk.read(&path("kept")).unwrap();
        let bits: u32 =
            turned.iter().zip(b"kept").map(|(one, other)| (one ^ other).count_ones()).sum();
        assert_eq!(bits, 1);
        simulated.lose_power();
        assert_eq!(simulated.started().read(&path("kept")).unwrap(), turned);
    }
}
