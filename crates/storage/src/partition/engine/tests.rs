//! The same steps on both engines, beside a model that knows every state there ever was: what one shows, what
//! is there after a crash, in a checkpoint, and after a disk that was full, has to be one of them, and the
//! right one.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use plimsoll_base::disk::SimulatedDisk;
use plimsoll_base::random::Stream;
use plimsoll_base::{Disk, Random};
use tempfile::TempDir;

use super::*;
use crate::partition::{Resources, StoreOptions};

/// The row that says which batch was the last.
const LAST: &[u8] = b"last";
const STEPS: u64 = 400;

type State = BTreeMap<Bytes, Bytes>;

/// Where an engine is.
enum Backing {
    Rocks(TempDir),
    Memory(SimulatedDisk),
}

struct Bench {
    place: Backing,
    random: Random,
    stream: Stream,
    disk: Disk,
    resources: Resources,
    engine: Option<Engine>,
    /// The state after each batch, the first of none.
    states: Vec<State>,
    /// The batch that is durable at least.
    flushed: usize,
    /// How many files there were when the log was made durable last.
    logged: Arc<AtomicU64>,
    checkpoints: u64,
    /// Checkpoints that were made, and the batch that each has.
    kept: Vec<(PathBuf, usize)>,
    starts: u64,
}

