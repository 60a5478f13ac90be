//! A process that is killed in the middle of its appends loses nothing it acknowledged.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may panic")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use bytes::Bytes;
use plimsoll_log::embedded::{Durability, Embedded, Options};
use plimsoll_log::{GroupId, Log, Lsn};

const GROUPS: u16 = 3;
const FOLDER: &str = "PLIMSOLL_TEST_LOG_FOLDER";

fn open(dir: &Path, durability: Durability) -> Embedded {
    Embedded::open(dir, &Options { groups: GROUPS, durability, ..Options::default() }).unwrap()
}

fn record(group: u16, lsn: u64) -> Vec<u8> {
    let line = format!("record {lsn} of group {group};");
    line.as_bytes().iter().copied().cycle().take(10 + (lsn as usize * 37) % 900).collect()
}

/// Run in a process of its own by the test below; by itself it does nothing.
#[test]
fn child() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let mode = if folder.contains("async") { Durability::Async } else { Durability::Request };
    let log = open(Path::new(&folder), mode);
    let (tell, told) = sync_channel::<(u16, Lsn)>(64);
    let mut next: Vec<u64> =
        (0..GROUPS).map(|group| log.bounds(GroupId(group)).unwrap().last.0 + 1).collect();
    let mut waiting = 0;
    loop {
        for (group, lsn) in (0..).zip(&mut next) {
            let tell = tell.clone();
            let done = move |outcome: Result<Lsn, _>| tell.send((group, outcome.unwrap())).unwrap();
            log.append(GroupId(group), Bytes::from(record(group, *lsn)), Box::new(done));
            *lsn += 1;
            waiting += 1;
        }
        while waiting > 30 {
            let (group, lsn) = told.recv().unwrap();
            waiting -= 1;
            let mut out = std::io::stderr().lock();
            writeln!(out, "acknowledged {group} {lsn}").unwrap();
        }
    }
}

fn kill_and_check(dir: &Path, durability: Durability) {
    let mut acknowledged = [0u64; GROUPS as usize];
    for round in 1..=5u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--nocapture"])
            .env(FOLDER, dir)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut seen = 0;
        let mut heed = |line: &str| {
            let Some(line) = line.strip_prefix("acknowledged ") else { return false };
            let (group, lsn) = line.split_once(' ').unwrap();
            acknowledged[group.parse::<usize>().unwrap()] = lsn.parse().unwrap();
            true
        };
        while seen < 100 * round {
            seen += u64::from(heed(&lines.next().expect("the child ended by itself").unwrap()));
        }
        child.kill().unwrap();
        // A line cut short by the end of the process says nothing.
        let mut rest: Vec<String> = lines.map_while(Result::ok).collect();
        rest.pop();
        rest.iter().for_each(|line| {
            heed(line);
        });
        child.wait().unwrap();

        let log = open(dir, durability);
        for (group, acknowledged) in (0..GROUPS).zip(acknowledged) {
            let last = log.bounds(GroupId(group)).unwrap().last.0;
            assert!(
                last >= acknowledged,
                "group {group}: {acknowledged} acknowledged, {last} held"
            );
            let mut reader = log.read(&[(GroupId(group), Lsn(1))]).unwrap();
            let mut entries = Vec::new();
            while (entries.len() as u64) < last {
                reader.next(&mut entries, 1 << 20, Duration::from_secs(60)).unwrap();
            }
            for (lsn, entry) in (1..).zip(&entries) {
                assert_eq!((entry.lsn, &entry.record[..]), (Lsn(lsn), &record(group, lsn)[..]));
            }
        }
    }
}

#[test]
fn a_killed_process_loses_nothing_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    kill_and_check(&dir.path().join("request"), Durability::Request);
    kill_and_check(&dir.path().join("async"), Durability::Async);
}
