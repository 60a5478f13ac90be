//! The lanes as the law sets them.

use plimsoll_control::Class;

use super::*;

fn felt(ms: u64) -> Foreground {
    let mut latencies_ns = [None; Class::COUNT];
    latencies_ns[Class::Write.slot()] = Some(ms * 1_000_000);
    Foreground { latencies_ns, is_asked: true }
}

#[test]
fn all_kinds_of_work_make_way_and_what_is_urgent_does_not() {
    let (pacing, mut pacer) = (Pacing::new(&Time::of_the_machine()), CopyPacer::default());
    let is_held = |lane: &Lane| {
        lane.add(10_000_000);
        !lane.wait().is_zero()
    };
    let lanes = [&pacing.copies, &pacing.files, &pacing.records];
    pacing.step(&mut pacer, Foreground::default(), Mode::On);
    assert_eq!(lanes.map(is_held), [false; 3], "nobody asks for anything");
    pacing.step(&mut pacer, felt(1), Mode::On);
    assert_eq!(lanes.map(is_held), [true; 3]);
    assert_eq!(lanes.map(|lane| lane.bounds()), [true; 3]);
    pacing.hasten(1.0);
    pacing.step(&mut pacer, felt(1), Mode::On);
    assert_eq!(lanes.map(is_held), [true, true, false]);
    for mode in [Mode::Shadow, Mode::Off] {
        pacing.step(&mut pacer, felt(1), mode);
        assert_eq!(lanes.map(is_held), [false; 3], "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_is_let_through_in_the_end() {
    let lane = Lane::new(Time::of_the_machine());
    let hour = Duration::from_secs(3600);
    assert_eq!(lane.pass(1 << 30, hour).await, Duration::ZERO);
    lane.set(Some(1), true);
    lane.add(1 << 20);
    let at_most = Duration::from_millis(20);
    assert!(lane.pass(100, at_most).await >= at_most);
    assert_eq!(lane.take_begun(), (1 << 30) + (1 << 20) + 100);
}
