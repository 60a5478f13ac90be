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

pub mod admission;
pub mod average;
pub mod breakers;
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
