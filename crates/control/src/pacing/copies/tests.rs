//! Seconds of a node whose foreground is slowed by its background beyond some rate.

use proptest::prelude::*;

use super::*;

const MB: f64 = 1e6;
const MS: f64 = 1e6;
const LINK: f64 = 12.5 * MB;

/// A node: what its clients feel while so many bytes are copied in a second, ns; none while nobody asks.
struct Node<F> {
    pacer: CopyPacer,
    felt_ns: F,
    link: f64,
    second: u32,
}

impl<F: Fn(u32, f64) -> Option<f64>> Node<F> {
    fn new(felt_ns: F) -> Self {
        Self { pacer: CopyPacer::default(), felt_ns, link: LINK, second: 0 }
    }

    /// The node at rest for a minute before.
    fn rested(felt_ns: F) -> Self {
        let mut node = Self::new(felt_ns);
        node.link = 0.0;
        for _ in 0..60 {
            node.second = 0;
            node.run(1);
        }
        Self { link: LINK, second: 0, ..node }
    }

    /// What was copied in each of so many seconds, and how late the foreground was.
    fn run(&mut self, seconds: u32) -> Vec<(f64, Option<f64>)> {
        let mut all = Vec::new();
        for _ in 0..seconds {
            let done = self.pacer.rate.unwrap_or(f64::INFINITY).min(self.link);
            let felt_ns = (self.felt_ns)(self.second, done);
            all.push((done, felt_ns));
            let foreground = felt(Class::Search, felt_ns.map(whole));
            self.pacer.step(&Second { foreground, background_bytes: whole(done) });
            self.second += 1;
        }
        all
    }
}

fn felt(class: Class, latency_ns: Option<u64>) -> Foreground {
    let mut latencies_ns = [None; Class::COUNT];
    latencies_ns[class.slot()] = latency_ns;
    Foreground { latencies_ns, is_asked: latency_ns.is_some() }
}

fn mean(seconds: &[(f64, Option<f64>)]) -> f64 {
    seconds.iter().map(|(done, _)| done).sum::<f64>() / seconds.len() as f64
}

/// 10 ms up to a rate, and four times as much more at twice that.
fn beyond(knee: f64) -> impl Fn(u32, f64) -> Option<f64> {
    move |_, done| Some(10.0 * MS * (1.0 + 4.0 * (done / knee - 1.0).max(0.0)))
}

#[test]
fn a_copy_alone_is_never_held_back() {
    let mut node = Node::rested(|_, _| None);
    assert!(node.run(600).iter().all(|(done, _)| *done == LINK));
    assert_eq!(node.pacer.rate, None);
}

#[test]
fn a_foreground_that_does_not_feel_it_costs_a_few_seconds_at_the_start() {
    let mut node = Node::rested(|second, _| Some(10.0 * MS * (1.0 + 0.1 * f64::from(second % 3))));
    let seconds = node.run(120);
    assert!(seconds[..5].iter().any(|(done, _)| *done < LINK));
    assert!(seconds[5..].iter().all(|(done, _)| *done == LINK), "{seconds:?}");
}

#[test]
fn what_varies_anyway_is_no_lateness() {
    // Whatever is copied, from 7 to 13 ms, and now and then twice as much.
    let felt = |second: u32, _| {
        let part = f64::from(second.wrapping_mul(2_654_435_761) >> 16) / f64::from(1 << 16);
        Some(MS * if second % 50 == 17 { 20.0 } else { 7.0 + 6.0 * part })
    };
    let mut node = Node::new(felt);
    node.link = 0.0;
    node.run(60);
    node.link = LINK;
    let rate = mean(&node.run(600));
    assert!(rate > 0.8 * LINK, "{rate}");
}

#[test]
fn requests_too_few_to_say_anything_hold_back_little() {
    let mut pacer = CopyPacer::default();
    let foreground = Foreground { is_asked: true, ..Foreground::default() };
    let mut rate = 0;
    for _ in 0..8 {
        let background_bytes = rate.min(whole(LINK));
        rate = pacer.step(&Second { foreground, background_bytes }).expect("there is somebody");
    }
    assert!(rate as f64 > LINK, "{rate}");
}

