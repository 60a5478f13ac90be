//! Tests of what befalls a simulation's files.

use std::io::ErrorKind;

use super::state::Content;
use super::*;
use crate::Disk;

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
    let space =
        || disk.space(Path::new(DIR)).map(|it| (it.total_bytes, it.available_bytes)).unwrap();
    assert_eq!(space(), (6, 0));
    disk.remove(&path("new")).unwrap();
    assert_eq!(space(), (6, 2));
    simulated.limit(7);
    disk.write_new(&path("new"), b"123").unwrap();
}

#[test]
fn what_a_failed_sync_forgot_no_later_one_brings_back() {
    let (simulated, disk) = disk(1);
    disk.write_new(&path("new"), b"123").unwrap();
    simulated.fail_syncs(Some(1));
    assert!(disk.sync(&path("new")).is_err() && disk.sync_dir(Path::new(DIR)).is_err());
    simulated.fail_syncs_but_in("data");
    disk.sync_dir(Path::new(DIR)).unwrap();
    assert!(disk.sync_dir(Path::new("elsewhere")).unwrap_err().to_string().contains("fails"));
    simulated.fail_syncs(None);
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
    let bits: u32 = turned.iter().zip(b"kept").map(|(one, other)| (one ^ other).count_ones()).sum();
    assert_eq!(bits, 1);
    simulated.lose_power();
    assert_eq!(simulated.started().read(&path("kept")).unwrap(), turned);
}
