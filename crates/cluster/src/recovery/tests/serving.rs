//! Tests of the source alone: what it gives, what it refuses, and what ends by itself.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]

use super::*;
use crate::wire::{CopyListing, PartitionName, Problem, checksum_of, chunk_checksum};

/// A source of one small replica and what it serves others with.
struct Serving {
    world: World,
    dir: tempfile::TempDir,
    source: Source,
    checkpoints: Checkpoints,
}

impl Serving {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut source = Source::new(&dir.path().join("rows"), 3);
        source.grow(50, 100, false);
        let world = World::of_the_machine();
        let checkpoints = Checkpoints::new(&world, dir.path()).unwrap();
        Self { world, dir, source, checkpoints }
    }

    async fn ask(&self, from: &str, question: Question) -> Reply {
        let find = |id| (id == ID).then(|| rows_of(self.source.replica.store()));
        self.checkpoints.answer(from, &question, find).await.unwrap()
    }

    async fn open(&self, from: &str) -> CopyListing {
        let partition = PartitionName::from(ID);
        match self.ask(from, Question::OpenCopy { partition }).await {
            Reply::Copy { listing, checksum } => {
                assert_eq!(listing.checksum(), checksum);
                listing
            }
            other => panic!("{other:?}"),
        }
    }

    async fn chunk(&self, checkpoint: u64, file: &str, offset: u64, bytes_max: u32) -> Reply {
        let file = file.to_owned();
        self.ask("b", Question::Chunk { checkpoint, file, offset, bytes_max }).await
    }

    /// Waits for the threads that delete, and says how many folders there are: at most `expected`
    /// unless they never do.
    async fn folders(&self, expected: usize) -> usize {
        let count = || self.dir.path().join("recovery").read_dir().unwrap().count();
        for _ in 0..5000 {
            if count() <= expected {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        count()
    }
}

fn kind(reply: &Reply) -> &ErrorKind {
    match reply {
        Reply::Problem(Problem::Row { kind, .. }) => kind,
        other => panic!("{other:?}"),
    }
}

/// What a chunk of the form of now holds.
fn chunk_of(reply: Reply) -> (Vec<u8>, Option<u64>) {
    match reply {
        Reply::CopyChunk { bytes, file_checksum, checksum } => {
            assert_eq!(chunk_checksum(&bytes, file_checksum), checksum);
            (bytes, file_checksum)
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn gives_the_files_that_it_lists_and_no_other() {
    let serving = Serving::new();
    let listing = serving.open("b").await;
    assert_eq!(listing.lsn, 1);
    let checkpoint = listing.number;
    let chunk = |file: usize, offset: u64, bytes_max: u32| {
        let file = u32::try_from(file).unwrap();
        serving.ask("b", Question::CopyChunk { checkpoint, file, offset, bytes_max })
    };
    for (at, file) in listing.files.iter().enumerate() {
        let mut bytes = Vec::new();
        let mut told = None;
        while told.is_none() {
            let (part, checksum) = chunk_of(chunk(at, bytes.len() as u64, 1000).await);
            assert!(part.len() <= 1000);
            bytes.extend(part);
            assert_eq!(checksum.is_some(), bytes.len() as u64 == file.bytes, "with the last alone");
            told = checksum;
        }
        assert_eq!(told, Some(Checksum::of(&bytes)));
        let (end, checksum) = chunk_of(chunk(at, file.bytes, u32::MAX).await);
        assert!(end.is_empty() && checksum == told);
        assert_eq!(kind(&chunk(at, file.bytes + 1, 1).await), &ErrorKind::General);
    }
    assert_eq!(kind(&chunk(listing.files.len(), 0, 9).await), &ErrorKind::General);
}

#[tokio::test]
async fn nothing_is_read_before_the_first_chunk_is_given() {
    let serving = Serving::new();
    let listing = serving.open("b").await;
    assert!(listing.files.iter().all(|file| file.checksum.is_none()), "{listing:?}");
    let largest = (0..listing.files.len()).max_by_key(|at| listing.files[*at].bytes).unwrap();
    let file = u32::try_from(largest).unwrap();
    let question = |files| Question::FileChecksums { checkpoint: listing.number, files };
    let Reply::FileChecksums { checksums, checksum } = serving.ask("b", question(vec![file])).await
    else {
        panic!("no checksums");
    };
    assert_eq!(checksum, checksum_of(&checksums));
    // What was read once is known, also in the checkpoint of another node.
    let other = serving.open("c").await;
    let known: Vec<u64> = other.files.iter().filter_map(|file| file.checksum).collect();
    assert_eq!(known, checksums);
    let refused = serving.ask("b", question(vec![file, u32::MAX])).await;
    assert_eq!(kind(&refused), &ErrorKind::General);
}

#[tokio::test]
async fn a_node_that_knows_no_other_form_is_given_all_checksums_first() {
    let serving = Serving::new();
    let now = serving.open("b").await;
    let partition = PartitionName::from(ID);
    let opened = serving.ask("b", Question::OpenCheckpoint { partition }).await;
    let Reply::Checkpoint { listing, checksum } = opened else { panic!("{opened:?}") };
    assert_eq!((listing.checksum(), listing.number), (checksum, now.number), "it is the same one");
    let of = |name: &str, bytes: u64| (name.to_owned(), bytes);
    let plain: Vec<_> = listing.files.iter().map(|file| of(&file.name, file.bytes)).collect();
    assert_eq!(plain, now.files.iter().map(|it| of(&it.name, it.bytes)).collect::<Vec<_>>());
    for file in &listing.files {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < file.bytes {
            match serving.chunk(listing.number, &file.name, bytes.len() as u64, 1000).await {
                Reply::Chunk { bytes: chunk, checksum } => {
                    assert!(!chunk.is_empty() && chunk.len() <= 1000);
                    assert_eq!(Checksum::of(&chunk), checksum);
                    bytes.extend(chunk);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((bytes.len() as u64, Checksum::of(&bytes)), (file.bytes, file.checksum));
        let end = serving.chunk(listing.number, &file.name, file.bytes, u32::MAX).await;
        assert!(matches!(end, Reply::Chunk { bytes, .. } if bytes.is_empty()));
        let beyond = serving.chunk(listing.number, &file.name, file.bytes + 1, 1).await;
        assert_eq!(kind(&beyond), &ErrorKind::General);
    }
    std::fs::write(serving.dir.path().join("secret"), "x").unwrap();
    std::fs::write(serving.dir.path().join("recovery/secret"), "x").unwrap();
    let absolute = serving.dir.path().join("secret").display().to_string();
    for name in ["", ".", "..", "../secret", "../../secret", "CURRENT/", "./CURRENT", &absolute] {
        assert_eq!(
            kind(&serving.chunk(listing.number, name, 0, 9).await),
            &ErrorKind::General,
            "{name:?}"
        );
    }
    let gone = serving.chunk(listing.number ^ 1, "CURRENT", 0, 9).await;
    assert!(matches!(gone, Reply::Problem(Problem::CheckpointGone)));
    let other = PartitionName { table: 7, ordinal: 3 };
    let not_here = serving.ask("b", Question::OpenCheckpoint { partition: other }).await;
    assert!(matches!(not_here, Reply::Problem(Problem::NotHere(_))), "{not_here:?}");
    assert!(serving.checkpoints.answer("b", &Question::Probe, |_| None).await.is_none());
}

#[tokio::test]
async fn a_node_has_one_checkpoint_of_a_partition_and_all_have_a_few() {
    let serving = Serving::new();
    let first = serving.open("b").await;
    assert_eq!(serving.open("b").await, first, "the same again");
    for from in ["c", "d", "e"] {
        assert_ne!(serving.open(from).await.number, first.number);
    }
    let partition = PartitionName::from(ID);
    let refused = serving.ask("f", Question::OpenCheckpoint { partition }).await;
    assert_eq!(kind(&refused), &ErrorKind::TryAgain);
    assert_eq!(serving.folders(4).await, 4);
    let closed = serving.ask("b", Question::CloseCheckpoint { checkpoint: first.number }).await;
    assert!(matches!(closed, Reply::Done));
    assert_eq!(serving.folders(3).await, 3);
    let gone = serving.chunk(first.number, "CURRENT", 0, 9).await;
    assert!(matches!(gone, Reply::Problem(Problem::CheckpointGone)));
    assert_ne!(serving.open("f").await.number, first.number);
}

#[tokio::test]
async fn two_that_ask_at_once_for_the_same_get_the_same() {
    let serving = Serving::new();
    let (one, other) = tokio::join!(serving.open("b"), serving.open("b"));
    assert_eq!(one, other);
    assert_eq!(serving.folders(1).await, 1);
}

#[tokio::test]
async fn a_checkpoint_that_nobody_reads_ends_by_itself() {
    let serving = Serving::new();
    let listing = serving.open("b").await;
    let minute = Duration::from_secs(60);
    assert_eq!(serving.checkpoints.expire(serving.world.time.now() + 4 * minute), 0);
    let chunk = serving.chunk(listing.number, "CURRENT", 0, 9).await;
    assert!(matches!(chunk, Reply::Chunk { .. }), "{chunk:?}");
    assert_eq!(serving.checkpoints.expire(serving.world.time.now() + 5 * minute), 1);
    assert_eq!(serving.folders(0).await, 0);
    let gone = serving.chunk(listing.number, "CURRENT", 0, 9).await;
    assert!(matches!(gone, Reply::Problem(Problem::CheckpointGone)));
}

#[tokio::test]
async fn what_a_crash_left_is_deleted_at_the_start() {
    let serving = Serving::new();
    let listing = serving.open("b").await;
    let Serving { dir, source, checkpoints, .. } = serving;
    // A crash runs nothing that deletes.
    std::mem::forget(checkpoints);
    let recovery = dir.path().join("recovery");
    std::fs::create_dir(recovery.join("out-5.tmp")).unwrap();
    std::fs::create_dir(recovery.join("other")).unwrap();
    // Each start draws numbers of its own.
    let world = World::of_the_machine();
    let checkpoints = Checkpoints::new(&world, dir.path()).unwrap();
    let serving = Serving { world, dir, source, checkpoints };
    assert_eq!(serving.folders(1).await, 1, "what is not ours stays");
    let gone = serving.chunk(listing.number, "CURRENT", 0, 9).await;
    assert!(matches!(gone, Reply::Problem(Problem::CheckpointGone)));
    assert_ne!(serving.open("b").await.number, listing.number);
}

#[tokio::test]
async fn what_a_follower_reads_outlives_a_restart_and_keeps_no_more_than_it_may() {
    let Serving { world, dir, mut source, checkpoints } = Serving::new();
    let ask = async |checkpoints: &Checkpoints, source: &Source, question: &Question| {
        let find = |id| (id == ID).then(|| rows_of(source.replica.store()));
        checkpoints.answer_follower("them:n", question, 1_000, find).await.unwrap()
    };
    let open = Question::OpenCopy { partition: PartitionName::from(ID) };
    let opened =
        async |checkpoints: &Checkpoints, source: &Source| match ask(checkpoints, source, &open)
            .await
        {
            Reply::Copy { listing, .. } => listing,
            other => panic!("{other:?}"),
        };
    let first = opened(&checkpoints, &source).await;
    // One after a clean stop, one after a crash.
    drop(checkpoints);
    let checkpoints = Checkpoints::new(&world, dir.path()).unwrap();
    let again = opened(&checkpoints, &source).await;
    assert_eq!((again.number, &again.files), (first.number, &first.files));
    std::mem::forget(checkpoints);
    let checkpoints = Checkpoints::new(&world, dir.path()).unwrap();
    assert_eq!(opened(&checkpoints, &source).await.number, first.number);
    assert_eq!(checkpoints.opened_by_follower("them:n", first.number), Some(ID));
    let sst = first.files.iter().position(|file| file.name.ends_with(".sst")).unwrap();
    let file = u32::try_from(sst).unwrap();
    let chunk = Question::CopyChunk { checkpoint: first.number, file, offset: 0, bytes_max: 9 };
    let chunk = ask(&checkpoints, &source, &chunk).await;
    assert!(matches!(chunk, Reply::CopyChunk { .. }), "{chunk:?}");
    // Once the store has written its files anew, the checkpoint alone keeps the old ones.
    source.grow(50, 100, true);
    source.replica.store().compact().unwrap();
    let folder = dir.path().join("recovery").join(format!("out-{}", first.number));
    let own = kept::own_bytes(&world.disk, &folder, &first);
    assert!(own > 0);
    assert_eq!(checkpoints.expire_large(own), 0);
    assert_eq!(checkpoints.expire_large(own - 1), 1);
    assert_eq!(checkpoints.opened_by_follower("them:n", first.number), None);
}

#[tokio::test]
async fn a_replica_that_stands_nowhere_is_not_given_away() {
    let serving = Serving::new();
    let empty = tempfile::tempdir().unwrap();
    let replica = open(empty.path());
    let partition = PartitionName::from(ID);
    let question = Question::OpenCheckpoint { partition };
    let find = |_| Some(rows_of(replica.store()));
    let refused = serving.checkpoints.answer("b", &question, find).await.unwrap();
    assert_eq!(kind(&refused), &ErrorKind::General);
    assert_eq!(serving.folders(0).await, 0);
}