#[test]
fn a_foreground_that_feels_it_is_seldom_late() {
    for knee in [2.5, 4.0, 7.0, 11.0] {
        let mut node = Node::rested(beyond(knee * MB));
        let seconds = node.run(300);
        let late = seconds.iter().filter(|(_, felt)| felt.unwrap() > 15.0 * MS).count();
        assert!(late < 10, "{knee}: {late} of 300 seconds");
        let rate = mean(&seconds);
        assert!(rate > 0.6 * knee * MB, "{knee}: {rate}");
    }
}

#[test]
fn a_foreground_that_comes_later_is_known_after_a_quiet_second() {
    let slow = beyond(4.0 * MB);
    let mut node =
        Node::rested(move |second, done| (second >= 60).then(|| slow(second, done)).flatten());
    assert!(node.run(60).iter().all(|(done, _)| *done == LINK));
    let seconds = node.run(60);
    let late = seconds.iter().filter(|(_, felt)| felt.unwrap() > 15.0 * MS).count();
    assert!(late < 6, "{late} of 60 seconds");
    assert!(mean(&seconds) > 2.0 * MB);
}

#[test]
fn lateness_with_another_cause_stops_nothing_for_good() {
    // Three times as slow from second 30 on, whatever is copied.
    let slow = |second: u32, _| Some(if second < 30 { 10.0 * MS } else { 30.0 * MS });
    let seconds = Node::rested(slow).run(120);
    assert!(seconds.iter().all(|(done, _)| *done >= QUIET_BYTES_S));
    assert!(seconds[60..].iter().all(|(done, _)| *done == LINK), "{:?}", &seconds[30..60]);
}

#[test]
fn lateness_that_comes_and_goes_slows_it_only_meanwhile() {
    let slow = |second: u32, _| Some(if second % 20 == 7 { 40.0 * MS } else { 10.0 * MS });
    let rate = mean(&Node::rested(slow).run(300));
    assert!(rate > 0.5 * LINK, "{rate}");
}

#[test]
fn slow_work_never_calls_its_own_lateness_usual() {
    // A third more from 2 MB/s on, for ten minutes: not fine, and not late.
    let felt = |_, done| Some(10.0 * MS * if done > 2.0 * MB { 1.35 } else { 1.0 });
    let mut node = Node::rested(felt);
    node.run(600);
    let usual = node.pacer.usual[Class::Search.slot()].unwrap();
    assert!(usual.ns < 10.5 * MS, "{usual:?}");
}

#[test]
fn a_foreground_that_is_slower_than_it_was_is_looked_at_anew() {
    // 1.4 times as slow as in the minute before, with any other cause.
    let slow = |second: u32, _| Some(if second < 30 { 10.0 * MS } else { 14.0 * MS });
    let mut node = Node::rested(slow);
    node.link = 100.0 * MB;
    node.run(300);
    let usual = node.pacer.usual[Class::Search.slot()].unwrap();
    assert!(usual.ns > 12.0 * MS, "{usual:?}");
}

#[test]
fn what_is_urgent_is_hastened_up_to_no_limit() {
    let minute = 60_000;
    assert_eq!((urgency(minute, 0.5), urgency(10 * minute, 0.0), urgency(0, 0.9)), (0.0, 1.0, 1.0));
    assert_eq!(hastened(Some(1_000), 0.0), Some(1_000));
    assert_eq!(hastened(Some(1_000), 0.75), Some(4_000));
    assert_eq!((hastened(Some(1_000), 1.0), hastened(None, 0.0)), (None, None));
}

proptest! {
    #[test]
    fn whatever_is_felt_the_rate_stays_between_its_bounds(
        seconds in prop::collection::vec((prop::option::of(1u64..u64::MAX), 0u64..1 << 40), 1..200),
    ) {
        let mut pacer = CopyPacer::default();
        let mut done = VecDeque::from([0u64; OF_LATE]);
        for (felt_ns, background_bytes) in seconds {
            done.pop_front();
            done.push_back(background_bytes);
            let foreground = felt(Class::Write, felt_ns);
            let rate = pacer.step(&Second { foreground, background_bytes });
            let most = done.iter().max().map_or(0.0, |most| *most as f64);
            if let Some(rate) = rate {
                prop_assert!(rate as f64 >= QUIET_BYTES_S && rate as f64 <= (AHEAD * most + 1.0).max(QUIET_BYTES_S));
            }
        }
    }
}
