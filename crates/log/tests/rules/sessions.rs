//! A client's operations run once; fences settle those in doubt; memory has limits.

use bytes::Bytes;
use plimsoll_log::rules::WINDOW_MS;
use plimsoll_log::rules::sessions::{
    Outcome, RESULT_BYTES_MAX, RESULTS_BYTES_MAX, RESULTS_MAX, SessionState, Verdict,
};

const T: u64 = 1_000_000;

fn ran(state: &mut SessionState, number: u64, result: Bytes) {
    assert_eq!(state.admit(number, T, T), Verdict::Fresh);
    state.finish(number, result, T, T);
}

#[test]
fn a_fence_first_keeps_the_operation_from_running() {
    let mut state = SessionState::default();
    assert_eq!(state.fence(3, T, T), Verdict::Fresh);
    assert_eq!(state.admit(3, T, T), Verdict::Known(Outcome::Fenced));
    assert_eq!(state.fence(3, T, T), Verdict::Known(Outcome::Fenced));
    // What was passed over never runs either.
    assert_eq!(state.admit(2, T, T), Verdict::Superseded);
    assert_eq!(state.admit(4, T, T), Verdict::Fresh);
}

#[test]
fn an_operation_first_is_what_the_fence_learns() {
    let mut state = SessionState::default();
    ran(&mut state, 1, Bytes::from_static(b"one"));
    let known = Verdict::Known(Outcome::Ran(Bytes::from_static(b"one")));
    assert_eq!(state.fence(1, T, T), known);
    assert_eq!(state.admit(1, T, T), known);
}

#[test]
fn the_operation_zero_never_runs() {
    let mut state = SessionState::default();
    assert_eq!(state.admit(0, T, T), Verdict::Forgotten);
    assert_eq!(state.fence(0, T, T), Verdict::Forgotten);
}

#[test]
fn results_too_large_or_too_many_are_dropped_but_still_run_once() {
    let mut state = SessionState::default();
    ran(&mut state, 1, Bytes::from(vec![0; RESULT_BYTES_MAX + 1]));
    assert_eq!(state.admit(1, T, T), Verdict::Known(Outcome::RanUnkept));

    let full = (RESULTS_BYTES_MAX / RESULT_BYTES_MAX) as u64;
    for number in 2..=full + 2 {
        ran(&mut state, number, Bytes::from(vec![0; RESULT_BYTES_MAX]));
    }
    assert_eq!(state.outcomes().len() as u64, full);
    assert_eq!(state.admit(2, T, T), Verdict::Forgotten);
    assert_eq!(state.fence(1, T, T), Verdict::Forgotten);
    assert!(matches!(state.admit(3, T, T), Verdict::Known(_)));

    let last = state.last;
    for number in 1..=RESULTS_MAX as u64 + 1 {
        ran(&mut state, last + number, Bytes::new());
    }
    assert_eq!(state.outcomes().len(), RESULTS_MAX);
    assert_eq!(state.admit(last + 1, T, T), Verdict::Forgotten);
    assert!(matches!(state.admit(last + 2, T, T), Verdict::Known(_)));
}

#[test]
fn what_is_acknowledged_is_dropped_and_still_does_not_run() {
    let mut state = SessionState::default();
    for number in [1, 2, 5] {
        ran(&mut state, number, Bytes::from_static(b"r"));
    }
    state.acknowledge(2, T);
    assert_eq!(state.outcomes().len(), 1);
    assert_eq!(state.admit(2, T, T), Verdict::Forgotten);
    assert_eq!(state.admit(4, T, T), Verdict::Superseded);
    // More than was seen cannot be acknowledged.
    state.acknowledge(100, T);
    assert_eq!(state.admit(6, T, T), Verdict::Fresh);
}

#[test]
fn a_fence_after_the_window_does_not_pretend_to_know() {
    let mut state = SessionState::default();
    ran(&mut state, 1, Bytes::from_static(b"r"));
    let late = T + WINDOW_MS + 1;
    for mut state in [state, SessionState::default()] {
        assert_eq!(state.fence(1, T, late), Verdict::TooOld);
        assert_eq!(state.admit(1, T, late), Verdict::TooOld);
    }
}

#[test]
fn a_coordinator_ahead_of_log_time_is_remembered_until_its_stamp_is_too_old() {
    let ahead = T + 500;
    let settle = |fence: bool| {
        let mut state = SessionState::default();
        if fence {
            assert_eq!(state.fence(1, ahead, T), Verdict::Fresh);
        } else {
            state.finish(1, Bytes::new(), ahead, T);
        }
        state
    };
    for mut state in [settle(false), settle(true)] {
        for log_time_ms in T..=ahead + WINDOW_MS {
            assert!(!state.is_forgotten(log_time_ms));
        }
        assert!(matches!(state.admit(1, ahead, ahead + WINDOW_MS), Verdict::Known(_)));
        assert_eq!(state.admit(1, ahead, ahead + WINDOW_MS + 1), Verdict::TooOld);
    }
}

#[test]
fn a_session_due_to_be_forgotten_answers_as_a_forgotten_one() {
    let mut kept = SessionState::default();
    ran(&mut kept, 8, Bytes::from_static(b"r"));
    let mut deleted = SessionState::default();
    let late = T + WINDOW_MS + 1;
    for state in [&mut kept, &mut deleted] {
        state.acknowledge(8, late);
        assert_eq!(state.fence(7, late, late), Verdict::Fresh);
        assert_eq!(state.admit(8, late, late), Verdict::Fresh);
        state.finish(8, Bytes::new(), late, late);
    }
    assert_eq!(kept, deleted);
}

#[test]
fn a_state_put_together_from_its_parts_is_the_same() {
    let mut state = SessionState::default();
    ran(&mut state, 1, Bytes::from_static(b"gone"));
    ran(&mut state, 2, Bytes::from_static(b"kept"));
    assert_eq!(state.fence(9, T, T), Verdict::Fresh);
    state.acknowledge(1, T);
    let outcomes = state.outcomes().clone();
    let again = SessionState::from_parts(state.last, state.floor, state.seen_ms, outcomes);
    assert_eq!(again, state);
}
