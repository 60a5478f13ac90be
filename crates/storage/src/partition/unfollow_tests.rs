//! Tests of the end of following: what there is stays, nothing goes back, and every replica of the
//! cluster does the same from there on.

use bytes::Bytes;
use plimsoll_log::record::Item;
use plimsoll_log::rules::WINDOW_MS;
use plimsoll_log::rules::sessions::Verdict;
use plimsoll_log::{Lsn, SessionId};
use proptest::prelude::*;

use super::following_tests::{Follower, Leaders, Step, command, step};
use super::*;
use crate::operation::Operation;
use crate::{ErrorKind, Reply};

/// The leader's clock is so far ahead.
const AHEAD_MS: u64 = 30_000;

fn operations(session: u64, first: u64, stamp_ms: u64, operations: &[Operation]) -> Item {
    Item::Operations {
        session: SessionId(session),
        first,
        acked: 0,
        stamp_ms,
        payloads: operations.iter().map(Operation::encode).collect::<Vec<Bytes>>(),
    }
}

fn run(leader: &mut Leaders, texts: &[&str]) {
    let operations = texts.iter().map(|text| command(text)).collect();
    leader.step(&Step::Run { lead: 0, skip: 0, session: 0, operations });
}

/// A follower that has all of its leader's history, and its own clock, which is behind.
fn followed(texts: &[&str], ahead_ms: u64) -> (Leaders, Follower, u64) {
    let mut leader = Leaders::new();
    let mut follower = Follower::new(&mut leader);
    for text in texts {
        run(&mut leader, &[text]);
    }
    let own_ms = leader.stamp_ms - ahead_ms;
    let last = leader.log.chain.position().lsn;
    follower.append(own_ms, vec![leader.batch(Lsn(0), last)]).unwrap();
    assert_eq!(follower.at(), last);
    (leader, follower, own_ms)
}

fn read_only(effect: &Effect) -> bool {
    matches!(effect, Effect::Ran(Reply::Error(error)) if error.kind == ErrorKind::ReadOnly)
}

fn nobody() -> Effect {
    Effect::Carried(Err(NotCarried::FollowsNobody))
}

fn ok() -> Effect {
    Effect::Ran(Reply::OK)
}

/// The same log, applied anew from what was flushed, one record at a time with a restart after each.
fn same_with_restarts(follower: &mut Follower) {
    let digest = follower.replica().digest().unwrap();
    let stamp = follower.replica().stamp();
    let times = (follower.replica().log_time_floor_ms(), follower.replica().log_time_ms());
    follower.restart_at_each();
    let replica = follower.replica();
    assert_eq!((replica.digest().unwrap(), replica.stamp()), (digest, stamp));
    assert_eq!((replica.log_time_floor_ms(), replica.log_time_ms()), times);
    assert_eq!(replica.leader(), None);
}

#[test]
fn what_comes_before_it_is_refused_and_what_comes_after_it_runs() {
    let (leader, mut follower, own_ms) = followed(&["SET a 1", "INCR n"], AHEAD_MS);
    let sequence = follower.replica().stamp().sequence;
    let carried = leader.batch(Lsn(1), Lsn(2));
    let items = vec![
        operations(9, 1, own_ms, &[command("SET a early")]),
        operations(10, 4, own_ms, &[command("SET a x"), Operation::Unfollow, command("INCR n")]),
        carried.clone(),
        operations(9, 2, own_ms, &[command("APPEND a 2"), Operation::Unfollow]),
        Item::Fence { session: SessionId(10), number: 9, stamp_ms: own_ms },
    ];
    let effects = follower.append(own_ms, items.clone()).unwrap();
    assert!(read_only(&effects[0]) && read_only(&effects[1]), "{effects:?}");
    let integer = |n| Effect::Ran(Reply::Integer(n));
    let rest = [ok(), integer(2), nobody(), integer(2), ok()];
    assert_eq!(effects[2..7], rest);
    assert_eq!(effects[7], Effect::Settled(Verdict::Fresh));
    let replica = follower.replica();
    assert_eq!(replica.leader(), None);
    assert_eq!(leader_of(replica.store()).unwrap(), None);
    assert_eq!(replica.stamp().sequence, sequence + 2, "it goes on");
    assert_eq!(replica.log_time_floor_ms(), leader.stamp_ms);
    assert_eq!(replica.log_time_ms(), leader.stamp_ms);
    // Once more: each is known, and nothing runs again. What was refused is not known.
    let again = vec![items[1].clone(), items[3].clone(), carried];
    let effects = follower.append(own_ms, again).unwrap();
    assert!(matches!(effects[0], Effect::Settled(_)), "{effects:?}");
    for known in &effects[1..5] {
        assert!(matches!(known, Effect::Settled(Verdict::Known(_))), "{effects:?}");
    }
    assert_eq!(effects[5], nobody());
    let effects =
        follower.append(own_ms, vec![operations(11, 1, own_ms, &[Operation::Unfollow])]).unwrap();
    assert_eq!(effects, [ok()]);
    same_with_restarts(&mut follower);
}

