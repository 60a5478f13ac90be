//! Tests with a process that is killed while it copies, again and again: what it leaves is the old
//! replica or the new one, whole, and at most a copy to go on with.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]

use std::io::Write;
use std::process::{Child, Command, Stdio};

use super::*;

/// Tells the process that is killed from the one that kills: the folder to work in.
const VARIABLE: &str = "PLIMSOLL_RECOVERY_KILLED_IN";
const TEST: &str = "recovery::tests::killed::what_a_killed_process_leaves_is_whole";
const KILLS: usize = 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_process_leaves_is_whole() {
    match std::env::var(VARIABLE) {
        Ok(dir) => copy_for_ever(Path::new(&dir)).await,
        Err(_) => kill().await,
    }
}

/// Copies a replica that grows, one copy after the other, each in the place of the one before. Notes
/// what each is to be equal to before it begins.
async fn copy_for_ever(dir: &Path) {
    let (rows, node) = (dir.join("rows"), dir.join("node"));
    let mut source = Source::new(&rows, 1);
    let folders = Folders::of(&Disk::of_the_machine(), &node, ID);
    let recoveries = Recoveries::new("target", &World::of_the_machine());
    finish_swaps(&Disk::of_the_machine(), &node).unwrap();
    let options = CopyOptions { chunk_bytes_max: 4000, ..small() };
    loop {
        source.grow(10, 300, true);
        note(dir, source.digest());
        let network = Network::new(source.replica.store(), 1);
        *network.0.delay.lock() = Duration::from_micros(100);
        let recovery = recoveries.begin(ID, "source").unwrap();
        let copied = copy(&network.link(), ID, &folders, &options, &recovery).await.unwrap();
        copied.install(&resources(), LOG, true).unwrap();
        recovery.enter(Stage::Done);
    }
}

fn note(dir: &Path, digest: u64) {
    let mut notes = std::fs::OpenOptions::new().append(true).open(dir.join("digests")).unwrap();
    writeln!(notes, "{digest}").unwrap();
}

fn noted(dir: &Path) -> Vec<u64> {
    let notes = std::fs::read_to_string(dir.join("digests")).unwrap();
    // The last line may have been cut off.
    notes.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')?.parse().ok()).collect()
}

fn start(dir: &Path) -> Child {
    let test = std::env::current_exe().unwrap();
    let command = &mut Command::new(test);
    // What it leaves goes with the folder.
    command.args(["--exact", TEST, "--nocapture"]).env(VARIABLE, dir).env("TMPDIR", dir);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

async fn kill() {
    let dir = tempfile::tempdir().unwrap();
    let node = dir.path().join("node");
    std::fs::create_dir(&node).unwrap();
    std::fs::File::create(dir.path().join("digests")).unwrap();
    let folders = Folders::of(&Disk::of_the_machine(), &node, ID);
    let mut random = Random::new(4);
    let (mut unfinished, mut swaps, mut whole, mut last_whole) = (0, 0, 0, 0);
    for _ in 0..KILLS {
        let before = noted(dir.path()).len();
        let mut child = start(dir.path());
        while noted(dir.path()).len() <= before {
            assert_eq!(child.try_wait().unwrap(), None, "it goes on until it is killed");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_micros(random.below(200_000) as u64)).await;
        assert_eq!(child.try_wait().unwrap(), None, "it goes on until it is killed");
        child.kill().unwrap();
        child.wait().unwrap();
        swaps += usize::from(node.join(format!("{ID}.outgoing")).exists());
        let had_replica = folders.replica.exists();
        unfinished += finish_swaps(&Disk::of_the_machine(), &node).unwrap().len();
        assert!(!node.join(format!("{ID}.outgoing")).exists());
        if folders.replica.exists() {
            let digest = open(&folders.replica).digest().unwrap();
            // Of each process the last alone may not have got there.
            let noted = noted(dir.path());
            assert!(noted[last_whole..].contains(&digest), "{digest} of {noted:?}");
            last_whole = noted.iter().rposition(|it| *it == digest).unwrap();
            whole += 1;
        } else {
            assert!(!had_replica && whole == 0, "what was there once is there");
        }
    }
    println!("{KILLS} kills: {unfinished} in a copy, {swaps} in a swap, {whole} with a replica");
    let mut source = Source::new(&dir.path().join("rows"), 1);
    source.grow(1, 1, false);
    let (network, target) = (
        Network::new(source.replica.store(), 1),
        Recoveries::new("target", &World::of_the_machine()),
    );
    let recovery = target.begin(ID, "source").unwrap();
    let copied = copy(&network.link(), ID, &folders, &small(), &recovery).await.unwrap();
    copied.install(&resources(), LOG, false).unwrap();
    assert_eq!(open(&folders.replica).digest().unwrap(), source.digest());
}
