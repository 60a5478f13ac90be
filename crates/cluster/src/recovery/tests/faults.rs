//! Tests with a network that loses, cuts and damages: a copy is whole and equal, or there is an
//! error that says why, and the old replica is as it was.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]

use super::*;
use crate::wire::CopyListing;

/// How many seeds are run: more by the environment.
const SEEDS_VARIABLE: &str = "PLIMSOLL_RECOVERY_SEEDS";
const SEEDS: u64 = 200;

/// A source, a folder of what it was earlier, and the digests of both.
struct Subject {
    _dir: tempfile::TempDir,
    source: Source,
    earlier: PathBuf,
    digests: [u64; 2],
}

impl Subject {
    fn new(seed: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut random = Random::new(seed);
        let mut source = Source::new(&dir.path().join("rows"), seed);
        let earlier = dir.path().join("earlier");
        let grow = |source: &mut Source, random: &mut Random| {
            for _ in 0..1 + random.below(4) {
                let flushes = random.below(2) == 0;
                source.grow(1 + random.below(60), 1 + random.below(300), flushes);
            }
        };
        grow(&mut source, &mut random);
        source.replica.store().checkpoint(&earlier).unwrap();
        let before = source.digest();
        grow(&mut source, &mut random);
        let digests = [before, source.digest()];
        Self { _dir: dir, source, earlier, digests }
    }
}

fn faults(random: &mut Random) -> Faults {
    let scale = [0.0, 0.05, 0.2, 0.7][random.below(4)];
    let mut part = || if random.below(2) == 0 { 0.0 } else { scale * random.unit() };
    Faults {
        unreachable: part(),
        lost: part(),
        cut: part(),
        damaged: part(),
        garbled: part(),
        late: part(),
        restarted: part() / 4.0,
    }
}

fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for path in files(from).into_keys() {
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

/// What became of the attempts of some seeds.
#[derive(Debug, Default)]
struct Outcomes {
    whole: u64,
    killed: u64,
    given_up: u64,
    other_errors: u64,
    /// Bytes of chunks that were answered, and of checkpoints that were whole in the end.
    bytes_answered: u64,
    bytes_whole: u64,
}

/// Attempts until the copy is whole, at most four, some of them killed on the way.
async fn run(seed: u64, subject: &Subject, outcomes: &mut Outcomes) {
    let mut random = Random::new(seed);
    let (network, target) = (Network::new(subject.source.replica.store(), seed), Target::new());
    let has_old = random.below(2) == 0;
    if has_old {
        copy_files(&subject.earlier, &target.folders.replica);
    }
    let options = CopyOptions {
        chunk_bytes_max: 100 + random.below(8000) as u64,
        chunks_max: 1 + random.below(12),
        attempts_max: 2 + u32::try_from(random.below(5)).unwrap(),
        away_max: Duration::ZERO,
        pause_min: Duration::from_micros(10),
        pause_max: Duration::from_micros(500),
        seed,
        ..CopyOptions::default()
    };
    for _ in 0..4 {
        *network.0.faults.lock() = faults(&mut random);
        let kill_at = random.below(40);
        let kill_at = if random.below(3) == 0 { kill_at } else { usize::MAX };
        let asked = network.seen().asked.load(Ordering::Relaxed);
        let killed = async {
            while network.seen().asked.load(Ordering::Relaxed) - asked < kill_at {
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        };
        let copied = tokio::select! {
            copied = target.copy(&network, &options) => copied,
            () = killed => {
                outcomes.killed += 1;
                continue;
            }
        };
        outcomes.bytes_answered += network.take_bytes();
        match copied {
            Ok(copied) => {
                copied.install(&resources(), LOG, seed.is_multiple_of(2)).unwrap();
                let copy = open(&target.folders.replica);
                assert_eq!(copy.digest().unwrap(), subject.digests[1], "seed {seed}");
                outcomes.whole += 1;
                outcomes.bytes_whole += target.status().bytes_total;
                return;
            }
            Err(CopyError::GivenUp { .. }) => outcomes.given_up += 1,
            Err(CopyError::Disk(error)) => panic!("seed {seed}: {error}"),
            Err(_) => outcomes.other_errors += 1,
        }
    }
    if has_old {
        let old = open(&target.folders.replica);
        assert_eq!(old.digest().unwrap(), subject.digests[0], "seed {seed}: the old is as it was");
    } else {
        assert!(!target.folders.replica.exists(), "seed {seed}: nothing takes its place");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_whole_and_equal_or_there_is_an_error() {
    let seeds = std::env::var(SEEDS_VARIABLE).ok().map_or(SEEDS, |text| text.parse().unwrap());
    let subjects: Vec<Subject> = (0..8).map(Subject::new).collect();
    let mut outcomes = Outcomes::default();
    for seed in 0..seeds {
        run(seed, &subjects[(seed % 8) as usize], &mut outcomes).await;
    }
    println!("{seeds} seeds: {outcomes:?}");
    let Outcomes { whole, killed, given_up, .. } = outcomes;
    assert!(whole > seeds / 2, "most get through");
    assert!(seeds < 100 || (killed > seeds / 20 && given_up > seeds / 20), "not all at once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_answer_is_found_and_asked_for_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = Source::new(dir.path(), 3);
    // A hundred answers: that none of them is damaged is as good as never.
    source.grow(1000, 200, true);
    let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
    *network.0.faults.lock() = Faults { damaged: 0.2, ..Faults::default() };
    let copied = target.copy(&network, &CopyOptions { attempts_max: 30, ..small() }).await.unwrap();
    let bytes = target.status().bytes_total;
    let answered = network.take_bytes();
    assert!(answered > bytes, "something was asked for again");
    assert!(answered < 2 * bytes, "chunks and not files: {answered} of {bytes}");
    copied.install(&resources(), LOG, false).unwrap();
    assert_eq!(open(&target.folders.replica).digest().unwrap(), source.digest());
    // Where every answer is damaged, it ends.
    *network.0.faults.lock() = Faults { damaged: 1.0, ..Faults::default() };
    let error = Target::new().copy(&network, &small()).await.err().unwrap();
    assert!(matches!(error, CopyError::GivenUp { attempts: 6, .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_damaged_at_the_source_is_never_taken() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = Source::new(dir.path(), 3);
    source.grow(100, 200, true);
    let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
    let link = network.link();
    let open_it = Question::OpenCopy { partition: crate::wire::PartitionName::from(ID) };
    let opened = link.ask(open_it, Duration::from_secs(9), 0).await.unwrap();
    let Reply::Copy { listing, .. } = opened else { panic!("{opened:?}") };
    let folder = network.0.data.path().join(format!("recovery/out-{}/rows", listing.number));
    let (path, _) = files(&folder).into_iter().max_by_key(|(_, (bytes, _))| *bytes).unwrap();
    let right = std::fs::read(&path).unwrap();
    let mut wrong = right.clone();
    wrong[1234] ^= 16;
    // A file of its own, as the link is that of the source's rows.
    let replace = |bytes: &[u8]| {
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, bytes).unwrap();
    };
    replace(&wrong);
    // Its chunks are right by their own checksums, and so is the file by that of all of it.
    let copied = target.copy(&network, &small()).await.unwrap();
    let refused = copied.install(&resources(), LOG, false);
    assert!(matches!(refused, Err(InstallError::Damaged(_))), "{refused:?}");
    assert!(!target.folders.replica.exists() && !target.folders.incoming.exists());
    network.restart();
    let copy = target.recover(&network, &small()).await;
    assert_eq!(copy.digest().unwrap(), source.digest());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_rots_at_the_source_after_it_was_read_once_is_not_copied() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = Source::new(dir.path(), 3);
    source.grow(100, 200, true);
    let network = Network::new(source.replica.store(), 1);
    drop(Target::new().recover(&network, &small()).await);
    let rows = files(dir.path()).into_iter().filter(|(path, _)| path.extension().is_some());
    let (path, _) = rows.max_by_key(|(_, (bytes, _))| *bytes).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    // What was written is as it was, by its time too: a disk tells nobody.
    let modified = file.metadata().unwrap().modified().unwrap();
    let byte = std::fs::read(&path).unwrap()[1234];
    std::os::unix::fs::FileExt::write_all_at(&file, &[byte ^ 16], 1234).unwrap();
    file.set_modified(modified).unwrap();
    let target = Target::new();
    let error = target.copy(&network, &small()).await.err().unwrap();
    assert!(matches!(error, CopyError::Damaged(_)), "{error}");
    assert_eq!(target.status().failure.as_deref(), Some("it was given up"));
    assert!(!target.folders.replica.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_without_the_partition_is_given_up_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = Source::new(dir.path(), 3);
    source.grow(10, 20, true);
    let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
    let other = PartitionId { ordinal: 9, ..ID };
    let recovery = target.recoveries.begin(other, "source").unwrap();
    let folders = Folders::of(&Disk::of_the_machine(), target.dir.path(), other);
    let error = copy(&network.link(), other, &folders, &small(), &recovery).await.err().unwrap();
    assert!(matches!(error, CopyError::NotHere(_)), "{error}");
    assert_eq!(network.seen().opened.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_that_is_not_the_one_that_was_sent_is_asked_for_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = Source::new(dir.path(), 3);
    source.grow(10, 20, true);
    let alters: [Alter; 4] = [
        |reply| alter_listing(reply, |listing| drop(listing.files.pop())),
        |reply| alter_listing(reply, |listing| listing.lsn += 1),
        |reply| alter_listing(reply, |listing| listing.files[0].bytes += 1),
        |reply| alter_listing(reply, |listing| listing.format += 1),
    ];
    for alter in alters {
        let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
        *network.0.alter.lock() = Some(alter);
        let copied = target.copy(&network, &small()).await.unwrap();
        assert_eq!(copied.lsn, source.replica.stamp().position.lsn);
        copied.install(&resources(), LOG, false).unwrap();
        assert_eq!(open(&target.folders.replica).digest().unwrap(), source.digest());
        assert_eq!(network.seen().opened.load(Ordering::Relaxed), 2);
    }
}

fn alter_listing(reply: &mut Reply, alter: fn(&mut CopyListing)) -> bool {
    match reply {
        Reply::Copy { listing, .. } => {
            alter(listing);
            true
        }
        _ => false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_forgets_every_checkpoint_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = Source::new(dir.path(), 3);
    source.grow(10, 20, true);
    let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
    *network.0.faults.lock() = Faults { restarted: 1.0, ..Faults::default() };
    let error = target.copy(&network, &small()).await.err().unwrap();
    assert!(matches!(error, CopyError::GivenUp { attempts: 6, .. }), "{error}");
    assert_eq!(network.seen().opened.load(Ordering::Relaxed), 6);
}
