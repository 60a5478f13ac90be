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
enum Place {
    Rocks(TempDir),
    Memory(SimulatedDisk),
}

struct Bench {
    place: Place,
    random: Random,
    stream: Stream,
    disk: Disk,
    resources: Resources,
    engine: Option<Engine>,
    /// The state after each batch, the first of none.
    states: Vec<State>,
    /// The batch that is durable at least.
    flushed: usize,
    /// Batches that the log has durably, by [`BeforeFlush`].
    logged: Arc<AtomicU64>,
    checkpoints: u64,
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
    engine.walk(range, &mut |key, value| take(&mut now, key, value)).unwrap();
    assert_eq!(up, now);
    assert!(up.keys().rev().eq(down.iter()));
    for (key, value) in &up {
        assert_eq!(&*snapshot.get(key, Reach::Files).unwrap().unwrap(), &value[..]);
        assert_eq!(engine.get(key, Reach::Files).unwrap().unwrap().to_bytes(), value);
    }
    up
}

impl Bench {
    fn new(place: Place, seed: u64) -> Self {
        let random = Random::seeded(seed);
        let logged = Arc::new(AtomicU64::new(0));
        let disk = match &place {
            Place::Rocks(_) => Disk::of_the_machine(),
            Place::Memory(disk) => disk.started(),
        };
        let resources = Self::resources(&place, &disk, &random, &logged);
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
        };
        bench.engine = Some(bench.open(&bench.dir()).unwrap());
        bench
    }

    fn resources(
        place: &Place,
        disk: &Disk,
        random: &Random,
        logged: &Arc<AtomicU64>,
    ) -> Resources {
        let options = StoreOptions { write_buffer_bytes: 1 << 20, ..StoreOptions::default() };
        let logged = Arc::clone(logged);
        let before_flush = Arc::new(move || {
            logged.fetch_add(1, Ordering::Relaxed);
        });
        match place {
            Place::Rocks(_) => Resources::new(options, before_flush),
            Place::Memory(_) => {
                Resources::in_memory(options, before_flush, disk.clone(), random.clone())
            }
        }
    }

    fn dir(&self) -> PathBuf {
        match &self.place {
            Place::Rocks(dir) => dir.path().join("store"),
            Place::Memory(_) => PathBuf::from("/store"),
        }
    }

    fn open(&self, dir: &Path) -> Result<Engine, StoreError> {
        Engine::open(dir, &self.resources, Arc::new(AtomicBool::new(false)), true)
    }

    fn simulated_disk(&self) -> SimulatedDisk {
        match &self.place {
            Place::Memory(disk) => disk.clone(),
            Place::Rocks(_) => panic!("it is on the machine's"),
        }
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    fn key(&mut self) -> Vec<u8> {
        format!("k{:02}", self.stream.below(40)).into_bytes()
    }

    fn write(&mut self) {
        let mut batch = self.engine().batch();
        let mut state = self.states.last().unwrap().clone();
        for _ in 0..=self.stream.below(6) {
            let key = self.key();
            match self.stream.below(8) {
                0..=4 => {
                    let length = usize::try_from(self.stream.below(300)).unwrap();
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
        self.engine().write(&batch, true).unwrap();
        self.states.push(state);
    }

    fn flush(&mut self) {
        let before = self.logged.load(Ordering::Relaxed);
        let has_some = self.engine().flushable_bytes() > 0;
        self.engine().flush().unwrap();
        if has_some && matches!(self.place, Place::Memory(_)) {
            assert!(self.logged.load(Ordering::Relaxed) > before, "the log comes first");
        }
        self.flushed = self.states.len() - 1;
    }

    /// The process ends without warning, and where that can be also the machine.
    fn crash(&mut self) {
        if let Place::Memory(disk) = &self.place {
            match self.stream.once_in(2) {
                true => disk.lose_power(),
                // Its handles are worth nothing from here on, as those of who was killed.
                false => drop(disk.started()),
            }
        }
        self.engine = None;
        if let Place::Memory(disk) = &self.place {
            self.disk = disk.started();
        }
        self.resources = Self::resources(&self.place, &self.disk, &self.random, &self.logged);
        self.engine = Some(self.open(&self.dir()).unwrap());
        let found = rows(self.engine());
        let last = found.get(LAST).map_or(0, |last| number(last));
        assert!(last >= self.flushed, "{last} is left, {} was durable", self.flushed);
        assert_eq!(found, self.states[last], "not the state of batch {last}");
        self.states.truncate(last + 1);
        self.flushed = last;
    }

    fn checkpoint(&mut self) {
        self.checkpoints += 1;
        let dir = self.dir().with_file_name(format!("checkpoint-{}", self.checkpoints));
        self.engine().checkpoint(&dir).unwrap();
        self.flushed = self.states.len() - 1;
        assert!(Engine::is_in(&dir, &self.resources));
        let taken = rows(&self.open(&dir).unwrap());
        assert_eq!(&taken, self.states.last().unwrap());
        assert!(self.engine().checkpoint(&dir).is_err(), "there is one");
    }

    fn step(&mut self) {
        match self.stream.below(40) {
            0 | 1 => self.flush(),
            2 => self.crash(),
            3 => self.checkpoint(),
            4 => {
                self.flush();
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
            _ => self.write(),
        }
    }
}

fn runs(place: impl Fn(u64) -> Place, seeds: u64) {
    for seed in 0..seeds {
        let mut bench = Bench::new(place(seed), seed);
        (0..STEPS).for_each(|_| bench.step());
        bench.crash();
    }
}

fn simulated(seed: u64) -> Bench {
    Bench::new(Place::Memory(SimulatedDisk::new(&Random::seeded(seed))), seed)
}

#[test]
fn rocksdb_agrees_with_the_model() {
    runs(|_| Place::Rocks(TempDir::new().unwrap()), 3);
}

#[test]
fn the_engine_in_memory_agrees_with_the_model() {
    runs(|seed| Place::Memory(SimulatedDisk::new(&Random::seeded(seed))), 60);
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
    let mut bench = simulated(3);
    (0..20).for_each(|_| bench.write());
    bench.flush();
    let disk = bench.simulated_disk();
    disk.limit(bench.engine().files_bytes());
    bench.write();
    assert!(bench.engine().flush().is_err());
    let mut batch = bench.engine().batch();
    batch.put(b"k", b"refused");
    assert!(bench.engine().write(&batch, true).is_err(), "until files can be written");
    assert_eq!(&rows(bench.engine()), bench.states.last().unwrap());
    disk.limit(u64::MAX);
    bench.engine().resume().unwrap();
    bench.flushed = bench.states.len() - 1;
    bench.write();
    bench.crash();
}

#[test]
fn a_failing_sync_is_no_flush() {
    let mut bench = simulated(4);
    (0..20).for_each(|_| bench.write());
    let disk = bench.simulated_disk();
    disk.fail_syncs(true);
    assert!(bench.engine().flush().is_err());
    disk.fail_syncs(false);
    bench.crash();
}

#[test]
fn one_bit_is_found() {
    let mut found = 0;
    for seed in 0..100 {
        let mut bench = simulated(seed);
        for _ in 0..3 {
            (0..20).for_each(|_| bench.write());
            bench.flush();
        }
        let disk = bench.simulated_disk();
        let files = disk.files();
        let chosen = &files[usize::try_from(bench.stream.below(files.len() as u64)).unwrap()];
        assert!(disk.turn_bit(chosen));
        let is_found = matches!(bench.engine().verify(), Err(StoreError::Damaged(_)));
        let opened = bench.open(&bench.dir());
        assert!(matches!(opened, Err(StoreError::Damaged(_))), "{}", chosen.display());
        found += u64::from(is_found);
    }
    assert!(found > 50, "what is read again is compared: {found}");
}