#[test]
fn a_fence_before_it_promises_nothing_because_the_operation_may_run_after_it() {
    let (_leader, mut follower, own_ms) = followed(&["SET a 1"], AHEAD_MS);
    let fence = Item::Fence { session: SessionId(9), number: 1, stamp_ms: own_ms };
    let effects = follower.append(own_ms, vec![fence.clone()]).unwrap();
    assert_eq!(effects, [Effect::Settled(Verdict::Forgotten)]);
    let unfollow = operations(10, 1, own_ms, &[Operation::Unfollow]);
    let effects = follower.append(own_ms, vec![fence, unfollow]).unwrap();
    assert_eq!(effects, [Effect::Settled(Verdict::Forgotten), ok()]);
    let late = operations(9, 1, own_ms, &[command("INCR a")]);
    let effects = follower.append(own_ms, vec![late]).unwrap();
    assert_eq!(effects, [Effect::Ran(Reply::Integer(2))]);
    same_with_restarts(&mut follower);
}

#[test]
fn a_leader_takes_it_for_nothing_and_so_does_who_follows_that_leader() {
    let mut leader = Leaders::new();
    let mut follower = Follower::new(&mut leader);
    for operation in [command("SET a 1"), Operation::Unfollow, command("SET b 1")] {
        let operations = vec![operation];
        leader.step(&Step::Run { lead: 0, skip: 0, session: 0, operations });
    }
    assert_eq!(leader.replica.log_time_floor_ms(), 0);
    follower.append(leader.stamp_ms, vec![leader.batch(Lsn(0), Lsn(3))]).unwrap();
    assert_eq!(follower.content(), leader.contents[&Lsn(3)]);
    assert_eq!(follower.at(), Lsn(3), "it still follows");
}

#[test]
fn what_has_expired_at_the_leader_does_not_come_back() {
    let (mut leader, mut follower, _) = followed(&["SET a 1 PX 700", "SET b 1 PX 5000"], 0);
    leader.step(&Step::Pass(1000));
    run(&mut leader, &["SET c 1"]);
    let mut own_ms = leader.stamp_ms - AHEAD_MS;
    follower.append(own_ms, vec![leader.batch(Lsn(2), Lsn(3))]).unwrap();
    follower.append(own_ms, vec![operations(9, 1, own_ms, &[Operation::Unfollow])]).unwrap();
    let floor_ms = leader.stamp_ms;
    assert_eq!(follower.replica().log_time_floor_ms(), floor_ms);
    let mut number = 1;
    let mut ask = |follower: &mut Follower, own_ms: u64, text: &str| {
        number += 1;
        let item = operations(9, number, own_ms, &[command(text)]);
        let Effect::Ran(reply) = follower.append(own_ms, vec![item]).unwrap().remove(0) else {
            panic!("it did not run: {text}")
        };
        reply
    };
    let integer = Reply::Integer;
    assert_eq!(ask(&mut follower, own_ms, "APPEND a x"), integer(1), "it was gone");
    assert_eq!(ask(&mut follower, own_ms, "APPEND b x"), integer(2));
    // What is to stay for a while stays so long from the floor on.
    assert_eq!(ask(&mut follower, own_ms, "SET d 1 PX 400"), Reply::OK);
    assert_eq!(ask(&mut follower, own_ms + 500, "APPEND d x"), integer(2));
    own_ms = floor_ms + 399;
    assert_eq!(ask(&mut follower, own_ms, "APPEND d x"), integer(3));
    same_with_restarts(&mut follower);
    own_ms = floor_ms + 401;
    assert_eq!(ask(&mut follower, own_ms, "APPEND d x"), integer(1));
    assert_eq!(follower.replica().log_time_ms(), own_ms);
    assert_eq!(follower.replica().log_time_floor_ms(), floor_ms, "until the next forget");
    own_ms = floor_ms + 61_000;
    assert_eq!(ask(&mut follower, own_ms, "APPEND b x"), integer(1));
    assert_eq!(follower.replica().log_time_floor_ms(), 0);
    same_with_restarts(&mut follower);
}

