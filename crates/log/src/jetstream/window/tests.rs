//! The window's promises: order, no silent second sending, unknown stays unknown.

use std::sync::Arc;

use parking_lot::Mutex;

use super::*;

type Outcomes = Arc<Mutex<Vec<(u8, Result<Lsn, AppendError>)>>>;

struct World {
    window: Window,
    outcomes: Outcomes,
    begin: Instant,
}

impl World {
    fn new(sent_max: usize) -> Self {
        let limits = Limits {
            queue_bytes_max: 3 * (APPEND_OVERHEAD_BYTES + 1),
            sent_bytes_max: 1 << 20,
            sent_max,
            timeout: Duration::from_secs(5),
        };
        Self { window: Window::new(limits), outcomes: Outcomes::default(), begin: Instant::now() }
    }

    fn at(&self, ms: u64) -> Instant {
        self.begin + Duration::from_millis(ms)
    }

    fn push(&mut self, name: u8, ms: u64) {
        let outcomes = Arc::clone(&self.outcomes);
        let done = Box::new(move |outcome| outcomes.lock().push((name, outcome)));
        let now = self.at(ms);
        if let Err(told) = self.window.push(Bytes::from(vec![name]), done, now) {
            tell(vec![told]);
        }
    }

    /// Sends all that may be sent: (number, name).
    fn send(&mut self, ms: u64) -> Vec<(u64, u8)> {
        let mut sent = Vec::new();
        while let Next::Send(number, record) = self.window.next(Lsn(10), self.at(ms)) {
            sent.push((number, record[0]));
        }
        sent
    }

    fn ack(&mut self, number: u64, lsn: u64, ms: u64) -> bool {
        let told = match self.window.acked(number, Lsn(lsn), self.at(ms)) {
            Acked::Done(told, ..) | Acked::Rewound(told, _) => told,
            Acked::Late => return false,
        };
        tell(vec![told]);
        tell(self.window.requeue_bounced(self.at(ms)));
        true
    }

    fn bounce(&mut self, number: u64, ms: u64) {
        tell(self.window.bounced(number, self.at(ms)));
    }

    fn tick(&mut self, ms: u64) {
        tell(self.window.tick(self.at(ms)));
    }

    /// What was told since the last look: a position, `r`efused or `u`nknown.
    fn told(&self) -> String {
        let shown = |(name, outcome): (u8, Result<Lsn, AppendError>)| match outcome {
            Ok(lsn) => format!("{name}@{lsn}"),
            Err(AppendError::Refused(_)) => format!("{name}r"),
            Err(AppendError::Unknown(_)) => format!("{name}u"),
        };
        std::mem::take(&mut *self.outcomes.lock())
            .into_iter()
            .map(shown)
            .collect::<Vec<_>>()
            .join(" ")
    }
}

fn tell(told: Vec<Told>) {
    told.into_iter().for_each(|(done, outcome)| done(outcome));
}

#[test]
fn no_more_is_sent_than_the_window_holds_and_no_more_waits_than_the_queue_holds() {
    let mut world = World::new(2);
    (1..=4).for_each(|name| world.push(name, 0));
    assert_eq!(world.told(), "4r");
    assert_eq!(world.send(0), [(1, 1), (2, 2)]);
    assert!(world.ack(1, 11, 1));
    assert_eq!(world.send(1), [(3, 3)]);
    assert!(world.ack(2, 12, 1) && world.ack(3, 13, 1));
    assert_eq!(world.told(), "1@11 2@12 3@13");
    assert_eq!(world.window.load(world.at(1)), (0, 0, Duration::ZERO));
}

#[test]
fn an_append_without_an_answer_is_unknown_and_is_not_sent_again() {
    let mut world = World::new(2);
    world.push(1, 0);
    assert_eq!(world.send(0), [(1, 1)]);
    world.tick(4_999);
    assert_eq!(world.told(), "");
    world.tick(5_000);
    assert_eq!(world.told(), "1u");
    assert_eq!(world.send(6_000), []);
    assert!(!world.ack(1, 11, 6_000), "the answer comes too late");
    assert_eq!(world.told(), "");
}

#[test]
fn what_nobody_took_is_sent_again_in_its_order_after_a_pause() {
    let mut world = World::new(3);
    (1..=3).for_each(|name| world.push(name, 0));
    assert_eq!(world.send(0), [(1, 1), (2, 2), (3, 3)]);
    world.bounce(2, 10);
    world.bounce(1, 10);
    assert_eq!(world.send(10), []);
    world.bounce(3, 10);
    assert_eq!(world.send(10), [], "the group has no leader");
    assert_eq!(world.send(100), [(4, 1), (5, 2), (6, 3)]);
    assert!(world.ack(4, 11, 110));
    assert_eq!(world.told(), "1@11");
}

#[test]
fn what_nobody_took_does_not_pass_what_was_sent_after_it() {
    let mut world = World::new(3);
    (1..=3).for_each(|name| world.push(name, 0));
    assert_eq!(world.send(0), [(1, 1), (2, 2), (3, 3)]);
    world.bounce(1, 10);
    world.bounce(3, 10);
    assert!(world.ack(2, 11, 20));
    assert_eq!(world.told(), "2@11 1r");
    assert_eq!(world.send(100), [(4, 3)]);
}

#[test]
fn one_that_is_unknown_may_stand_in_the_log_before_those_that_bounced() {
    let mut world = World::new(3);
    (1..=2).for_each(|name| world.push(name, 0));
    assert_eq!(world.send(0), [(1, 1), (2, 2)]);
    world.bounce(1, 4_000);
    world.tick(5_000);
    assert_eq!(world.told(), "2u 1r");
}

#[test]
fn a_group_without_a_leader_refuses_what_was_never_sent() {
    let mut world = World::new(1);
    world.push(1, 0);
    world.push(2, 3_000);
    let mut ms = 0;
    while world.told().is_empty() && ms < 10_000 {
        for (number, _) in world.send(ms) {
            world.bounce(number, ms);
        }
        world.tick(ms);
        ms += 100;
    }
    assert_eq!(ms, 5_100);
    assert_eq!(world.window.load(world.at(ms)).0, 1, "the second still has time");
}

#[test]
fn a_position_that_was_given_away_before_is_a_rewind() {
    let mut world = World::new(1);
    world.push(1, 0);
    assert_eq!(world.send(0), [(1, 1)]);
    let now = world.at(1);
    let Acked::Rewound(told, Lsn(10)) = world.window.acked(1, Lsn(10), now) else {
        panic!("no rewind");
    };
    tell(vec![told]);
    assert_eq!(world.told(), "1u");
}

#[test]
fn closing_leaves_what_was_sent_unknown_and_refuses_the_rest() {
    let mut world = World::new(1);
    world.push(1, 0);
    world.push(2, 0);
    assert_eq!(world.send(0), [(1, 1)]);
    tell(world.window.close("the log is closed"));
    world.push(3, 1);
    assert_eq!(world.told(), "1u 2r 3r");
}
