//! The live lab in miniature: the demo, with real nodes, a real fault and laps of a second. What it
//! measures means nothing; that it measures, leaves its files and leaves nothing else does.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll_lab::live::{self, LiveOptions};
use plimsoll_lab::result::Results;
use plimsoll_lab::{LabError, Progress, RESULT_FILE};

/// Keeps what it is told.
#[derive(Default)]
struct Told(Vec<String>);

impl Progress for Told {
    fn note(&mut self, what: &str) {
        self.0.push(what.to_owned());
    }

    fn step(&mut self, _: usize, _: usize, _: &str) -> bool {
        true
    }
}

/// Runs in one process look for free ports at the same time, and would take each other's.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn options(experiment: &str, folder: &std::path::Path) -> LiveOptions {
    let mut options = LiveOptions::new(experiment).expect("the path of this program");
    options.binary = env!("CARGO_BIN_EXE_plimsoll").into();
    options.out = folder.join("out");
    options.folder = folder.join("nodes");
    options.warm_up = Duration::from_millis(200);
    options.window = Duration::from_millis(700);
    options
}

/// Nodes that run with their data in this folder.
fn left(folder: &std::path::Path) -> Vec<String> {
    let folder = folder.to_string_lossy().into_owned();
    let processes = std::fs::read_dir("/proc").expect("Linux").flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "));
    lines.filter(|line| line.contains(&folder)).collect()
}

#[test]
fn the_demo_plays_its_three_scenes_and_leaves_nothing_but_its_files() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let options = options(live::DEMO, folder.path());
    let mut told = Told::default();
    let outcome = live::run(&options, &mut told).unwrap();
    let text = std::fs::read_to_string(options.out.join(RESULT_FILE)).unwrap();
    let kept: Results = serde_json::from_str(&text).unwrap();
    // By their text: a number that is read back may differ in its last digit.
    assert_eq!(text, serde_json::to_string_pretty(&outcome.results).unwrap());
    let scenes: Vec<(&str, &str)> = kept
        .scenarios
        .iter()
        .flat_map(|one| one.variants.iter().map(|_| (one.name.as_str(), one.fault.kind.as_str())))
        .collect();
    assert_eq!(scenes.len(), 3, "{scenes:?}");
    assert!(scenes.iter().any(|(name, kind)| *name == "healthy" && *kind == "none"));
    assert!(scenes.iter().filter(|(name, _)| *name == "sick").all(|(_, kind)| *kind != "none"));
    for lap in kept.scenarios.iter().flat_map(|s| &s.variants).flat_map(|v| &v.laps) {
        assert!(lap.n == 0 || lap.error_rate < 1.0, "{lap:?}");
        assert_eq!(lap.nodes.len(), 3);
        assert!(lap.cpu_s.is_some_and(|s| s > 0.0) && lap.rss_peak_bytes > Some(1 << 20));
    }
    // The sentence at the end needs more answers than so short a lap always has.
    assert!(!kept.notes.is_empty());
    assert!(told.0.iter().any(|line| line.contains("p99")), "{:?}", told.0);
    assert_eq!(left(&options.folder), Vec::<String>::new());
    assert!(!options.folder.exists());
}

#[test]
fn a_run_that_is_stopped_at_once_says_so_and_leaves_nothing() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let options = options("replica-selection", folder.path());
    options.stop.store(true, Ordering::Relaxed);
    let ended = live::run(&options, &mut Told::default());
    assert!(matches!(ended, Err(LabError::Stopped)), "{ended:?}");
    assert_eq!(left(&options.folder), Vec::<String>::new());
    assert!(!options.out.exists() && !options.folder.exists());
}
