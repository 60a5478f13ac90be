//! Tests of whole copies: what is equal afterwards, what is copied again and what is not.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]

use std::ops::ControlFlow;

use plimsoll_log::Lsn;
use plimsoll_storage::partition::ToIndex;

use super::*;
use crate::recovery::window::Window;

/// A source that is not all flushed, and whose files stay as they are: few, and the lowest was
/// rewritten already.
fn source(dir: &Path) -> Source {
    let mut source = Source::new(dir, 5);
    source.grow(300, 100, true);
    let flushed = |path: &PathBuf| path.extension().is_some_and(|it| it == "sst");
    let first = files(dir).into_keys().find(flushed).unwrap();
    source.grow(20, 100, false);
    // The store rewrites the lowest file once no snapshot needs the order of its rows.
    drop(source.replica.store().snapshot().unwrap());
    for _ in 0..5000 {
        if !first.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    source
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_equal_and_follows_the_same_log() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = source(dir.path());
    let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
    let mut copy = target.recover(&network, &CopyOptions::default()).await;
    assert_eq!(copy.digest().unwrap(), source.digest());
    assert!(!target.folders.incoming.exists());
    source.grow(30, 50, false);
    let (position, record) = source.log.last().unwrap();
    copy.apply(*position, record, OverBudget::Refuse, &mut ()).unwrap();
    assert_eq!(copy.digest().unwrap(), source.digest());
    // The checkpoint is closed beside everything else.
    let recovery = network.0.data.path().join("recovery");
    while std::fs::read_dir(&recovery).unwrap().count() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let status = target.status();
    assert_eq!(status.bytes_recovered, status.bytes_total);
    assert_eq!(status.bytes_total, network.take_bytes());
    assert_eq!((status.files_recovered, status.files_reused), (status.files_total, 0));
    assert!(status.files_total > 3 && status.bytes_s > 0, "{status:?}");
    assert_eq!((&*status.source, &*status.target), ("source", "target"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_documents_has_all_to_index() {
    let dir = tempfile::tempdir().unwrap();
    let source = source(dir.path());
    let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
    let index = target.dir.path().join(format!("{ID}.index"));
    std::fs::create_dir(&index).unwrap();
    let copied = target.copy(&network, &small()).await.unwrap();
    assert_eq!(copied.lsn, source.replica.stamp().position.lsn);
    let position = copied.install(&resources(), LOG, true).unwrap();
    assert_eq!(position, source.replica.stamp().position);
    assert!(!index.exists(), "an index over other rows");
    let copy = open(&target.folders.replica);
    assert!(copy.notes_documents());
    let mut noted = Vec::new();
    let visit = &mut |lsn, _| {
        noted.push(lsn);
        ControlFlow::Continue(())
    };
    copy.store().touches(Lsn(0), visit).unwrap();
    assert_eq!(noted, [position.lsn]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_killed_at_any_chunk_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let source = source(dir.path());
    let digest = source.digest();
    for (chunks_max, restarts) in [(1, false), (1, true), (6, false), (6, true)] {
        let options = CopyOptions { chunks_max, chunk_bytes_max: 1000, ..small() };
        let mut killed = 0;
        for answers in (0..).step_by(4) {
            let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
            network.0.answers_left.store(answers, Ordering::Relaxed);
            if is_whole_before_stuck(&target, &network, &options).await {
                break;
            }
            killed += 1;
            drop(target.begin().await);
            assert_eq!(finish_swaps(&Disk::of_the_machine(), target.dir.path()).unwrap(), [ID]);
            network.0.answers_left.store(usize::MAX, Ordering::Relaxed);
            if restarts {
                network.restart();
            }
            let (there, before) = (target.incoming_bytes(), network.take_bytes());
            let copy = target.recover(&network, &options).await;
            assert_eq!(copy.digest().unwrap(), digest);
            let status = target.status();
            let after = network.take_bytes();
            assert_eq!(after, status.bytes_total - there, "killed after {answers}");
            assert_eq!((status.bytes_reused, status.bytes_recovered), (there, after));
            // What was under way is lost, and no more than that.
            let lost = before - there;
            assert!(lost <= options.chunk_bytes_max * chunks_max as u64, "{lost}");
        }
        assert!(killed > 8, "{killed} chunks were killed at");
    }
}

/// Copies until answers no longer come, and drops it all there. Says whether it was whole first.
async fn is_whole_before_stuck(target: &Target, network: &Network, options: &CopyOptions) -> bool {
    let answers = network.0.answers_left.load(Ordering::Relaxed);
    let stuck = async {
        while network.seen().asked.load(Ordering::Relaxed) <= answers {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    };
    tokio::select! {
        copied = target.copy(network, options) => copied.map(drop).map(|()| true).unwrap(),
        () = stuck => false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_restarts_is_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = source(dir.path());
    let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
    *network.0.delay.lock() = Duration::from_millis(1);
    let recovery = target.begin().await;
    let (link, options) = (network.link(), CopyOptions { chunks_max: 1, ..small() });
    let copying = copy(&link, ID, &target.folders, &options, &recovery);
    let restarting = async {
        for chunks in [5, 10, 15] {
            while network.seen().asked.load(Ordering::Relaxed) < chunks {
                tokio::task::yield_now().await;
            }
            // Its rows go on meanwhile, so that the next checkpoint is another.
            source.grow(5, 100, true);
            network.restart();
        }
    };
    let (copied, ()) = tokio::join!(copying, restarting);
    assert_eq!(network.seen().opened.load(Ordering::Relaxed), 4);
    copied.unwrap().install(&resources(), LOG, false).unwrap();
    assert_eq!(open(&target.folders.replica).digest().unwrap(), source.digest());
    let status = recovery.status();
    assert_eq!(status.bytes_recovered + status.bytes_reused, status.bytes_total);
    assert_eq!(status.bytes_reused, 0, "it was all copied by this attempt");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_copy_is_reused_but_for_what_differs() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = source(dir.path());
    let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
    drop(target.recover(&network, &small()).await);
    let first = network.take_bytes();
    source.grow(10, 100, true);
    let had: Vec<(u64, u64)> = files(&target.folders.replica).into_values().collect();
    let copied = target.copy(&network, &small()).await.unwrap();
    let has = files(&target.folders.incoming);
    let new = has.values().filter(|it| !had.contains(it)).map(|(bytes, _)| *bytes).sum::<u64>();
    let second = network.take_bytes();
    assert_eq!(second, new, "only what differs");
    assert!(second < first / 2, "{second} of {first}");
    let status = target.status();
    assert_eq!(status.bytes_reused, status.bytes_total - second);
    assert!(status.files_reused >= 2, "{status:?}");
    assert_ne!(open(&target.folders.replica).digest().unwrap(), source.digest(), "still the old");
    copied.install(&resources(), LOG, false).unwrap();
    assert_eq!(open(&target.folders.replica).digest().unwrap(), source.digest());
    assert_eq!(target.dir.path().read_dir().unwrap().count(), 1, "nothing else is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_file_that_was_damaged_is_not_reused() {
    let dir = tempfile::tempdir().unwrap();
    let source = source(dir.path());
    let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
    drop(target.recover(&network, &small()).await);
    network.take_bytes();
    for path in files(&target.folders.replica).into_keys() {
        if path.extension().is_some_and(|it| it == "sst") {
            let mut bytes = std::fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }
    }
    let copy = target.recover(&network, &small()).await;
    assert_eq!(copy.digest().unwrap(), source.digest());
    assert!(network.take_bytes() > 30_000, "all rows were copied");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_was_damaged_on_the_disk_is_copied_anew() {
    let dir = tempfile::tempdir().unwrap();
    let source = source(dir.path());
    let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
    network.0.answers_left.store(20, Ordering::Relaxed);
    assert!(!is_whole_before_stuck(&target, &network, &small()).await);
    drop(target.begin().await);
    let mut parts = files(&target.folders.incoming).into_keys();
    let part = parts.find(|path| path.extension().is_some_and(|it| it == "part")).unwrap();
    let mut bytes = std::fs::read(&part).unwrap();
    let bytes_lost = bytes.len() as u64;
    bytes[0] ^= 1;
    std::fs::write(&part, bytes).unwrap();
    network.0.answers_left.store(usize::MAX, Ordering::Relaxed);
    let there = target.incoming_bytes();
    network.take_bytes();
    let copy = target.recover(&network, &small()).await;
    assert_eq!(copy.digest().unwrap(), source.digest());
    let status = target.status();
    // All of its file came a second time, beside what was missing of the others.
    assert!(network.take_bytes() > status.bytes_total - there + bytes_lost);
    assert_eq!(status.bytes_reused, there - bytes_lost);
    assert_eq!(status.bytes_recovered, status.bytes_total - status.bytes_reused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_was_opened_but_not_put_in_its_place_is_mended() {
    let dir = tempfile::tempdir().unwrap();
    let source = source(dir.path());
    let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
    drop(target.copy(&network, &small()).await.unwrap());
    let total = network.take_bytes();
    let mut opened = open(&target.folders.incoming);
    opened.adopt(ToIndex::All).unwrap();
    opened.store().flush().unwrap();
    drop(opened);
    let copy = target.recover(&network, &small()).await;
    assert_eq!(copy.digest().unwrap(), source.digest());
    assert!(!copy.notes_documents());
    let again = network.take_bytes();
    assert!(again > 0 && again < total / 4, "{again} of {total}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_chunks_are_under_way_and_never_more_than_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let source = source(dir.path());
    for (chunks_max, bytes_max, expected) in [(1, 1 << 20, 1), (5, 1 << 20, 5), (50, 6000, 3)] {
        let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
        *network.0.delay.lock() = Duration::from_millis(1);
        let options = CopyOptions { chunks_max, bytes_max, ..small() };
        let copy = target.recover(&network, &options).await;
        assert_eq!(copy.digest().unwrap(), source.digest());
        let most = network.seen().under_way_max.load(Ordering::Relaxed);
        assert!((expected..=chunks_max).contains(&most), "{most} of {chunks_max}");
        // Files smaller than a chunk leave room for a few more.
        assert!(bytes_max > 6000 || most < 12, "{most} in {bytes_max} bytes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunks_of_one_file_are_bounded_and_those_of_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let source = source(dir.path());
    for (chunks_of_file_max, is_reached) in [(1, false), (u64::MAX, true)] {
        let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
        *network.0.delay.lock() = Duration::from_millis(1);
        *network.0.faults.lock() = Faults { lost: 0.05, ..Faults::default() };
        let window = Some(Window::published(&Time::of_the_machine(), 2_000, 5));
        let options = CopyOptions { chunks_of_file_max, window, ..small() };
        let copy = target.recover(&network, &options).await;
        assert_eq!(copy.digest().unwrap(), source.digest());
        let most = |of: &AtomicUsize| of.load(Ordering::Relaxed);
        let seen = network.seen();
        assert!((2..=5).contains(&most(&seen.under_way_max)), "several files at once");
        assert_eq!(most(&seen.of_file_max) > 1, is_reached, "{chunks_of_file_max}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pace_holds_chunks_back_and_is_accounted_for() {
    let dir = tempfile::tempdir().unwrap();
    let source = source(dir.path());
    let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
    // Each chunk waits once.
    let (allowed, asked) = (Arc::new(AtomicU64::new(0)), AtomicUsize::new(0));
    let counted = Arc::clone(&allowed);
    let pace: Pace = Arc::new(move |bytes| {
        if asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            return Duration::from_millis(2);
        }
        counted.fetch_add(bytes, Ordering::Relaxed);
        Duration::ZERO
    });
    let copied = target.copy(&network, &CopyOptions { pace: Some(pace), ..small() }).await.unwrap();
    let status = target.status();
    assert_eq!(status.stage, Stage::Index);
    let chunks = network.seen().asked.load(Ordering::Relaxed) as u64;
    assert_eq!(status.throttled_ms, 2 * chunks);
    // To compare its rows is a part of that once more.
    let all = status.bytes_total;
    assert_eq!(allowed.load(Ordering::Relaxed), all + all / 32);
    copied.install(&resources(), LOG, false).unwrap();
    assert_eq!(open(&target.folders.replica).digest().unwrap(), source.digest());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_another_log_is_not_installed_and_the_old_replica_stays() {
    let dir = tempfile::tempdir().unwrap();
    let source = source(dir.path());
    let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
    let mut old = Source::new(&target.folders.replica, 9);
    old.grow(10, 10, true);
    let digest = old.digest();
    drop(old);
    let copied = target.copy(&network, &small()).await.unwrap();
    let refused = copied.install(&resources(), Incarnation(2), false);
    assert!(matches!(refused, Err(InstallError::OtherLog { found: LOG, .. })), "{refused:?}");
    assert_eq!(open(&target.folders.replica).digest().unwrap(), digest);
    let mut copied = target.copy(&network, &small()).await.unwrap();
    copied.lsn = Lsn(1000);
    let refused = copied.install(&resources(), LOG, false);
    assert!(matches!(refused, Err(InstallError::Misplaced { .. })), "{refused:?}");
    assert_eq!(open(&target.folders.replica).digest().unwrap(), digest);
    target.folders.delete().unwrap();
    assert!(!target.folders.incoming.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_of_an_older_version_is_copied_from() {
    let dir = tempfile::tempdir().unwrap();
    let source = source(dir.path());
    let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
    *network.0.is_old.lock() = true;
    network.0.answers_left.store(20, Ordering::Relaxed);
    assert!(!is_whole_before_stuck(&target, &network, &small()).await);
    network.take_bytes();
    drop(target.begin().await);
    let there = target.incoming_bytes();
    network.0.answers_left.store(usize::MAX, Ordering::Relaxed);
    let copy = target.recover(&network, &small()).await;
    assert_eq!(copy.digest().unwrap(), source.digest());
    drop(copy);
    assert!(there > 0);
    assert_eq!(network.take_bytes(), target.status().bytes_total - there, "it went on");
    // Upgraded, it is asked in the form of now, and has nothing that is not here.
    *network.0.is_old.lock() = false;
    drop(target.recover(&network, &small()).await);
    assert!(network.take_bytes() < target.status().bytes_total / 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_into_an_empty_folder_asks_for_no_checksums() {
    let dir = tempfile::tempdir().unwrap();
    let source = source(dir.path());
    let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
    let asked = || network.seen().checksums.load(Ordering::Relaxed);
    drop(target.copy(&network, &small()).await.unwrap());
    assert_eq!(asked(), 0);
    let first = network.take_bytes();
    drop(target.recover(&network, &small()).await);
    let compared = asked();
    assert!(compared > 0 && network.take_bytes() < first / 2, "what was whole is compared");
    drop(target.recover(&network, &small()).await);
    assert!(asked() > compared, "and so is an old replica");
}
