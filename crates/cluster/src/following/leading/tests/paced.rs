//! Files for followers beside a foreground of this node's own.

use plimsoll_base::Time;
use plimsoll_control::pacing::{CopyPacer, Foreground};
use plimsoll_control::{Class, Mode};

use super::files::{question, told};
use super::*;
use crate::pacing::Pacing;
use crate::wire::{Question, Reply};

/// Seconds in which searches here took so long.
fn seconds(pacing: &Pacing, pacer: &mut CopyPacer, mode: Mode, ms: &[u64]) {
    for ms in ms {
        let mut latencies_ns = [None; Class::COUNT];
        latencies_ns[Class::Search.slot()] = Some(ms * 1_000_000);
        pacing.step(pacer, Foreground { latencies_ns, is_asked: true }, mode);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_wait_beside_a_foreground_and_say_so() {
    let leader = Leader::open().await;
    leader.write(0..100, 100).await;
    let table = leader.table().await.incarnation;
    let pacing = Arc::new(Pacing::new(&Time::of_the_machine()));
    let leading = Leading::new(
        Arc::clone(&leader.shared().copies),
        Arc::clone(&pacing),
        Arc::clone(&leader.shared().snapshots),
    );
    let ask = |of: Question| {
        let (leading, question) = (&leading, question(&leader, of));
        async move { told(&leading.files("a", question, &|_| true).await) }
    };
    let partition = PartitionId { table, ordinal: 0 }.into();
    let (opened, _) = ask(Question::OpenCopy { partition }).await;
    let Reply::Copy { listing, .. } = opened else { panic!("{opened:?}") };
    let checkpoint = listing.number;
    let chunk = || Question::CopyChunk { checkpoint, file: 0, offset: 0, bytes_max: 1_000_000 };
    let held_ns = async |count: usize| {
        let mut all = 0;
        for _ in 0..count {
            let (reply, held_ns) = ask(chunk()).await;
            assert!(matches!(reply, Reply::CopyChunk { .. }), "{reply:?}");
            all += held_ns.unwrap_or(0);
        }
        all
    };
    let mut pacer = CopyPacer::default();
    assert_eq!(held_ns(20).await, 0, "nobody else asks for anything");
    seconds(&pacing, &mut pacer, Mode::On, &[10]);
    assert!(held_ns(2).await > 0);
    seconds(&pacing, &mut pacer, Mode::Shadow, &[10, 30]);
    assert_eq!(held_ns(20).await, 0, "nobody is held back in the shadow");
    seconds(&pacing, &mut pacer, Mode::Off, &[30]);
    assert_eq!(held_ns(20).await, 0);
    // Late for long, whatever is copied: it still goes on.
    seconds(&pacing, &mut pacer, Mode::On, &[10, 40, 40, 40, 40, 40, 40]);
    assert!(held_ns(2).await > 0);
    leading.stop();
}
