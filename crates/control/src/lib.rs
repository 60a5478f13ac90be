//! The controllers of the load line, as pure state machines: events and a time go in, decisions
//! come out. There is no clock, socket, thread, file or global here, so that the same code runs
//! in a node, in a test and in the simulator. Time is a `u64` of nanoseconds from any fixed start
//! (names end in `_ns`); chance comes from [`Random`], seeded by the caller.
//!
//! A coordinator has one [`selection::Selector`] for everything it sends, a node one
//! [`admission::Admission`] and one [`Meter`] for each pool of workers. A read, from both sides:
//!
//! ```
//! use plimsoll_control::admission::{Admission, AdmissionRule, Arrival, Tier};
//! use plimsoll_control::retry::{Retry, RetryBudget};
//! use plimsoll_control::selection::{
//!     Ask, Candidate, Failure, FailureKind, NodeId, Rule, Selector,
//! };
//! use plimsoll_control::{Class, Meter, Outside};
//!
//! const MS: u64 = 1_000_000;
//! let ask = Ask { class: Class::Get, partition: 3 };
//! let deadline_ns = 100 * MS;
//!
//! // The coordinator: which copy, and what goes out with the request.
//! let mut selector = Selector::new(Rule::default(), 42);
//! let mut retries = RetryBudget::new(0);
//! let mut copies = vec![Candidate::near(NodeId(0)), Candidate::near(NodeId(1))];
//! let at = selector.pick(0, ask, &copies).expect("there are copies");
//! let flight = selector.on_send(0, ask, copies[at].node);
//! retries.on_send();
//! // Nodes to ask for their load line, off the request's way; each answer goes to `on_probe`.
//! let mut probes = Vec::new();
//! selector.probes(0, ask, &copies, &mut probes);
//!
//! // The node: may it wait, who starts, what is the node's load.
//! let mut admission = Admission::new(AdmissionRule::default(), 8, 0);
//! let mut meter = Meter::new(7, 8);
//! let arrival = Arrival {
//!     id: 1,
//!     class: ask.class,
//!     tier: Tier::Interactive,
//!     cost_ns: meter.run_ns(ask.class),
//!     deadline_ns,
//!     alternatives: 1,
//!     rank: 0x5EED,
//! };
//! admission.offer(MS, arrival).expect("an idle node takes it; else the refusal is the answer");
//! let mut job = meter.arrive(MS, ask.class);
//! let mut given_up = Vec::new();
//! while let Some(started) = admission.next(MS, &mut given_up) {
//!     meter.start(MS, &mut job);
//!     // ... a worker runs it, until 3 ms ...
//!     meter.finish(3 * MS, job, true);
//!     admission.on_finish(3 * MS, &started, 2 * MS);
//! }
//! assert!(given_up.is_empty(), "these would be answered with their refusals");
//! let line = meter.line(3 * MS, admission.oldest_arrived_ns(), &Outside::default());
//!
//! // The coordinator again: the answer, with how long the node had it and the node's line.
//! selector.on_reply(4 * MS, flight, Some(2 * MS), Some(&line));
//!
//! // Another request, and this time no answer comes: perhaps another copy.
//! let at = selector.pick(5 * MS, ask, &copies).expect("there are copies");
//! let flight = selector.on_send(5 * MS, ask, copies[at].node);
//! retries.on_send();
//! let failure = Failure { kind: FailureKind::Unreachable, deadline_ns, line: None };
//! selector.on_failure(9 * MS, flight, &failure);
//! copies.remove(at);
//! let left_ns = deadline_ns - 4 * MS;
//! if retries.on_failure(9 * MS, failure.kind, copies.len(), left_ns) == Retry::Elsewhere {
//!     assert_eq!(selector.pick(9 * MS, ask, &copies), Some(0));
//! }
//! ```
//!
//! # What is checked, and by which test
//!
//! | check | test |
//! |---|---|
//! | a hung or failing copy has under 1 % after 1 s; 1, 3, 10, 50 coordinators | `copies::a_hung_or_failing_copy_gets_under_one_percent_after_a_second` |
//! | two of three copies bad | `copies::two_of_three_copies_gone_leave_the_third_in_charge` |
//! | a slow copy within a quarter of the best static weights | `copies::a_slow_copy_gets_about_what_the_best_static_weights_would_give` |
//! | a new or cold copy never over twice its fair share, never starved | `copies::a_new_copy_is_neither_flooded_nor_starved`, `selection::tests::a_cold_node_gets_enough_to_warm_up_and_a_slow_one_does_not` |
//! | a copy whose clock jumps | `selection::tests::a_copy_whose_clock_jumps_is_back_to_its_share_in_ten_seconds` |
//! | back within 10 s of healing | `copies::a_copy_that_heals_is_back_in_ten_seconds` |
//! | forgetting by time, not by decision | `selection::tests::forgetting_is_by_time_and_not_by_decision` |
//! | slower, busier, failing never ranks better | the properties at the head of `selection::tests` |
//! | the ramp from 0.75 to 1.74 | `copies::a_ramp_beyond_capacity_is_met_as_well_as_by_the_best_rule` |
//! | the step to 1.4: goodput, p99 of the admitted, settled in 100 ms | `admission::tests::a_step_to_1_4_of_capacity_costs_the_excess_and_not_the_rest` |
//! | limits do not drift upward in overload, and end with it | `admission::tests::overload_ends_with_its_cause` |
//! | hedges within 2 % even if all are late; retries within a fifth | `hedge::tests::hedges_stay_within_two_percent_even_if_all_requests_are_late`, `retry::tests::where_all_fail_retries_stay_within_a_fifth` |
//! | idle memory accounting is 0 | `breakers::tests::what_is_used_is_the_sum_of_what_is_held_and_idle_is_nothing` |
//! | the largest holder yields, the cluster's own work never | `breakers::tests::the_largest_overcommitter_yields_and_not_the_next_to_ask`, `the_clusters_own_work_is_neither_refused_nor_a_victim` |
//! | rows written together are flushed one by one | `flushing::tests::parts_that_were_written_together_are_flushed_one_by_one` |
//! | a write burst after a lull | `pacing::disk::tests::a_burst_after_a_long_lull_finds_the_full_rate` |
//! | the four controllers together | `controllers` in the lab's `experiments::tests`, and its experiment |
//!
//! The lab's experiments of the same names ask more, on more seeds and larger clusters.

pub mod admission;
pub mod average;
pub mod breakers;
pub mod compression;
pub mod flushing;
pub mod load_line;
mod mode;
pub mod pacing;
mod random;
pub mod retry;
pub mod selection;
pub mod transfer;

pub use load_line::{Class, Heard, Job, LoadLine, Meter, Outside};
pub use mode::{Mode, Switch};
pub use random::Random;

/// The word of today for a rule: `load_aware` was `ours` before, which settings still take.
#[must_use]
pub fn rule_of_today(name: &str) -> &str {
    if name == "ours" { "load_aware" } else { name }
}