#[test]
fn sessions_and_leads_of_this_cluster_are_known_however_far_the_leader_was_ahead() {
    for ahead_ms in [AHEAD_MS, 3 * WINDOW_MS] {
        let (leader, mut follower, own_ms) = followed(&["SET a 1"], ahead_ms);
        let floor_ms = leader.stamp_ms;
        let append = |follower: &mut Follower, own_ms: u64, number: u64, stamp_ms: u64| {
            let item = operations(9, number, stamp_ms, &[command("INCR n")]);
            follower.append(own_ms, vec![item]).unwrap().remove(0)
        };
        let unfollow = operations(9, 1, own_ms, &[Operation::Unfollow]);
        assert_eq!(follower.append(own_ms, vec![unfollow]).unwrap(), [ok()]);
        let ran = |n| Effect::Ran(Reply::Integer(n));
        assert_eq!(append(&mut follower, own_ms, 2, own_ms), ran(1));
        assert_eq!(append(&mut follower, own_ms + 5, 3, own_ms - 1), ran(2));
        let known = append(&mut follower, own_ms + WINDOW_MS, 2, own_ms);
        assert!(matches!(known, Effect::Settled(Verdict::Known(_))), "{known:?}");
        // The session is known for a window after the floor, and then too old.
        let last_ms = floor_ms + WINDOW_MS;
        let known = append(&mut follower, last_ms, 2, own_ms);
        assert!(matches!(known, Effect::Settled(Verdict::Known(_) | Verdict::TooOld)), "{known:?}");
        let too_old = append(&mut follower, last_ms + 61_001, 2, own_ms);
        assert_eq!(too_old, Effect::Settled(Verdict::TooOld));
        let late_ms = last_ms + 61_002;
        assert_eq!(append(&mut follower, late_ms, 4, late_ms), ran(3), "a session begun anew");
        same_with_restarts(&mut follower);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn two_replicas_do_the_same_whichever_restarts(
        history in prop::collection::vec(step(), 1..20),
        taken in 0u64..20,
        ahead_ms in prop_oneof![Just(0), Just(AHEAD_MS), Just(2 * WINDOW_MS)],
        own in prop::collection::vec((0u64..3, step()), 1..20),
        restarts in prop::collection::vec(any::<bool>(), 20),
    ) {
        let mut leader = Leaders::new();
        let mut follower = Follower::new(&mut leader);
        history.iter().for_each(|step| leader.step(step));
        let last = leader.log.chain.position().lsn.0;
        let mut own_ms = leader.stamp_ms - ahead_ms;
        if last > 0 {
            follower.append(own_ms, vec![leader.batch(Lsn(0), Lsn(last.min(1 + taken)))]).unwrap();
        }
        let before = (follower.replica().stamp(), follower.replica().log_time_ms());
        let unfollow = operations(70, 1, own_ms, &[Operation::Unfollow]);
        follower.append(own_ms, vec![unfollow]).unwrap();
        prop_assert_eq!(follower.replica().leader(), None);
        let mut last = before;
        let mut numbers = [0; 3];
        for (at, (session, step)) in own.iter().enumerate() {
            match step {
                Step::Pass(ms) => own_ms += ms,
                Step::Run { operations: of, .. } => {
                    let number = &mut numbers[usize::try_from(*session).unwrap()];
                    let item = operations(80 + session, *number + 1, own_ms, of);
                    *number += of.len() as u64;
                    for effect in follower.append(own_ms, vec![item]).unwrap() {
                        prop_assert!(matches!(effect, Effect::Ran(_)), "{:?}", effect);
                    }
                }
                _ => {}
            }
            if restarts[at] {
                follower.replica().mark().unwrap();
                follower.replica().store().flush().unwrap();
            } else {
                follower.restart();
            }
            let now = (follower.replica().stamp(), follower.replica().log_time_ms());
            prop_assert!(now.0.sequence >= last.0.sequence && now.1 >= last.1, "nothing goes back");
            last = now;
        }
        same_with_restarts(&mut follower);
    }
}
