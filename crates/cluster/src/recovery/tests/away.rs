//! Tests of a source that is away for a while: it is waited for, and gone on with at the byte.

use plimsoll_base::time::Instant;

use super::*;

/// Options by which `step` passes with every look at the clock, and the time that has passed.
fn by_clock(step: Duration) -> (CopyOptions, Arc<Mutex<Duration>>) {
    let passed = Arc::new(Mutex::new(Duration::ZERO));
    let clock = Arc::clone(&passed);
    let now: Now = Arc::new(move || {
        let mut passed = clock.lock();
        *passed += step;
        Instant::default() + *passed
    });
    let now = Some(now);
    (CopyOptions { now, away_max: Duration::from_secs(60), chunks_max: 1, ..small() }, passed)
}

fn source(dir: &Path) -> Source {
    let mut source = Source::new(dir, 3);
    source.grow(200, 100, true);
    source
}

const SILENT: Faults = Faults {
    unreachable: 1.0,
    lost: 0.0,
    cut: 0.0,
    damaged: 0.0,
    garbled: 0.0,
    late: 0.0,
    restarted: 0.0,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_is_cut_off_is_gone_on_with_at_the_byte() {
    let dir = tempfile::tempdir().unwrap();
    let source = source(dir.path());
    let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
    let (options, _) = by_clock(Duration::from_millis(1));
    let recovery = target.begin().await;
    let link = network.link();
    let copying = copy(&link, ID, &target.folders, &options, &recovery);
    let cutting = async {
        for chunks in [3, 6] {
            while network.seen().asked.load(Ordering::Relaxed) < chunks {
                tokio::task::yield_now().await;
            }
            *network.0.faults.lock() = SILENT;
            let calls = network.seen().calls.load(Ordering::Relaxed);
            // Far more often than a refusal would be heard.
            while network.seen().calls.load(Ordering::Relaxed) < calls + 50 {
                tokio::task::yield_now().await;
            }
            *network.0.faults.lock() = Faults::default();
        }
    };
    let (copied, ()) = tokio::join!(copying, cutting);
    assert_eq!(network.take_bytes(), recovery.status().bytes_total, "no byte came twice");
    assert_eq!(network.seen().opened.load(Ordering::Relaxed), 1, "of one checkpoint");
    copied.unwrap().install(&resources(), LOG, false).unwrap();
    assert_eq!(open(&target.folders.replica).digest().unwrap(), source.digest());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_stays_away_is_given_up_after_a_minute_and_what_came_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let source = source(dir.path());
    let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
    let (options, passed) = by_clock(Duration::from_secs(1));
    let recovery = target.begin().await;
    let link = network.link();
    let copying = copy(&link, ID, &target.folders, &options, &recovery);
    let cutting = async {
        while network.seen().asked.load(Ordering::Relaxed) < 3 {
            tokio::task::yield_now().await;
        }
        *network.0.faults.lock() = SILENT;
        (*passed.lock(), network.seen().calls.load(Ordering::Relaxed))
    };
    let (copied, (from, calls)) = tokio::join!(copying, cutting);
    let error = copied.err().unwrap();
    assert!(matches!(error, CopyError::GivenUp { .. }), "{error}");
    let waited = *passed.lock() - from;
    let minute = Duration::from_secs(60);
    assert!(waited >= minute - Duration::from_secs(2) && waited < 2 * minute, "{waited:?}");
    let asked = network.seen().calls.load(Ordering::Relaxed) - calls;
    assert!(asked > 2 * options.attempts_max as usize, "asked {asked} times");
    assert!(target.incoming_bytes() > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_never_gave_anything_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let source = source(dir.path());
    let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
    *network.0.faults.lock() = SILENT;
    let (options, _) = by_clock(Duration::ZERO);
    let error = target.copy(&network, &options).await.err().unwrap();
    assert!(matches!(error, CopyError::GivenUp { attempts: 6, .. }), "{error}");
    assert_eq!(network.seen().calls.load(Ordering::Relaxed), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_starts_and_does_not_serve_yet_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let source = source(dir.path());
    let (network, target) = (Network::new(source.replica.store(), 1), Target::new());
    let (options, _) = by_clock(Duration::from_millis(1));
    let recovery = target.begin().await;
    let link = network.link();
    let copying = copy(&link, ID, &target.folders, &options, &recovery);
    let starting = async {
        while network.seen().asked.load(Ordering::Relaxed) < 3 {
            tokio::task::yield_now().await;
        }
        *network.0.is_starting.lock() = true;
        network.restart();
        let calls = network.seen().calls.load(Ordering::Relaxed);
        while network.seen().calls.load(Ordering::Relaxed) < calls + 20 {
            tokio::task::yield_now().await;
        }
        *network.0.is_starting.lock() = false;
    };
    let (copied, ()) = tokio::join!(copying, starting);
    copied.unwrap().install(&resources(), LOG, false).unwrap();
    assert_eq!(open(&target.folders.replica).digest().unwrap(), source.digest());
    let opened = network.seen().opened.load(Ordering::Relaxed);
    assert!(opened > 10, "it was asked again and again: {opened}");
}