fn number(value: &[u8]) -> usize {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

/// All rows of an engine, walked up; down and one by one they are the same.
fn rows(engine: &Engine) -> State {
    let range: [&[u8]; 2] = [b"", b"\xff"];
    let (mut up, mut down, mut now) = (State::new(), Vec::new(), State::new());
    let take = |to: &mut State, key: &[u8], value: &[u8]| {
        to.insert(Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        ControlFlow::Continue(())
    };
    let snapshot = engine.snapshot();
    snapshot.walk(range, Reach::Files, &mut |key, value| take(&mut up, key, value)).unwrap();
    let mut visit = |key: &[u8], _: &[u8]| {
        down.push(Bytes::copy_from_slice(key));
        ControlFlow::Continue(())
    };
    snapshot.walk_back(range, Reach::Files, &mut visit).unwrap();
    engine.walk(range, Reach::Files, &mut |key, value| take(&mut now, key, value)).unwrap();
    assert_eq!(up, now);
    assert!(up.keys().rev().eq(down.iter()));
    for (key, value) in &up {
        assert_eq!(&*snapshot.get(key, Reach::Files).unwrap().unwrap(), &value[..]);
        assert_eq!(engine.get(key, Reach::Files).unwrap().unwrap().to_bytes(), value);
    }
    up
}

impl Bench {
    fn new(place: Backing, seed: u64) -> Self {
        let random = Random::seeded(seed);
        let logged = Arc::new(AtomicU64::new(0));
        let disk = match &place {
            Backing::Rocks(_) => Disk::of_the_machine(),
            Backing::Memory(disk) => disk.started(),
        };
        let resources = Self::resources(&place, &disk, &random.part("start 0"), &logged);
        let mut bench = Self {
            stream: random.of("steps"),
            place,
            random,
            disk,
            resources,
            engine: None,
            states: vec![State::new()],
            flushed: 0,
            logged,
            checkpoints: 0,
            kept: Vec::new(),
            starts: 0,
        };
        bench.engine = Some(bench.open(&bench.dir()).unwrap());
        bench
    }

    fn resources(
        place: &Backing,
        disk: &Disk,
        random: &Random,
        logged: &Arc<AtomicU64>,
    ) -> Resources {
        let mut options = StoreOptions { write_buffer_bytes: 1 << 20, ..StoreOptions::default() };
        match place {
            Backing::Rocks(_) => Resources::new(options, Arc::new(|| ())),
            Backing::Memory(simulated) => {
                // So little that flushes begin by themselves.
                options.write_buffer_bytes = 64 << 10;
                let (logged, simulated) = (Arc::clone(logged), simulated.clone());
                let before_flush = Arc::new(move || {
                    logged.store(simulated.files().len() as u64, Ordering::Relaxed);
                });
                Resources::in_memory(options, before_flush, disk.clone(), random.clone())
            }
        }
    }

    fn dir(&self) -> PathBuf {
        match &self.place {
            Backing::Rocks(dir) => dir.path().join("store"),
            Backing::Memory(_) => PathBuf::from("/store"),
        }
    }

    fn open(&self, dir: &Path) -> Result<Engine, StoreError> {
        Engine::open(dir, &self.resources, Arc::new(AtomicBool::new(false)), true)
    }

    fn simulated_disk(&self) -> SimulatedDisk {
        match &self.place {
            Backing::Memory(disk) => disk.clone(),
            Backing::Rocks(_) => panic!("it is on the machine's"),
        }
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    fn key(&mut self) -> Vec<u8> {
        format!("k{:02}", self.stream.below(40)).into_bytes()
    }

    fn write(&mut self) -> Result<(), StoreError> {
        let mut batch = self.engine().batch();
        let mut state = self.states.last().unwrap().clone();
        for _ in 0..=self.stream.below(6) {
            let key = self.key();
            match self.stream.below(8) {
                0..=4 => {
                    let length = usize::try_from(self.stream.below(1000)).unwrap();
                    let value = vec![b'a' + u8::try_from(self.stream.below(26)).unwrap(); length];
                    batch.put(&key, &value);
                    state.insert(key.into(), value.into());
                }
                5 | 6 => {
                    batch.delete(&key);
                    state.remove(&key[..]);
                }
                _ => {
                    let [from, to] = [key.clone(), self.key()];
                    let [from, to] = if from < to { [from, to] } else { [to, from] };
                    batch.delete_range(&from, &to);
                    state.retain(|key, _| !(from[..] <= key[..] && key[..] < to[..]));
                }
            }
        }
        let text = self.states.len().to_string();
        batch.put(LAST, &text);
        state.insert(Bytes::from_static(LAST), text.into());
        self.engine().write(&batch, true)?;
        self.states.push(state);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let has_some = self.engine().flushable_bytes() > 0;
        let files = match &self.place {
            Backing::Memory(disk) if has_some => Some(disk.files().len() as u64),
            _ => None,
        };
        self.engine().flush()?;
        self.flushed = self.states.len() - 1;
        if let Some(files) = files {
            assert_eq!(self.logged.load(Ordering::Relaxed), files, "the log comes first");
        }
        Ok(())
    }

    /// Writes and flushes until the power goes in the middle of something, or soon after.
    fn go_on_until_the_power_goes(&mut self, disk: &SimulatedDisk) -> Result<(), StoreError> {
        disk.lose_power_after(1 + self.stream.below(25));
        for _ in 0..4 {
            self.write()?;
            match self.stream.below(3) {
                0 => self.flush()?,
                1 => self.checkpoint()?,
                _ => {
                    self.flush()?;
                    self.engine().compact()?;
                }
            }
        }
        Ok(())
    }

    /// The process ends without warning, and where that can be also the machine.
    fn crash(&mut self) {
        if let Backing::Memory(disk) = &self.place {
            let disk = disk.clone();
            match self.stream.below(3) {
                0 => disk.lose_power(),
                // Its handles are worth nothing from here on, as those of who was killed.
                1 => drop(disk.started()),
                _ => {
                    let _ = self.go_on_until_the_power_goes(&disk);
                    disk.lose_power();
                }
            }
        }
        self.engine = None;
        if let Backing::Memory(disk) = &self.place {
            self.disk = disk.started();
        }
        self.starts += 1;
        let random = self.random.part(&format!("start {}", self.starts));
        self.resources = Self::resources(&self.place, &self.disk, &random, &self.logged);
        self.engine = Some(self.open(&self.dir()).unwrap());
        let found = rows(self.engine());
        let last = found.get(LAST).map_or(0, |last| number(last));
        assert!(last >= self.flushed, "{last} is left, {} was durable", self.flushed);
        assert_eq!(found, self.states[last], "not the state of batch {last}");
        self.states.truncate(last + 1);
        self.flushed = last;
        for (dir, batch) in &self.kept {
            assert_eq!(rows(&self.open(dir).unwrap()), self.states[*batch], "{}", dir.display());
        }
        // Each is looked at once: some were durable before, others since.
        self.kept.clear();
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.checkpoints += 1;
        let dir = self.dir().with_file_name(format!("checkpoint-{}", self.checkpoints));
        self.engine().checkpoint(&dir)?;
        self.flushed = self.states.len() - 1;
        assert!(self.engine().checkpoint(&dir).is_err(), "there is one");
        self.kept.push((dir, self.flushed));
        Ok(())
    }

    /// Looks at the last checkpoint.
    fn check_checkpoint(&self) {
        let Some((dir, batch)) = self.kept.last() else { return };
        assert!(Engine::is_in(dir, &self.resources));
        assert_eq!(rows(&self.open(dir).unwrap()), self.states[*batch]);
        assert!(self.open(&self.dir()).is_err(), "it is in use");
    }

    fn step(&mut self) {
        match self.stream.below(40) {
            0 | 1 => self.flush().unwrap(),
            2 => self.crash(),
            3 => {
                self.checkpoint().unwrap();
                self.check_checkpoint();
            }
            4 => {
                self.flush().unwrap();
                self.engine().compact().unwrap();
                self.engine().verify().unwrap();
            }
            5 | 6 => {
                let kept = self.engine.take().unwrap();
                let (before, state) = (kept.snapshot(), self.states.last().unwrap().clone());
                let mut batch = kept.batch();
                batch.put(LAST, self.states.len().to_string());
                kept.write(&batch, true).unwrap();
                let then = before.get(LAST, Reach::Files).unwrap().map(|value| value.to_bytes());
                assert_eq!(then.as_ref(), state.get(LAST), "a snapshot does not move");
                drop(before);
                let last = self.states.len().to_string().into();
                self.states.push(State::from([(Bytes::from_static(LAST), last)]));
                let changed = self.states.last_mut().unwrap();
                for (key, value) in state {
                    changed.entry(key).or_insert(value);
                }
                self.engine = Some(kept);
            }
            7..=9 => assert_eq!(&rows(self.engine()), self.states.last().unwrap()),
            _ => self.write().unwrap(),
        }
    }
}

fn runs(place: impl Fn(u64) -> Backing, seeds: u64) {
    for seed in 0..seeds {
        let mut bench = Bench::new(place(seed), seed);
        (0..STEPS).for_each(|_| bench.step());
        bench.crash();
    }
}

fn simulated(seed: u64) -> Bench {
    Bench::new(Backing::Memory(SimulatedDisk::new(&Random::seeded(seed))), seed)
}

#[test]
fn rocksdb_agrees_with_the_model() {
    runs(|_| Backing::Rocks(TempDir::new().unwrap()), 3);
}

#[test]
fn the_engine_in_memory_agrees_with_the_model() {
    runs(|seed| Backing::Memory(SimulatedDisk::new(&Random::seeded(seed))), 60);
}

#[test]
fn the_engine_in_memory_does_the_same_under_the_same_seed() {
    let trace = |seed| {
        let mut bench = simulated(seed);
        (0..STEPS).for_each(|_| bench.step());
        let disk = bench.simulated_disk();
        (bench.states.len(), bench.flushed, disk.files(), bench.engine().files_bytes())
    };
    assert_eq!(trace(7), trace(7));
    assert_ne!(trace(7), trace(8));
}

#[test]
fn a_full_disk_refuses_and_loses_nothing() {
    for seed in 0..60 {
        let mut bench = simulated(seed);
        (0..20).for_each(|_| bench.write().unwrap());
        bench.flush().unwrap();
        let disk = bench.simulated_disk();
        let room = bench.stream.below(6_000);
        disk.limit(disk.used_bytes() + room);
        let refused = (0..100).find_map(|_| bench.write().and_then(|()| bench.flush()).err());
        assert!(refused.is_some(), "{room} bytes are enough for all of it");
        assert!(bench.engine().flush().is_err(), "until it is resumed");
        assert!(bench.write().is_err());
        assert_eq!(&rows(bench.engine()), bench.states.last().unwrap());
        disk.limit(u64::MAX);
        bench.engine().resume().unwrap();
        bench.flushed = bench.states.len() - 1;
        let files = disk.files().iter().filter(|it| it.extension().is_some()).count() as u64;
        assert_eq!(files, bench.engine().backlog().level_0_files, "nothing is left of tries");
        bench.write().unwrap();
        bench.crash();
    }
}

#[test]
fn a_failing_sync_is_no_flush_and_the_next_one_is() {
    for seed in 0..20 {
        let mut bench = simulated(seed);
        (0..20).for_each(|_| bench.write().unwrap());
        let disk = bench.simulated_disk();
        disk.fail_syncs(Some(1));
        bench.write().unwrap();
        assert!(bench.engine().flush().is_err());
        disk.fail_syncs(None);
        if bench.stream.once_in(2) {
            bench.engine().resume().unwrap();
            bench.flushed = bench.states.len() - 1;
        }
        bench.crash();
    }
}

#[test]
fn one_bit_is_found() {
    let mut found = 0;
    for seed in 0..100 {
        let mut bench = simulated(seed);
        for _ in 0..3 {
            (0..20).for_each(|_| bench.write().unwrap());
            bench.flush().unwrap();
        }
        let disk = bench.simulated_disk();
        let files = disk.files();
        let chosen = &files[usize::try_from(bench.stream.below(files.len() as u64)).unwrap()];
        assert!(disk.turn_bit(chosen));
        found += u64::from(matches!(bench.engine().verify(), Err(StoreError::Damaged(_))));
        bench.engine = None;
        let opened = bench.open(&bench.dir());
        assert!(matches!(opened, Err(StoreError::Damaged(_))), "{}", chosen.display());
    }
    assert!(found > 50, "what is read again is compared: {found}");
}
